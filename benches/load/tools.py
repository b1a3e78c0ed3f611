# SPDX-License-Identifier: Apache-2.0 OR MIT
"""plumb load and its peers on one job: their words, and what they say came of it."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from common.system import fio_job, run, tool

HERE = Path(__file__).resolve().parent
PERCENTILES = {"p50": 50, "p99": 99, "p99_9": 99.9}


@dataclass
class Job:
    """The same work for all tools."""
    kind: str  # read, write, create
    target: Path  # file, device, or (create) directory
    size: int = 0
    block: int = 4096
    seconds: float = 0.0  # 0: until `operations` are done
    operations: int = 0
    through: str = "pwrite"  # as plumb calls it
    depth: int = 1
    direct: bool = False
    sync: bool = False  # fdatasync behind each write
    order: str = "random"
    rate: int = 0  # operations a second of an open loop
    arrivals: str = "constant"
    percentiles: bool = False  # of the same latency as plumb's are wanted

    def once(self):
        """The same of one operation: what a tool costs before it begins."""
        return Job(**{**vars(self), "seconds": 0.0, "operations": 1})


@dataclass
class Seen:
    """What a tool says of a run."""
    operations: int
    elapsed_s: float
    ns: dict = field(default_factory=dict)  # mean, max, p50, p99, p99_9 of latency; None: too few for it
    bytes: int = 0
    verdict: str = ""


    def us(self):
        return {name: None if ns is None else ns / 1e3 for name, ns in self.ns.items()}


class Plumb:
    name = "plumb"
    good = (0, 3)  # 3: not valid; the row says so, with the reasons
    log = None

    def __init__(self, bench):
        self.bench = bench

    def command(self, job):
        words = [self.bench.plumb, "load", "--what", job.kind, "--block", job.block, "--json", "--quiet"]
        if job.kind == "create":
            words += ["--files", job.operations, "--keep"]  # removing them is no part of it
        else:
            words += ["--through", job.through, "--order", job.order, "--depth", job.depth]
            words += ["--time", f"{job.seconds}s"] if job.seconds else ["--operations", job.operations]
        words += ["--direct"] * job.direct + ["--sync", "fdatasync"] * job.sync
        if job.kind == "write":
            words += ["--size", job.size, "--destroy", job.target]
        if job.rate:
            words += ["--rate", job.rate, "--arrivals", job.arrivals]
        if self.log:
            words += ["--log", self.log]
        return words + [job.target]

    def seen(self, text, job):
        told = json.loads(text)
        step = told["cells"][0]["rounds"][0][0]
        done = step["jobs"][0]
        kind = next(k for k in done["operations"] if k["kind"] == job.kind)
        latency = kind["response"] or kind["service"]
        reasons = [r["check"] for r in step["verdict"]["reasons"] if r["severity"] != "note"]
        verdict = step["verdict"]["word"] + (f": {', '.join(reasons)}" if reasons else "")
        ns = {"mean": latency["mean_ns"], "max": latency["max"], **{p: latency[p] for p in PERCENTILES}}
        return Seen(kind["count"] - kind["errors"], done["elapsed_ns"] / 1e9, ns, kind["bytes"], verdict)


class PlumbLog(Plumb):
    """With each operation in a log."""
    name = "plumb-log"

    def __init__(self, bench):
        super().__init__(bench)
        self.log = bench.scratch / "load.log"

    def command(self, job):
        self.log.unlink(missing_ok=True)
        return super().command(job)


class Fio:
    name = "fio"
    good = (0,)
    engines = {"pwrite": "psync", "null": "null", "io-uring": "io_uring", "io-uring-fixed": "io_uring"}

    def __init__(self, bench):
        self.bench = bench

    def command(self, job):
        words = [tool("fio", "fio"), "--name=job", "--output-format=json", "--thread"]
        if job.kind == "create":
            words += ["--ioengine=filecreate", f"--directory={job.target}", f"--nrfiles={job.operations}", "--openfiles=1",
                      "--filesize=4k", "--create_on_open=1", "--fallocate=none"]
        else:
            order = "rand" if job.order == "random" else ""
            # invalidate: fio empties the page cache of its file unless told
            words += [f"--filename={job.target}", f"--bs={job.block}", f"--size={job.size}", f"--rw={order}{job.kind}", "--norandommap",
                      "--invalidate=0", "--fallocate=none", f"--ioengine={self.engines[job.through]}", f"--iodepth={job.depth}"]
            words += ["--time_based", f"--runtime={round(job.seconds * 1000)}ms"] if job.seconds else \
                [f"--io_size={job.operations * job.block}"]
        # fio's own default is percentiles of less: more of them would cost it more
        words += ["--lat_percentiles=1", "--clat_percentiles=0", "--percentile_list=50:99:99.9"] * job.percentiles
        words += ["--fixedbufs", "--registerfiles"] * (job.through == "io-uring-fixed")
        words += ["--direct=1"] * job.direct + ["--fdatasync=1"] * job.sync + ["--readonly"] * (job.kind == "read")
        if job.kind == "write":
            words += ["--overwrite=1"]
        if job.rate:
            words += [f"--rate_iops={job.rate}", f"--rate_process={'poisson' if job.arrivals == 'poisson' else 'linear'}"]
        return words

    def seen(self, text, job):
        told = fio_job(text)
        # filecreate counts what it makes as reads
        side = told["write" if job.kind == "write" else "read"]
        latency = side["lat_ns"]
        at = {float(p): ns for p, ns in latency.get("percentile", {}).items()}
        ns = {"mean": latency["mean"], "max": latency["max"], **{name: at[p] for name, p in PERCENTILES.items() if p in at}}
        # its runtime is whole milliseconds, its rate is not
        elapsed = side["total_ios"] / side["iops"] if side["iops"] else side["runtime"] / 1e3
        return Seen(side["total_ios"], elapsed, ns, side["io_bytes"])


class Sysbench:
    """Its file test, where it has the same operation: one call at a time on a file."""
    name = "sysbench"
    good = (0,)

    def __init__(self, bench):
        self.bench = bench
        self.directory = bench.work

    def command(self, job):
        link = self.directory / "test_file.0"
        link.unlink(missing_ok=True)
        link.symlink_to(job.target)
        mode = "rndwr" if job.kind == "write" else "rndrd"
        words = [tool("sysbench", "sysbench"), "fileio", "--file-num=1", f"--file-total-size={job.size}",
                 f"--file-block-size={job.block}", f"--file-test-mode={mode}", "--rand-type=uniform"]
        words += ["--file-fsync-all=on", "--file-fsync-mode=fdatasync"] if job.sync else ["--file-fsync-freq=0"]
        words += [f"--time={max(1, round(job.seconds))}", "--events=0"] if job.seconds else \
            ["--time=0", f"--events={job.operations}"]
        return words + ["run"]

    def seen(self, text, job):
        figure = lambda pattern: float(re.search(pattern, text).group(1))
        seconds = figure(r"total time:\s+([\d.]+)s")
        rate = figure(r"writes/s:\s+([\d.]+)" if job.kind == "write" else r"reads/s:\s+([\d.]+)")
        return Seen(round(rate * seconds), seconds)


class Bare:
    """bare.c, without a clock."""
    name = "c"
    good = (0,)
    timed = 0

    def __init__(self, bench):
        self.bench = bench
        self.program = bench.scratch / "bare"
        self.build()

    def build(self):
        if not self.program.exists():
            run([tool("gcc", "gcc"), "-O2", "-Wall", "-o", self.program, HERE / "bare.c"])

    def command(self, job):
        what = job.kind if job.kind == "create" else "null" if job.through == "null" else \
            "fdatasync" if job.sync else "direct" if job.direct else "pread"
        return [self.program, what, self.timed, job.target, job.block or 1, job.size or 1, job.seconds,
                job.operations or 1 << 62]

    def seen(self, text, job):
        operations, ns, _ = map(int, text.split())
        return Seen(operations, ns / 1e9)


class BareTimed(Bare):
    """bare.c, with the clock before and after each call."""
    name = "c-clock"
    timed = 1
