#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# benches/iosched/table.sh OUT [KERNEL...]: I/O schedulers beside each other, in guests with a virtual clock: figures do
# not depend on this machine's load or speed. One guest after the other; a kernel's table takes half an hour.
# MODELS="hdd ssd ssd4" (or sata), SCHEDULERS="none:none mq-deadline:idle ...", LOADS="think0:read,0,1:read,32 ..." (see cells),
# MS_EACH=6000 narrow it; MAX_KB=1280 is the disk's longest request instead of 128 KiB; PREEMPT=full has the kernel give up the processor
# to whoever wakes at once, instead of as it was built.
set -euo pipefail

loads="think0:read,0,1:read,32 think1:read,1,1:read,32 think10:read,10,1:read,32 depth32:read,0,32:read,32
	sync:sync,1,1:read,32 lowsync:read,1,1:sync,1 lowsync10:read,10,1:sync,1 bothsync:sync,1,1:sync,1
	bothsync10:sync,10,1:sync,1"

. "$(dirname "${BASH_SOURCE[0]}")/guests.sh"
begin table "$@"
shift
files=()
bring "$(command -v addpart)"
[ $# -gt 0 ] || set -- 6.1
for kernel in "$@"; do
	ready "$kernel"
	for model in ${MODELS-hdd ssd ssd4}; do
		disk_of "$model"
		case $model in
		ssd4) ms=6400 ;;
		ssd) ms=400 ;;
		# On sata as long as it takes to learn the interval.
		*) ms=10000 ;;
		esac
		cat >"$work/cells.conf" <<-END
			MODEL=$model
			DISK="$disk"
			MAX_KB=${MAX_KB:-128}
			PREEMPT=${PREEMPT:-}
			MS_EACH=${MS_EACH:-$ms}
			SCHEDULERS="${SCHEDULERS:-none:none mq-deadline:none mq-deadline:idle bfq:idle kyber:idle none:io.max none:io.cost lp-deadline:paper lp-deadline:idle lp-deadline:strict}"
			LOADS="$(echo ${LOADS:-$loads})"
		END
		echo "table: $kernel $model, $(date +%T)" >&2
		guest "$kernel" "$here/cells" "$work/$kernel-$model" virtual "$work/cells.conf" "${files[@]}" ||
			die "the guest of $kernel, $model did not end: $(tail -n 2 "$work/$kernel-$model/console")"
		sed "s/^/$(cat "$cache/$kernel/release")\t/" "$work/$kernel-$model/cells.tsv" >>"$out/cells.tsv"
		mkdir -p "$out/raw/$kernel-$model"
		cp -r "$work/$kernel-$model/raw/." "$out/raw/$kernel-$model/"
	done
	if [ -z "${NO_INSTRUCTIONS:-}" ]; then
		echo "table: $kernel instructions, $(date +%T)" >&2
		guest "$kernel" "$here/instructions" "$work/$kernel-instructions" virtual ||
			die "the guest of $kernel, instructions, did not end"
		sed "s/^/$(cat "$cache/$kernel/release")\t/" "$work/$kernel-instructions/instructions.tsv" >>"$out/instructions.tsv"
	fi
done
