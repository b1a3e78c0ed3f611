#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# tests/vm/dkms.sh [fetch]: makes the package lp-deadline-dkms, installs it in a Debian 12 of its own, where DKMS builds the
# module, lets a second kernel come, tries the module in a guest of that system, and removes the package: nothing may
# be left. KEEP=DIR keeps what the steps said. fetch: fetches the Debian that this takes, and does nothing else.
#
# Compilers are slow in a guest: the system is a tree, entered by chroot to build and by 9p to boot. It is kept in
# target/vm/dkms and changed in an overlay only; remove that directory to fetch newer packages.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
here=$PWD
root=$(realpath ../..)
export PATH="$PATH:/usr/sbin:/sbin"
cache=${CARGO_TARGET_DIR:-$root/target}/vm/dkms
name=dkms
TIMEOUT=1500

. ./counts.sh
. ../../crates/plan/guest/guest.sh
. ./kbuild.sh

# All modules that the guest loads but the package's.
MODULES='virtio_pci virtio_blk 9p 9pnet_virtio'

in_tree() { PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C chroot "$@"; }

# Depmod reads each module that there is, in the guest over 9p: thousands, for minutes.
only_modules() {
	local module all=$1/lib/modules/$2/kernel
	for module in $MODULES; do modprobe -d "$1" -S "$2" --show-depends "$module" || return 1; done >"$cache/modules"
	# By their places below kernel/: before it modprobe may have another name of the directory.
	sed -n 's|^insmod .*/kernel/||p' "$cache/modules" | sed 's/ *$//' | LC_ALL=C sort -u >"$cache/needed"
	(cd "$all" && find . -name '*.ko*' | sed 's|^\./||' | LC_ALL=C sort | LC_ALL=C comm -23 - "$cache/needed" | xargs rm)
	while read -r module; do [ -e "$all/$module" ] || return 1; done <"$cache/needed"
	in_tree "$1" depmod "$2"
}

