#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Runs a shipped plan and keeps its report as evidence; --help lists the options.
exec python3 -B "$(dirname "$0")/plan.py" "$@"
