#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# kmod/dkms.sh DIR: puts the source tree together that DKMS builds from, in DIR/lp-deadline-VERSION; prints VERSION.
# As root with /usr/src, `dkms add lp-deadline/VERSION` takes it.
set -euo pipefail

[ $# -eq 1 ] || {
	echo "dkms: give the directory that the tree is made in, such as /usr/src" >&2
	exit 2
}
to=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"
# The project's, which is everything's.
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' ../Cargo.toml)
[[ $version =~ ^[0-9][0-9A-Za-z.+~-]*$ ]] || {
	echo "dkms: ../Cargo.toml has no version that a package can have ('$version')" >&2
	exit 2
}
to=$to/lp-deadline-$version
[ ! -e "$to" ] || {
	echo "dkms: $to exists already; remove it, or give another directory" >&2
	exit 2
}
mkdir -p "$to/kmod" "$to/iosched"
sed "s/#MODULE_VERSION#/$version/" dkms.conf >"$to/dkms.conf"
cp Kbuild Makefile abi.sh ./*.c env.h lp.h "$to/kmod/"
cp ../iosched/lp_*.[ch] "$to/iosched/"
echo "$version"
