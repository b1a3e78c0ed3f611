# SPDX-License-Identifier: Apache-2.0 OR MIT
"""summary.json as a page to read."""


from common.evidence import COMMENT, left_out_lines, machine_lines, table


def _ns(value):
    return f"{value:,.0f}"


def _change(ratio):
    return f"{(ratio - 1) * 100:+.1f}"


def _test(name, test):
    per = test["events_per_unit"]
    lines = [f"## {name}: {per:g} event{'s' if per != 1 else ''} a {test['unit']}", ""]
    rows = []
    for recorder, got in test["recorders"].items():
        wall, added, cpu, to = got["wall_ns_per_unit"], got["added"], got["added_cpu"], got.get("plumb_to_this")
        base = recorder == "none" or not added
        rows.append([
            recorder, f"{_ns(wall['median'])} ({_ns(wall['min'])})",
            "-" if base else f"**{_ns(added['median'])}**",
            "-" if base else f"{_ns(added['interval'][0])}..{_ns(added['interval'][1])}",
            "-" if base else f"{_ns(added['p25'])}..{_ns(added['p75'])}",
            "-" if base else _ns(added["min"]),
            "-" if base else _ns(added["median"] * per),
            "-" if base or not cpu else _ns(cpu["median"]),
            "-" if not to else f"**{to['of_medians']:.2f}** ({to['interval'][0]:.2f}..{to['interval'][1]:.2f})",
        ])
    head = ["recorder", f"ns/{test['unit']}: median (min)", "added ns/event: median", "95 %", "p25..p75", "min - min",
            f"added ns/{test['unit']}", "CPU time, added ns/event", "plumb / this (95 %)"]
    lines += table(head, rows)
    notes = []
    for recorder, got in test["recorders"].items():
        if got["least_seen_of_made"] is not None and got["least_seen_of_made"] < 0.98:
            notes.append(f"{recorder} saw only {got['least_seen_of_made']:.1%} of the events in one run")
        if got["lost"]:
            notes.append(f"{recorder} lost {got['lost']:,} events")
        if got["disturbed"]:
            notes.append(f"another BPF tracer ran during {got['disturbed']} runs of {recorder}")
    if notes:
        lines += ["", "Notes: " + "; ".join(notes) + "."]
    return lines + [""]


def summary_md(s):
    machine = s["machine"]
    lines = [COMMENT, "# What recording costs", "", *machine_lines(machine, ("perf", "bpftrace", "fio")), ""]
    lines += [f"- {name}: {about}" for name, about in s["recorders"].items()]
    lines += ["", "A run's figure is the median of its batches. Added is against the runs without a recorder of the same",
              "round; 95 % is the bootstrap interval of the median, or of the ratio of two medians, over the rounds;",
              "CPU time is that of the load's processes alone, so not that of the loop device's workers.", ""]
    for name, test in s["tests"].items():
        lines += _test(name, test)
    steady = s["sustained"]
    if steady:
        lines += ["## Sustained rate", "",
                  f"{steady['events_per_second']:,} events/s for {steady['seconds']:.1f} s: {steady['events']:,} events, "
                  f"{steady['lost']:,} lost, {steady['missed']:,} missed. "
                  f"The recorder took {steady['recorder_cpu_share']:.1%} of a CPU (the load {steady['load_cpu_share']:.1%}), "
                  f"the trace {steady['trace_bytes'] / 1e6:,.0f} MB, {steady['bytes_per_event']:g} bytes an event.", ""]
    lines += [
        "## fio's IOPS while plumb records", ""]
    rows = []
    for where, got in s["iops"].items():
        ratio = got["ratio"]
        rows.append([where, _ns(got["none"]["median"]), _ns(got["plumb"]["median"]), f"{got['events_per_read']:.1f}", f"{got['events_per_second']:,}",
                     f"**{_change(ratio['median'])} %**", f"{_change(got['interval'][0])}..{_change(got['interval'][1])} %",
                     f"{_change(ratio['p25'])}..{_change(ratio['p75'])} %", f"{got['lost']:,}"])
    lines += table(["file in; events", "IOPS alone", "IOPS recorded", "events a read", "events/s", "change: median", "95 %", "p25..p75",
                     "lost"], rows)
    if s["kernel"] is not None:
        lines += ["", "`plumb events --measure` (the kernel's own count per program) is in summary.json under `kernel`."]
    lines += left_out_lines(s["left_out"])
    return "\n".join(lines) + "\n"
