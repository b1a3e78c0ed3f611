# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Servers with one known cause of slow requests, and healthy ones, each with its clients.

A case is a function that starts a server in a directory, keeps clients busy, and yields the process to record and
a function that asks the server's own statistics what the cause was."""

import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

from common.system import Problem, end, run, served_disk, spawn

PROGRAMS = Path(__file__).resolve().parent / "programs"
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def listens(port, child, what, patience=30):
    until = time.monotonic() + patience
    while time.monotonic() < until:
        if child.poll() is not None:
            raise Problem(f"{what} ended with {child.returncode} at its start")
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise Problem(f"{what} does not listen after {patience} s")


@contextmanager
def running(command, **more):
    child = spawn(command, **{**QUIET, **more})
    try:
        yield child
    finally:
        end(child)


def given_to(user, directory):
    """The directory belongs to a server's own user."""
    entry = pwd.getpwnam(user)
    os.chown(directory, entry.pw_uid, entry.pw_gid)
    return {"user": entry.pw_uid, "group": entry.pw_gid}


def newest(pattern, package):
    found = sorted(Path("/").glob(pattern))
    if not found:
        raise Problem(f"{package} is missing; 'apt-get install {package}' brings it on Debian")
    return found[-1]


def disk(plumb, directory, model):
    return served_disk(plumb, "services", model, "2G", directory / "disk")


# ---- PostgreSQL --------------------------------------------------------------------------------------------

class Postgres:
    def __init__(self, directory, data):
        self.bin = newest("usr/lib/postgresql/*/bin", "postgresql")
        self.port, self.data, self.directory = free_port(), data, directory
        self.ids = given_to("postgres", data)

    def start(self, stack, settings=()):
        run(["runuser", "-u", "postgres", "--", self.bin / "initdb", "-D", self.data, "-A", "trust"], timeout=120)
        words = [self.bin / "postgres", "-D", self.data, "-p", self.port, "-k", self.data]
        for setting in settings:
            words += ["-c", setting]
        child = stack.enter_context(running(words, **self.ids, extra_groups=[]))
        listens(self.port, child, "postgres")
        until = time.monotonic() + 30
        while not (self.data / "postmaster.pid").exists() or self.ask("select 1", check=False) != "1":
            if time.monotonic() > until:
                raise Problem("postgres does not answer after 30 s")
            time.sleep(0.1)
        return child.pid

    def words(self):
        return ["psql", "-h", str(self.data), "-p", str(self.port), "-U", "postgres", "-qAtX", "postgres"]

    def ask(self, sql, check=True):
        done = subprocess.run([*self.words(), "-c", sql], capture_output=True, text=True)
        if check and done.returncode:
            raise Problem(f"psql: {done.stderr.strip()}")
        return done.stdout.strip()

    def client(self, stack, lines, pauses=None):
        """Sends the statements over and over, each after its pause, s."""
        words = [sys.executable, PROGRAMS / "statements.py", json.dumps(lines), json.dumps(pauses or [0]), *self.words()]
        stack.enter_context(running(words))


@contextmanager
def postgres(ctx, setup, clients, ask, settings=(), model=None):
    with ExitStack() as stack:
        data = ctx.directory / "data"
        if model:
            data = stack.enter_context(disk(ctx.plumb, ctx.directory, model)) / "data"
        data.mkdir()
        server = Postgres(ctx.directory, data)
        pid = server.start(stack, settings)
        for sql in setup:
            server.ask(sql)
        if model:
            Path("/proc/sys/vm/drop_caches").write_text("3")
        for lines, pauses in clients:
            server.client(stack, lines, pauses)
        yield pid, lambda: server.ask(ask)


WAITS = ("select coalesce(wait_event_type || ':' || wait_event, 'running') || ' ' || count(*) from pg_stat_activity, "
         "generate_series(1, 1) where backend_type = 'client backend' and pid <> pg_backend_pid() group by wait_event_type, wait_event")
ROWS = ["create table t(id int primary key, v int)", "insert into t select i, 0 from generate_series(1, 1000) i"]


def postgres_row_lock(ctx):
    return postgres(ctx, ROWS, [(["update t set v = v + 1 where id = 1"], [0.05]),
                                (["begin; update t set v = v + 1 where id = 1", "commit"], [0.4, 0.1])], WAITS)


