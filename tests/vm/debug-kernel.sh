# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=bash
# A kernel that checks itself (lockdep, KASAN, UBSAN, objects' lifetimes), of Debian's sources. Sourced after guest.sh
# and kbuild.sh; takes some 3 GB and, with two processors, a quarter of an hour.

# build_kernel NAME PACKAGE: $cache/NAME as fetch_kernel leaves it, with the tree that it was built in for headers.
build_kernel() {
	local name=$1 package=$2 dir=$cache/$1 tree release number=100 command module stamp
	stamp="$package $(md5sum <"$root/tests/vm/debug-kernel.config")"
	[ "$(cat "$dir/stamp" 2>/dev/null)" != "$stamp" ] || return 0
	for command in flex bison bc pahole; do
		if ! command -v "$command" >/dev/null; then
			reason="needs $command to build a kernel (apt-get install flex bison bc dwarves libelf-dev)"
			return 1
		fi
	done
	apt_of here || return 1
	rm -rf "$dir"
	mkdir -p "$dir/modules" "$dir/root/usr/src"
	echo "vm: building a kernel that checks itself of $package (Debian) in $dir" >&2
	if ! (cd "$dir" && apt-get -q "${apt[@]}" download "$package" >log 2>&1 && dpkg -x ./*.deb source &&
		tar -xJf source/usr/src/"$package".tar.xz && rm -rf source ./*.deb); then
		reason="apt-get download $package: $(tail -n 1 "$dir/log")"
		return 1
	fi
	tree=$dir/$package
	if ! (
		cd "$tree" && make tinyconfig && cat "$root/tests/vm/debug-kernel.config" >>.config && make olddefconfig &&
			make -j"$(nproc)" CC=gcc-12 bzImage modules
	) >>"$dir/log" 2>&1; then
		reason="$package does not build: $(grep -m1 -E 'error|Error' "$dir/log")"
		return 1
	fi
	release=$(make -sC "$tree" kernelrelease)
	cp "$tree/arch/x86/boot/bzImage" "$dir/vmlinuz"
	# configfs before what needs it.
	for module in fs/configfs/configfs block/bfq block/kyber-iosched drivers/block/null_blk/null_blk; do
		cp "$tree/$module.ko" "$dir/modules/$number-$(basename $module).ko"
		number=$((number + 1))
	done
	ln -s "$tree" "$dir/root/usr/src/linux-headers-$release"
	echo "$release" >"$dir/release"
	echo "$stamp" >"$dir/stamp"
}
