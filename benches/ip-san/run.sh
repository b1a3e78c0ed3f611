#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# benches/ip-san/run.sh [DIR]: storage over a network between two guests: whether each command is seen whole, whether its
# parts add up to what the kernel says, and whether a known cause is named in its place. About 15 minutes; leave the
# machine alone meanwhile. Leaves a set of results in DIR.
set -euo pipefail

root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
dir=${1:-$root/target/ip-san}
plumb=$root/target/release/plumb
[ -x "$plumb" ] || {
	echo "ip-san: no $plumb: make build" >&2
	exit 2
}
mkdir -p "$dir"
dir=$(realpath "$dir")
failed=0
answer="network: answer on its way"
queue="in the queue of the network device"
summary=$dir/summary.md
cat >"$summary" <<-END
	<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->
	# Storage over a network: each command from the initiator's block layer to the target's device

	Two guests of QEMU (software emulation), joined by a network of QEMU's over a Unix socket unless told otherwise. "whole": commands with
	every part. "kernel": time of all commands by plumb against the kernel's own statistics of the disk.

	| case | protocol | kernel of the guests | commands | whole | on the device | reads: plumb / kernel | writes and flushes: plumb / kernel | clocks +- | most time in | share | expected |
	|---|---|---|---|---|---|---|---|---|---|---|---|
END

# try NAME KERNEL COMMANDS EXPECT OPTION...: both protocols.
try() {
	local name=$1 kernel=$2 commands=$3 expect=$4 protocol out
	shift 4
	for protocol in iscsi nvme; do
		out=$dir/$name-$kernel-$protocol
		echo "ip-san: $name, $protocol, Linux $kernel" >&2
		rm -f "$out.json" "$out.txt"
		TIMEOUT=500 "$root/tests/vm/ip-san.sh" "$plumb" --protocol $protocol --kernel "$kernel" --commands "$commands" \
			--keep "$out.kept" ${expect:+--expect "$expect"} "$@" >"$out.log" 2>&1 || { echo "ip-san: not as expected: $out.log" >&2; failed=1; }
		mv "$out.kept/$protocol.txt" "$out.txt" 2>/dev/null || true
		sed -i 's|/tmp/[^ ]*/set-|SCRATCH/set-|' "$out.log" "$out.txt"
		mv "$out.kept/$protocol.figures" "$out.json" 2>/dev/null || true
		# The recordings of the first case are long.
		rm -rf "$out.kept"
		python3 - "$name" "$protocol" "$kernel" "${expect:--}" "$out" >>"$summary" <<-'END'
			import json, re, sys
			name, protocol, kernel, expected, out = sys.argv[1:]
			log = open(out + ".log").read()
			seen = [tuple(map(int, m)) for m in re.findall(r"(\d+) of \d+ \w+ commands seen, (\d+) with every part, (\d+) with", log)]
			commands, whole, device = (sum(column) for column in zip(*seen)) if seen else (0, 0, 0)
			ratio = [float(a) / max(float(b), 1) for a, b in re.findall(r": ([\d.]+) ms, by the kernel's own statistics (\d+) ms", log)]
			ratio = [f"{r:.3f}" for r in ratio] + ["-", "-"]
			width = (re.findall(r"off by at most ([\d.]+ us)", log) or ["-"])[0]
			figures = json.load(open(out + ".json"))
			print(f"| {name} | {protocol} | {kernel} | {commands} | {whole} | {device} | {ratio[0]} | {ratio[1]} | {width} "
			      f"| {figures['most']} | {figures['share'] * 100:.0f} % | {expected} |")
		END
	done
}

try healthy 6.12 4280 ""
try healthy 6.1 800 ""
try "QEMU's link over TCP" 6.12 400 "$answer" --link tcp
try "the same over a Unix socket" 6.12 400 ""
try "slow disk of the target" 6.12 400 "target: device service time (D2C)" --disk "atlas10k4 --set medium.write-cache=false"
try "slow link from the target" 6.12 400 "target: answer $queue" --delay 5
try "slow link from the initiator" 6.12 400 "initiator: command $queue" --initiator-delay 5
"$root/scripts/evidence.sh" "$dir" "benches/ip-san/run.sh"
echo "ip-san: $summary"
exit "$failed"
