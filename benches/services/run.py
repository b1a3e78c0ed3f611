# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Records servers whose requests have one known cause, by --pid alone, and compares the first finding with it and
with the server's own statistics. Healthy servers must not be accused. Start it with run.sh."""

import json
import shutil
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import servers
from common import evidence, system
from common.evidence import COMMENT, say, shown
from common.system import Problem, run, spawn, end

WORK = system.ROOT / "target" / "services"
# A healthy server whose verdict is none is not accused. Share of the requests' time from which a finding on a healthy server is a false alarm.
ALARM = 0.10
PEER, SYNC, SLEEP, CPU = ["peer.thread"], ["sync.write", "wait.log"], ["wait.sleep"], ["cpu.user", "cpu.kernel"]
READS = ["io.random", "io.depth", "device.slow"]

# name, case, findings that name the cause; of a healthy server what it honestly is
FAULTS = [
    ("postgres-row-lock", servers.postgres_row_lock, PEER),
    ("postgres-table-lock", servers.postgres_table_lock, PEER),
    ("postgres-advisory-lock", servers.postgres_advisory_lock, PEER + SLEEP),
    ("postgres-slow-commit", servers.postgres_slow_commit, SYNC),
    ("postgres-cold-reads", servers.postgres_cold_reads, READS),
    ("postgres-computes", servers.postgres_computes, CPU),
    ("postgres-sleeps", servers.postgres_sleeps, SLEEP),
    ("mariadb-slow-commit", servers.mariadb_slow_commit, SYNC),
    ("mariadb-row-lock", servers.mariadb_row_lock, PEER),
    ("mariadb-sleeps", servers.mariadb_sleeps, SLEEP),
    ("mariadb-computes", servers.mariadb_computes, CPU),
    ("redis-append-always", servers.redis_append_always, SYNC),
    ("redis-script", servers.redis_script, CPU),
    ("redis-sleeps", servers.redis_sleeps, SLEEP),
    ("nginx-slow-upstream", servers.nginx_slow_upstream, ["peer.process"]),
    ("nginx-computing-upstream", servers.nginx_computing_upstream, ["peer.process"]),
    ("python-gil", servers.python("gil"), ["lock.interpreter"]),
    ("python-computes", servers.python("compute", clients=1), CPU),
    ("python-sleeps", servers.python("sleep", think=0.02), SLEEP),
    ("python-lock", servers.python("lock"), PEER + ["lock.user", "lock.convoy"]),
    ("python-worker", servers.python("worker"), PEER + SLEEP),
    ("python-upstream", servers.python("upstream"), ["peer.process"]),
    ("python-syncs", servers.python("sync"), SYNC),
    ("node-blocked", servers.node("block"), CPU),
    ("node-pool", servers.node("pool"), CPU + PEER),
    ("node-timer", servers.node("timer"), SLEEP),
    ("java-collects", servers.java_collects, ["runtime.gc"]),
    ("java-collects-in-parallel", servers.java_collects_in_parallel, ["runtime.gc"]),
    ("java-monitor", servers.java_monitor, PEER + ["lock.user", "lock.convoy"]),
    ("java-sleeps", servers.java_sleeps, SLEEP),
]
OWN = ["cpu.user", "cpu.kernel", "cpu.wakeup", "cpu.crowded", "lock.interpreter"]
HEALTHY = [
    ("nginx-static", servers.nginx_static, OWN),
    ("python-hello", servers.python("hello", clients=2, think=0.005), OWN),
    ("node-hello", servers.node("hello", clients=2, think=0.005), OWN),
    ("java-hello", lambda ctx: servers.java(ctx, "hello", clients=2, think=0.005), OWN + PEER + ["cpu.wait"]),
    ("postgres-selects", lambda ctx: servers.postgres(ctx, servers.ROWS, [(["select v from t where id = 7"], [0.005])], servers.WAITS), OWN),
    ("mariadb-selects", lambda ctx: servers.mariadb(ctx, servers.FILLED, [(["select v from t where id = 7"], [0.005])], servers.STATUS), OWN),
    ("redis-gets", lambda ctx: servers.redis(ctx, [["get", "a"]]), OWN),
    ("redis-sets", lambda ctx: servers.redis(ctx, [["set", "{n}", "x" * 500]] * 2), OWN),
    ("memcached-gets", servers.memcached, OWN),
    ("nginx-proxy", lambda ctx: servers.nginx(ctx, "hello", servers.PROXY, clients=2, think=0.005), OWN + ["peer.process"]),
    ("postgres-scans", lambda ctx: servers.postgres(ctx, servers.ROWS, [(["select sum(v) from t"], [0.005])], servers.WAITS), OWN),
    ("postgres-inserts", lambda ctx: servers.postgres(ctx, ["create table t(id serial, v text)"], [(["insert into t(v) values ('x')"], [0.01])], servers.WAITS), OWN + SYNC),
    ("mariadb-inserts", lambda ctx: servers.mariadb(ctx, servers.TABLE, [(["insert into t(v) values ('x')"], [0.01])], servers.STATUS), OWN + SYNC),
    ("python-many", servers.python("hello", clients=8, think=0.04), OWN),
]
BLOCK = ["block.queue", "block.schedule", "block.device", "block.flush", "journal"]
# One request in a hundred is slow; what the slowest have more of than the others: its categories, or the program's own word.
TAILS = [
    ("postgres-rare-lock", servers.postgres_rare_lock, ["Lock:transactionid", "Lock:tuple"]),
    ("mariadb-rare-lock", servers.mariadb_rare_lock, ["lock.user", "thread", "thread.request"]),
    ("redis-rare-append", servers.redis_rare_append, BLOCK),
    ("sqlite-rare-commit", servers.sqlite_rare_commit, BLOCK),
    ("memcached-rare-neighbour", servers.memcached_rare_neighbour, ["preempted", "runnable"]),
]
PAGES = [name for name, *_ in TAILS] + ["postgres-row-lock", "mariadb-slow-commit", "nginx-slow-upstream", "python-gil", "java-collects"]
# What a neighbour causes honestly on a healthy server, where the finding names the neighbour.
CAUSES = {"cpu": ("sh", ["cpu.wait"]), "io": ("dd", ["cpu.wait", "io.scheduler", "device.saturated", "journal.shared"])}
NEIGHBOURS = {
    "cpu": ["sh", "-c", "while :; do :; done"],
    "io": ["sh", "-c", "while :; do dd if=/dev/zero of={dir}/neighbour bs=1M count=200 conv=fsync status=none; done"],
}


