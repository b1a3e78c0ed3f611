#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Synchronous writes (diskio's table) on ext4 in three modes, xfs and ext2; --help lists the options.
exec python3 -B "$(dirname "$0")/syncwrite.py" "$@"
