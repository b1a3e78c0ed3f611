# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Profiles four loads whose limits differ, on disks with known times: nine readers,
writers bound by fsync, 200 threads that count under locks, one bulk writer. Start it
with cases.sh."""

import json
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import evidence, system
from common.evidence import COMMENT, say, shown
from common.system import run

WORK = system.ROOT / "target" / "profile-cases"
READERS = "cd '{dir}'; for i in 1 2 3 4 5 6 7 8 9; do dd bs=64k status=none of=/dev/null if=file$i & done; wait"
# name, model, size, what fills the disk before, what runs, options of the recording
CASES = [
    ("nine-readers", "atlas10k4", "512M", "for i in 1 2 3 4 5 6 7 8 9; do dd if=/dev/urandom of=file$i bs=1M count=20 status=none; done",
     ["sh", "-c", READERS], []),
    ("fsync-writers", "cheetah15k", "512M", None,
     ["{plumb}", "load", "{dir}", "--what", "write", "--sync", "fsync", "--threads", "4", "--block", "8K", "--size", "16M", "--operations", "300", "--json"], []),
    ("counter", None, None, None,
     ["{plumb}", "load", "{dir}", "--what", "lock-and-update", "--lock", "mutex", "--counters", "5", "--threads", "200", "--operations", "50000", "--json"], []),
    ("bulk-write", "instant", "3G", None,
     ["{plumb}", "load", "{dir}", "--what", "write", "--layout", "append", "--block", "64K", "--size", "2G", "--json"], ["--sample", "997"]),
]


@contextmanager
def disk(plumb, name, model, size):
    """A served disk with ext4, mounted; a directory where the case needs none."""
    where = WORK / "mnt"
    where.mkdir(parents=True, exist_ok=True)
    if model is None:
        yield where
        return
    with system.served_disk(plumb, name, model, size, where):
        yield where


def fill(text, **names):
    for name, value in names.items():
        text = text.replace("{%s}" % name, str(value))
    return text


def record(plumb, name, model, size, before, words, extra, run_dir):
    with disk(plumb, f"bench-{name}", model, size) as where:
        if before:
            run(["sh", "-c", f"cd '{where}'; {before}; sync"], timeout=300)
            Path("/proc/sys/vm/drop_caches").write_text("3")
        command = [fill(w, dir=where, plumb=plumb) for w in words]
        run([plumb, "run", "--quiet", *extra, "-o", run_dir, "--", *command], timeout=900, good=(0, 1, 3))


def measure(options, undo):
    plumb = Path(options.plumb).absolute()
    machine = system.Machine(plumb, {"e2fsprogs": ["mkfs.ext4", "-V"]})
    directory = evidence.results_directory(options.out, "profile-cases")
    if not options.keep:
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir(parents=True)
    kept = {}
    lines = [COMMENT, "# Wall-clock profiles of four loads", "",
             "Width is time; kernel, program and state each have a colour of their own. Made by benches/profile/cases.sh."]
    for name, model, size, before, words, extra in CASES:
        say(f"bench: {name}")
        run_dir = WORK / name
        if not run_dir.is_dir():
            record(plumb, name, model, size, before, words, extra, run_dir)
        verdict = json.loads((run_dir / "result.json").read_text())["verdict"][0]
        lines += ["", f"## {name}", "", f"    {' '.join(words)}", "", verdict, "", f"![{name}]({name}.svg)", ""]
        run([plumb, "profile", run_dir, "--flame", WORK / f"{name}.svg"], timeout=300)
        table, _ = run([plumb, "profile", run_dir, "--limit", "12"], timeout=300)
        lines += ["    " + line if line else "" for line in table.splitlines()]
        kept[f"{name}.svg"] = (WORK / f"{name}.svg").read_text()
        kept[f"{name}.folded"] = run([plumb, "profile", run_dir, "--export", "folded"], timeout=300)[0]
        if name == "bulk-write":
            coverage, _ = run([plumb, "profile", run_dir, "--on-cpu", "--coverage"], timeout=300)
            top = json.loads(run([plumb, "profile", run_dir, "--on-cpu", "--json"], timeout=300)[0])["rows"][0]
            annotated, _ = run([plumb, "profile", run_dir, "--annotate", top["name"]], timeout=300)
            kept["bulk-write-coverage.txt"], kept["bulk-write-annotate.txt"] = coverage, annotated
            for title, text in (("How many functions cover how much", coverage), (f"{top['name']}, by instruction", annotated)):
                lines += ["", f"### {title}", ""] + ["    " + line if line else "" for line in text.splitlines()[:48]]
    facts = machine.done()
    names = [(WORK, "RUN"), (plumb, "plumb")]
    directory.mkdir(parents=True, exist_ok=True)
    plan = [COMMENT, "# Wall-clock profiles of four loads: plan", "", "Each case once; disks are served from models, so that their times are known.", ""]
    plan += [f"- {name}: {model or 'no disk'} {size or ''}: `{' '.join(words)}` {' '.join(extra)}" for name, model, size, _, words, extra in CASES]
    (directory / "plan.md").write_text("\n".join(plan) + "\n")
    evidence.write_json(directory / "machine.json", facts)
    for name, text in kept.items():
        (directory / name).write_text(shown(text, names))
    head, rest = lines[:2], lines[2:]
    lines = head + ["", *evidence.machine_lines(facts, ["e2fsprogs"])] + rest
    (directory / "summary.md").write_text(shown("\n".join(lines), names) + "\n")
    if not options.keep:
        shutil.rmtree(WORK)
    say(f"bench: {shown(directory, [])}")


OPTIONS = [("--keep", {"action": "store_true", "help": "use the recordings in target/profile-cases that are there, and leave them"})]

if __name__ == "__main__":
    sys.exit(evidence.main("benches/profile/cases.sh", __doc__, "profile-cases", measure, OPTIONS))
