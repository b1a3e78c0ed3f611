# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How long a file takes to be made by how many there are, with and without an
index of the directory; start it with create.sh."""

import json
import re
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import EXT, EXT_JOURNAL, TOOLS, Bench, FileSystem
from common import evidence
from common.evidence import table
from common.stats import line, spread_of
from common.svg import chart
from common.system import Problem, run

# mke2fs gives an index to ext2, too, unless told: one driver may serve both
FILE_SYSTEMS = [
    ("ext4-index", ["mkfs.ext4", *EXT_JOURNAL, "-O", "dir_index"], "ext4"),
    ("ext4-linear", ["mkfs.ext4", *EXT_JOURNAL, "-O", "^dir_index"], "ext4"),
    ("ext2", ["mkfs.ext2", *EXT, "-O", "^dir_index"], "ext2"),
]
CHUNK = 1000  # files that the preset's table takes together


@dataclass
class OnFileSystem:
    name: str
    make: list
    kind: str

    def __str__(self):
        return self.name


def passes(told):
    """Each pass' points (files before, in thousands; mean us of a file), by its letter."""
    out = {}
    for shown in told["preset"]["tables"]:
        found = re.match(r"(?:.*, )?(\w+): time of a file", shown["title"])
        if found:
            ends = [0, *(int(row[0].replace(",", "")) for row in shown["rows"])]
            means = [float(row[1].replace(",", "")) for row in shown["rows"]]
            out[found.group(1)] = [((a + b) / 2 / 1000, us) for a, b, us in zip(ends, ends[1:], means)]
    return out


