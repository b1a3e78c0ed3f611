# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The benchmark of the profile's cost; start it with run.sh."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import evidence, stats, system
from common.evidence import interleaved, say, shown, write_csv, write_json
from common.system import ROOT, Problem, run, tool
from recorders import HZ, RECORDERS, Recorder
from report import summary_md

HERE = Path(__file__).resolve().parent
TOOLS = {"perf": ["perf", "--version"], "bpftrace": ["bpftrace", "--version"], "gcc": ["gcc", "--version"]}


class Bench:
    def __init__(self, options, scratch):
        self.scratch = scratch
        self.plumb = Path(options.plumb).absolute()
        self.times = scratch / "times"
        self.seconds, self.depth, self.threads = options.seconds, options.depth, os.cpu_count()
        self.left_out = {}

    def shown(self, text):
        return shown(text, [(self.scratch, "SCRATCH"), (self.plumb, "plumb")])

    def build(self):
        program = self.scratch / "load"
        flags = ["-O2", "-fomit-frame-pointer", "-pthread", "-Wall", "-Wextra"]
        run([tool("gcc", "gcc"), *flags, "-o", program, HERE / "load.c"])
        self.load = [program, self.seconds, self.depth, self.threads, self.times]

    def usable(self, asked):
        names = [r.name for r in RECORDERS]
        unknown = [n for n in asked if n not in names]
        if unknown:
            raise Problem(f"--only: there is no '{unknown[0]}'; there are {', '.join(names)}")
        able = []
        for kind in RECORDERS:
            recorder = kind(self)
            if asked and recorder.name not in [*asked, Recorder.name]:
                continue
            try:
                recorder.usable()
                able.append(recorder)
            except Problem as e:
                self.left_out[recorder.name] = str(e)
        return able

    def once(self, recorder):
        """One run; `end_ms`: how long after the load the profiler ended."""
        self.times.unlink(missing_ok=True)
        row = dict.fromkeys(("events", "samples", "lost", "bytes", "cpu_ns"))
        row["foreign"] = system.foreign_programs()
        try:
            row.update(recorder.run(self.load))
            ended = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        finally:
            recorder.clean()
        told = json.loads(self.times.read_text())
        row["rate"] = told["iterations"] * 1e9 / told["ns"]
        row["load_cpu_ns"] = told["cpu_ns"]
        row["cpu_rate"] = told["iterations"] * 1e9 / told["cpu_ns"]
        row["end_ms"] = (ended - told["end"]) / 1e6
        row["load1"] = system.load_average()[0]
        return row

    def rounds(self, recorders, n):
        rows = []
        for number, place, recorder in interleaved(recorders, n):
            head = {"round": number, "place": place, "tool": recorder.name}
            try:
                rows.append({**head, **self.once(recorder)})
            except (Problem, ValueError, OSError, subprocess.SubprocessError) as e:
                # said, and not tried again: what fails once fails in every round
                self.left_out[recorder.name] = self.shown(e)
                recorders.remove(recorder)
        return [r for r in rows if r["tool"] not in self.left_out]


def figures(bench, recorders, rows, machine, naming):
    """Spread of each recorder's rate, and of its ratio to no profiler in the same round."""
    out = {}
    for recorder in recorders:
        mine = [r for r in rows if r["tool"] == recorder.name]
        if not mine:
            continue
        of = {"about": recorder.about, "rate": stats.spread_of(mine, "rate")}
        if recorder.name != Recorder.name:
            base = {r["round"]: r["rate"] for r in rows if r["tool"] == Recorder.name}
            ratios = [r["rate"] / base[r["round"]] for r in mine if r["round"] in base]
            of["ratio"] = stats.paired(rows, "rate", recorder.name, Recorder.name)
            of["cpu_ratio"] = stats.paired(rows, "cpu_rate", recorder.name, Recorder.name)
            of["interval"] = stats.bootstrap_median(ratios) if ratios else None
        for figure in ("events", "samples", "lost", "bytes", "end_ms"):
            of[figure] = stats.spread_of(mine, figure)
        for row in mine:
            row["profiler_cpu_ms"] = (row["cpu_ns"] - row["load_cpu_ns"]) / 1e6
        of["profiler_cpu_ms"] = stats.spread_of(mine, "profiler_cpu_ms")
        of["disturbed"] = sum(bool(r["foreign"]) for r in mine)
        out[recorder.name] = of
    return {"hz": HZ, "seconds": bench.seconds, "threads": bench.threads, "depth": bench.depth, "recorders": out,
            "naming": naming, "left_out": bench.left_out, "machine": machine}


def plan_md(bench, recorders, n):
    flags = [f"--rounds {n}", f"--seconds {bench.seconds:g}", f"--depth {bench.depth}"]
    lines = [evidence.COMMENT, "# Plan", "", f"`{' '.join(['benches/profile/run.sh', *flags])}`", "",
             f"{n} rounds; in each every profiler once, in random order. The load has a thread on each of the",
             f"{bench.threads} CPUs, so whatever a profiler does is taken from it; it counts its own iterations for",
             f"{bench.seconds:g} s, {bench.depth} calls deep, compiled without frame pointers.", "", "```",
             "LOAD = " + bench.shown(" ".join(map(str, bench.load)))]
    lines += [f"{r.name}: {bench.shown(r.command())}" for r in recorders]
    return "\n".join([*lines, "```", ""])


def measure(options, undo):
    directory = evidence.results_directory(options.out, "profile-cost")
    naming = None
    if options.naming:
        try:
            naming = json.loads(Path(options.naming).read_text())
        except ValueError as e:
            raise Problem(f"--naming {options.naming} is no JSON: {e}") from e
    system.private_mounts()
    system.mount_tracefs()
    bench = Bench(options, system.scratch(4096, undo))
    bench.build()
    machine = system.Machine(bench.plumb, TOOLS)
    recorders = bench.usable(options.only.split(",") if options.only else [])
    say(f"profilers: {', '.join(r.name for r in recorders)}")
    plan = plan_md(bench, recorders, options.rounds)
    rows = bench.rounds(list(recorders), options.rounds)
    summary = figures(bench, recorders, rows, machine.done(), naming)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "plan.md").write_text(plan)
    write_json(directory / "machine.json", summary["machine"])
    write_csv(directory / "rounds.csv", rows)
    write_json(directory / "summary.json", summary)
    text = summary_md(summary)
    (directory / "summary.md").write_text(text)
    print(text)
    say(f"written to {bench.shown(directory)}")


OPTIONS = [
    ("--seconds", {"type": float, "default": 10, "help": "how long the load counts (10)"}),
    ("--depth", {"type": int, "default": 20, "help": "how many calls deep it does (20)"}),
    ("--only", {"help": "of the profilers only these, by name, with commas; the load alone is always there"}),
    ("--naming", {"metavar": "FILE", "help": "JSON object of figures of naming functions, for the summary"}),
]

sys.exit(evidence.main(
    "benches/profile/run.sh", "What sampling with stacks costs, beside perf, bpftrace and bcc.",
    "profile-cost", measure, OPTIONS, rounds=15))