def postgres_table_lock(ctx):
    return postgres(ctx, ROWS, [(["select count(*) from t"], [0.02]), (["begin; lock table t", "commit"], [0.3, 0.1])], WAITS)


def postgres_advisory_lock(ctx):
    return postgres(ctx, ROWS, [(["select pg_advisory_lock(7); select pg_sleep(0.02); select pg_advisory_unlock(7)"], None)] * 4, WAITS)


def postgres_slow_commit(ctx):
    inserts = ["insert into t values (default, repeat('x', 100))"]
    return postgres(ctx, ["create table t(id serial, v text)"], [(inserts, None)] * 2,
                    "select 'wal_sync ' || wal_sync || ', wal_write ' || wal_write || ', commits ' || (select sum(xact_commit) from pg_stat_database) from pg_stat_wal",
                    model="atlas10k4")


def postgres_cold_reads(ctx):
    return postgres(ctx, ["create table t as select i, repeat('x', 900) v from generate_series(1, 200000) i", "create index on t(i)", "vacuum analyze t", "checkpoint"],
                    [(["select v from t where i = (select (random() * 200000)::int)"], None)],
                    "select 'heap blocks read ' || heap_blks_read || ', hit ' || heap_blks_hit from pg_statio_user_tables",
                    settings=["shared_buffers=2MB"], model="gp3")


def postgres_computes(ctx):
    return postgres(ctx, ROWS, [(["select sum(a.v * b.id) from t a, t b"], None)], WAITS)


def postgres_sleeps(ctx):
    return postgres(ctx, ROWS, [(["select pg_sleep(0.05)"], [0.05])], WAITS)


# ---- MariaDB -----------------------------------------------------------------------------------------------

@contextmanager
def mariadb(ctx, setup, clients, ask, model=None):
    with ExitStack() as stack:
        data = ctx.directory / "data"
        if model:
            data = stack.enter_context(disk(ctx.plumb, ctx.directory, model)) / "data"
        data.mkdir()
        ids = given_to("mysql", data)
        if not shutil.which("mariadbd"):
            raise Problem("mariadbd is missing; 'apt-get install mariadb-server' brings it on Debian")
        run(["mariadb-install-db", "--user=mysql", f"--datadir={data}", "--auth-root-authentication-method=normal"], timeout=120)
        sock, port = data / "socket", free_port()
        words = ["mariadbd", "--no-defaults", f"--datadir={data}", f"--socket={sock}", f"--port={port}", "--bind-address=127.0.0.1",
                 f"--log-error={data}/log", f"--pid-file={data}/pid"]
        child = stack.enter_context(running(words, **ids, extra_groups=[]))
        listens(port, child, "mariadbd")
        client = ["mariadb", "-S", sock, "-u", "root", "-N", "-B"]
        run([*client, "-e", "create database t"], timeout=60)
        client.append("t")
        for sql in setup:
            run([*client, "-e", sql], timeout=60)
        for lines, pauses in clients:
            words = [sys.executable, PROGRAMS / "statements.py", json.dumps(lines), json.dumps(pauses or [0]), *map(str, client)]
            stack.enter_context(running(words))
        yield child.pid, lambda: ", ".join(" ".join(l.split()) for l in run([*client, "-e", ask], timeout=60)[0].splitlines())


STATUS = "show global status where variable_name in ('Com_insert', 'Innodb_data_fsyncs', 'Innodb_row_lock_waits', 'Innodb_row_lock_time', 'Com_select')"
TABLE = ["create table t.t(id int auto_increment primary key, v varchar(200))"]
FILLED = [*TABLE, "insert into t.t(v) select 0 from seq_1_to_500"]


def mariadb_slow_commit(ctx):
    return mariadb(ctx, TABLE, [(["insert into t(v) values (repeat('x', 150))"], None)] * 3, STATUS, model="atlas10k4")


def mariadb_row_lock(ctx):
    return mariadb(ctx, FILLED, [(["update t set v = v + 1 where id = 1"], [0.05]),
                                 (["begin; update t set v = v + 1 where id = 1", "commit"], [0.4, 0.1])], STATUS)


def mariadb_sleeps(ctx):
    return mariadb(ctx, FILLED, [(["select sleep(0.05)"], [0.05])], STATUS)


def mariadb_computes(ctx):
    return mariadb(ctx, FILLED, [(["select sum(a.id * b.id) from t a, t b"], None)], STATUS)


# ---- Redis -------------------------------------------------------------------------------------------------

@contextmanager
def redis(ctx, client, settings=(), model=None):
    with ExitStack() as stack:
        data = stack.enter_context(disk(ctx.plumb, ctx.directory, model)) if model else ctx.directory
        port = free_port()
        if not shutil.which("redis-server"):
            raise Problem("redis-server is missing; 'apt-get install redis-server' brings it on Debian")
        child = stack.enter_context(running(["redis-server", "--port", port, "--dir", data, "--save", "", *settings]))
        listens(port, child, "redis-server")
        for words in client:
            stack.enter_context(running([sys.executable, PROGRAMS / "redis.py", str(port), *words]))
        yield child.pid, lambda: re.sub(r"\s+", " ", run(["redis-cli", "-p", port, "info", "commandstats"], timeout=20)[0]).strip()


def redis_append_always(ctx):
    return redis(ctx, [["set", "{n}", "x" * 100]] * 2, ["--appendonly", "yes", "--appendfsync", "always"], model="atlas10k4")


def redis_script(ctx):
    return redis(ctx, [["eval", "local x = 0; for i = 1, 300000 do x = x + i end; return x", "0"], ["get", "a"]])


def redis_sleeps(ctx):
    return redis(ctx, [["debug", "sleep", "0.05"]], ["--enable-debug-command", "yes"])


def redis_rare_append(ctx):
    """The first answer of a round of its event loop comes after the loop's sync: what comes in the same round waits too."""
    return redis(ctx, [["get", "a", "--", "set", "{n}", "x" * 100]] * 2, ["--appendonly", "yes", "--appendfsync", "always"], model="atlas10k4")


# ---- One request in a hundred ------------------------------------------------------------------------------

OFTEN, RARELY = ["select v from t where id = 7"] * 99, ["update t set v = v + 1 where id = 1"]
HOLDER = (["begin; update t set v = v + 1 where id = 1", "commit"], [0.06, 0.01])


def postgres_rare_lock(ctx):
    return postgres(ctx, ROWS, [(OFTEN + RARELY, [0.001])] * 2 + [HOLDER], WAITS)


def mariadb_rare_lock(ctx):
    return mariadb(ctx, FILLED, [(OFTEN + RARELY, [0.001])] * 2 + [HOLDER], STATUS)


@contextmanager
def sqlite_rare_commit(ctx):
    """The program that serves is the client: there is no server."""
    if not shutil.which("sqlite3"):
        raise Problem("sqlite3 is missing; 'apt-get install sqlite3' brings it on Debian")
    with disk(ctx.plumb, ctx.directory, "atlas10k4") as directory:
        database = directory / "database"
        rows = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000) insert into t select i, 0 from n"
        run(["sqlite3", database, "create table t(id integer primary key, v int)", rows], timeout=60)
        words = [sys.executable, PROGRAMS / "statements.py", json.dumps(OFTEN + RARELY), json.dumps([0.001]), "sqlite3", database]
        with running(words) as child:
            yield child.pid, lambda: f"{database.stat().st_size} bytes"


def memcached_rare_neighbour(ctx):
    """Two threads that compute for 30 ms now and then, on the server's CPUs."""
    burst = "import time\nwhile True:\n time.sleep(0.3)\n end = time.monotonic() + 0.03\n while time.monotonic() < end: pass"
    return memcached(ctx, [sys.executable, "-c", burst])


@contextmanager
def memcached(ctx, hog=None):
    """With two clients, and as many instances of another program."""
    if not shutil.which("memcached"):
        raise Problem("memcached is missing; 'apt-get install memcached' brings it on Debian")
    with ExitStack() as stack:
        port = free_port()
        child = stack.enter_context(running(["memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", port, "-U", "0"]))
        listens(port, child, "memcached")
        for _ in range(2):
            stack.enter_context(running([sys.executable, PROGRAMS / "memcached.py", port]))
            if hog:
                stack.enter_context(running(hog))

        def gets():
            with socket.create_connection(("127.0.0.1", port)) as s:
                s.sendall(b"stats\r\n")
                return " ".join(re.findall(r"(cmd_get \d+|get_hits \d+)", s.recv(1 << 16).decode()))
        yield child.pid, gets


# ---- Web ---------------------------------------------------------------------------------------------------

