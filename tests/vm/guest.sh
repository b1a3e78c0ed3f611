# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=bash
# Kernels of Debian's packages and what a guest needs of this machine; sourced.

# Some are built in on some kernels. The file systems are for their tracepoints;
# their checksum module is the reason for -cpu Nehalem.
MODULES="virtio_pci virtio_blk ext4 xfs btrfs"

# fetch PATTERN DIR: unpacks the newest package that matches into DIR.
fetch() {
	local pattern=$1 dir=$2 package release sandbox=()
	package=$(apt-cache search --names-only "$pattern" | awk '{print $1}' | sort -V | tail -n 1)
	if [ -z "$package" ]; then
		reason="apt knows no package $pattern (apt-get update? another release of Debian?)"
		return 1
	fi
	rm -rf "$dir.new"
	mkdir -p "$dir.new"
	# apt's own user may not write here.
	[ "$(id -u)" -ne 0 ] || sandbox=(-o APT::Sandbox::User=root)
	echo "vm: fetching $package (Debian package) into $dir"
	if ! (cd "$dir.new" && apt-get -q ${sandbox[@]+"${sandbox[@]}"} download "$package" >log 2>&1); then
		reason="apt-get download $package: $(tail -n 1 "$dir.new/log")"
		return 1
	fi
	dpkg -x "$dir.new"/*.deb "$dir.new/root"
	release=$(ls "$dir.new/root/lib/modules")
	cp "$dir.new/root/boot/vmlinuz-$release" "$dir.new/vmlinuz"
	take_modules "$dir.new" "$release"
	rm -rf "$dir.new/root" "$dir.new"/*.deb "$dir"
	echo "$pattern $MODULES" >"$dir.new/stamp"
	mv "$dir.new" "$dir"
}

# In the order in which they must be loaded, unpacked, and numbered: the guest
# has no modprobe data.
take_modules() {
	local dir=$1 release=$2 number=100 module path
	depmod -b "$dir/root" "$release"
	mkdir "$dir/modules"
	for module in $MODULES; do
		modprobe -d "$dir/root" -S "$release" --show-depends "$module"
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r path; do
		module=$(basename "$path")
		case $path in
		*.xz) xz -dc "$path" >"$dir/modules/$number-${module%.xz}" ;;
		*.zst) zstd -dcq "$path" >"$dir/modules/$number-${module%.zst}" ;;
		*) cp "$path" "$dir/modules/$number-$module" ;;
		esac
		number=$((number + 1))
	done
}

# with_libraries PROGRAM TREE NAME: installs it as TREE/bin/NAME with what ldd names.
with_libraries() {
	local library
	cp "$1" "$2/bin/$3"
	# A static program makes ldd fail.
	{ ldd "$1" 2>/dev/null || true; } | sed -n 's|^[^/]*\(/[^ ]*\).*|\1|p' | while read -r library; do
		mkdir -p "$2$(dirname "$library")"
		cp -L "$library" "$2$library"
	done
}
