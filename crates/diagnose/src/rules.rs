// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules, in the order in which they take time from the account: what is
//! special before what is general. A new rule is a line here and a function in
//! the file of its subject.

mod cpu;
mod device;
mod disk;
mod lock;
mod memory;
pub(crate) mod peer;
mod runtime;

use crate::case::{Case, Seen};
use crate::Replaced::{self, Batches, Queues};
pub use disk::BLOCK;

pub struct Rule {
    /// Never given a second meaning.
    pub id: &'static str,
    pub title: &'static str,
    /// What to do or look at next.
    pub next: &'static str,
    /// Looks, takes the time that it explains, and tells.
    pub look: fn(&mut Case<'_>) -> Option<Seen>,
    /// The time is the program's own code: with most of the time there is no bottleneck outside of it.
    pub own_code: bool,
    /// The program's own code holds what is waited for: it leads where that code has more time.
    pub held_by_own_code: bool,
    /// What comes in the place of its time.
    pub replaced: Replaced,
}

impl Rule {
    /// What a line of the table leaves out.
    const USUAL: Self = Self {
        id: "",
        title: "",
        next: "",
        look: |_| None,
        own_code: false,
        held_by_own_code: false,
        replaced: Replaced::Nothing,
    };
}

macro_rules! rules {
    ($($id:literal, $title:literal, $look:path, $next:literal $(, $other:ident: $value:expr)*;)*) => {
        pub const RULES: &[Rule] = &[$(
            Rule { id: $id, title: $title, look: $look, next: $next, $($other: $value,)* ..Rule::USUAL },
        )*];
    };
}

rules! {
    "cpu.throttled", "CPU throttling by the cgroup quota", cpu::throttled,
        "raise cpu.max (cpu.cfs_quota_us) of the cgroup, or run fewer threads than the quota pays for";
    "cpu.stolen", "CPU time stolen by the hypervisor", cpu::stolen,
        "use dedicated CPUs, or move the guest to a less loaded host";
    "lock.interpreter", "contention on a global interpreter lock", lock::interpreter,
        "use several processes instead of threads, or native code that lets go of the lock: the interpreter runs one thread at a time",
        replaced: Queues, held_by_own_code: true;
    "runtime.gc", "garbage collection", runtime::gc,
        "allocate less, or give the heap more memory: see the runtime's log of collections (java -Xlog:gc)";
    "lock.convoy", "lock convoy on a user-space mutex", lock::convoy,
        "split the lock or shorten its critical section: the queue never drains, so the threads run one at a time", replaced: Queues;
    "lock.user", "contention on a user-space mutex", lock::user,
        "shorten the critical section: see what the holder does while it holds the lock";
    "lock.file", "contention on a file lock", lock::file,
        "find the holder in /proc/locks; hold the lock for less time, or lock byte ranges instead of the file";
    "lock.kernel", "contention on a kernel lock", lock::kernel,
        "run fewer threads on the same file, directory or address space: the acquiring function tells which", replaced: Queues;
    "memory.swap", "swapping", memory::swap,
        "add memory, or run less concurrently; 'vmstat 1' shows swap-in and swap-out (si, so)", replaced: Batches;
    "memory.reclaim", "memory pressure: reclaim", memory::reclaim,
        "raise the memory limit of the cgroup, or reduce the working set";
    "memory.faults", "page faults", memory::faults,
        "reuse memory instead of unmapping it (munmap, MADV_DONTNEED), use huge pages, or prefault it (MAP_POPULATE)", replaced: Batches;
    "writeback.throttle", "write throttling in balance_dirty_pages", disk::dirty,
        "the program dirties pages faster than the disk writes them: write less, sync earlier, or check vm.dirty_bytes and the disk";
    "io.limit", "I/O throttling by the cgroup", disk::limit,
        "raise io.max (blkio.throttle) of the cgroup";
    "journal.shared", "waiting for a journal commit of another process", disk::journal,
        "move the other process to another file system, or let it call fsync less often", replaced: Queues;
    "device.slower", "device slowed down during the run", device::slower,
        "check what changed: exhausted burst credits (cloud volume), a full write cache or SLC cache, a failing device (smartctl)";
    "device.slow", "slow device", disk::slow,
        "benchmark the device alone; if it is always this slow, cache more or replace it";
    "io.scheduler", "queueing behind other processes' requests in the I/O scheduler", disk::scheduler,
        "lower the other process's I/O priority (ionice -c3) under a scheduler that honours it, or use another disk", replaced: Queues;
    "wait.log", "synchronous logging", disk::log,
        "sync the log once for many operations (group commit), or write it asynchronously where its last entries may be lost", replaced: Batches;
    "sync.write", "synchronous writes", disk::sync,
        "sync once for many writes (group commit); if flushes dominate, use a device with a power-loss protected cache", replaced: Batches;
    "device.stall", "device stalls", device::stall,
        "check the device's health and garbage collection: these requests took over 10x the median";
    "io.readahead", "sequential reads without read-ahead", disk::readahead,
        "remove POSIX_FADV_RANDOM, and set 'blockdev --setra' above the size of one read", replaced: Batches;
    "io.small", "small sequential requests", disk::small,
        "use larger reads and writes: each request pays the device latency", replaced: Batches;
    "io.random", "random I/O at low queue depth", disk::random,
        "issue several requests at once (threads, io_uring), or cache more", replaced: Batches;
    "device.saturated", "saturated device", disk::saturated,
        "reduce its load, spread the load over more devices, or use a faster device", replaced: Queues;
    "io.depth", "I/O at low queue depth", disk::depth,
        "issue the next request before the last completes: read-ahead, several threads, io_uring", replaced: Batches;
    "peer.thread", "requests waiting for another thread of the target", peer::thread,
        "see what that thread did meanwhile, and the longest waits on the page's timeline";
    "net.retransmit", "TCP retransmissions", peer::retransmit,
        "check 'nstat -z TcpRetransSegs' and the path to the peer for drops, queueing or a bad link";
    "net.delayed", "TCP's delayed acknowledgements", peer::delayed,
        "set TCP_NODELAY where a message is written in several calls (Nagle's algorithm), or write it with one (writev)";
    "peer.remote", "waiting for a remote peer", peer::remote,
        "record on the peer as well: the time is spent there or on the network";
    "peer.process", "waiting for another process", peer::local,
        "record that process too: plumb run --pid PID";
    "wait.stopped", "stopped by a signal, a tracer or the freezer", peer::stopped,
        "see who stopped it: a tracer (TracerPid in /proc/PID/status), the shell's job control, cgroup.freeze of its cgroup";
    "wait.sleep", "intentional sleep", peer::sleep,
        "shorten the sleep or timeout, or wait for the event itself";
    "cpu.interrupts", "interrupt handling on its CPU", cpu::interrupts,
        "see /proc/interrupts and /proc/softirqs; move the interrupt to another CPU (smp_affinity, RPS)", replaced: Queues;
    "lock.herd", "thundering herd", lock::herd,
        "wake one waiter (EPOLLEXCLUSIVE, signal instead of broadcast): the others only go back to sleep", replaced: Queues;
    "cpu.wait", "CPU contention: run-queue wait", cpu::wait,
        "reduce the number of runnable threads, allow more CPUs (check 'taskset -p'), or raise the priority";
    "cpu.crowded", "CPU contention among its own threads", cpu::crowded,
        "use more CPUs or fewer runnable threads; if CPUs are idle, spread the threads with taskset", replaced: Queues;
    "cpu.wakeup", "wakeup latency on idle CPUs", cpu::wakeup,
        "hand over between threads less often: in a guest, waking an idle CPU is expensive (test with idle=poll)";
    "cpu.kernel", "CPU time in the kernel", cpu::kernel,
        "make fewer or larger system calls, and copy less: see the functions";
    "cpu.user", "CPU time in user code", cpu::user,
        "optimize these functions: 'plumb profile' shows their callers and lines", own_code: true;
}
