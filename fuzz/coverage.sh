#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# fuzz/coverage.sh [TARGET...]: which share of each crate's lines the fixed count of fuzz/ runs, of the files that the
# targets read with. Needs llvm-cov and llvm-profdata of rustc's LLVM: Debian's llvm-N, or LLVM_BIN=DIRECTORY.
set -eu

# Cargo calls this in place of rustc for the workspace's crates: dependencies are neither built again nor counted.
case ${1-} in *rustc) exec "$@" -C instrument-coverage ;; esac

cd "$(dirname "$0")/.."
version=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
bin=${LLVM_BIN:-/usr/lib/llvm-$version/bin}
if ! [ -x "$bin/llvm-cov" ]; then
	echo "fuzz/coverage.sh: cannot find $bin/llvm-cov" >&2
	echo "hint: apt-get install llvm-$version, or set LLVM_BIN to the directory of LLVM $version's tools" >&2
	exit 2
fi
out=$(realpath -m "${CARGO_TARGET_DIR:-target}/fuzz/coverage")
rm -rf "$out"
mkdir -p "$out"
# Build scripts are the workspace's too, and write a profile each.
export LLVM_PROFILE_FILE="$out/build-%p.profraw"
program=$(RUSTC_WORKSPACE_WRAPPER=$PWD/fuzz/coverage.sh cargo test --no-run --locked -p plumb-fuzz \
	--test fixed_count --message-format=json |
	sed -n 's/.*"executable":"\([^"]*fixed_count[^"]*\)".*/\1/p')
rm -f "$out"/build-*.profraw
# A target that fails ran its lines all the same.
(cd fuzz && LLVM_PROFILE_FILE="$out/run.profraw" "$program" "$@") || true
"$bin/llvm-profdata" merge -sparse "$out/run.profraw" -o "$out/run.profdata"
"$bin/llvm-cov" report "$program" -instr-profile "$out/run.profdata" >"$out/files.txt"
# Columns 8 and 9: lines, and lines that did not run. A file without one line that ran belongs to no target.
awk '/^(.*\/)?crates\// && $8 > 0 { split(substr($1, match($1, /crates\//)), part, "/"); crate = part[2]
		all[crate] += $8; if ($9 < $8) { of[crate] += $8; ran[crate] += $8 - $9 } }
	END { for (crate in all) printf "%-9s %6d lines, %6d in files that targets read with: %5.1f %% of these ran\n",
		crate, all[crate], of[crate], of[crate] ? 100 * ran[crate] / of[crate] : 0 }' "$out/files.txt" | sort
echo "each file: $out/files.txt"
