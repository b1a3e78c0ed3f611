#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# An hour of 'plumb watch' beside PostgreSQL and nginx with twelve incidents; --help lists the options.
exec python3 -B "$(dirname "$0")/run.py" "$@"
