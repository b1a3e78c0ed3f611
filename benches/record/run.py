# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The benchmark of the recorder's cost; start it with run.sh."""

import json
import os
import random
import statistics
import sys
from contextlib import nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import figures
from common import evidence, system
from common.evidence import interleaved, say, write_csv, write_json
from common.system import ROOT, TRACEFS, Problem, fio_job, run, tool
from loads import HERE, PRIORITY, Loop, Test, fio_words, tests
from recorders import PEERS, Count, Empty, Plumb, Recorder
from report import summary_md

DEVICE_MIB = 256
SUSTAINED_RATE = 300_000
TOOLS = {
    "perf": ["perf", "--version"],
    "bpftrace": ["bpftrace", "--version"],
    "fio": ["fio", "--version"],
    "clang": ["clang-14", "--version"],
    "gcc": ["gcc", "--version"],
}


class Bench:
    def __init__(self, options, scratch):
        cpus = sorted(os.sched_getaffinity(0))
        self.options = options
        self.scratch = scratch
        self.cpu = cpus[-1]
        self.other_cpus = set(cpus[:-1]) or {self.cpu}
        self.plumb = Path(options.plumb).resolve()
        self.trace_dir = scratch / "trace"
        self.load, self.hold, self.object = scratch / "load", scratch / "hold", scratch / "empty.bpf.o"
        self.device = None
        self.rows = []
        self.left_out = {}

    def shown(self, text):
        return evidence.shown(text, ((self.scratch, "SCRATCH"), (self.device, "DEVICE")))

    def build(self):
        run([tool("gcc", "gcc"), "-O2", "-Wall", "-o", self.load, HERE / "load.c"])
        run([tool("gcc", "gcc"), "-O2", "-Wall", "-o", self.hold, HERE / "hold.c", "-lbpf"])
        headers = f"-I/usr/include/{os.uname().machine}-linux-gnu"
        run([tool("clang-14", "clang-14"), "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", headers,
             "-c", HERE / "empty.bpf.c", "-o", self.object])

    def make_device(self):
        image = self.scratch / "image"
        with image.open("wb") as f:
            for _ in range(DEVICE_MIB):
                f.write(os.urandom(1 << 20))
        self.device, self.keeper = system.loop_device(image)

    def once(self, test, recorder):
        """One run: what it saw and its batches' times."""
        out = self.scratch / "times"
        load = test.load(self, out)
        if test.name in ("read", "fio"):
            with system.workers_on(self.cpu):
                seen = recorder.run(test, load)
        else:
            seen = recorder.run(test, load)
        return seen, test.times(out)

    def count_events(self, every):
        """How many events a unit of each load makes."""
        counter = Count(self)
        for test in every:
            if not isinstance(test, Loop):
                continue
            runs = []
            for _ in range(3):
                with system.workers_on(self.cpu):
                    runs.append(counter.hold(test, test.load(self, self.scratch / "times")))
            per = lambda hits: sum(hits.values()) / test.units()
            least = min(runs, key=per)
            test.hits = {name: round(n / test.units(), 3) for name, n in least.items() if n > test.units() / 100}
            # the rest of the machine makes some events too: a load makes a whole number
            test.per_unit = sum(round(n) if abs(n - round(n)) < 0.02 else n for n in test.hits.values())
        read = next(t for t in every if t.name == "read")
        for test in every:
            if test.per_unit is None:
                test.per_unit, test.hits = read.per_unit, read.hits

    def usable(self, every):
        """The recorders that can run each test, tried once."""
        recorders = []
        for kind in PEERS if every else []:
            recorder = kind(self)
            try:
                recorder.usable()
                recorder.run(every[0], every[0].load(self, self.scratch / "times"))
                recorders.append(recorder)
            except (Problem, OSError) as e:
                if kind in (Recorder, Empty, Plumb):
                    raise
                self.left_out[recorder.name] = self.shown(e)
                say(f"left out: {recorder.name}: {self.left_out[recorder.name]}")
        return recorders

    def rounds(self, every, recorders, n):
        jobs = [(t, r) for t in every for r in recorders]
        jobs += [(t, r) for t, r in jobs if r.name == "none"]  # the base enters every figure
        for number, place, (test, recorder) in interleaved(jobs, n):
            self.row(number, place, test, recorder)

    def row(self, number, place, test, recorder):
        alone = system.alone()
        try:
            seen, times = self.once(test, recorder)
        except (Problem, OSError) as e:
            self.left_out[f"{recorder.name} in {test.name}, round {number}"] = self.shown(e)
            return
        alone = alone and not system.foreign_programs()
        wall, cpu = [t[0] for t in times], [t[1] for t in times]
        self.rows.append({
            "test": test.name, "round": number, "place": place, "recorder": recorder.name,
            "wall_median": statistics.median(wall), "wall_min": min(wall),
            "cpu_median": statistics.median(cpu), "cpu_min": min(cpu),
            "units": test.units(), "events_made": round(test.units() * test.per_unit),
            "events_seen": seen.events, "events_lost": seen.lost,
            "alone": int(alone), "load1": system.load_average()[0],
        })

    def sustained(self, seconds):
        """A steady stream of events. As a user runs it: only the load is pinned."""
        test = Test("sustained", "event", [], "sys_enter,sched_switch", None)
        plumb = Plumb(self)
        out = self.scratch / "times"
        load = [self.load, "rate", out, self.cpu, 0, seconds, SUSTAINED_RATE]
        told = plumb.record(test, load, None)
        wall, load_cpu, trips, calls = map(float, out.read_text().split())
        whole = (told["end"] - told["begin"]) / 1e9
        return {
            "command": self.shown(f"{plumb.command(test)[:-4]}{' '.join(map(str, load))}"),
            "seconds": round(whole, 3),
            "events_made_at_least": int(2 * trips + calls),
            "events": told["events"],
            "events_per_second": round(told["events"] / whole),
            "lost": told["lost"],
            "missed": told["missed"],
            "load_cpu_share": round(load_cpu / wall, 4),
            "recorder_cpu_share": round(told["recorder_cpu"] / 1e9 / whole, 4),
            "trace_bytes": told["trace_bytes"],
            "bytes_per_event": round(told["trace_bytes"] / told["events"], 2),
        }

    def iops(self, pairs, seconds, disk):
        """fio with plumb's default events against fio alone, in turns: on a
        file in memory with everything on one CPU (the worst case: nothing to
        wait for), and on a file of this machine's disk, as it comes."""
        rows = []
        out = self.scratch / "times"
        plumb = Plumb(self)
        cases = (
            ("memory, one CPU; default", True, self.device, "default", 1),
            ("disk; default", False, disk, "default", 1),
            ("disk; block", False, disk, "block,-block_plug,-block_unplug", 1),
            ("disk, 8 at once; default", False, disk, "default", 8),
        )
        for where, pinned, device, events, jobs in cases:
            default = Test("iops", "read", [], events, None)
            job = fio_words(self, out, seconds, device) + [f"--numjobs={jobs}", "--group_reporting"]
            if pinned:
                job = [tool("taskset", "util-linux"), "-c", self.cpu, *job]
            for pair in range(pairs):
                row = {"where": where, "pair": pair + 1}
                for what in random.sample(["none", "plumb"], 2):
                    cpus = self.other_cpus if pinned else None
                    with system.workers_on(self.cpu) if pinned else nullcontext():
                        if what == "plumb":
                            told = plumb.record(default, job, cpus)
                            row["events"], row["lost"] = told["events"], told["lost"] + told["missed"]
                            row["events_per_second"] = round(told["events"] * 1e9 / (told["end"] - told["begin"]))
                        else:
                            run(job, cpus)
                    row[f"{what}_iops"] = fio_job(out.read_text())["read"]["iops"]
                    row[f"{what}_reads"] = fio_job(out.read_text())["read"]["total_ios"]
                row["ratio"] = row["plumb_iops"] / row["none_iops"]
                row["load1"] = system.load_average()[0]
                rows.append(row)
        say("iops done")
        return rows

    def disk_device(self, undo):
        """A loop device over a file of this machine's disk, past its page cache."""
        image = ROOT / "target" / "bench-record-image"
        undo.add(f"rm -f {image}")
        image.parent.mkdir(exist_ok=True)
        with image.open("wb") as f:
            for _ in range(1024):
                f.write(os.urandom(1 << 20))
            os.fsync(f.fileno())
        device, self.disk_keeper = system.loop_device(image, "--direct-io=on")
        return device

    def measured_by_kernel(self):
        try:
            out, _ = run([self.plumb, "events", "--measure", "--json"])
            return {e["name"]: {k: e[k] for k in ("cost_ns", "runs") if k in e} for e in json.loads(out)["events"]}
        except (Problem, ValueError, TypeError, KeyError) as e:
            self.left_out["plumb events --measure"] = self.shown(e)
            return None


