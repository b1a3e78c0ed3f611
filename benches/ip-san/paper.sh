#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# benches/ip-san/paper.sh [DIR]: the experiment of S. Yamaguchi, M. Oguchi, M. Kitsuregawa, "An Analysis for Performance of File
# Operations on IP-SAN with Trace System" in small: FILES (3000) files of one byte are created in one directory of a file system without
# an index of names on a disk of another host, five times in a row, A to E, and deleted in between. Where the time of open(2)
# goes, waypoint by waypoint, and where that of the disk's commands goes, over both hosts. 5 minutes; leaves a set of results.
set -euo pipefail

root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
dir=${1:-$root/target/ip-san-paper}
plumb=$root/target/release/plumb
files=${FILES:-3000}
[ -x "$plumb" ] || {
	echo "ip-san: no $plumb: make build" >&2
	exit 2
}
mkdir -p "$dir"
dir=$(realpath "$dir")
[ -z "$(ls -A "$dir")" ] || {
	echo "paper: $dir is not empty" >&2
	exit 2
}
echo "paper: five runs of $files files over iSCSI, in two guests" >&2
TIMEOUT=1500 "$root/tests/vm/ip-san.sh" "$plumb" --protocol iscsi --kernel 6.1 --files "$files" --keep "$dir"
for run in A B C D E; do
	mkdir -p "$dir/set-$run"
	mv "$dir/$run" "$dir/set-$run/initiator"
	ln -sfn ../target "$dir/set-$run/target"
	"$plumb" view waypoints "$dir/set-$run/initiator" >"$dir/waypoints-$run.txt"
	"$plumb" view waypoints --json "$dir/set-$run/initiator" >"$dir/waypoints-$run.json"
	"$plumb" explain "$dir/set-$run" >"$dir/explain-$run.txt"
	"$plumb" explain --json "$dir/set-$run" >"$dir/explain-$run.json"
done
python3 - "$dir" "$files" >"$dir/summary.md" <<'END'
import json
import sys

dir, files = sys.argv[1], int(sys.argv[2])
runs = "ABCDE"
print(f"""<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->
# Files created on a disk of another host, five times in a row

{files} files of one byte in one directory of ext4 without an index of names, on a disk that another guest serves over iSCSI (Linux 6.1 in
software emulation, which is slow and not steady); deleted after each run. Times are ms.

| run | elapsed | open(2), all | ext4_lookup | share | ext4_add_entry | share | commands | their time | most of it in | share |
|---|---|---|---|---|---|---|---|---|---|---|""")
chains = {}
for run in runs:
    told = json.load(open(f"{dir}/explain-{run}.json"))
    one = told["recordings"]["initiator"]
    elapsed = (one["end"] - one["begin"]) / 1e6
    spans = {s["name"]: s for s in one["spans"]}
    ms = lambda name: spans[name]["total"] / 1e6 if name in spans else 0.0
    whole = ms("do_filp_open")
    rows = [r for r in told["hosts"]["commands"] if r["device"]]
    sums = {}
    for r in rows:
        for p in r["parts"]:
            place = (p["host"] or "network") + ": " + p["part"]
            sums[place] = sums.get(place, 0) + p["time"] / 1e6
    chains[run] = sums
    most = max(sums, key=sums.get) if sums else "-"
    all_time = sum(sums.values())
    commands = sum(r["commands"] for r in rows)
    print(f"| {run} | {elapsed:.0f} | {whole:.0f} | {ms('ext4_lookup'):.0f} | {ms('ext4_lookup') * 100 / max(whole, 1):.1f} % "
          f"| {ms('ext4_add_entry'):.0f} | {ms('ext4_add_entry') * 100 / max(whole, 1):.1f} % | {commands} | {all_time:.0f} | {most} "
          f"| {sums.get(most, 0) * 100 / max(all_time, 1):.0f} % |")
print("\nWhere the time of the commands went, of each run (ms, all commands together; what is written back is not what open(2) waits for):\n")
print("| part | " + " | ".join(runs) + " |")
print("|---|" + "---|" * len(runs))
for place in {p: 0 for sums in chains.values() for p in sums}:
    print(f"| {place} | " + " | ".join(f"{chains[r].get(place, 0):.1f}" for r in runs) + " |")
END
sed -i "s|$dir/||" "$dir"/explain-*.txt
rm -rf "$dir"/set-* "$dir/target"
"$root/scripts/evidence.sh" "$dir" "FILES=$files benches/ip-san/paper.sh"
cat "$dir/summary.md"
