#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Searches of the commit that made a program slower, in real repositories: runs, and wrong answers."""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import evidence, system
from common.evidence import table
from common.stats import spread_of
from common.system import Problem

PROGRAM = """
int main(void)
{
	volatile unsigned x = 1;
	for (unsigned long i = 0; i < WORK; i++)
		x = x * 1664525u + 1013904223u;
	return 0;
}
"""


# Prints a figure with normal noise of its logarithm, whatever the machine does. Three bytes of seed: mawk takes all above
# 2^31 for the same.
DRAWN = """#!/bin/sh
exec awk -v seed="$(od -An -N3 -tu4 /dev/urandom)" 'BEGIN {
	srand(seed)
	n = sqrt(-2 * log(1 - rand())) * cos(6.283185307179586 * rand())
	printf "value %.6f\\n", LEVEL * exp(NOISE * n)
}'
"""


def git(repository, *words):
    identity = ["-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", "-C", repository, *identity, *words], check=True, capture_output=True, text=True).stdout.strip()


def work_of(scratch, ms):
    """Iterations that take so many ms of this CPU."""
    source, program = scratch / "work.c", scratch / "work"
    source.write_text(f"#define WORK 50000000ul\n{PROGRAM}")
    subprocess.run(["cc", "-O1", "-o", program, source], check=True)
    took = []
    for _ in range(5):
        begun = time.monotonic()
        subprocess.run([program], check=True)
        took.append(time.monotonic() - begun)
    return int(50e6 * ms / 1e3 / min(took))


def repository(scratch, commits, change, work, slowdown, noise):
    """Each commit changes the program's text; `change` its work too. With noise the program draws its figure."""
    path = scratch / "repository"
    path.mkdir()
    git(path, "init", "--quiet", "--initial-branch=main")
    (path / ".gitignore").write_text("work\n")
    for number in range(commits + 1):
        now = work * (1 + slowdown) if 0 < change <= number else work
        if noise:
            (path / "drawn").write_text(DRAWN.replace("LEVEL", f"{now:f}").replace("NOISE", f"{noise:f}") + f"# {number}\n")
            (path / "drawn").chmod(0o755)
        else:
            (path / "work.c").write_text(f"/* {number} */\n#define WORK {int(now)}ul\n{PROGRAM}")
        git(path, "add", ".")
        git(path, "commit", "--quiet", "-m", f"commit {number}")
    return path


def search(options, scratch, kind, work, change):
    slowdown = options.slowdown / 100
    path = repository(scratch, options.commits, change, work, slowdown, options.noise / 100)
    before = [git(path, *words) for words in (["status", "--porcelain"], ["worktree", "list"])]
    out = scratch / "search"
    command = [options.plumb, "bisect", "--good", f"HEAD~{options.commits}", "--bad", "HEAD", "--repo", path,
               "--error", f"{options.error}%", "--quiet", "--json", "-o", out]
    if options.noise:
        command += ["--figure", "value ([0-9.]+)", "--", "./drawn"]
    else:
        command += ["--build", "cc -O1 -o work work.c", "--figure", options.figure, "--", "./work"]
    begun = time.monotonic()
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if ended.returncode not in (0, 3):
        raise Problem(f"plumb bisect: {ended.stderr}")
    if before != [git(path, *words) for words in (["status", "--porcelain"], ["worktree", "list"])]:
        raise Problem("the repository is not as it was")
    answer = json.loads(ended.stdout)["answer"]
    wrong = answer["verdict"] != "undecided" and answer["candidates"] != ([change] if change else [])
    row = {"kind": kind, "change": change, "verdict": answer["verdict"], "candidates": " ".join(map(str, answer["candidates"])),
           "wrong": int(wrong), "seconds": time.monotonic() - begun}
    row |= {f: answer[f] for f in ("runs", "other_runs", "builds", "measured_versions", "scan_runs", "change", "low", "high", "noise", "drift", "probability")
            if f != "change"} | {"found_change": answer["change"]}
    shown = subprocess.run([options.plumb, "bisect", "-o", out], capture_output=True, text=True).stdout
    shutil.rmtree(path)
    shutil.rmtree(out)
    return row, shown


def wilson(k, n):
    """95 % interval of a share."""
    p, z = k / n, 1.96
    middle, half = p + z * z / (2 * n), z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    return max(0.0, (middle - half) / (1 + z * z / n)), min(1.0, (middle + half) / (1 + z * z / n))


