#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# What plumb govern keeps of foreground I/O and leaves to background I/O; --help lists the options.
exec python3 -B "$(dirname "$0")/govern.py" "$@"
