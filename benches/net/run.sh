#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Ten senders of 100,000 events a second each, to files and to one collector, in turn. Needs no root; about two minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --release --locked --package plumb --package plumb-bench-net
out=${1:-results/$(date +%F)-collect-cost}
target/release/plumb-bench-net target/release/plumb "$out" 10 100000 10 5
scripts/evidence.sh "$out" benches/net/run.sh
