# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What it takes to make a report of a long recording, beside explaining it: start it with run.sh."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import evidence
from common.evidence import COMMENT, interleaved, machine_lines, say, table, write_json
from common.stats import spread_of
from common.system import Machine, Problem, run

# Each pair makes switches, waits with wakers, system calls and samples as fast as it can.
LOAD = "for i in $(seq {pairs}); do dd if=/dev/zero bs=4k count={count} 2>/dev/null | cat >/dev/null & done; wait; " \
       "dd if=/dev/zero of={file} bs=1M count=256 conv=fsync 2>/dev/null; rm -f {file}"


def took(command):
    """Seconds of wall clock and CPU, and the peak of memory in MiB, of one command."""
    start = time.monotonic()
    child = subprocess.Popen([str(w) for w in command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = child.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    # 3: events were lost, which changes nothing of what is measured here
    if child.returncode not in (0, 3):
        raise Problem(f"{command[1]} ended with {child.returncode}: {said.strip().splitlines()[-1:]}")
    return {"wall_s": time.monotonic() - start, "cpu_s": usage.ru_utime + usage.ru_stime, "peak_mib": usage.ru_maxrss / 1024}


def record(options, scratch):
    """A run of about so many events."""
    def once(name, count):
        directory = scratch / name
        script = LOAD.format(pairs=options.pairs, count=count, file=scratch / "file")
        run([options.plumb, "run", "--quiet", "--no-report", "--buffer", "64M", "-o", directory, "--", "sh", "-c", script], good=(0, 3),
            timeout=3600)
        return directory, json.loads((directory / "run.json").read_text())["recording"]

    count, made = 2000, None
    # What a block makes depends on how the pipes meet, so the second guess is better than the first.
    for name in ("first", "second", "third", "fourth"):
        if made:
            shutil.rmtree(made[0])
            count = max(2000, round(count * options.events / made[1]["events"]))
        made = once(name, count)
        if made[1]["events"] > 0.9 * options.events:
            break
    return made


def measure(options, undo):
    directory = evidence.results_directory(options.out, "report-speed")
    machine = Machine(options.plumb, {})
    temporary = tempfile.mkdtemp(prefix="plumb-bench-", dir=options.scratch)
    undo.add(f"rm -rf '{temporary}'")
    scratch = Path(temporary)
    trace, recording = record(options, scratch)
    say(f"{recording['events']:,} events, {recording['lost']:,} lost")
    commands = {
        "explain": [options.plumb, "explain", trace],
        "report": [options.plumb, "report", trace],
    }
    rows = []
    for number, place, name in interleaved(list(commands), options.rounds):
        rows.append({"round": number, "place": place, "what": name, **took(commands[name])})
    made = json.loads((trace / "report.json").read_text())
    sizes = {"report.json": (trace / "report.json").stat().st_size, "report.html": (trace / "report.html").stat().st_size,
             "trace": sum(f.stat().st_size for f in (trace / "trace").iterdir())}
    timeline = made["run"]["timeline"]
    facts = {"events": recording["events"], "lost": recording["lost"], "sizes": sizes, "sampled": timeline["sampled"],
             "requests": made["run"].get("requests", {}).get("sampled"), "lanes": len(timeline["lanes"])}
    summary = {name: {f: spread_of([r for r in rows if r["what"] == name], f) for f in ("wall_s", "cpu_s", "peak_mib")}
               for name in commands}
    cell = lambda s, digits: f"{s['median']:,.{digits}f} ({s['min']:,.{digits}f}..{s['max']:,.{digits}f})"
    lines = table(["command", "wall s: median (min..max)", "CPU s", "peak MiB"],
                  [[f"plumb {name}", cell(s["wall_s"], 2), cell(s["cpu_s"], 2), cell(s["peak_mib"], 0)] for name, s in summary.items()])
    mib = {name: f"{size / (1 << 20):.1f} MiB" for name, size in sizes.items()}
    sampled = timeline["sampled"]
    lines += ["", f"{recording['events']:,} events ({recording['lost']:,} lost), {mib['trace']} of trace; {sampled['seen']:,} intervals, of which",
              f"the page has {sampled['shown']:,}{' (' + sampled['how'] + ')' if sampled['how'] else ''}; report.json {mib['report.json']}, report.html",
              f"{mib['report.html']}."]
    facts_of_machine = machine.done()
    plan = [f"{options.pairs} pipes from dd to cat, and 256 MiB written and synced, are recorded with plumb's default events until there are",
            f"about {options.events:,}; then `plumb explain` and `plumb report` read the run directory from the page cache, in turns, in random",
            "order. `benches/report/run.sh` makes all of it."]
    directory.mkdir(parents=True, exist_ok=True)
    write_json(directory / "raw.json", {"machine": facts_of_machine, "facts": facts, "rows": rows})
    text = [COMMENT, "# What a report of a long recording takes", "", "Plan: " + "\n".join(plan), "", *machine_lines(facts_of_machine, []), "", *lines]
    (directory / "summary.md").write_text("\n".join(text) + "\n")
    print("\n".join(text))


OPTIONS = [
    ("--events", {"type": int, "default": 10_000_000, "help": "events of the recording, about (10000000)"}),
    ("--pairs", {"type": int, "default": 4, "help": "pipes that make them (4)"}),
    ("--scratch", {"default": None, "help": "directory for the recording, some GB [default: the system's for temporary files]"}),
]

if __name__ == "__main__":
    sys.exit(evidence.main("benches/report/run.sh", "What a report of a long recording takes, beside explaining it.",
                           "report-speed", measure, OPTIONS, rounds=5))
