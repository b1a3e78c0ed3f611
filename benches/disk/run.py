# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Served disks against their models, seen by fio. Start it with run.sh."""

import csv
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import evidence, system
from common.evidence import COMMENT, interleaved, say, shown, table
from common.stats import quantile, spread_of
from common.system import Problem, run, tool

# model: requests at depth 1 (about 2 s of the slow ones)
MODELS = {"instant": 4000, "nvme": 4000, "intel330": 4000, "gp3": 2000, "hdp72503": 150, "atlas10k4": 200}


class Disk:
    """A served disk, stopped at the end of the block and at the latest when we are killed."""

    def __init__(self, bench, model, *more):
        self.bench, self.model = bench, model
        self.name = f"bench-{model}"
        self.command = [bench.plumb, "disk", "serve", model, "--size", "512M", "--name", self.name, "--detach", "--json", *more]

    def __enter__(self):
        self.bench.undo.add(f"{self.bench.plumb} disk stop {self.name} --force 2>&-")
        out, _ = run(self.command, timeout=60)
        self.facts = json.loads(out)
        self.facts = self.facts.get("disk", self.facts)
        return self

    def __exit__(self, *_):
        run([self.bench.plumb, "disk", "stop", self.name], timeout=60)

    @property
    def device(self):
        return self.facts["device"]


class Bench:
    def __init__(self, options, undo):
        self.options, self.undo = options, undo
        self.plumb = Path(options.plumb).absolute()
        tool("fio", "fio")
        self.machine = system.Machine(self.plumb, {"fio": ["fio", "--version"]})
        self.directory = evidence.results_directory(options.out, "disk-timing")
        system.private_mounts()
        self.scratch = system.scratch(256, undo)
        self.rows, self.left_out, self.commands = [], {}, {}
        self.names = [(self.scratch, "SCRATCH"), (self.plumb, "plumb")]

    def note(self, what, command):
        self.commands.setdefault(what, shown(" ".join(map(str, command)), self.names))

    def fio(self, device, *words):
        command = ["fio", "--name=bench", f"--filename={device}", "--direct=1", "--bs=4k", "--output-format=json",
                   "--randrepeat=0", *words]
        return command, run(command, timeout=180, cwd=self.scratch)[0]

    def exactness(self, model):
        """fio's latency of each read, less the time that the model gave it: in the order of the requests."""
        log = self.scratch / f"{model}.csv"
        log.unlink(missing_ok=True)
        lat = self.scratch / f"{model}"
        for old in self.scratch.glob(f"{model}_clat*"):
            old.unlink()
        with Disk(self, model, "--log", log) as disk:
            self.note(f"serve {model}", disk.command)
            command, _ = self.fio(disk.device, "--rw=randread", "--ioengine=psync", "--iodepth=1",
                                  f"--number_ios={MODELS[model]}", f"--write_lat_log={lat}", "--log_avg_msec=0")
            self.note(f"reads of {model}", command)
        seen = [int(line.split(",")[1]) for line in next(self.scratch.glob(f"{model}_clat*.log")).read_text().splitlines()]
        with log.open() as f:
            said = [int(r["model_ns"]) for r in csv.DictReader(f) if r["operation"] == "read" and int(r["length"]) == 4096]
        if len(said) < len(seen):
            raise Problem(f"the log has {len(said)} reads and fio made {len(seen)}")
        # a new device is read by udev; fio's are the last
        errors = [(a - b) / 1e3 for a, b in zip(seen, said[-len(seen):])]
        timing = disk.facts.get("timing") or {}
        return {
            "what": "exactness", "of": model, "reads": len(seen), "model_p50_us": quantile(said[-len(seen):], 0.5) / 1e3,
            "model_p99_us": quantile(said[-len(seen):], 0.99) / 1e3,
            "seen_p50_us": quantile(seen, 0.5) / 1e3, "seen_p99_us": quantile(seen, 0.99) / 1e3,
            "error_p50_us": quantile(errors, 0.5), "error_p99_us": quantile(errors, 0.99),
            "error_max_us": max(errors), "path_p50_us": timing.get("path_p50", 0) / 1e3,
        }

    def sustained(self, depth):
        """Reads a second of the model that takes no time."""
        with Disk(self, "instant") as disk:
            command, out = self.fio(disk.device, "--rw=randread", "--ioengine=libaio", f"--iodepth={depth}", "--runtime=4",
                                    "--time_based")
            self.note(f"depth {depth}", command)
        job = system.fio_job(out)["read"]
        return {"what": "sustained", "of": str(depth), "iops": job["iops"], "mean_us": job["clat_ns"]["mean"] / 1e3}

    def once(self, job):
        kind, of = job
        return {"exactness": self.exactness, "sustained": self.sustained}[kind](of)


