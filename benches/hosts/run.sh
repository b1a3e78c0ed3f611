#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Requests from host to host: causes named from the client's point of view, clocks, cost; --help lists the options.
exec python3 -B "$(dirname "$0")/run.py" "$@"