def measure(options, undo):
    directory = evidence.results_directory(options.out, "bisect")
    options.plumb = Path(options.plumb).resolve()
    machine = system.Machine(options.plumb, {"git": ["git", "--version"], "cc": ["cc", "--version"]})
    scratch = Path(tempfile.mkdtemp(prefix="plumb-bench-bisect."))
    undo.add(f"rm -rf {scratch}")
    generator, rows, example = random.Random(options.seed), [], None
    work = 100.0 if options.noise else work_of(scratch, options.ms)
    for number, _, kind in evidence.interleaved(["slower", "same"], options.rounds):
        change = 1 + generator.randrange(options.commits) if kind == "slower" else 0
        row, shown = search(options, scratch, kind, work, change)
        rows.append({"round": number, **row})
        example = example or (kind == "slower" and row["verdict"] == "found" and shown)
        evidence.say(f"{kind} {change}: {row['verdict']} {row['candidates']}, {row['runs']} runs, {row['seconds']:.0f} s")
    cells, summary = [], {}
    cell = lambda s, scale=1: f"{s['median'] * scale:,.1f} ({s['min'] * scale:,.1f} to {s['max'] * scale:,.1f})" if s else "-"
    for kind in ("slower", "same"):
        mine = [r for r in rows if r["kind"] == kind]
        wrong, undecided = sum(r["wrong"] for r in mine), sum(r["verdict"] == "undecided" for r in mine)
        low, high = wilson(wrong, len(mine))
        got = {f: spread_of(mine, f) for f in ("runs", "other_runs", "builds", "scan_runs", "noise", "drift", "seconds")}
        summary[kind] = {"searches": len(mine), "wrong": wrong, "undecided": undecided, "wrong_low": low, "wrong_high": high,
                         "mean_runs": sum(r["runs"] for r in mine) / len(mine), **got}
        cells.append([kind, len(mine), f"{wrong} ({low:.1%} to {high:.1%})", undecided, f"{summary[kind]['mean_runs']:.1f}", cell(got["runs"]), cell(got["other_runs"]),
                      cell(got["scan_runs"]), cell(got["noise"], 100), cell(got["seconds"])])
    head = ["program", "searches", "wrong answers (95 % interval of the share)", "undecided", "mean runs", "runs", "warm-ups", "runs of a full scan with this error", "noise %", "seconds"]
    facts = machine.done()
    directory.mkdir(parents=True, exist_ok=True)
    evidence.write_csv(directory / "searches.csv", rows)
    evidence.write_json(directory / "machine.json", facts)
    evidence.write_json(directory / "summary.json", summary)
    program = f"a C program of about {options.ms} ms of CPU work (`--figure {options.figure}`)"
    if options.noise:
        program = f"a program that prints a figure with normal noise of {options.noise:g} %, drawn from /dev/urandom"
    lines = [evidence.COMMENT, "# Searches of the commit that made a program slower", "",
             f"Each search has a repository of its own with {options.commits} commits of {program}. In 'slower' one commit, drawn at random,"
             f" adds {options.slowdown:g} %; in 'same' none does. `plumb bisect --error {options.error:g}%`; medians with extremes.", "",
             *table(head, cells), "", *evidence.machine_lines(facts, ["git", "cc", "python"])]
    if example:
        lines += ["", "The first answer, as it is printed:", "", *(f"    {line}" for line in example.splitlines())]
    (directory / "summary.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


OPTIONS = [
    ("--commits", {"type": int, "default": 64, "help": "commits of a repository (64)"}),
    ("--slowdown", {"type": float, "default": 5.0, "help": "what the commit adds, percent (5)"}),
    ("--error", {"type": float, "default": 5.0, "help": "stated error, percent (5)"}),
    ("--figure", {"default": "elapsed", "help": "elapsed or cpu (elapsed)"}),
    ("--noise", {"type": float, "default": 0.0, "help": "the program draws its figure, with so much noise, percent (0: it computes)"}),
    ("--ms", {"type": int, "default": 100, "help": "length of a run (100)"}),
    ("--seed", {"type": int, "default": 1, "help": "of the drawn commits (1)"}),
]

if __name__ == "__main__":
    sys.exit(evidence.main("benches/bisect/run.py", "How many runs plumb bisect takes in real repositories, and how often it is wrong.",
                           "bisect", measure, OPTIONS, rounds=50))
