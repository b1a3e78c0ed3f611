# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The profilers: each runs the load once, sampled 199 times a second on every CPU."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

from common.system import Problem, end, run, run_measured, spawn, tool

HZ = 199


class Recorder:
    name = "none"
    about = "no profiler: the base"

    def __init__(self, bench):
        self.bench = bench

    def usable(self):
        """Raises Problem with the reason when this profiler cannot run here."""

    def words(self):
        """What is put before the load."""
        return []

    def command(self):
        """What the plan shows."""
        return " ".join([*map(str, self.words()), "LOAD"])

    def run(self, load):
        """Runs the load; what else is known: samples, lost, bytes written, cpu_ns of load and profiler together."""
        out, user, system = run_measured([*self.words(), *load], good=self.good)
        return {"cpu_ns": user + system, **self.seen(out)}

    good = (0,)

    def seen(self, out):
        return {}

    def clean(self):
        pass


class Again(Recorder):
    name = "none-again"
    about = "no profiler once more: what is noise"


class Plumb(Recorder):
    name = "plumb"
    about = f"plumb record as it comes, at {HZ} Hz: its default events, stacks of waits and samples, functions named at the end"
    good = (0, 3)
    options = ["--sample", HZ]

    @property
    def trace(self):
        return self.bench.scratch / "trace"

    def words(self):
        return [self.bench.plumb, "record", "--quiet", "--json", *self.options, "-o", self.trace, "--"]

    def seen(self, out):
        try:
            told = json.loads(out)
        except ValueError as e:
            raise Problem(f"plumb printed no JSON: {e}") from e
        size = sum(p.stat().st_size for p in self.trace.rglob("*") if p.is_file())
        return {"events": told["events"], "lost": told["lost"] + told["missed"], "bytes": size}

    def clean(self):
        shutil.rmtree(self.trace, ignore_errors=True)


class PlumbSched(Plumb):
    name = "plumb-sched"
    about = f"plumb with the events of the scheduler only, and samples at {HZ} Hz, no stacks of waits: the least that a profile needs"
    options = ["-e", "sched", "--stacks", "0ms", "--sample", HZ]


class PlumbUnsampled(Plumb):
    name = "plumb-unsampled"
    about = "plumb's default events and stacks of waits without samples: what of its cost is not sampling's"
    options = ["--sample", 0]


class Bpftrace(Recorder):
    name = "bpftrace-count"
    about = f"bpftrace counts at {HZ} Hz: a BPF program that does next to nothing"
    program = f"profile:hz:{HZ} {{ @ = count(); }}"

    def usable(self):
        tool("bpftrace", "bpftrace")

    def words(self):
        return ["bpftrace", "-e", self.program, "-c"]

    def command(self):
        return f"bpftrace -e '{self.program}' -c LOAD"

    def run(self, load):
        # one word; without a shell, so nothing to quote
        out, user, system = run_measured([*self.words(), " ".join(map(str, load))])
        samples = sum(int(n) for n in re.findall(r": (\d+)$", out, re.M))
        if not samples:
            raise Problem("bpftrace counted nothing")
        return {"cpu_ns": user + system, "samples": samples}


class BpftraceStacks(Bpftrace):
    name = "bpftrace-stacks"
    about = "bpftrace with kernel and user stacks by frame pointers (of which the load has none: one or two frames)"
    program = f"profile:hz:{HZ} {{ @[kstack, ustack] = count(); }}"


class Perf(Recorder):
    name = "perf"
    about = f"perf record -a at {HZ} Hz without stacks"
    options = []

    def usable(self):
        tool("perf", "linux-perf")

    @property
    def data(self):
        return self.bench.scratch / "perf.data"

    def words(self):
        # -B -N: no search for build ids afterwards
        return ["perf", "record", "-q", "-a", "-F", HZ, "-B", "-N", *self.options, "-o", self.data, "--"]

    def seen(self, out):
        size = self.data.stat().st_size
        stats, _ = run(["perf", "report", "-i", self.data, "--stats"])
        samples = re.search(r"SAMPLE events:\s+(\d+)", stats)
        lost = sum(int(n) for n in re.findall(r"LOST(?:_SAMPLES)? events:\s+(\d+)", stats))
        return {"samples": int(samples.group(1)) if samples else None, "lost": lost, "bytes": size}

    def clean(self):
        self.data.unlink(missing_ok=True)


class PerfFp(Perf):
    name = "perf-fp"
    about = "perf record -g: stacks by frame pointers (of which the load has none: one or two frames)"
    options = ["-g"]


class PerfDwarf(Perf):
    name = "perf-dwarf"
    about = "perf record --call-graph dwarf: 8 KiB of the stack with every sample, unwound afterwards by perf report"
    options = ["--call-graph", "dwarf"]


class Bcc(Recorder):
    name = "bcc-profile"
    about = "bcc's profile: stacks by frame pointers, counted in the kernel"
    program = None

    def usable(self):
        self.program = shutil.which("profile-bpfcc") or shutil.which("/usr/share/bcc/tools/profile")
        if not self.program:
            raise Problem("bcc's profile is missing; 'apt-get install bpfcc-tools' brings it on Debian")

    def command(self):
        return f"profile-bpfcc -F {HZ} -f & LOAD"

    def run(self, load):
        # its compiler and its attachment take seconds, and nothing tells when it is ready but its first output line
        profiler = spawn([self.program, "-F", HZ, "-f"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            time.sleep(5)
            if profiler.poll() is not None:
                raise Problem(f"bcc's profile ended with {profiler.returncode}")
            _, user, system = run_measured(load)
            os.kill(profiler.pid, signal.SIGINT)
            out, _ = profiler.communicate(timeout=60)
        finally:
            end(profiler)
        return {"cpu_ns": user + system, "samples": sum(int(n) for n in re.findall(r" (\d+)$", out, re.M))}


RECORDERS = [Recorder, Again, PlumbSched, Plumb, PlumbUnsampled, Bpftrace, BpftraceStacks, Perf, PerfFp, PerfDwarf, Bcc]
