# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Has 'plumb watch' record PostgreSQL and nginx for an hour. Four kinds of incidents are injected three times each, at
known moments; the watch is killed once and restarted once. Every incident must be caught by its trigger, once, in a run whose
moment lies in the incident and whose account names its cause. Start it with run.sh."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "services"))

import servers
from common import evidence, system
from common.evidence import COMMENT, say, shown
from common.system import Problem, run, spawn

HERE = Path(__file__).resolve().parent
WORK = system.ROOT / "target" / "watch"
# Name of the trigger, its condition, what it names: a category of the thread's time, and words of who it waited for.
KINDS = {
    "table-lock": ("answer of postgres > 500ms", "lock.peer", "postgres"),
    "disk-stall": ("fdatasync > 300ms", "", ""),
    "cpu-hog": ("runqueue > 250ms", "", ""),
    "slow-upstream": ("answer of nginx > 500ms", "", ""),
}
CONFIG = """directory = "{dir}"
window = "{window}"
restart = "{restart}"
"""
TRIGGER = """[[trigger]]
name = "{name}"
when = "{when}"
every = "{every}"
"""


class Watched:
    """The servers, their clients, and how each incident is made."""

    def __init__(self, plumb, stack):
        self.plumb, self.stack = plumb, stack
        disk = stack.enter_context(servers.disk(plumb, WORK, "gp3"))
        told = json.loads(run([plumb, "disk", "list", "--json"])[0])
        self.disk = next(d for d in told["disks"] if d["name"] == "services")
        (disk / "data").mkdir()
        self.postgres = servers.Postgres(WORK, disk / "data")
        self.postgres.start(stack, ["max_connections=50"])
        words = ["pgbench", "-h", disk / "data", "-p", self.postgres.port, "-U", "postgres"]
        run([*words, "-i", "-s", "5", "-q", "postgres"], timeout=300)
        load = [*words, "-N", "-c", "4", "-T", "86400", "--rate", "100", "postgres"]
        self.pgbench = stack.enter_context(servers.running(load))
        self.slow = WORK / "slow"
        upstream, port = servers.free_port(), servers.free_port()
        child = stack.enter_context(servers.running([sys.executable, HERE / "upstream.py", upstream, self.slow]))
        servers.listens(upstream, child, "the upstream")
        (WORK / "conf").write_text(
            f"worker_processes 2; daemon off; pid {WORK}/pid; error_log {WORK}/errors; events {{ worker_connections 512; }}\n"
            f"http {{ access_log off; keepalive_requests 1000000; upstream u {{ server 127.0.0.1:{upstream}; keepalive 16; }}\n"
            f"server {{ listen 127.0.0.1:{port}; {servers.PROXY} }} }}\n")
        os.chmod(WORK, 0o755)
        child = stack.enter_context(servers.running(["nginx", "-c", WORK / "conf"]))
        servers.listens(port, child, "nginx")
        clients = [sys.executable, servers.PROGRAMS / "clients.py", port, 2, 0.02, "/", WORK / "answered"]
        stack.enter_context(servers.running(clients))

    def incident(self, kind):
        if kind == "table-lock":
            # In statements of its own, so that it is the others whose answers are late.
            locker = spawn(self.postgres.words(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            locker.stdin.write(b"begin; lock table pgbench_accounts in access exclusive mode;\n")
            locker.stdin.flush()
            time.sleep(0.8)
            locker.stdin.write(b"commit;\n")
            locker.stdin.close()
            locker.wait(30)
        elif kind == "disk-stall":
            os.kill(self.disk["pid"], signal.SIGSTOP)
            try:
                time.sleep(0.45)
            finally:
                os.kill(self.disk["pid"], signal.SIGCONT)
        elif kind == "cpu-hog":
            spin = "import time\nend = time.monotonic() + 0.45\nwhile time.monotonic() < end: pass"
            hogs = [spawn(["chrt", "-f", "50", "taskset", "-c", cpu, sys.executable, "-c", spin])
                    for cpu in range(os.cpu_count())]
            for hog in hogs:
                hog.wait()
        else:
            self.slow.write_text("")
            time.sleep(1)


class Watch:
    """The daemon, its memory and CPU time."""

    def __init__(self, plumb, config, log):
        self.words, self.log = [plumb, "watch", config], log
        self.child, self.used, self.samples = None, 0.0, []

    def start(self):
        self.child = spawn(self.words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.log)

    def look(self, now):
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        status = Path(f"/proc/{self.child.pid}/status").read_text()
        rss = next(int(l.split()[1]) for l in status.splitlines() if l.startswith("VmRSS"))
        anonymous = next(int(l.split()[1]) for l in status.splitlines() if l.startswith("RssAnon"))
        cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        descriptors = len(os.listdir(f"/proc/{self.child.pid}/fd"))
        self.samples.append({"second": round(now), "rss_mib": rss / 1024, "anonymous_mib": anonymous / 1024,
                             "cpu_seconds": cpu, "descriptors": descriptors, "pid": self.child.pid})

    def stop(self, sign):
        os.kill(self.child.pid, sign)
        self.child.wait(60)


def wall():
    return datetime.now(timezone.utc).timestamp()


def judged(plumb, directory):
    """What a run says of its trigger: kind, moment (seconds after 1970), verdict, the largest parts."""
    result = json.loads(run([plumb, "explain", directory, "--json"], timeout=300)[0])
    trigger = result.get("trigger") or {}
    parts = [f"{p.get('name') or p['category']} {p['time'] / 1e6:.0f} ms" for p in trigger.get("parts", [])[:3]]
    stamp = datetime.strptime(directory.name[:15], "%Y%m%d-%H%M%S").replace(tzinfo=timezone.utc).timestamp()
    return {"run": directory.name, "kind": directory.name[16:].removesuffix("-2").removesuffix("-3"), "at": stamp,
            "took_ms": trigger.get("time", 0) / 1e6, "who": trigger.get("comm", ""), "parts": parts, "raw": trigger,
            "verdict": result["verdict"], "elapsed": result.get("elapsed"), "begin": trigger.get("at")}


def windows_of(directory):
    lines = []
    for path in sorted((directory / "windows").glob("*.jsonl")):
        lines += [json.loads(l) for l in path.read_text().splitlines()]
    return [l for l in lines if "at" in l]


def measure(options, undo):
    plumb = Path(options.plumb).absolute()
    machine = system.Machine(plumb, {"pgbench": ["pgbench", "--version"], "nginx": ["nginx", "-v"]})
    out = evidence.results_directory(options.out, "watch")
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    kept, config = WORK / "kept", WORK / "watch.toml"
    seconds = options.minutes * 60
    every = max(10, int(seconds / 14))
    text = CONFIG.format(dir=kept, window=options.window, restart=options.restart or f"{max(30, seconds // 5)}s")
    text += "".join(TRIGGER.format(name=n, when=k[0], every=f"{every}s") for n, k in KINDS.items())
    config.write_text(text)
    made, ends = [], []
    with ExitStack() as stack:
        watched = Watched(plumb, stack)
        time.sleep(5)
        log = stack.enter_context((WORK / "log").open("w"))
        watch = Watch(plumb, config, log)
        watch.start()
        stack.callback(lambda: watch.child.poll() is None and watch.stop(signal.SIGTERM))
        begin, kinds = time.monotonic(), list(KINDS) * 3
        # In the middle of the twelve gaps between incidents.
        step = seconds / (len(kinds) + 1)
        plan = [((n + 1) * step, kind) for n, kind in enumerate(kinds)]
        plan += [(4.5 * step, "kill -9"), (8.5 * step, "restart")]
        plan.sort()
        while plan or time.monotonic() - begin < seconds:
            now = time.monotonic() - begin
            watch.look(now)
            if watch.child.poll() is not None:
                raise Problem(f"plumb watch ended with {watch.child.returncode}; see target/watch/log")
            if plan and now >= plan[0][0]:
                _, what = plan.pop(0)
                if what in KINDS:
                    at = wall()
                    watched.incident(what)
                    made.append({"kind": what, "at": at, "end": wall()})
                else:
                    at = wall()
                    watch.stop(signal.SIGKILL if what == "kill -9" else signal.SIGTERM)
                    watch.start()
                    ends.append({"what": what, "at": at})
                say(f"bench: {now / 60:.1f} min: {what}")
            time.sleep(2)
        time.sleep(10)
        watch.stop(signal.SIGTERM)
    runs = [judged(plumb, d) for d in sorted((kept / "runs").iterdir())]
    for incident in made:
        near = [r for r in runs if incident["at"] - 2 <= r["at"] <= incident["end"] + 2]
        incident["caught"] = [r for r in near if r["kind"] == incident["kind"]]
        incident["also"] = [r["kind"] for r in near if r["kind"] != incident["kind"]]
    claimed = {r["run"] for i in made for r in i["caught"]} | {r["run"] for r in runs for i in made
                                                              if i["at"] - 2 <= r["at"] <= i["end"] + 2}
    others = [r for r in runs if r["run"] not in claimed]
    found = windows_of(kept)
    asked = run([plumb, "query", "select count(*), sum(requests > 0), max(longest_ns) from window_services where service like '%postgres%'",
                 "--csv", kept])[0]
    out.mkdir(parents=True, exist_ok=True)
    write(out, machine.done(), options, plumb, made, others, ends, found, watch.samples, asked, config.read_text(), runs)
    if not options.keep:
        shutil.rmtree(WORK, ignore_errors=True)
    say(f"bench: {shown(out, [])}")


def write(out, facts, options, plumb, made, others, ends, found, samples, asked, config, runs):
    names = [(WORK, "DIR"), (plumb, "plumb"), (system.ROOT, "DIR")]
    starts = [datetime.fromisoformat(w["at"].replace("Z", "+00:00")).timestamp() for w in found]
    gaps = [(b - a - w["seconds"], a) for a, b, w in zip(starts, starts[1:], found)]
    lost = sum(w["lost"] for w in found)
    steady = [s for s in samples if s["second"] > 60] or samples
    rss = sorted(s["anonymous_mib"] for s in steady)
    half = steady[len(steady) // 2]["second"]
    early = sorted(s["anonymous_mib"] for s in steady if s["second"] <= half)
    late = sorted(s["anonymous_mib"] for s in steady if s["second"] > half)
    open_files = [max(s["descriptors"] for s in steady if (s["second"] > half) == later) for later in (False, True)]
    cpu = sum(max(s["cpu_seconds"] for s in samples if s["pid"] == pid) for pid in {s["pid"] for s in samples})
    events = sorted(w["events"] for w in found)
    paused = sorted(w["paused"] for w in found)
    middle = lambda values: values[len(values) // 2] if values else 0
    once = sum(len(i["caught"]) == 1 for i in made)
    lines = [COMMENT, f"# {options.minutes} minutes of plumb watch", "", *evidence.machine_lines(facts, ["pgbench", "nginx"]), "",
             f"    incidents caught once  {once} of {len(made)}",
             f"    other runs             {len(others)} besides those within an incident",
             f"    windows                {len(found)}, {lost} events lost, {middle(events):,.0f} events/s (median), paused {middle(paused) * 100:.1f} % (median)",
             f"    anonymous memory       {middle(early):.0f} MiB in the first half, {middle(late):.0f} MiB in the second, {rss[-1]:.0f} MiB at most",
             f"    descriptors            at most {open_files[0]} in the first half, {open_files[1]} in the second",
             f"    CPU time               {cpu / (options.minutes * 60) / (os.cpu_count() or 1) * 100:.2f} % of {os.cpu_count()} CPUs",
             f"    query                  {asked.splitlines()[-1]} (windows of postgres, those with requests, its longest answer in ns)", "",
             "Gaps between windows: " + ("; ".join(f"{g:.1f} s behind {datetime.fromtimestamp(a, timezone.utc):%H:%M:%S}" for g, a in gaps if abs(g) > 0.5) or "none")
             + ". Ended: " + ", ".join(f"{e['what']} at {datetime.fromtimestamp(e['at'], timezone.utc):%H:%M:%S}" for e in ends) + ".", ""]
    rows = []
    for i in made:
        r = i["caught"][0] if i["caught"] else None
        rows.append([i["kind"], f"{datetime.fromtimestamp(i['at'], timezone.utc):%H:%M:%S}", len(i["caught"]), ", ".join(i["also"]) or "-",
                     f"{r['took_ms']:.0f} ms of {r['who']}: {', '.join(r['parts'])}" if r else "-"])
    lines += evidence.table(["incident", "at (UTC)", "runs", "runs of other triggers", "what the run's account says of its moment"], rows)
    for i in made:
        for r in i["caught"]:
            lines += ["", f"## {i['kind']}: {r['run']}", ""] + [f"    {l}" for l in r["verdict"]]
    if others:
        lines += ["", "## Other runs", ""] + [f"- {r['run']}: {r['verdict'][0]}" for r in others]
    lines += ["", "## What was watched", "", "    " + config.replace("\n", "\n    ").rstrip()]
    (out / "summary.md").write_text(shown("\n".join(lines), names) + "\n")
    evidence.write_json(out / "machine.json", facts)
    evidence.write_csv(out / "memory.csv", samples)
    plain = json.dumps({"incidents": made, "others": others, "ends": ends, "runs": runs}, indent=1)
    (out / "incidents.json").write_text(shown(plain, names) + "\n")
    (out / "windows.jsonl").write_text(shown("\n".join(json.dumps(w) for w in found), names) + "\n")
    plan = [COMMENT, "# Plan", "", "benches/watch/run.py: PostgreSQL on a served disk (gp3) with pgbench -N at 100 transactions/s, nginx before an upstream with two "
            f"clients; `plumb watch` for {options.minutes} min; four kinds of incidents three times each, evenly over the time; kill -9 and a restart between two.", ""]
    (out / "plan.md").write_text("\n".join(plan))


OPTIONS = [("--minutes", {"type": int, "default": 60, "help": "how long (60)"}),
           ("--window", {"default": "1m", "help": "length of a window (1m)"}),
           ("--restart", {"default": "", "help": "a new recording takes over after this long (a fifth of the time)"}),
           ("--keep", {"action": "store_true", "help": "leave windows and runs in target/watch"})]

if __name__ == "__main__":
    sys.exit(evidence.main("benches/watch/run.sh", __doc__, "watch", measure, OPTIONS))
