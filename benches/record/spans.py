# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a span costs the program: ns for each call of a function whose entry and return are probed, by plumb and by
bpftrace, against the bare call in the same round. Start it with spans.sh."""

import shutil
import signal
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from common import evidence, stats, system
from common.evidence import COMMENT, say, shown
from common.system import end, run, spawn, tool

WORK = system.ROOT / "target" / "spans"
CALLS = 300_000
TEXT = "select a from t where b = 42"
SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
__attribute__((noinline)) void request(const char *text, long n) { __asm__ volatile("" :: "r"(text), "r"(n)); }
__attribute__((noinline)) void done(void) { __asm__ volatile(""); }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
int main(int argc, char **argv) {
	long calls = atol(argv[1]);
	getchar();
	double begin = now();
	for (long i = 0; i < calls; i++) { request(argv[2], i); done(); }
	printf("%.1f\\n", (now() - begin) / calls);
	return 0;
}
"""
HIST = "@[tid] = nsecs; } PLACE /@[tid]/ { @h = hist(nsecs - @[tid]); delete(@[tid]); }"


def recorders(program, binary):
    trace = WORK / "trace"
    bare = ["record", "-q", "--programs", "none", "-e", "sched", "--stacks", "0ms", "--sample", "off", "-o", trace, "--pid"]

    def plumb(*spec):
        return lambda pid: [program, *bare, pid, *spec]

    def bpftrace(begin, finish):
        return lambda pid: ["bpftrace", "-q", "-e", f"{begin} {{ {HIST.replace('PLACE', finish)}"]

    entry, back, other = f"uprobe:{binary}:request", f"uretprobe:{binary}:request", f"uprobe:{binary}:done"
    return {
        "none": None,
        "plumb, same events, no span": plumb(),
        "plumb, entry and return": plumb("--span", f"r={binary}:request"),
        "plumb, two functions": plumb("--span", f"r={binary}:request..done"),
        "plumb, two functions, SQL": plumb("--span", f"r={binary}:request(arg0:sql)..done"),
        "bpftrace, entry and return": bpftrace(entry, back),
        "bpftrace, two functions": bpftrace(entry, other),
    }


def once(words, binary):
    """ns for each call."""
    child = spawn([binary, CALLS, TEXT], stdin=-1, stdout=-1, text=True)
    recorder = None
    try:
        if words:
            shutil.rmtree(WORK / "trace", ignore_errors=True)
            recorder = spawn(list(map(str, words(child.pid))), stdout=-3, stderr=-3)
            time.sleep(2.5)
        out, _ = child.communicate("\n")
        return float(out)
    finally:
        if recorder:
            recorder.send_signal(signal.SIGINT)
            recorder.wait()
        end(child)


def measure(options, undo):
    program = Path(options.plumb).absolute()
    machine = system.Machine(program, {})
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    (WORK / "p.c").write_text(SOURCE)
    binary = WORK / "p"
    run(["cc", "-O2", "-o", binary, WORK / "p.c"])
    tool("bpftrace", "bpftrace")
    tools, rows = recorders(program, binary), []
    for number, place, recorder in evidence.interleaved(list(tools), options.rounds):
        rows.append({"round": number, "place": place, "tool": recorder, "ns": once(tools[recorder], binary)})
    shutil.rmtree(WORK, ignore_errors=True)
    directory = evidence.results_directory(options.out, "spans")
    directory.mkdir(parents=True, exist_ok=True)
    base = {r["round"]: r["ns"] for r in rows if r["tool"] == "none"}
    table = []
    for name in tools:
        costs = [r["ns"] - base[r["round"]] for r in rows if r["tool"] == name]
        low, high = stats.bootstrap_median(costs)
        table.append([name, *([f"**{stats.quantile(costs, 0.5):,.0f}**", f"{low:,.0f} to {high:,.0f}"] if name != "none" else ["-", "-"])])
    lines = [COMMENT, "# What a span costs", "", *evidence.machine_lines(machine.done(), []), "",
             f"Time that a call of a function takes longer with a probe at its begin and one at its end, ns; {options.rounds} rounds of "
             f"{CALLS:,} calls, recorders in random order. bpftrace makes a histogram of the durations, plumb writes both events to the trace; "
             "95 %: bootstrap interval of the median.", "", *evidence.table(["recorder", "ns: median", "95 %"], table)]
    (directory / "summary.md").write_text(shown("\n".join(lines), [(program, "plumb"), (WORK, "DIR")]) + "\n")
    evidence.write_csv(directory / "raw.csv", rows)
    evidence.write_json(directory / "machine.json", machine.done())
    say(f"bench: {shown(directory, [])}")


if __name__ == "__main__":
    sys.exit(evidence.main("benches/record/spans.sh", __doc__, "spans", measure, [], rounds=10))