@contextmanager
def web(ctx, command, clients=4, think=0.0, path="/", **more):
    """A program that takes its port as {port}, with clients that keep their connections."""
    with ExitStack() as stack:
        port = free_port()
        words = [str(w).replace("{port}", str(port)) for w in command]
        child = stack.enter_context(running(words, cwd=ctx.directory, **more))
        listens(port, child, words[0])
        counts = ctx.directory / "answered"
        stack.enter_context(running([sys.executable, PROGRAMS / "clients.py", port, clients, think, path, counts]))
        yield child.pid, lambda: counts.read_text().strip() if counts.exists() else "no client has answered yet"


def python(mode, **more):
    def case(ctx):
        return web(ctx, [sys.executable, PROGRAMS / "server.py", mode, "{port}", ctx.directory], **more)
    return case


def node(mode, **more):
    def case(ctx):
        if not shutil.which("node"):
            raise Problem("node is missing; 'apt-get install nodejs' brings it on Debian")
        return web(ctx, ["node", PROGRAMS / "server.js", mode, "{port}"], **more)
    return case


@contextmanager
def java(ctx, mode, options=(), **more):
    if not shutil.which("java"):
        raise Problem("java is missing; 'apt-get install openjdk-17-jdk-headless' brings it on Debian")
    log = ctx.directory / "gc.log"
    words = ["java", *options, f"-Xlog:gc:file={log}", "-Dsun.net.httpserver.nodelay=true", PROGRAMS / "Server.java", mode, "{port}"]
    with web(ctx, words, **more) as (pid, answered):
        def pauses():
            times = [float(m) for m in re.findall(r"Pause.* ([0-9.]+)ms", log.read_text())]
            return f"{len(times)} pauses, {sum(times):.0f} ms; {answered()}"
        yield pid, pauses


def java_collects(ctx):
    return java(ctx, "collect", ["-Xmx110m", "-XX:+UseSerialGC"])


def java_collects_in_parallel(ctx):
    return java(ctx, "collect", ["-Xmx110m", "-XX:+UseParallelGC"])


def java_monitor(ctx):
    return java(ctx, "monitor")


def java_sleeps(ctx):
    return java(ctx, "sleep")


@contextmanager
def nginx(ctx, mode, location, clients=4, think=0.0):
    with ExitStack() as stack:
        upstream, port = free_port(), free_port()
        if not shutil.which("nginx"):
            raise Problem("nginx is missing; 'apt-get install nginx-light' brings it on Debian")
        if mode:
            words = [sys.executable, PROGRAMS / "server.py", mode, upstream, ctx.directory]
            listens(upstream, stack.enter_context(running(words)), "the upstream")
        (ctx.directory / "www").mkdir()
        (ctx.directory / "www/index.html").write_text("x" * 2000)
        os.chmod(ctx.directory, 0o755)
        log = ctx.directory / "access"
        (ctx.directory / "conf").write_text(
            f"worker_processes 2; daemon off; pid {ctx.directory}/pid; error_log {ctx.directory}/errors; events {{ worker_connections 512; }}\n"
            f"http {{ log_format t '$request_time $upstream_response_time'; access_log {log} t; keepalive_requests 1000000;\n"
            f"upstream u {{ server 127.0.0.1:{upstream}; keepalive 16; }}\n"
            f"server {{ listen 127.0.0.1:{port}; root {ctx.directory}/www; {location} }} }}\n")
        child = stack.enter_context(running(["nginx", "-c", ctx.directory / "conf"]))
        listens(port, child, "nginx")
        stack.enter_context(running([sys.executable, PROGRAMS / "clients.py", port, clients, think, "/", ctx.directory / "answered"]))

        def times():
            lines = [line.split() for line in log.read_text().splitlines()]
            mean = lambda i: sum(float(l[i]) for l in lines if l[i] != "-") / max(len(lines), 1) * 1e3
            return f"{len(lines)} requests, request time {mean(0):.1f} ms, upstream {mean(1):.1f} ms (means)"
        yield child.pid, times


PROXY = 'location / { proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection ""; }'


def nginx_slow_upstream(ctx):
    return nginx(ctx, "sleep", PROXY)


def nginx_computing_upstream(ctx):
    return nginx(ctx, "gil", PROXY)


def nginx_static(ctx):
    return nginx(ctx, "", "", clients=2, think=0.002)
