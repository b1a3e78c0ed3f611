#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Wall-clock profiles of four loads, as flame graphs and tables; --help lists the options.
exec python3 -B "$(dirname "$0")/cases.py" "$@"
