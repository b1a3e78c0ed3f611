# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Normal reads with think time beside sequential low ones on served disks: alone, mixed, mixed under plumb govern.
Start it with govern.sh."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import evidence, system
from common.evidence import COMMENT, interleaved, say, shown, table
from common.stats import spread_of
from common.system import Problem, run, tool

# model: (think time of the normal reader, options of plumb govern for its second case)
MODELS = {"hdp72503": ("10ms", None), "intel330": ("1ms", ["--target", "2ms"])}
SECONDS = 10
LOW = ["--rw=read", "--bs=512k", "--ioengine=libaio", "--iodepth=4"]
KILLS = 10


def hierarchy():
    """Where cgroups that limit block I/O are made, and their files of limits."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, point, kind, options, *_ = line.split()
        if kind == "cgroup" and "blkio" in options.split(","):
            return Path(point), [f"blkio.throttle.{d}_{w}_device" for w in ("bps", "iops") for d in ("read", "write")]
        controllers = Path(point, "cgroup.controllers")
        if kind == "cgroup2" and controllers.exists() and "io" in controllers.read_text().split():
            return Path(point), ["io.max"]
    raise Problem("no cgroup hierarchy with the controller of block I/O is mounted")


class Disk:
    """A served disk with a low cgroup, gone at the end of the block and at the latest when we are killed."""

    def __init__(self, bench, model):
        self.bench, self.name = bench, f"bench-{model}"
        self.command = [bench.plumb, "disk", "serve", model, "--size", "2G", "--name", self.name, "--detach", "--json"]

    def __enter__(self):
        self.bench.undo.add(f"{self.bench.plumb} disk stop {self.name} --force 2>&-")
        facts = json.loads(run(self.command, timeout=60)[0])
        self.device = facts.get("disk", facts)["device"]
        number = os.stat(self.device).st_rdev
        self.number = f"{os.major(number)}:{os.minor(number)}"
        return self

    def __exit__(self, *_):
        run([self.bench.plumb, "disk", "stop", self.name, "--force"], timeout=60)


class Bench:
    def __init__(self, options, undo):
        self.undo, self.plumb = undo, Path(options.plumb).absolute()
        self.options = options
        tool("fio", "fio")
        self.machine = system.Machine(self.plumb, {"fio": ["fio", "--version"]})
        self.directory = evidence.results_directory(options.out, "govern")
        self.mount, self.files = hierarchy()
        self.group = self.mount / f"plumb-bench-{os.getpid()}"
        self.group.mkdir()
        undo.add(f"rmdir {self.group}")
        self.scratch = system.scratch(64, undo)
        self.rows, self.left_out, self.commands = [], {}, {}

    def note(self, what, command):
        names = [(self.scratch, "SCRATCH"), (self.plumb, "plumb"), (self.group, "GROUP")]
        self.commands.setdefault(what, shown(" ".join(map(str, command)), names))

    def limits(self, disk):
        lines = [l for f in self.files for l in (self.group / f).read_text().splitlines()]
        return [l for l in lines if l.split()[0] == disk.number]

    def low_bytes(self, disk):
        """What the low group has transferred to and from a disk."""
        if len(self.files) == 1:
            lines = [l.split() for l in (self.group / "io.stat").read_text().splitlines()]
            words = [w for l in lines if l[0] == disk.number for w in l if w.startswith(("rbytes=", "wbytes="))]
            return sum(int(w.split("=")[1]) for w in words)
        lines = [l.split() for l in (self.group / "blkio.throttle.io_service_bytes").read_text().splitlines()]
        return sum(int(l[2]) for l in lines if l[0] == disk.number and l[1] in ("Read", "Write"))

    def fio(self, name, disk, seconds, *words, low=False):
        out = self.scratch / f"{name}.json"
        command = ["fio", f"--name={name}", f"--filename={disk.device}", "--direct=1", f"--runtime={seconds}", "--time_based",
                   "--randrepeat=0", "--output-format=json", f"--output={out}", *words]
        self.note(name, command)
        into = (lambda: (self.group / "cgroup.procs").write_text("0")) if low else None
        child = subprocess.Popen(command, preexec_fn=into, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.undo.add(f"kill {child.pid} 2>&-")

        def result():
            if child.wait(timeout=seconds + 60):
                raise Problem(f"fio {name} failed")
            return system.fio_job(out.read_text())["read"]
        return result

    def govern(self, disk, *more):
        command = [self.plumb, "govern", "--low", self.group, "--protect", disk.device, "--json", *more]
        self.note(" ".join(["govern", *more]), command)
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.undo.add(f"kill {child.pid} 2>&-")
        until(lambda: self.limits(disk))
        return child

    def mixed(self, model, case):
        think, target = MODELS[model]
        with Disk(self, model) as disk:
            self.note(f"serve {model}", disk.command)
            governor = None
            if case.startswith("governed"):
                governor = self.govern(disk, *(target if case == "governed, steered" else []))
            # the low reader is there before the normal one and after it: the normal one's time is the window
            low = self.fio("low", disk, SECONDS + 2, *LOW, low=True) if case != "alone" else None
            time.sleep(0.5)
            before, begun = self.low_bytes(disk), time.monotonic()
            normal = self.fio("normal", disk, SECONDS, "--rw=randread", "--bs=4k", "--ioengine=psync", f"--thinktime={think}")()
            low_mb_s = (self.low_bytes(disk) - before) / (time.monotonic() - begun) / 1e6
            if low:
                low()
            row = {"model": model, "case": case, "normal_iops": normal["iops"],
                   "normal_p50_ms": normal["clat_ns"]["percentile"]["50.000000"] / 1e6,
                   "normal_p99_ms": normal["clat_ns"]["percentile"]["99.000000"] / 1e6,
                   "low_mb_s": low_mb_s if low else None, "load_average": os.getloadavg()[0]}
            if governor:
                governor.send_signal(signal.SIGINT)
                said = json.loads(governor.communicate(timeout=30)[0])
                row["governor_cpu"] = said["cpu_s"] / (said["elapsed_ns"] / 1e9)
                row["seen_p99_ms"] = (said["disks"][0]["limited"]["normal"]["p99_ns"] or 0) / 1e6
                if self.limits(disk):
                    raise Problem("limits are left")
            return row

    def reaction(self):
        """How soon the limit is back after the first normal read, and gone after the governor is killed."""
        rows = []
        with Disk(self, "instant") as disk:
            for number in range(KILLS):
                child = self.govern(disk, "--delay", "300ms")
                until(lambda: not self.limits(disk))
                low = self.fio("low", disk, 2, *LOW, low=True)
                time.sleep(0.5 + random.random() * 0.2)
                reader = os.open(disk.device, os.O_RDONLY | os.O_DIRECT)
                begun = time.monotonic()
                os.preadv(reader, [memory()], 0)
                until(lambda: self.limits(disk))
                back = time.monotonic() - begun
                os.close(reader)
                time.sleep(random.random() * 0.25)
                child.kill()
                begun = time.monotonic()
                until(lambda: not self.limits(disk))
                gone = time.monotonic() - begun
                child.communicate()
                low()
                rows.append({"number": number + 1, "limited_after_ms": back * 1e3, "gone_after_kill_ms": gone * 1e3})
        return rows


def memory():
    import mmap
    return mmap.mmap(-1, 4096)


def until(true):
    begun = time.monotonic()
    while not true():
        if time.monotonic() - begun > 20:
            raise Problem("nothing happened for 20 s")
        time.sleep(0.0005)


def measure(options, undo):
    bench = Bench(options, undo)
    jobs = [(m, c) for m, (_, t) in MODELS.items() for c in ("alone", "mixed", "governed", *(["governed, steered"] if t else []))]
    for number, place, job in interleaved(jobs, options.rounds):
        try:
            bench.rows.append({"round": number, "place": place, **bench.mixed(*job)})
        except (Problem, subprocess.SubprocessError, KeyError, ValueError) as e:
            say(f"bench: {job}: {e!r}")
            bench.left_out[" ".join(job)] = str(e) or repr(e)
    write(bench, bench.reaction())


def write(bench, reactions):
    cell = lambda s, d=1: "-" if not s else f"{s['median']:,.{d}f} ({s['min']:,.{d}f}..{s['max']:,.{d}f})"
    lines, summary = [], {}
    for model in MODELS:
        alone = {r["round"]: r["normal_iops"] for r in bench.rows if r["model"] == model and r["case"] == "alone"}
        for case in ("alone", "mixed", "governed", "governed, steered"):
            mine = [r for r in bench.rows if r["model"] == model and r["case"] == case]
            if not mine:
                continue
            for r in mine:
                r["kept_percent"] = 100 * r["normal_iops"] / alone[r["round"]] if alone.get(r["round"]) else None
            fields = ("normal_iops", "kept_percent", "normal_p50_ms", "normal_p99_ms", "low_mb_s")
            got = {f: spread_of(mine, f) for f in (*fields, "governor_cpu")}
            summary[f"{model}, {case}"] = got
            lines.append([model, case, *(cell(got[f]) for f in fields)])
    for row in bench.rows:
        row.setdefault("kept_percent", None)
        row.setdefault("governor_cpu", None)
        row.setdefault("seen_p99_ms", None)
    summary["reaction"] = {f: spread_of(reactions, f) for f in ("limited_after_ms", "gone_after_kill_ms")}
    cpu = spread_of(bench.rows, "governor_cpu")
    machine = bench.machine.done()
    directory = bench.directory
    directory.mkdir(parents=True, exist_ok=True)
    evidence.write_csv(directory / "mixed.csv", bench.rows)
    evidence.write_csv(directory / "reaction.csv", reactions)
    evidence.write_json(directory / "machine.json", machine)
    evidence.write_json(directory / "summary.json", summary)
    plan = [COMMENT, "# plumb govern: plan", "", "benches/iosched/govern.sh; each once a round, in another random order.", ""]
    plan += [f"- {what}: `{command}`" for what, command in bench.commands.items()]
    (directory / "plan.md").write_text("\n".join(plan) + "\n")
    reaction = summary["reaction"]
    text = [COMMENT, "# plumb govern: what is kept of normal I/O, and left to low I/O", "", *evidence.machine_lines(machine, ["fio"]), "",
            f"Median over {bench.options.rounds} rounds (least..most). Served disks; normal: random reads of 4 KiB with think time, for",
            f"{SECONDS} s; low: sequential reads of 512 KiB at depth 4 in a cgroup of their own, all that time. 'kept' is against the",
            "same round's 'alone', whose own spread tells how far the machine was busy with other things.", "",
            *table(["model", "case", "normal reads/s", "kept %", "normal p50 ms", "normal p99 ms", "low MB/s"], lines), "",
            f"Over {KILLS} times on the model that takes no time, the low reader running free: the limit was back "
            f"{cell(reaction['limited_after_ms'])} ms", f"after the first normal read began; after kill -9 of plumb it was gone in "
            f"{cell(reaction['gone_after_kill_ms'])} ms.", "",
            f"The governor took {cell({k: 100 * v for k, v in cpu.items() if k != 'n'}, 2) if cpu else '-'} % of one CPU.",
            *evidence.left_out_lines(bench.left_out)]
    (directory / "summary.md").write_text("\n".join(text) + "\n")
    say(f"bench: {shown(directory, [])}")


if __name__ == "__main__":
    sys.exit(evidence.main("benches/iosched/govern.sh", "What plumb govern keeps of normal I/O and leaves to low I/O.",
                           "govern", measure, [], rounds=3))
