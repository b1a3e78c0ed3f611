#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# How exact a served disk is, what it adds and sustains; --help lists the options.
exec python3 -B "$(dirname "$0")/run.py" "$@"
