# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=bash
# Guests: kernels of Debian's packages, what a guest needs of this machine, and the one way to boot it. Sourced.

# Some are built in on some kernels. The file systems are for their tracepoints;
# their checksum module is the reason for -cpu Nehalem.
MODULES="virtio_pci virtio_blk ext4 xfs btrfs"

# Functions of the kernel from open(2) to the entry in the directory of ext4, and to the open file.
# shellcheck disable=SC2034 # of who sources this
WAYPOINTS="do_filp_open d_alloc_parallel ext4_lookup ext4_create __ext4_new_inode ext4_add_entry d_instantiate_new do_dentry_open"

# fetch PATTERN DIR: unpacks the newest package that matches into DIR, unless that is there.
fetch() {
	local pattern=$1 dir=$2 package release sandbox=()
	[ "$(cat "$dir/stamp" 2>/dev/null)" != "$pattern $MODULES" ] || return 0
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
	# Whoever calls this in a condition has switched -e off.
	if ! dpkg -x "$dir.new"/*.deb "$dir.new/root"; then
		reason="dpkg -x $package failed"
		return 1
	fi
	release=$(ls "$dir.new/root/lib/modules")
	if [ "$GUEST_ARCH" = aarch64 ] && ! take_busybox "$dir.new"; then
		reason="apt-get download busybox-static:arm64: $(tail -n 1 "$dir.new/log") (scripts/deps.sh arm64 tells apt of that architecture)"
		return 1
	fi
	if ! cp "$dir.new/root/boot/vmlinuz-$release" "$dir.new/vmlinuz" || ! take_modules "$dir.new" "$release"; then
		reason="the kernel and modules of $package cannot be unpacked (xz, zstd, room?)"
		return 1
	fi
	rm -rf "$dir.new/root" "$dir.new"/*.deb "$dir"
	echo "$pattern $MODULES" >"$dir.new/stamp"
	mv "$dir.new" "$dir"
}

# This machine's runs on its own architecture alone.
take_busybox() {
	(cd "$1" && apt-get -q ${sandbox[@]+"${sandbox[@]}"} download busybox-static:arm64 >log 2>&1 &&
		dpkg -x busybox-static_*.deb busybox-root && mv busybox-root/bin/busybox . && rm -r busybox-root busybox-static_*.deb)
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
		esac || return 1
		number=$((number + 1))
	done
}

# Architecture of the guests, as uname -m says it: x86_64 or aarch64.
GUEST_ARCH=x86_64

# libraries PROGRAM: files that it loads. ldd cannot say it of another architecture's: what their tables name is taken
# from where Debian puts it.
libraries() {
	local name
	if [ "$GUEST_ARCH" = "$(uname -m)" ]; then
		# A static program makes ldd fail.
		{ ldd "$1" 2>/dev/null || true; } | sed -n 's|^[^/]*\(/[^ ]*\).*|\1|p'
		return
	fi
	readelf -l "$1" | sed -n 's/.*interpreter: \(.*\)\]/\1/p'
	readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | while read -r name; do
		echo "/lib/$GUEST_ARCH-linux-gnu/$name"
		libraries "/lib/$GUEST_ARCH-linux-gnu/$name"
	done
}

# with_libraries PROGRAM TREE NAME: installs it as TREE/bin/NAME with what it loads, without debug information where binutils
# are there for its architecture: a guest holds its files in memory.
with_libraries() {
	local library
	strip --strip-debug -o "$2/bin/$3" "$1" 2>/dev/null || cp "$1" "$2/bin/$3"
	libraries "$1" | sort -u | while read -r library; do
		mkdir -p "$2$(dirname "$library")"
		cp -L "$library" "$2$library"
	done
}

# guest_tree TREE INIT MODULES: begins an initramfs in TREE, with busybox (BUSYBOX, or this machine's), the script INIT as
# process 1 and the kernel's own modules of the directory MODULES in /modules.
guest_tree() {
	mkdir -p "$1/bin" "$1/modules"
	cp "$2" "$1/init"
	with_libraries "${BUSYBOX:-$(command -v busybox)}" "$1" busybox
	cp "$3"/*.ko "$1/modules/" 2>/dev/null || true
}

# boot_guest MODE KERNEL TREE OUT [QEMU OPTION...]: boots KERNEL with TREE as its initramfs and waits until it is off,
# TIMEOUT seconds at most. Unpacks into OUT what the guest wrote to /dev/vda, a tar archive; OUT/console is its console
# OUT/qemu what QEMU said, OUT/cpu its CPU time. Fails unless the guest said "results are out".
#
# MODE: smp, two processors with a thread of the emulator each; single, two processors in one thread; virtual, one
# processor whose clock counts its instructions (1 ns each) and jumps over idle time, so that the host's load and speed
# are in no figure. GUEST_MB is the guest's memory, GUEST_APPEND what its command line has beyond the usual.
#
# Two threads of the emulator lose the race for an instruction that the kernel patches now and then, in the guest's own
# int3 handling, and most patching is done while a kernel boots. So a guest of mode smp boots with one processor, and
# its init switches on the other before it says that it is up. One that died before that says nothing about the script
# and is booted again.
boot_guest() {
	local mode=$1 kernel_image=$2 tree=$3 to=$4 files machine accel append= tries rc=0 TIMEFORMAT='%U user %S system'
	shift 4
	case $mode in
	smp) accel=(-accel tcg,thread=multi -smp 2) append="maxcpus=1 noreplace-smp" tries=3 ;;
	single) accel=(-accel tcg,thread=single -smp 2) tries=1 ;;
	virtual) accel=(-accel tcg,thread=single -smp 1 -icount shift=0,sleep=off,align=off -rtc clock=vm,base=2026-01-01) tries=1 ;;
	esac
	case $GUEST_ARCH in
	# no_timer_check: where other work takes the host's processors, the timer seems not to tick, and the kernel panics.
	x86_64) machine=(-cpu Nehalem) append="console=ttyS0 tsc=reliable no_timer_check $append" ;;
	aarch64) machine=(-M virt -cpu cortex-a72) append="console=ttyAMA0 $append" ;;
	esac
	files=$(mktemp -d -p "${work:-/tmp}")
	mkdir -p "$to"
	(cd "$tree" && find . | cpio -o -H newc --quiet | gzip -1) >"$files/initramfs.gz"
	truncate -s 256M "$files/vda"
	while :; do
		{ time timeout --foreground "$TIMEOUT" "qemu-system-$GUEST_ARCH" "${accel[@]}" "${machine[@]}" -m "${GUEST_MB:-1024}" -nodefaults \
			-display none -no-reboot -kernel "$kernel_image" -initrd "$files/initramfs.gz" \
			-append "quiet panic=-1 $append ${GUEST_APPEND-oops=panic}" \
			-drive "file=${files//,/,,}/vda,format=raw,if=virtio" -serial "file:${to//,/,,}/console" \
			"$@" </dev/null >"$to/qemu" 2>&1 || true; } 2>"$to/cpu"
		tries=$((tries - 1))
		[ $tries -gt 0 ] && ! grep -q 'plumb-vm: Linux .* is up' "$to/console" || break
		echo "RETRY ${name:-guest}: ended before its script began ($(grep -a -m1 'Kernel panic' "$to/console" || echo 'no panic')); booted again" >&2
	done
	if grep -q 'plumb-vm: results are out' "$to/console"; then
		tar --warning=no-timestamp -xf "$files/vda" -C "$to" || rc=1
	else
		rc=1
	fi
	rm -rf "$files"
	return $rc
}

# with_lock DIR COMMAND...: runs COMMAND while no other script fills DIR.
with_lock() {
	local lock rc=0
	mkdir -p "$1"
	exec {lock}>"$1/.lock"
	flock "$lock"
	shift
	"$@" || rc=$?
	exec {lock}>&-
	return $rc
}
