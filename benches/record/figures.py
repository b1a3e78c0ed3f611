# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Rows to figures: what each recorder adds, and beside the others."""

import random
import statistics

from common.stats import bootstrap_median, quantile, spread


def cost(rows, test, recorder, clock, per):
    """Added ns per event: each run against the base of its own round, and the
    minimum of all runs against the minimum of all bases."""
    base = {}
    for row in rows:
        if row["test"] == test and row["recorder"] == "none":
            base.setdefault(row["round"], []).append(row)
    mine = [row for row in rows if row["test"] == test and row["recorder"] == recorder and row["round"] in base]
    if not mine or any(row[f"{clock}_median"] is None for row in mine):
        return None
    pairs = {}
    for row in mine:
        floor = statistics.mean(b[f"{clock}_median"] for b in base[row["round"]])
        pairs[row["round"]] = (row[f"{clock}_median"] - floor) / per
    out = spread(list(pairs.values()))
    lowest = lambda some: min(row[f"{clock}_min"] for row in some)
    out["min"] = (lowest(mine) - lowest([b for bs in base.values() for b in bs])) / per
    out["interval"] = bootstrap_median(list(pairs.values()))
    out["rounds"] = pairs
    return out


def ratio(mine, other, rounds=4000):
    """Ratio of the medians, with the bootstrap 95 % interval over the rounds;
    None when the other's cost cannot be told from noise."""
    both = [r for r in mine["rounds"] if r in other["rounds"]]
    if not both or other["interval"][0] <= 0:
        return None
    generator = random.Random(1)
    values = []
    for _ in range(rounds):
        some = generator.choices(both, k=len(both))
        below = statistics.median(other["rounds"][r] for r in some)
        if below > 0:
            values.append(statistics.median(mine["rounds"][r] for r in some) / below)
    middle = lambda some: statistics.median(some["rounds"][r] for r in both)
    return {
        "of_medians": middle(mine) / middle(other),
        "interval": (quantile(values, 0.025), quantile(values, 0.975)),
        "of_minima": mine["min"] / other["min"] if other["min"] > 0 else None,
    }


def summarise(bench, every, recorders, sustained, iops, kernel, machine):
    """Everything that is reported, as one document."""
    out = {"machine": machine, "recorders": {r.name: r.about for r in recorders}, "left_out": bench.left_out,
           "tests": {}, "sustained": sustained, "iops": {}, "kernel": kernel}
    for test in every:
        entry = {"unit": test.unit, "events_per_unit": test.per_unit, "events": test.hits, "recorders": {}}
        for recorder in recorders:
            rows = [r for r in bench.rows if r["test"] == test.name and r["recorder"] == recorder.name]
            if not rows:
                continue
            seen = [r["events_seen"] / r["events_made"] for r in rows if r["events_seen"] and r["events_made"]]
            entry["recorders"][recorder.name] = {
                "wall_ns_per_unit": {**spread([r["wall_median"] for r in rows]), "min": min(r["wall_min"] for r in rows)},
                "cpu_ns_per_unit": {**spread([r["cpu_median"] for r in rows]), "min": min(r["cpu_min"] for r in rows)},
                "added": cost(bench.rows, test.name, recorder.name, "wall", test.per_unit),
                "added_cpu": cost(bench.rows, test.name, recorder.name, "cpu", test.per_unit),
                "least_seen_of_made": min(seen) if seen else None,
                "lost": sum(r["events_lost"] or 0 for r in rows),
                "disturbed": sum(not r["alone"] for r in rows),
            }
        plumb = entry["recorders"].get("plumb")
        if plumb:
            for name, other in entry["recorders"].items():
                if name not in ("none", "plumb"):
                    other["plumb_to_this"] = ratio(plumb["added"], other["added"])
        for found in entry["recorders"].values():
            for key in ("added", "added_cpu"):
                if found[key]:
                    del found[key]["rounds"]  # in the raw data
        out["tests"][test.name] = entry
    for where in sorted({r["where"] for r in iops}):
        rows = [r for r in iops if r["where"] == where]
        ratios = [r["ratio"] for r in rows]
        out["iops"][where] = {
            "none": spread([r["none_iops"] for r in rows]), "plumb": spread([r["plumb_iops"] for r in rows]),
            "ratio": spread(ratios), "interval": bootstrap_median(ratios),
            "events_per_read": quantile([r["events"] / r["plumb_reads"] for r in rows], 0.5),
            "events_per_second": round(quantile([r["events_per_second"] for r in rows], 0.5)),
            "lost": sum(r["lost"] for r in rows),
        }
    return out
