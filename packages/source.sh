#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# packages/source.sh DIR: makes plumb-VERSION.tar.xz in DIR: the last commit, with the crates of others in vendor/, so that it is
# built without a network. Prints its path.
set -euo pipefail

[ $# -eq 1 ] || {
	echo "source.sh: give the directory that the tarball is made in" >&2
	exit 2
}
. "$(dirname "${BASH_SOURCE[0]}")/pack.sh"
need git cargo xz
mkdir -p "$1"
out=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
name=plumb-$version
git -C "$root" archive --prefix="$name/" HEAD | tar -xC "$work"
cd "$work/$name"
# What it prints is what the configuration lacks.
cargo vendor --locked --versioned-dirs vendor >"$work/config" 2>"$work/said" || {
	tail -n 5 "$work/said" >&2
	exit 1
}
cat "$work/config" >>.cargo/config.toml
# Two threads or more give the same bytes, one does not.
tar --format=gnu --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" \
	-C "$work" -cf - "$name" | xz -T2 >"$out/$name.tar.xz"
echo "$out/$name.tar.xz"
