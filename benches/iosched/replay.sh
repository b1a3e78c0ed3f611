#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# benches/iosched/replay.sh OUT: a mixed load is recorded in a guest behind mq-deadline, and the recording is done again
# in the simulator behind mq-deadline and behind lp-deadline: against what the guest itself showed behind both.
# MODELS="hdd ssd", SECONDS_EACH=10 narrow it; GUESTS=DIR takes what guests left there in an earlier OUT;
# RECORDER=target/debug/plumb records, PLUMB=target/debug/plumb simulates.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/guests.sh"
begin replay "$@"
plumb=${PLUMB:-$root/target/debug/plumb}
kernel=6.1
think_of() { case $1 in hdd) echo 10 ;; *) echo 1 ;; esac; }

in_guest() { # MODEL
	local library files=("$work/replay.conf" "$work/plumb")
	ready "$kernel"
	strip -o "$work/plumb" "${RECORDER:-$plumb}"
	# The loader is among them.
	while read -r library; do files+=("$library"); done < \
		<(ldd "$work/plumb" | sed -n 's|^[^/]*\(/[^ ]*\).*|\1|p')
	printf 'DISK="%s"\nTHINK_MS=%s\nSECONDS_EACH=%s\n' "$disk" "$(think_of "$1")" "${SECONDS_EACH:-10}" >"$work/replay.conf"
	echo "replay: guest, $1, $(date +%T)" >&2
	guest "$kernel" "$here/replay-guest" "$out/guest/$1" virtual "${files[@]}" ||
		die "the guest of $1 did not end: $(tail -n 2 "$out/guest/$1/console")"
}

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