# $cache/root: Debian 12 with dkms and two kernels with their headers; $cache/releases names these.
fetch_system() {
	local kernel from pattern image packages
	[ ! -e "$cache/root" ] || return 0
	apt_of here || return 1
	rm -rf "$cache/new"
	mkdir -p "$cache/new/debs"
	echo "vm: unpacking a Debian 12 with dkms and two kernels (Debian packages) into $cache" >&2
	while read -r kernel from pattern; do
		[ "$from" = here ] || continue
		image=$(apt-cache "${apt[@]}" search --names-only "$pattern" | awk '{print $1}' | sort -V | tail -n 1)
		if [ -z "$image" ]; then
			reason="apt knows no package $pattern for $kernel (apt-get update? another release of Debian?)"
			return 1
		fi
		mapfile -t packages < <(
			packages_of "$image"
			apt-cache "${apt[@]}" depends "linux-headers-${image#linux-image-}" |
				awk '$1 == "Depends:" && $2 ~ /^linux-compiler-/ { print $2 }'
		)
		if ! (cd "$cache/new/debs" && apt-get -q "${apt[@]}" download "${packages[@]}" >"$cache/log" 2>&1); then
			reason="apt-get download ${packages[*]}: $(tail -n 1 "$cache/log")"
			return 1
		fi
		echo "${image#linux-image-}" >>"$cache/new/releases"
	done < <(grep -v '^#' "$here/module-kernels")
	# The small initramfs is never booted; it only satisfies the kernels.
	if ! debootstrap --variant=minbase --include=dkms,bpftool,xz-utils,zstd,tiny-initramfs,linux-base,gcc-12,pahole,openssl \
		bookworm "$cache/new/root" "$(archive 1)" >"$cache/log" 2>&1; then
		reason="debootstrap bookworm: $(tail -n 1 "$cache/log")"
		return 1
	fi
	mkdir "$cache/new/root/debs"
	cp "$cache/new/debs"/*.deb "$cache/new/root/debs/"
	# shellcheck disable=SC2016 # its own arguments
	if ! unshare --mount sh -ec 'mount -t proc proc "$1/proc"
		chroot "$1" sh -c "PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive dpkg -i /debs/*.deb"' \
		sh "$cache/new/root" >"$cache/log" 2>&1; then
		reason="dpkg -i of the kernels: $(grep -m1 -i error "$cache/log" || tail -n 1 "$cache/log")"
		return 1
	fi
	rm -rf "$cache/new/root/debs" "$cache/new/debs" "$cache/new/root"/var/cache/apt/archives/*.deb
	while read -r kernel; do
		in_tree "$cache/new/root" depmod "$kernel"
		if ! only_modules "$cache/new/root" "$kernel"; then
			reason="the modules of $kernel that a guest loads cannot be found: $(tail -n 1 "$cache/modules")"
			return 1
		fi
	done <"$cache/new/releases"
	mv "$cache/new/releases" "$cache/releases"
	mv "$cache/new/root" "$cache/root"
	rm -rf "$cache/new"
}

# What there is, without what dpkg and dkms write into anyway.
inventory() {
	(cd "$tree" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./tmp -o -path ./var/log \
		-o -path ./var/cache -o -path './var/lib/dpkg/*-old' \) -prune -o -print | sort)
}

boot() {
	local initramfs=$work/initramfs
	mkdir "$work/boot"
	ln -s "$tree" "$work/boot/root"
	take_modules "$work/boot" "$first"
	guest_tree "$initramfs" "$here/module-init" "$work/boot/modules"
	cp "$here/dkms" "$initramfs/script"
	truncate -s 16M "$work/vdb"
	boot_guest smp "$tree/boot/vmlinuz-$first" "$initramfs" "$out" \
		-drive "file=$work/vdb,format=raw,if=virtio" \
		-virtfs "local,path=$tree,mount_tag=root,security_model=none,multidevs=remap"
}

# In a mount namespace of its own: whatever happens, nothing stays mounted.
steps() {
	local word rest started=$SECONDS
	tree=$work/tree
	mkdir -p "$work/upper" "$work/work" "$tree" "$work/aside"
	mount -t overlay -o "lowerdir=$cache/root,upperdir=$work/upper,workdir=$work/work" overlay "$tree"
	mount -t proc proc "$tree/proc"
	mount -t devtmpfs dev "$tree/dev"
	inventory >"$out/before"
	mv "$tree/lib/modules/$second" "$work/aside/"
	cp "$deb" "$tree/tmp/package.deb"
	if in_tree "$tree" dpkg -i /tmp/package.deb >"$out/install" 2>&1 &&
		in_tree "$tree" dkms status -k "$first" | grep -q ': installed'; then
		ok "the package is installed, and dkms has built the module for $first ($((SECONDS - started)) s)"
	else
		bad "the package cannot be installed; it and dkms said:"
		tail -n 20 "$out/install" "$tree"/var/lib/dkms/lp-deadline/*/build/make.log || true
		return
	fi
	# A kernel is installed later: its hook is called as by dpkg.
	mv "$work/aside/$second" "$tree/lib/modules/"
	in_tree "$tree" /etc/kernel/postinst.d/dkms "$second" >"$out/second" 2>&1 || true
	if in_tree "$tree" modinfo -k "$second" lp-deadline 2>/dev/null | grep -q "^vermagic: *$second "; then
		ok "a second kernel, $second, gets its module by itself ($((SECONDS - started)) s)"
	else
		bad "the hook of $second made no module; it said:"
		tail -n 20 "$out/second" "$tree"/var/lib/dkms/lp-deadline/*/build/make.log || true
	fi
	umount "$tree/proc" "$tree/dev"
	if ! boot; then
		bad "the guest left no results within $TIMEOUT s; QEMU and its console say:"
		tail -n 5 "$out/qemu"
		tail -n 60 "$out/console"
		return
	fi
	while read -r word rest; do
		if [ "$word" = ok ]; then ok "$rest"; else bad "$rest"; fi
	done <"$out/answers"
	mount -t proc proc "$tree/proc"
	in_tree "$tree" dpkg --purge lp-deadline-dkms >"$out/purge" 2>&1 || bad "dpkg --purge: $(tail -n 1 "$out/purge")"
	# The signing key is the machine's, and other packages' too.
	inventory >"$out/after"
	if diff "$out/before" <(grep -v '^\./var/lib/dkms/mok\.' "$out/after") >"$out/left"; then
		ok "the package leaves nothing ($((SECONDS - started)) s in all)"
	else
		bad "the package leaves, or took:"
		cat "$out/left"
	fi
}

if [ "${1:-}" = --steps ]; then
	work=$2 out=$3 deb=$4
	{ read -r first && read -r second; } <"$cache/releases"
	steps
	finish
	exit
fi
if [ "$(uname -m)" != x86_64 ] || [ "$(id -u)" -ne 0 ]; then
	skip "a system of its own takes root and x86-64"
	finish
	exit
fi
for command in qemu-system-x86_64 busybox cpio depmod xz debootstrap dpkg-deb; do
	if ! command -v "$command" >/dev/null; then
		skip "needs $command (make deps)"
		finish
		exit
	fi
done
mkdir -p "$cache"
reason=
if ! with_lock "$cache" fetch_system; then
	skip "$reason"
	finish
	exit
fi
if [ "${1:-}" = fetch ]; then
	finish
	exit
fi
work=$(mktemp -d)
out=${KEEP:-$work/out}
mkdir -p "$out"
trap 'rm -rf "$work"' EXIT
if ! deb=$("$root/kmod/deb.sh" "$work" 2>"$out/deb"); then
	cat "$out/deb" >&2
	bad "the package cannot be made"
	finish
	exit
fi
unshare --mount "$here/dkms.sh" --steps "$work" "$out" "$deb"
