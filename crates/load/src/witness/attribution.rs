// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The operations' latency, in parts that exclude each other and sum to it.

use super::evidence::{Delta, Evidence};
use plumb_trace::units::duration;
use serde::{Deserialize, Serialize};

/// What the load measured itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    pub operations: u64,
    /// Their latencies' sum over all threads, ns.
    pub latency_ns: u64,
    /// Time that the threads spent outside of operations and did not sleep, ns; 0 where unknown.
    pub outside_ns: u64,
}

/// Where the latency went. Every part is in ns, summed over operations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribution {
    pub operations: u64,
    /// What is divided; the sum of the parts.
    pub latency_ns: u64,
    /// The threads ran: their own code and the kernel's for them.
    pub on_cpu_ns: u64,
    /// A CPU seemed to run them and the hypervisor had given it to others;
    /// their share of the machine's, by their share of its busy time.
    pub steal_ns: u64,
    /// They could have run, and others did.
    pub run_queue_ns: u64,
    pub device_read_ns: u64,
    pub device_write_ns: u64,
    /// The device emptied its cache.
    pub device_flush_ns: u64,
    /// The rest: locks, the journal, write-back's throttling, sleep, queues above the device.
    pub other_wait_ns: u64,
    /// The device's times were more than the wait that was left (it works at
    /// several requests at once, also for others) and were scaled down to it.
    pub scaled: bool,
    /// The scheduler's counters were known; else its parts are in `other_wait_ns` or the device's.
    pub scheduling_known: bool,
}

/// Divides the latency of a run's operations.
///
/// What is sure is taken first: time on a CPU and in the run queue are the
/// threads' own. Device times belong to whoever waited, so they only share what
/// is left. Outside of operations a thread runs or could run: that time is taken from both, in
/// the ratio in which it has them. Where [`Totals`] does not know it, it counts
/// as within: then `on_cpu_ns` is an upper bound.
pub fn attribution(evidence: &Evidence, totals: Totals) -> Attribution {
    divide(&evidence.delta, totals)
}

fn divide(delta: &Delta, totals: Totals) -> Attribution {
    let total = totals.latency_ns;
    let mut left = total;
    let mut take = |want: u64| {
        let part = want.min(left);
        left -= part;
        part
    };
    let (on_cpu, ready) = (delta.on_cpu_ns.unwrap_or(0), delta.run_queue_ns.unwrap_or(0));
    let both = on_cpu.saturating_add(ready).max(1);
    let outside = totals.outside_ns.min(both);
    let within = |part: u64| part - (u128::from(part) * u128::from(outside) / u128::from(both)) as u64;
    let running = take(within(on_cpu));
    let run_queue_ns = take(within(ready));
    let steal_ns = stolen(delta, running);

    let sum = |of: fn(&super::DeviceDelta) -> u64| delta.top_devices().map(of).sum::<u64>();
    let device = [sum(|d| d.read_ns), sum(|d| d.write_ns), delta.flush_ns().unwrap_or(0)];
    let all: u128 = device.iter().map(|n| u128::from(*n)).sum();
    let scaled = all > u128::from(left);
    let fit = |part: u64| match scaled {
        true => (u128::from(part) * u128::from(left) / all) as u64,
        false => part,
    };
    let [device_read_ns, device_write_ns, device_flush_ns] = device.map(fit);
    Attribution {
        operations: totals.operations,
        latency_ns: total,
        on_cpu_ns: running - steal_ns,
        steal_ns,
        run_queue_ns,
        device_read_ns,
        device_write_ns,
        device_flush_ns,
        // Rounding down in `fit` leaves some nanoseconds here.
        other_wait_ns: left - device_read_ns - device_write_ns - device_flush_ns,
        scaled,
        scheduling_known: delta.on_cpu_ns.is_some(),
    }
}

fn stolen(delta: &Delta, running: u64) -> u64 {
    let (Some(steal), Some(busy)) = (delta.steal_ns, delta.machine_busy_ns) else { return 0 };
    let all = u128::from(steal) + u128::from(busy);
    if all == 0 {
        return 0;
    }
    ((u128::from(running) * u128::from(steal) / all) as u64).min(running)
}

impl Attribution {
    /// The parts by name, the largest first.
    pub fn parts(&self) -> Vec<(&'static str, u64)> {
        let mut parts = vec![
            ("on a CPU", self.on_cpu_ns),
            ("stolen by the hypervisor", self.steal_ns),
            ("waiting for a CPU", self.run_queue_ns),
            ("device reads", self.device_read_ns),
            ("device writes", self.device_write_ns),
            ("device flushes", self.device_flush_ns),
            ("other waits", self.other_wait_ns),
        ];
        parts.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        parts
    }