class Growth:
    def __init__(self, bench):
        self.bench = bench
        self.points = {}  # (file system, pass) -> each round's points
        self.drivers = {}

    def once(self, job):
        bench, o = self.bench, self.bench.options
        make = [*job.make, "-N", str(o.files + 4096)]
        made = FileSystem(bench, job.name, make, job.kind, mib=max(512, o.files * 8 // 1024 + 256), on_disk=o.disk)
        self.drivers[job.name] = made.driver
        log = bench.scratch / "create.log"
        try:
            command = [bench.plumb, "load", "create", "--files", o.files, "--passes", o.passes, *(["--cold"] * (not o.warm)),
                       "--log", log, "--json", "--quiet", made.path]
            bench.note("the passes", command)
            out, _ = run(command, good=(0, 3), timeout=7200)
        finally:
            made.close()
            for left in bench.scratch.glob("create.log*"):
                left.unlink()
        told = json.loads(out)
        row = {"file_system": job.name}
        steps = told["cells"][0]["rounds"][0]
        for step in steps:
            kind = next(k for k in step["jobs"][0]["operations"] if k["kind"] == "create")
            if kind["errors"]:
                raise Problem(f"{kind['errors']} files could not be made")
            row[f"{step['label']}_mean_us"] = kind["service"]["mean_ns"] / 1e3
            row[f"{step['label']}_seconds"] = step["elapsed_ns"] / 1e9
        found = passes(told)
        if set(found) != {s["label"] for s in steps}:
            raise Problem(f"the preset has tables of the passes {', '.join(found) or 'none'}")
        for name, points in found.items():
            self.points.setdefault((job.name, name), []).append(points)
            fit = line(points)
            row[f"{name}_us_per_1000"], row[f"{name}_r2"] = (fit["slope"], fit["r2"]) if fit else (None, None)
            row[f"{name}_first_1000_us"], row[f"{name}_last_1000_us"] = points[0][1], points[-1][1]
        later = [row[f"{s['label']}_mean_us"] for s in steps[1:]]
        row["first_to_later"] = row[f"{steps[0]['label']}_mean_us"] / statistics.median(later) if later else None
        return row


def middle(many):
    """The median line of several."""
    return [(some[0][0], statistics.median(y for _, y in some)) for some in zip(*many)]


def measure(options, undo):
    if options.files < CHUNK or options.passes < 1:
        raise Problem(f"--files is at least {CHUNK}, --passes at least 1")
    bench = Bench(options, undo, "load-create", "create.sh", {"e2fsprogs": TOOLS["e2fsprogs"]}, mib=options.files // 64 + 4096)
    growth = Growth(bench)
    bench.rounds([OnFileSystem(*words) for words in FILE_SYSTEMS], growth.once)
    cell = lambda s, digits=1: "-" if not s else f"{s['median']:,.{digits}f} ({s['min']:,.{digits}f}..{s['max']:,.{digits}f})"
    summary, rows, ratios, drawn = {}, [], [], []
    for number, (name, _, _) in enumerate(FILE_SYSTEMS):
        mine = [r for r in bench.rows if r["file_system"] == name]
        names = [p for fs, p in growth.points if fs == name]
        summary[name] = {"driver": growth.drivers.get(name), "passes": {}, "first_to_later": spread_of(mine, "first_to_later")}
        for p in names:
            figures = {f: spread_of(mine, f"{p}_{f}") for f in ("mean_us", "first_1000_us", "last_1000_us", "us_per_1000", "r2", "seconds")}
            summary[name]["passes"][p] = {**figures, "points": middle(growth.points[name, p])}
            rows.append([name, p, cell(figures["mean_us"]), cell(figures["first_1000_us"]), cell(figures["last_1000_us"]),
                         cell(figures["us_per_1000"], 3), cell(figures["r2"], 2)])
        if not names:
            continue
        ratios.append(f"- {name}: pass A takes {cell(summary[name]['first_to_later'], 2)} times as long a file as the median of the others.")
        if names[1:]:
            later = middle([points for p in names[1:] for points in growth.points[name, p]])
            drawn.append((f"{name}, {names[1]} to {names[-1]}" if names[2:] else f"{name}, {names[1]}", later, number, False))
        drawn.append((f"{name}, A{'' if options.warm else ', cold'}", middle(growth.points[name, names[0]]), number, True))
    if not drawn:
        raise Problem("nothing was measured; the lines above say why")
    bench.directory.mkdir(parents=True, exist_ok=True)
    figure = chart("Time to make a file in one directory", "files in the directory, thousands",
                   f"time of a file, us (mean of {CHUNK}; median of rounds)", drawn)
    (bench.directory / "growth.svg").write_text(figure)
    lines = ["![Time to make a file, by the number of files](growth.svg)", "",
             *table(["file system", "pass", "us a file: median (min..max)", f"the first {CHUNK}", f"the last {CHUNK}",
                     "us more per 1000 files", "r2"], rows), "", *ratios, ""]
    lines.append(f"Growth is the slope of a line through the means of each {CHUNK} files by least squares; r2 near 1: time grows with the number.")
    for name, driver in growth.drivers.items():
        if driver != name.split("-")[0]:
            lines.append(f"{name} is served by the kernel's {driver} driver.")
    about = [f"A new file system each time, on a loop device {'on the disk' if options.disk else 'in memory'}; file systems in random order each round.",
             f"{options.files} files of one byte in one directory, {options.passes} times in a row, the directory emptied before each",
             f"pass; {'caches as they are' if options.warm else 'pass A with empty caches of names and inodes'}."]
    bench.write("Making files", about, {"file_systems": summary}, lines)


OPTIONS = [
    ("--files", {"type": int, "default": 100_000, "help": "files of a pass (100000)"}),
    ("--passes", {"type": int, "default": 5, "help": "passes, from A on (5)"}),
    ("--warm", {"action": "store_true", "help": "leave the machine's caches alone before pass A"}),
    ("--disk", {"action": "store_true", "help": "images on this machine's disk, not in memory"}),
]

if __name__ == "__main__":
    sys.exit(evidence.main("benches/load/create.sh", "Making files, by file system and by how many there are.",
                           "load-create", measure, OPTIONS, rounds=3))
