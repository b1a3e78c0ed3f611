#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Nine 100 MB files, nine readers in pieces of 64 KiB, cold cache, one after
# the other and at once: the case of T. Horikawa, "A software event tracer for
# Linux". On a file of its own behind a loop device; touches nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."

plumb=${PLUMB:-${CARGO_TARGET_DIR:-target}/release/plumb}
dir=${DEMO_DIR:-target/demo}
files=9
megabytes=${DEMO_MB:-100}

fail() { echo "demo: $*" >&2; exit 2; }
[ "$(id -u)" = 0 ] || fail "needs root to record and to attach a loop device: sudo make demo"
[ -x "$plumb" ] || fail "$plumb is not built: make build"
for tool in mkfs.ext4 losetup mount umount dd; do
	command -v "$tool" >/dev/null || fail "'$tool' is missing: make deps"
done
need=$((files * megabytes + 400))
mkdir -p "$dir"
have=$(df --output=avail -m "$dir" | tail -1)
[ "$have" -gt "$need" ] || fail "$dir has $have MiB free, $need are needed: set DEMO_DIR"

# Relative where it can be: the commands are part of the result.
dir=$(realpath --relative-to=. "$dir")
image=$dir/disk.img
mnt=$dir/mnt
loop=
cleanup() {
	trap '' INT TERM
	mountpoint -q "$mnt" && umount "$mnt"
	[ -n "$loop" ] && losetup -d "$loop"
	rm -f "$image"
	rmdir "$mnt" 2>/dev/null || true
}
trap cleanup EXIT
trap 'exit 130' INT TERM

say() { echo "demo: $*" >&2; }
rm -rf "$dir/one-by-one" "$dir/at-once"
mkdir -p "$mnt"
say "a disk of its own: $image, ext4 on a loop device, $files files of $megabytes MB"
truncate -s "$((files * megabytes + 200))M" "$image"
mkfs.ext4 -q -F "$image"
loop=$(losetup --find --show --direct-io=on "$image" 2>/dev/null || losetup --find --show "$image")
mount "$loop" "$mnt"
for i in $(seq $files); do
	dd if=/dev/urandom of="$mnt/file$i" bs=1M count="$megabytes" status=none
done

cold() {
	sync
	umount "$mnt"
	mount "$loop" "$mnt"
	echo 3 >/proc/sys/vm/drop_caches
}

reader='dd bs=64k status=none of=/dev/null if=file$i'
say "nine readers, one after the other"
cold
echo "== one after the other"
"$plumb" run --comm dd -o "$dir/one-by-one" -- \
	sh -c "cd '$mnt'; for i in \$(seq $files); do $reader; done"
say "nine readers at once"
cold
echo
echo "== at once"
"$plumb" run --comm dd -o "$dir/at-once" -- \
	sh -c "cd '$mnt'; for i in \$(seq $files); do $reader & done; wait"

echo
echo "== the difference"
"$plumb" compare --comm dd --report "$dir/report.html" "$dir/one-by-one" "$dir/at-once"
echo
echo "The runs lie in $dir/one-by-one and $dir/at-once; 'plumb explain DIR' shows each again."
echo "Pages to open in a browser: report.html in each of them, and of the difference $dir/report.html"
