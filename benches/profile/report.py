# SPDX-License-Identifier: Apache-2.0 OR MIT
"""summary.json as a page to read."""

from common.evidence import COMMENT, left_out_lines, machine_lines, table


def _change(ratio):
    return f"{(ratio - 1) * 100:+.2f}"


def _number(spread, scale=1, digits=0):
    return "-" if not spread else f"{spread['median'] / scale:,.{digits}f}"


def summary_md(s):
    lines = [COMMENT, "# What a profile costs", "", *machine_lines(s["machine"], ("perf", "bpftrace", "gcc")), "",
             f"A load with one thread on each of {s['threads']} CPUs counts its iterations for {s['seconds']:g} s, "
             f"{s['depth']} calls deep; samples are taken {s['hz']} times a second on each CPU.", ""]
    lines += [f"- {name}: {got['about']}" for name, got in s["recorders"].items()]
    rows = []
    for name, got in s["recorders"].items():
        rate, ratio = got["rate"], got.get("ratio")
        rows.append([
            name, f"{rate['median']:,.0f}", f"{rate['min']:,.0f}..{rate['max']:,.0f}",
            f"**{_change(ratio['median'])} %**" if ratio else "-",
            "{}..{} %".format(*map(_change, got["interval"])) if ratio and got["interval"] else "-",
            f"{_change(ratio['p25'])}..{_change(ratio['p75'])} %" if ratio else "-",
            f"{_change(got['cpu_ratio']['median'])} %" if ratio else "-",
            _number(got["samples"]), _number(got["bytes"], 1e6, 1), _number(got["profiler_cpu_ms"]),
            _number(got["end_ms"]), "-" if not got["lost"] else f"{got['lost']['max']:,.0f}"])
    head = ["profiler", "iterations/s: median", "min..max", "change: median", "95 %", "p25..p75", "per CPU second", "samples", "MB",
            "profiler's CPU time, ms", "end after the load, ms", "lost, at most"]
    lines += ["", *table(head, rows), "",
              "The change is against the run without a profiler of the same round; 95 % is the bootstrap interval of the",
              "median over the rounds. Per CPU second: the same of iterations per second of the load's own CPU time, which",
              "has what interrupts take in the kernel, and not what other processes took. The profiler's CPU time is that of its own processes, start and end with it, and",
              "not what its programs take in the kernel within the load's time; bcc's process is not measured. The end",
              "is what a user waits after the load: there plumb names functions, perf does so in `perf report` only."]
    disturbed = [f"another BPF tracer ran during {got['disturbed']} runs of {name}"
                 for name, got in s["recorders"].items() if got["disturbed"]]
    if disturbed:
        lines += ["", "Notes: " + "; ".join(disturbed) + "."]
    if s["naming"]:
        lines += ["", "## Naming", "", *table(["figure", "value"], s["naming"].items())]
    return "\n".join([*lines, *left_out_lines(s["left_out"])]) + "\n"
