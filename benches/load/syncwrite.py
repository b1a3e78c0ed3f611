# SPDX-License-Identifier: Apache-2.0 OR MIT
"""diskio's table on five file systems, and whether a synchronisation reaches the
device and random places are the same each time; start it with syncwrite.sh."""

import csv
import hashlib
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import EXT, EXT_JOURNAL, Bench, FileSystem
from common import evidence, system
from common.evidence import table
from common.stats import spread
from common.system import Problem, run

# name, mkfs and its words, type to mount, options
FILE_SYSTEMS = [
    ("ext4-journal", ["mkfs.ext4", *EXT_JOURNAL], "ext4", "data=journal"),
    ("ext4-ordered", ["mkfs.ext4", *EXT_JOURNAL], "ext4", "data=ordered"),
    ("ext4-writeback", ["mkfs.ext4", *EXT_JOURNAL], "ext4", "data=writeback"),
    ("xfs", ["mkfs.xfs", "-q", "-f", "-K"], "xfs", None),
    ("ext2", ["mkfs.ext2", *EXT], "ext2", None),
]
# what each method promises, so how many flushes of the device's cache a write needs at least
FLUSHES = {"async": 0, "aio": 0, "sync-file-range": 0}
ENOUGH = 0.99
METHODS_OF_ORDER = "fdatasync"


@dataclass
class OnFileSystem:
    name: str
    make: list
    kind: str
    options: str

    def __str__(self):
        return self.name


def figures(told):
    """Of each cell the figures of its only step, by label."""
    out = {}
    for cell in told["cells"]:
        for steps in cell["rounds"]:
            step = steps[0]
            write = next(k for k in step["jobs"][0]["operations"] if k["kind"] == "write")
            top = [d for d in step["evidence"]["delta"]["devices"] if not d["below"]]
            flushes = [d["flushes"] for d in top if d["flushes"] is not None]
            service = write["service"]
            out[cell["label"]] = {
                "writes": write["count"], "errors": write["errors"], "mean_us": service["mean_ns"] / 1e3,
                **{f"{p}_us": service[p] and service[p] / 1e3 for p in ("min", "p50", "p99", "max")},
                "flushes": sum(flushes) if flushes else None,
                "device_writes": sum(d["writes"] for d in top),
                "verdict": step["verdict"]["word"],
            }
    return out


def tables_text(tables):
    """The preset's tables as plain text."""
    text = []
    for shown in tables:
        rows = [[h.lstrip("<") for h in shown["head"]], *shown["rows"]]
        widths = [max(len(r[i]) for r in rows if r) for i in range(len(shown["head"]))]
        left = [h.startswith("<") for h in shown["head"]]
        text.append(shown["title"])
        for row in rows:
            text.append("  ".join(c.ljust(w) if l else c.rjust(w) for c, w, l in zip(row, widths, left)).rstrip())
        text += [f"  {note}" for note in shown["notes"]] + [""]
    return "\n".join(text)


class Table:
    def __init__(self, bench):
        self.bench = bench
        self.told = {}  # file system -> rounds
        self.places = {}  # file system -> a digest of the places in each run
        self.drivers = {}
        self.more = (["--all"] if bench.options.all else []) + ["--operations", bench.options.operations]

    def once(self, job):
        bench = self.bench
        made = FileSystem(bench, job.name, job.make, job.kind, job.options, mib=512, on_disk=bench.options.disk)
        try:
            self.drivers[job.name] = made.driver
            command = [bench.plumb, "load", "syncwrite", *self.more, "--repeat", 1, "--json", "--quiet", made.path]
            bench.note("the table", command)
            out, _ = run(command, good=(0, 3), timeout=7200)
            told = json.loads(out)
            cells = figures(told)
            self.told.setdefault(job.name, []).append({
                "environment": json.loads(bench.shown(json.dumps(told["environment"]))),
                "parameters": told["preset"]["parameters"], "tables": told["preset"]["tables"], "cells": cells})
            self.places.setdefault(job.name, []).extend(self.places_of(made.path) for _ in range(2))
        finally:
            made.close()
        return {"file_system": job.name, "driver": made.driver}

    def places_of(self, path):
        """The offsets of a run with random places, as a digest."""
        bench = self.bench
        log = bench.scratch / "order.log"
        log.unlink(missing_ok=True)
        command = [bench.plumb, "load", "syncwrite", "--methods", METHODS_OF_ORDER, "--orders", "random", "--targets", "overwrite",
                   "--operations", bench.options.operations, "--repeat", 1, "--log", log, "--json", "--quiet", path]
        bench.note("the order of random places", command)
        run(command, good=(0, 3))
        out, _ = run([bench.plumb, "load", "log", "--csv", log])
        rows = [r for r in csv.DictReader(io.StringIO(out)) if r["kind"] == "write"]
        if len({r["offset"] for r in rows}) < min(bench.options.operations, 16) / 4:
            raise Problem(f"the log has {len(rows)} writes to hardly any places")
        return hashlib.sha256(" ".join(r["offset"] for r in rows).encode()).hexdigest()


