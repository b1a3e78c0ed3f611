#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Whether the questions of sql/ have the same answers from plumb query, DuckDB, chDB (ClickHouse) and Spark, on a lake of
recorded runs. The engines come from the Python registry into a directory of their own; Spark needs a Java besides.

DuckDB, Spark and plumb are asked in the words of the files; ClickHouse has percentile_cont under another name
(quantileExactInclusive), which is all that is changed."""

import json
import math
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import evidence, system
from common.evidence import table
from common.system import ROOT, Problem

PACKAGES = {"duckdb": "duckdb", "chdb": "chdb", "spark": "pyspark"}

# Each reads {"lake", "tables": {name: {column: type}}, "questions": {name: sql}} and prints {name: rows, or an error's words}.
DUCKDB = """
import duckdb
connection = duckdb.connect()
for name, columns in ask["tables"].items():
    empty = ", ".join(f'cast(null as {dict(INTEGER="bigint", REAL="double", TEXT="varchar")[t]}) as "{c}"' for c, t in columns.items())
    files = f"union all by name select * from read_parquet('{ask['lake']}/{name}/*/*/*.parquet', union_by_name = true)" if present(name) else ""
    connection.execute(f"create view {name} as select {empty} where false {files}")
answer(lambda sql: connection.execute(sql).fetchall())
"""
CHDB = """
import re, chdb.session
session = chdb.session.Session()
for name, columns in ask["tables"].items():
    kinds = ", ".join(f'`{c}` Nullable({dict(INTEGER="Int64", REAL="Float64", TEXT="String")[t]})' for c, t in columns.items())
    of = f"file('{ask['lake']}/{name}/*/*/*.parquet', Parquet, '{kinds}')" if present(name) else f"null('{kinds}')"
    session.query(f"create view {name} as select * from {of}")
def words(sql):
    # percentile_cont(P) within group (order by X)
    while (at := re.search(r"percentile_cont\\(([0-9.]+)\\)\\s+within\\s+group\\s+\\(order\\s+by\\s+", sql)):
        end, deep = at.end(), 1
        while deep:
            deep += {"(": 1, ")": -1}.get(sql[end], 0)
            end += 1
        sql = f"{sql[:at.start()]}quantileExactInclusive({at[1]})({sql[at.end():end - 1]}){sql[end:]}"
    return sql
def rows(sql):
    out = session.query(words(sql) + "\\nsettings join_use_nulls = 1", "JSONCompactEachRow")
    return [json.loads(line) for line in str(out).splitlines()]
answer(rows)
"""
SPARK = """
from pyspark.sql import SparkSession
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
kinds = {"INTEGER": LongType(), "REAL": DoubleType(), "TEXT": StringType()}
for name, columns in ask["tables"].items():
    schema = StructType([StructField(c, kinds[t]) for c, t in columns.items()])
    frame = spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(f"{ask['lake']}/{name}") if present(name) else spark.createDataFrame([], schema)
    frame.createOrReplaceTempView(name)
answer(lambda sql: [list(r) for r in spark.sql(sql).collect()])
"""
FRAME = """
import json, pathlib, sys
ask = json.load(open(sys.argv[1]))
def present(name):
    return pathlib.Path(ask["lake"], name).is_dir()
def plain(v):
    return float(v) if hasattr(v, "as_tuple") else v
def answer(rows):
    out = {}
    for name, sql in ask["questions"].items():
        try:
            out[name] = [[plain(v) for v in row] for row in rows(sql)]
        except Exception as error:
            out[name] = str(error).splitlines()[0][:200]
    json.dump(out, open(sys.argv[2], "w"))
"""
ENGINES = {"duckdb": DUCKDB, "chdb": CHDB, "spark": SPARK}


def engines(directory, names=tuple(PACKAGES)):
    """A Python with each engine, by its name; those that cannot be had are named."""
    found = {}
    for name in names:
        package = PACKAGES[name]
        python = directory / name / "bin/python"
        if not python.is_file():
            evidence.say(f"installing {package} ...")
            subprocess.run([sys.executable, "-m", "venv", directory / name], check=True)
            subprocess.run([directory / name / "bin/pip", "install", "-q", package], check=True)
        found[name] = python
    if "spark" in names and not shutil.which("java"):
        raise Problem("Spark needs a Java ('apt-get install default-jre-headless')")
    return found


def schema(plumb):
    """Tables with their columns and types, as plumb tells them."""
    names = [line.split(":")[0] for line in subprocess.run([plumb, "query", "--tables"], check=True, capture_output=True, text=True).stdout.splitlines()
             if line and not line.startswith(" ")]
    tables = {}
    for name in names:
        text = subprocess.run([plumb, "query", "--schema", name], check=True, capture_output=True, text=True).stdout
        lines = [line.split() for line in text.splitlines() if line.startswith("    ")]
        tables[name] = {words[0]: words[1].rstrip(",") for words in lines}
    return tables


def questions():
    return {path.stem: path.read_text() for path in sorted((ROOT / "sql").glob("*.sql"))}


def ours(plumb, lake, questions):
    """What plumb query answers, by the question's name."""
    def ask(name):
        out = subprocess.run([plumb, "query", "--json", "--file", ROOT / "sql" / f"{name}.sql", lake], capture_output=True, text=True)
        return [list(row.values()) for row in json.loads(out.stdout)["rows"]]
    return {name: ask(name) for name in questions}


