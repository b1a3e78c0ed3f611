#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# benches/record/waypoints.sh OUT: where the time goes inside the system call that creates a file, waypoint by waypoint,
# on a kernel of Debian in a guest whose clock counts instructions (1 ns each): five runs, A to E, each creating the same
# files in one directory of an ext4 file system without dir_index, which are deleted in between.
# FILES=5000, RUNS="A B C D E", KERNEL=6.1 (tests/vm/kernels), FUNCTIONS="..." and PLUMB=target/release/plumb change it.
set -euo pipefail

if [ $# -ne 1 ]; then
	echo "waypoints: give the directory for the results: benches/record/waypoints.sh OUT" >&2
	exit 2
fi
die() {
	echo "waypoints: $*" >&2
	exit 1
}
cd "$(dirname "${BASH_SOURCE[0]}")"
here=$PWD
root=$(realpath ../..)
cd "$OLDPWD"
mkdir -p "$1"
out=$(realpath "$1")
target=${CARGO_TARGET_DIR:-$root/target}
plumb=$(realpath "${PLUMB:-$target/release/plumb}")
[ -x "$plumb" ] || die "no program $plumb: cargo build --release -p plumb makes it, PLUMB=FILE names another"
export PATH="$PATH:/usr/sbin:/sbin"
for command in qemu-system-x86_64 busybox cpio mkfs.ext4 cc; do
	command -v "$command" >/dev/null || die "needs $command (make deps)"
done
files=${FILES:-5000}
runs=${RUNS:-A B C D E}
kernel=${KERNEL:-6.1}
TIMEOUT=${TIMEOUT:-3000}
# shellcheck source=../../crates/plan/guest/guest.sh
. "$root/crates/plan/guest/guest.sh"
functions=${FUNCTIONS:-$WAYPOINTS}
pattern=$(awk -v name="$kernel" '$1 == name { print $2 }' "$root/tests/vm/kernels")
[ -n "$pattern" ] || die "tests/vm/kernels has no $kernel"
reason=
with_lock "$target/vm" fetch "$pattern" "$target/vm/$kernel" || die "$reason"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
guest_tree "$tree" "$here/waypoints-guest" "$target/vm/$kernel/modules"
with_libraries "$plumb" "$tree" plumb
cc -O1 -static -o "$tree/bin/creates" "$here/creates.c"
spans=$(printf -- '--span kernel:%s ' $functions)
printf 'FILES=%s\nRUNS="%s"\nSPANS="%s"\n' "$files" "$runs" "$spans" >"$tree/waypoints.conf"
# With a journal: without one, ext4 looks for inodes that were deleted a moment ago.
truncate -s 512M "$work/disk"
mkfs.ext4 -q -O ^dir_index -E lazy_itable_init=0,lazy_journal_init=0 -N $((files * 2 + 1000)) "$work/disk"

echo "waypoints: guest of Linux $kernel, $files files, runs $runs" >&2
if ! boot_guest virtual "$target/vm/$kernel/vmlinuz" "$tree" "$work/guest" \
	-drive "file=$work/disk,format=raw,if=virtio,cache=unsafe"; then
	tail -n 40 "$work/guest/console" >&2
	die "the guest left no results within $TIMEOUT s: $(cat "$work/guest/qemu")"
fi
grep -ao 'plumb-vm: .*' "$work/guest/console" | tee "$out/console" >&2
cp "$work/guest/check" "$out/check.txt"
(cd "$work" && fsck.ext4 -fn disk) >"$out/fsck.txt" 2>&1 || die "the file system is damaged: $(tail -n 3 "$out/fsck.txt")"
mv "$work/guest/console" "$out/guest-console.txt"
cp "$work/guest/unrecorded" "$out/"
for run in $runs; do
	rm -rf "${out:?}/$run"
	[ -d "$work/guest/$run" ] || die "run $run left no trace: $(cat "$work/guest/$run.err")"
	mv "$work/guest/$run" "$work/guest/$run.json" "$out/"
	"$plumb" view waypoints "$out/$run" >"$out/waypoints-$run.txt"
	"$plumb" view waypoints "$out/$run" --json >"$out/waypoints-$run.json"
done
first=${runs%% *}
{
	for run in $runs; do
		echo "Run $run:"
		# Not those of execve, which starts the command.
		sed -n '/^waypoints: .*openat/,/^$/p' "$out/waypoints-$run.txt"
	done
	for run in ${runs#"$first"}; do
		echo "Run $run against run $first:"
		(cd "$out" && "$plumb" compare "$first" "$run" >"compare-$first-$run.txt") || true
		sed -n '1p; /^Spans/,/^$/p' "$out/compare-$first-$run.txt"
	done
	echo "The like of the last run, not recorded: $(cat "$out/unrecorded") s"
	echo "Functions by run:"
	(cd "$out" && "$plumb" query "select span as function, run, count, round(total_ns / 1e6, 1) as total_ms,
		round(total_ns / 1e3 / count, 1) as mean_us from spans order by max(total_ns) over (partition by span) desc, span, run" $runs)
} | tee "$out/tables.txt"
