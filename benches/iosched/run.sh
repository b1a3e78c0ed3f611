#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# What lp-deadline's decision costs in a process, and how fast the simulator is with it. Needs nothing but a CPU;
# two minutes and a release build of the simulator's bench.
# benches/iosched/run.sh [RESULTS]
set -euo pipefail

cd "$(dirname "$0")/../.."
results=${1:-results/$(date +%F)-iosched-sim}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$results"
"${CC:-gcc}" -std=gnu11 -Wall -Wextra -Werror -O2 -Iiosched/user -Iiosched \
	iosched/lp_*.c iosched/user/sorted.c benches/iosched/decision.c -o "$work/decision"
cargo build --release --locked --package plumb-bench-sim
{
	echo "$("${CC:-gcc}" --version | head -1), -O2"
	echo "Linux $(uname -r), $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), load before: $(cat /proc/loadavg)"
} > "$work/machine"
taskset -c 0 "$work/decision" 1000000 9 > "$results/decision.csv"
taskset -c 0 target/release/plumb-bench-sim "$results/simulator" 500000 3 "fixed service" > "$work/simulator.txt"
echo "load after: $(cat /proc/loadavg)" >> "$work/machine"
{
	echo "<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->"
	echo "# lp-deadline in a process: a decision's cost, and the simulator's speed"
	echo
	echo "Made by \`benches/iosched/run.sh\`."
	echo
	sed 's/^/    /' "$work/machine"
	echo
	echo "## A request: insert, choose, finish"
	echo
	echo "ns of CPU time of the process, the same loop without the policy taken off; 1,000,000 requests a round, random"
	echo "places, a quarter of them writes; a queue that stays so long. Raw: decision.csv."
	echo
	echo "| queue | requests | median | least | most |"
	echo "|---|---|---|---|---|"
	tail -n +2 "$results/decision.csv" | sort -t, -k1,1n -k2,2 -k6,6n | awk -F, '
		function tell() { if (n) printf "| %s | %s | %.0f | %.0f | %.0f |\n", queue, mix, v[int((n + 1) / 2)], v[1], v[n] }
		$1 "," $2 != key { tell(); key = $1 "," $2; queue = $1; mix = $2; n = 0 }
		{ v[++n] = $6 }
		END { tell() }'
	echo
	echo "## Simulated requests a second"
	echo
	grep '^|' "$work/simulator.txt"
} > "$results/summary.md"
cat "$results/summary.md"
scripts/evidence.sh "$results" benches/iosched/run.sh
