#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Bonnie++ beside plumb load stream and meta: its twelve figures; --help lists the options.
exec python3 -B "$(dirname "$0")/bonnie.py" "$@"
