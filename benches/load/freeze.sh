#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# What plumb and fio say of writes while the file system stands still for two seconds; --help lists the options.
exec python3 -B "$(dirname "$0")/freeze.py" "$@"
