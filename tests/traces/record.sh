#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Records the traces in this folder anew, as root: tests/traces/record.sh [NAME...]
# Needed when the hash of the schema's first generation changed; then `cargo xtask golden` refills the
# results that the model must find in them. Each shows one state machine at work.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cargo build --release --locked --package plumb --package plumb-faults
here=tests/traces

scratch=$(mktemp -d)
# The traces name the programs: from here, so that no checkout's path stands in them.
cp target/release/plumb target/release/plumb-workload target/release/plumb-faults "$scratch"
plumb=$scratch/plumb
work=$scratch/plumb-workload
faults=$scratch/plumb-faults
loop=
cleanup() {
	umount "$scratch/mnt" 2>/dev/null || true
	for n in 0 1 2; do ip netns del "plumb-tier-$n" 2>/dev/null || true; done
	[ -z "$loop" ] || losetup -d "$loop" 2>/dev/null || true
	rm -rf "$scratch"
}
trap cleanup EXIT
truncate -s 64M "$scratch/image"
loop=$(losetup --find --show "$scratch/image")
mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "$loop"
mkdir "$scratch/mnt"
mount "$loop" "$scratch/mnt"

wanted=("$@")
is_wanted() {
	[ ${#wanted[@]} -eq 0 ] && return 0
	local name
	for name in "${wanted[@]}"; do
		[ "$name" != "$1" ] || return 0
	done
	return 1
}

# NAME OPTIONS... -- COMMAND...
record() {
	local name=$1
	shift
	is_wanted "$name" || return 0
	rm -rf "${here:?}/$name"
	$plumb record -q -o "$here/$name" "$@" >/dev/null
	echo "$name: $(du -sk "$here/$name" | cut -f1) KiB"
}

# NAME FAULT: a tenth of a second from the middle of a fault's load.
record_fault() {
	local name=$1 fault=$2 pid
	is_wanted "$name" || return 0
	$faults load "$fault" strong >/dev/null 2>&1 &
	local suite=$!
	for _ in $(seq 200); do
		pid=$(pgrep -f "plumb-faults work $fault" | head -1) && break
		sleep 0.05
	done
	sleep 0.3
	record "$name" --pid "$pid" --for 100ms
	wait "$suite" || true
}

# thread, CPU: on it, put off it, waiting for it, one thread for another
record hogs -- taskset -c 0 "$work" hogs 2 30
record join -- "$work" join 30
record sleep -- "$work" sleep 30
# block request, device queue, flush, journal
truncate -s 4M "$scratch/mnt/direct"
record direct-writes -- "$work" direct-writes 12 "$scratch/mnt/direct"
record write-fsync -- "$work" write-fsync 6 "$scratch/mnt/file"
# page cache and read-ahead
dd if=/dev/urandom of="$scratch/mnt/cold" bs=1M count=8 status=none
sync
echo 3 >/proc/sys/vm/drop_caches
record cold-read -e default,pagecache -- dd if="$scratch/mnt/cold" of=/dev/null bs=64k status=none
# futex, kernel lock
record mutex -- "$work" mutex 3 6 2
record appenders --stacks 100us -- "$work" appenders 3 10 "$scratch/mnt/lines"
# pipe, socket, epoll
record pipe -- "$work" pipe 6 2
record unix-socket -- "$work" unix 6 2
record epoll -- "$work" epoll 6 2
# connections of three hosts: a client, a server that asks another one for each answer
if is_wanted tiers; then
	for n in 0 1 2; do ip netns add "plumb-tier-$n"; done
	for n in 0 1; do
		ip link add name near netns "plumb-tier-$n" type veth peer name far netns "plumb-tier-$((n + 1))"
		ip -n "plumb-tier-$n" addr add "10.213.$n.1/24" dev near
		ip -n "plumb-tier-$((n + 1))" addr add "10.213.$n.2/24" dev far
		ip -n "plumb-tier-$n" link set near up
		ip -n "plumb-tier-$((n + 1))" link set far up
	done
	cat >"$scratch/tiers.sh" <<-END
		ip netns exec plumb-tier-2 $work answer-tcp 10.213.1.2:7001 12 spin 2 &
		ip netns exec plumb-tier-1 $work relay-tcp 10.213.0.2:7000 12 10.213.1.2:7001 &
		ip netns exec plumb-tier-0 $work ask-tcp 10.213.0.2:7000 12
		wait
	END
	record tiers -e sched,irq,syscall,tcp -- sh "$scratch/tiers.sh"
	for n in 0 1 2; do ip netns del "plumb-tier-$n"; done
fi
# network, memory, writeback, limits of cgroups, interrupts
record_fault tcp-peer slow-tcp-peer
record_fault memory small-cache
record_fault dirty-throttle dirty-limit
record_fault io-limit limit-requests
record_fault cpu-quota cpu-quota
record_fault interrupts softirq-flood
