#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# What a span costs the program; --help lists the options.
exec python3 -B "$(dirname "$0")/spans.py" "$@"
