#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Making files on ext4 with and without an index of the directory, and on ext2: growth by their number; --help lists the options.
exec python3 -B "$(dirname "$0")/create.py" "$@"
