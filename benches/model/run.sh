#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Speed and memory of the model over 10 and 100 million events. Needs the
# demo's trace (make demo) and 8 GiB of disk below target/.
set -euo pipefail
cd "$(dirname "$0")/../.."
source=target/demo/one-by-one/trace
[ -e "$source/metadata" ] || { echo "benches/model: no $source; run 'make demo' first" >&2; exit 2; }
cargo build --release --locked --package plumb --package plumb-bench-model
out=${1:-results/$(date +%F)-model-speed}
target/release/plumb-bench-model target/release/plumb "$source" target/bench "$out" 10000000 100000000
scripts/evidence.sh "$out" "make demo && benches/model/run.sh"
