#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# packages/build.sh DIR [PLUMB]: makes the packages of the program PLUMB in DIR, from what `make install` installs: .deb and
# .rpm, each with one of debug information, and the list of what the program consists of (SPDX); and that of the I/O scheduler's
# module. Without PLUMB the program is built first, in DIR/build: the same compilers build the same bytes in any directory.
set -euo pipefail

[ $# -eq 1 ] || [ $# -eq 2 ] || {
	echo "build.sh: give the directory that the packages are made in: packages/build.sh target/packages" >&2
	exit 2
}
. "$(dirname "${BASH_SOURCE[0]}")/pack.sh"
need objcopy readelf dpkg-deb dpkg-shlibdeps rpmbuild
mkdir -p "$1"
out=$(realpath "$1")
plumb=${2:+$(realpath "$2")}
cd "$root"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The names of the directories stay out of the program: they become those of an unpacked tarball.
build() {
	local maps=() crates
	cargo fetch --locked
	for crates in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/; do maps+=("${crates%/}=/usr/src/plumb/vendor"); done
	maps+=("$root=/usr/src/plumb" "$out/build=/usr/src/plumb/target")
	RUSTFLAGS="${maps[*]/#/--remap-path-prefix=}" CFLAGS="${maps[*]/#/-ffile-prefix-map=}" CARGO_TARGET_DIR=$out/build \
		cargo build --release --locked -p plumb --bin plumb
	plumb=$out/build/release/plumb
}

# control FILE TREE: puts that file of packages/debian into the tree of a package.
control() {
	mkdir -p "$2/DEBIAN"
	sed "s/#ARCH#/$(dpkg --print-architecture)/; s/#DEPENDS#/$depends/; s/#BUILD_ID#/$id/" "packages/debian/$1" >"$2/DEBIAN/control"
}

# listed FIND_WORDS...: these files of the stage and the directories that are theirs, as rpmbuild wants them.
listed() {
	(cd "$stage" && find "$@" -type d \( -path usr -o -path usr/bin -o -path usr/lib -o -path usr/share -o \
		-path usr/share/doc -o -path 'usr/share/man*' \) -o -type d -printf '%%dir /%p\n' -o -printf '/%p\n') | sort
}

[ -n "$plumb" ] || build
id=$(readelf -n "$plumb" | sed -n 's/^ *Build ID: //p')
stage=$work/stage
debug=usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug
make -s install DESTDIR="$stage" PREFIX=/usr PLUMB="$plumb" DEBUG="/$debug"
cargo run -q --locked -p xtask -- sbom "$(date -ud "@$SOURCE_DATE_EPOCH" +%FT%TZ)" >"$stage/usr/share/doc/plumb/plumb.spdx.json"
cp "$stage/usr/share/doc/plumb/plumb.spdx.json" "$out/plumb-$version.spdx.json"

listed usr -path usr/lib/debug -prune -o >"$work/files"
listed usr/lib/debug >"$work/files-debuginfo"
find "$stage" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
rpmbuild -bb --quiet --target "$(uname -m)-linux" --define "_topdir $work/rpm" --define "_rpmdir $out" \
	--define '_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm' \
	--define "plumb_version $version" --define "stage $stage" --define "lists $work" packages/plumb.spec

# dpkg-shlibdeps wants to be where a source package is.
mkdir -p "$work/debian"
printf 'Source: plumb\n\nPackage: plumb\nArchitecture: any\n' >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O "$stage/usr/bin/plumb" | sed -n 's/^shlibs:Depends=//p')

symbols=$work/symbols
mkdir -p "$symbols/usr/share/doc" "$symbols/$(dirname "$debug")"
mv "$stage/$debug" "$symbols/$debug"
ln -s plumb "$symbols/usr/share/doc/plumb-dbgsym"
control control-dbgsym "$symbols"
pack_deb "$symbols" "$out"

doc=$stage/usr/share/doc/plumb
mkdir -p "$stage/usr/share/lintian/overrides"
rm -r "$stage/usr/lib/debug"
# Debian's names.
mv "$stage/usr/share/zsh/site-functions" "$stage/usr/share/zsh/vendor-completions"
gzip -9n <"$doc/CHANGELOG.md" >"$doc/changelog.gz"
debian_changelog plumb >"$doc/changelog.Debian.gz"
cargo run -q --locked -p xtask -- copyright >"$doc/copyright"
rm "$doc/CHANGELOG.md" "$doc/THIRD-PARTY-NOTICES.txt"
cp packages/debian/lintian-overrides "$stage/usr/share/lintian/overrides/plumb"
control control "$stage"
pack_deb "$stage" "$out"

kmod/deb.sh "$out"
cd "$out"
find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS
