#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Does a comparison of kernels find what there is, and nothing else? The same kernel twice under ten loads, and a kernel
with one cost added that is known; in guests with virtual time. Usage: run.py --plumb PROGRAM --into DIR"""

import argparse
import json
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent


def plan(plumb, name, into):
    """The pairs that differ in one factor, of a plan's main figure."""
    done = subprocess.run([plumb, "plan", "run", str(HERE / f"{name}.toml") if not (into / name).exists() else str(into / name),
                           *([] if (into / name).exists() else ["-o", str(into / name)])], stdout=subprocess.DEVNULL)
    if done.returncode not in (0, 3):
        raise SystemExit(f"{name}: exit code {done.returncode}")
    report = subprocess.run([plumb, "plan", "report", str(into / name), "--json"], capture_output=True, text=True, check=True)
    (into / f"{name}.json").write_text(report.stdout)
    return json.loads(report.stdout)["figures"][0]["changes"]["pairs"]


def same(pairs):
    pairs = [p for p in pairs if p["factor"] == "copy" and p["p"] is not None]
    chance = [p for p in pairs if p["p"] <= 0.05]
    found = [p for p in pairs if p["found"]]
    largest = max(pairs, key=lambda p: abs(p["effect"] - 1))
    out = ["## The same kernel twice", "",
           f"{len(pairs)} comparisons (two kernels, ten loads; three repetitions a side): {len(found)} were told as a difference, "
           f"{len(chance)} had p <= 5 % (by chance {len(pairs) / 20:.0f} would). "
           f"Largest difference: {(largest['effect'] - 1) * 100:+.3f} % ({', '.join(largest['with'])}).", "",
           "| kernel and load | one, ms | two, ms | two / one | p |", "|---|---|---|---|---|"]
    for p in sorted(pairs, key=lambda p: p["with"]):
        out.append(f"| {', '.join(p['with'])} | {p['medians'][0] / 1e6:.3f} | {p['medians'][1] / 1e6:.3f} | {p['effect']:.5f} | {p['p']:.3f} |")
    return out


def injected(pairs):
    pairs = [p for p in pairs if p["factor"] == "kernel"]
    out = ["", "## One cost added", "", "| added | load | plain, ms | with it, ms | ratio (95 %) | told | parts of the account that changed |",
           "|---|---|---|---|---|---|---|"]
    for p in sorted(pairs, key=lambda p: (p["levels"][1], p["with"])):
        parts = "; ".join(f"{x['call'] or 'outside calls'}: {x['category']} {x['difference'] / 1e6:+.3f} ms" for x in p["parts"])
        span = f" ({p['interval']['low']:.4f} to {p['interval']['high']:.4f})" if p["interval"] else ""
        out.append(f"| {p['levels'][1]} | {', '.join(p['with'])} | {p['medians'][0] / 1e6:.3f} | {p['medians'][1] / 1e6:.3f} | "
                   f"{p['effect']:.4f}{span} | {'yes' if p['found'] else 'no'} | {parts or '-'} |")
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plumb", required=True)
    parser.add_argument("--into", required=True, type=pathlib.Path)
    options = parser.parse_args()
    options.into.mkdir(parents=True, exist_ok=True)
    lines = ["<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->", "# What a comparison of kernels finds, and what it does not", "",
             "Guests with one emulated CPU whose clock counts instructions (1 ns each). Elapsed time of the load.", ""]
    lines += injected(plan(options.plumb, "injected", options.into))
    lines += [""] + same(plan(options.plumb, "same", options.into))
    (options.into / "summary.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


main()
