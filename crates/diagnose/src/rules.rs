// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules, in the order in which they take time from the account: what is
//! special before what is general. A new rule is a line here and a function in
//! the file of its subject.

mod cpu;
mod device;
mod disk;
mod lock;
mod memory;
mod peer;

use crate::case::{Case, Seen};

pub struct Rule {
    /// Its name; never given a second meaning.
    pub id: &'static str,
    pub title: &'static str,
    /// What to do or look at next.
    pub next: &'static str,
    /// Looks, takes the time that it explains, and tells.
    pub look: fn(&mut Case<'_>) -> Option<Seen>,
}

macro_rules! rules {
    ($($id:literal, $title:literal, $look:path, $next:literal;)*) => {
        pub const RULES: &[Rule] = &[$(Rule { id: $id, title: $title, look: $look, next: $next },)*];
    };
}

rules! {
    "cpu.throttled", "held back by its CPU quota", cpu::throttled,
        "Raise cpu.max (cpu.cfs_quota_us) of its cgroup, or give it fewer threads than the quota pays for.";
    "cpu.stolen", "the hypervisor gave its CPU to others", cpu::stolen,
        "Ask for dedicated CPUs, or move the guest to a host that is less busy.";
    "lock.convoy", "many threads queue for one user lock", lock::convoy,
        "Split the lock or shorten what is done under it: the queue never empties, so threads only take turns.";
    "lock.user", "a user lock that another thread holds", lock::user,
        "Look at what its holder does meanwhile (below), and move that out of the lock.";
    "lock.file", "a file lock (flock, fcntl)", lock::file,
        "Find who holds it in /proc/locks; hold it for less, or lock ranges instead of the file.";
    "lock.kernel", "a lock of the kernel", lock::kernel,
        "See the function in which threads wait: fewer threads on the same file, directory or address space.";
    "memory.swap", "swapping", memory::swap,
        "Give more memory or run less beside it; 'vmstat 1' shows si and so.";
    "memory.reclaim", "memory is short", memory::reclaim,
        "Raise the memory limit of its cgroup, or let it work on less at once.";
    "memory.faults", "page faults", memory::faults,
        "Keep memory instead of mapping it anew, use huge pages, or fault it in ahead (MAP_POPULATE).";
    "writeback.throttle", "paused because too many pages are dirty", disk::dirty,
        "The disk writes slower than the program: write less, sync earlier, or look at vm.dirty_bytes and the disk.";
    "io.limit", "its I/O is limited by the cgroup", disk::limit,
        "Raise io.max (blkio.throttle) of its cgroup.";
    "journal.shared", "the journal first commits somebody else's transaction", disk::journal,
        "Move the neighbour to another file system, or let it sync less often.";
    "device.slower", "the device has become slower", device::slower,
        "Look at what changed: burst credits that ended (a cloud's volume), a write cache or spare flash that is full, or a device that fails (smartctl).";
    "device.slow", "the device takes long for each request", disk::slow,
        "Measure the device alone; if it is always so slow, cache more or change the device.";
    "io.scheduler", "requests wait behind others' in the disk's queue", disk::scheduler,
        "Give the neighbour a lower I/O class (ionice -c3) with a scheduler that honours it, or another disk.";
    "wait.log", "it waits for its own logging", disk::log,
        "Write the log without waiting for the disk, or sync it for many operations at once.";
    "sync.write", "synchronous writes", disk::sync,
        "Sync once for many writes (group commit), or use a device whose write cache survives a power cut.";
    "device.stall", "the device stalls now and then", device::stall,
        "Look at the device's health and its garbage collection; these requests took over ten times the median.";
    "io.readahead", "sequential reads without read-ahead", disk::readahead,
        "Do not advise POSIX_FADV_RANDOM, and let blockdev --getra be above the size of one read.";
    "io.small", "small requests in sequence", disk::small,
        "Read or write more at once: each request pays the device's latency.";
    "io.random", "random reads", disk::random,
        "Ask for several at once (more threads, io_uring), or keep more in memory.";
    "device.saturated", "the device is at its limit", disk::saturated,
        "Ask less of it, spread over more devices, or get a faster one.";
    "io.depth", "one request at a time", disk::depth,
        "Ask for the next before the last has come: read-ahead, several threads, io_uring.";
    "net.retransmit", "TCP sends again what was lost", peer::retransmit,
        "Look at 'nstat -z TcpRetransSegs' and the path to the peer: drops, a queue, a bad link.";
    "peer.remote", "waits for a remote peer", peer::remote,
        "Record on the peer as well: the time is spent there or on the way.";
    "peer.process", "waits for another process", peer::local,
        "Run plumb on that process: what it does meanwhile decides.";
    "wait.sleep", "sleeps on purpose", peer::sleep,
        "It asked for this time (nanosleep, a timeout): shorten it, or wait for the event itself.";
    "cpu.interrupts", "interrupts take its CPU", cpu::interrupts,
        "See /proc/interrupts and /proc/softirqs; move the interrupt to another CPU (smp_affinity, RPS).";
    "lock.herd", "many are woken where one was meant", lock::herd,
        "Wake one (EPOLLEXCLUSIVE, signal instead of broadcast), the others only go back to sleep.";
    "cpu.wait", "ready, and others had the CPU", cpu::wait,
        "Fewer runnable threads, another CPU (taskset -p shows where it may run), or a higher priority.";
    "cpu.crowded", "ready, and its own threads had the CPU", cpu::crowded,
        "It has more to run at once than CPUs, or the scheduler put threads that wake each other on one: try more CPUs, or taskset.";
    "cpu.wakeup", "ready, its CPU still waking up", cpu::wakeup,
        "Wakeups are dear on idle CPUs of a guest: fewer handovers between threads, or idle=poll for a test.";
    "cpu.kernel", "CPU time in the kernel", cpu::kernel,
        "See the functions: fewer or larger system calls, fewer copies.";
    "cpu.user", "CPU time in its own code", cpu::user,
        "The time is in the program itself: 'plumb profile' shows its functions, their callers and lines.";
}
