#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# tests/faults/crash.sh PLUMB_FAULTS: what survives a power cut, on a disk that
# forgets what was not flushed. First the disk itself, then programs on it.
# Every wait in plumb-faults ends; the caller bounds the whole by timeout(1).
set -uo pipefail

if [ $# -ne 1 ] || [ ! -x "$1" ]; then
	echo "crash: give the program: tests/faults/crash.sh target/release/plumb-faults (cargo build --release -p plumb-faults makes it)" >&2
	exit 2
fi
faults=$(realpath "$1")
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

finish