    /// Lines for a reader: name, time per operation and share. Empty without operations.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        if self.operations == 0 || self.latency_ns == 0 {
            return Vec::new();
        }
        let share = |ns: u64| 100.0 * ns as f64 / self.latency_ns as f64;
        let line = |(name, ns): (&'static str, u64)| {
            (name, format!("{} ({:.1} %)", duration(ns / self.operations), share(ns)))
        };
        self.parts().into_iter().filter(|(_, ns)| *ns > 0).map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::witness::DeviceDelta;
    use plumb_machine::DeviceNumber;

    fn device(minor: u32, below: bool, read_ns: u64, write_ns: u64, flush_ns: Option<u64>) -> DeviceDelta {
        DeviceDelta {
            number: DeviceNumber { major: 8, minor },
            below,
            reads: 0,
            read_bytes: 0,
            read_ns,
            writes: 0,
            written_bytes: 0,
            write_ns,
            busy_ns: 0,
            discarded_bytes: None,
            flushes: None,
            flush_ns,
        }
    }

    fn delta(on_cpu: u64, run_queue: u64, devices: Vec<DeviceDelta>) -> Delta {
        Delta { on_cpu_ns: Some(on_cpu), run_queue_ns: Some(run_queue), devices, ..Delta::default() }
    }

    fn divided(delta: &Delta, latency_ns: u64) -> Attribution {
        let a = divide(delta, Totals { operations: 10, latency_ns, outside_ns: 0 });
        assert_eq!(a.parts().iter().map(|(_, ns)| ns).sum::<u64>(), latency_ns, "{a:?}");
        a
    }

    #[test]
    fn syncs_on_a_busy_machine_are_mostly_their_own_wait_for_a_cpu() {
        let busy = delta(50, 700, vec![device(0, false, 0, 100, Some(120))]);
        let a = divided(&busy, 1000);
        assert_eq!((a.on_cpu_ns, a.run_queue_ns, a.device_write_ns, a.device_flush_ns), (50, 700, 100, 120));
        assert_eq!((a.other_wait_ns, a.scaled), (30, false));
        assert_eq!(a.lines()[0].0, "waiting for a CPU");
        assert!(a.lines()[0].1.contains("70.0 %"));
    }

    #[test]
    fn device_times_that_overlap_are_scaled_into_the_wait_that_is_left() {
        let a = divided(&delta(100, 100, vec![device(0, false, 3000, 1000, Some(0))]), 1000);
        assert_eq!((a.device_read_ns, a.device_write_ns, a.other_wait_ns, a.scaled), (600, 200, 0, true));
    }

    #[test]
    fn a_stack_of_devices_counts_once_and_its_flushes_where_they_are_counted() {
        let stack = vec![
            device(0, false, 10, 20, None),
            device(1, true, 9, 19, Some(40)),
            device(2, true, 9, 19, Some(41)),
        ];
        let a = divided(&delta(0, 0, stack), 1000);
        assert_eq!((a.device_read_ns, a.device_write_ns, a.device_flush_ns), (10, 20, 41));
    }

    #[test]
    fn more_cpu_time_than_latency_never_makes_a_part_negative() {
        let a = divided(&delta(5000, 400, vec![device(0, false, 10, 0, None)]), 1000);
        assert_eq!((a.on_cpu_ns, a.run_queue_ns, a.device_read_ns, a.other_wait_ns), (1000, 0, 0, 0));
        assert!(a.scaled);
    }

    #[test]
    fn a_thread_that_fills_blocks_half_the_time_waits_for_a_cpu_within_operations_as_often_as_outside() {
        let of = |outside_ns| {
            divide(&delta(5000, 5000, vec![]), Totals { operations: 1, latency_ns: 4000, outside_ns })
        };
        let (unknown, known) = (of(0), of(6000));
        assert_eq!((unknown.on_cpu_ns, unknown.run_queue_ns), (4000, 0), "an upper bound");
        assert_eq!((known.on_cpu_ns, known.run_queue_ns, known.other_wait_ns), (2000, 2000, 0));
        let more = of(12_000);
        assert_eq!((more.on_cpu_ns, more.run_queue_ns, more.other_wait_ns), (0, 0, 4000));
    }

    #[test]
    fn stolen_time_comes_out_of_the_time_that_seemed_to_run() {
        let stolen = Delta { steal_ns: Some(100), machine_busy_ns: Some(300), ..delta(400, 0, vec![]) };
        let a = divided(&stolen, 1000);
        assert_eq!((a.on_cpu_ns, a.steal_ns, a.other_wait_ns), (300, 100, 600));
    }

    #[test]
    fn without_counters_all_is_other_wait_and_said_so() {
        let a = divided(&Delta::default(), 1000);
        assert_eq!((a.other_wait_ns, a.scheduling_known), (1000, false));
        assert!(divided(&Delta::default(), 0).lines().is_empty());
    }
}
