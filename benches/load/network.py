#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Requests to nginx: what one costs the client's CPU, and what is said of them while the server stands still."""

import json
import os
import re
import signal
import socket
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import Bench
from common import evidence, system
from common.evidence import table
from common.stats import spread_of
from common.system import Problem, tool

PAGE = 500
PORT = 18080
CONFIG = """
daemon off; worker_processes 1; pid {dir}/pid; error_log {dir}/error;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 1000000000; server {{ listen 127.0.0.1:{port} backlog=4096; root {dir}/root; }} }}
"""
UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}


class Server:
    def __init__(self, bench, cpu):
        self.dir = bench.scratch / "nginx"
        (self.dir / "root").mkdir(parents=True)
        (self.dir / "root" / "page").write_text("x" * PAGE)
        # its worker is another user
        for path in (bench.scratch, self.dir, self.dir / "root"):
            path.chmod(0o755)
        (self.dir / "conf").write_text(CONFIG.format(dir=self.dir, port=PORT))
        self.child = system.spawn([tool("nginx", "nginx-light"), "-c", str(self.dir / "conf"), "-p", str(self.dir)], cpus={cpu})
        until = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", PORT)).close()
                return
            except OSError:
                if time.monotonic() > until or self.child.poll() is not None:
                    raise Problem(f"nginx does not answer: {(self.dir / 'error').read_text() if (self.dir / 'error').exists() else ''}")
                time.sleep(0.05)

    def workers(self):
        return [int(p) for p in Path(f"/proc/{self.child.pid}/task/{self.child.pid}/children").read_text().split()]

    def stands(self, after, still):
        """Stops for a while."""
        def stop():
            time.sleep(after)
            for pid in self.workers():
                os.kill(pid, signal.SIGSTOP)
            time.sleep(still)
            for pid in self.workers():
                os.kill(pid, signal.SIGCONT)
        thread = threading.Thread(target=stop)
        thread.start()
        return thread

    def close(self):
        system.end(self.child)


def in_ms(text):
    number, unit = re.match(r"([\d.]+)(us|ms|s|m)$", text).groups()
    return float(number) * UNITS[unit]


def plumb(bench, connections, seconds, rate=None, threads=False):
    """One worker for all connections, or a thread each."""
    many = ["--threads", connections] if threads else ["--multiplex", "epoll", "--connections", connections, "--depth", connections]
    more = ["--rate", rate] if rate else []
    command = [bench.plumb, "load", "--what", "request", "--to", f"127.0.0.1:{PORT}", "--http", "/page", *many,
               "--time", f"{seconds}s", *more, "--json", "--quiet", str(bench.scratch)]
    return [str(word) for word in command]


def plumb_threads(bench, connections, seconds, rate=None):
    return plumb(bench, connections, seconds, rate, threads=True)


def of_plumb(out):
    job = json.loads(out)["cells"][0]["rounds"][0][0]["jobs"][0]
    kind = next(k for k in job["operations"] if k["kind"] == "request")
    of = kind.get("response") or kind["service"]
    return kind["count"], kind["errors"], {f: of[f] / 1e6 for f in ("p50", "p90", "p99", "max")}


def wrk(_, connections, seconds, rate=None):
    return [tool("wrk", "wrk"), "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", f"http://127.0.0.1:{PORT}/page"]


def of_wrk(out):
    count = int(re.search(r"(\d+) requests in", out)[1])
    errors = sum(map(int, re.findall(r"(?:Non-2xx or 3xx responses: |connect |read |write |timeout )(\d+)", out)))
    quantile = {f"p{q}": in_ms(v) for q, v in re.findall(r"(50|90|99)% +(\S+)", out)}
    return count, errors, {**quantile, "max": in_ms(re.search(r"Latency +\S+ +\S+ +(\S+)", out)[1])}


TOOLS = {"plumb": (plumb, of_plumb), "plumb, a thread each": (plumb_threads, of_plumb), "wrk": (wrk, of_wrk)}
CONNECTIONS = (1, 16, 256)


