#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# benches/iosched/replay.sh OUT: a mixed load is recorded in a guest behind mq-deadline, and the recording is done again
# in the simulator behind mq-deadline and behind lp-deadline: against what the guest itself showed behind both.
# MODELS="hdd ssd", SECONDS_EACH=10 narrow it; GUESTS=DIR takes what guests left there in an earlier OUT;
# RECORDER=target/debug/plumb records, PLUMB=target/debug/plumb simulates.
set -euo pipefail

if [ $# -ne 1 ]; then
	echo "replay: give the directory for the results: benches/iosched/replay.sh OUT" >&2
	exit 2
fi
mkdir -p "$1"
out=$(realpath "$1")
[ -z "${GUESTS:-}" ] || GUESTS=$(realpath "$GUESTS")
cd "$(dirname "${BASH_SOURCE[0]}")"
here=$PWD
root=$(realpath ../..)
export PATH="$PATH:/usr/sbin:/sbin"
cache=${CARGO_TARGET_DIR:-$root/target}/vm/module
plumb=${PLUMB:-$root/target/debug/plumb}
TIMEOUT=3000
reason=
kernel=6.1
. "$root/tests/vm/guest.sh"
. "$root/tests/vm/kbuild.sh"
. "$root/tests/vm/module-guest.sh"

die() {
	echo "replay: $*" >&2
	exit 1
}

disk_of() {
	case $1 in
	hdd) disk="channels=1 depth=32 fixed_ns=100000 ns_per_kb=6667 seek_ns=1000000 seek_span_ns=14000000 rotation_ns=8333333" think=10 ;;
	ssd) disk="channels=8 depth=256 fixed_ns=80000 ns_per_kb=16000" think=1 ;;
	*) die "no model is called $1; there are hdd and ssd" ;;
	esac
	depth=$(sed 's/.* depth=\([0-9]*\).*/\1/' <<<"$disk")
}

in_guest() { # MODEL
	local from pattern library files=("$work/replay.conf" "$work/plumb")
	read -r _ from pattern < <(grep "^$kernel " "$root/tests/vm/module-kernels")
	fetch_fio && fetch_kernel "$kernel" "$from" "$pattern" && compile "$kernel" "$from" || die "$reason"
	strip -o "$work/plumb" "${RECORDER:-$plumb}"
	while read -r library; do files+=("$(realpath "$library")" "$library"); done < \
		<(ldd "$work/plumb" | sed -n 's|.* => \(/[^ ]*\).*|\1|p')
	printf 'DISK="%s"\nTHINK_MS=%s\nSECONDS_EACH=%s\n' "$disk" "$think" "${SECONDS_EACH:-10}" >"$work/replay.conf"
	echo "replay: guest, $1, $(date +%T)" >&2
	guest "$kernel" "$here/replay-guest" "$out/guest/$1" virtual "${files[@]}" ||
		die "the guest of $1 did not end: $(tail -n 2 "$out/guest/$1/console")"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "${GUESTS:-}" ]; then
	[ "$GUESTS" = "$out/guest" ] || cp -r "$GUESTS" "$out/guest"
else
	mkdir -p "$out/guest"
	for model in ${MODELS:-hdd ssd}; do
		disk_of "$model"
		in_guest "$model"
	done
fi
printf 'model\tscheduler\tfigure\tsimulated\tguest\tratio\n' >"$out/replay.tsv"
for model in ${MODELS:-hdd ssd}; do
	disk_of "$model"
	for scheduler in mq-deadline lp-deadline; do
		"$plumb" sim "$here/$model.toml" --disk-size 512M --from "$out/guest/$model/trace" --scheduler "$scheduler" \
			--nr-requests 64 --depth-of-device "$depth" --max-request 128K --json >"$out/$model-$scheduler.json"
		# The recorded run is what mq-deadline is held against; nothing of lp-deadline was recorded.
		run=$scheduler
		[ "$scheduler" != mq-deadline ] || run=recorded
		jq -r '.steps[0].classes | (map(select(.class == "normal"))[0]) as $n | (map(select(.class == "idle"))[0]) as $i
			| [$n.rate, $n.q2c.p50 / 1000, $n.q2c.p99 / 1000, $i.bandwidth / 1e6] | @tsv' "$out/$model-$scheduler.json" |
			awk -v OFS='\t' -v model="$model" -v scheduler="$scheduler" -v run="$run" '
				FILENAME == "-" { split($0, sim, "\t"); next }
				$1 == run {
					split("normal_per_s normal_p50_us normal_p99_us low_mb_per_s", name, " ")
					for (i = 1; i <= 4; i++) printf "%s\t%s\t%s\t%.3f\t%s\t%.3f\n", model, scheduler, name[i], sim[i], $(i + 1), sim[i] / $(i + 1)
				}' - "$out/guest/$model/runs.tsv" >>"$out/replay.tsv"
	done
done
cat "$out/replay.tsv"
