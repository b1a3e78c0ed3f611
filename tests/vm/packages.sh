#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# tests/vm/packages.sh PLUMB|fetch: makes the packages of the program PLUMB twice, compares their bytes, has lintian look at them, and
# installs, uses and removes them in a bare Debian 12 and 13: nothing may be left. The program runs there on this machine's kernel.
# KEEP=DIR keeps packages and what the steps said. fetch: fetches these systems, and does nothing else.
#
# They are kept in target/vm/roots and changed in overlays only; remove that directory to fetch newer ones.
set -euo pipefail

[ $# -ge 1 ] || {
	echo "packages: give the program to pack: tests/vm/packages.sh target/release/plumb (make build makes it)" >&2
	exit 2
}
[ ! -x "$1" ] || plumb=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"
here=$PWD
root=$(realpath ../..)
export PATH="$PATH:/usr/sbin:/sbin"
cache=${CARGO_TARGET_DIR:-$root/target}/vm/roots
name=packages
RELEASES="bookworm trixie"

. ./counts.sh
. ../../crates/plan/guest/guest.sh
. ./kbuild.sh

# fetch_root RELEASE: $cache/RELEASE, with no more than Debian's essential packages and apt.
fetch_root() {
	[ ! -e "$cache/$1" ] || return 0
	rm -rf "$cache/new"
	echo "vm: unpacking a bare Debian ($1) into $cache" >&2
	if ! debootstrap --variant=minbase "$1" "$cache/new" "$(archive 1)" >"$cache/log" 2>&1; then
		reason="debootstrap $1: $(tail -n 1 "$cache/log")"
		return 1
	fi
	rm -f "$cache/new"/var/cache/apt/archives/*.deb
	mv "$cache/new" "$cache/$1"
}

in_tree() { PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot "$tree" "$@"; }

# What there is, without what dpkg writes into anyway.
inventory() {
	(cd "$tree" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./tmp -o -path ./var/log -o \
		-path './var/lib/dpkg/*-old' \) -prune -o -print | sort)
}

# try WORDS COMMAND...: one answer; what the command says is in $out/said.
try() {
	local words=$1
	shift
	if "$@" >"$out/said" 2>&1; then
		ok "$words"
	else
		bad "$words: it said:"
		tail -n 20 "$out/said"
	fi
}

records() { in_tree sh -c 'cd /tmp && rm -rf run && plumb run -o run -- true && plumb explain run' && grep -q '^Bottleneck:\|^Confidence:' "$out/said"; }

completes() {
	in_tree bash -c '. /usr/share/bash-completion/completions/plumb; COMP_WORDS=(plumb help acc); COMP_CWORD=2
		_plumb plumb acc help; [ "${COMPREPLY[*]}" = account ]'
}

# The program's build ID names the file of its debug information.
has_symbols() {
	local id
	id=$(readelf -n "$tree/usr/bin/plumb" | sed -n 's/^ *Build ID: //p')
	readelf -SW "$tree/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug" >"$out/sections" && grep -q ' \.debug_line ' "$out/sections"
}

used() {
	try "$1: plumb --version" in_tree plumb --version
	try "$1: plumb check" in_tree plumb check
	try "$1: plumb run -- true" records
	try "$1: a unit that is off" test -e "$tree/usr/lib/systemd/system/plumb-watch.service" -a ! -e "$tree/etc/systemd/system/multi-user.target.wants/plumb-watch.service"
	try "$1: manual pages of commands and topics" test -e "$tree/usr/share/man/man1/plumb-run.1.gz" -a -e "$tree/usr/share/man/man7/plumb-account.7.gz"
	try "$1: bash completes a topic" completes
	try "$1: debug information by build ID" has_symbols
}

left() {
	inventory >"$out/after"
	if diff "$out/before" "$out/after" >"$out/left"; then
		ok "$1: nothing is left"
	else
		bad "$1: left, or taken:"
		cat "$out/left"
	fi
}

# In a mount namespace of its own: whatever happens, nothing stays mounted.
steps() {
	local release=$1
	tree=$work/$release
	mkdir -p "$tree" "$work/upper-$release" "$work/work-$release"
	mount -t overlay -o "lowerdir=$cache/$release,upperdir=$work/upper-$release,workdir=$work/work-$release" overlay "$tree"
	mount -t proc proc "$tree/proc"
	mount --rbind /sys "$tree/sys"
	mount -t devtmpfs dev "$tree/dev"
	cp "$work/a"/plumb*.deb "$tree/tmp/"
	inventory >"$out/before"
	try "$release: dpkg -i" in_tree sh -c 'dpkg -i /tmp/plumb*.deb'
	used "$release"
	try "$release: dpkg --purge" in_tree dpkg --purge plumb-dbgsym plumb
	left "$release"
	# Debian's own rpm knows nothing of Debian's libraries.
	rpm=(rpm --root "$tree" --dbpath /var/lib/rpm)
	"${rpm[@]}" --initdb
	inventory >"$out/before"
	try "$release: rpm -i" "${rpm[@]}" -i --nodeps "$work/a"/*.rpm
	used "$release, rpm"
	try "$release: rpm -e" "${rpm[@]}" -e plumb plumb-debuginfo
	left "$release, rpm"
}

if [ "$1" = --steps ]; then
	work=$2 out=$3
	steps "$4"
	finish
	exit
fi
if [ "$(id -u)" -ne 0 ]; then
	skip "systems of their own take root"
	finish
	exit
fi
for command in debootstrap dpkg-deb dpkg-shlibdeps rpmbuild lintian; do
	if ! command -v "$command" >/dev/null; then
		skip "needs $command (make deps)"
		finish
		exit
	fi
done
mkdir -p "$cache"
roots=
for release in $RELEASES; do
	reason=
	if with_lock "$cache" fetch_root "$release"; then roots="$roots $release"; else skip "$release: $reason"; fi
done
if [ "$1" = fetch ]; then
	finish
	exit
fi

# Below the cache: a program is packed several times.
work=$(mktemp -d -p "$cache")
out=${KEEP:-$work/out}
mkdir -p "$out"
trap 'rm -rf "$work"' EXIT
for turn in a b; do
	if ! "$root/packages/build.sh" "$work/$turn" "$plumb" >"$out/build-$turn" 2>&1; then
		bad "the packages cannot be made:"
		tail -n 20 "$out/build-$turn"
		finish
		exit
	fi
done
try "packages that are made twice are the same" diff -r "$work/a" "$work/b"
try "lintian finds no error and no warning" lintian --fail-on error,warning "$work/a"/*.deb
# The fastest compression: the time goes elsewhere.
if XZ_DEFAULTS=-0 "$root/packages/source.sh" "$work/a" >"$out/source" 2>&1; then
	tar -C "$work" -xJf "$work"/a/plumb-*.tar.xz
	try "the source tarball has every crate" env -C "$work"/plumb-*/ CARGO_HOME="$work/cargo" CARGO_TARGET_DIR="$work/built" \
		"${CARGO:-cargo}" check --quiet --offline --locked -p plumb-trace
else
	skip "the source tarball: $(tail -n 1 "$out/source")"
fi
for release in $roots; do
	code=0
	unshare --mount "$here/packages.sh" --steps "$work" "$out" "$release" >"$out/$release" || code=$?
	grep -v '^test result' "$out/$release" || true
	passed=$((passed + $(grep -c '^ok ' "$out/$release" || true)))
	failed=$((failed + $(grep -c '^FAIL ' "$out/$release" || true)))
	[ $code -eq 0 ] || grep -q '^FAIL ' "$out/$release" || bad "$release: the steps ended with exit code $code"
done
try "nothing is left mounted" sh -c "! grep -F '$work' /proc/mounts"
[ -z "${KEEP:-}" ] || cp -r "$work/a" "$KEEP/"
finish
