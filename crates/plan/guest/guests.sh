#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# guests.sh DIR COUNT: boots the guests of a repetition, which DIR/0/conf and, of two, DIR/1/conf describe; what they are to do
# lies beside it (DIR/N/run), and what they leave comes to DIR/N/out. Fails, with the reason as its last words, when a guest
# leaves nothing. Kernels are kept in PLUMB_GUESTS, or below the user's cache directory.
set -euo pipefail

dir=$1 count=$2
cache=$(realpath -m "${PLUMB_GUESTS:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/plumb/guests}")
cd "$dir"
export PATH="$PATH:/usr/sbin:/sbin"
. ./guest.sh
GUEST_APPEND=
plumb=$(realpath /proc/$PPID/exe)
# shellcheck disable=SC2034 # of guest.sh
work=$dir
reason=

fail() {
	echo "$*" >&2
	exit 1
}
for command in qemu-system-x86_64 busybox cpio depmod apt-get pkill; do
	command -v "$command" >/dev/null || fail "a guest needs $command, which is not installed: apt install qemu-system-x86 busybox-static cpio kmod procps"
done

# In a subshell with its conf: a guest's kernel comes to $kernel_dir.
fetch_kernel() {
	MODULES="virtio_pci virtio_blk virtio_net crc32c_generic crc32c-intel $file_system"
	[ "$others" = 0 ] || MODULES="$MODULES iscsi_tcp sd_mod target_core_iblock iscsi_target_mod nvme-tcp nvmet-tcp sch_netem"
	kernel_dir=$cache/$kernel-$(echo "$MODULES" | md5sum | cut -c1-8)
	case $kernel in
	/*)
		kernel_dir=$dir/image$number
		mkdir -p "$kernel_dir/modules"
		cp "$kernel" "$kernel_dir/vmlinuz" || fail "$kernel: cannot be read"
		;;
	*)
		with_lock "$cache" fetch "^linux-image-${kernel//./\\.}(\\.[0-9]+)*(-[0-9]+)?([+][+.a-z0-9]*)?(-[0-9]+)?-amd64\$" "$kernel_dir" >&2 || fail "kernel $kernel: $reason"
		;;
	esac
}

# The initiator's programs, which a minimal machine does not have.
fetch_initiator() {
	local to=$cache/open-iscsi sandbox=()
	[ ! -e "$to/sbin/iscsistart" ] || return 0
	[ "$(id -u)" -ne 0 ] || sandbox=(-o APT::Sandbox::User=root)
	rm -rf "$to.new"
	mkdir -p "$to.new"
	if ! (cd "$to.new" && apt-get -q ${sandbox[@]+"${sandbox[@]}"} download open-iscsi libopeniscsiusr libkmod2 >log 2>&1); then
		reason="apt-get download open-iscsi: $(tail -n 1 "$to.new/log")"
		return 1
	fi
	for package in "$to.new"/*.deb; do dpkg -x "$package" "$to.new"; done
	rm -rf "$to"
	mv "$to.new" "$to"
}

# one NUMBER QEMU-OPTION...: boots a guest; in a subshell of its own.
one() {
	local tree=$dir/$1/tree options=() tool drive module number=$1 kernel_dir join= memory=1024 mode=single delay_us=0 tools= drives= kernel_options=
	shift
	. "./$number/conf"
	fetch_kernel
	guest_tree "$tree" "$dir/init" "$kernel_dir/modules"
	# Behind the kernel's own, which they may need.
	for module in "$cache/modules/$kernel"/*.ko; do
		[ ! -e "$module" ] || cp "$module" "$tree/modules/900-${module##*/}"
	done
	with_libraries "$plumb" "$tree" plumb
	for tool in $tools; do
		tool=$(command -v "$tool") || continue # busybox may have it
		case $tool in
		*/sh) ;; # busybox has it
		*/plumb) ;;
		*) with_libraries "$tool" "$tree" "$(basename "$tool")" ;;
		esac
	done
	if [ "$delay_us" != 0 ]; then
		with_libraries "$(command -v tc)" "$tree" tc-iproute2 # busybox installs its own as tc
		mkdir -p "$tree/usr/lib"
		cp -r /usr/lib/tc "$tree/usr/lib/" 2>/dev/null || true
	fi
	if [ "$join" = iscsi ]; then
		with_lock "$cache" fetch_initiator || fail "$reason"
		LD_LIBRARY_PATH=$cache/open-iscsi/usr/lib/x86_64-linux-gnu with_libraries "$cache/open-iscsi/sbin/iscsistart" "$tree" iscsistart
		mkdir -p "$tree/lib/x86_64-linux-gnu"
		cp -L "$cache"/open-iscsi/usr/lib/x86_64-linux-gnu/*.so* "$tree/lib/x86_64-linux-gnu/"
	fi
	mkdir -p "$tree/cell"
	cp "$dir/$number"/{run,until,conf} "$tree/cell/"
	[ ! -e "$dir/$number/cell.toml" ] || cp "$dir/$number/cell.toml" "$tree/cell/"
	for drive in $drives; do
		options+=(-drive "file=$drive,format=raw,if=virtio,cache=writeback")
	done
	# shellcheck disable=SC2034 # of guest.sh
	GUEST_MB=$memory GUEST_APPEND="oops=panic $kernel_options"
	boot_guest "$mode" "$kernel_dir/vmlinuz" "$tree" "$dir/$number/out" ${options[@]+"${options[@]}"} "$@" ||
		fail "$name: the guest left no results: $(grep -a 'plumb-vm:' "$dir/$number/out/console" | tail -n 1) $(tail -n 1 "$dir/$number/out/qemu")"
	rm -rf "$tree"
}

# In a process group of its own, which is killed with this script.
socket=
leave() {
	pkill -g 0 qemu-system || true
	[ -z "$socket" ] || rm -f "$socket"
}
trap leave EXIT
if [ "$count" = 1 ]; then
	(one 0)
	exit
fi
socket=$(mktemp -u /tmp/plumb-guests-XXXXXX)
link() { echo "-netdev stream,id=n,server=$1,addr.type=unix,addr.path=$socket -device virtio-net-pci,netdev=n,mac=52:54:00:00:00:0$2"; }
# shellcheck disable=SC2046 # options
(one 1 $(link on 2)) 2>1/stderr &
pids=$!
until [ -e "$socket" ]; do
	if ! kill -0 "$pids" 2>/dev/null; then
		cat 1/stderr >&2
		exit 1
	fi
	sleep 0.1
done
# shellcheck disable=SC2046 # options
(one 0 $(link off 1)) 2>0/stderr &
first=$! failed=
for _ in 1 2; do
	wait -n -p ended || failed=${failed:-$([ "$ended" = "$first" ] && echo 0 || echo 1)}
	# The other one would wait for it.
	[ -z "$failed" ] || pkill -g 0 qemu-system || true
done
[ -z "$failed" ] || cat "$((1 - failed))/stderr" "$failed/stderr" >&2
[ -z "$failed" ]
