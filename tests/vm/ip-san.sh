#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# tests/vm/ip-san.sh PLUMB|fetch [OPTION...]: boots two guests, an initiator and a target, joined by a network of QEMU's, records
# both while the initiator works on the target's disk, and asks plumb for every command from the initiator's block layer to
# the target's device and back.
#
#   --protocol iscsi|nvme   both unless given
#   --kernel NAME           6.1 or 6.12; unless given 6.12 for iSCSI, 6.1 for NVMe/TCP
#   --commands N            small writes and reads; 160 unless given
#   --link unix|tcp         how QEMU joins the guests; tcp has QEMU's Nagle and delayed acknowledgements in it
#   --delay MS              tc netem on the target's interface
#   --initiator-delay MS    on the initiator's
#   --disk MODEL            the target's disk is one that 'plumb disk serve' simulates; words behind the model are its options
#   --expect PLACE          what most time must go to, as 'network: answer on its way'
#   --keep DIR              the recordings stay there
#   --files N               in place of that N files are created in one directory, five times; needs --keep, and nothing is judged
#   --to PORT DIR SECONDS   both send their recordings to a collector of this machine, with the invitations in DIR; the initiator's
#                           recorder is killed after SECONDS, 0: not; nothing is judged
set -euo pipefail

if [ $# -lt 1 ] || { [ "$1" != fetch ] && [ ! -x "$1" ]; }; then
	echo "ip-san: give the program to test: tests/vm/ip-san.sh target/release/plumb (make build makes it)" >&2
	exit 2
fi
plumb=$1
[ "$plumb" = fetch ] || plumb=$(realpath "$plumb")
shift
cd "$(dirname "${BASH_SOURCE[0]}")"
here=$PWD
root=$(realpath ../..)
export PATH="$PATH:/usr/sbin:/sbin"
# Each guest measures what the other one does: other sessions' work must not take their processors. Not from a shell whose
# other work this would favour.
[ "$(ps -o sid= -p $$ | tr -d ' ')" != $$ ] || echo -15 2>/dev/null >/proc/self/autogroup || true
cache=${CARGO_TARGET_DIR:-$root/target}/vm
TIMEOUT=${TIMEOUT:-240}
GUEST_APPEND=
. ./counts.sh
. ../../crates/plan/guest/guest.sh
MODULES="virtio_pci virtio_blk virtio_net crc32c_generic crc32c-intel iscsi_tcp sd_mod target_core_iblock iscsi_target_mod nvme-tcp nvmet-tcp sch_netem ext4"

declare -A KERNELS=(
	[6.1]='^linux-image-6\.1\.[0-9]+-[0-9]+-amd64$'
	[6.12]='^linux-image-6\.12\.[0-9]+[+.a-z0-9]*-amd64$'
)
protocols="iscsi nvme" kernel= commands=160 link=unix delay=0 initiator_delay=0 disk= keep= expect= to= invitations= kill=0 files=0
while [ $# -gt 0 ]; do
	case $1 in
	--protocol) protocols=$2 ;;
	--kernel) kernel=$2 ;;
	--commands) commands=$2 ;;
	--link) link=$2 ;;
	--delay) delay=$2 ;;
	--initiator-delay) initiator_delay=$2 ;;
	--disk) disk=$2 ;;
	--expect) expect=$2 ;;
	--files) files=$2 ;;
	--keep) keep=$(realpath -m "$2") ;;
	--to)
		to=$2 invitations=$3 kill=$4
		shift 2
		;;
	*)
		echo "ip-san: unknown option $1" >&2
		exit 2
		;;
	esac
	shift 2
done

