#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Whether the questions of sql/ have the same answers from plumb query, DuckDB, chDB (ClickHouse) and Spark, on a lake of
recorded runs: the traces in tests/traces, and three that are recorded now (as root). The engines come from the Python
registry into a directory of their own; Spark needs a Java besides.

DuckDB, Spark and plumb are asked in the words of the files; ClickHouse has percentile_cont under another name
(quantileExactInclusive), which is all that is changed."""

import itertools
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import weed
from common import evidence, system
from common.evidence import table
from common.system import ROOT, Problem

PACKAGES = {"duckdb": "duckdb", "chdb": "chdb", "spark": "pyspark"}
# What else an engine needs to read a bucket; Spark's comes from Maven's registry.
FOR_BUCKETS = {"duckdb": ["duckdb-extension-httpfs"]}
ENGINES_OF_PLUMB = {"duckdb": "duckdb", "chdb": "clickhouse", "spark": "spark"}

# Each reads {"views": statements, "questions": {name: sql}, "endpoint": a bucket's server, or null} and prints {name: rows, or an error's
# words}. The keys of a bucket are in the environment.
DUCKDB = """
import duckdb
connection = duckdb.connect()
if ask["endpoint"]:
    import duckdb_extension_httpfs
    connection.load_extension(str(next(pathlib.Path(duckdb_extension_httpfs.__file__).parent.rglob("httpfs.duckdb_extension"))))
    key, secret = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
    connection.execute(f"create secret (type s3, key_id '{key}', secret '{secret}', endpoint '{ask['endpoint']}', url_style 'path', use_ssl false)")
for statement in ask["views"]:
    connection.execute(statement)
answer(lambda sql: connection.execute(sql).fetchall())
"""
CHDB = """
import re, chdb.session
session = chdb.session.Session()
for statement in ask["views"]:
    session.query(statement)
def words(sql):
    # percentile_cont(P) within group (order by X)
    while (at := re.search(r"percentile_cont\\(([0-9.]+)\\)\\s+within\\s+group\\s+\\(order\\s+by\\s+", sql)):
        end, deep = at.end(), 1
        while deep:
            deep += {"(": 1, ")": -1}.get(sql[end], 0)
            end += 1
        sql = f"{sql[:at.start()]}quantileExactInclusive({at[1]})({sql[at.end():end - 1]}){sql[end:]}"
    return sql
answer(lambda sql: [json.loads(line) for line in str(session.query(words(sql), "JSONCompactEachRow")).splitlines()])
"""
SPARK = """
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
if ask["endpoint"]:
    jars = next((pathlib.Path(__import__("pyspark").__file__).parent / "jars").glob("hadoop-client-api-*.jar"))
    version = jars.stem.removeprefix("hadoop-client-api-")
    builder = (builder.config("spark.jars.packages", f"org.apache.hadoop:hadoop-aws:{version}").config("spark.jars.ivy", ask["jars"])
               .config("spark.hadoop.fs.s3a.endpoint", f"http://{ask['endpoint']}").config("spark.hadoop.fs.s3a.path.style.access", "true"))
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
for statement in ask["views"]:
    spark.sql(statement)
answer(lambda sql: [list(r) for r in spark.sql(sql).collect()])
"""
FRAME = """
import json, os, pathlib, sys
ask = json.load(open(sys.argv[1]))
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
        packages = [PACKAGES[name], *FOR_BUCKETS.get(name, [])]
        python, installed = directory / name / "bin/python", directory / name / "packages"
        if not installed.is_file() or installed.read_text() != " ".join(packages):
            evidence.say(f"installing {' '.join(packages)} ...")
            subprocess.run([sys.executable, "-m", "venv", directory / name], check=True)
            subprocess.run([directory / name / "bin/pip", "install", "-q", *packages], check=True)
            installed.write_text(" ".join(packages))
        found[name] = python
    if "spark" in names and not shutil.which("java"):
        raise Problem("Spark needs a Java ('apt-get install default-jre-headless')")
    return found


def views(plumb, lake, engine, environment=None):
    """Statements that make the lake's tables views of an engine, by the name that plumb has for it."""
    text = subprocess.run([plumb, "lake", "views", lake, "--engine", engine], check=True, capture_output=True, text=True,
                          env={**os.environ, **(environment or {})}).stdout
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith("--")]
    return [statement for statement in "".join(lines).split(";\n") if statement]


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


