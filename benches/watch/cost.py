# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What watching takes of PostgreSQL's and nginx's throughput: closed loops that take all CPUs, with nobody, plumb watch and peers, one
after the other in another random order each round. Start it with cost.sh."""

import os
import re
import shutil
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "services"))

import servers
from common import evidence, system
from common.evidence import COMMENT, say, shown
from common.system import Problem, end, run, spawn

WORK = system.ROOT / "target" / "watch-cost"
RECORDERS = ["nobody", "watch", "watch --budget 1%", "perf top"]


@contextmanager
def recorder(name, plumb):
    """Yields a function that tells its CPU time, s, and its anonymous memory, MiB."""
    if name == "nobody":
        yield lambda: (0.0, 0.0)
        return
    kept = WORK / "kept"
    shutil.rmtree(kept, ignore_errors=True)
    if name.startswith("watch"):
        budget = name.split()[-1] if "budget" in name else "5%"
        (WORK / "watch.toml").write_text(f'directory = "{kept}"\nwindow = "10s"\nbudget = "{budget}"\n')
        words = [plumb, "watch", WORK / "watch.toml"]
    else:
        words = ["perf", "top", "--stdio", "-a", "-F", "99", "-g"]
    child = spawn(words, **servers.QUIET)
    try:
        time.sleep(4)
        if child.poll() is not None:
            raise Problem(f"{name} ended with {child.returncode}")

        def used():
            fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
            status = Path(f"/proc/{child.pid}/status").read_text()
            memory = next(int(l.split()[1]) for l in status.splitlines() if l.startswith("RssAnon"))
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), memory / 1024
        yield used
    finally:
        end(child)


class Loads:
    def __init__(self, plumb, stack):
        data = WORK / "data"
        data.mkdir()
        postgres = servers.Postgres(WORK, data)
        # What is measured is what recording takes of the CPUs, not a disk.
        postgres.start(stack, ["fsync=off", "shared_buffers=256MB"])
        self.pgbench = ["pgbench", "-h", data, "-p", postgres.port, "-U", "postgres"]
        run([*self.pgbench, "-i", "-s", "5", "-q", "postgres"], timeout=300)
        (WORK / "www").mkdir()
        (WORK / "www/index.html").write_text("x" * 2000)
        os.chmod(WORK, 0o755)
        port = servers.free_port()
        (WORK / "conf").write_text(
            f"worker_processes 2; daemon off; pid {WORK}/pid; error_log {WORK}/errors; events {{ worker_connections 512; }}\n"
            f"http {{ access_log off; keepalive_requests 100000000; server {{ listen 127.0.0.1:{port}; root {WORK}/www; }} }}\n")
        child = stack.enter_context(servers.running(["nginx", "-c", WORK / "conf"]))
        servers.listens(port, child, "nginx")
        self.url, self.wrk = f"http://127.0.0.1:{port}/", system.tool("wrk", "wrk")

    def rate(self, load, seconds):
        """Operations a second."""
        if load == "nginx":
            out, _ = run([self.wrk, "-t", "1", "-c", "8", "-d", f"{seconds}s", self.url])
            return float(re.search(r"Requests/sec:\s*([\d.]+)", out)[1])
        flag = "-S" if load == "pgbench -S" else "-N"
        out, _ = run([*self.pgbench, flag, "-M", "prepared", "-c", "4", "-T", seconds, "postgres"], timeout=300)
        return float(re.search(r"tps = ([\d.]+)", out)[1])


def measure(options, undo):
    plumb = Path(options.plumb).absolute()
    machine = system.Machine(plumb, {"perf": ["perf", "--version"], "pgbench": ["pgbench", "--version"], "nginx": ["nginx", "-v"]})
    out = evidence.results_directory(options.out, "watch-cost")
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    rows, left_out = [], {}
    loads = ["pgbench -N", "pgbench -S", "nginx"]
    with ExitStack() as stack:
        work = Loads(plumb, stack)
        for load in loads:
            work.rate(load, 3)
        jobs = [(load, name) for load in loads for name in RECORDERS]
        for number, place, (load, name) in evidence.interleaved(jobs, options.rounds):
            if name in left_out:
                continue
            try:
                with recorder(name, plumb) as used:
                    before, begin = used()[0], time.monotonic()
                    rate = work.rate(load, options.seconds)
                    after, memory = used()
                    cpu = (after - before) / (time.monotonic() - begin)
            except Problem as e:
                left_out[name] = str(e)
                say(f"bench: SKIP {name}: {e}")
                continue
            rows.append({"round": number, "place": place, "load": load, "recorder": name, "rate": rate, "cpu": cpu, "memory_mib": memory})
    out.mkdir(parents=True, exist_ok=True)
    facts = machine.done()
    evidence.write_csv(out / "rows.csv", rows)
    evidence.write_json(out / "machine.json", facts)
    table = []
    for load in loads:
        plain = {r["round"]: r["rate"] for r in rows if r["load"] == load and r["recorder"] == "nobody"}
        for name in RECORDERS:
            mine = [r for r in rows if r["load"] == load and r["recorder"] == name and r["round"] in plain]
            if not mine:
                continue
            ratios = sorted(r["rate"] / plain[r["round"]] for r in mine)
            middle = lambda key: sorted(r[key] for r in mine)[len(mine) // 2]
            table.append([load, name, f"{middle('rate'):,.0f}/s", f"{ratios[len(ratios) // 2]:.3f} ({ratios[0]:.3f}-{ratios[-1]:.3f})",
                          f"{middle('cpu') * 100:.1f} %", f"{middle('memory_mib'):.0f} MiB"])
    lines = [COMMENT, "# What watching takes", "", *evidence.machine_lines(facts, ["perf", "pgbench", "nginx"]), "",
             f"{options.rounds} rounds, {options.seconds} s each, in random order; the ratio is to nobody of the same round: median, smallest and largest.",
             "Loads are closed loops that take all CPUs: what a recorder takes, they lose.", "",
             *evidence.table(["load", "recorder", "rate", "ratio", "CPU of the recorder (of one)", "its anonymous memory"], table),
             *evidence.left_out_lines(left_out)]
    (out / "summary.md").write_text(shown("\n".join(lines), [(WORK, "DIR")]) + "\n")
    (out / "plan.md").write_text("\n".join([COMMENT, "# Plan", "", "benches/watch/cost.py; pgbench has 4 clients and prepared statements, fsync is off; wrk has one thread and 8 connections.", ""]))
    shutil.rmtree(WORK, ignore_errors=True)
    say(f"bench: {shown(out, [])}")


OPTIONS = [("--seconds", {"type": int, "default": 10, "help": "how long each is measured (10)"})]

if __name__ == "__main__":
    sys.exit(evidence.main("benches/watch/cost.sh", __doc__, "watch-cost", measure, OPTIONS, rounds=5))
