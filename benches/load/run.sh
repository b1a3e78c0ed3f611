#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# What an operation of plumb load costs, beside fio, SysBench and a bare loop in C; --help lists the options.
exec python3 -B "$(dirname "$0")/run.py" "$@"
