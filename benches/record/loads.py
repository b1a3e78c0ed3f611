# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The loads: what they run, which events they make, how long they say it took."""

from pathlib import Path

from common.system import TRACEFS, fio_job, tool

HERE = Path(__file__).resolve().parent
PRIORITY = 1  # SCHED_FIFO of the load: whoever else runs there waits


class Test:
    """One load and the events that it makes."""

    def __init__(self, name, unit, events, plumb_events, load, tracepoints=None):
        self.name = name
        self.unit = unit
        self.events = events  # as tracefs names them
        self.tracepoints = tracepoints or [e.split(":")[1] for e in events]
        self.plumb_events = plumb_events
        self.load = load  # (bench, file for the times) -> command
        self.per_unit = None  # events, measured
        self.hits = {}

    def times(self, path):
        """(wall, CPU) ns per unit of each batch."""
        return [tuple(map(float, line.split())) for line in path.read_text().splitlines()]

    def units(self):
        return 0


class Loop(Test):
    """load.c in batches."""
    parts = 10  # as load.c's PARTS: each warms up with one batch more

    def __init__(self, name, unit, events, plumb_events, count, n, device=False, **more):
        def load(bench, out):
            words = [bench.load, name, out, bench.cpu, PRIORITY, count, n]
            return words + [bench.device] if device else words
        super().__init__(name, unit, events, plumb_events, load, **more)
        self.count, self.n = count, n

    def units(self):
        return (self.count + self.parts) * self.n


def fio_words(bench, out, seconds, device=None):
    return [tool("fio", "fio"), "--name=read", f"--filename={device or bench.device}", "--readonly", "--rw=randread", "--bs=4k",
            "--direct=1", "--ioengine=psync", "--numjobs=1", "--thread", "--norandommap", "--time_based",
            f"--runtime={seconds}", "--output-format=json", f"--output={out}"]


class Fio(Test):
    def __init__(self, events, seconds):
        def load(bench, out):
            return [tool("taskset", "util-linux"), "-c", bench.cpu, tool("chrt", "util-linux"), "-f", PRIORITY,
                    *fio_words(bench, out, seconds)]
        super().__init__("fio", "read", events, "block", load)

    def times(self, path):
        job = fio_job(path.read_text())
        wall = 1e9 / job["read"]["iops"]
        return [(wall, wall * (job["usr_cpu"] + job["sys_cpu"]) / 100)]


def tests(quick):
    here = lambda event: (TRACEFS / "events" / event.replace(":", "/")).is_dir()
    text = (HERE / "tracepoints.h").read_text()
    block = [f"block:{name}" for name in ("block_" + w.split(")")[0] for w in text.split("TP(block_")[1:])]
    block = [event for event in block if here(event)]
    scale = 1 if quick else 2
    return [
        Loop("getppid", "call", ["raw_syscalls:sys_enter"], "sys_enter", 30 * scale, 30000),
        Loop("pingpong", "round trip", ["sched:sched_switch"], "sched_switch", 30 * scale, 1500),
        Loop("read", "read", block, "block", 30 * scale, 600, device=True),
        Fio(block, 1),
    ]
