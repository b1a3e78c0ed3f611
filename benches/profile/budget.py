#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What plumb's profile takes of a CPU-bound load, as the kernel accounts it: the recorder's own time on
CPUs, and the run time of its BPF programs, both over the same seconds in the middle of a recording. Finer
than a difference of two throughputs, which vary by more on most machines. What an interrupt costs beside its
program is not in it: exact.sh has that.
Usage (as root): benches/profile/budget.py [--plumb PROGRAM] [--seconds S] [--rounds N]; prints JSON."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
STATS = Path("/proc/sys/kernel/bpf_stats_enabled")
VARIANTS = {
    "plumb": ["--sample", "199hz"],
    "plumb-sched": ["--sample", "199hz", "--events", "sched", "--stacks", "0ms"],
    "plumb-unsampled": ["--sample", "off"],
}


def programs():
    """Run time in ns and runs of every BPF program, by number."""
    shown = subprocess.run(["bpftool", "prog", "show", "-j"], capture_output=True, text=True, check=True).stdout
    return {p["id"]: (p.get("name", ""), p.get("run_time_ns", 0), p.get("run_cnt", 0)) for p in json.loads(shown)}


def cpu_ns(pid):
    """Of all threads of a process."""
    return sum(int((t / "schedstat").read_text().split()[0]) for t in Path(f"/proc/{pid}/task").iterdir())


def once(plumb, options, load, seconds, scratch):
    before = set(programs())
    trace = scratch / f"t{time.monotonic_ns()}"
    child = subprocess.Popen([plumb, "record", "-q", "-o", trace, *options, "--", *load],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(3)
        begin, cpu, bpf = time.monotonic_ns(), cpu_ns(child.pid), programs()
        time.sleep(seconds)
        ended, cpu_end, bpf_end = time.monotonic_ns(), cpu_ns(child.pid), programs()
    finally:
        child.wait()
    mine = {n: (p[1] - bpf[n][1], p[2] - bpf[n][2]) for n, p in bpf_end.items() if n in bpf and n not in before}
    sample = [(t, n) for i, (t, n) in mine.items() if bpf[i][0] == "cpu_sample"]
    wall = (ended - begin) * os.cpu_count()
    bpf_ns = sum(t for t, _ in mine.values())
    return {
        "recorder_percent": 100 * (cpu_end - cpu) / wall,
        "bpf_percent": 100 * bpf_ns / wall,
        "together_percent": 100 * (cpu_end - cpu + bpf_ns) / wall,
        "samples": sum(n for _, n in sample),
        "ns_a_sample_in_bpf": sum(t for t, _ in sample) / max(sum(n for _, n in sample), 1),
    }


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--plumb", default=str(HERE.parents[1] / "target/release/plumb"))
    options.add_argument("--seconds", type=float, default=5)
    options.add_argument("--rounds", type=int, default=5)
    asked = options.parse_args()
    was = STATS.read_text()
    out = {"cpus": os.cpu_count(), "load_average": os.getloadavg()[0], "seconds": asked.seconds, "rounds": asked.rounds}
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-pthread", "-o", scratch / "load", HERE / "load.c"],
                       check=True)
        load = [scratch / "load", str(asked.seconds + 5), "20", str(os.cpu_count()), scratch / "times"]
        STATS.write_text("1")
        try:
            for name, words in VARIANTS.items():
                runs = [once(asked.plumb, words, load, asked.seconds, scratch) for _ in range(asked.rounds)]
                out[name] = {k: {"median": statistics.median(r[k] for r in runs), "min": min(r[k] for r in runs),
                                 "max": max(r[k] for r in runs)} for k in runs[0]}
        finally:
            STATS.write_text(was)
    json.dump(out, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
