#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# How fast tables are written and asked: rows a second of CPU time, peak memory, bytes; of rows that
# are made up, and of a trace. benches/report/tables.sh [TRACE [OUT [ROUNDS]]]; OUT gets tables.jsonl.
set -euo pipefail
cd "$(dirname "$0")/../.."
trace=${1:-tests/traces/appenders}
out=${2:-results/$(date +%F)-tables}
rounds=${3:-3}
rows=5000000
[ -e "$trace/metadata" ] || [ -e "$trace/trace/metadata" ] || {
	echo "tables.sh: $trace: no trace; record one with: plumb run -o DIR -- COMMAND" >&2
	exit 2
}
cargo build --release --locked --package plumb-report --example table_speed
mkdir -p "$out"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
say() { # ROUND KIND WHAT OF
	rm -rf "$scratch/files"
	mkdir "$scratch/files"
	# Of the machine: what others do at the same time moves wall times, and CPU time less.
	printf '{"round": %d, "load": %s, "measured": %s}\n' "$1" "$(cut -d' ' -f1 /proc/loadavg)" \
		"$(target/release/examples/table_speed "$2" "$3" "$4" "$scratch/files")" | tee -a "$out/tables.jsonl"
}
for round in $(seq "$rounds"); do
	for format in none csv parquet query; do say "$round" rows "$format" "$rows"; done
	for format in model all csv parquet \
		"select category, sum(time_ns) from account group by 1" \
		"select category, sum(time_ns), percentile(time_ns, 99) from intervals group by 1" \
		"select s.functions, count(*), sum(w.to_ns - w.from_ns) from waits w join stacks s on s.stack = w.stack group by 1" \
		"select device, operation, percentile(q2c_ns, 99) from requests group by 1, 2"; do
		say "$round" trace "$format" "$trace"
	done
done
