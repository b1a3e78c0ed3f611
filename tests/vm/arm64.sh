#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# tests/vm/arm64.sh PLUMB PROGRAM...: plumb and its tests, built for arm64, in a guest of that architecture: the programs
# of tests PROGRAM (as absolute paths), each called in the directory DIR where it is written DIR:PROGRAM, and the demo with the
# program PLUMB. `cargo xtask test arm64` builds them and calls this.
#
# The guest has the first kernel of arm64-kernels, and of Debian's packages what tests call. Both are kept in target/vm.
set -euo pipefail

[ $# -ge 2 ] || {
	echo "arm64: give the program and its tests: cargo xtask test arm64 builds them and calls this" >&2
	exit 2
}
plumb=$1
shift
cd "$(dirname "${BASH_SOURCE[0]}")"
here=$PWD
root=$(realpath ../..)
export PATH="$PATH:/usr/sbin:/sbin"
cache=${CARGO_TARGET_DIR:-$root/target}/vm
name=arm64
TIMEOUT=3000
PACKAGES="bash coreutils grep sed gawk findutils procps util-linux mount e2fsprogs kmod babeltrace2 strace sqlite3 binutils python3-minimal gcc libc6-dev gzip"

. ./counts.sh
. ../../crates/plan/guest/guest.sh
GUEST_ARCH=aarch64
# Built in, or loaded when they are asked for, on the machines that tests know.
MODULES="$MODULES loop fuse unix_diag tcp_diag"

# fetch_debian DIR: what is in those packages and in all that they depend on, unpacked; none of it is configured.
fetch_debian() {
	local dir=$1 deb apt
	[ "$(cat "$dir.stamp" 2>/dev/null)" != "$PACKAGES" ] || return 0
	rm -rf "$dir" "$dir.new"
	mkdir -p "$dir.new/debs/partial" "$dir.new/tree"
	: >"$dir.new/status"
	# As on a machine of that architecture that has nothing yet.
	apt=(-q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::status="$dir.new/status"
		-o Dir::Cache::archives="$dir.new/debs/")
	[ "$(id -u)" -ne 0 ] || apt+=(-o APT::Sandbox::User=root)
	echo "vm: fetching Debian for arm64 into $dir"
	# shellcheck disable=SC2086 # a list
	if ! apt-get "${apt[@]}" -y --no-install-recommends --download-only install $PACKAGES >"$dir.new/log" 2>&1; then
		reason="apt-get download for arm64: $(tail -n 1 "$dir.new/log") (scripts/deps.sh arm64 tells apt of that architecture)"
		return 1
	fi
	for deb in "$dir.new"/debs/*.deb; do
		if ! dpkg -x "$deb" "$dir.new/tree"; then
			reason="dpkg -x $deb failed"
			return 1
		fi
	done
	mv "$dir.new/tree" "$dir"
	rm -rf "$dir.new"
	echo "$PACKAGES" >"$dir.stamp"
}

for command in qemu-system-aarch64 aarch64-linux-gnu-gcc cpio depmod mkfs.ext4; do
	if ! command -v "$command" >/dev/null; then
		skip "needs $command (scripts/deps.sh arm64)"
		finish
		exit
	fi
done
read -r kernel pattern < <(grep -v '^#' arm64-kernels)
reason=
if ! with_lock "$cache" fetch "$pattern" "$cache/$kernel-tests" || ! with_lock "$cache" fetch_debian "$cache/arm64-debian"; then
	skip "$reason"
	finish
	exit
fi

work=$(mktemp -d -p "$cache")
trap 'rm -rf "$work"' EXIT
out=${KEEP:-$work/out}
mkdir -p "$out"
# The disk: Debian, and what was built, where it is here, for tests know programs by their path.
tree=$work/debian
cp -al "$cache/arm64-debian" "$tree"
# What their scripts would have made.
ln -s bash "$tree/bin/sh"
ln -s gawk "$tree/usr/bin/awk"
ln -s gcc "$tree/usr/bin/cc"
echo root:x:0:0:root:/root:/bin/sh >"$tree/etc/passwd"
echo root:x:0: >"$tree/etc/group"
mkdir -p "$tree"/{proc,sys,dev,tmp,out,run} "$tree$root/scripts" "$tree$root/target/demo"
cp "$root/scripts/demo.sh" "$tree$root/scripts/"
into() { install -D -m 755 "$1" "$tree$1"; }
into "$plumb"
[ ! -x "${plumb%/*}/plumb-workload" ] || into "${plumb%/*}/plumb-workload"
for what in "$@"; do
	program=${what#*:}
	into "$program"
	# ...and cargo's directory for what tests make.
	mkdir -p "$tree${what%%:*}" "$tree${program%/*/*/*}/tmp"
	[ ! -d "${what%%:*}/tests" ] || cp -r "${what%%:*}/tests" "$tree${what%%:*}/"
	echo "$(basename "${program%-*}") ${what%%:*} $program"
done >"$work/programs"
install -m 644 "$work/programs" "$tree/programs"
echo "$root $plumb" >"$tree/demo"
truncate -s 3G "$work/debian.img"
mkfs.ext4 -q -F -d "$tree" "$work/debian.img"
rm -rf "$tree"

BUSYBOX=$cache/$kernel-tests/busybox
guest_tree "$work/tree" "$here/arm64-init" "$cache/$kernel-tests/modules"
started=$SECONDS
if ! GUEST_MB=3072 boot_guest smp "$cache/$kernel-tests/vmlinuz" "$work/tree" "$out" -drive "file=$work/debian.img,format=raw,if=virtio"; then
	bad "the guest left no results within $TIMEOUT s; QEMU and its console say:"
	cat "$out/qemu"
	tail -n 60 "$out/console"
	finish
	exit
fi
echo "arm64: Linux $(cat "$out/release"), $((SECONDS - started)) s in all"
while read -r program _; do
	echo "-- $program ended with $(cat "$out/$program.rc")"
	if [ "$(cat "$out/$program.rc")" -eq 0 ]; then
		grep -E '^test |SKIP' "$out/$program.out"
	else
		cat "$out/$program.out"
		grep -q '^test result: FAILED' "$out/$program.out" || bad "$program told no result"
	fi
done <"$work/programs"
if [ "$(cat "$out/check.rc")" -eq 0 ]; then ok "plumb check finds what plumb needs"; else
	bad "plumb check: exit code $(cat "$out/check.rc"); it said:"
	cat "$out/check.out"
fi
if [ "$(cat "$out/demo.rc")" -eq 0 ] && grep -q 'Bottleneck' "$out/demo.out" && grep -q '== the difference' "$out/demo.out"; then
	ok "the demo: $(grep -m1 'Bottleneck' "$out/demo.out")"
else
	bad "the demo: exit code $(cat "$out/demo.rc"); it said:"
	tail -n 60 "$out/demo.out"
fi
if grep -E 'WARNING:|BUG:|Oops|Call trace' "$out/dmesg"; then
	bad "the kernel complained"
	tail -n 60 "$out/dmesg"
else
	ok "no complaint in the kernel's log"
fi
finish
