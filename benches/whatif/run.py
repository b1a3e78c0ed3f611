#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What plumb whatif predicts from one recording, beside what the same work took on the other disk, with more memory, on one CPU."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import evidence, system
from common.evidence import table

HERE = Path(__file__).resolve().parent
GROUP = Path("/sys/fs/cgroup/memory/plumb-whatif")


def plan(options, name, into, before=(), rounds=None):
    """Runs a plan, unless --runs has it; what was measured, by levels: elapsed s and directory of each repetition."""
    if options.runs and (Path(options.runs) / into.name / "report.json").is_file():
        into = Path(options.runs) / into.name
        return measured_by(into)
    command = [*before, options.plumb, "plan", "run", str(HERE / f"{name}.toml"), "--repeat", str(rounds or options.rounds), "-o", str(into)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, env={**os.environ, "PATH": f"{options.plumb.parent}:{os.environ['PATH']}"})
    if done.returncode not in (0, 3):
        raise system.Problem(f"plan {name}: exit code {done.returncode}")
    return measured_by(into)


def measured_by(into):
    report = json.loads((into / "report.json").read_text())
    levels = [f["levels"] for f in report["table"]["factors"]]
    cells = {}
    for row in report["table"]["rows"]:
        names = tuple(levels[i][n] for i, n in enumerate(row["levels"]))
        cells.setdefault(names, []).append((row["figures"]["elapsed"] / 1e9, into / row["dir"]))
    return cells


def predict(options, what, run, words, measured, rows):
    begin = time.monotonic()
    done = subprocess.run([options.plumb, "whatif", str(run[1]), *words, "--json"], capture_output=True, text=True)
    took = time.monotonic() - begin
    if done.returncode not in (0, 3):
        raise system.Problem(f"whatif {run[1]}: {done.stderr}")
    said = json.loads(done.stdout)
    actual = statistics.median(seconds for seconds, _ in measured)
    predicted = said["asked"]["elapsed_ns"] / 1e9
    low, high = said["low_ns"] / 1e9, said["high_ns"] / 1e9
    rows.append({**what, "recorded": run[0], "again": said["again_ns"] / said["recorded"]["elapsed_ns"] - 1, "predicted": predicted, "low": low, "high": high,
                 "measured": actual, "inside": int(low <= actual <= high), "spread": max(s for s, _ in measured) / min(s for s, _ in measured) - 1,
                 "error": predicted / actual - 1, "kept": said["kept"], "took": took, "replay": said["replay_ns"] / 1e9, "saved": (said.get("cache") or {}).get("saved", "")})