@dataclass
class Context:
    plumb: Path
    directory: Path


def record(ctx, case, seconds, neighbour, out):
    """The result of one recording, and what the server itself says."""
    with ExitStack() as stack:
        pid, own = stack.enter_context(case(ctx))
        if neighbour:
            words = [w.replace("{dir}", str(ctx.directory)) for w in NEIGHBOURS[neighbour]]
            stack.callback(end, spawn(words, **servers.QUIET))
        time.sleep(2)
        before = own()
        said, _ = run([ctx.plumb, "run", "--quiet", "--json", "--pid", pid, "--for", f"{seconds}s", "-o", out], timeout=300)
        return json.loads(said), before, own()


def judge_tail(result, expected):
    """Whether the kind that loses most by its slowest names the cause first."""
    loss = lambda s: (s["tail"]["mean"] - s["tail"]["typical"]) * s["count"]
    spans = [s for s in result["spans"] if s.get("tail")]
    if not spans:
        return False, "no tail"
    span = max(spans, key=loss)
    first = span["tail"]["causes"][0]
    said = first.get("event") or first["category"]
    what = f"{said} +{(first['time'] - first.get('typical', 0)) / 1e6:.1f} ms in {span['name']} '{span['key'][:40]}'"
    return said in expected, what


def of_neighbour(finding, neighbour):
    comm, causes = CAUSES.get(neighbour, ("", []))
    return finding["id"] in causes and comm in finding["headline"].split()


def judge(verdict, findings, expected, healthy, neighbour):
    if healthy:
        if verdict.startswith("Bottleneck: none"):
            return True
        alarms = [f for f in findings if f["share"] >= ALARM and f["id"] not in expected]
        return all(of_neighbour(f, neighbour) for f in alarms)
    return bool(findings) and findings[0]["id"] in expected


def row(name, result, expected, ok, before, after):
    findings = result["findings"]
    first = f"{findings[0]['id']} {findings[0]['share'] * 100:.0f} %" if findings else "nothing"
    parts = result["path"]["parts"]
    whole = sum(p["time"] for p in parts) or 1
    dark = sum(p["time"] for p in parts if p["category"] == "unexplained") / whole
    return {"name": name, "expected": expected, "ok": ok, "first": first, "unexplained": dark, "verdict": result["verdict"],
            "before": before, "after": after, "of": result["path"]["of"]}


