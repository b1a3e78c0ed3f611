#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Judges what plumb tells of the commands between the two guests of ip-san.sh.

ip-san-judge.py EXPLAINED.json BEFORE AFTER READS WRITES FLUSHES [PART]

BEFORE and AFTER are the initiator's statistics of the disk (Documentation/block/stat.rst), which the kernel keeps
itself. PART: the part that must be the largest of all commands together, with its place (`network: answer on its way`).
Prints a line each, `ok` or `FAIL`, and one of figures.
"""
import json
import sys

told = json.load(open(sys.argv[1]))["hosts"]
before, after = (list(map(int, open(f).read().split())) for f in sys.argv[2:4])
expected = dict(zip(("read", "write", "flush"), map(int, sys.argv[4:7])))
wanted = sys.argv[7] if len(sys.argv) > 7 else None
rows = [r for r in told["commands"] if r["device"]]
bad = 0


def judge(fine, text):
    global bad
    bad += not fine
    print("ok  " if fine else "FAIL", text)


sums, times = {}, {"read": 0, "write": 0, "flush": 0}
for kind, count in expected.items():
    those = [r for r in rows if r["kind"] == kind]
    commands = sum(r["commands"] for r in those)
    whole = commands - sum(r["incomplete"] for r in those)
    below = sum(r["on_device"] for r in those)
    times[kind] = sum(r["time"] for r in those)
    judge(
        commands == count and whole >= 0.999 * count and below >= 0.999 * count,
        f"{commands} of {count} {kind} commands seen, {whole} with every part, {below} with the target's device",
    )
    parts = sum(p["time"] for r in those for p in r["parts"])
    if not any(r["incomplete"] for r in those):
        judge(parts == times[kind], f"the parts of {kind} commands add up to their time: {parts / 1e6:.3f} ms")
    for r in those:
        for p in r["parts"]:
            place = (p["host"] or "network") + ": " + p["part"]
            sums[place] = sums.get(place, 0) + p["time"]
# The kernel counts from the request on, plumb from the bio on, which is earlier; and the kernel until it has accounted
# for the request, which is behind the tracepoint. Its flushes are writes without data first.
times["write"] += times["flush"]
for kind, field, what in (("read", 3, "reads"), ("write", 7, "writes and flushes")):
    kernel = after[field] - before[field]
    ratio = times[kind] / 1e6 / max(kernel, 1)
    done = after[field - 3] - before[field - 3]
    judge(
        0.94 < ratio < 1.06 and done == (expected["read"] if kind == "read" else expected["write"] + expected["flush"]),
        f"{what}: {times[kind] / 1e6:.1f} ms, by the kernel's own statistics {kernel} ms in {done} requests",
    )
widths = [c["width"] for c in told["clocks"]]
judge(bool(widths), f"clocks aligned, off by at most {max(widths, default=0) / 1e3:.1f} us")
whole = sum(sums.values())
most = max(sums, key=sums.get) if sums else "nothing"
if wanted:
    judge(most == wanted, f"most time: {most} ({sums.get(most, 0) * 100 / max(whole, 1):.0f} %); {wanted} was expected")
print("figures", json.dumps({"most": most, "share": sums.get(most, 0) / max(whole, 1), "sums": sums}))
sys.exit(bad != 0)
