# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes at a steady rate while the file system stands still for a while: who
says so? Start it with freeze.sh."""

import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import EXT_JOURNAL, Bench, FileSystem
from common import evidence, system
from common.evidence import table
from common.stats import spread_of
from common.system import Problem, run, tool
from tools import Fio, Job, Plumb

MIB = 64
FIGURES = {"mean": "mean", "p50": "p50", "p99": "p99", "p99_9": "p99.9", "max": "max"}


def expected(rate, seconds, still):
    """What an open loop must say, by arithmetic: of each write that was due in the
    pause the rest of it, of all others nothing."""
    due = round(rate * seconds)
    waits = sorted([0.0] * (due - round(rate * still)) + [still * (1 - i / (rate * still)) for i in range(round(rate * still))])
    at = lambda q: waits[min(due - 1, int(due * q))] * 1e3
    return {"mean": sum(waits) / due * 1e3, "p50": at(0.5), "p99": at(0.99), "p99_9": at(0.999), "max": still * 1e3}


class Pause:
    """The file system stands still for a while, once its file is written to."""

    def __init__(self, bench, path, file, after, still):
        self.path, self.file, self.after, self.still = path, file, after, still
        self.bench, self.was, self.problem = bench, None, None
        self.cancelled = threading.Event()

    def run(self):
        # the first write of the load says when it began: a tool's start takes its time
        before, until = self.file.stat().st_mtime_ns, time.monotonic() + 60
        while self.file.stat().st_mtime_ns == before:
            if time.monotonic() > until or self.cancelled.wait(0.005):
                self.problem = "nothing was written"
                return
        if self.cancelled.wait(self.after):
            self.problem = "the load ended before the pause"
            return
        try:
            run(["fsfreeze", "-f", self.path], timeout=60)
            begun = time.monotonic()
            try:
                self.cancelled.wait(self.still)
            finally:
                run(["fsfreeze", "-u", self.path], timeout=60)
            self.was = time.monotonic() - begun
        except (Problem, OSError) as e:
            self.problem = str(e)

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.cancelled.set()
        self.thread.join()


class Freeze:
    def __init__(self, bench, made, file):
        self.bench, self.made, self.file = bench, made, file
        self.tools = {kind.name: kind(bench) for kind in (Plumb, Fio)}

    def once(self, pair):
        name, arrivals = pair
        o, tool_ = self.bench.options, self.tools[name]
        job = Job("write", self.file, MIB << 20, seconds=o.seconds, rate=o.rate, arrivals=arrivals, percentiles=True)
        command = tool_.command(job)
        self.bench.note(f"{name}, {arrivals}", command)
        with Pause(self.bench, self.made.path, self.file, (o.seconds - o.still) / 2, o.still) as pause:
            out, _, _ = system.run_measured(command, good=tool_.good, timeout=o.seconds + o.still + 120)
        if pause.problem or pause.was is None or pause.was < o.still * 0.95:
            raise Problem(f"the pause was not as it should be: {pause.problem or pause.was}")
        seen = tool_.seen(out, job)
        ms = {key: None if us is None else us / 1e3 for key, us in seen.us().items()}
        return {"tool": name, "arrivals": arrivals, "writes": seen.operations, "pause_ms": pause.was * 1e3, **ms, "verdict": seen.verdict}


def measure(options, undo):
    if options.still >= options.seconds:
        raise Problem("--still is less than --seconds")
    bench = Bench(options, undo, "load-freeze", "freeze.sh")
    tool("fsfreeze", "util-linux")
    made = FileSystem(bench, "ext4", ["mkfs.ext4", *EXT_JOURNAL], "ext4", mib=512)
    file = bench.filled(made.path / "data", MIB)
    undo.add(f"fsfreeze -u {made.path}")
    freeze = Freeze(bench, made, file)
    pairs = [(name, arrivals) for name in freeze.tools for arrivals in ("constant", "poisson")]
    bench.rounds(pairs, freeze.once)
    must = expected(options.rate, options.seconds, options.still)
    rows, summary = [], {"by_arithmetic_ms": must}
    number = lambda v: f"{v:,.1f}" if v >= 1 else f"{v:.3f}"
    cell = lambda s: "-" if not s else f"{number(s['median'])} ({number(s['min'])}..{number(s['max'])})"
    for name, arrivals in pairs:
        mine = [r for r in bench.rows if (r["tool"], r["arrivals"]) == (name, arrivals)]
        if not mine:
            continue
        got = {f: spread_of(mine, f) for f in ("writes", *FIGURES)}
        summary[f"{name}, {arrivals}"] = got
        rows.append([name, arrivals, f"{got['writes']['median']:,.0f}", *(cell(got[f]) for f in FIGURES)])
    rows.append(["by arithmetic", "constant", f"{options.rate * options.seconds:,.0f}", *(number(must[f]) for f in FIGURES)])
    lines = [*table(["tool", "arrivals", "writes", *(f"{head} ms: median (min..max)" for head in FIGURES.values())], rows), "",
             "plumb's latency counts from the moment that a write was due, fio's from the moment that it began: of the writes that",
             "could not even begin during the pause fio says nothing, and makes them up afterwards as if they had been asked for then",
             "(coordinated omission; G. Tene, \"How NOT to Measure Latency\"). By arithmetic: what waits for the rest of the pause is",
             "due in it, all else takes no time."]
    about = [f"{options.rate} writes of 4 KiB a second at random places of a file on ext4 (loop device in memory), for {options.seconds:g} s; in the middle",
             f"the file system is frozen (fsfreeze -f) for {options.still:g} s. plumb: an open loop (--rate); fio: --rate_iops. In turns, in random order."]
    bench.write("Writes while the file system stands still", about, summary, lines)


OPTIONS = [
    ("--seconds", {"type": float, "default": 10.0, "help": "length of a run (10)"}),
    ("--still", {"type": float, "default": 2.0, "help": "how long the file system is frozen (2)"}),
    ("--rate", {"type": int, "default": 100, "help": "writes a second (100)"}),
]

if __name__ == "__main__":
    sys.exit(evidence.main("benches/load/freeze.sh", "What plumb and fio say of writes while the file system stands still.",
                           "load-freeze", measure, OPTIONS, rounds=5))
