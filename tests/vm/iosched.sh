#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# tests/vm/iosched.sh [KERNEL...]: builds the I/O scheduler's module for each kernel of module-kernels and tries it in
# guests: with two processors in real time for races (iosched-races), and with a virtual clock for what it lets
# through and when (iosched-gate) and for who waits for whom in a file system (iosched-inversion, on the kernels of this
# release of Debian). KEEP=DIR keeps what the guests left; ONLY=races, gate or inversion runs one of them, on any kernel.
#
# tests/vm/iosched.sh fetch: fetches the kernels, compilers and fio that this takes, and builds the module.
#
# tests/vm/iosched.sh debug: the same on a kernel that checks itself (debug-kernel.config), which is built first; not
# among the others for the time that this takes.
#
# Kernels, compilers and fio are kept in target/vm/module; remove that directory to fetch newer ones.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
here=$PWD
root=$(realpath ../..)
export PATH="$PATH:/usr/sbin:/sbin"
cache=${CARGO_TARGET_DIR:-$root/target}/vm/module

TIMEOUT=900

. ./counts.sh
. ../../crates/plan/guest/guest.sh
. ./kbuild.sh
. ./module-guest.sh
. ./debug-kernel.sh

complaints() { grep -aE 'WARNING:|BUG:|UBSAN:|ODEBUG:|Oops|Call Trace|soft lockup|blocked for more than|self-test, line' "$@"; }

try() { # SCRIPT MODE [FILE...]
	local out=$work/$1-$2 word rest started=$SECONDS
	mkdir -p "$out"
	if ! guest "$kernel" "$here/$1" "$out" "$2" "${@:3}"; then
		bad "$1 ($2): the guest left no results within $TIMEOUT s; QEMU and its console say:"
		tail -n 5 "$out/qemu"
		tail -n 60 "$out/console"
		return
	fi
	# First, as what comes after it takes no time: the test run times the answers.
	if complaints "$out/console" "$out/dmesg"; then
		bad "$1 ($2): the kernel complained; the end of its log:"
		tail -n 60 "$out/dmesg"
	else
		ok "$1 ($2): no complaint in the kernel's log ($((SECONDS - started)) s in all, $(cat "$out/cpu"))"
	fi
	grep -ao 'plumb-vm: SKIP.*' "$out/console" || true
	while read -r word rest; do
		if [ "$word" = ok ]; then ok "$1 ($2): $rest"; else bad "$1 ($2): $rest"; fi
	done <"$out/answers"
}

# Headers of one kernel with the type information of another must not build.
wrong_abi() {
	local other dir=$cache/$kernel other_from other_pattern kdir
	read -r other other_from other_pattern < <(grep -v '^#' "$here/module-kernels")
	[ "$other" != "$kernel" ] || return 0
	if ! with_lock "$cache" fetch_kernel "$other" "$other_from" "$other_pattern"; then
		skip "type information of another kernel: $reason"
		return
	fi
	kdir=$dir/root/usr/src/linux-headers-$(cat "$dir/release")
	rm -rf "$work/wrong"
	mkdir "$work/wrong"
	cp -r "$root/kmod" "$root/iosched" "$work/wrong/"
	if make -C "$work/wrong/kmod" KDIR="$kdir" BTF="$cache/$other/vmlinuz" >"$work/wrong/log" 2>&1; then
		bad "was built with headers of $kernel and type information of $other"
	elif grep -q 'headers of another kernel' "$work/wrong/log"; then
		ok "headers of $kernel with type information of $other do not build"
	else
		bad "headers of $kernel with type information of $other fail for another reason: $(grep -m1 error "$work/wrong/log")"
	fi
}

name=iosched
if [ "$(uname -m)" != x86_64 ]; then
	skip "the kernels of the list are for x86-64"
	finish
	exit
fi
for command in qemu-system-x86_64 busybox cpio depmod xz zstd bpftool gcc-12 debootstrap dpkg-source mke2fs; do
	if ! command -v "$command" >/dev/null; then
		skip "needs $command (make deps)"
		finish
		exit
	fi
done
mkdir -p "$cache"
reason=
if ! with_lock "$cache" fetch_fio; then
	skip "$reason"
	finish
	exit
fi
all=$(mktemp -d)
trap 'if [ -n "${KEEP:-}" ]; then mkdir -p "$KEEP" && cp -r "$all/." "$KEEP/"; fi; rm -rf "$all"' EXIT
truncate -s 64M "$all/ext4.img"
mke2fs -q -F -t ext4 -J size=4 -E lazy_itable_init=0,lazy_journal_init=0 "$all/ext4.img"
fetch_only=
if [ "${1:-}" = fetch ]; then
	fetch_only=1
	shift
fi
while read -r kernel from pattern; do
	case $kernel in '' | '#'*) continue ;; esac
	[ $# -eq 0 ] || [[ " $* " == *" $kernel "* ]] || continue
	name=iosched-$kernel
	work=$all/$kernel
	mkdir "$work"
	rc=0
	if [ "$from" = source ]; then
		TIMEOUT=3000 GUEST_MB=2048
		# ACPI's tables of the other machine loop for longer than this slow kernel lets them.
		GUEST_OPTIONS=(-machine q35)
		build_kernel "$kernel" "$pattern" || rc=1
	else
		with_lock "$cache" fetch_kernel "$kernel" "$from" "$pattern" || rc=1
	fi
	if [ $rc -ne 0 ]; then
		skip "$reason"
		continue
	fi
	with_lock "$cache/$kernel" compile "$kernel" "$from" || rc=$?
	case $rc in
	0) ok "builds for $(cat "$cache/$kernel/release")" ;;
	1)
		skip "$reason"
		continue
		;;
	*)
		bad "$reason"
		continue
		;;
	esac
	[ -z "$fetch_only" ] || continue
	[ "$from" != here ] || wrong_abi
	[ "${ONLY:-races}" != races ] || try iosched-races smp
	[ "${ONLY:-gate}" != gate ] || try iosched-gate virtual
	# Of the policy rather than of the kernel: of all in the list, those of this release are enough.
	case ${ONLY:-$from} in
	inversion | here | source) try iosched-inversion virtual "$all/ext4.img" ;;
	esac
done < <(cat "$here/module-kernels" && { [[ " $* " != *" debug "* ]] || echo "debug source linux-source-6.1"; })
finish
