#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Requests a second of the queue simulator: schedulers x models. Needs nothing but a CPU; about a minute.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --release --locked --package plumb-bench-sim
out=${1:-results/$(date +%F)-sim-speed}
taskset -c 0 target/release/plumb-bench-sim "$out" 500000 3
scripts/evidence.sh "$out" benches/sim/run.sh
