#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# kmod/deb.sh DIR: makes the Debian package lp-deadline-dkms in DIR, and prints its path. debian/ has its control file and
# scripts, with #MODULE_VERSION# where the module's version belongs.
set -euo pipefail

[ $# -eq 1 ] || {
	echo "deb: give the directory that the package is made in" >&2
	exit 2
}
. "$(dirname "${BASH_SOURCE[0]}")/../packages/pack.sh"
need dpkg-deb
mkdir -p "$1"
out=$(realpath "$1")
cd "$root/kmod"
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"

version=$(./dkms.sh "$tree/usr/src")
doc=$tree/usr/share/doc/lp-deadline-dkms
mkdir -p "$doc" "$tree/DEBIAN"
cp debian/copyright "$doc/"
cp ../docs/iosched.md "$doc/"
gzip -9nc ../CHANGELOG.md >"$doc/changelog.gz"
debian_changelog lp-deadline-dkms >"$doc/changelog.Debian.gz"
find "$tree/usr" -type f -exec chmod 644 {} +
chmod 755 "$tree/usr/src/lp-deadline-$version/kmod/abi.sh"
cp debian/control "$tree/DEBIAN/"
for file in postinst prerm; do
	sed "s/#MODULE_VERSION#/$version/" debian/$file >"$tree/DEBIAN/$file"
done
chmod 755 "$tree"/DEBIAN/p*
pack_deb "$tree" "$out"