# What is recorded beside the traces of tests/, in an empty directory.
COMMANDS = ["dd if=/dev/zero of=synced bs=64k count=200 oflag=dsync", "head -c 8M /dev/urandom | gzip -1 | wc -c | grep .",
            "seq 8 | xargs -P 8 -n 1 sh -c 'head -c 8M /dev/urandom > of-$0; sync of-$0'"]


def recorded(plumb, work):
    for n, command in enumerate(COMMANDS):
        evidence.say(f"recording {command} ...")
        place = work / f"place-{n}"
        place.mkdir()
        done = subprocess.run([plumb, "record", "-q", "-o", work / f"recorded-{n}", "--", "sh", "-c", command], cwd=place,
                              capture_output=True, text=True)
        if done.returncode:
            raise Problem(f"{command}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
        yield work / f"recorded-{n}"


def measure(options, undo):
    options.plumb = Path(options.plumb).resolve()
    directory = evidence.results_directory(options.out, "lake-engines")
    pythons = engines(ROOT / "target/engines")
    version = lambda of: f"import importlib.metadata as m; print('{of}', m.version('{of}'))"
    machine = system.Machine(options.plumb, {name: [python, "-c", version(PACKAGES[name])] for name, python in pythons.items()})
    work = Path(tempfile.mkdtemp(prefix="plumb-bench-engines."))
    undo.add(f"rm -rf {work}")
    lake = work / "lake"
    traces = [*sorted(p.parent for p in (ROOT / "tests/traces").glob("*/metadata")), *recorded(options.plumb, work)]
    told = subprocess.run([options.plumb, "publish", *traces, "--to", lake, "--json"], capture_output=True, text=True)
    runs = json.loads(told.stdout)["runs"]
    if options.joined:
        subprocess.run([options.plumb, "lake", "compact", lake], check=True, stdout=subprocess.DEVNULL)
    asked = questions()
    answers = ours(options.plumb, lake, asked)
    places = {"": (lake, None, {})}
    if options.bucket:
        server = weed.Weed(work / "weed", undo)
        url = "s3://fleet/lake"
        subprocess.run([options.plumb, "publish", *traces, "--to", url, "--spool", work / "spool"], check=True, env={**os.environ, **server.environment})
        places[" (S3)"] = (url, server.endpoint, server.environment)
    verdicts = {}
    for (where, (place, endpoint, environment)), (name, code) in itertools.product(places.items(), ENGINES.items()):
        column = name + where
        evidence.say(f"asking {column} ...")
        ask = {"views": views(options.plumb, place, ENGINES_OF_PLUMB[name], environment), "questions": asked, "endpoint": endpoint,
               "jars": str(ROOT / "target/engines/jars")}
        (work / "ask").write_text(json.dumps(ask))
        script = work / f"ask-{name}.py"
        script.write_text(FRAME + code)
        done = subprocess.run([pythons[name], script, work / "ask", work / name], capture_output=True, text=True, env={**os.environ, **environment})
        if done.returncode:
            raise Problem(f"{column}: {done.stderr.strip().splitlines()[-1]}")
        theirs = json.loads((work / name).read_text())
        verdicts[column] = {question: agree(answers[question], theirs[question]) for question in asked}
    facts = machine.done()
    directory.mkdir(parents=True, exist_ok=True)
    evidence.write_json(directory / "machine.json", facts)
    evidence.write_json(directory / "verdicts.json", verdicts)
    cells = [[name, f"{len(answers[name]):,}", *(verdicts[engine][name] for engine in verdicts)] for name in asked]
    count = {engine: sum(v == "same" for v in verdicts[engine].values()) for engine in verdicts}
    lines = [evidence.COMMENT, f"# The questions of sql/ to {len(runs)} recorded runs, by four engines", "",
             f"Whether the rows are those of `plumb query` (numbers but for how a tie is rounded, in any order): " +
             ", ".join(f"{engine} {n} of {len(asked)}" for engine, n in count.items()) + ".", "",
             *table(["question", "rows", *verdicts], cells), "", *evidence.machine_lines(facts, list(PACKAGES))]
    (directory / "summary.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    if any(n < len(asked) for n in count.values()):
        raise Problem("the engines do not agree")


OPTIONS = [("--joined", {"action": "store_true", "help": "after plumb lake compact"}),
           ("--bucket", {"action": "store_true", "help": "the same runs, as they were published, in a bucket of SeaweedFS besides"})]

if __name__ == "__main__":
    sys.exit(evidence.main("benches/lake/engines.py", "Whether four engines give the same answers to the questions of sql/.",
                           "lake-engines", measure, OPTIONS))
