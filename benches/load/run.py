# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What an operation of `plumb load` costs, beside fio, SysBench and a bare loop
in C; start it with run.sh."""

import shutil
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import EXT_JOURNAL, Bench, FileSystem, resident, warm
from common import evidence, system
from common.evidence import say, table
from common.stats import paired, spread
from common.system import Problem
from tools import Bare, BareTimed, Fio, Job, Plumb, PlumbLog, Sysbench

FILE_MIB = 256
SYNC_MIB = 64
TRIES = 3  # for a sample whose file stayed in the page cache
CREATED_PER_SECOND = 10_000  # files to make for each of --seconds


@dataclass
class Case:
    name: str
    about: str
    job: Job
    tools: tuple
    cached: bool = False  # the file must be in the page cache, all of it
    workers: bool = False  # a loop device's worker threads take part


def cases(bench, cached, device, data, names, seconds):
    loops = (Plumb, PlumbLog, Fio, Bare, BareTimed)
    size = FILE_MIB << 20
    read = Job("read", cached, size, seconds=seconds)
    ring = lambda through, depth: Job("read", cached, size, seconds=seconds, through=through, depth=depth)
    return [
        Case("null", "nothing is called: plumb --through null, fio's null engine, an empty loop",
             Job("read", cached, size, seconds=seconds, through="null"), loops),
        Case("cached", "pread of 4 KiB at random, from the page cache", read, (*loops, Sysbench), cached=True),
        Case("uring-1", "io_uring, one at a time, page cache", ring("io-uring", 1), loops[:3], cached=True),
        Case("uring-1-fixed", "the same with registered buffer and file", ring("io-uring-fixed", 1), loops[:3], cached=True),
        Case("uring-32", "io_uring, 32 at once, page cache", ring("io-uring", 32), loops[:3], cached=True),
        Case("uring-32-fixed", "the same with registered buffers and file", ring("io-uring-fixed", 32), loops[:3], cached=True),
        Case("direct", "pread of 4 KiB at random past the page cache, loop device in memory",
             Job("read", device, size, seconds=seconds, direct=True), loops, workers=True),
        Case("fdatasync", "pwrite of 8 KiB at random and fdatasync, ext4 on a loop device in memory",
             Job("write", data, SYNC_MIB << 20, 8192, seconds, sync=True), (*loops, Sysbench), workers=True),
        Case("create", "empty files made in one directory, ext4 on a loop device in memory",
             Job("create", names, block=0, operations=max(1, round(CREATED_PER_SECOND * seconds))), loops, workers=True),
    ]


def emptied(directory):
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()


class Cost:
    """Samples: a long run less a run of one operation, so that what a tool does
    before and after its loop is in no figure."""

    def __init__(self, bench):
        self.bench = bench
        self.tools = {}
        self.thrown_away = {}

    def tool(self, kind):
        if kind not in self.tools:
            self.tools[kind] = kind(self.bench)
        return self.tools[kind]

    def measured(self, tool, job, case):
        if job.kind == "create":
            emptied(job.target)
        command = tool.command(job)
        with system.workers_on(self.bench.cpu) if case.workers else nullcontext():
            text, user, kernel = system.run_measured(
                command, cpus={self.bench.cpu}, good=tool.good, cwd=self.bench.work)
        if job is case.job:
            self.bench.note(f"{case.name}, {tool.name}", command)
        return tool.seen(text, job), user, kernel

    def once(self, job):
        case, kind = job.case, job.kind
        tool = self.tool(kind)
        for _ in range(TRIES):
            _, idle_user, idle_kernel = self.measured(tool, case.job.once(), case)
            if case.cached:
                warm(case.job.target)
                before = resident(case.job.target)
            seen, user, kernel = self.measured(tool, case.job, case)
            if not case.cached or (before and resident(case.job.target)):
                break
            self.thrown_away[case.name, tool.name] = self.thrown_away.get((case.name, tool.name), 0) + 1
        else:
            raise Problem(f"the file did not stay in the page cache, {TRIES} times; is there memory for it?")
        if seen.operations < 2 or not seen.elapsed_s:
            raise Problem(f"{seen.operations} operations in {seen.elapsed_s} s; give it more --seconds")
        n = seen.operations - 1
        return {
            "case": case.name, "tool": tool.name, "operations": seen.operations, "elapsed_s": seen.elapsed_s,
            "user_ns": (user - idle_user) / n, "system_ns": (kernel - idle_kernel) / n,
            "cpu_ns": (user + kernel - idle_user - idle_kernel) / n,
            "rate": seen.operations / seen.elapsed_s,
            "start_cpu_ms": (idle_user + idle_kernel) / 1e6, "verdict": seen.verdict,
        }


@dataclass
class Pair:
    case: Case
    kind: type

    def __str__(self):
        return f"{self.case.name} {self.kind.name}"


def summarise(bench, cost, every):
    out = {}
    for case in every:
        rows = [r for r in bench.rows if r["case"] == case.name]
        entry = {}
        for kind in case.tools:
            mine = [r for r in rows if r["tool"] == kind.name]
            if not mine:
                continue
            ratio = lambda figure, peer: paired(rows, figure, kind.name, peer) if peer != kind.name else None
            entry[kind.name] = {
                **{figure: spread([r[figure] for r in mine]) for figure in ("user_ns", "system_ns", "cpu_ns", "rate", "start_cpu_ms")},
                "cpu_to": {peer: ratio("cpu_ns", peer) for peer in ("fio", "c", "c-clock")},
                "rate_to": {peer: ratio("rate", peer) for peer in ("fio", "c", "c-clock")},
                "thrown_away": cost.thrown_away.get((case.name, kind.name), 0),
                "not_valid": sum(not r["verdict"].startswith("valid") for r in mine if r["verdict"]),
            }
        out[case.name] = {"about": case.about, "tools": entry}
    return out


def _times(ratio):
    return "-" if not ratio else f"**{ratio['median']:.2f}** ({ratio['min']:.2f}..{ratio['max']:.2f})"


def lines(summary):
    text = ["Times are ns an operation: the CPU time of the tool and its children (getrusage), a run of one operation",
            "taken off. Ratios are those of the same round: median (min..max); CPU: below 1 is cheaper; speed: above 1 is faster.",
            "The kernel divides CPU time into user and system by its tick, in short runs roughly; their sum is exact.", ""]
    for name, case in summary.items():
        text += [f"## {name}", "", case["about"] + ".", ""]
        rows = []
        for which, got in case["tools"].items():
            cpu, rate = got["cpu_ns"], got["rate"]
            rows.append([
                which, f"{got['user_ns']['median']:,.0f}", f"{got['system_ns']['median']:,.0f}",
                f"{cpu['median']:,.0f} ({cpu['min']:,.0f}..{cpu['max']:,.0f})",
                f"{rate['median']:,.0f} ({rate['min']:,.0f}..{rate['max']:,.0f})",
                *(_times(got["cpu_to"][peer]) for peer in ("fio", "c", "c-clock")),
                *(_times(got["rate_to"][peer]) for peer in ("fio", "c")), f"{got['start_cpu_ms']['median']:,.0f}"])
        text += table(["tool", "user ns", "system ns", "CPU ns: median (min..max)", "operations/s", "CPU / fio", "CPU / C",
                       "CPU / C with clock", "speed / fio", "speed / C", "one operation, CPU ms"], rows)
        thrown = sum(got["thrown_away"] for got in case["tools"].values())
        doubted = {which: got["not_valid"] for which, got in case["tools"].items() if got["not_valid"]}
        notes = [f"{thrown} samples were thrown away: their file was not in the page cache all the time."] if thrown else []
        notes += [f"{which} itself doubted {n} of its runs (raw.json says why)." for which, n in doubted.items()]
        text += ["", *notes, ""] if notes else [""]
    return text[:-1]


ABOUT = [
    "In each round every tool runs every case once, in random order, bound to one CPU with all of its threads, so that a",
    "log's writer is in what the log costs. A sample is a run of --seconds, less the CPU time of a run of one operation just",
    "before it. Files of the cached cases lie on the machine's disk and are read whole right before each sample; a sample",
    "whose file is not wholly in the page cache then and afterwards is thrown away and counted. A loop device's",
    "workers are put on the same CPU. Files that are made: 10,000 for each of --seconds, in an empty directory.",
    "fio's own t/io_uring is not in Debian's package and was not run. c: bare.c without a clock; c-clock: with it.",
]


def measure(options, undo):
    bench = Bench(options, undo, "load-cost", "run.sh")
    known = [c.name for c in cases(bench, None, None, None, None, 1.0)]
    wanted = options.only.split(",") if options.only else known
    if unknown := set(wanted) - set(known):
        raise Problem(f"--only {', '.join(unknown)}: there is no such case; there are {', '.join(known)}")
    cached = bench.filled(bench.image("file", FILE_MIB, on_disk=True), FILE_MIB)
    device, bench.keeper = system.loop_device(bench.filled(bench.image("device", FILE_MIB), FILE_MIB))
    ext4 = FileSystem(bench, "ext4", ["mkfs.ext4", *EXT_JOURNAL, "-N", "400000"], "ext4")
    data = bench.filled(ext4.path / "data", SYNC_MIB)
    bench.names += [(cached, "FILE"), (device, "DEVICE")]
    every = [c for c in cases(bench, cached, Path(device), data, ext4.path / "names", options.seconds) if c.name in wanted]
    cost = Cost(bench)
    say(f"cases: {', '.join(c.name for c in every)}")
    bench.rounds([Pair(case, kind) for case in every for kind in case.tools], cost.once)
    summary = summarise(bench, cost, every)
    bench.write("What an operation of plumb load costs", ABOUT, {"cases": summary}, lines(summary))


OPTIONS = [
    ("--seconds", {"type": float, "default": 3.0, "help": "length of a sample (3)"}),
    ("--only", {"help": "of the cases only these, with commas between"}),
]

if __name__ == "__main__":
    sys.exit(evidence.main(
        "benches/load/run.sh", "What an operation of plumb load costs, beside fio, SysBench and a bare loop in C.",
        "load-cost", measure, OPTIONS, rounds=11))
