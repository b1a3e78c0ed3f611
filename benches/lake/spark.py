#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The questions of sql/ to a Spark cluster (a master and workers of this machine): how long one worker takes for all of them, and two,
and whether the answers stay those of `plumb query` while workers are killed in the middle of them; and how long ClickHouse (chDB) and DuckDB
take with one thread and with two. Runs are copies as in run.py."""

import itertools
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import engines
import run
from common import evidence, system
from common.evidence import table
from common.system import ROOT, Problem

HERE = Path(__file__).resolve().parent

# Instead of that of engines.FRAME: seconds and rows of each question's second time.
TIMED = """
import json, os, pathlib, sys, time
ask = json.load(open(sys.argv[1]))
def answer(rows):
    out = []
    for of in ("warm", "timed"):
        for name, sql in ask["questions"].items():
            since = time.monotonic()
            found = rows(sql)
            out.append({"pass": of, "question": name, "seconds": time.monotonic() - since, "killed": None, "rows": found})
    json.dump(out, open(sys.argv[2], "w"))
"""


def with_threads(plumb, lake, engine, threads, questions):
    """What DuckDB or chDB is asked, so that it uses so many threads: DuckDB for a session, ClickHouse for each question."""
    views = engines.views(plumb, lake, engines.ENGINES_OF_PLUMB[engine])
    if engine == "duckdb":
        views = [f"set threads = {threads}", *views]
    else:
        questions = {name: f"{sql}\nsettings max_threads = {threads}" for name, sql in questions.items()}
    return {"views": views, "questions": questions, "endpoint": None}


def measure(options, undo):
    options.plumb = Path(options.plumb).resolve()
    directory = evidence.results_directory(options.out, "lake-spark")
    pythons = engines.engines(ROOT / "target/engines", ["duckdb", "chdb", "spark"])
    python = pythons["spark"]
    version = "import importlib.metadata as m; print('NAME', m.version('NAME'))"
    versions = {engine: [pythons[engine], "-c", version.replace("NAME", engines.PACKAGES[engine])] for engine in pythons}
    machine = system.Machine(options.plumb, {**versions, "java": ["java", "--version"]})
    work = Path(tempfile.mkdtemp(prefix="plumb-bench-spark."))
    undo.add(f"rm -rf {work}")
    lake = work / "lake"
    run.publish(options, lake, work)
    subprocess.run([options.plumb, "lake", "compact", lake], check=True, stdout=subprocess.DEVNULL)
    questions = engines.questions()
    ours = engines.ours(options.plumb, lake, questions)
    (work / "ask").write_text(json.dumps({"views": engines.views(options.plumb, lake, "spark"), "questions": questions}))
    found = {}
    for engine, threads in itertools.product(("duckdb", "chdb"), (1, 2)):
        evidence.say(f"asking {engine} with {threads} threads ...")
        (work / f"ask-{engine}").write_text(json.dumps(with_threads(options.plumb, lake, engine, threads, questions)))
        subprocess.run([pythons[engine], "-c", TIMED + engines.ENGINES[engine], work / f"ask-{engine}", work / "answers"], check=True)
        found[f"{engine} {threads}"] = json.loads((work / "answers").read_text())
    for workers in (1, 2):
        evidence.say(f"asking a cluster of {workers} ...")
        out = work / f"answers-{workers}"
        words = [python, HERE / "cluster.py", work / "ask", out, workers, options.kills if workers == 2 else 0, options.seed]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
        if done.returncode:
            raise Problem(f"Spark: {(done.stderr.strip().splitlines() or ['it says nothing'])[-1]}")
        found[f"spark {workers}"] = json.loads(out.read_text())
    for answers in found.values():
        for answer in answers:
            answer["verdict"] = engines.agree(ours[answer["question"]], answer.pop("rows"))
    facts = machine.done()
    directory.mkdir(parents=True, exist_ok=True)
    evidence.write_json(directory / "machine.json", facts)
    evidence.write_json(directory / "answers.json", found)
    every = [a for answers in found.values() for a in answers]
    wrong = [a for a in every if a["verdict"] != "same"]
    killed = [a for a in found["spark 2"] if a["killed"] is not None]
    of = lambda who, name: next(a["seconds"] for a in found[who] if a["pass"] == "timed" and a["question"] == name)
    sums = {who: sum(of(who, name) for name in questions) for who in found}
    slower = statistics.median(a["seconds"] / of("spark 2", a["question"]) for a in killed) if killed else 0
    scale = lambda engine: f"{sums[f'{engine} 1']:.1f} s, two {sums[f'{engine} 2']:.1f} s (x{sums[f'{engine} 1'] / sums[f'{engine} 2']:.2f})"
    cells = [[name, f"{len(ours[name]):,}", *(f"{of(w, name):.2f}" for w in found)] for name in questions]
    lines = [evidence.COMMENT, f"# The questions of sql/ to Spark, ClickHouse and DuckDB, a lake of {options.runs:,} runs of {options.hosts} hosts", "",
             f"All {len(questions)} questions take Spark with one worker (1 CPU) {scale('spark')}, ClickHouse with one thread {scale('chdb')}, DuckDB {scale('duckdb')},"
             f" behind a pass that warms up. {len(killed)} times a worker and its executor were killed at a random moment of a question, which then took x{slower:.1f} (median)."
             f" Of {len(every)} answers {len(every) - len(wrong)} have the rows of `plumb query`.", "",
             *table(["question", "rows", *(f"{who.replace(' ', ', ')}, s" for who in found)], cells), "",
             *table(["killed in", "after, s", "took, s", "rows"], [[a["question"], f"{a['killed']:.2f}", f"{a['seconds']:.2f}", a["verdict"]] for a in killed]), "",
             *evidence.machine_lines(facts, ["spark", "chdb", "duckdb", "java"])]
    (directory / "summary.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    if wrong:
        raise Problem(f"{wrong[0]['question']}: {wrong[0]['verdict']}")


OPTIONS = [
    ("--runs", {"type": int, "default": 1000, "help": "runs (1000)"}),
    ("--hosts", {"type": int, "default": 200, "help": "hosts (200)"}),
    ("--kills", {"type": int, "default": 20, "help": "how often a worker is killed (20)"}),
    ("--seed", {"type": int, "default": 1, "help": "of the moments (1)"}),
]

if __name__ == "__main__":
    sys.exit(evidence.main("benches/lake/spark.py", "Questions to a lake by a Spark cluster whose workers are killed.", "lake-spark", measure, OPTIONS))
