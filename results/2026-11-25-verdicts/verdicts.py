#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Prints the verdicts of recorded runs by two versions side by side, and judges each line.

verdicts.py OLD_PLUMB NEW_PLUMB RUN_DIRECTORY... : writes raw.json and summary.md beside this file.
Both versions explain the same trace, so that only the words differ.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

# Words of the style guide's vocabulary, and what its rules forbid; rule, pattern, what to write.
RULES = [
    ("1 field term", r"put off its CPU", "preempted"),
    ("1 field term", r"others had the CPU|its own threads had the CPU", "CPU contention (run-queue wait)"),
    ("1 field term", r"\bready\b", "runnable"),
    ("1 field term", r"waited \S+ \S+ for a CPU", "waiting on the run queue"),
    ("1 field term", r"let go|wanted\b", "released, acquired in"),
    ("1 field term", r"user lock|a lock that another thread holds", "user-space mutex"),
    ("1 field term", r"are woken where one was meant|wakeups .* for nothing", "thundering herd, futile wakeups"),
    ("1 field term", r"sends again|were sent again", "TCP retransmissions"),
    ("1 field term", r"until a time|sleeps on purpose|asleep on purpose", "intentional sleep, timer"),
    ("1 field term", r"with the device|device takes|takes long for each request", "service time, in flight"),
    ("1 field term", r"somebody else's|asked for by", "another process, requested by"),
    ("1 field term", r"its own code", "user code"),
    ("1 field term", r"held back", "throttled"),
    ("1 field term", r"many threads queue", "lock convoy"),
    ("1 field term", r"memory is short|getting memory free", "memory pressure, reclaim"),
    ("1 field term", r"all over \w+|stands? out", "random I/O; no cause dominates"),
    ("1 field term", r"\bdear\b|gave its CPU|takes its CPU", "expensive; stolen; interrupt handling"),
    ("1 field term", r"its limit\b", "saturated"),
    ("2 short sentence", r"times as fast|times as long", "N x speed-up"),
    ("2 short sentence", None, "more than 25 words in a sentence"),
    ("3 name the actor", r"\bit took\b|\bIt asked\b|\bit waits\b|without it, it\b", "name the program, the wall time"),
    ("4 answer first", r"^(?!Bottleneck: )", "cause, share, bound in the first line"),
    ("5 number and unit", r"\b\d{2,}\.\d{2} (ms|s|us)\b|\b\d+\.\d{3} s\b", "two or three digits: 477 ms"),
]


def verdict(plumb, run):
    out = subprocess.run([plumb, "explain", "--json", run], capture_output=True, text=True, check=False)
    return json.loads(out.stdout)["verdict"]


def words_of(sentence):
    return len(re.findall(r"[A-Za-z][\w'-]*", sentence))


def judge(lines):
    """Rules that a verdict breaks, line by line."""
    broken = []
    for number, line in enumerate(lines):
        for rule, pattern, instead in RULES:
            if rule.startswith("4") and number > 0:
                continue
            if pattern is None:
                parts = re.split(r"(?<=[.;:])\s", line)
                long = [p for p in parts if words_of(p) > 25]
                if long:
                    broken.append((number + 1, rule, instead))
                continue
            found = re.search(pattern, line)
            if found:
                said = found.group(0) or "first line is no answer"
                broken.append((number + 1, rule, f"\"{said}\": {instead}"))
    return broken


def table(broken):
    if not broken:
        return "No rule broken.\n"
    out = "| line | rule | broken by: instead |\n|---|---|---|\n"
    for number, rule, why in broken:
        out += f"| {number} | {rule} | {why} |\n"
    return out


def main():
    old, new, *runs = sys.argv[1:]
    raw = {}
    for run in runs:
        run = Path(run)
        raw[run.name] = {"old": verdict(old, run), "new": verdict(new, run)}
    (HERE / "raw.json").write_text(json.dumps(raw, indent=1, ensure_ascii=False) + "\n")
    head = (HERE / "head.md").read_text()
    counts = {side: sum(len(judge(v[side])) for v in raw.values()) for side in ("old", "new")}
    body = head.replace("{N}", str(len(raw))).replace("{OLD}", str(counts["old"])).replace("{NEW}", str(counts["new"]))
    for name, v in raw.items():
        body += f"\n## {name}\n\nBefore:\n\n"
        body += "".join(f"    {line}\n" for line in v["old"])
        body += "\nAfter:\n\n" + "".join(f"    {line}\n" for line in v["new"])
        body += "\nBefore, line by line:\n\n" + table(judge(v["old"]))
        body += "\nAfter, line by line:\n\n" + table(judge(v["new"]))
    (HERE / "summary.md").write_text(body)
    print(counts)


if __name__ == "__main__":
    main()
