# SPDX-License-Identifier: Apache-2.0 OR MIT
"""nginx, an application and PostgreSQL, each in a network namespace of its own, with one known cause of slow requests:
whether 'plumb explain' names it from the client's point of view. Start it with run.sh."""

import json
import os
import pwd
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "services")]

import clocks
import servers
from common import evidence, system
from common.evidence import COMMENT, say, shown
from common.system import Problem, end, run, spawn

WORK = system.ROOT / "target" / "hosts"
CGROUP = Path("/sys/fs/cgroup/cpu/plumb-hosts")
NAMES = ["plumb-client", "plumb-web", "plumb-app", "plumb-db"]
CLIENT, WEB, APP, DB = NAMES
WEB_ADDRESS, APP_ADDRESS, DB_ADDRESS = (f"10.214.{n}.2" for n in range(3))
DISK = ["block.limit", "block.queue", "block.plug", "block.flush", "block.schedule", "block.device", "block.wakeup", "journal"]
OTHER = ["other.running", "other.runnable", "other.waiting", "thread", "thread.request", "lock.user"]
ON_THE_WAY, SENDING, AGAIN = "on the way", "being sent", "sent again"
# What a healthy service must have less than a tenth of.
ALARMS = [*DISK, "timer", "lock.file", "lock.user", "runnable.held", ON_THE_WAY, SENDING, AGAIN]


@dataclass
class Case:
    name: str
    # Names of threads whose time it is, and its categories; none: healthy.
    threads: list = field(default_factory=list)
    categories: list = field(default_factory=list)
    # Most of it is what another thread did for which it waited.
    followed: bool = False
    fault: str = "none"
    sql: str = "select v from t where id = 7"
    setup: list = field(default_factory=lambda: servers.ROWS)
    settings: list = field(default_factory=list)
    # A session beside the application's.
    beside: list = field(default_factory=list)
    model: str = None
    bytes: int = 2000
    gzip: int = 0
    quota: float = 0
    clients: int = 4
    pause: float = 0.005
    # Percent of packets lost, and bits a second, between web and application.
    lost: float = 0
    rate: str = None


GROWING = ["create table t(id serial, v text)"]
COLD = ["create table t as select i, repeat('x', 900) v from generate_series(1, 200000) i", "create index on t(i)", "vacuum analyze t", "checkpoint"]
CASES = [
    Case("db-commits-slowly", ["postgres"], DISK, sql="insert into t(v) values (repeat('x', 100))", setup=GROWING, model="atlas10k4"),
    Case("db-row-lock", ["postgres"], [*OTHER, "timer"], followed=True, sql="update t set v = v + 1 where id = 1",
         beside=["begin; update t set v = v + 1 where id = 1; select pg_sleep(0.2)", "commit"]),
    Case("db-computes", ["postgres"], ["running"], sql="select sum(a.v * b.id) from t a, t b where a.id < 60", clients=1),
    Case("db-reads-cold", ["postgres"], DISK, sql="select v from t where i = (select (random() * 200000)::int)", setup=COLD, settings=["shared_buffers=2MB"], model="gp3"),
    Case("db-sleeps", ["postgres"], ["timer"], sql="select pg_sleep(0.02)"),
    Case("app-lock", ["python3"], [*OTHER, "timer"], followed=True, fault="lock", pause=0),
    Case("app-computes", ["python3"], ["running"], fault="compute", clients=1),
    Case("app-syncs", ["python3"], DISK, fault="sync", model="atlas10k4"),
    Case("app-file-lock", ["python3"], ["lock.file"], fault="flock", pause=0),
    Case("web-compresses", ["nginx"], ["running"], bytes=400_000, gzip=9, clients=1),
    Case("web-quota", ["nginx"], ["runnable.held"], bytes=200_000, gzip=6, quota=0.1, clients=2),
    Case("link-loses", [], [AGAIN], lost=5, bytes=20_000),
    Case("link-is-slow", [], [SENDING, ON_THE_WAY], rate="2mbit", bytes=20_000, clients=1),
]
HEALTHY = [
    Case("healthy-select"),
    Case("healthy-one-client", clients=1, pause=0.01),
    Case("healthy-no-database", sql="", clients=2),
    Case("healthy-page", bytes=50_000, clients=2, pause=0.01),
    Case("healthy-scan", sql="select sum(v) from t", clients=2, pause=0.01),
    Case("healthy-compressed", bytes=20_000, gzip=1, clients=2, pause=0.01),
]


