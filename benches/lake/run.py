#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A lake of many runs: how fast runs are published and joined, and how long DuckDB takes for each question of sql/.

The runs are copies of recorded traces of tests/traces, each with an id and a host of its own, half of each host's with
another kernel. They are made a hundred at a time and published in one call, which alone is timed. grow.py makes of the joined
lake one with more block requests (--requests), and one of more runs and days, all but their block requests (--days, --times).
The day of plumb watch that is published every ten minutes has the windows of the last hour that benches/watch recorded."""

import datetime
import itertools
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import evidence, system
from common.evidence import table
from common.system import ROOT, Problem

TRACES = ["appenders", "cold-read", "cpu-quota", "direct-writes", "epoll", "hogs", "io-limit", "mutex", "tcp-peer", "write-fsync"]
KERNELS = ["6.1.0", "6.12.0"]
BATCH = 100
GROW = Path(__file__).resolve().parent / "grow.py"

# A process of its own for each question: it has read nothing of the lake before.
ASK = """
import sys, time, duckdb
c = duckdb.connect()
c.execute("set enable_progress_bar = false")
c.execute(open(sys.argv[1]).read())
begin = time.monotonic()
rows = len(c.execute(open(sys.argv[2]).read()).fetchall())
print(time.monotonic() - begin, rows)
"""


def copy(number, to, hosts):
    trace = ROOT / "tests/traces" / TRACES[number % len(TRACES)]
    to.mkdir()
    for path in trace.iterdir():
        if path.name != "metadata":
            shutil.copy(path, to / path.name)
    lines = []
    for line in (trace / "metadata").read_text().splitlines(keepends=True):
        if line.startswith("\thostname = "):
            line = f'\thostname = "host-{number % hosts:03}";\n\trun_id = "{number:032x}";\n'
        elif line.startswith("\tkernel_release = "):
            line = f'\tkernel_release = "{KERNELS[number // hosts % 2]}";\n'
        lines.append(line)
    (to / "metadata").write_text("".join(lines))


def tree(lake):
    files = list(lake.rglob("*.parquet"))
    return {"files": len(files), "bytes": sum(p.stat().st_size for p in files)}


def publish(options, lake, work):
    took = 0
    for begin in range(0, options.runs, BATCH):
        batch = work / "batch"
        batch.mkdir()
        for number in range(begin, min(begin + BATCH, options.runs)):
            copy(number, batch / str(number), options.hosts)
        since = time.monotonic()
        subprocess.run([options.plumb, "publish", batch, "--to", lake], check=True, stderr=subprocess.DEVNULL)
        took += time.monotonic() - since
        shutil.rmtree(batch)
        if (begin // BATCH) % 10 == 9:
            evidence.say(f"{begin + BATCH} runs, {(begin + BATCH) / took:.0f} a second")
    return took


def grown(options, python, joined, to):
    """By two processes, for DuckDB writes small files with one thread."""
    halves = [subprocess.Popen([python, GROW, joined, to, str(options.days), str(options.times), str(first), "2"]) for first in (0, 1)]
    try:
        if any([half.wait() for half in halves]):
            raise Problem("grow.py failed")
    finally:
        for half in halves:
            half.kill()
            half.wait()


def day_of_watch(plumb, work):
    """CPU seconds of each publishing of a day's windows, every ten minutes of it."""
    raw = max((ROOT / "results").glob("*-watch")) / "raw.tar.xz"
    with tarfile.open(raw) as archive:
        hour = archive.extractfile("windows.jsonl").read().decode().splitlines()
    midnight = datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc)
    windows = work / "watch/windows"
    windows.mkdir(parents=True)
    took = []
    with (windows / f"{midnight:%F}.jsonl").open("w") as out:
        print(json.dumps({"format": "plumb.watch", "version": 1}), file=out)
        for minute in range(24 * 60):
            at = midnight + datetime.timedelta(minutes=minute)
            window = json.loads(hour[minute % len(hour)]) | {"at": f"{at:%FT%TZ}", "began_unix_ns": int(at.timestamp()) * 10**9}
            print(json.dumps(window), file=out, flush=True)
            if minute % 10 == 9:
                cpu = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
                since = cpu()
                subprocess.run([plumb, "publish", work / "watch", "--to", work / "day"], check=True, stderr=subprocess.DEVNULL)
                took.append(cpu() - since)
    return took


def views(plumb, lake):
    path = lake.with_suffix(".sql")
    with path.open("w") as out:
        subprocess.run([plumb, "lake", "views", lake], check=True, stdout=out)
    return path


def ask(python, views, question):
    out = subprocess.run([python, "-c", ASK, views, question], check=True, capture_output=True, text=True).stdout.split()
    return float(out[0]), int(out[1])


