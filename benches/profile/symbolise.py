#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Records clang compiling a large C file, sampled 20,000 times a second, for so many seconds of its CPU
time; makes a profile of it several times, and has perf report do the same with its own recordings: one
with stacks by frame pointers, and a shorter one with copied stacks, which it walks in the report."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import evidence, stats, system
from common.evidence import COMMENT, say, shown
from common.system import Problem, run, tool

HZ = 20_000
# perf copies 8 KiB with each sample: a second of it is 160 MB, and minutes of perf report.
DWARF_SECONDS = 2
# perf passes the compiler's signal on.
ANY = range(-64, 256)
WORK = system.ROOT / "target" / "profile-symbolise"


def source():
    """SQLite's amalgamation, which the build has brought: the largest one."""
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    found = sorted(home.glob("registry/src/*/libsqlite3-sys-*/sqlite3/sqlite3.c"), key=lambda p: p.stat().st_size)
    if not found:
        raise Problem("no sqlite3.c in Cargo's registry; name another large C file with --source")
    return found[-1]


def once(command):
    """Wall time and CPU time in s, largest memory in MiB, of one run; the code must be 0."""
    begin = time.monotonic()
    child = subprocess.Popen([str(w) for w in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    told = child.stderr.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 3):
        raise Problem(f"{command[0]} ended with {child.returncode}: {told.decode(errors='replace')[-400:]}")
    return {"wall_s": time.monotonic() - begin, "cpu_s": used.ru_utime + used.ru_stime, "peak_mib": used.ru_maxrss / 1024}


def compile_words(clang, c_file, seconds):
    # A limit of CPU time gives the same number of ticks however busy the machine is.
    return ["prlimit", f"--cpu={seconds}", clang, "-O2", "-c", c_file, "-o", "/dev/null"]


def perf_samples(data):
    told, _ = run(["perf", "report", "-i", data, "--stats"], timeout=900)
    found = re.search(r"SAMPLE events:\s+(\d+)", told)
    return int(found.group(1)) if found else 0


def measure(options, undo):
    plumb = Path(options.plumb).absolute()
    clang = next((c for c in ("clang", "clang-14", "clang-15", "clang-16", "clang-19") if shutil.which(c)), None)
    if clang is None:
        raise Problem("clang is missing; 'apt-get install clang' brings it")
    tool("perf", "linux-perf")
    machine = system.Machine(plumb, {"perf": ["perf", "--version"], "clang": [clang, "--version"]})
    directory = evidence.results_directory(options.out, "profile-symbolise")
    c_file = Path(options.source) if options.source else source()
    WORK.mkdir(parents=True, exist_ok=True)
    if not options.keep:
        undo.add(f"rm -rf '{WORK}'")
    trace = Path(options.trace).absolute() if options.trace else WORK / "trace"
    facts = {}
    if not (trace / "metadata").exists() and not (trace / "trace" / "metadata").exists():
        shutil.rmtree(trace, ignore_errors=True)
        say("bench: recording")
        record = [plumb, "record", "--quiet", "--json", "--only-target", "--sample", f"{HZ}hz", "-o", trace, "--"]
        # It ends with the compiler's code, which its limit of CPU time ends.
        told, _ = run([*record, *compile_words(clang, c_file, options.seconds)], timeout=3600, good=ANY)
        facts = json.loads(told)
    told, _ = run([plumb, "profile", trace, "--json", "--limit", "1"], timeout=900, good=(0, 3))
    profile = json.loads(told)
    cases = {"plumb profile": ([plumb, "profile", trace], profile["samples"], options.rounds)}
    for name, seconds, how, rounds in (("perf report, frame pointers", options.seconds, ["-g"], options.rounds),
                                       ("perf report, copied stacks", DWARF_SECONDS, ["--call-graph", "dwarf"], 1)):
        say(f"bench: {name}: recording")
        data = WORK / f"{how[-1].strip('-')}.data"
        run(["perf", "record", "-q", "-F", HZ, *how, "-o", data, "--", *compile_words(clang, c_file, seconds)],
            timeout=3600, good=ANY)
        cases[name] = (["perf", "report", "--stdio", "-i", data], perf_samples(data), rounds)
    rows = []
    for number in range(1, options.rounds + 1):
        for name, (command, samples, rounds) in cases.items():
            if number <= rounds:
                say(f"bench: round {number}: {name}")
                rows.append({"round": number, "tool": name, "samples": samples, "load": os.getloadavg()[0], **once(command)})
    made = machine.done()
    directory.mkdir(parents=True, exist_ok=True)
    lost = {"stacks_lost": facts.get("stacks_lost"), "recorder_cpu_s": facts.get("recorder_cpu", 0) / 1e9,
            "recorded_s": (facts.get("end", 0) - facts.get("begin", 0)) / 1e9} if facts else {}
    of = lambda name, figure: stats.spread([r[figure] for r in rows if r["tool"] == name])
    summary = {name: {"samples": samples, **{f: of(name, f) for f in ("wall_s", "cpu_s", "peak_mib")}}
               for name, (_, samples, _) in cases.items()}
    evidence.write_csv(directory / "rounds.csv", rows)
    evidence.write_json(directory / "summary.json", {"recording": lost, "tools": summary})
    evidence.write_json(directory / "machine.json", made)
    names = [(WORK, "SCRATCH"), (trace, "TRACE"), (c_file, "sqlite3.c" if not options.source else c_file.name), (plumb, "plumb")]
    plan = [COMMENT, "# A profile of a million samples: plan", "",
            f"`{' '.join(map(str, compile_words(clang, c_file, options.seconds)))}`, sampled {HZ} times a second of its CPU time.", ""]
    plan += [f"- {name}, {rounds} rounds, {samples} samples: `{' '.join(map(str, command))}`" for name, (command, samples, rounds) in cases.items()]
    (directory / "plan.md").write_text(shown("\n".join(plan), names) + "\n")
    row = lambda s: f"{s['median']:.2f} ({s['min']:.2f}..{s['max']:.2f})"
    lines = [COMMENT, "# How long a profile of a million samples takes", "", *evidence.machine_lines(made, ["perf", "clang"]), "",
             *evidence.table(["", "samples", "wall s, median (least..most)", "CPU s", "peak MiB"],
                             [[n, s["samples"], row(s["wall_s"]), row(s["cpu_s"]), f"{s['peak_mib']['max']:.0f}"] for n, s in summary.items()]), ""]
    if lost:
        lines += [f"plumb's recording: {lost['recorded_s']:.0f} s, {profile['samples']} samples kept, {lost['stacks_lost']} stacks lost, "
                  f"{lost['recorder_cpu_s']:.1f} s of CPU time for the recorder, names included.", ""]
    lines += ["plumb walks and names its stacks while and after it records; perf with frame pointers walks them in the kernel",
              "(this compiler has none, so a stack is one or two frames), with copied stacks in the report. The last row has fewer",
              f"samples ({DWARF_SECONDS} s of the compiler), as its data and time grow with them."]
    (directory / "summary.md").write_text(shown("\n".join(lines), names) + "\n")
    say(f"bench: {shown(directory, [])}")


OPTIONS = [
    ("--seconds", {"type": int, "default": 51, "help": "CPU time of the compiler (51: a million samples)"}),
    ("--source", {"help": "a large C file (SQLite's in Cargo's registry)"}),
    ("--trace", {"help": "take this recording of it, or make it there"}),
    ("--keep", {"action": "store_true", "help": "leave the recordings in target/profile-symbolise"}),
]

if __name__ == "__main__":
    sys.exit(evidence.main("benches/profile/symbolise.sh", __doc__, "profile-symbolise", measure, OPTIONS, rounds=5))
