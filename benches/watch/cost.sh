#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# What plumb watch takes of a busy machine; --help lists the options.
exec python3 -B "$(dirname "$0")/cost.py" "$@"
