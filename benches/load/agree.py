#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Whether `plumb load` and fio say the same of one job: on a device that is held
to a rate, where the device decides, and in the page cache, where the tool does."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import Bench, resident, warm
from common import evidence, system
from common.evidence import table
from common.stats import paired, spread_of
from common.system import Problem
from tools import Fio, Job, Plumb

MIB = 256
FIGURES = {"iops": "IOPS", "bandwidth": "MiB/s", "mean": "mean us", "p50": "p50 us", "p99": "p99 us", "p99_9": "p99.9 us"}
V1, V2 = Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup")


def throttled_group(device, iops, undo):
    """A control group whose reads of the device are held to so many a second."""
    number = os.stat(device).st_rdev
    number = f"{os.major(number)}:{os.minor(number)}"
    if (V1 / "cgroup.procs").exists():
        group, file, limit = V1 / "plumb-bench", "blkio.throttle.read_iops_device", f"{number} {iops}"
    elif (V2 / "cgroup.controllers").exists() and "io" in (V2 / "cgroup.controllers").read_text().split():
        (V2 / "cgroup.subtree_control").write_text("+io")
        group, file, limit = V2 / "plumb-bench", "io.max", f"{number} riops={iops}"
    else:
        raise Problem("this kernel has no control group that limits a device (cgroup v1 blkio, or v2 io)")
    undo.add(f"rmdir {group}")
    group.mkdir(exist_ok=True)
    if not (group / file).exists():
        raise Problem(f"{group} has no {file}: the kernel lacks CONFIG_BLK_DEV_THROTTLING")
    (group / file).write_text(limit)
    return group, f"{file}: {limit.replace(number, 'DEVICE')}"


class Agree:
    def __init__(self, bench, jobs, group):
        self.bench, self.jobs, self.group = bench, jobs, group
        self.tools = {kind.name: kind(bench) for kind in (Plumb, Fio)}

    def once(self, pair):
        where, name = pair
        job, tool = self.jobs[where], self.tools[name]
        command = tool.command(job)
        self.bench.note(f"{where}, {name}", command)
        if where == "throttled":
            command = ["sh", "-c", 'echo $$ > "$0"/cgroup.procs && exec "$@"', self.group, *command]
        else:
            warm(job.target)
        out, _, _ = system.run_measured(command, cpus={self.bench.cpu}, good=tool.good)
        if where == "cached" and not resident(job.target):
            raise Problem("its file was not in the page cache, thrown away")
        seen = tool.seen(out, job)
        return {"where": where, "tool": name, "iops": seen.operations / seen.elapsed_s,
                "bandwidth": seen.bytes / seen.elapsed_s / (1 << 20), **seen.us(), "verdict": seen.verdict}


def _cell(s):
    if not s:
        return "-"
    digits = ",.4g" if s["max"] < 1000 else ",.0f"
    return f"{s['median']:{digits}} ({s['min']:{digits}}..{s['max']:{digits}})"


def measure(options, undo):
    bench = Bench(options, undo, "load-agree", "agree.py")
    device, bench.keeper = system.loop_device(bench.filled(bench.image("device", MIB), MIB))
    cached = bench.filled(bench.image("file", MIB, on_disk=True), MIB)
    bench.names += [(device, "DEVICE"), (cached, "FILE")]
    group, limit = throttled_group(device, options.iops, undo)
    size = MIB << 20
    jobs = {
        "throttled": Job("read", Path(device), size, seconds=options.seconds, direct=True, percentiles=True),
        "cached": Job("read", cached, size, seconds=options.seconds, percentiles=True),
    }
    agree = Agree(bench, jobs, group)
    bench.rounds([(where, name) for where in jobs for name in agree.tools], agree.once)
    summary, text = {}, []
    for where in jobs:
        rows = [r for r in bench.rows if r["where"] == where]
        if {r["tool"] for r in rows} != set(agree.tools):
            continue
        summary[where] = {figure: {
            **{name: spread_of([r for r in rows if r["tool"] == name], figure) for name in agree.tools},
            "plumb_to_fio": paired(rows, figure, "plumb", "fio")} for figure in FIGURES}
        shown = []
        for figure, head in FIGURES.items():
            got = summary[where][figure]
            ratio = got["plumb_to_fio"]
            shown.append([head, _cell(got["plumb"]), _cell(got["fio"]),
                          f"**{ratio['median']:.3f}** ({ratio['min']:.3f}..{ratio['max']:.3f})" if ratio else "-"])
        text += [f"## {where}", "", *table(["figure", "plumb: median (min..max)", "fio", "plumb / fio, of the same round"], shown), ""]
        doubted = sum(not r["verdict"].startswith("valid") for r in rows if r["verdict"])
        if doubted:
            text += [f"plumb itself doubted {doubted} of its runs (raw.json says why).", ""]
    about = [
        "4 KiB reads at random, one at a time; fio and plumb in turns, in random order, on one CPU.",
        f"throttled: past the page cache, of a loop device in memory that a control group holds to a rate ({limit}): the",
        "device decides, so the two must say the same. The kernel lets the reads of a tenth of a second through at once and holds",
        "the next one back: p50 is a read that went through, p99 one that was held back (so with --iops up to 500). cached: pread",
        "from the page cache, a file that is read whole before each run: here a tool's own cost is in its IOPS, and what its clock",
        "encloses in its latency.",
        "fio's buckets are 1/64 of a power of two wide: 1.6 % of difference in a percentile is none.",
    ]
    bench.write("plumb load and fio on the same job", about, {"cases": summary}, text[:-1])


OPTIONS = [
    ("--seconds", {"type": float, "default": 10.0, "help": "length of a run (10)"}),
    ("--iops", {"type": int, "default": 200, "help": "rate that the device is held to (200)"}),
]

if __name__ == "__main__":
    sys.exit(evidence.main("benches/load/agree.py", "Whether plumb load and fio say the same of one job.",
                           "load-agree", measure, OPTIONS, rounds=9))
