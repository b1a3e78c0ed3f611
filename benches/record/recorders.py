# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The recorders: each runs one load and says how many events it saw.

All get the same ring memory for each CPU, and the CPUs that the load does not
use. A recorder's start and end are not inside the load's own times.
"""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass

from common.system import TRACEFS, Problem, run, spawn, tool

RING_KIB = 16384
LOSSY = 3  # plumb's exit code when events were lost


@dataclass
class Seen:
    """What a recorder tells of a run; None where it does not tell."""
    events: int = None
    lost: int = None


def _loss(text):
    return sum(int(n) for n in re.findall(r"LOST(?:_SAMPLES)? events:\s+(\d+)", text))


class Recorder:
    name = "none"
    about = "no recorder: the base"

    def __init__(self, bench):
        self.bench = bench

    def usable(self):
        """Raises Problem with the reason when this recorder cannot run here."""

    def command(self, test):
        """What the plan shows."""
        return "LOAD"

    def run(self, test, load):
        run(load, self.bench.other_cpus)
        return Seen()


class Empty(Recorder):
    name = "empty"
    about = "an empty BPF program (tp_btf) on each tracepoint"
    kind = "empty"

    def command(self, test):
        return f"hold empty.bpf.o {self.kind} {' '.join(test.tracepoints)} & LOAD"

    def hold(self, test, load):
        holder = spawn([self.bench.hold, self.bench.object, self.kind, *test.tracepoints], self.bench.other_cpus,
                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            if holder.stdout.readline() != "ready\n":
                raise Problem("hold: " + (holder.stderr.read().strip().splitlines() or ["no message"])[-1])
            run(load, self.bench.other_cpus)
        finally:
            holder.stdin.close()
            hits = dict(line.split() for line in holder.stdout.read().splitlines())
            holder.wait()
        return {name: int(n) for name, n in hits.items()}

    def run(self, test, load):
        self.hold(test, load)
        return Seen()


class Count(Empty):
    """Not a competitor: tells how many events a load makes."""
    name = "count"
    kind = "count"


class Plumb(Recorder):
    name = "plumb"
    about = "plumb, system calls of everybody (-a)"
    flags = ["-a"]

    def events(self, test):
        return test.plumb_events

    def words(self, test):
        where = ["-o", self.bench.trace_dir, "--events", self.events(test)]
        return ["record", "--quiet", "--json", *self.flags, *where, "--"]

    def command(self, test):
        return " ".join(["plumb", *map(str, self.words(test)), "LOAD"])

    def usable(self):
        if not os.access(self.bench.plumb, os.X_OK):
            raise Problem("the program is not built; 'cargo build --release' does it")

    def record(self, test, load, cpus):
        """The recorder's own account, as it prints it, and the size of the trace."""
        directory = self.bench.trace_dir
        try:
            out, _ = run([self.bench.plumb, *self.words(test), *load], cpus, good=(0, LOSSY))
            told = json.loads(out)
            told["trace_bytes"] = sum(p.stat().st_size for p in directory.rglob("*") if p.is_file())
            return told
        except ValueError as e:
            raise Problem(f"plumb printed no JSON: {e}") from e
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def run(self, test, load):
        told = self.record(test, load, self.bench.other_cpus)
        return Seen(told["events"], told["lost"] + told["missed"])


class PlumbTarget(Plumb):
    name = "plumb-target"
    about = "plumb, system calls of the command only (the default)"
    flags = []


class PlumbOnlyTarget(PlumbTarget):
    name = "plumb-only-target"
    about = "plumb, no event that the command has no part in (--only-target)"
    flags = ["--only-target"]


class Perf(Recorder):
    name = "perf-record"
    about = "perf record -a"

    def words(self, test):
        events = [word for event in test.events for word in ("-e", event)]
        # -B -N: no search for build ids afterwards
        memory = f"{RING_KIB // 1024}M"
        return ["record", "-a", "-B", "-N", "-m", memory, "-o", self.bench.scratch / "perf.data", *events, "--"]

    def command(self, test):
        return " ".join(["perf", *map(str, self.words(test)), "LOAD"])

    def usable(self):
        tool("perf", "linux-perf")

    def run(self, test, load):
        data = self.bench.scratch / "perf.data"
        try:
            run(["perf", *self.words(test), *load], self.bench.other_cpus)
            stats, _ = run(["perf", "report", "-i", data, "--stats"], self.bench.other_cpus)
        finally:
            data.unlink(missing_ok=True)
        samples = re.search(r"SAMPLE events:\s+(\d+)", stats)
        return Seen(int(samples.group(1)) if samples else None, _loss(stats))


class Ftrace(Recorder):
    name = "ftrace"
    about = "the kernel's trace ring buffer (overwrite mode, nobody reads)"

    def command(self, test):
        enable = "; ".join(f"echo 1 > events/{e.replace(':', '/')}/enable" for e in test.events)
        return f"mkdir instances/plumb_bench; echo {RING_KIB} > buffer_size_kb; {enable}; LOAD; rmdir instances/plumb_bench"

    def usable(self):
        if not (TRACEFS / "instances").is_dir():
            raise Problem("tracefs has no instances")

    def run(self, test, load):
        instance = TRACEFS / "instances" / "plumb_bench"
        instance.mkdir()
        try:
            (instance / "buffer_size_kb").write_text(str(RING_KIB))
            for event in test.events:
                (instance / "events" / event.replace(":", "/") / "enable").write_text("1")
            run(load, self.bench.other_cpus)
            (instance / "tracing_on").write_text("0")
            stats = "".join(p.read_text() for p in instance.glob("per_cpu/cpu*/stats"))
        finally:
            (instance / "events" / "enable").write_text("0")
            instance.rmdir()
        count = lambda what: sum(int(n) for n in re.findall(rf"^{what}: (\d+)", stats, re.M))
        return Seen(count("entries") + count("overrun"), count("dropped events"))


class Bpftrace(Recorder):
    name = "bpftrace"
    about = "bpftrace count() on the tracepoints: counts, records nothing"

    def probes(self, test):
        return [f"tracepoint:{event}" for event in test.events]

    def program(self, test):
        return ", ".join(self.probes(test)) + " { @ = count(); }"

    def command(self, test):
        return f"bpftrace -e '{self.program(test)}' -c LOAD"

    def usable(self):
        tool("bpftrace", "bpftrace")

    def run(self, test, load):
        # it refuses a name that stands in two directories of PATH
        line = " ".join([shutil.which(str(load[0])), *map(str, load[1:])])
        out, _ = run(["bpftrace", "-e", self.program(test), "-c", line], self.bench.other_cpus)
        count = re.search(r"^@: (\d+)", out, re.M)
        if not count:
            raise Problem("bpftrace counted nothing")
        return Seen(int(count.group(1)), 0)


class BpftraceRaw(Bpftrace):
    name = "bpftrace-raw"
    about = "bpftrace count() on the raw tracepoints: counts, records nothing"

    def probes(self, test):
        return [f"rawtracepoint:{name}" for name in test.tracepoints]


PEERS = [Recorder, Empty, Plumb, PlumbTarget, PlumbOnlyTarget, Perf, Ftrace, Bpftrace, BpftraceRaw]
