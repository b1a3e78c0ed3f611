# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=bash
# What all packages are made with; sourced. The same files give the same bytes.

root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
# The project's, which is everything's.
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml")
# Of the last commit, or of the files in a tarball, which have that of their commit.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
	SOURCE_DATE_EPOCH=$({ [ -e "$root/.git" ] && git -C "$root" log -1 --format=%ct; } || stat -c %Y "$root/Cargo.toml")
fi
export SOURCE_DATE_EPOCH LC_ALL=C
umask 022

# need PROGRAM...: ends the script where one is missing.
need() {
	local program
	for program in "$@"; do
		command -v "$program" >/dev/null || {
			echo "${0##*/}: $program is missing (scripts/deps.sh build packages)" >&2
			exit 2
		}
	done
}

# Lower than any that Debian's own package would have.
revision=0plumb1

# debian_changelog PACKAGE: of a package that is in no archive, and has no changes but the program's.
debian_changelog() {
	echo "$1 ($version-$revision) unstable; urgency=medium

  * What changed is in changelog.gz.

 -- plumb maintainers <maintainers@users.noreply.github.com>  $(date -uRd "@$SOURCE_DATE_EPOCH")" | gzip -9n
}

# pack_deb TREE DIR: packs TREE as a Debian package in DIR, and prints its path. TREE/DEBIAN has control, with #VERSION# and #SIZE#
# where the package's version and installed size belong, and scripts.
pack_deb() (
	cd "$1"
	# As dpkg-gencontrol counts; what a directory takes differs between file systems.
	size=$(find . -path ./DEBIAN -prune -o -printf '%y %s\n' |
		awk '{ k += $1 == "f" ? int(($2 + 1023) / 1024) : 1 } END { print k }')
	sed -i "/^# /d; s/#VERSION#/$version-$revision/; s/#SIZE#/$size/" DEBIAN/control
	find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums
	name=$(sed -n 's/^\(Package\|Version\|Architecture\): //p' DEBIAN/control | paste -sd _)
	# It takes no time of a file that is later than SOURCE_DATE_EPOCH.
	dpkg-deb --root-owner-group -Zxz --build . "$2/$name.deb" >&2
	echo "$2/$name.deb"
)