def measure(options, undo):
    python = ROOT / "target/peers/bin/python"
    if not python.is_file():
        raise Problem(f"{python} is missing; scripts/deps.sh peers makes it, with DuckDB")
    options.plumb = Path(options.plumb).resolve()
    directory = evidence.results_directory(options.out, "lake")
    machine = system.Machine(options.plumb, {"duckdb": [python, "-c", "import duckdb; print('duckdb', duckdb.__version__)"]})
    work = Path(tempfile.mkdtemp(prefix="plumb-bench-lake."))
    undo.add(f"rm -rf {work}")
    lake, joined = work / "lake", work / "joined"
    day = day_of_watch(options.plumb, work)
    took = publish(options, lake, work)
    summary = {"watch_cpu_s": day, "runs": options.runs, "hosts": options.hosts, "publish_s": took, "runs_per_s": options.runs / took, "published": tree(lake)}
    shutil.copytree(lake, joined, copy_function=os.link)
    since = time.monotonic()
    subprocess.run([options.plumb, "lake", "compact", joined], check=True, stdout=subprocess.DEVNULL)
    summary |= {"compact_s": time.monotonic() - since, "joined": tree(joined)}
    if options.requests > 1:
        subprocess.run([python, GROW, joined, str(options.requests)], check=True)
        summary["more_requests"] = tree(joined)
    sides = {"joined": views(options.plumb, joined)}
    if options.days:
        evidence.say(f"writing a lake of {options.runs * options.days * options.times:,} runs ...")
        grown(options, python, joined, work / "grown")
        summary["grown"] = tree(work / "grown")
        sides["grown"] = views(options.plumb, work / "grown")
    if not options.joined_only:
        sides = {"published": views(options.plumb, lake), **sides}
    questions, rows = sorted((ROOT / "sql").glob("*.sql")), []
    jobs = [(side, question) for side in sides for question in questions]
    for number, _, (side, question) in evidence.interleaved(jobs, options.rounds):
        seconds, answers = ask(python, sides[side], question)
        rows.append({"round": number, "lake": side, "question": question.stem, "seconds": seconds, "rows": answers})
    facts = machine.done()
    directory.mkdir(parents=True, exist_ok=True)
    evidence.write_csv(directory / "questions.csv", rows)
    evidence.write_json(directory / "machine.json", facts)
    evidence.write_json(directory / "summary.json", summary)
    cells = []
    for question in questions:
        mine = [r for r in rows if r["question"] == question.stem]
        answers = {side: sorted({r["rows"] for r in mine if r["lake"] == side}) for side in sides}
        multiplied = options.requests > 1
        if any(len(counts) != 1 for counts in answers.values()) or not multiplied and answers.get("published", answers["joined"]) != answers["joined"]:
            raise Problem(f"{question.stem}: the answers have {answers} rows")
        times = {side: [r["seconds"] for r in mine if r["lake"] == side] for side in sides}
        taken = lambda t: f"{statistics.median(t):.2f} ({min(t):.2f} to {max(t):.2f})"
        cells.append([question.stem, *itertools.chain(*([f"{answers[side][0]:,}", taken(times[side])] for side in sides))])
    mib = lambda side: f"{summary[side]['files']:,} files, {summary[side]['bytes'] / 2**20:,.0f} MiB"
    lines = [evidence.COMMENT, f"# A lake of {options.runs:,} runs of {options.hosts} hosts", "",
             f"Copies of {len(TRACES)} recorded traces, published in {took:,.0f} s, {options.runs / took:,.0f} runs a second: {mib('published')}."
             f" `plumb lake compact` took {summary['compact_s']:.0f} s: {mib('joined')}."
             + (f" Then each block request was written {options.requests} times: {mib('more_requests')}." if options.requests > 1 else ""),
             *([f"Grown: {options.runs * options.days * options.times:,} runs of {options.days} days, without block requests: {mib('grown')}."]
               if options.days else []), "",
             f"Publishing the windows of a day of `plumb watch` every ten minutes takes {sum(day) / 864:.3f} % of a CPU, {max(day):.3f} s of it at most each time.", "",
             f"Seconds that DuckDB takes for each question of sql/, in a process that is new to the lake; medians of {options.rounds} rounds with extremes.", "",
             *table(["question", *itertools.chain(*(["rows", {"published": "as published"}.get(side, side)] for side in sides))], cells), "", *evidence.machine_lines(facts, ["duckdb", "python"])]
    (directory / "summary.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


OPTIONS = [
    ("--runs", {"type": int, "default": 10000, "help": "runs (10000)"}),
    ("--hosts", {"type": int, "default": 200, "help": "hosts (200)"}),
    ("--requests", {"type": int, "default": 1, "help": "write each block request of the joined lake so often (1)"}),
    ("--days", {"type": int, "default": 0, "help": "write another lake, in which each host has its runs on so many days (0: none)"}),
    ("--times", {"type": int, "default": 1, "help": "and so many of each a day (1)"}),
    ("--joined-only", {"action": "store_true", "help": "do not ask the lake as it was published, which takes minutes a question"}),
]

if __name__ == "__main__":
    sys.exit(evidence.main("benches/lake/run.py", "How fast runs are published and joined, and how long questions to a lake take.",
                           "lake", measure, OPTIONS, rounds=3))
