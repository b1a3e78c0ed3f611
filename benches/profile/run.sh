#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# What sampling with stacks costs a CPU-bound load, beside perf, bpftrace and bcc's profile.
# Usage: benches/profile/run.sh [--rounds N] [--seconds S]; --help lists the rest.
command -v python3 >/dev/null || {
	echo "python3 is needed; 'apt-get install python3' brings it" >&2
	exit 2
}
exec python3 -B "$(dirname "$0")/run.py" "$@"
