#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# benches/iosched/database.sh OUT [KERNEL...]: does a database keep its speed while a low-priority reader reads the whole
# disk? MariaDB and PostgreSQL in guests with a virtual clock (as table.sh), on models of disks, under each scheduler.
# Takes root (debootstrap), 2.5 GB of memory and, for all cells of a kernel, about an hour. OUT/cells.tsv is added to.
# MODELS="hdd ssd" (or ssd4, see guests.sh), WORKLOADS="points:1 points:8 select:4 tpcb:4" (kind:clients), SCHEDULERS="none:none ..."
# (scheduler:class of the reader), CELLS="alone mixed control" (hdd: no control, the
# processor is idle there), SECONDS_HDD=20, SECONDS_SSD=5, LOW_DEPTH=32 narrow it; KNOBS="idle_dispatch_interval=50000 ..."
# sets lp-deadline's; RESUME=1 leaves out the guests (kernel, workload, model) that OUT has.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/guests.sh"
TIMEOUT=${TIMEOUT:-5400}
begin database "$@"
shift
images=${CARGO_TARGET_DIR:-$root/target}/vm/database
GUEST_MB=1536,slots=2,maxmem=8G
# Where QEMU may put memory that is added, with less than 3 GB of other.
TABLES_AT=0x100000000
PROGRAMS_AT=0x140000000
. "$here/database-images.sh"

mkdir -p "$images"
programs || die "$reason"
[ $# -gt 0 ] || set -- 6.1
for kernel in "$@"; do
	ready "$kernel"
	for workload in ${WORKLOADS-points:1 points:8 select:4 tpcb:4}; do
		case $workload in
		points:*) server=mariadb ;;
		select:* | tpcb:*) server=postgresql ;;
		*) die "no workload $workload: there are points:N, select:N and tpcb:N, for N clients" ;;
		esac
		tables $server || die "$reason"
		for model in ${MODELS-hdd ssd}; do
			name=$kernel-$model-${workload/:/-}
			if [ -n "${RESUME:-}" ] && [ -e "$out/raw/$name/done" ]; then
				echo "database: $name is in $out, left out" >&2
				continue
			fi
			knobs=${KNOBS:-}
			disk_of "$model"
			case $model in
			hdd) low_kb=512 seconds=${SECONDS_HDD:-20} cells="alone mixed" ;;
			ssd4)
				low_kb=128 seconds=$((4 * ${SECONDS_SSD:-5})) cells="alone mixed control"
				knobs="idle_dispatch_interval=1600 $knobs"
				;;
			*) low_kb=128 seconds=${SECONDS_SSD:-5} cells="alone mixed control" ;;
			esac
			cat >"$work/cells.conf" <<-END
				MODEL=$model
				DISK="$disk"
				WORKLOAD=$workload
				CELLS="${CELLS:-$cells}"
				SCHEDULERS="${SCHEDULERS:-none:none mq-deadline:none mq-deadline:idle bfq:idle lp-deadline:idle}"
				KNOBS="$knobs"
				SECONDS_EACH=$seconds
				LOW_KB=$low_kb
				LOW_DEPTH=${LOW_DEPTH:-32}
				DISK_MB=$DISK_MB
				TABLES_AT=$TABLES_AT
				PROGRAMS_AT=$PROGRAMS_AT
				ROWS=$ROWS
			END
			echo "database: $name, $(date +%T)" >&2
			# Tables and programs are memory of the guest (private mappings): it never waits for them in the host's time.
			GUEST_OPTIONS=(-machine "pc,nvdimm=on"
				-object "memory-backend-file,id=tables,share=off,mem-path=$images/$server.img,size=${DISK_MB}M"
				-object "memory-backend-file,id=programs,share=off,mem-path=$images/programs.img,size=${DISK_MB}M"
				-device "nvdimm,memdev=tables,addr=$TABLES_AT" -device "nvdimm,memdev=programs,addr=$PROGRAMS_AT")
			guest "$kernel" "$here/database-cells" "$work/$name" virtual "$work/cells.conf" ||
				die "the guest $name did not end: $(cat "$work/$name/qemu") $(tail -n 2 "$work/$name/console")"
			mkdir -p "$out/raw/$name"
			cp -r "$work/$name/raw/." "$out/raw/$name/"
			cp "$work/$name/console" "$out/raw/$name/"
			[ -s "$work/$name/cells.tsv" ] || die "the guest $name measured nothing: see $out/raw/$name/console"
			sed "s/^/$(cat "$cache/$kernel/release")\t/" "$work/$name/cells.tsv" >>"$out/cells.tsv"
			touch "$out/raw/$name/done"
		done
	done
done
