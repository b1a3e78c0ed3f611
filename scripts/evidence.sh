#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# scripts/evidence.sh DIR [COMMAND]: makes DIR, as a benchmark left it, a set of results (results/README.md): writes
# machine.json and, from COMMAND, plan.md where they are missing, and packs everything else but summary.md, plan.toml and
# the charts that summary.md shows into raw.tar.xz, which may be there. The same files give the same archive.
set -eu

[ $# -ge 1 ] && [ -d "$1" ] || {
	echo "usage: scripts/evidence.sh DIR [COMMAND]" >&2
	exit 2
}
dir=$1
command=${2:-}
[ -f "$dir/summary.md" ] || {
	echo "evidence: $dir has no summary.md: it is no set of results" >&2
	exit 2
}

if [ ! -e "$dir/machine.json" ]; then
	cat >"$dir/machine.json" <<-END
		{
		 "SPDX-License-Identifier": "Apache-2.0 OR MIT",
		 "cpu": "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)",
		 "cpus_online": $(nproc --all),
		 "memory_mib": $(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo),
		 "kernel": "$(uname -rm)",
		 "load_average_after": "$(cut -d ' ' -f 1-3 /proc/loadavg)",
		 "plumb_commit": "$(git -C "$(dirname "$0")" rev-parse --short HEAD 2>/dev/null || echo unknown)"
		}
	END
fi
if [ ! -e "$dir/plan.md" ] && [ -n "$command" ]; then
	printf '%s\n# Plan\n\n    %s\n' '<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->' "$command" >"$dir/plan.md"
fi

cd "$dir"
list=$(mktemp)
trap 'rm -f "$list"' EXIT
loose() {
	find . -type f ! -path ./raw.tar.xz | sed 's|^\./||' | sort | while read -r file; do
		case $file in
		summary.md | plan.md | plan.toml | machine.json) continue ;;
		*.svg) if grep -qF "]($file)" summary.md; then continue; fi ;;
		esac
		printf '%s\n' "$file"
	done >"$list"
}
loose
[ -s "$list" ] || exit 0
# What is packed already stays, unless a newer file has its name.
if [ -e raw.tar.xz ]; then
	tar --extract --skip-old-files --file raw.tar.xz
	rm raw.tar.xz
	loose
fi
tar --sort=name --format=gnu --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rw,go=r --no-recursion \
	--verbatim-files-from --files-from="$list" --create --file - | xz -9e --threads=1 >raw.tar.xz
while read -r file; do rm -f "$file"; done <"$list"
find . -mindepth 1 -type d -empty -delete
