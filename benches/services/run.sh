#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Servers with one known cause of slow requests: whether 'plumb run --pid' names it; --help lists the options.
exec python3 -B "$(dirname "$0")/run.py" "$@"