def measure(options, undo):
    bench = Bench(options, undo, "load-requests", "network.py", tools={"nginx": ["nginx", "-v"]}, mib=64)
    server = Server(bench, 0)
    undo.add(f"kill {server.child.pid}")

    def cost(name, connections):
        command, read = TOOLS[name]
        words = command(bench, connections, options.seconds)
        bench.note(f"{name}, {connections} connections", words)
        out, user, kernel = system.run_measured(words, cpus={1}, good=(0, 3), timeout=options.seconds + 60)
        count, errors, ms = read(out)
        if errors:
            raise Problem(f"{name}: {errors} errors")
        return {"what": "cost", "tool": name, "connections": connections, "requests": count, "rate": count / options.seconds,
                "cpu_ns": (user + kernel) / count, **ms}

    def still(name):
        command, read = TOOLS[name]
        words = command(bench, 4, 6, options.rate)
        bench.note(f"{name}, server stopped", words)
        thread = server.stands(2, options.still)
        out, _, _ = system.run_measured(words, cpus={1}, good=(0, 3), timeout=120)
        thread.join()
        count, _, ms = read(out)
        return {"what": "still", "tool": name, "connections": 4, "requests": count, **ms}

    jobs = [("cost", name, n) for name in TOOLS for n in CONNECTIONS if n < 256 or name != "plumb, a thread each"] + [("still", name, 4) for name in TOOLS]
    bench.rounds(jobs, lambda job: cost(job[1], job[2]) if job[0] == "cost" else still(job[1]))
    server.close()
    rows, summary = [], {}
    cell = lambda s, digits=1: f"{s['median']:,.{digits}f} ({s['min']:,.{digits}f} to {s['max']:,.{digits}f})" if s else "-"
    for what, name, n in jobs:
        mine = [r for r in bench.rows if (r["what"], r["tool"], r["connections"]) == (what, name, n)]
        if what == "cost" and mine:
            got = {f: spread_of(mine, f) for f in ("rate", "cpu_ns", "p50", "p99")}
            summary[f"{name}, {n}"] = got
            rows.append([name, n, cell(got["rate"], 0), cell(got["cpu_ns"], 0), cell(got["p50"], 3), cell(got["p99"], 3)])
    lines = table(["client", "connections", "requests/s", "client's CPU ns a request", "p50 ms", "p99 ms"], rows)
    for n in CONNECTIONS:
        by_round = {}
        for r in bench.rows:
            if r["what"] == "cost" and r["connections"] == n:
                by_round.setdefault(r["round"], {})[r["tool"]] = r["cpu_ns"]
        ratios = sorted(v["plumb"] / v["wrk"] for v in by_round.values() if {"plumb", "wrk"} <= v.keys())
        if ratios:
            lines += ["", f"{n} connections: plumb's CPU time a request against wrk's, by round: {ratios[len(ratios) // 2]:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})."]
    due = options.rate * 6
    waits = sorted([0.0] * (due - round(options.rate * options.still)) + [options.still * (1 - i / (options.rate * options.still)) for i in range(round(options.rate * options.still))])
    must = {f"p{q}": waits[min(due - 1, int(due * q / 100))] * 1e3 for q in (50, 90, 99)}
    rows = []
    for name in TOOLS:
        mine = [r for r in bench.rows if r["what"] == "still" and r["tool"] == name]
        if mine:
            rows.append([name, *(cell(spread_of(mine, f), 0) for f in ("requests", "p50", "p90", "p99", "max"))])
    rows.append(["by arithmetic", f"{due:,}", *(f"{must[f]:,.0f}" for f in ("p50", "p90", "p99")), f"{options.still * 1e3:,.0f}"])
    lines += ["", f"The server is stopped for {options.still:g} s of 6 (SIGSTOP); 4 connections; plumb asks {options.rate} times a second (open loop), wrk when it was answered:", "",
              *table(["client", "requests", "p50 ms", "p90 ms", "p99 ms", "max ms"], rows)]
    about = [f"nginx with one worker on CPU 0 serves a page of {PAGE} bytes; the client is on CPU 1 with all its threads: plumb and wrk have one for all connections, and plumb as well a thread for each.",
             f"{options.seconds:g} s each, in turns."]
    bench.write("Requests to a server", about, summary, lines)


OPTIONS = [
    ("--seconds", {"type": int, "default": 5, "help": "length of a run (5)"}),
    ("--still", {"type": float, "default": 2.0, "help": "how long the server is stopped (2)"}),
    ("--rate", {"type": int, "default": 200, "help": "requests a second of the open loop (200)"}),
]

if __name__ == "__main__":
    sys.exit(evidence.main("benches/load/network.py", "What requests cost a client, and what is said of them while the server stands still.",
                           "load-requests", measure, OPTIONS, rounds=7))