def key(row):
    """For an order that does not depend on an engine's nulls or last digits."""
    return [(v is None, isinstance(v, str), "" if v is None else f"{v:.4g}" if isinstance(v, float) else str(v)) for v in row]


def same(a, b):
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        # The questions round to six digits, and engines round a tie to either side.
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1.5e-6)
    return a == b


def agree(ours, theirs):
    if isinstance(theirs, str):
        return theirs
    if len(ours) != len(theirs):
        return f"{len(theirs)} rows"
    for a, b in zip(sorted(ours, key=key), sorted(theirs, key=key)):
        if not all(map(same, a, b)):
            return f"{b} and not {a}"
    return "same"


def measure(options, undo):
    options.plumb = Path(options.plumb).resolve()
    directory = evidence.results_directory(options.out, "lake-engines")
    pythons = engines(ROOT / "target/engines")
    version = lambda of: f"import importlib.metadata as m; print('{of}', m.version('{of}'))"
    machine = system.Machine(options.plumb, {name: [python, "-c", version(PACKAGES[name])] for name, python in pythons.items()})
    work = Path(tempfile.mkdtemp(prefix="plumb-bench-engines."))
    undo.add(f"rm -rf {work}")
    lake = work / "lake"
    traces = sorted(p.parent for p in (ROOT / "tests/traces").glob("*/metadata"))
    told = subprocess.run([options.plumb, "publish", *traces, "--to", lake, "--json"], capture_output=True, text=True)
    runs = json.loads(told.stdout)["runs"]
    if options.joined:
        subprocess.run([options.plumb, "lake", "compact", lake], check=True, stdout=subprocess.DEVNULL)
    asked = questions()
    answers = ours(options.plumb, lake, asked)
    (work / "ask").write_text(json.dumps({"lake": str(lake), "tables": schema(options.plumb), "questions": asked}))
    verdicts = {}
    for name, code in ENGINES.items():
        evidence.say(f"asking {name} ...")
        script = work / f"ask-{name}.py"
        script.write_text(FRAME + code)
        done = subprocess.run([pythons[name], script, work / "ask", work / name], capture_output=True, text=True)
        if done.returncode:
            raise Problem(f"{name}: {done.stderr.strip().splitlines()[-1]}")
        theirs = json.loads((work / name).read_text())
        verdicts[name] = {question: agree(answers[question], theirs[question]) for question in asked}
    facts = machine.done()
    directory.mkdir(parents=True, exist_ok=True)
    evidence.write_json(directory / "machine.json", facts)
    evidence.write_json(directory / "verdicts.json", verdicts)
    cells = [[name, f"{len(answers[name]):,}", *(verdicts[engine][name] for engine in ENGINES)] for name in asked]
    count = {engine: sum(v == "same" for v in verdicts[engine].values()) for engine in ENGINES}
    lines = [evidence.COMMENT, f"# The questions of sql/ to {len(runs)} recorded runs, by four engines", "",
             f"Whether the rows are those of `plumb query` (numbers but for how a tie is rounded, in any order): " +
             ", ".join(f"{engine} {n} of {len(asked)}" for engine, n in count.items()) + ".", "",
             *table(["question", "rows", *ENGINES], cells), "", *evidence.machine_lines(facts, list(PACKAGES))]
    (directory / "summary.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    if any(n < len(asked) for n in count.values()):
        raise Problem("the engines do not agree")


OPTIONS = [("--joined", {"action": "store_true", "help": "after plumb lake compact"})]

if __name__ == "__main__":
    sys.exit(evidence.main("benches/lake/engines.py", "Whether four engines give the same answers to the questions of sql/.",
                           "lake-engines", measure, OPTIONS))
