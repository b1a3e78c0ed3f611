# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two network namespaces whose clock is one, recorded as two hosts; the clock of one is then set ahead and made faster.
What 'plumb explain' says of it against the truth, how fast it is, and what recording segments costs beside tcpdump."""

import json
import os
import shutil
import statistics
import struct
import subprocess
import time
from pathlib import Path

from common import evidence, system
from common.evidence import COMMENT, say, shown
from common.system import Problem, run, spawn

NAMES = ["plumb-left", "plumb-right"]
LEFT, RIGHT = NAMES
ADDRESS = "10.215.0.2:7000"
HEAD = 64


def wire():
    for name in NAMES:
        run(["ip", "netns", "add", name], timeout=10)
    run(["ip", "link", "add", "name", "near", "netns", LEFT, "type", "veth", "peer", "name", "far", "netns", RIGHT], timeout=10)
    for name, device, address in [(LEFT, "near", 1), (RIGHT, "far", 2)]:
        run(["ip", "-n", name, "addr", "add", f"10.215.0.{address}/24", "dev", device], timeout=10)
        run(["ip", "-n", name, "link", "set", device, "up"], timeout=10)


def on(name, *words):
    return ["ip", "netns", "exec", name, *map(str, words)]


def shift(trace, result, clock):
    """Makes a trace one of a host whose clock is `clock` of ours: of its events, and of its begin and end."""
    state = bytearray((trace / "state").read_bytes())
    for moment in (result["begin"], result["end"]):
        at = state.rindex(struct.pack("<Q", moment))
        state[at:at + 8] = struct.pack("<Q", clock(moment))
    (trace / "state").write_bytes(state)
    for file in trace.glob("cpu_*"):
        data, at = bytearray(file.read_bytes()), 0
        while at < len(data):
            begin, end, content, size = struct.unpack_from("<QQQQ", data, at + 8)
            struct.pack_into("<QQ", data, at + 8, clock(begin), clock(end))
            for slot in range(at + HEAD, at + content // 8, 32):
                if data[slot + 8:slot + 10] != b"\xff\xff":
                    struct.pack_into("<Q", data, slot, clock(struct.unpack_from("<Q", data, slot)[0]))
            at += size // 8
        file.write_bytes(data)


def recorded(plumb, work, place, count, events="sched,irq,tcp"):
    """A set of two recordings of so many requests."""
    shutil.rmtree(place, ignore_errors=True)
    run([plumb, "collect", place, "--invite", "left", "-o", place.with_suffix(".invitation")], timeout=10)
    words = lambda name, host, load: [plumb, "record", "-q", "--only-target", "-e", events, "-o", place / name, "--", *on(host, work, *load)]
    server = spawn(list(map(str, words("right", RIGHT, ["answer-tcp", ADDRESS, count, "sleep", 0]))), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1.5)
    run(words("left", LEFT, ["ask-tcp", ADDRESS, count]), timeout=300)
    server.wait(timeout=60)


def explained(plumb, place):
    began = time.monotonic()
    said = json.loads(run([plumb, "explain", place, "--json"], timeout=600)[0])
    return said, time.monotonic() - began


def cost(plumb, work, rounds, count):
    """Seconds of so many requests by what looks on, interleaved."""
    watchers = {
        "nobody": None,
        "plumb, set tcp": [plumb, "record", "-q", "-a", "-e", "tcp", "-o", "{dir}"],
        "tcpdump of both ends": ["sh", "-c", f"ip netns exec {LEFT} tcpdump -q -i near -s 96 -w /dev/null & ip netns exec {RIGHT} tcpdump -q -i far -s 96 -w /dev/null & trap 'kill $(jobs -p)' TERM; wait"],
    }
    times = {name: [] for name in watchers}
    for _ in range(rounds):
        for name, words in watchers.items():
            directory = Path("/dev/shm/plumb-hosts-cost")
            shutil.rmtree(directory, ignore_errors=True)
            watcher = words and spawn([str(w).replace("{dir}", str(directory)) for w in words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(1)
            server = spawn(on(RIGHT, "taskset", "-c", "0", work, "answer-tcp", ADDRESS, count, "sleep", 0), stdin=subprocess.DEVNULL)
            time.sleep(0.1)
            began = time.monotonic()
            run(on(LEFT, "taskset", "-c", "0", work, "ask-tcp", ADDRESS, count), timeout=120)
            times[name].append(time.monotonic() - began)
            server.wait(timeout=30)
            if watcher:
                system.end(watcher)
            shutil.rmtree(directory, ignore_errors=True)
    return times


def measure(options, undo):
    plumb = Path(options.plumb).absolute()
    work = plumb.parent / "plumb-workload"
    if not work.exists():
        raise Problem(f"{work} is missing; 'cargo build --release -p plumb-workload' makes it")
    if not shutil.which("tcpdump"):
        raise Problem("tcpdump is missing; 'apt-get install tcpdump' brings it on Debian")
    machine = system.Machine(plumb, {})
    directory = evidence.results_directory(options.out, "hosts-clocks")
    directory.mkdir(parents=True, exist_ok=True)
    place = system.ROOT / "target" / "hosts-clocks"
    place.mkdir(parents=True, exist_ok=True)
    undo.add(f"for n in {' '.join(NAMES)}; do ip netns del $n; done")
    wire()
    rows = []
    for what, count in [("short", 1_000), ("long", options.requests)]:
        recorded(plumb, work, place / what, count)
        same, _ = explained(plumb, place / what)
        for ahead, ppb in [(0, 0), (1_200_000_000, 37_000), (5_000_000_000_000, -150_000)]:
            copy = place / "shifted"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(place / what, copy)
            if ahead:
                shift(copy / "right", same["recordings"]["right"], lambda t: t + ahead + t * ppb // 10**9)
            said, took = explained(plumb, copy)
            clock = next(c for c in said["hosts"]["clocks"] if {c["from"], c["to"]} == {"left", "right"})
            for moment in clock["moments"]:
                at = moment["at"]
                ours = lambda t: (t - ahead) * 10**9 // (10**9 + ppb)
                theirs = lambda t: t + ahead + t * ppb // 10**9
                truth = (ours(at) if clock["from"] == "right" else theirs(at)) - at
                moment["error"] = moment["ahead"] - truth
            rows.append({"trace": what, "ahead": ahead, "ppb": ppb, "took": took, "segments": said["hosts"]["segments"], **clock})
            say(f"bench: {what}, {ahead / 1e9:g} s, {ppb / 1000:g} ppm: errors {[m['error'] for m in clock['moments']]} ns, widths {[m['width'] for m in clock['moments']]} ns, {took:.2f} s")
    recorded(plumb, work, place / "segments", options.requests, "tcp")
    speed = [explained(plumb, place / "segments") for _ in range(5)]
    times = cost(plumb, work, options.rounds, 200_000)
    write(directory, rows, times, machine.done(), 200_000, (speed[0][0]["hosts"]["segments"], sorted(took for _, took in speed)))
    shutil.rmtree(place, ignore_errors=True)


def write(directory, rows, times, facts, count, speed):
    lines = [COMMENT, "# Clocks from TCP segments, and what segments cost", "", *evidence.machine_lines(facts, []), "",
             "Two network namespaces on one clock, each recorded as a host; the clock of one is then set ahead and made faster. An error is what"
             " is told minus the truth.", "",
             "| recording | set ahead s | faster ppm | segments | error ns: begin, middle, end | width ns: begin, middle, end | inside |", "|---|---|---|---|---|---|---|"]
    for r in rows:
        errors, widths = [m["error"] for m in r["moments"]], [m["width"] for m in r["moments"]]
        inside = all(abs(e) <= w + 1 for e, w in zip(errors, widths))
        lines.append(f"| {r['trace']} | {r['ahead'] / 1e9:g} | {r['ppb'] / 1000:g} | {r['segments']} | {', '.join(map(str, errors))} | {', '.join(map(str, widths))} | {'yes' if inside else '**no**'} |")
    segments, took = speed
    lines += ["", f"`plumb explain` of a set that has only the events of TCP, all of it: {segments} segments in {took[2]:.2f} s ({took[0]:.2f} to {took[-1]:.2f}),"
              f" {segments / took[2] / 1e6:.2f} million a second.", "",
              f"Cost: {count} requests of 50 bytes, each answered by 200 bytes over one connection, both ends on one CPU, {len(times['nobody'])} interleaved rounds.", "",
              "| who looks on | s, median (least to most) | longer, us a request |", "|---|---|---|"]
    for name, seconds in times.items():
        extra = [(a - b) / count * 1e6 for a, b in zip(seconds, times["nobody"])]
        cell = "-" if name == "nobody" else f"{statistics.median(extra):.2f} ({min(extra):.2f} to {max(extra):.2f})"
        lines.append(f"| {name} | {statistics.median(seconds):.3f} ({min(seconds):.3f} to {max(seconds):.3f}) | {cell} |")
    (directory / "summary.md").write_text("\n".join(lines) + "\n")
    (directory / "clocks.json").write_text(json.dumps({"clocks": rows, "seconds": times}, indent=1) + "\n")
    evidence.write_json(directory / "machine.json", facts)
    plan = [COMMENT, "# Plan", "", "benches/hosts/run.sh --clocks: a request is two segments, each seen where it goes out and where it comes in.", ""]
    (directory / "plan.md").write_text("\n".join(plan))