def measure(options, undo):
    directory = evidence.results_directory(options.out, "whatif")
    options.plumb = Path(options.plumb).resolve()
    machine = system.Machine(options.plumb, {"postgres": ["psql", "--version"], "mariadb": ["mariadbd", "--version"]})
    scratch = Path(tempfile.mkdtemp(prefix="plumb-bench-whatif.", dir="/var/tmp"))
    scratch.chmod(0o755)  # servers run as users of their own
    undo.add(f"rm -rf {scratch}")
    rows = []
    cells = plan(options, "disks", scratch / "disks")
    for (disk, work), runs in sorted(cells.items()):
        for other in sorted({d for d, w in cells if w == work and d != disk}):
            for run in runs:
                predict(options, {"what": "disk", "work": work, "from": disk, "to": other}, run, ["--disk", other], cells[other, work], rows)
    if GROUP.parent.is_dir():
        GROUP.mkdir(exist_ok=True)
        undo.add(f"rmdir {GROUP}")
        cells = plan(options, "memory", scratch / "memory")
        for (memory, work), runs in sorted(cells.items()):
            for more in (32, 64):
                to = f"{int(memory[:-1]) + more}M"
                for run in runs if (to, work) in cells else []:
                    predict(options, {"what": "memory", "work": work, "from": memory, "to": to}, run, ["--memory", f"+{more}M"], cells[to, work], rows)
    else:
        evidence.say("memory: left out, there is no /sys/fs/cgroup/memory (cgroup v1)")
    cells = plan(options, "long", scratch / "long", rounds=1)
    for (disk, work), runs in sorted(cells.items()):
        for other in sorted({d for d, w in cells if w == work and d != disk}):
            predict(options, {"what": "long", "work": work, "from": disk, "to": other}, runs[0], ["--disk", other], cells[other, work], rows)
    both = plan(options, "cpus", scratch / "cpus")
    one = plan(options, "cpus", scratch / "one", ["taskset", "-c", "0"])
    for work, runs in sorted(both.items()):
        for run in runs:
            predict(options, {"what": "CPUs", "work": work[0], "from": "2", "to": "1"}, run, ["--cpus", "1"], one[work], rows)
    facts = machine.done()
    directory.mkdir(parents=True, exist_ok=True)
    evidence.write_csv(directory / "predictions.csv", rows)
    evidence.write_json(directory / "machine.json", facts)
    for name in ("disks", "memory", "long", "cpus", "one"):
        into = next((d for d in (Path(options.runs or scratch) / name, scratch / name) if d.is_dir()), None)
        if into:
            shutil.copy(into / "report.json", directory / f"{name}.json")
    lines = [evidence.COMMENT, "# What plumb whatif predicts, and what the work then took", "",
             f"Each run is recorded, and from each the time in the other environments is predicted; {options.rounds} runs in each, in random order. "
             "Error: predicted / measured - 1, measured: the median of the runs there. Inside the interval: that median is not below the least and not above the most that was predicted. The disks are served models; the run that is predicted from had another one.", ""]
    head = ["", "predictions", "median error", "within 15 %", "measured inside the interval", "largest", "of", "done again, as recorded: median error"]
    cells = []
    for what in ("disk", "memory", "CPUs", "long", None):
        mine = [r for r in rows if what in (None, r["what"])]
        if mine:
            worst = max(mine, key=lambda r: abs(r["error"]))
            near = sum(abs(r["error"]) <= 0.15 for r in mine)
            cells.append([what or "all", len(mine), f"{statistics.median(abs(r['error']) for r in mine):.1%}", f"{near} of {len(mine)}",
                          f"{sum(r['inside'] for r in mine)} of {len(mine)} ({statistics.mean(r['inside'] for r in mine):.0%})",
                          f"{worst['error']:+.0%}", f"{worst['work']}: {worst['from']} to {worst['to']}",
                          f"{statistics.median(abs(r['again']) for r in mine):.1%}"])
    lines += [*table(head, cells), "", "Medians of the runs:", ""]
    cells = []
    for key in sorted({(r["what"], r["work"], r["from"], r["to"]) for r in rows}):
        mine = [r for r in rows if (r["what"], r["work"], r["from"], r["to"]) == key]
        middle = lambda field: statistics.median(r[field] for r in mine)
        errors = [r["error"] for r in mine]
        cells.append([*key, f"{middle('recorded'):.3f}", f"{middle('predicted'):.3f}", f"{middle('measured'):.3f}", f"{middle('spread'):.0%}",
                      f"{middle('error'):+.1%}", f"{min(errors):+.1%} to {max(errors):+.1%}"])
    lines += table(["what", "work", "from", "to", "recorded, s", "predicted, s", "measured, s", "spread of the measured", "error", "errors"], cells)
    speed = sum(r["recorded"] for r in rows) / sum(r["took"] for r in rows)
    long = [r for r in rows if r["what"] == "long"]
    ratios = [r["recorded"] / r["replay"] for r in long]
    wholes = [r["recorded"] / r["took"] for r in long]
    lines += ["", f"A prediction took {statistics.median(r['took'] for r in rows):.2f} s in the median, reading the trace and its replays; recorded time by time taken, "
              f"all together: {speed:.1f}.",
              f"Of the long runs ({', '.join(f'{s:.0f} s' for s in sorted({r['recorded'] for r in long}))}): recorded time by that of one replay "
              f"{min(ratios):.0f} to {max(ratios):.0f}, by that of the whole command {min(wholes):.0f} to {max(wholes):.0f}.", "", *evidence.machine_lines(facts, ["postgres", "mariadb", "python"])]
    (directory / "summary.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    sys.exit(evidence.main("benches/whatif/run.py", "How well plumb whatif predicts.", "whatif", measure, [("--runs", {"metavar": "DIR", "help": "predict from the plans' recorded runs there (disks, memory, long, cpus, one); what is missing is measured"})], rounds=3))
