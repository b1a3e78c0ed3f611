#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# tests/vm/plan.sh PLUMB: plans whose cells run in guests: kernels as a factor, and a disk of another guest.
set -euo pipefail

if [ $# -ne 1 ] || [ ! -x "$1" ]; then
	echo "plan: give the program to test: tests/vm/plan.sh target/release/plumb (make build makes it)" >&2
	exit 2
fi
plumb=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"
root=$(realpath ../..)
export PATH="$PATH:/usr/sbin:/sbin"
export PLUMB_GUESTS=${CARGO_TARGET_DIR:-$root/target}/vm
# shellcheck disable=SC2034 # of counts.sh
name=plan
. ./counts.sh
for command in qemu-system-x86_64 busybox cpio depmod tc python3; do
	if ! command -v "$command" >/dev/null; then
		skip "needs $command (make deps)"
		finish
		exit
	fi
done
work=$(mktemp -d)
trap 'pkill -f "qemu-system-x86_64 .*$work/" || true; rm -rf "$work"' EXIT
head='title = "a test"
purpose = "p"
hypothesis = "h"
takes = "1min"
order = "given"'

# run NAME: runs $work/NAME.toml. A load that doubts itself (exit code 3) was measured all the same.
run() {
	local rc=0
	"$plumb" plan run "$work/$1.toml" -o "$work/$1" --quiet >"$work/$1.report" 2>"$work/$1.err" || rc=$?
	if [ "$rc" = 0 ] || { [ "$rc" = 3 ] && measured "$1"; }; then
		ok "plan $1 runs in guests"
	elif reason=$(grep -ohE '(apt knows no package|apt-get download).*' "$work/$1.err" "$work/$1"/cells/*/1/output.txt 2>/dev/null | head -n 1) && [ -n "$reason" ]; then
		skip "$reason"
		finish
		exit
	else
		bad "plan $1: exit code $rc"
		cat "$work/$1.err" "$work/$1.report"
		find "$work/$1" -name 'output.txt' -o -name '*.console' -o -name '*.said' | while read -r file; do tail -n 20 "$file"; done
	fi
}

# measured NAME: every repetition was; says what they doubt.
measured() {
	python3 - "$work/$1/plan.json" <<-'END'
		import json, sys
		plan = json.load(open(sys.argv[1]))
		for made in plan["made"]:
		    for doubt in made["doubts"]:
		        print(f"plan: {plan['cells'][made['cell']]['label']}: {doubt}")
		sys.exit(len(plan["made"]) != len(plan["schedule"]) or any(made["end"] != "measured" for made in plan["made"]))
	END
}

cat >"$work/kernels.toml" <<END
name = "kernels"
$head
[host.old]
guest = "6.1"
virtual-time = true
[host.new]
guest = "6.12"
virtual-time = true
[device.memory]
directory = "/tmp"
[cell]
device = "memory"
load = { size = "1M", block = "4K", operations = 2000 }
[[factor]]
name = "kernel"
level = [{ name = "6.1", host = "old" }, { name = "6.12", host = "new" }]
END
run kernels
for pair in "001 6.1." "002 6.12."; do
	cell=$(find "$work/kernels/cells" -maxdepth 1 -name "${pair% *}*")
	if python3 -c 'import json, sys; e = json.load(open(sys.argv[1] + "/1/load.json"))["environment"]; sys.exit(not e["kernel"]["release"].startswith(sys.argv[2]))' "$cell" "${pair#* }"; then
		ok "the cell was measured on Linux ${pair#* }x"
	else
		bad "the cell was not measured on Linux ${pair#* }x"
	fi
done

cat >"$work/far.toml" <<END
name = "far"
$head
[host.initiator]
guest = "6.1"
[host.target]
guest = "6.1"
delay = "10ms"
[device.disk]
model = "instant"
size = "256M"
host = "target"
protocol = "nvme"
[cell]
host = "initiator"
record-hosts = "target"
device = "disk"
load = { block = "4K", operations = 100, size = "1M", direct = true }
record = ["-e", "default,tcp"]
END
run far
if grep -q 'Most of it: target, answer in the queue of the network device' "$work"/far/cells/*/1/hosts.txt; then
	ok "the slow link is told from both recordings"
else
	bad "the slow link is not told"
	cat "$work"/far/cells/*/1/hosts.txt || true
fi
finish
