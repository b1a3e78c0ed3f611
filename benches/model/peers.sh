#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# How long plumb and perf take to analyse the same load's scheduling, recorded
# by both at the same time: five times each on one CPU, as root, with linux-perf.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v perf >/dev/null || { echo "benches/model: no perf; scripts/deps.sh bench installs it" >&2; exit 2; }
out=${1:-results/$(date +%F)-analysis-peers}
rounds=${ROUNDS:-5}
cargo build --release --locked --package plumb
plumb=$PWD/target/release/plumb
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$out"

# plumb records perf, which records the load: both see the same switches.
"$plumb" record -q --buffer 64M -e sched,irq,lock,syscall -o "$dir/trace" -- \
	perf sched record -m 16384 -o "$dir/perf.data" -- perf bench sched pipe -l 200000 >"$dir/log" 2>&1 || true
perf_events=$(perf script -i "$dir/perf.data" -F event 2>/dev/null | wc -l)
plumb_events=$("$plumb" explain --json "$dir/trace" | python3 -c 'import json,sys; print(json.load(sys.stdin)["quality"]["events"])')

measure() { # NAME EVENTS COMMAND...
	local name=$1 events=$2 i
	shift 2
	for i in $(seq "$rounds"); do
		/usr/bin/env python3 - "$name" "$events" "$@" <<'PY' >>"$dir/rows"
import json, os, resource, subprocess, sys
name, events, *command = sys.argv[1:]
before = resource.getrusage(resource.RUSAGE_CHILDREN)
subprocess.run(["taskset", "-c", "0", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
after = resource.getrusage(resource.RUSAGE_CHILDREN)
cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
print(json.dumps({"what": name, "events": int(events), "cpu_s": round(cpu, 4)}))
PY
	done
}
measure "plumb explain (account, critical path, findings)" "$plumb_events" "$plumb" explain --json "$dir/trace"
measure "plumb view runqueue" "$plumb_events" "$plumb" view runqueue "$dir/trace"
measure "perf sched latency" "$perf_events" perf sched latency -i "$dir/perf.data"
measure "perf sched timehist" "$perf_events" perf sched timehist -i "$dir/perf.data"
measure "perf script (text only)" "$perf_events" perf script -i "$dir/perf.data"

python3 - "$dir/rows" "$out" "$(uname -r)" "$(perf --version)" "$(cut -d' ' -f1-3 /proc/loadavg)" <<'PY'
import collections, json, statistics, sys
rows = [json.loads(l) for l in open(sys.argv[1])]
json.dump(rows, open(sys.argv[2] + "/raw.json", "w"), indent=1)
by = collections.OrderedDict()
for r in rows:
    by.setdefault(r["what"], []).append(r)
text = "<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->\n# Analysis: plumb beside perf on the same load\n\n"
text += "Plan: `perf bench sched pipe -l 200000`, recorded by `perf sched record` and by plumb (sched, irq, lock, syscall)\nat the same time; each analysis from the page cache on one CPU, five times. `benches/model/peers.sh` makes all of it.\n\n"
text += f"Machine: Linux {sys.argv[3]}, {sys.argv[4]}, load {sys.argv[5]}.\n\n"
text += "| analysis | events | CPU s, median (min-max) | M events/s |\n|---|---|---|---|\n"
for what, r in by.items():
    s = sorted(x["cpu_s"] for x in r)
    m = statistics.median(s)
    text += f"| {what} | {r[0]['events']:,} | {m:.3f} ({s[0]:.3f}-{s[-1]:.3f}) | {r[0]['events'] / m / 1e6:.2f} |\n"
text += "\nTrace Compass was not run: its headless form is not packaged.\n"
open(sys.argv[2] + "/summary.md", "w").write(text)
print(text)
PY
scripts/evidence.sh "$out" benches/model/peers.sh
