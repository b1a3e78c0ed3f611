#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kill -9 of the collector, of a sender, or of a guest while two guests send their recordings of a disk over a network.

kills.py [ROUNDS] [DIR]: ROUNDS of each of the five victims, at a random moment each; leaves a set of results in DIR. What must hold
afterwards: every recording that was begun is readable, one that did not end says so, who was not killed ends
by itself, and nothing hangs.
"""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLUMB = ROOT / "target" / "release" / "plumb"
VICTIMS = ["collector, started again", "collector", "sender of the initiator", "initiator's guest", "target's guest"]
LONG = 120.0  # s that a guest may take
NAMES = ("initiator", "target")


def listening(port):
    needle = f":{port:04X} "
    return any(needle in line and " 0A " in line for line in open("/proc/net/tcp"))


def collector(work, port):
    process = subprocess.Popen(
        [PLUMB, "collect", work / "set", "--listen", f"127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL, stderr=open(work / "collector.err", "a"),
    )
    until = time.time() + 10
    while not listening(port):
        if process.poll() is not None or time.time() > until:
            raise SystemExit(f"the collector does not listen: {(work / 'collector.err').read_text()}")
        time.sleep(0.05)
    return process


def guest_of(process, role):
    """QEMU of a guest, below its script."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"qemu-system-x86_64" in words[0] and any(f"plumb.role={role} ".encode() in w and
                                                     f"plumb.run={process.pid}".encode() in w for w in words):
            return int(pid)
    return None


def round_of(victim, seed, kept):
    random.seed(seed)
    work = Path(tempfile.mkdtemp())
    port = random.randrange(20_000, 50_000)
    for name in NAMES:
        subprocess.run([PLUMB, "collect", work / "set", "--invite", name, "-o", work / f"{name}.invitation"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    running = collector(work, port)
    moment = random.uniform(0.2, 7.5)
    inside = moment if victim.startswith("sender") else 0
    env = dict(os.environ, TIMEOUT=str(int(LONG)))
    guests = subprocess.Popen(
        [ROOT / "tests/vm/ip-san.sh", PLUMB, "--protocol", random.choice(["nvme", "iscsi"]), "--kernel", "6.12",
         "--keep", work / "out", "--to", str(port), work, f"{inside:.2f}" if inside else "0"],
        env=env, stdout=open(work / "guests.log", "w"), stderr=subprocess.STDOUT,
    )
    faults = []
    until = time.time() + LONG
    # The recordings begin when the collector has a directory of each.
    while guests.poll() is None and not all((work / "set" / n / "metadata").exists() for n in NAMES):
        if time.time() > until:
            break
        time.sleep(0.05)
    begun = time.time()
    if victim.startswith("collector"):
        time.sleep(moment)
        running.send_signal(signal.SIGKILL)
        running.wait()
        if "again" in victim:
            time.sleep(random.uniform(0.1, 2))
            running = collector(work, port)
    elif victim.endswith("guest"):
        time.sleep(moment)
        pid = guest_of(guests, victim.split("'")[0])
        if pid is None:
            faults.append("the guest was gone already")
        else:
            os.kill(pid, signal.SIGKILL)
    try:
        guests.wait(until + LONG - time.time())
    except subprocess.TimeoutExpired:
        faults.append("guests hang")
        subprocess.run(["pkill", "-9", "-f", f"plumb.run={guests.pid} "])
        guests.terminate()
    took = time.time() - begun
    # What is left of connections is over when their guests are.
    time.sleep(1)
    if running.poll() is None:
        running.send_signal(signal.SIGINT)
        try:
            running.wait(15)
        except subprocess.TimeoutExpired:
            faults.append("the collector does not end")
            running.kill()
    told = {}
    try:
        explained = subprocess.run([PLUMB, "explain", "--json", work / "set"], capture_output=True, text=True, timeout=60)
        recordings = json.loads(explained.stdout)["recordings"] if explained.stdout else {}
        for name in NAMES:
            one = recordings.get(name)
            if one is None or "error" in one:
                faults.append(f"{name} is not readable: {one}")
                continue
            q = one["quality"]
            told[name] = {"events": q["events"], "lost": q["lost"], "cut_off": q["cut_off"]}
            killed = victim == "collector" or victim.startswith("sender") and name == "initiator" or victim == f"{name}'s guest"
            if q["cut_off"] != killed:
                faults.append(f"{name} is {'' if q['cut_off'] else 'not '}cut off")
    except subprocess.TimeoutExpired:
        faults.append("explain hangs")
    if victim == "collector":
        for name in NAMES:
            said = work / "out" / f"{name}.record.err"
            if not said.exists() or "confirm" not in said.read_text() and "collector" not in said.read_text():
                faults.append(f"the sender of {name} does not say that it was left alone")
    if faults:
        shutil.copytree(work, kept, dirs_exist_ok=True)
    shutil.rmtree(work)
    return {"victim": victim, "after_s": round(moment, 2), "took_s": round(took, 1), "told": told, "faults": faults}


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    out = Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "target" / "ip-san-kills").resolve()
    out.mkdir(parents=True, exist_ok=True)
    results = []
    for n in range(rounds):
        for victim in VICTIMS:
            result = round_of(victim, f"{n} {victim}", out / f"kept-{len(results)}")
            results.append(result)
            print("FAIL" if result["faults"] else "ok  ", json.dumps(result), file=sys.stderr)
    (out / "rounds.json").write_text(json.dumps(results, indent=1))
    lines = [
        "<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->",
        "# kill -9 of collector, sender and guest",
        "",
        "Two guests send their recordings to a collector while one works on the other's disk over iSCSI or NVMe/TCP. After a random moment one",
        "of them is killed. \"cut off\": a recording whose end is missing, which it says; \"faults\": a recording that is not readable, or does",
        "not say what it lacks, or somebody who hangs.",
        "",
        "| killed | rounds | moments | recordings readable | cut off | events lost in recordings that ended | faults |",
        "|---|---|---|---|---|---|---|",
    ]
    for victim in VICTIMS:
        those = [r for r in results if r["victim"] == victim]
        told = [t for r in those for t in r["told"].values()]
        moments = sorted(r["after_s"] for r in those)
        lines.append(
            f"| {victim} | {len(those)} | {moments[0]}-{moments[-1]} s | {len(told)} of {len(those) * 2} | {sum(t['cut_off'] for t in told)} "
            f"| {sum(t['lost'] for t in told if not t['cut_off'])} | {sum(bool(r['faults']) for r in those)} |"
        )
    (out / "summary.md").write_text("\n".join(lines) + "\n")
    subprocess.run([ROOT / "scripts/evidence.sh", out, f"python3 benches/ip-san/kills.py {rounds}"], check=True)
    sys.exit(any(r["faults"] for r in results))


main()
