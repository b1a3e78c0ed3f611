# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs one of plumb's own plans and keeps its report as evidence; of diskio
with the evaluation's table beside it. Start it with plan.sh."""

import json
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import evidence, system
from common.evidence import COMMENT, say, shown, table
from common.system import Problem, run

# us, mean: OSS performance and reliability evaluation: OS layer (2004), table 4.1-4
PAPER = {
    "o-dsync": (6144.9, 4103.4), "o-sync": (6145.9, 4131.6), "fdatasync": (15191.9, 11257.0),
    "fsync": (15202.2, 11255.9), "sync-sync": (19596.7, 14694.1), "async": (16.63, 23.30),
}
DISKS = ("A 10,000 rpm", "B 15,000 rpm")
DIFFERS = {
    "o-sync": "Linux 2.4 wrote the data alone; now the inode goes through the journal, as with fsync",
    "fdatasync": "ext3 of 2.4 committed the journal; now only a change of the file's size or blocks does, and an overwrite has none",
    "async": "a system call and a copy: this CPU's, not the disk's",
}


def medians(report, figure):
    """Median over repetitions by cell label."""
    values = {}
    for row in report["table"]["rows"]:
        if figure in row["figures"]:
            values.setdefault(row["label"], []).append(row["figures"][figure])
    return {label: sorted(v)[len(v) // 2] if len(v) % 2 else sum(sorted(v)[len(v) // 2 - 1:len(v) // 2 + 1]) / 2 for label, v in values.items()}


def beside_the_paper(report):
    got = medians(report, "write.mean")
    rows = []
    for method, paper in PAPER.items():
        cells = [method]
        for disk, us in zip(DISKS, paper):
            ns = got.get(f"{disk} {method}")
            cells += [f"{us:,.1f}", "-" if ns is None else f"{ns / 1e3:,.1f}", "-" if ns is None else f"{ns / 1e3 / us:.2f}"]
        rows.append([*cells, DIFFERS.get(method, "")])
    return ["", "## Beside the evaluation of 2004", "", "Mean time of a write of 8 KiB, us.", "",
            *table(["method", "A there", "A here", "ratio", "B there", "B here", "ratio", "why it differs"], rows)]


def measure(options, undo):
    plumb = Path(options.plumb).absolute()
    machine = system.Machine(plumb, {"e2fsprogs": ["mkfs.ext4", "-V"], "xfsprogs": ["mkfs.xfs", "-V"]})
    directory = evidence.results_directory(options.out, f"plan-{options.plan}")
    work = system.ROOT / "target" / f"plan-{options.plan}"
    shutil.rmtree(work, ignore_errors=True)
    work.parent.mkdir(exist_ok=True)
    command = [plumb, "plan", "run", options.plan, "-o", work, "--quiet", *options.words.split()]
    run(command, timeout=3 * 3600, good=(0, 3))
    report = json.loads((work / "report.json").read_text())
    if not report["table"]["rows"]:
        raise Problem(f"{options.plan}: nothing was measured")
    facts = machine.done()
    directory.mkdir(parents=True, exist_ok=True)
    names = [(work, "RUN"), (plumb, "plumb")]
    for name in ("report.csv", "report.json", "plan.toml"):
        (directory / name).write_text(shown((work / name).read_text(), names))
    for chart in sorted((work / "charts").glob("*.svg")):
        # of every operation two are enough to look at
        if not chart.name.startswith("writes-") or chart.stem.endswith(("-rpm-fsync", "-rpm-o-dsync")):
            (directory / chart.name).write_text(shown(chart.read_text(), names))
    evidence.write_json(directory / "machine.json", facts)
    (directory / "plan.md").write_text("\n".join([COMMENT, f"# {report['title']}: plan", "", f"`{shown(' '.join(map(str, command)), names)}`, which runs `plan.toml`.", ""]))
    evidence.write_json(directory / "summary.json", {"answer": report["answer"], "medians_ns": medians(report, "write.mean") or medians(report, "elapsed")})
    lines = [COMMENT, f"# {report['title']}", "", *evidence.machine_lines(facts, ["e2fsprogs", "xfsprogs"])]
    if options.plan == "diskio":
        lines += beside_the_paper(report)
    lines += ["", "## The report", "", "```", shown((work / "report.txt").read_text(), names).rstrip(), "```"]
    (directory / "summary.md").write_text("\n".join(lines) + "\n")
    shutil.rmtree(work)
    say(f"bench: {shown(directory, [])}")


OPTIONS = [
    ("--plan", {"required": True, "help": "name of the plan (plumb plan list)"}),
    ("--words", {"default": "", "help": "options of plumb plan run, as in '--repeat 1 --only disk=a'"}),
]

if __name__ == "__main__":
    sys.exit(evidence.main("benches/disk/plan.sh", "Runs a plan and keeps its report as evidence.", "plan", measure, OPTIONS))