# The initiator's programs, which a minimal machine does not have.
fetch_initiator() {
	local dir=$cache/open-iscsi sandbox=()
	[ ! -e "$dir/sbin/iscsistart" ] || return 0
	[ "$(id -u)" -ne 0 ] || sandbox=(-o APT::Sandbox::User=root)
	rm -rf "$dir.new"
	mkdir -p "$dir.new"
	if ! (cd "$dir.new" && apt-get -q ${sandbox[@]+"${sandbox[@]}"} download open-iscsi libopeniscsiusr libkmod2 >log 2>&1); then
		reason="apt-get download open-iscsi: $(tail -n 1 "$dir.new/log")"
		return 1
	fi
	for package in "$dir.new"/*.deb; do dpkg -x "$package" "$dir.new"; done
	rm -rf "$dir"
	mv "$dir.new" "$dir"
}

# guest ROLE QEMU-OPTION...: boots one; its results come to $out/ROLE.
guest() {
	local role=$1
	shift
	GUEST_APPEND="oops=panic plumb.run=$$ plumb.to=$to plumb.kill=$kill plumb.files=$files plumb.role=$role plumb.protocol=$protocol plumb.commands=$commands plumb.delay=$([ "$role" = target ] && echo "$delay" || echo "$initiator_delay")"
	[ -z "$to" ] || set -- "$@" -netdev user,id=u -device virtio-net-pci,netdev=u
	boot_guest single "$dir/vmlinuz" "$tree" "$out/$role" "$@"
}

try() { # PROTOCOL
	local protocol=$1 tree=$work/tree out=$work/$1 server client rc=0 port target set drive
	case $link in
	unix)
		server=addr.type=unix,addr.path=$work/$protocol.socket
		client=$server
		;;
	tcp)
		port=$((20000 + RANDOM % 10000))
		server=addr.type=inet,addr.host=127.0.0.1,addr.port=$port
		client=$server
		;;
	esac
	rm -rf "$tree"
	guest_tree "$tree" "$here/ip-san-init" "$dir/modules"
	with_libraries "$plumb" "$tree" plumb
	with_libraries "$(command -v tc)" "$tree" tc-iproute2 # busybox installs its own as tc
	mkdir -p "$tree/usr/lib"
	cp -r /usr/lib/tc "$tree/usr/lib/" 2>/dev/null || true
	LD_LIBRARY_PATH=$cache/open-iscsi/usr/lib/x86_64-linux-gnu with_libraries "$cache/open-iscsi/sbin/iscsistart" "$tree" iscsistart
	cp -L "$cache"/open-iscsi/usr/lib/x86_64-linux-gnu/*.so* "$tree/lib/x86_64-linux-gnu/"
	[ -z "$to" ] || cp "$invitations"/*.invitation "$tree/"
	truncate -s 1G "$work/disk"
	if [ "$files" != 0 ]; then
		# With a journal: without one, ext4 looks for inodes that were deleted a moment ago.
		mkfs.ext4 -q -O ^dir_index -E lazy_itable_init=0,lazy_journal_init=0 -N $((files * 2 + 1000)) "$work/disk"
		cc -O1 -static -o "$tree/bin/creates" "$root/benches/record/creates.c"
		printf -- '--span kernel:%s ' $WAYPOINTS >"$tree/spans"
	fi
	mkdir -p "$out" ${keep:+"$keep"}
	drive=$work/disk
	if [ -n "$disk" ]; then
		drive=nbd+unix:///?socket=$work/$protocol.nbd
		# shellcheck disable=SC2086 # words
		"$plumb" disk serve $disk --size 1G --no-device --no-calibrate --nbd "$work/$protocol.nbd" >"$out/disk.log" 2>&1 &
		served=$!
		until [ -e "$work/$protocol.nbd" ]; do
			kill -0 "$served" 2>/dev/null || { bad "plumb disk serve: $(cat "$out/disk.log")"; return; }
			sleep 0.1
		done
	fi
	guest target -drive "file=$drive,format=raw,if=virtio,cache=writeback" \
		-netdev "stream,id=n,server=on,$server" -device virtio-net-pci,netdev=n,mac=52:54:00:00:00:02 &
	target=$!
	until [ -e "$work/$protocol.socket" ] || { [ "$link" = tcp ] && sleep 2; }; do
		kill -0 "$target" 2>/dev/null || break
		sleep 0.1
	done
	guest initiator -netdev "stream,id=n,server=off,$client" -device virtio-net-pci,netdev=n,mac=52:54:00:00:00:01 || rc=1
	[ "$rc" -eq 0 ] || [ -n "$to" ] || pkill -P "$target" -f qemu-system || true
	wait "$target" || rc=1
	[ -z "$served" ] || kill "$served" 2>/dev/null || true
	served=
	if [ -n "$to" ]; then
		for role in initiator target; do
			[ -n "$keep" ] || break
			cp "$out/$role/record.err" "$keep/$role.record.err" 2>/dev/null || true
			cp "$out/$role/console" "$keep/$role.console"
		done
		return
	fi
	if [ "$rc" -ne 0 ]; then
		bad "a guest left no results within $TIMEOUT s; their consoles and QEMU say:"
		tail -n 30 "$out"/*/console "$out"/*/qemu
		return
	fi
	if [ "$files" != 0 ]; then
		mv "$out"/initiator/[A-E] "$out"/initiator/[A-E].json "$keep/"
		mv "$out/target/trace" "$keep/target"
		cp "$out/initiator/console" "$keep/initiator.console"
		return
	fi
	if [ ! -e "$out/initiator/trace/metadata" ] || [ ! -e "$out/target/trace/metadata" ]; then
		bad "a guest recorded nothing; plumb record said:"
		cat "$out"/*/record.err
		return
	fi
	set=$work/set-$protocol
	mkdir -p "$set"
	mv "$out/initiator/trace" "$set/initiator"
	mv "$out/target/trace" "$set/target"
	[ -z "$keep" ] || { mkdir -p "$keep" && rm -rf "$keep/$protocol" && cp -r "$set" "$keep/$protocol"; }
	"$plumb" explain --json "$set" >"$work/$protocol.json"
	while read -r verdict text; do
		case $verdict in
		ok) ok "$text" ;;
		FAIL) bad "$text" ;;
		figures) [ -z "$keep" ] || echo "$text" >"$keep/$protocol.figures" ;;
		*) bad "$verdict $text" ;;
		esac
	done < <(python3 "$here/ip-san-judge.py" "$work/$protocol.json" "$out/initiator/before" "$out/initiator/after" \
		$((commands + commands / 8)) $((commands + commands / 8 + commands / 20)) $((commands / 20)) \
		${expect:+"$expect"} 2>&1)
	if [ -n "$keep" ] || [ "$failed" -gt 0 ]; then
		"$plumb" explain "$set" >"$work/$protocol.txt"
		[ -z "$keep" ] || cp "$work/$protocol.txt" "$keep/$protocol.txt"
		[ "$failed" -eq 0 ] || cat "$work/$protocol.txt" "$out"/*/record.err
	fi
}

name=ip-san
reason=
for command in qemu-system-x86_64 busybox cpio depmod tc python3; do
	if ! command -v "$command" >/dev/null; then
		skip "needs $command (make deps)"
		finish
		exit
	fi
done
work=
served=
leave() {
	[ -z "$served" ] || kill "$served" 2>/dev/null || true
	# Guests whose files are in there.
	[ -z "$work" ] || pkill -f "qemu-system-x86_64 .*$work/" || true
	[ -z "$work" ] || rm -rf "$work"
}
trap leave EXIT
given=$kernel
for protocol in $protocols; do
	kernel=${given:-$([ "$protocol" = nvme ] && echo 6.1 || echo 6.12)}
	name=ip-san-$kernel-$protocol
	dir=$cache/ip-san-$kernel
	if ! with_lock "$cache" fetch "${KERNELS[$kernel]}" "$dir" || ! with_lock "$cache" fetch_initiator; then
		skip "$reason"
		continue
	fi
	[ "$plumb" != fetch ] || continue
	work=$(mktemp -d)
	try "$protocol"
	rm -rf "$work"
	work=
done
finish
