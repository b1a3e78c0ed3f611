// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a thread knows of itself. A worker reads it before and after its work
//! and hands it over in shared memory: nobody can ask a thread that has ended.

use super::counters::schedstat;
use plumb_machine::Root;
use serde::{Deserialize, Serialize};

/// One thread's times and counts. Plain numbers, so that it can lie in memory
/// that processes share; what a kernel does not tell has no bit in `known`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnTimes {
    /// [`OwnTimes::USAGE`], [`OwnTimes::SCHEDULING`], [`OwnTimes::IO`]: what was read.
    pub known: u64,
    /// CPU time in user mode, ns (the kernel's microseconds).
    pub user_ns: u64,
    /// CPU time in the kernel, ns.
    pub system_ns: u64,
    /// Times it gave the CPU up itself.
    pub voluntary_switches: u64,
    /// Times another took the CPU from it.
    pub involuntary_switches: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults that read from a disk.
    pub major_faults: u64,
    /// Blocks of 512 bytes that were read for it.
    pub in_blocks: u64,
    /// Blocks of 512 bytes that it made dirty.
    pub out_blocks: u64,
    /// Time on a CPU, ns.
    pub on_cpu_ns: u64,
    /// Time runnable while another ran, ns.
    pub run_queue_ns: u64,
    /// How often it was put on a CPU.
    pub slices: u64,
    /// Bytes that system calls gave it, from wherever.
    pub read_by_calls: u64,
    /// Bytes that it gave to system calls.
    pub written_by_calls: u64,
    /// Bytes that were read from a device for it.
    pub read_bytes: u64,
    /// Bytes that it made dirty, or wrote past the page cache.
    pub written_bytes: u64,
}

impl OwnTimes {
    /// `getrusage` answered.
    pub const USAGE: u64 = 1;
    /// /proc/thread-self/schedstat could be read.
    pub const SCHEDULING: u64 = 2;
    /// /proc/thread-self/io could be read.
    pub const IO: u64 = 4;

    fn merge(&self, other: &OwnTimes, with: impl Fn(u64, u64) -> u64) -> OwnTimes {
        OwnTimes {
            known: self.known & other.known,
            user_ns: with(self.user_ns, other.user_ns),
            system_ns: with(self.system_ns, other.system_ns),
            voluntary_switches: with(self.voluntary_switches, other.voluntary_switches),
            involuntary_switches: with(self.involuntary_switches, other.involuntary_switches),
            minor_faults: with(self.minor_faults, other.minor_faults),
            major_faults: with(self.major_faults, other.major_faults),
            in_blocks: with(self.in_blocks, other.in_blocks),
            out_blocks: with(self.out_blocks, other.out_blocks),
            on_cpu_ns: with(self.on_cpu_ns, other.on_cpu_ns),
            run_queue_ns: with(self.run_queue_ns, other.run_queue_ns),
            slices: with(self.slices, other.slices),
            read_by_calls: with(self.read_by_calls, other.read_by_calls),
            written_by_calls: with(self.written_by_calls, other.written_by_calls),
            read_bytes: with(self.read_bytes, other.read_bytes),
            written_bytes: with(self.written_bytes, other.written_bytes),
        }
    }

    /// What came on top since an earlier reading of the same thread.
    pub fn since(&self, earlier: &OwnTimes) -> OwnTimes {
        self.merge(earlier, u64::saturating_sub)
    }

    /// Of several threads together; known is what all of them know.
    pub fn sum(threads: &[OwnTimes]) -> OwnTimes {
        let none = OwnTimes { known: u64::MAX, ..OwnTimes::default() };
        let sum = threads.iter().fold(none, |sum, t| sum.merge(t, u64::saturating_add));
        OwnTimes { known: if threads.is_empty() { 0 } else { sum.known }, ..sum }
    }
}

/// Reads the calling thread's own times: one system call and two small files,
/// some ten microseconds. Not for between operations.
pub fn own_times() -> OwnTimes {
    let mut own = OwnTimes::default();
    // SAFETY: rusage is plain numbers, for which zeros are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: usage may be written.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) } == 0 {
        let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
        own.known |= OwnTimes::USAGE;
        own.user_ns = ns(usage.ru_utime);
        own.system_ns = ns(usage.ru_stime);
        own.voluntary_switches = usage.ru_nvcsw as u64;
        own.involuntary_switches = usage.ru_nivcsw as u64;
        own.minor_faults = usage.ru_minflt as u64;
        own.major_faults = usage.ru_majflt as u64;
        own.in_blocks = usage.ru_inblock as u64;
        own.out_blocks = usage.ru_oublock as u64;
    }
    let root = Root::real();
    if let Some([on_cpu, wait, slices]) = root.text("/proc/thread-self/schedstat").and_then(|t| schedstat(&t))
    {
        own.known |= OwnTimes::SCHEDULING;
        (own.on_cpu_ns, own.run_queue_ns, own.slices) = (on_cpu, wait, slices);
    }
    if let Some(io) = root.table("/proc/thread-self/io").filter(|io| io.contains_key("wchar")) {
        let of = |key: &str| io.get(key).copied().unwrap_or(0);
        own.known |= OwnTimes::IO;
        (own.read_by_calls, own.written_by_calls) = (of("rchar"), of("wchar"));
        (own.read_bytes, own.written_bytes) = (of("read_bytes"), of("write_bytes"));
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_worked_sees_it_in_its_own_times() {
        let before = own_times();
        let file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut &file, &vec![1; 1 << 20]).unwrap();
        let mut sum = 0u64;
        // As much work as the scheduler's clock must notice on any machine.
        for i in 0..20_000_000u64 {
            sum = std::hint::black_box(sum.wrapping_mul(31) ^ i);
        }
        let spent = own_times().since(&before);
        assert!(spent.known & OwnTimes::USAGE != 0 && spent.user_ns + spent.system_ns > 0, "{spent:?}");
        if spent.known & OwnTimes::SCHEDULING != 0 {
            assert!(spent.on_cpu_ns > 0, "{spent:?}");
        }
        if spent.known & OwnTimes::IO != 0 {
            assert!(spent.written_by_calls >= 1 << 20, "{spent:?}");
        }
    }

    #[test]
    fn sums_know_only_what_all_know() {
        let a = OwnTimes { known: 7, user_ns: 5, ..OwnTimes::default() };
        let b = OwnTimes { known: OwnTimes::USAGE, user_ns: 6, ..OwnTimes::default() };
        let sum = OwnTimes::sum(&[a, b]);
        assert_eq!((sum.known, sum.user_ns), (OwnTimes::USAGE, 11));
        assert_eq!(OwnTimes::sum(&[]).known, 0);
        assert_eq!(b.since(&a).user_ns, 1);
        assert_eq!(a.since(&b).user_ns, 0);
    }
}
