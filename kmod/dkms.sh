#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# kmod/dkms.sh DIR: puts the source tree together that DKMS builds from; `dkms add DIR` takes it.
set -euo pipefail

[ $# -eq 1 ] || {
	echo "dkms: give the directory to make, such as /usr/src/lp-deadline-0.1" >&2
	exit 2
}
[ ! -e "$1" ] || {
	echo "dkms: $1 exists already; remove it, or give another" >&2
	exit 2
}
cd "$(dirname "${BASH_SOURCE[0]}")"
mkdir -p "$1/kmod" "$1/iosched"
cp dkms.conf "$1/"
cp Kbuild Makefile abi.sh ./*.c env.h lp.h "$1/kmod/"
cp ../iosched/lp_deadline.[ch] "$1/iosched/"
