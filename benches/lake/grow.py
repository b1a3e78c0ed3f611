#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A joined lake made larger by DuckDB, as if more runs had been published and joined: grow.py LAKE REQUESTS makes its block requests
REQUESTS times as many; grow.py LAKE OUT DAYS TIMES FIRST STEP writes OUT, whose hosts have TIMES as many runs on each of DAYS days, all but their
block requests, of every STEPth host from FIRST on. Needs a Python that has duckdb."""

import datetime
import sys
from pathlib import Path

import duckdb

DAY_NS = 86_400_000_000_000
AS_PLUMB = "(format parquet, compression zstd)"


def tables(lake):
    return sorted(path for path in lake.iterdir() if not path.name.startswith("."))


def requests(lake, times):
    """Each request TIMES times, with service times from half its own to one and a half."""
    connection = duckdb.connect()
    for path in (lake / "requests").rglob("*.parquet"):
        new = path.with_suffix(".new")
        longer = "d2c_ns * ((hash(run, request, k) % 101)::bigint - 50) // 100"
        connection.execute(
            f"copy (select t.* replace (request * {times} + k as request, d2c_ns + {longer} as d2c_ns, q2c_ns + {longer} as q2c_ns) "
            f"from read_parquet('{path}', hive_partitioning = false) as t, range({times}) as r(k)) to '{new}' {AS_PLUMB}")
        new.rename(path)


def grow(lake, out, days, times, first, step):
    connection = duckdb.connect()
    connection.execute("set threads = 1")
    hosts = sorted(path.name for path in (lake / "runs").iterdir())[first::step]
    for table in tables(lake):
        for host in hosts if table.name != "requests" else []:
            files = [str(path) for path in (table / host).rglob("*.parquet")]
            if not files:
                continue
            connection.execute(f"create or replace temp table t as select * from read_parquet({files}, hive_partitioning = false)")
            columns = [row[0] for row in connection.execute("describe t").fetchall()]
            for day in range(days):
                to = out / table.name / host / f"day={datetime.date(2026, 1, 1) + datetime.timedelta(day)}"
                to.mkdir(parents=True)
                new = [f"{name} || '-{day}-' || k as {name}" for name in ("run", "run_id") if name in columns]
                if "began" in columns:
                    new.append(f"strftime(began::timestamp + to_days({day}), '%Y-%m-%dT%H:%M:%SZ') as began")
                new.append(f"began_unix_ns + {day * DAY_NS} as began_unix_ns")
                connection.execute(f"copy (select t.* replace ({', '.join(new)}) from t, range({times}) as r(k)) "
                                   f"to '{to}/all+{len(columns)}.parquet' {AS_PLUMB}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        requests(Path(sys.argv[1]), int(sys.argv[2]))
    else:
        grow(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:]))
