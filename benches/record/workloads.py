# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What plumb's default recording costs programs that do real work: throughput under each recorder against that without
one in the same round; and how long after Ctrl-C the verdict is there. Start it with workloads.sh."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "services")]

import servers
from common import evidence, stats, system
from common.evidence import COMMENT, say, shown
from common.system import Problem, end, run, spawn, tool

WORK = system.ROOT / "target" / "workloads"
CLIENTS = 4
SOURCES, FUNCTIONS = 8, 150
UNTIL_ON = 1.0


# ---- loads: each yields the process to record, or None for a command, and the command with its figure ------------

def pgbench(mode):
    def load(stack, directory, seconds):
        data = directory / "data"
        data.mkdir()
        server = servers.Postgres(directory, data)
        pid = server.start(stack, ["shared_buffers=256MB"])
        words = ["pgbench", "-h", data, "-p", server.port, "-U", "postgres"]
        run([*words, "-i", "-q", "-s", "5", "postgres"])
        command = [*words, *mode, "-n", "-c", CLIENTS, "-T", seconds, "postgres"]
        return pid, command, lambda out: float(re.search(r"tps = ([\d.]+)", out).group(1))
    return load


def nginx(stack, directory, seconds):
    if not shutil.which("ab"):
        raise Problem("ab is missing; 'apt-get install apache2-utils' brings it on Debian")
    if not shutil.which("nginx"):
        raise Problem("nginx is missing; 'apt-get install nginx-light' brings it on Debian")
    port, www = servers.free_port(), directory / "www"
    www.mkdir()
    (www / "page").write_text("x" * 500)
    conf = directory / "conf"
    conf.write_text(f"daemon off; user root; worker_processes 1; pid {directory}/pid; error_log {directory}/log; events {{}}\n"
                    f"http {{ access_log off; server {{ listen 127.0.0.1:{port}; root {www}; keepalive_requests 1000000000; }} }}\n")
    child = stack.enter_context(servers.running(["nginx", "-c", conf]))
    servers.listens(port, child, "nginx")
    command = ["ab", "-q", "-k", "-c", CLIENTS, "-t", seconds, "-n", 100_000_000, f"http://127.0.0.1:{port}/page"]
    return child.pid, command, lambda out: float(re.search(r"Requests per second:\s+([\d.]+)", out).group(1))


def build(stack, directory, seconds):
    for i in range(SOURCES):
        body = "\n".join(f"int f{i}_{j}(int x) {{ int s = 0; for (int k = 0; k < x; k++) s += k * {j}; return s; }}" for j in range(FUNCTIONS))
        (directory / f"f{i}.c").write_text(body)
    objects = " ".join(f"f{i}.o" for i in range(SOURCES))
    (directory / "Makefile").write_text(f"all: {objects}\n%.o: %.c\n\tgcc -O1 -c -o $@ $<\n")
    # The build's own time: not that of a recorder's begin and end.
    inner = f"s=$(date +%s%N); make -B -s -j2 -C {directory} all >/dev/null; echo took $(( $(date +%s%N) - s ))"
    return None, ["sh", "-c", inner], lambda out: 1e9 / float(re.search(r"took (\d+)", out).group(1))


def fio(stack, directory, seconds):
    tool("fio", "fio")
    command = ["fio", "--output-format=json", "--name=r", f"--filename={directory}/file", "--size=256M", "--rw=randread", "--bs=4k",
               "--direct=1", "--ioengine=libaio", "--iodepth=4", "--time_based", f"--runtime={seconds}"]
    run([*command[:-2], "--create_only=1"])
    return None, command, lambda out: json.loads(out[out.index("{"):])["jobs"][0]["read"]["iops"]


LOADS = {"pgbench-select": ("transactions/s", pgbench(["-S"])), "pgbench-simple-update": ("transactions/s", pgbench(["-N"])),
         "nginx": ("requests/s", nginx), "build": ("builds/s", build), "fio-randread": ("reads/s", fio)}


# ---- recorders: each wraps a command, or runs beside it ------------------------------------------------------

def plumb(program, more=(), verb="record"):
    def words(pid):
        trace = WORK / verb
        shutil.rmtree(trace, ignore_errors=True)
        target = ["--pid", pid] if pid and "-a" not in more else []
        return [program, verb, "--quiet", *more, *target, "-o", trace]
    return words


def perf(*more):
    return lambda pid: ["perf", *more, "-q", "-o", WORK / "perf.data"]


def recorders(options, program):
    found = {"none": None, "plumb record": plumb(program), "plumb run": plumb(program, verb="run")}
    if options.everybody:
        found["plumb run -a"] = plumb(program, ["-a"], verb="run")
    if options.before:
        before = Path(options.before).absolute()
        found["plumb record, before"] = plumb(before)
        found["plumb run, before"] = plumb(before, verb="run")
    for part in options.parts.split(",") if options.parts else []:
        found[f"plumb {part}"] = plumb(program, part.split("+"))
    tool("perf", "linux-perf")
    return {**found, "perf record -a -g": perf("record", "-a", "-g"), "perf sched record": perf("sched", "record")}