def there(namespace, *words):
    return ["ip", "netns", "exec", namespace, *map(str, words)]


def ip(*words):
    run(["ip", *words], timeout=10)


@contextmanager
def network(case, stack):
    """The namespaces and their wires: 10.214.N.1 and 10.214.N.2 are the ends of wire N."""
    try:
        for name in NAMES:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        for n, (near, far) in enumerate(zip(NAMES, NAMES[1:])):
            if n == 1 and case.lost:
                wire = spawn([sys.executable, HERE / "wire.py", near, f"10.214.{n}.1", far, f"10.214.{n}.2", case.lost],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                stack.callback(end, wire)
                if not wire.stdout.readline():
                    raise Problem("the wire that loses packets did not start")
                continue
            ip("link", "add", "name", "near", "netns", near, "type", "veth", "peer", "name", "far", "netns", far)
            for name, device, address in [(near, "near", 1), (far, "far", 2)]:
                ip("-n", name, "addr", "add", f"10.214.{n}.{address}/24", "dev", device)
                ip("-n", name, "link", "set", device, "up")
            if n == 1 and case.rate:
                run(there(far, "tc", "qdisc", "add", "dev", "far", "root", "tbf", "rate", case.rate, "burst", "4kb", "latency", "400ms"), timeout=10)
        yield
    finally:
        for name in NAMES:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


def listens(namespace, address, port, child, what):
    until = time.monotonic() + 30
    script = f"import socket; socket.create_connection(('{address}', {port}), 1)"
    while subprocess.run(there(namespace, sys.executable, "-c", script), stderr=subprocess.DEVNULL).returncode:
        if child.poll() is not None or time.monotonic() > until:
            raise Problem(f"{what} does not listen")
        time.sleep(0.1)


def database(case, directory, data, stack):
    binaries = servers.newest("usr/lib/postgresql/*/bin", "postgresql")
    data.mkdir()
    servers.given_to("postgres", data)
    as_postgres = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
    run([*as_postgres, binaries / "initdb", "-D", data, "-A", "trust"], timeout=120)
    with open(data / "pg_hba.conf", "a") as hba:
        hba.write("host all all 10.214.0.0/16 trust\n")
    words = [*as_postgres, binaries / "postgres", "-D", data, "-k", data, "-c", f"listen_addresses={DB_ADDRESS}"]
    for setting in case.settings:
        words += ["-c", setting]
    child = stack.enter_context(servers.running(there(DB, *words)))
    listens(DB, DB_ADDRESS, 5432, child, "postgres")
    psql = ["psql", "-h", str(data), "-U", "postgres", "-qAtX", "postgres"]
    time.sleep(0.5)
    for sql in case.setup:
        run([*psql, "-c", sql], timeout=120)
    if case.beside:
        words = [sys.executable, servers.PROGRAMS / "statements.py", json.dumps(case.beside), json.dumps([0.05]), *psql]
        stack.enter_context(servers.running(words))


def web(case, directory, stack):
    gzip = f"gzip on; gzip_comp_level {case.gzip}; gzip_types text/plain; gzip_proxied any;" if case.gzip else ""
    (directory / "nginx.conf").write_text(f"""daemon off; worker_processes 1; pid {directory}/nginx.pid; error_log {directory}/nginx.log;
events {{ worker_connections 256; }}
http {{ access_log off; {gzip} keepalive_requests 1000000; client_body_temp_path {directory}/b; proxy_temp_path {directory}/p;
  proxy_buffers 64 16k; proxy_busy_buffers_size 64k;
  fastcgi_temp_path {directory}/f; uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
  upstream app {{ server {APP_ADDRESS}:8000; keepalive 16; }}
  server {{ listen {WEB_ADDRESS}:8080; location / {{ proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; }} }} }}
""")
    child = stack.enter_context(servers.running(there(WEB, "nginx", "-c", directory / "nginx.conf")))
    listens(CLIENT, WEB_ADDRESS, 8080, child, "nginx")
    if case.quota:
        CGROUP.mkdir(exist_ok=True)
        (CGROUP / "cpu.cfs_quota_us").write_text(str(int(case.quota * 100_000)))
        worker = run(["pgrep", "-P", child.pid], timeout=10)[0].split()
        for pid in [str(child.pid), *worker]:
            (CGROUP / "cgroup.procs").write_text(pid)


@contextmanager
def service(case, plumb, directory):
    with ExitStack() as stack:
        stack.enter_context(network(case, stack))
        place = directory
        if case.model:
            place = stack.enter_context(servers.disk(plumb, directory, case.model))
        if case.sql:
            database(case, directory, place / "data", stack)
        app = [sys.executable, HERE / "app.py", APP_ADDRESS, 8000, DB_ADDRESS, case.fault, case.sql, case.bytes]
        child = stack.enter_context(servers.running(there(APP, *app), cwd=place))
        listens(WEB, APP_ADDRESS, 8000, child, "the application")
        web(case, directory, stack)
        if case.model:
            Path("/proc/sys/vm/drop_caches").write_text("3")
        client = [sys.executable, HERE / "client.py", WEB_ADDRESS, 8080, case.clients, case.pause]
        stack.enter_context(servers.running(there(CLIENT, *client)))
        yield


def word(leaf):
    """What a leaf is, in one word."""
    if leaf["category"]:
        return leaf["category"]
    return AGAIN if leaf["again"] else SENDING if leaf["name"] else ON_THE_WAY


def judge(case, row):
    """Whether the largest cause is the expected one; of a healthy service whether nothing is accused."""
    whole = sum(p["time"] for p in row["parts"]) or 1
    sums = {}
    for leaf in row["followed"]:
        # What a thread waited for and what another one did meanwhile are two causes: a lock that is held while its
        # holder sleeps has both.
        key = leaf["name"], word(leaf), leaf["followed"]
        sums[key] = sums.get(key, 0) + leaf["time"] / whole
    order = sorted(sums.items(), key=lambda s: -s[1])
    behind = lambda key: " of another thread" if key[2] else ""
    said = ", ".join(f"{key[0] or 'network'}: {key[1]}{behind(key)} {share * 100:.0f} %" for key, share in order[:3])
    if not case.categories:
        alarms = {what: sum(s for (_, w, _), s in sums.items() if w == what) for what in ALARMS}
        return all(share < 0.1 for share in alarms.values()), said
    key, _ = order[0]
    named = (not case.threads or key[0] in case.threads) and key[1] in case.categories
    return named and (not case.followed or key[2]), said


def measure(options, undo):
    if options.clocks:
        return clocks.measure(options, undo)
    plumb = Path(options.plumb).absolute()
    machine = system.Machine(plumb, {})
    directory = evidence.results_directory(options.out, "hosts-tiers")
    directory.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(WORK, ignore_errors=True)
    wanted = set(options.only.split(",")) if options.only else {c.name for c in CASES + HEALTHY}
    undo.add(f"for n in {' '.join(NAMES)}; do ip netns del $n; done; rmdir {CGROUP}")
    rows, skipped = [], []
    for case in [c for c in CASES + HEALTHY if c.name in wanted]:
        place = WORK / case.name
        place.mkdir(parents=True)
        try:
            with service(case, plumb, place):
                time.sleep(2)
                run([plumb, "record", "-q", "-e", "default,tcp", "-a", "--for", f"{options.seconds}s", "-o", place / "trace"], timeout=120)
            text = run([plumb, "explain", place / "trace", "--wide"], timeout=300)[0]
            result = json.loads(run([plumb, "explain", place / "trace", "--json"], timeout=300)[0])
        except Problem as e:
            skipped.append((case.name, str(e)))
            say(f"bench: SKIP {case.name}: {e}")
            continue
        found = [r for r in result["hosts"]["requests"] if r["address"] == f"{WEB_ADDRESS}:8080" and r["parts"]]
        ok, said = judge(case, found[0]) if found else (False, "no requests were seen")
        rows.append((case, ok, said, found[0] if found else None))
        say(f"bench: {case.name}: {'ok' if ok else 'MISSED'}: {said}")
        names = [(WORK, "DIR"), (plumb, "plumb"), (system.ROOT, "DIR"), (Path(sys.base_prefix).resolve(), "PYTHON")]
        (directory / f"{case.name}.json").write_text(shown(json.dumps(result["hosts"], indent=1), names) + "\n")
        (directory / f"{case.name}.txt").write_text(shown(text[text.find("\nRequests of") + 1:], names))
    write(directory, rows, skipped, machine.done(), options, plumb)
    if not options.keep:
        shutil.rmtree(WORK, ignore_errors=True)
    if any(not ok for _, ok, *_ in rows):
        say(f"bench: missed: {', '.join(case.name for case, ok, *_ in rows if not ok)}")


def write(directory, rows, skipped, facts, options, plumb):
    faults, healthy = [r for r in rows if r[0].categories], [r for r in rows if not r[0].categories]
    lines = [COMMENT, "# Causes in three tiers, from the client's point of view", "", *evidence.machine_lines(facts, []), "",
             f"nginx, a Python application and PostgreSQL, each in a network namespace; one recording of the machine ({options.seconds} s,"
             " `-e default,tcp -a`), each case once. The largest cause of the client's time, its requests followed through all tiers.", "",
             f"    cause named first     {sum(r[1] for r in faults)} of {len(faults)}",
             f"    healthy, not accused  {sum(r[1] for r in healthy)} of {len(healthy)}", "",
             "| case | found | ok | requests | mean ms | parts not known |", "|---|---|---|---|---|---|"]
    for case, ok, said, row in rows:
        row = row or {"requests": 0, "time": 0, "incomplete": 0}
        mean = row["time"] / max(row["requests"], 1) / 1e6
        lines.append(f"| {case.name} | {said} | {'yes' if ok else '**no**'} | {row['requests']} | {mean:.2f} | {row['incomplete']} |")
    lines += [""] + [f"Not run: {name} ({why})." for name, why in skipped]
    (directory / "summary.md").write_text(shown("\n".join(lines), [(WORK, "DIR"), (plumb, "plumb")]) + "\n")
    evidence.write_json(directory / "machine.json", facts)
    plan = [COMMENT, "# Plan", "", "Cases are in benches/hosts/run.py; each once. A cause is named where the largest sum of a thread's name and a"
            " category is an expected one; a healthy service is accused where a tenth of its requests' time is in one of the"
            f" categories {', '.join(ALARMS)}.", ""]
    (directory / "plan.md").write_text("\n".join(plan))


OPTIONS = [("--only", {"help": "these cases, separated by commas", "metavar": "NAME,..."}),
           ("--seconds", {"type": int, "default": 4, "help": "how long each is recorded (4)"}),
           ("--clocks", {"action": "store_true", "help": "measure clocks and cost in place of the cases"}),
           ("--requests", {"type": int, "default": 300_000, "help": "of the longer recording for the clocks (300000)"}),
           ("--keep", {"action": "store_true", "help": "leave the recordings in target/hosts"})]

if __name__ == "__main__":
    sys.exit(evidence.main("benches/hosts/run.sh", __doc__, "hosts-tiers", measure, OPTIONS, rounds=10))
