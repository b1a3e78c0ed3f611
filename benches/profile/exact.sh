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
# shellcheck source=../../tests/vm/guest.sh
. ../../tests/vm/guest.sh
for command in qemu-system-x86_64 busybox cpio gcc perf; do
	command -v "$command" >/dev/null || {
		echo "exact: needs $command" >&2
		exit 2
	}
done
reason=
if [ ! -e "$dir/stamp" ] && ! fetch '^linux-image-6\.12\.[0-9]+[+.a-z0-9]*-cloud-amd64$' "$dir" >&2; then
	echo "exact: $reason" >&2
	exit 2
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
mkdir -p "$tree/bin" "$tree/modules"
gcc -O2 -fomit-frame-pointer -pthread -o "$work/load" load.c
for program in busybox perf; do with_libraries "$(realpath "$(command -v $program)")" "$tree" $program; done
with_libraries "$plumb" "$tree" plumb
with_libraries "$work/load" "$tree" load
cp "$dir"/modules/*virtio*.ko "$tree/modules/" 2>/dev/null || true
cp "$here/exact.init" "$tree/init"
echo "$rounds $seconds" >"$tree/asked"
(cd "$tree" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initramfs.gz"
timeout 3600 qemu-system-x86_64 -accel tcg,thread=single -icount shift=0,sleep=off,align=off \
	-rtc clock=vm,base=2026-01-01 -cpu Nehalem -smp 1 -m 2048 -nodefaults -display none -no-reboot \
	-kernel "$dir/vmlinuz" -initrd "$work/initramfs.gz" \
	-append 'console=ttyS0 quiet panic=-1 tsc=reliable' -serial "file:$work/console" </dev/null >"$work/qemu" 2>&1 || true
if ! grep -q 'exact: over' "$work/console"; then
	cat "$work/qemu" >&2
	tail -n 40 "$work/console" >&2
	exit 1
fi
echo "round,profiler,iterations,ns,samples"
tr -d '\r' <"$work/console" | sed -n 's/^exact-run: //p'