def measure(options, undo):
    bench = Bench(options, undo)
    jobs = [("exactness", m) for m in MODELS] + [("sustained", d) for d in (1, 8, 32)]
    for number, place, job in interleaved(jobs, options.rounds):
        try:
            bench.rows.append({"round": number, "place": place, **bench.once(job)})
        except (Problem, subprocess.SubprocessError, StopIteration, KeyError, ValueError) as e:
            say(f"bench: {job}: {e!r}")
            bench.left_out[" ".join(map(str, job))] = str(e) or repr(e)
    write(bench)


def write(bench):
    of = lambda kind, name: [r for r in bench.rows if r["what"] == kind and r["of"] == name]
    cell = lambda s: "-" if not s else f"{s['median']:,.1f} ({s['min']:,.1f}..{s['max']:,.1f})"
    exact, rows, summary = [], [], {}
    for model in MODELS:
        mine = of("exactness", model)
        if mine:
            got = {f: spread_of(mine, f) for f in mine[0] if f.endswith("_us")}
            summary[f"exactness of {model}"] = got
            exact.append([model, *(cell(got[f]) for f in ("model_p50_us", "seen_p50_us", "error_p50_us", "error_p99_us", "path_p50_us"))])
    for depth in ("1", "8", "32"):
        mine = of("sustained", depth)
        if mine:
            summary[f"sustained at depth {depth}"] = spread_of(mine, "iops")
            rows.append([depth, cell(spread_of(mine, "iops")), cell(spread_of(mine, "mean_us"))])
    machine = bench.machine.done()
    directory = bench.directory
    directory.mkdir(parents=True, exist_ok=True)
    for kind in ("exactness", "sustained"):
        evidence.write_csv(directory / f"{kind}.csv", [r for r in bench.rows if r["what"] == kind])
    evidence.write_json(directory / "machine.json", machine)
    evidence.write_json(directory / "summary.json", summary)
    plan = [COMMENT, "# Served disks against their models: plan", "", "benches/disk/run.sh; each once a round, in another random order.", ""]
    plan += [f"- {what}: `{command}`" for what, command in bench.commands.items()]
    (directory / "plan.md").write_text("\n".join(plan) + "\n")
    lines = [COMMENT, "# Served disks against their models", "", *evidence.machine_lines(machine, ["fio"]), "",
             f"Median over {bench.options.rounds} rounds (least..most). Reads of 4 KiB at depth 1, O_DIRECT, by fio; the error of each is fio's",
             "completion latency less the time that the model gave to that very request. The way to the device and back is measured when the",
             "disk is started and taken off, as far as the model's time allows: what the instant model shows is that way itself.", "",
             *table(["model", "model's p50 us", "fio's p50 us", "error p50 us", "error p99 us", "way us"], exact), "",
             "Reads of 4 KiB of the instant model, by depth:", "",
             *table(["depth", "reads a second", "mean us"], rows), *evidence.left_out_lines(bench.left_out)]
    (directory / "summary.md").write_text("\n".join(lines) + "\n")
    say(f"bench: {shown(directory, [])}")


if __name__ == "__main__":
    sys.exit(evidence.main("benches/disk/run.sh", "How exact a served disk is, what it adds and sustains.",
                           "disk-timing", measure, [], rounds=5))
