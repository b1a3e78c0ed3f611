#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# What recording costs, against an empty BPF program, perf, ftrace and bpftrace.
# Usage: benches/record/run.sh [--quick] [--rounds N]; --help lists the rest.
command -v python3 >/dev/null || {
	echo "python3 is needed; 'apt-get install python3' brings it" >&2
	exit 2
}
exec python3 -B "$(dirname "$0")/run.py" "$@"
