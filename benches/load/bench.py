# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What every measurement of `plumb load` has: a place in memory, file systems
on loop devices, rounds, and what is kept of them."""

import os
from pathlib import Path

from common import evidence, system
from common.evidence import COMMENT, interleaved, say
from common.system import ROOT, Problem, run, tool

TOOLS = {
    "fio": ["fio", "--version"],
    "sysbench": ["sysbench", "--version"],
    "gcc": ["gcc", "--version"],
    "e2fsprogs": ["mkfs.ext4", "-V"],
    "xfsprogs": ["mkfs.xfs", "-V"],
}
PACKAGES = {"mkfs.ext4": "e2fsprogs", "mkfs.ext2": "e2fsprogs", "mkfs.xfs": "xfsprogs"}
# without threads of the kernel that go on making the file system during the run
EXT = ["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,nodiscard"]
EXT_JOURNAL = ["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"]


def resident(path):
    """Whether all of a file is in the page cache."""
    out, _ = run([tool("fincore", "util-linux-extra"), "--bytes", "--noheadings", "--output", "RES", path])
    return int(out.split()[0]) >= path.stat().st_size


def warm(path):
    with path.open("rb") as f:
        while f.read(1 << 20):
            pass


class FileSystem:
    """One on a loop device over a file, mounted where only we see it."""

    def __init__(self, bench, name, make, kind, mount_options=None, mib=1024, on_disk=False):
        self.bench, self.name, self.kind = bench, name, kind
        self.image = bench.image(f"{name}.image", mib, on_disk)
        run([tool(make[0], PACKAGES[make[0]]), *make[1:], self.image])
        self.device, self.keeper = system.loop_device(self.image, *(["--direct-io=on"] if on_disk else []))
        self.path = bench.scratch / name
        self.path.mkdir()
        self.mount_options = mount_options
        system.mount(self.device, self.path, kind, 0, mount_options)
        # a kernel's ext4 may serve ext2, and /proc/mounts does not tell
        self.driver = "ext4" if (Path("/sys/fs/ext4") / Path(self.device).name).exists() else kind
        words = [*make, "IMAGE;", "mount", "-t", kind, *(["-o", mount_options] if mount_options else []), "DEVICE", f"SCRATCH/{name}"]
        bench.commands[f"file system {name}"] = " ".join(words)

    def close(self):
        system.unmount(self.path)
        os.close(self.keeper)
        self.path.rmdir()
        self.image.unlink()


class Bench:
    def __init__(self, options, undo, what, script, tools=None, mib=4096):
        self.options, self.undo, self.what, self.script = options, undo, what, script
        self.directory = evidence.results_directory(options.out, what)
        self.plumb = Path(options.plumb).resolve()
        self.machine = system.Machine(self.plumb, TOOLS if tools is None else tools)
        system.private_mounts()
        self.scratch = system.scratch(mib, undo)
        self.work = self.scratch / "work"  # tools that leave files leave them here
        self.work.mkdir()
        # one CPU for the tool: what it costs is the sum of its threads
        self.cpu = max(os.sched_getaffinity(0))
        self.names = [(self.scratch, "SCRATCH"), (self.plumb, "plumb")]
        self.rows, self.left_out, self.commands = [], {}, {}

    def shown(self, text):
        return evidence.shown(text, self.names)

    def note(self, name, command):
        """Keeps a command for the plan, as it ran first."""
        self.commands.setdefault(name, self.shown(" ".join(map(str, command))))

    def image(self, name, mib, on_disk=False):
        """A file of this size: in memory, or on this machine's disk."""
        path = self.scratch / name
        if on_disk:
            path = ROOT / "target" / f"bench-{self.what}-{name}"
            path.parent.mkdir(exist_ok=True)
            self.undo.add(f"rm -f '{path}'")
        path.unlink(missing_ok=True)
        with path.open("wb") as f:
            f.truncate(mib << 20)
        return path

    def filled(self, path, mib):
        """A file with random bytes."""
        with path.open("wb") as f:
            for _ in range(mib):
                f.write(os.urandom(1 << 20))
            f.flush()
            os.fsync(f.fileno())
        return path

    def rounds(self, jobs, once):
        """once(job) of each job in each round, interleaved: its row, or None for none."""
        for number, place, job in interleaved(jobs, self.options.rounds):
            name = " ".join(map(str, job)) if isinstance(job, tuple) else str(job)
            try:
                row = once(job)
            except (Problem, OSError, ValueError, KeyError) as e:
                why = self.shown(e) if isinstance(e, (Problem, OSError)) else f"its output is not what was expected: {e!r}"
                say(f"left out: {name}, round {number}: {why}")
                self.left_out[f"{name}, round {number}"] = why
                continue
            if row is not None:
                self.rows.append({"round": number, "place": place, **row, "load1": system.load_average()[0]})

    def write(self, title, about, summary, lines):
        """The evidence; `about` are the plan's sentences, `lines` the summary's below its head."""
        if not self.rows:
            raise Problem("nothing was measured; the lines above say why")
        machine = self.machine.done()
        self.directory.mkdir(parents=True, exist_ok=True)
        flags = [f"--rounds {self.options.rounds}"]
        for key, value in vars(self.options).items():
            if key not in ("rounds", "out", "plumb") and value not in (None, False):
                flags.append(f"--{key.replace('_', '-')}" + ("" if value is True else f" {value}"))
        plan = [COMMENT, "# Plan", "", f"`benches/load/{self.script} {' '.join(flags)}`", "", *about]
        for name, command in self.commands.items():
            plan += ["", f"{name}:", "", "```", command, "```"]
        (self.directory / "plan.md").write_text("\n".join(plan) + "\n")
        evidence.write_json(self.directory / "machine.json", machine)
        evidence.write_json(self.directory / "raw.json", {"rows": self.rows, "left_out": self.left_out})
        evidence.write_json(self.directory / "summary.json", {"machine": machine, **summary})
        known = [t for t in ("fio", "sysbench", "bonnie++", "e2fsprogs", "xfsprogs") if t in machine]
        text = [COMMENT, f"# {title}", "", *evidence.machine_lines(machine, known), "", *lines]
        text += evidence.left_out_lines(self.left_out)
        (self.directory / "summary.md").write_text("\n".join(text) + "\n")
        print("\n".join(text))
        say(f"written to {self.shown(self.directory)}")
