#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# tests/faults/crash.sh PLUMB_FAULTS PLUMB: what survives a power cut, on a disk that
# forgets what was not flushed. First the disk itself, then programs on it, then
# what `plumb load verify` says of every method that makes writes last.
# Every wait in plumb-faults ends; the caller bounds the whole by timeout(1).
set -uo pipefail

if [ $# -ne 2 ] || [ ! -x "$1" ] || [ ! -x "$2" ]; then
	echo "crash: give the programs: tests/faults/crash.sh target/release/plumb-faults target/release/plumb" >&2
	echo "crash: (cargo build --release -p plumb-faults -p plumb makes them)" >&2
	exit 2
fi
faults=$(realpath "$1")
plumb=$(realpath "$2")
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
export PATH="$PATH:/usr/sbin:/sbin"

passed=0 failed=0
pass() {
	echo "PASS $*"
	passed=$((passed + 1))
}
fail() {
	echo "FAIL $*"
	failed=$((failed + 1))
}
skip() {
	echo "SKIP $*"
}
finish() {
	local verdict=ok
	[ "$failed" -eq 0 ] || verdict=FAILED
	echo "test result: $verdict. $passed passed; $failed failed; 0 ignored; 0 measured; 0 filtered out"
	[ "$failed" -eq 0 ]
	exit
}

if [ "$(id -u)" -ne 0 ] || [ ! -e /dev/fuse ] || [ ! -e /dev/loop-control ]; then
	skip "crash consistency: needs root, /dev/fuse and /dev/loop-control"
	finish
fi

# crash_case NAME EXPECT FS COMMAND VERIFY [WORD...]: power is cut when COMMAND has
# ended, or when the words for `plumb-faults crash check` say so. VERIFY then
# tells what it finds by its exit code: 0 kept, 1 lost; EXPECT is one of these.
# Both commands have $DIR, $DEV and $SAFE: plumb-faults crash check --help.
# A sync(2) of anybody's flushes this disk too, so what should be lost gets
# three chances to be.
crash_case() {
	local name=$1 expect=$2 fs=$3 command=$4 verify=$5 said code found
	shift 5
	if [ "$fs" != none ] && ! command -v "mkfs.$fs" >/dev/null; then
		skip "$name: needs mkfs.$fs (make deps)"
		return
	fi
	# The module may be loaded on demand.
	if [ "$fs" != none ] && ! grep -qw "$fs" /proc/filesystems && ! modprobe -q "$fs"; then
		skip "$name: this kernel has no $fs"
		return
	fi
	for _ in 1 2 3; do
		said=$("$faults" crash check --fs "$fs" --command "$command" --verify "$verify" "$@" 2>&1 </dev/null)
		code=$?
		case $code in
		0) found=kept ;;
		1) found=lost ;;
		*) found="neither kept nor lost, exit code $code" ;;
		esac
		[ "$expect $found" = "lost kept" ] || break
	done
	if [ "$found" = "$expect" ]; then
		pass "$name"
	else
		fail "$name: $found, should be $expect: ${said//$'\n'/; }"
	fi
}

# The disk itself.
code=0
said=$("$faults" crash prove </dev/null) || code=$?
while IFS= read -r line; do
	case $line in
	"PASS "*) pass "${line#PASS }" ;;
	"FAIL "*) fail "${line#FAIL }" ;;
	"SKIP "*) skip "${line#SKIP }" ;;
	esac
done <<<"$said"
[ "$code" -eq 0 ] || [ "$failed" -gt 0 ] || fail "crash prove: exit code $code"

# Programs that are known to flush, or not to.
same='cmp -s $SAFE/a $DIR/a || exit 1'
for fs in ext4 xfs; do
	data='dd if=/dev/urandom of=$SAFE/a bs=4k count=64 status=none'
	crash_case "dd-fsync-$fs" kept $fs "$data; dd if=\$SAFE/a of=\$DIR/a bs=4k conv=fsync status=none" "$same"
	crash_case "dd-$fs" lost $fs "$data; dd if=\$SAFE/a of=\$DIR/a bs=4k status=none" "$same"
	# Past the page cache is not yet past the cache of the disk.
	crash_case "dd-direct-$fs" lost $fs "$data; dd if=\$SAFE/a of=\$DIR/a bs=4k oflag=direct status=none" "$same"
	crash_case "dd-dsync-half-lost-$fs" kept $fs \
		"$data; dd if=\$SAFE/a of=\$DIR/a bs=4k oflag=direct,dsync status=none" "$same" --keep 50
	# The rename that is not synced may be lost, what it replaces may not: old or new, never neither.
	crash_case "replace-by-rename-$fs" kept $fs \
		'echo old >$DIR/f; sync $DIR/f $DIR; echo READY
		while :; do echo new >$DIR/g; sync $DIR/g; mv $DIR/g $DIR/f; done' \
		'grep -qxE "old|new" $DIR/f' --cut-after-ready 300ms --keep 50
done
crash_case "dd-fsync-device" kept none 'dd if=/dev/urandom of=$SAFE/a bs=4k count=64 status=none
	dd if=$SAFE/a of=$DEV bs=4k conv=fsync status=none' 'cmp -s -n 262144 $SAFE/a $DEV'
crash_case "dd-direct-device" lost none 'dd if=/dev/urandom of=$SAFE/a bs=4k count=64 status=none
	dd if=$SAFE/a of=$DEV bs=4k oflag=direct status=none' 'cmp -s -n 262144 $SAFE/a $DEV'

# load_case NAME EXPECT FS SYNC PROMISE-WORDS LOAD-WORDS [WORD...]
load_case() {
	local name=$1 expect=$2 fs=$3 sync=$4 promise=$5 words=$6 where='$DIR'
	shift 6
	[ "$fs" != none ] || where='$DEV --destroy $DEV'
	crash_case "load-$name" "$expect" "$fs" \
		"timeout 60 $plumb load $where --keep --quiet --stamp --log \$SAFE/log --sync $sync --size 8M $words >\$SAFE/out 2>&1; true" \
		"timeout 60 $plumb load verify $promise \$SAFE/log" "$@"
}

# What promises nothing loses, and verify sees it.
for fs in ext4 xfs; do
	load_case "none-$fs" lost $fs none --acknowledged '--order random --operations 500'
	load_case "sync-file-range-$fs" lost $fs sync-file-range --acknowledged '--order random --operations 500'
done
load_case "direct-device" lost none none --acknowledged '--direct --order random --operations 500'
# What promises keeps its promise: the power goes in the middle, half of what was not flushed survives.
middle='--order random --time 20s --block 8K'
for fs in ext4 xfs; do
	for sync in fsync fdatasync o-sync o-dsync; do
		load_case "$sync-$fs" kept $fs $sync '' "$middle" --cut-after 2s --keep 50
	done
done
load_case "rwf-dsync-ext4" kept ext4 rwf-dsync '' "$middle --through pwritev2" --cut-after 2s --keep 50
load_case "msync-ext4" kept ext4 msync '' "$middle --through mmap" --cut-after 2s --keep 50
load_case "libaio-dsync-xfs" kept xfs rwf-dsync '' "$middle --through libaio --depth 4 --direct" --cut-after 2s --keep 50
load_case "append-fsync-ext4" kept ext4 fsync '' '--layout append --time 20s' --cut-after 2s --keep 50
load_case "fdatasync-device" kept none fdatasync '' "$middle" --cut-after 2s --keep 50
# sync(2) has no result: when the disk dies under it, it looks done. So here the power goes when the load has ended.
load_case "sync-sync-ext4" kept ext4 sync-sync '' '--order random --operations 100 --every 10'

finish
