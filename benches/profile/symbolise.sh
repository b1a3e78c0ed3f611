#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# How long `plumb profile` takes for a recording with a million samples, in how much memory, beside
# perf report. Usage (as root): benches/profile/symbolise.sh [--plumb PROGRAM]; --help lists the rest.
exec python3 -B "$(dirname "$0")/symbolise.py" "$@"
