#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# What a report of a long recording takes: time, memory, size; --help lists the options.
exec python3 -B "$(dirname "$0")/run.py" "$@"
