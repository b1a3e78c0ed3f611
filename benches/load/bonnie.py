# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Bonnie++ beside `plumb load stream` and `meta`; start it with bonnie.sh."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import EXT_JOURNAL, TOOLS, Bench, FileSystem
from common import evidence
from common.evidence import table
from common.stats import paired, spread_of
from common.system import Problem, run, tool

SEEKS, SEEKERS = 8192, 5  # Bonnie++ 2.00's own

# Bonnie++ 2 calls write() and read() for each character, where the preset has
# putc() and getc() as its predecessor: a job of our own does as it does.
CHARS = """name = "characters"

[[step]]
name = "put char, a call each"
what = "write"
{how}layout = "append"

[[step]]
name = "get char, a call each"
what = "read"
{how}"""
HOW = 'through = "write"\nblock = "1"\nsize = "{mib}M"\n'

# Its figure, the column of its CSV that has it, plumb's steps and unit.
FIGURES = [
    ("put char", 9, ["put char, a call each"], "K/s"),
    ("put block", 11, ["put block"], "K/s"),
    ("rewrite", 13, ["rewrite: read", "rewrite: write"], "K/s"),
    ("get char", 15, ["get char, a call each"], "K/s"),
    ("get block", 17, ["get block"], "K/s"),
    ("seeks", 19, ["seeks"], "/s"),
    ("sequential create", 26, ["sequential create"], "/s"),
    ("sequential stat", 28, ["sequential stat"], "/s"),
    ("sequential delete", 30, ["sequential delete"], "/s"),
    ("random create", 32, ["random create"], "/s"),
    ("random stat", 34, ["random stat"], "/s"),
    ("random delete", 36, ["random delete"], "/s"),
]
# what the preset measures besides
OWN = [("put char by putc", None, ["put char"], "K/s"), ("get char by getc", None, ["get char"], "K/s")]
FORMAT = ("1.98", "2.00")  # versions of the CSV whose columns these are


def bonnie_figures(out):
    """Of its CSV; None where it was too fast to tell (+++++)."""
    words = next(l for l in reversed(out.splitlines()) if l.startswith(FORMAT)).split(",")
    number = lambda text: float(text) if text.replace(".", "", 1).isdigit() else None
    return {name: number(words[at]) for name, at, _, _ in FIGURES}


def plumb_figures(*told):
    """The same of plumb's JSON: bytes or operations of the steps over the time of all."""
    steps = {s["label"]: s["jobs"][0] for t in told for cell in t["cells"] for s in cell["rounds"][0]}
    out = {}
    for name, _, labels, unit in FIGURES + OWN:
        jobs = [steps[label] for label in labels if label in steps]
        if len(jobs) < len(labels):
            out[name] = None
            continue
        own = [[k for k in j["operations"] if k["kind"] not in ("sync", "close")] for j in jobs]
        seconds = sum(j["elapsed_ns"] for j in jobs) / 1e9
        amount = max(sum(k["bytes"] for k in kinds) for kinds in own) / 1024 if unit == "K/s" else \
            sum(k["count"] for kinds in own for k in kinds)
        out[name] = amount / seconds if seconds else None
    return out


class Both:
    def __init__(self, bench):
        self.bench = bench
        self.verdicts = []

    def bonnie(self, path):
        o = self.bench.options
        # -r: the memory that it believes in; it refuses a file of less than twice that
        command = [tool("bonnie++", "bonnie++"), "-d", path, "-u", "root", "-q", "-m", "bench", "-s", o.size, "-r", o.size // 2,
                   "-n", f"{o.files}:0:0:1", f"-f{o.chars}" if o.chars else "-f"]
        self.bench.note("bonnie++", command)
        out, _ = run(command, timeout=7200)
        return bonnie_figures(out)

    def plumb(self, path):
        o, program = self.bench.options, self.bench.plumb
        common = ["--json", "--quiet", path]
        # as-found: Bonnie++ leaves the page cache as it is; it calls fsync once behind each test that writes
        stream = [program, "load", "stream", "--size", f"{o.size}M", "--cache", "as-found", "--seeks", SEEKS,
                  "--seekers", SEEKERS, "--sync", "fsync", "--every", o.size * 128, "--time-close", "in"]
        stream += ["--fast"] * (not o.chars) + common
        meta = [program, "load", "meta", "--files", o.files * 1024, *common]
        runs = [("plumb, the file", stream), ("plumb, the files", meta)]
        if o.chars:
            job = self.bench.scratch / "chars.toml"
            job.write_text(CHARS.format(how=HOW.format(mib=o.chars)))
            self.bench.commands["SCRATCH/chars.toml"] = job.read_text().strip()
            runs.append(("plumb, characters", [program, "load", "--job", job, *common]))
        told = []
        for name, command in runs:
            self.bench.note(name, command)
            out, _ = run(command, good=(0, 3), timeout=7200)
            told.append(json.loads(out))
        return plumb_figures(*told)

    def once(self, name):
        made = FileSystem(self.bench, "ext4", ["mkfs.ext4", *EXT_JOURNAL, "-N", str(self.bench.options.files * 1024 + 4096)],
                          "ext4", mib=2 * self.bench.options.size + 512, on_disk=self.bench.options.disk)
        try:
            figures = {"bonnie++": self.bonnie, "plumb": self.plumb}[name](made.path)
        finally:
            made.close()
        return {"tool": name, **figures}


