#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# What the default recording costs programs that do real work; --help lists the options.
exec python3 -B "$(dirname "$0")/workloads.py" "$@"
