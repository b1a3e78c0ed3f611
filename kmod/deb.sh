#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# kmod/deb.sh DIR: makes the Debian package lp-deadline-dkms in DIR, and prints its path. The same sources give the same
# bytes. debian/ has its control file and scripts, with #MODULE_VERSION# where the version belongs.
set -euo pipefail

[ $# -eq 1 ] || {
	echo "deb: give the directory that the package is made in" >&2
	exit 2
}
command -v dpkg-deb >/dev/null || {
	echo "deb: dpkg-deb is missing (Debian: apt-get install dpkg)" >&2
	exit 2
}
mkdir -p "$1"
out=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"
umask 022
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"

version=$(./dkms.sh "$tree/usr/src")
doc=$tree/usr/share/doc/lp-deadline-dkms
mkdir -p "$doc" "$tree/DEBIAN"
cp debian/copyright "$doc/"
cp ../docs/iosched.md "$doc/"
gzip -9nc ../CHANGELOG.md >"$doc/changelog.gz"
find "$tree/usr" -type f -exec chmod 644 {} +
chmod 755 "$tree/usr/src/lp-deadline-$version/kmod/abi.sh"

size=$(du -sk --apparent-size "$tree/usr" | cut -f1)
sed "s/#MODULE_VERSION#/$version/; s/#SIZE#/$size/" debian/control | grep -v '^#' >"$tree/DEBIAN/control"
for script in postinst prerm; do
	sed "s/#MODULE_VERSION#/$version/" debian/$script >"$tree/DEBIAN/$script"
	chmod 755 "$tree/DEBIAN/$script"
done
(cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
# Times of files are no part of what was packed.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
find "$tree" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zxz --build "$tree" "$out/lp-deadline-dkms_${version}_all.deb" >&2
echo "$out/lp-deadline-dkms_${version}_all.deb"
