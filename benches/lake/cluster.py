# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The questions to a Spark cluster of this machine: cluster.py ASK ANSWERS WORKERS KILLS SEED, by a Python that has pyspark.

ASK is {"views": statements, "questions": {name: sql}}. Passes over all questions: one that warms up, one that is
timed, and KILLS in which a worker and its executor are killed at a random moment of a question; a new worker comes behind each.
Writes [{"pass", "question", "seconds", "killed", "rows"}]; `killed`: the moment in the question, s, null: in none."""

import ctypes
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

HOME = Path(pyspark.__file__).parent


def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def with_parent():
    """The process ends when this one does, however it ends (prctl(2), PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Cluster:
    """A master and its workers, each a process group of its own."""

    def __init__(self, workers, stack, log):
        self.stack, self.log, self.port = stack, log, port()
        self.start("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", self.port, "--webui-port", port())
        self.url = f"spark://127.0.0.1:{self.port}"
        until = time.monotonic() + 60
        while socket.socket().connect_ex(("127.0.0.1", self.port)):
            if time.monotonic() > until:
                raise SystemExit("Spark's master does not answer")
            time.sleep(0.1)
        self.workers = [self.worker() for _ in range(workers)]

    def start(self, *words):
        environment = {**os.environ, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
        child = subprocess.Popen([HOME / "bin/spark-class", *map(str, words)], env=environment, stdin=subprocess.DEVNULL, stdout=self.log,
                                 stderr=self.log, start_new_session=True, preexec_fn=with_parent)
        self.stack.callback(lambda: child.poll() is None and os.killpg(child.pid, signal.SIGKILL))
        return child

    def worker(self):
        return self.start("org.apache.spark.deploy.worker.Worker", self.url, "--cores", 1, "--memory", "1g", "--host", "127.0.0.1",
                          "--webui-port", port(), "--work-dir", Path(sys.argv[2]).parent / "spark-work")

    def kill(self, number):
        """The worker and its executor, which is in its group."""
        os.killpg(self.workers[number].pid, signal.SIGKILL)
        self.workers[number].wait()


def executors(spark):
    # One of them is the driver.
    return spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1


def has(spark, count):
    until = time.monotonic() + 120
    while executors(spark) != count:
        if time.monotonic() > until:
            raise SystemExit(f"{executors(spark)} executors, not {count}")
        time.sleep(0.1)


def plain(value):
    return float(value) if hasattr(value, "as_tuple") else value


def main():
    ask = json.loads(Path(sys.argv[1]).read_text())
    workers, kills, seed = map(int, sys.argv[3:6])
    chance, found = random.Random(seed), []
    with ExitStack() as stack, open(sys.argv[2] + ".log", "w") as log:
        cluster = Cluster(workers, stack, log)
        spark = (SparkSession.builder.master(cluster.url).config("spark.ui.enabled", "false").config("spark.executor.memory", "768m")
                 .config("spark.sql.shuffle.partitions", str(2 * workers)).config("spark.driver.host", "127.0.0.1")
                 .config("spark.driver.bindAddress", "127.0.0.1").getOrCreate())
        spark.sparkContext.setLogLevel("OFF")
        stack.callback(spark.stop)
        has(spark, workers)
        for statement in ask["views"]:
            spark.sql(statement)

        def answer(of, name, killed=None):
            since = time.monotonic()
            rows = [[plain(v) for v in row] for row in spark.sql(ask["questions"][name]).collect()]
            seconds = time.monotonic() - since
            found.append({"pass": of, "question": name, "seconds": seconds, "killed": killed, "rows": rows})
            return seconds

        for of in ("warm", "timed"):
            for name in ask["questions"]:
                answer(of, name)
        takes = {f["question"]: f["seconds"] for f in found if f["pass"] == "timed"}
        for number in range(kills):
            name = chance.choice(list(takes))
            moment = chance.uniform(0, takes[name])
            victim = number % workers
            timer = threading.Timer(moment, cluster.kill, [victim])
            timer.start()
            answer(f"kill {number}", name, moment)
            timer.join()
            has(spark, workers - 1)
            # The same by who is left, before another one comes.
            answer(f"kill {number}, after", name)
            cluster.workers[victim] = cluster.worker()
            has(spark, workers)
    Path(sys.argv[2]).write_text(json.dumps(found))


main()
