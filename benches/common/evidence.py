# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How a benchmark runs and what it leaves: options, rounds, a directory with
the plan, the machine, raw data in one archive and a summary (results/README.md)."""

import argparse
import csv
import datetime
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from common import system
from common.system import ROOT, Problem

SPDX = "Apache-2.0 OR MIT"
COMMENT = f"<!-- SPDX-License-Identifier: {SPDX} -->"


# Directories that this run was given for its results.
_directories = []


def say(text):
    print(text, file=sys.stderr, flush=True)


def main(program, about, what, measure, options, rounds=None):
    """Runs measure(options, undo) for a command line. `options` are those besides
    --rounds, --plumb and --out, as (flag, words for argparse)."""
    parser = argparse.ArgumentParser(prog=program, description=about)
    parser.add_argument("--rounds", type=int, default=rounds, help="how many rounds" + (f" ({rounds})" if rounds else ""))
    parser.add_argument("--plumb", default=ROOT / "target/release/plumb", help="the program to measure (target/release/plumb)")
    parser.add_argument("--out", help=f"directory for the results (results/DATE-{what})")
    for flag, words in options:
        parser.add_argument(flag, **words)
    options = parser.parse_args()
    # a kill must clean up like Ctrl-C
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    undo = system.Undo()
    try:
        if os.geteuid():
            raise Problem(f"this needs root: it mounts, makes loop devices, attaches programs; 'sudo {program}'")
        if options.rounds is not None and options.rounds < 1:
            raise Problem(f"--rounds {options.rounds}: at least one is needed")
        if not Path(options.plumb).is_file():
            raise Problem(f"{options.plumb} is missing; 'cargo build --release -p plumb' makes it, or name another with --plumb")
        measure(options, undo)
        for directory in _directories:
            pack(directory, shown(" ".join([program, *sys.argv[1:]]), [(directory, "OUT"), (options.plumb, "plumb")]))
    except (Problem, OSError, subprocess.CalledProcessError) as e:
        say(f"bench: {e}")
        return 2
    except KeyboardInterrupt:
        say("bench: interrupted; nothing was written")
        return 130
    finally:
        undo.close()
    return 0


def results_directory(asked, what):
    if asked:
        directory = Path(asked)
        if directory.exists() and any(directory.iterdir()):
            raise Problem(f"{asked} is not empty; name another with --out")
        _directories.append(directory.absolute())
        return directory.absolute()
    stem = f"{datetime.date.today().isoformat()}-{what}"
    names = (stem if i == 1 else f"{stem}-{i}" for i in range(1, 1000))
    directory = next(d for d in (ROOT / "results" / name for name in names) if not d.exists())
    _directories.append(directory)
    return directory


def pack(directory, command):
    """Raw data into raw.tar.xz; machine.json and plan.md where the benchmark wrote none."""
    if (directory / "summary.md").exists():
        subprocess.run([ROOT / "scripts/evidence.sh", directory, command], check=True)


def interleaved(jobs, rounds):
    """(round from 1, place in it, job): every job once a round, in another random
    order each, so that what drifts with time falls on none of them."""
    start = time.monotonic()
    for number in range(1, rounds + 1):
        for place, job in enumerate(random.sample(jobs, len(jobs))):
            yield number, place, job
        say(f"round {number} of {rounds}, {time.monotonic() - start:.0f} s")


def shown(text, names):
    """Without this machine's paths: each becomes the name that is given for it."""
    text = str(text)
    for path, name in names:
        if path:
            text = text.replace(str(path), name)
    return text.replace(f"{ROOT}/", "")


def write_csv(path, rows):
    if not rows:
        return
    with path.open("w", newline="") as f:
        f.write(f"# SPDX-License-Identifier: {SPDX}\n")
        writer = csv.DictWriter(f, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()})


def write_json(path, value):
    path.write_text(json.dumps({"SPDX-License-Identifier": SPDX, **value}, indent=1) + "\n")


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]


def machine_lines(machine, tools):
    """The machine in two sentences; the tools are keys of it."""
    before, after = " ".join(machine["load_average_before"]), " ".join(machine["load_average_after"])
    return [f"{machine['cpu']}, {machine['cpus_online']} CPUs{', virtual' if machine['virtual_machine'] else ''}, "
            f"{machine['memory_mib']} MiB, kernel {machine['kernel']}, clock {machine['clocksource']}; "
            f"load average {before} before, {after} after, {machine['stolen_cpu_share']:.1%} of the CPU time stolen.",
            ", ".join([f"{machine['plumb']} ({machine['plumb_commit']})", *(machine[t] for t in tools)]) + "."]


def left_out_lines(left_out):
    if not left_out:
        return []
    return ["", "## Left out", ""] + [f"- {name}: {why}" for name, why in left_out.items()]
