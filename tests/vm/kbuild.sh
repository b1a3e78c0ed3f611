# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=bash
# Kernels to build modules for, with what it takes: image, headers, type information, compiler. All of it is unpacked
# below $cache; nothing is installed. Sourced after guest.sh; functions leave a word in $reason when they fail.

KERNEL_MODULES="virtio_pci virtio_blk ext4 null_blk bfq kyber-iosched"

# apt_of RELEASE: sets `apt` to the options that make apt speak of that release; "here" is the machine's own.
apt_of() {
	local release=$1 state=$cache/apt-$1 uris
	apt=()
	# apt's own user may not write below $cache.
	[ "$(id -u)" -ne 0 ] || apt=(-o APT::Sandbox::User=root)
	[ "$release" != here ] || return 0
	apt+=(-o "Dir::State=$state/state" -o "Dir::State::status=$state/status" -o "Dir::Cache=$state/cache"
		-o "Dir::Etc=$state" -o Dir::Etc::trustedparts=/etc/apt/trusted.gpg.d -o Acquire::Languages=none)
	[ ! -e "$state/read" ] || return 0
	uris=$(archive 1)
	if [ -z "$uris" ]; then
		reason="the machine's apt sources name no Debian archive to look for $release in"
		return 1
	fi
	mkdir -p "$state/state/lists/partial" "$state/cache/archives/partial" "$state/preferences.d"
	: >"$state/status"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uris $release main
deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uris $release-backports main
deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uris $(archive 2) main" >"$state/sources.list"
	if ! apt-get -q "${apt[@]}" update >"$state/log" 2>&1; then
		reason="apt cannot read the lists of $release: $(grep -m1 '^[EW]:' "$state/log")"
		return 1
	fi
	touch "$state/read"
}

# archive 1|2: where the machine's own release of Debian comes from; its name.
archive() {
	apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(CODENAME)' 'Created-By: Packages' 2>/dev/null |
		awk -v field="$1" '$2 == "Debian" && $3 !~ /-/ && !seen++ { print field == 1 ? $1 : $3 }'
}

# packages_of IMAGE: what has to be unpacked for it.
packages_of() {
	local release=${1#linux-image-} package
	for package in linux-{image,base,binary,modules}"-$release"; do
		apt-cache "${apt[@]}" show "$package" >/dev/null 2>&1 && echo "$package"
	done
	echo "linux-headers-$release"
	apt-cache "${apt[@]}" depends "linux-headers-$release" |
		awk '$1 == "Depends:" && $2 ~ /^linux-(headers|kbuild)-/ { print $2 }'
}

# fetch_kernel NAME RELEASE PATTERN: $cache/NAME with vmlinuz, modules/, and root/ with the headers.
fetch_kernel() {
	local name=$1 from=$2 pattern=$3 dir=$cache/$1 image release packages
	apt_of "$from" || return 1
	[ "$(cat "$dir/stamp" 2>/dev/null)" != "$pattern $KERNEL_MODULES" ] || return 0
	image=$(apt-cache "${apt[@]}" search --names-only "$pattern" | awk '{print $1}' | sort -V | tail -n 1)
	if [ -z "$image" ]; then
		reason="apt knows no package $pattern (apt-get update? another release of Debian?)"
		return 1
	fi
	release=${image#linux-image-}
	rm -rf "$dir.new"
	mkdir -p "$dir.new"
	echo "vm: fetching $image and its headers (Debian packages) into $dir" >&2
	mapfile -t packages < <(packages_of "$image")
	if ! (cd "$dir.new" && apt-get -q "${apt[@]}" download "${packages[@]}" >log 2>&1); then
		reason="apt-get download ${packages[*]}: $(tail -n 1 "$dir.new/log")"
		return 1
	fi
	for package in "$dir.new"/*.deb; do dpkg -x "$package" "$dir.new/root"; done
	# Packages of one kernel differ in whether they know that /lib and /usr/lib are one.
	mkdir -p "$dir.new/root/lib" "$dir.new/root/usr/lib"
	cp -al "$dir.new/root/lib/." "$dir.new/root/usr/lib/"
	rm -rf "$dir.new/root/lib"
	ln -s usr/lib "$dir.new/root/lib"
	# Small kernels' headers have the type information, the others' images; kmod/abi.sh takes both.
	if ! cp "$dir.new/root/boot/vmlinuz-$release" "$dir.new/vmlinuz" 2>/dev/null &&
		! cp "$dir.new/root/lib/modules/$release/vmlinuz" "$dir.new/vmlinuz"; then
		reason="the packages of $image have no vmlinuz where it is looked for"
		return 1
	fi
	echo "$release" >"$dir.new/release"
	MODULES=$KERNEL_MODULES take_modules "$dir.new" "$release" || return 1
	# The headers' makefiles name each other as they are when installed.
	sed -i "s|/usr/src/|$dir/root/usr/src/|" "$dir.new/root/usr/src/linux-headers-$release/Makefile"
	rm -rf "$dir.new"/*.deb "$dir.new/root/boot" "$dir.new/root/usr/lib/modules" "$dir"
	echo "$pattern $KERNEL_MODULES" >"$dir.new/stamp"
	mv "$dir.new" "$dir"
}

# fetch_fio: $cache/fio, which needs no libraries: what a guest of any release can run. Of Debian's source package.
fetch_fio() {
	local work=$cache/fio.new
	[ ! -x "$cache/fio" ] || return 0
	apt_of trixie || return 1
	rm -rf "$work"
	mkdir -p "$work"
	echo "vm: building fio (Debian source package) in $work" >&2
	if ! (
		cd "$work" &&
			apt-get -q "${apt[@]}" source --download-only fio &&
			dpkg-source -x ./*.dsc source && cd source &&
			./configure --build-static --disable-native --disable-numa --disable-rdma --disable-rados \
				--disable-rbd --disable-http --disable-gfapi --disable-xnvme &&
			make -j2 fio && strip fio
	) >"$cache/fio.log" 2>&1; then
		reason="fio's source package: $(grep -m1 -E '^E:|[Ee]rror' "$cache/fio.log" || tail -n 1 "$cache/fio.log")"
		return 1
	fi
	cp "$work/source/fio" "$cache/fio"
	rm -rf "$work"
}
