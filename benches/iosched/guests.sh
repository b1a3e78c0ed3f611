# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=bash
# What the measurements in guests have in common. Sourced by them.

die() {
	echo "$bench: $*" >&2
	exit 1
}

# begin NAME OUT...: goes to this directory, with out, here, root, cache and work set, and the functions that run guests.
begin() {
	bench=$1
	if [ $# -lt 2 ]; then
		echo "$bench: give the directory for the results: benches/iosched/$bench.sh OUT" >&2
		exit 2
	fi
	mkdir -p "$2"
	out=$(realpath "$2")
	[ -z "${GUESTS:-}" ] || GUESTS=$(realpath "$GUESTS")
	cd "$(dirname "${BASH_SOURCE[0]}")" || exit
	here=$PWD
	root=$(realpath ../..)
	export PATH="$PATH:/usr/sbin:/sbin"
	cache=${CARGO_TARGET_DIR:-$root/target}/vm/module
	TIMEOUT=${TIMEOUT:-3000}
	reason=
	. "$root/crates/plan/guest/guest.sh"
	. "$root/tests/vm/kbuild.sh"
	. "$root/tests/vm/module-guest.sh"
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	mkdir -p "$cache"
}

# ready KERNEL: its image, the modules built for it, and fio are there.
ready() {
	local from pattern
	read -r _ from pattern < <(grep "^$1 " "$root/tests/vm/module-kernels") || die "module-kernels has no $1"
	fetch_fio && fetch_kernel "$1" "$from" "$pattern" && compile "$1" "$from" || die "$reason"
}

# bring PROGRAM: adds it to the array files, with its libraries and the loader: what a guest gets in /.
bring() {
	local library
	files+=("$1")
	while read -r library; do files+=("$library"); done < <(ldd "$1" | sed -n 's|^[^/]*\(/[^ ]*\).*|\1|p')
}

# disk_of MODEL: sets disk, modeldisk.c's parameters, and depth, what of them a queue must be told. The models' files
# MODEL.toml say the same in words.
#
# hdd: 1-15 ms of seek, 150 MB/s, a turn of 7,200/min but for 0.1 %: a spindle has a clock of its own, and where an
# interval is a whole number of turns, each request of a run would come at the same angle.
# ssd: 8 channels of 60 MB/s, 80 us.
# sata: the time of a link that carries one request after the other: 92 us for 4 KiB, 0.43 ms for 128 KiB, 300 MB/s.
# ssd4: ssd before a processor that is four times as fast: one instruction is a nanosecond, so everything else takes
# four times as long, and four times the rates are meant.
disk_of() {
	case $1 in
	hdd) disk="channels=1 depth=32 fixed_ns=100000 ns_per_kb=6667 seek_ns=1000000 seek_span_ns=14000000 rotation_ns=8341667" ;;
	ssd) disk="channels=8 depth=256 fixed_ns=80000 ns_per_kb=16000" ;;
	sata) disk="channels=1 depth=32 fixed_ns=80000 ns_per_kb=2700" ;;
	ssd4) disk="channels=8 depth=256 fixed_ns=320000 ns_per_kb=64000" ;;
	*) die "no model is called $1; there are hdd, ssd, sata and ssd4" ;;
	esac
	depth=$(sed 's/.* depth=\([0-9]*\).*/\1/' <<<"$disk")
}