def once(words, pid, command):
    """Output of a command under a recorder; of plumb run also seconds from Ctrl-C to its first word, and its events."""
    if words is None:
        return run(command)[0], None
    if pid is None:
        return run([*words(None), "--", *command])[0], None
    recorder, told = words(pid), None
    verdict = recorder[1] == "run"
    child = spawn(recorder, **{**servers.QUIET, "stdout": subprocess.PIPE if verdict else subprocess.DEVNULL})
    try:
        time.sleep(UNTIL_ON)
        if child.poll() is not None:
            raise Problem(f"{recorder[0]} ended with {child.returncode} at its start")
        out = run(command)[0]
    finally:
        child.send_signal(signal.SIGINT)
        asked = time.monotonic()
        if verdict:
            child.stdout.read(1)
            told = time.monotonic() - asked
            child.stdout.read()
        child.wait()
        end(child)
    if verdict:
        told = (told, json.loads((recorder[-1] / "run.json").read_text())["recording"]["events"])
    return out, told


def measure(options, undo):
    directory = evidence.results_directory(options.out, "record-workloads")
    program = Path(options.plumb).absolute()
    machine = system.Machine(program, {})
    wanted, rows, left_out = options.only.split(",") if options.only else list(LOADS), [], {}
    tools = recorders(options, program)
    for name in wanted:
        unit, load = LOADS[name]
        shutil.rmtree(WORK, ignore_errors=True)
        (WORK / name).mkdir(parents=True)
        (WORK / name).chmod(0o755)
        try:
            with ExitStack() as stack:
                pid, command, figure = load(stack, WORK / name, options.seconds)
                for number, place, recorder in evidence.interleaved(list(tools), options.rounds):
                    out, told = once(tools[recorder], pid, command)
                    verdict, events = told or ("", "")
                    rows.append({"load": name, "unit": unit, "round": number, "place": place, "tool": recorder, "value": figure(out),
                                 "verdict_s": verdict, "events": events})
        except Problem as e:
            left_out[name] = str(e)
            say(f"bench: SKIP {name}: {e}")
    shutil.rmtree(WORK, ignore_errors=True)
    write(directory, rows, tools, machine.done(), options, left_out, program)


def write(directory, rows, tools, facts, options, left_out, program):
    directory.mkdir(parents=True, exist_ok=True)
    lines = [COMMENT, "# What the default recording costs programs", "", *evidence.machine_lines(facts, []), "",
             f"Throughput under each recorder against that without one in the same round; {options.rounds} rounds of {options.seconds} s "
             "each, recorders in random order. 95 %: bootstrap interval of the median change.", ""]
    for load in dict.fromkeys(r["load"] for r in rows):
        mine = [r for r in rows if r["load"] == load]
        table = []
        for name in tools:
            values = [r["value"] for r in mine if r["tool"] == name]
            base = {r["round"]: r["value"] for r in mine if r["tool"] == "none"}
            changes = [r["value"] / base[r["round"]] - 1 for r in mine if r["tool"] == name]
            low, high = stats.bootstrap_median(changes)
            change = ["-", "-"] if name == "none" else [f"**{stats.quantile(changes, 0.5):+.1%}**", f"{low:+.1%} to {high:+.1%}"]
            table.append([name, f"{stats.quantile(values, 0.5):,.4g}" if stats.quantile(values, 0.5) < 100 else f"{stats.quantile(values, 0.5):,.0f}", *change])
        lines += ["", f"## {load}", "", *evidence.table(["recorder", mine[0]["unit"], "change: median", "95 %"], table)]
        told = [[name, f"{stats.quantile([r['events'] for r in rs], 0.5):,.0f}", f"{stats.quantile([r['verdict_s'] for r in rs], 0.5):.2f}",
                 f"{max(r['verdict_s'] for r in rs):.2f}"]
                for name in tools if (rs := [r for r in mine if r["tool"] == name and r["events"] != ""])]
        if told:
            lines += ["", *evidence.table(["Ctrl-C to the first word of", "events", "median s", "longest s"], told)]
    lines += evidence.left_out_lines(left_out)
    (directory / "summary.md").write_text(shown("\n".join(lines), [(program, "plumb"), (WORK, "DIR")]) + "\n")
    evidence.write_csv(directory / "raw.csv", rows)
    evidence.write_json(directory / "machine.json", facts)
    words = [f"- {name}: `{shown(' '.join(map(str, of('PID'))), [(program, 'plumb'), (WORK, 'DIR')])}`" for name, of in tools.items() if of]
    plan = [COMMENT, "# Plan", "", f"Loads: {', '.join(LOADS)} ({CLIENTS} clients; fio: queue depth 4). Servers are recorded by the process id "
            "of the first process, `make` and fio as commands of the recorder.", "", *words, ""]
    (directory / "plan.md").write_text("\n".join(plan))
    say(f"bench: {shown(directory, [])}")


OPTIONS = [("--only", {"help": f"these loads, separated by commas ({', '.join(LOADS)})", "metavar": "NAME,..."}),
           ("--seconds", {"type": int, "default": 5, "help": "how long each load runs (5)"}),
           ("--everybody", {"action": "store_true", "help": "plumb run -a too"}),
           ("--before", {"help": "another plumb to compare with", "metavar": "PLUMB"}),
           ("--parts", {"help": "plumb with these options too, as '-e+sched,--sample+0': + for a space", "metavar": "OPTIONS,..."})]

if __name__ == "__main__":
    sys.exit(evidence.main("benches/record/workloads.sh", __doc__, "record-workloads", measure, OPTIONS, rounds=10))