def promised(label):
    return FLUSHES.get(label.split()[0].replace("writev-", "").replace("writev", "async"), 1)


def checked(name, rounds, places):
    """What is not as it must be on one file system, in sentences; and flushes a write."""
    said, flushes = [], {}
    for label in rounds[0]["cells"]:
        cells = [r["cells"][label] for r in rounds if label in r["cells"]]
        if any(c["flushes"] is None for c in cells):
            said.append(f"{name}, {label}: the device counts no flushes")
            continue
        each = [c["flushes"] / c["writes"] for c in cells if c["writes"]]
        flushes[label] = spread(each)
        if promised(label) and min(each) < ENOUGH * promised(label):
            said.append(f"{name}, {label}: only {min(each):.2f} flushes a write reached the device, "
                        "so not every write that was acknowledged is on it")
        if errors := sum(c["errors"] for c in cells):
            said.append(f"{name}, {label}: {errors} writes failed")
    if len(set(places)) != 1:
        said.append(f"{name}: random places differed between {len(places)} runs with the same seed")
    return said, flushes


def measure(options, undo):
    bench = Bench(options, undo, "load-syncwrite", "syncwrite.sh", mib=8192)
    whole = Table(bench)
    chosen = options.only.split(",") if options.only else [name for name, *_ in FILE_SYSTEMS]
    jobs = [OnFileSystem(*words) for words in FILE_SYSTEMS if words[0] in chosen]
    if len(jobs) != len(chosen):
        raise Problem(f"--only {options.only}: file systems are {', '.join(name for name, *_ in FILE_SYSTEMS)}")
    bench.rounds(jobs, whole.once)
    names = [j.name for j in jobs if j.name in whole.told]
    problems, summary = [], {}
    bench.directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        rounds = whole.told[name]
        said, flushes = checked(name, rounds, whole.places[name])
        problems += said
        means = {label: spread([r["cells"][label]["mean_us"] for r in rounds]) for label in rounds[0]["cells"]}
        summary[name] = {"driver": whole.drivers[name], "mean_us": means, "flushes_a_write": flushes,
                         "random_places_equal": len(set(whole.places[name])) == 1, "not_as_it_must_be": said}
        evidence.write_json(bench.directory / f"{name}.json", {"rounds": rounds, "places": whole.places[name]})
        text = [f"Round {n}\n\n{tables_text(r['tables'])}" for n, r in enumerate(rounds, 1)]
        (bench.directory / f"{name}.txt").write_text("\n".join(text))
    labels = list(dict.fromkeys(l for n in names for l in summary[n]["mean_us"]))
    cell = lambda s: "-" if not s else f"**{s['median']:,.1f}** ({s['min']:,.1f}..{s['max']:,.1f})"
    flush = lambda s: "-" if not s else f"{s['median']:.2f}"
    lines = ["## us a write: median of the rounds' means (min..max)", "",
             *table(["method, order, target", *names], [[l, *(cell(summary[n]["mean_us"].get(l)) for n in names)] for l in labels]),
             "", "## Flushes of the device's cache a write", "",
             *table(["method, order, target", *names], [[l, *(flush(summary[n]["flushes_a_write"].get(l)) for n in names)] for l in labels]),
             "", "## Checks", "",
             f"- Every method that promises: at least {ENOUGH} flushes a write in the device's counters, and no failed write.",
             "- Places of the random order are the same in every run, on every file system: "
             + ("yes" if len({p for n in names for p in whole.places[n]}) == 1 else "**NO**") + "."]
    lines += [f"- **NOT SO**: {p}." for p in problems] or ["- All as it must be."]
    for name in names:
        if whole.drivers[name] != name.split("-")[0]:
            lines.append(f"- {name} is served by the kernel's {whole.drivers[name]} driver.")
    evidence.write_json(bench.directory / "checks.json", {"not_as_it_must_be": problems})
    where = "on this machine's disk, past its page cache" if options.disk else "in memory: a flush costs next to nothing"
    about = [f"A new file system each time, on a loop device over a 512 MiB file {where};",
             "file systems in turns, in random order each round; all cells of the preset in random order, once each.",
             "Then twice the random order with a log, to compare the places."]
    bench.write("Synchronous writes by file system", about, {"file_systems": summary}, lines)


OPTIONS = [
    ("--operations", {"type": int, "default": 1024, "help": "writes of each cell (1024)"}),
    ("--all", {"action": "store_true", "help": "every method that the preset knows"}),
    ("--disk", {"action": "store_true", "help": "images on this machine's disk, not in memory"}),
    ("--only", {"help": "of the file systems only these, with commas between"}),
]

if __name__ == "__main__":
    sys.exit(evidence.main("benches/load/syncwrite.sh", "Synchronous writes (diskio's table) on five file systems.",
                           "load-syncwrite", measure, OPTIONS, rounds=3))
