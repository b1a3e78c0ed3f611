# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a benchmark borrows from the machine, and how it gives it back.

Mounts are made in a mount namespace of our own and die with it. What is
global (a workqueue's CPUs, a tracing instance) is undone by a shell that waits
for the end of a pipe from us: it does its work also when we are killed.
"""

import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRACEFS = Path("/sys/kernel/tracing")
WORKQUEUE_CPUS = Path("/sys/devices/virtual/workqueue/cpumask")

# where losetup and bpftool live, which a user's PATH may lack
os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
_libc = ctypes.CDLL(None, use_errno=True)


class Problem(Exception):
    """Why the benchmark, or one peer, cannot run; a sentence for the user."""


def mount(source, target, kind, flags=0, data=None):
    encode = lambda s: str(s).encode() if s is not None else None
    if _libc.mount(encode(source), encode(target), encode(kind), ctypes.c_ulong(flags), encode(data)):
        raise OSError(ctypes.get_errno(), f"mount {kind or 'private'} on {target}: {os.strerror(ctypes.get_errno())}")


def unmount(target):
    if _libc.umount2(str(target).encode(), 0):
        raise OSError(ctypes.get_errno(), f"unmount {target}: {os.strerror(ctypes.get_errno())}")


def private_mounts():
    """From here on this process and its children mount for themselves only."""
    clone_newns, ms_rec, ms_private = 0x20000, 1 << 14, 1 << 18
    if _libc.unshare(clone_newns):
        raise OSError(ctypes.get_errno(), "unshare: " + os.strerror(ctypes.get_errno()))
    mount("none", "/", None, ms_rec | ms_private)


def mount_tracefs():
    if not (TRACEFS / "events").exists():
        mount("none", TRACEFS, "tracefs")


class Undo:
    """Shell commands for the end, whatever end that is; last come, first done."""

    def __init__(self):
        self._shells = []

    def add(self, command):
        shell = subprocess.Popen(
            ["sh", "-c", f'trap "" INT TERM HUP; read -r x; {command}'],
            stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        self._shells.append(shell)

    def close(self):
        while self._shells:
            shell = self._shells.pop()
            shell.stdin.close()
            shell.wait()


def scratch(mib, undo):
    """A directory in memory that only we and our children see."""
    directory = Path(tempfile.mkdtemp(prefix="plumb-bench-"))
    undo.add(f"umount -l {directory}; rmdir {directory}")
    mount("none", directory, "tmpfs", 0, f"size={mib}m")
    return directory


def spawn(command, cpus=None, **more):
    """Starts a command, on these CPUs, in a process group of its own; it ends
    at the latest when we do."""
    def prepare():
        _libc.prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
        # a shell's background job ignores it, and profilers end by it
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if cpus:
            os.sched_setaffinity(0, cpus)
    return subprocess.Popen([str(c) for c in command], preexec_fn=prepare, start_new_session=True, **more)


def end(child):
    """Ends what is left of a command and of those that it started."""
    for sign, patience in ((signal.SIGTERM, 10), (signal.SIGKILL, None)):
        try:
            os.killpg(child.pid, sign)
        except ProcessLookupError:
            pass
        try:
            child.wait(patience)
        except subprocess.TimeoutExpired:
            continue


def run(command, cpus=None, timeout=600, good=(0,), cwd=None):
    """Runs a command to its end; its standard output and standard error."""
    # files, not pipes: what a crashed recorder leaves behind would hold a pipe open
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = spawn(command, cpus, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=cwd)
        try:
            child.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Problem(f"{Path(str(command[0])).name} did not end in {timeout} s") from None
        finally:
            end(child)
        texts = []
        for f in (out, err):
            f.seek(0)
            texts.append(f.read().decode(errors="replace"))
    if child.returncode not in good:
        said = (texts[1].strip() or texts[0].strip()).splitlines()
        raise Problem(f"{Path(str(command[0])).name} ended with {child.returncode}: {said[-1] if said else 'no message'}")
    return texts


def run_measured(command, **more):
    """As run, with the CPU time of the command and all that it waited for: its
    standard output, ns in user mode, ns in the kernel."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out, _ = run(command, **more)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    ns = lambda field: round((getattr(after, field) - getattr(before, field)) * 1e9)
    return out, ns("ru_utime"), ns("ru_stime")


def tool(name, package):
    """The name, when the program is there."""
    if not shutil.which(name):
        raise Problem(f"{name} is missing; 'apt-get install {package}' brings it on Debian")
    return name


def fio_job(text):
    """The first job of fio's JSON, which warnings may stand before."""
    return json.loads(text[text.index("{"):])["jobs"][0]


def loop_device(path, *options):
    """A loop device over a file, as (path, keeper): it goes when the keeper,
    an open descriptor of this process, closes."""
    out, _ = run([tool("losetup", "mount"), "--find", "--show", *options, path])
    device = out.strip()
    keeper = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    run(["losetup", "--detach", device])  # busy: detached at the last close
    return device, keeper


@contextmanager
def workers_on(cpu):
    """The loop device's worker threads run on this CPU: a wake-up of another
    one costs more, and varies more, than everything that is measured here."""
    undo = Undo()
    words = [f"{(1 << cpu) >> at & 0xffffffff:08x}" for at in range(cpu // 32 * 32, -1, -32)]
    try:
        before = WORKQUEUE_CPUS.read_text().strip()
        undo.add(f"echo {before} > {WORKQUEUE_CPUS}")
        WORKQUEUE_CPUS.write_text(",".join(words))
        yield
    finally:
        undo.close()


def foreign_programs():
    """BPF tracing programs that are attached now; ours are not when this is called."""
    try:
        shown = subprocess.run(["bpftool", "-j", "link", "show"], capture_output=True, text=True).stdout
        links = json.loads(shown or "[]")
    except (OSError, ValueError):  # without bpftool nobody knows
        return 0
    return sum(link.get("type") in ("tracing", "raw_tracepoint", "perf_event") for link in links)


def alone(patience=60):
    """Waits for other tracers to leave; whether they did."""
    until = time.monotonic() + patience
    while foreign_programs():
        if time.monotonic() > until:
            return False
        time.sleep(1)
    return True


def load_average():
    return Path("/proc/loadavg").read_text().split()[:3]


def steal():
    """Share of all CPU time since boot that the hypervisor gave away, as (stolen, all) ticks."""
    ticks = [int(t) for t in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return ticks[7], sum(ticks)


def _version(command):
    try:
        out = subprocess.run(command, capture_output=True, text=True, timeout=20)
        return (out.stdout.strip() or out.stderr.strip()).splitlines()[0]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return "missing"


def _sysfs(path):
    try:
        return Path(path).read_text().strip()
    except OSError:
        return "unknown"


class Machine:
    """What a reader must know of the machine to judge the figures; no names.
    Tools are a command by name, which prints its version."""

    def __init__(self, plumb, tools):
        cpuinfo = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((l.split(":", 1)[1].strip() for l in cpuinfo if l.startswith("model name")), os.uname().machine)
        hypervisor = any("hypervisor" in l for l in cpuinfo if l.startswith("flags"))
        memory = next(int(l.split()[1]) for l in Path("/proc/meminfo").read_text().splitlines() if l.startswith("MemTotal"))
        self.facts = {
            "cpu": model,
            "cpus_online": len(os.sched_getaffinity(0)),
            "virtual_machine": hypervisor,
            "memory_mib": memory // 1024,
            "kernel": f"{os.uname().release} {os.uname().machine}",
            "clocksource": _sysfs("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            "bpf_jit": _sysfs("/proc/sys/net/core/bpf_jit_enable"),
            "spectre_v2": _sysfs("/sys/devices/system/cpu/vulnerabilities/spectre_v2"),
            "plumb": _version([str(plumb), "--version"]),
            "plumb_commit": _version(["git", "-C", str(ROOT), "describe", "--always", "--dirty"]),
            **{name: _version(command) for name, command in tools.items()},
            "python": _version(["python3", "--version"]),
            "load_average_before": load_average(),
        }
        self._stolen = steal()

    def done(self):
        """The facts, with what the time since shows."""
        stolen, ticks = (now - then for now, then in zip(steal(), self._stolen))
        return {**self.facts, "load_average_after": load_average(), "stolen_cpu_share": round(stolen / max(1, ticks), 4)}


@contextmanager
def served_disk(plumb, name, model, size, where):
    """A disk that plumb serves, with ext4, mounted on a directory that is made."""
    Path(where).mkdir(parents=True, exist_ok=True)
    told, _ = run([plumb, "disk", "serve", model, "--size", size, "--detach", "--name", name, "--json"], timeout=60)
    device = json.loads(told)["device"]
    try:
        run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device], timeout=300)
        run(["mount", device, where], timeout=60)
        try:
            yield Path(where)
        finally:
            run(["umount", where], timeout=120)
    finally:
        run([plumb, "disk", "stop", name], timeout=60)