def plan_md(bench, every, recorders, n):
    options = bench.options
    flags = ["--quick"] * options.quick + [f"--rounds {n}"] + ([f"--only {options.only}"] if options.only else [])
    lines = [evidence.COMMENT, "# Plan", "",
             f"`{' '.join(['benches/record/run.sh', *flags])}`", "",
             f"{n} rounds; in each every recorder with every load, once (no recorder: twice), in random order.",
             f"The load runs on CPU {bench.cpu} with SCHED_FIFO {PRIORITY}, the loop device's workers there too,",
             f"recorders on the other CPUs. DEVICE is a loop device over a {DEVICE_MIB} MiB file in memory,",
             "SCRATCH a tmpfs.", ""]
    for test in every:
        made = ", ".join(f"{name} {n:g}" for name, n in test.hits.items())
        lines += [f"## {test.name}", "", f"Events per {test.unit}: {test.per_unit:g} ({made}).", "", "```",
                  "LOAD = " + bench.shown(" ".join(map(str, test.load(bench, bench.scratch / "times")))), ""]
        lines += [f"{r.name}: {bench.shown(r.command(test))}" for r in recorders]
        lines += ["```", ""]
    return "\n".join(lines)


def measure(options, undo):
    directory = evidence.results_directory(options.out, "record-cost")
    system.private_mounts()
    system.mount_tracefs()
    instance = TRACEFS / "instances" / "plumb_bench"
    undo.add(f"echo 0 > {instance}/events/enable; rmdir {instance}")
    bench = Bench(options, system.scratch(4096, undo))
    bench.build()
    bench.make_device()
    machine = system.Machine(bench.plumb, TOOLS)
    every = tests(options.quick)
    if options.only == "iops":
        every = []
    elif options.only:
        every = [t for t in every if t.name in options.only.split(",") + ["read"]]
    if every:
        bench.count_events(every)
    recorders = bench.usable(every)
    say(f"recorders: {', '.join(r.name for r in recorders)}")
    n = options.rounds or (5 if options.quick else 15)
    bench.rounds(every, recorders, n)
    sustained = None if not every else bench.sustained(10 if options.quick else 60)
    if sustained:
        say(f"sustained: {sustained['events_per_second']} events/s, {sustained['lost']} lost")
    iops = bench.iops(6 if options.quick else 12, 2 if options.quick else 5, bench.disk_device(undo))
    kernel = bench.measured_by_kernel() if every else None
    machine = machine.done()

    summary = figures.summarise(bench, every, recorders, sustained, iops, kernel, machine)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "plan.md").write_text(plan_md(bench, every, recorders, n))
    write_json(directory / "machine.json", machine)
    write_csv(directory / "rounds.csv", bench.rows)
    write_csv(directory / "iops.csv", iops)
    write_json(directory / "summary.json", summary)
    text = summary_md(summary)
    (directory / "summary.md").write_text(text)
    print(text)
    say(f"written to {bench.shown(directory)}")


OPTIONS = [
    ("--quick", {"action": "store_true", "help": "5 rounds of shorter loads, 10 s of sustained rate"}),
    ("--only", {"help": "of the loads getppid,pingpong,read,fio only these (and read); iops: only fio's IOPS"}),
]

sys.exit(evidence.main(
    "benches/record/run.sh", "What recording costs, beside an empty BPF program, perf, ftrace and bpftrace.",
    "record-cost", measure, OPTIONS))
