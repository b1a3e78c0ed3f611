#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# tests/vm/run.sh PLUMB|fetch [--arm64 PROGRAM] [KERNEL...]: boots the kernels of the list beside this
# script in QEMU, records a known workload on each with the program PLUMB, and
# reads the traces on this side. Software emulation: works where there is no KVM.
# --arm64: those of arm64-kernels, in which PROGRAM, built for them, records.
#
# Kernels are kept in target/vm; remove that directory to fetch newer ones. fetch: does only that.
set -euo pipefail

if [ $# -lt 1 ] || { [ "$1" != fetch ] && [ ! -x "$1" ]; }; then
	echo "vm: give the program to test: tests/vm/run.sh target/release/plumb (make build makes it)" >&2
	exit 2
fi
plumb=$1
[ "$plumb" = fetch ] || plumb=$(realpath "$plumb")
shift
arch=$(uname -m) program=$plumb list=kernels LACKING='[]'
if [ "${1-}" = --arm64 ]; then
	arch=aarch64 program=$(realpath "$2") list=arm64-kernels
	LACKING='["call_function_single_entry","call_function_single_exit","local_timer_entry","local_timer_exit","page_fault_kernel","page_fault_user"]'
	shift 2
fi
cd "$(dirname "${BASH_SOURCE[0]}")"
here=$PWD
root=$(realpath ../..)
export PATH="$PATH:/usr/sbin:/sbin"
cache=${CARGO_TARGET_DIR:-$root/target}/vm

WRITES=23
# What hangs is told from what waits for a processor: alone a guest takes a third of it.
TIMEOUT=480
# The kernel's complaints are looked for in its log.
GUEST_APPEND=

. ./counts.sh
. ../../crates/plan/guest/guest.sh

# number KEY FILE: a number of a JSON object.
number() { sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" "$2" | head -n 1; }

# One line of counts from a trace's text: write requests issued to the device,
# those of them whose bio the command queued, and commands seen.
count_writes() { # DEV
	awk -v dev="$1" '
		function field(name) {
			if (!match($0, name " = [^,} ]*")) return ""
			return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3)
		}
		/ sched_exec: / && /comm = "dd"/ { commands++; dd = field("tid") }
		/ block_bio_queue: / && field("dev") == dev { owner[field("bio")] = field("tid") }
		/ block_rq_issue: / && field("dev") == dev && field("opf") ~ /01$/ {
			issued++
			if (dd != "" && owner[field("bio")] == dd) owned++
		}
		END { print issued + 0, owned + 0, commands + 0 }'
}

judge() { # STEP: reads what the guest left of `plumb record`
	local step=$1 rc events state lost lines major minor counts
	rc=$(cat "$out/$step.rc")
	if [ "$rc" -ne 0 ]; then
		bad "plumb record --events $step: exit code $rc; it said:"
		cat "$out/$step.err" "$out/$step.out"
		return
	fi
	events=$(number events "$out/$step.out")
	state=$(number state_events "$out/$step.out")
	lost=$(number lost "$out/$step.out")
	if ! babeltrace2 "$out/$step" >"$work/$step.txt" 2>"$work/$step.bt" || [ -s "$work/$step.bt" ]; then
		bad "$step: babeltrace2 says:"
		cat "$work/$step.bt"
		return
	fi
	lines=$(wc -l <"$work/$step.txt")
	if [ "$lines" -eq $((events + state)) ] && [ "$lost" -eq 0 ]; then
		ok "$step: babeltrace2 reads all $lines events, 0 lost"
	else
		bad "$step: babeltrace2 reads $lines events; plumb said $events + $state, $lost lost"
	fi
	IFS=: read -r major minor <"$out/disk"
	counts=$(count_writes $((major << 20 | minor)) <"$work/$step.txt")
	if [ "$counts" = "$WRITES $WRITES 1" ]; then
		ok "$step: $WRITES direct writes gave $WRITES write requests, all traced back to the writer"
	else
		bad "$step: of $WRITES direct writes: 'issued owned commands' is '$counts', not '$WRITES $WRITES 1'"
	fi
}

judge_spans() { # probes in a program, and the word that says what it waits for
	local step=spans seen
	if [ "$(cat "$out/$step.rc")" -ne 0 ] || ! babeltrace2 "$out/$step" >"$work/$step.txt"; then
		bad "plumb record of spans: exit code $(cat "$out/$step.rc"); it said:"
		cat "$out/$step.err"
		return
	fi
	seen=$(grep -c 'span_begin: ' "$work/$step.txt") || true
	# As many ends and waits, but for those while the probes are attached and detached: one a switch of all of them.
	for event in span_end span_wait span_text; do
		if [ "$seen" -lt 10 ] || ! grep -c " $event: \|state_$event: " "$work/$step.txt" | awk -v n="$seen" '{ exit !($1 >= n - 20 && $1 <= n + 20) }'; then
			bad "spans: $seen begins, and of $event $(grep -c " $event: \|state_$event: " "$work/$step.txt")"
			return
		fi
	done
	if "$plumb" explain "$out/$step" | grep 'select pg_sleep(?)' | grep -q 'Timeout:PgSleep'; then
		ok "spans: $seen statements with their wait events"
	else
		bad "spans: plumb explain does not tell of select pg_sleep(?) with Timeout:PgSleep:"
		"$plumb" explain "$out/$step" | head -n 40
	fi
}

judge_kernel_spans() { # probes in functions of the kernel
	local step=kernel calls
	if [ "$(cat "$out/$step.rc")" -ne 0 ]; then
		bad "plumb record --span kernel:vfs_write: exit code $(cat "$out/$step.rc"); it said:"
		cat "$out/$step.err"
		return
	fi
	"$plumb" explain --json "$out/$step" >"$work/$step.json"
	"$plumb" view waypoints "$out/$step" >"$work/$step.txt" || true
	calls=$("$plumb" query --csv "select count from spans where span = 'vfs_write' and key = '4096'" "$out/$step" | tail -n 1)
	if [ "$calls" = "$WRITES" ]; then
		ok "kernel functions: $WRITES calls of vfs_write with 4096 bytes"
	else
		bad "kernel functions: '$calls' calls of vfs_write with 4096 bytes, not $WRITES; plumb view waypoints:"
		cat "$work/$step.txt"
	fi
	if grep -q '"key": "/dev/vdb"' "$work/$step.json" && grep -q 'kernel: vfs_write (kprobe)' "$work/$step.json"; then
		ok "kernel functions: a text of the caller is a key, and the trace says which kind of probe"
	else
		bad "kernel functions: no span of do_sys_openat2 has the key /dev/vdb, or none is of a kprobe:"
		grep -A3 '"name": "open"' "$work/$step.json" | head -n 40
	fi
	if grep -q "write  *1.00\|waypoints: write, " "$work/$step.txt" && grep -q 'vfs_write  *vfs_write ends' "$work/$step.txt"; then
		ok "kernel functions: write(2) is cut at its waypoints"
	else
		bad "kernel functions: plumb view waypoints has no way of write(2):"
		cat "$work/$step.txt"
	fi
	if [ "$(cat "$out/nofunction.rc")" -eq 2 ] && grep -q "no function 'vfs_writ'.*it has vfs_write" "$out/nofunction.err"; then
		ok "kernel functions: one that is not there is told with those like it"
	else
		bad "kernel functions: --span kernel:vfs_writ: exit code $(cat "$out/nofunction.rc"); it said:"
		cat "$out/nofunction.err"
	fi
}

judge_govern() { # reads what the guest left of `plumb govern`
	if [ "$(cat "$out/govern.rc")" -ne 0 ]; then
		bad "plumb govern under cgroup v2: it said:"
		cat "$out/govern.err"
	elif ! grep -q '"watch": "requests"' "$out/govern.out"; then
		bad "plumb govern did without BPF: $(grep watch_why "$out/govern.out")"
	else
		ok "cgroup v2: background I/O was limited during foreground I/O, unlimited without, and as before after kill -9 ($(number switches "$out/govern.out") switches)"
	fi
}

boot() { # DIR
	local started=$SECONDS lacking tree=$work/tree
	guest_tree "$tree" "$here/init" "$1/modules"
	cp "$here/govern" "$tree/"
	with_libraries "$program" "$tree" plumb
	# Named so that plumb takes it for a server, and static: the guest has no libraries of its own.
	if ! "$GUEST_ARCH-linux-gnu-gcc" -O1 -static -o "$tree/postgres" "$here/postgres.c"; then
		bad "cc cannot build tests/vm/postgres.c"
		return
	fi
	echo "$WRITES" >"$tree/writes"
	truncate -s 16M "$work/vdb"
	# One thread of the emulator: each tracepoint is switched on by patching instructions that the other processor may
	# be executing, and two threads lose that race now and then (see boot_guest).
	if ! boot_guest single "$1/vmlinuz" "$tree" "$out" -drive "file=$work/vdb,format=raw,if=virtio"; then
		bad "the guest left no results within $TIMEOUT s; QEMU and its console say:"
		cat "$out/qemu"
		tail -n 60 "$out/console"
		return
	fi
	grep -ao 'plumb-vm: .*' "$out/console"
	if grep -E 'insmod .* failed' "$out/console"; then bad "a module did not load"; fi

	if [ "$(cat "$out/check.rc")" -eq 0 ]; then
		ok "plumb check finds what plumb needs"
	else
		bad "plumb check: exit code $(cat "$out/check.rc"); it said:"
		cat "$out/check.out" "$out/check.err"
	fi
	judge default
	judge all
	judge namespace
	judge_spans
	judge_kernel_spans
	judge_govern
	lacking=$(tr -d ' \n' <"$out/all.out" | sed -n 's/.*"lacking":\(\[[^]]*\]\).*/\1/p')
	if [ "$lacking" = "$LACKING" ]; then
		ok "every BPF program loads and attaches that has a tracepoint (not: $LACKING)"
	else
		bad "not every BPF program was loaded; lacking: ${lacking:-unknown}"
	fi
	if grep -E 'WARNING:|BUG:|Oops|Call Trace' "$out/dmesg"; then
		bad "the kernel complained; the whole log:"
		cat "$out/dmesg"
	else
		ok "no complaint in the kernel's log ($((SECONDS - started)) s in all, $(cat "$out/cpu"))"
	fi
}

name=vm
GUEST_ARCH=$arch
if [ "$arch" != x86_64 ] && [ "$list" = kernels ]; then
	skip "the kernels of the list are for x86-64"
	finish
	exit
fi
for command in "qemu-system-$arch" busybox cpio depmod xz babeltrace2; do
	if ! command -v "$command" >/dev/null; then
		skip "needs $command (make deps)"
		finish
		exit
	fi
done
work=
trap '[ -z "$work" ] || rm -rf "$work"' EXIT
while read -r kernel pattern; do
	case $kernel in '' | '#'*) continue ;; esac
	[ $# -eq 0 ] || [[ " $* " == *" $kernel "* ]] || continue
	name=vm-$kernel
	dir=$cache/$kernel
	reason=
	[ "$arch" = x86_64 ] || BUSYBOX=$dir/busybox
	if ! with_lock "$cache" fetch "$pattern" "$dir"; then
		skip "$reason"
		continue
	fi
	[ "$plumb" != fetch ] || continue
	work=$(mktemp -d)
	out=$work/out
	boot "$dir"
	rm -rf "$work"
	work=
done <"$here/$list"
finish
