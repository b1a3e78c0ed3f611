# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=bash
# Builds the module for a kernel of kbuild.sh and runs scripts in a guest of it. Sourced after kbuild.sh.

# compile NAME RELEASE: $cache/NAME/build/ with kmod/lp-deadline.ko, device/modeldisk.ko and otherdisk.ko. Keeps what is
# there when nothing changed that it was made of.
compile() {
	local dir=$cache/$1 from=$2 kdir build sources stamp
	kdir=$dir/root/usr/src/linux-headers-$(cat "$dir/release")
	build=$dir/build
	stamp=$(cd "$root" && {
		cat "$dir/release" "$dir/stamp"
		gcc-12 --version
		find kmod iosched tests/vm/device tests/vm/module-guest.sh -type f -exec md5sum {} + | sort -k 2
	} | md5sum)
	[ "$(cat "$build/stamp" 2>/dev/null)" != "$stamp" ] || return 0
	rm -rf "$build"
	mkdir -p "$build"
	cp -r "$root/kmod" "$root/iosched" "$root/tests/vm/device" "$build/"
	sources=$(sed -n 's|^include \(.*\)/Makefile$|\1|p' "$kdir/Makefile")
	local types=$kdir/vmlinux
	[ -e "$types" ] || types=$dir/vmlinuz
	if [ "$from" = here ] || [ "$from" = source ]; then
		compile_in "" "$build" "$kdir" "$types" >"$build/log" 2>&1
	else
		compiler "$from" || return 1
		in_other "$from" "$dir" "$build" "$kdir" "$sources" "$types" >"$build/log" 2>&1
	fi || {
		reason="the module does not build for $1: $(grep -m1 -E 'error|abi:' "$build/log" || tail -n 1 "$build/log")"
		return 2
	}
	if grep -E ':[0-9]+:.*warning:' "$build/log" >&2; then
		reason="the module builds for $1 with warnings"
		return 2
	fi
	echo "$stamp" >"$build/stamp"
}

compile_in() { # ROOT BUILD KDIR TYPES
	make -C "$2/kmod" KDIR="$3" BTF="$4" DEBUG=1 &&
		make -C "$3" M="$2/device" CONFIG_DEBUG_INFO_BTF_MODULES= modules
}

# compiler RELEASE: $cache/RELEASE, a small Debian of that release with its own compiler.
compiler() {
	local to=$cache/$1
	[ ! -e "$to/usr/bin/make" ] || return 0
	if [ "$(id -u)" -ne 0 ]; then
		reason="kernels of $1 need its compiler in a tree of their own, which takes root to make"
		return 1
	fi
	echo "vm: unpacking the compiler of $1 (Debian packages) into $to" >&2
	rm -rf "$to.new"
	if ! debootstrap --variant=minbase --include=gcc-14,make,libelf1t64,kmod "$1" "$to.new" "$(archive 1)" \
		>"$cache/$1.log" 2>&1; then
		reason="debootstrap $1: $(tail -n 1 "$cache/$1.log")"
		return 1
	fi
	mv "$to.new" "$to"
}

# In the other release's tree, under the same names as outside. objtool wants /proc, which is mounted for it alone
# and goes with it.
in_other() { # RELEASE DIR BUILD KDIR SOURCES TYPES
	local to=$cache/$1
	"$3/kmod/abi.sh" "$6" "$4" "$5" >"$3/kmod/lp_abi.h"
	mkdir -p "$to$2"
	rm -rf "${to:?}$3" "${to:?}$2/root"
	cp -a "$2/root" "$to$2/root"
	cp -a "$3" "$to$3"
	# shellcheck disable=SC2016 # its own arguments
	unshare --mount sh -ec 'mount -t proc proc "$1/proc"
		chroot "$1" make -C "$2" "M=$3/kmod" LP_DEBUG=y CONFIG_DEBUG_INFO_BTF_MODULES= modules
		chroot "$1" make -C "$2" "M=$3/device" CONFIG_DEBUG_INFO_BTF_MODULES= modules' sh "$to" "$4" "$3" &&
		cp "$to$3/kmod/lp-deadline.ko" "$3/kmod/" && cp "$to$3"/device/*.ko "$3/device/"
	local rc=$?
	rm -rf "${to:?}$3" "${to:?}$2/root"
	return $rc
}

# guest NAME SCRIPT OUT MODE [FILE...]: boots kernel NAME, runs SCRIPT as root with FILEs in /, and leaves what it put
# into /out in OUT, with the console in OUT/console. MODE is that of boot_guest; the array GUEST_OPTIONS is what else
# QEMU is told (drives).
guest() {
	local dir=$cache/$1 script=$2 out=$3 mode=$4 tree rc=0
	shift 4
	tree=$(mktemp -d -p "${work:-/tmp}")
	guest_tree "$tree" "$root/tests/vm/module-init" "$dir/modules"
	cp "$script" "$tree/script"
	cp "$cache/fio" "$tree/bin/"
	mkdir "$tree/try"
	cp "$dir"/build/*/*.ko "$tree/try/"
	# Those that are tried, not needed.
	mv "$tree"/modules/*-{null_blk,bfq,kyber-iosched,configfs}.ko "$tree/try/" 2>/dev/null || true
	[ $# -eq 0 ] || cp "$@" "$tree/"
	boot_guest "$mode" "$dir/vmlinuz" "$tree" "$out" ${GUEST_OPTIONS[@]+"${GUEST_OPTIONS[@]}"} || rc=1
	rm -rf "$tree"
	return $rc
}