def measure(options, undo):
    if options.size < 16 or options.files < 1:
        raise Problem("--size is at least 16 (MiB), --files at least 1 (thousand)")
    versions = {"bonnie++": ["dpkg-query", "-Wf", "${Package} ${Version}", "bonnie++"], "e2fsprogs": TOOLS["e2fsprogs"]}
    bench = Bench(options, undo, "load-bonnie", "bonnie.sh", versions, mib=2 * options.size + 2048)
    bench.rounds(["bonnie++", "plumb"], Both(bench).once)
    summary, rows = {}, []
    for name, column, _, unit in FIGURES + OWN:
        got = {tool: spread_of([r for r in bench.rows if r["tool"] == tool], name) for tool in ("plumb", "bonnie++")}
        got["plumb_to_bonnie"] = paired(bench.rows, name, "plumb", "bonnie++") if column else None
        summary[name] = {"unit": unit, **got}
        cell = lambda s, none: none if not s else f"{s['median']:,.0f} ({s['min']:,.0f}..{s['max']:,.0f})"
        ratio = got["plumb_to_bonnie"]
        rows.append([name, unit, cell(got["plumb"], "-"), cell(got["bonnie++"], "too fast for it" if column else "-"),
                     f"**{ratio['median']:.2f}** ({ratio['min']:.2f}..{ratio['max']:.2f})" if ratio else "-"])
    where = "on this machine's disk" if options.disk else "in memory"
    about = [f"A new ext4 each time on a loop device {where}; both in turns, in random order. One file of {options.size} MiB in blocks of",
             f"8 KiB, {SEEKS} seeks of {SEEKERS} processes; {options.files * 1024} empty files in one directory; {options.chars} MiB of characters."]
    lines = [*table(["test", "unit", "plumb: median (min..max)", "bonnie++", "plumb / bonnie++, of the same round"], rows), "",
             "Where they differ by what they do, not by how fast:", "",
             "- Characters: Bonnie++ 2 makes a system call of each, so does plumb here, by a job of its own (plan.md); the preset",
        "  has putc and getc as Bonnie and Bonnie++ 1: the last two lines, which have nothing beside them.",
        "- Rewrite: Bonnie++ reads and writes back block by block, plumb reads all, then writes all; the figure is the file's",
             "  size over both.",
             "- Seeks: Bonnie++ reads a block and writes every tenth back; of plumb's seeks a tenth write and the others read.",
             "- Writes: both end a test with one fsync and a close inside the time. Seeks: Bonnie++ has an fsync of each process.",
        "- Names: Bonnie++ makes up digits and letters of various length, plumb ten digits and .txt; its random order is by",
             "  name, plumb's is a permutation."]
    bench.write("Bonnie++ and plumb", about, {"figures": summary}, lines)


OPTIONS = [
    ("--size", {"type": int, "default": 3072, "help": "MiB of the file (3072)"}),
    ("--files", {"type": int, "default": 512, "help": "thousands (of 1024) of files (512)"}),
    ("--chars", {"type": int, "default": 20, "help": "MiB of the tests of characters; 0 leaves them out (20)"}),
    ("--disk", {"action": "store_true", "help": "the file system on this machine's disk, not in memory"}),
]

if __name__ == "__main__":
    sys.exit(evidence.main("benches/load/bonnie.sh", "Bonnie++ beside plumb load stream and meta.",
                           "load-bonnie", measure, OPTIONS, rounds=5))
