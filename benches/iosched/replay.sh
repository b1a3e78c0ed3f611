#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# benches/iosched/replay.sh OUT: a mixed load is recorded in a guest behind mq-deadline, and the recording is done again
# in the simulator behind mq-deadline and behind lp-deadline: against what the guest itself showed behind both.
# MODELS="hdd ssd", THINK_MS=10, SECONDS_EACH=10 narrow it; GUESTS=DIR takes what guests left there in an earlier OUT;
# RECORDER=target/debug/plumb records, PLUMB=target/debug/plumb simulates.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/guests.sh"
begin replay "$@"
plumb=${PLUMB:-$root/target/debug/plumb}
kernel=6.1

in_guest() { # MODEL
	local files=("$work/replay.conf")
	ready "$kernel"
	strip -o "$work/plumb" "${RECORDER:-$plumb}"
	bring "$work/plumb"
	printf 'DISK="%s"\nTHINK_MS=%s\nSECONDS_EACH=%s\n' "$disk" "${THINK_MS:-10}" "${SECONDS_EACH:-10}" >"$work/replay.conf"
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
		# Figures are of the time that both jobs have in common. Where the low one's few requests are done at once there is
		# none: then each job's own. What the recorded run showed is in the trace; lp-deadline was not recorded, so fio's
		# own times (with the call's processor time) are what it is held against.
		jq -r '.steps[0] as $s | def of($all; $c): ($all | map(select(.class == $c))[0]);
			def four($n; $i): [$n.rate, $n.q2c.p50 / 1000, $n.q2c.p99 / 1000, $i / 1e6] | @tsv;
			(if $s.common_ns > 1e9 then four(of($s.classes; "normal"); of($s.classes; "idle").bandwidth)
			else four({rate: $s.jobs[0].kinds[0].rate, q2c: $s.jobs[0].q2c}; (($s.jobs[1:] | map(.kinds[].bytes) | add) // 0) * 1e9 / $s.recorded_common_ns) end),
			four(of($s.recorded; "normal"); of($s.recorded; "idle").bandwidth)' "$out/$model-$scheduler.json" |
			awk -v OFS='\t' -v model="$model" -v scheduler="$scheduler" '
				FILENAME == "-" { if (FNR == 1) split($0, sim, "\t"); else if (scheduler == "mq-deadline") { split($0, seen, "\t"); tell() }; next }
				$1 == scheduler && scheduler != "mq-deadline" { for (i = 1; i <= 4; i++) seen[i] = $(i + 1); tell() }
				function tell(i) {
					split("normal_per_s normal_p50_us normal_p99_us low_mb_per_s", name, " ")
					for (i = 1; i <= 4; i++) printf "%s\t%s\t%s\t%.3f\t%.3f\t%.3f\n", model, scheduler, name[i], sim[i], seen[i], sim[i] / seen[i]
				}' - "$out/guest/$model/runs.tsv" >>"$out/replay.tsv"
	done
done
cat "$out/replay.tsv"
