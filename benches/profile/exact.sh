#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# What sampling with stacks takes from a CPU-bound load, in instructions: the load of run.sh in a
# guest whose clock is its instruction count (QEMU's -icount), so that the figures repeat whatever
# this machine is doing. One CPU, one instruction a nanosecond; caches and clock rates are not in it.
# Usage: benches/profile/exact.sh PLUMB [ROUNDS [SECONDS]]: prints one line of CSV a run.
set -euo pipefail

if [ $# -lt 1 ] || [ ! -x "$1" ]; then
	echo "exact: give the program to measure: benches/profile/exact.sh target/release/plumb" >&2
	exit 2
fi
plumb=$(realpath "$1") rounds=${2:-3} seconds=${3:-4}
cd "$(dirname "${BASH_SOURCE[0]}")"
here=$PWD
root=$(realpath ../..)
export PATH="$PATH:/usr/sbin:/sbin"
dir=${CARGO_TARGET_DIR:-$root/target}/vm/6.12
# shellcheck source=../../crates/plan/guest/guest.sh
. ../../crates/plan/guest/guest.sh
for command in qemu-system-x86_64 busybox cpio gcc perf; do
	command -v "$command" >/dev/null || {
		echo "exact: needs $command" >&2
		exit 2
	}
done
reason=
if ! with_lock "${dir%/*}" fetch '^linux-image-6\.12\.[0-9]+[+.a-z0-9]*-cloud-amd64$' "$dir" >&2; then
	echo "exact: $reason" >&2
	exit 2
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree out=$work/out
gcc -O2 -fomit-frame-pointer -pthread -o "$work/load" load.c
guest_tree "$tree" "$here/exact.init" "$dir/modules"
# The others' tracepoints would be in the figures.
find "$tree/modules" -type f ! -name '*virtio*' -delete
with_libraries "$(realpath "$(command -v perf)")" "$tree" perf
with_libraries "$plumb" "$tree" plumb
with_libraries "$work/load" "$tree" load
echo "$rounds $seconds" >"$tree/asked"
TIMEOUT=3600 GUEST_MB=2048
if ! boot_guest virtual "$dir/vmlinuz" "$tree" "$out"; then
	cat "$out/qemu" >&2
	tail -n 40 "$out/console" >&2
	exit 1
fi
grep -a '^exact: ' "$out/console" >&2 || true
echo "round,profiler,iterations,ns,samples"
cat "$out/runs"