def measure(options, undo):
    plumb = Path(options.plumb).absolute()
    machine = system.Machine(plumb, {})
    directory = evidence.results_directory(options.out, "services")
    directory.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(WORK, ignore_errors=True)
    rows, skipped = [], []
    cases = [(n, c, e, False) for n, c, e in FAULTS + TAILS] + [(n, c, e, True) for n, c, e in HEALTHY]
    tails = {name for name, *_ in TAILS}
    wanted = set(options.only.split(",")) if options.only else {n for n, *_ in cases}
    if unknown := wanted - {n for n, *_ in cases}:
        raise Problem(f"--only {', '.join(sorted(unknown))}: no such service; there are {', '.join(n for n, *_ in cases)}")
    for name, case, expected, healthy in cases:
        if name not in wanted:
            continue
        ctx = Context(plumb, WORK / name)
        ctx.directory.mkdir(parents=True)
        try:
            result, before, after = record(ctx, case, options.seconds, options.neighbour, WORK / f"{name}.run")
        except Problem as e:
            skipped.append((name, str(e)))
            say(f"bench: SKIP {name}: {e}")
            continue
        ok, tail = judge(result["verdict"][0], result["findings"], expected, healthy, options.neighbour), None
        if name in tails:
            ok, tail = judge_tail(result, expected)
        told = row(name, result, expected, ok, before, after)
        rows.append({**told, "first": tail or told["first"], "healthy": healthy})
        say(f"bench: {name}: {'ok' if ok else 'MISSED'}: {result['verdict'][0]}")
        kept = {k: result[k] for k in ("verdict", "findings", "path", "service", "spans")}
        names = [(WORK, "DIR"), (plumb, "plumb"), (system.ROOT, "DIR"), (Path(sys.base_prefix).resolve(), "PYTHON")]
        (directory / f"{name}.json").write_text(shown(json.dumps(kept, indent=1), names) + "\n")
        if name in PAGES and not options.neighbour:
            page = (WORK / f"{name}.run" / "report.html").read_text()
            (directory / f"{name}.html").write_text(shown(page, names))
    write(directory, rows, skipped, machine.done(), options, plumb)
    if not options.keep:
        shutil.rmtree(WORK, ignore_errors=True)
    say(f"bench: {shown(directory, [])}")
    if any(not r["ok"] for r in rows):
        say(f"bench: missed: {', '.join(r['name'] for r in rows if not r['ok'])}")


def write(directory, rows, skipped, facts, options, plumb):
    names = [(WORK, "DIR"), (plumb, "plumb")]
    faults, healthy = [r for r in rows if not r["healthy"]], [r for r in rows if r["healthy"]]
    found, clean = sum(r["ok"] for r in faults), sum(r["ok"] for r in healthy)
    dark = sorted(r["unexplained"] for r in rows) or [0]
    beside = f", beside a neighbour ({options.neighbour})" if options.neighbour else ""
    lines = [COMMENT, "# Services with one known cause", "", *evidence.machine_lines(facts, []), "",
             f"Each recorded for {options.seconds} s with `plumb run --pid`{beside}, at the first try.", "",
             f"    cause named first    {found} of {len(faults)} services",
             f"    healthy, not accused {clean} of {len(healthy)}" + (" (of more than the neighbour, by name)" if beside else ""),
             f"    path unexplained     {dark[len(dark) // 2] * 100:.2f} % median, {dark[-1] * 100:.2f} % largest", "",
             "| service | expected | found first | ok | path of | unexplained |", "|---|---|---|---|---|---|"]
    for r in rows:
        expected = " or ".join(r["expected"]) if not r["healthy"] else "healthy"
        lines.append(f"| {r['name']} | {expected} | {r['first']} | {'yes' if r['ok'] else '**no**'} | {r['of']} | {r['unexplained'] * 100:.2f} % |")
    lines += [""] + [f"Not run: {name} ({why})." for name, why in skipped]
    for r in rows:
        lines += ["", f"## {r['name']}", ""] + [f"    {l}" for l in r["verdict"]]
        lines += ["", f"The server itself: {r['before'] or '-'}; at the end: {r['after'] or '-'}".replace("\n", ", ")]
    (directory / "summary.md").write_text(shown("\n".join(lines), names) + "\n")
    evidence.write_json(directory / "machine.json", facts)
    plan = [COMMENT, "# Plan", "", "Servers and clients are in benches/services; each case once, `plumb run --pid PID --for "
            f"{options.seconds}s` two seconds after the clients began{beside}.", ""]
    (directory / "plan.md").write_text("\n".join(plan))


OPTIONS = [("--only", {"help": "these services, separated by commas", "metavar": "NAME,..."}),
           ("--seconds", {"type": int, "default": 4, "help": "how long each is recorded (4)"}),
           ("--neighbour", {"choices": sorted(NEIGHBOURS), "help": "run beside a process that wants CPUs, or writes to the disk"}),
           ("--keep", {"action": "store_true", "help": "leave the recordings in target/services"})]

if __name__ == "__main__":
    sys.exit(evidence.main("benches/services/run.sh", __doc__, "services", measure, OPTIONS))
