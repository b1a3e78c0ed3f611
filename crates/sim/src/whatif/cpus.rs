// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPUs that threads share, as the kernel's fair scheduler shares them: who had least of them is next, a thread that
//! is woken takes the place of one that had clearly more, and nobody waits for longer than the slices of those before
//! it (kernel/sched/fair.c). Weights, and where a thread's cache is, are not known.

use crate::device::Ns;
use std::collections::BTreeSet;

/// How long a thread runs before another that waits gets its turn: sysctl_sched_base_slice with few CPUs.
const SLICE: Ns = 3_000_000;
/// So much more a running thread must have had for one that is woken to take its place: sched_wakeup_granularity.
const GRANULARITY: Ns = 1_000_000;
/// So much of what it did not use a thread keeps that slept.
const KEPT: Ns = SLICE / 2;

#[derive(Debug, Clone, Copy)]
struct Running {
    thread: u32,
    since: Ns,
    /// Its turn ends, if others wait.
    until: Ns,
}

/// Time of a CPU that a thread wants or had, ns.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    had: Ns,
    wants: Ns,
}

#[derive(Debug)]
pub struct Cpus {
    running: Vec<Option<Running>>,
    waiting: BTreeSet<(Ns, u32)>,
    shares: Vec<Share>,
    /// The least that those who have or want a CPU had; it never falls (min_vruntime).
    floor: Ns,
}

impl Cpus {
    /// So many CPUs, and threads from 0 on.
    pub fn new(cpus: usize, threads: usize) -> Self {
        Self {
            // More CPUs than threads are never busy.
            running: vec![None; cpus.min(threads).max(1)],
            waiting: BTreeSet::new(),
            shares: vec![Share::default(); threads],
            floor: 0,
        }
    }

    /// A thread wants a CPU for so long from `now` on; it has none, and has slept or is new.
    pub fn wants(&mut self, now: Ns, thread: u32, time: Ns) {
        let running = (0..self.running.len()).filter(|cpu| self.running[*cpu].is_some());
        let least = running.map(|cpu| self.had(now, cpu)).chain(self.waiting.first().map(|w| w.0)).min();
        self.floor = self.floor.max(least.unwrap_or(0));
        let share = &mut self.shares[thread as usize];
        share.had = share.had.max(self.floor.saturating_sub(KEPT));
        share.wants = time;
        let had = share.had;
        if let Some(cpu) = self.running.iter().position(Option::is_none) {
            self.run(now, cpu, thread);
            return;
        }
        let most = (0..self.running.len()).max_by_key(|cpu| self.had(now, *cpu));
        match most.filter(|cpu| self.had(now, *cpu) > had + GRANULARITY) {
            Some(cpu) => {
                self.leaves(now, cpu);
                self.run(now, cpu, thread);
            }
            None => drop(self.waiting.insert((had, thread))),
        }
    }

    /// What the thread on a CPU had, with what it has now.
    fn had(&self, now: Ns, cpu: usize) -> Ns {
        self.running[cpu].map_or(0, |r| self.shares[r.thread as usize].had + (now - r.since))
    }

    fn run(&mut self, now: Ns, cpu: usize, thread: u32) {
        self.running[cpu] = Some(Running { thread, since: now, until: now + SLICE });
    }

    /// The thread on a CPU waits for its next turn.
    fn leaves(&mut self, now: Ns, cpu: usize) {
        let Some(running) = self.running[cpu].take() else { return };
        let share = &mut self.shares[running.thread as usize];
        share.had += now - running.since;
        share.wants -= now - running.since;
        self.waiting.insert((share.had, running.thread));
    }

    /// When a thread has had what it wanted, or its turn ends and others wait; with the CPU.
    pub fn next(&self) -> Option<(Ns, usize)> {
        let ends = |r: &Running| {
            let done = r.since + self.shares[r.thread as usize].wants;
            if self.waiting.is_empty() {
                done
            } else {
                done.min(r.until)
            }
        };
        let all = self.running.iter().enumerate();
        all.filter_map(|(cpu, running)| Some((ends(running.as_ref()?), cpu))).min()
    }

    /// What happens on a CPU at the moment that [`Cpus::next`] told: the thread that has had what it wanted, which keeps the CPU
    /// until it [`Cpus::goes_on`] or [`Cpus::sleeps`]; `None` where it lets another have its turn.
    pub fn at(&mut self, now: Ns, cpu: usize) -> Option<u32> {
        let running = self.running[cpu]?;
        let share = &self.shares[running.thread as usize];
        if running.since + share.wants <= now {
            return Some(running.thread);
        }
        let first = self.waiting.first().copied();
        match first.filter(|(had, _)| *had < self.had(now, cpu)) {
            Some(_) => {
                self.leaves(now, cpu);
                self.next_on(now, cpu);
            }
            None => self.running[cpu] = Some(Running { until: now + SLICE, ..running }),
        }
        None
    }

    /// The thread on a CPU wants it for so long again.
    pub fn goes_on(&mut self, now: Ns, cpu: usize, time: Ns) {
        if let Some(running) = &mut self.running[cpu] {
            let share = &mut self.shares[running.thread as usize];
            share.had += now - running.since;
            share.wants = time;
            running.since = now;
        }
    }

    /// The thread on a CPU sleeps or has ended.
    pub fn sleeps(&mut self, now: Ns, cpu: usize) {
        if let Some(running) = self.running[cpu].take() {
            self.shares[running.thread as usize].had += now - running.since;
        }
        self.next_on(now, cpu);
    }

    fn next_on(&mut self, now: Ns, cpu: usize) {
        if let Some((_, thread)) = self.waiting.pop_first() {
            self.run(now, cpu, thread);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets all run; when each has had what it wanted, in ms.
    fn ends(cpus: &mut Cpus) -> Vec<(u32, u64)> {
        let mut ended = Vec::new();
        while let Some((now, cpu)) = cpus.next() {
            if let Some(thread) = cpus.at(now, cpu) {
                cpus.sleeps(now, cpu);
                ended.push((thread, now / 1_000_000));
            }
        }
        ended
    }

    #[test]
    fn who_shares_a_cpu_takes_turns() {
        let mut one = Cpus::new(1, 2);
        one.wants(0, 0, 30_000_000);
        one.wants(0, 1, 30_000_000);
        let times: Vec<u64> = ends(&mut one).iter().map(|e| e.1).collect();
        assert_eq!(times, [57, 60]);
        let mut two = Cpus::new(2, 3);
        (0..3).for_each(|thread| two.wants(0, thread, 20_000_000));
        let times: Vec<u64> = ends(&mut two).iter().map(|e| e.1).collect();
        assert!(times[0] > 20 && times[2] <= 31, "60 ms of work on two CPUs: {times:?}");
    }

    #[test]
    fn who_comes_late_gets_no_more_than_its_share() {
        let mut one = Cpus::new(1, 2);
        one.wants(0, 0, 10_000_000_000);
        while let Some((now, cpu)) = one.next().filter(|(now, _)| *now < 5_000_000_000) {
            one.at(now, cpu);
        }
        one.wants(5_000_000_000, 1, 5_000_000_000);
        let times: Vec<u64> = ends(&mut one).iter().map(|e| e.1).collect();
        assert!(times[0] > 14_900 && times[1] == 15_000, "{times:?}");
    }

    #[test]
    fn who_slept_goes_before_who_had_more() {
        let mut one = Cpus::new(1, 2);
        one.wants(0, 0, 100_000_000);
        while let Some((now, cpu)) = one.next().filter(|(now, _)| *now < 50_000_000) {
            one.at(now, cpu);
        }
        one.wants(50_000_000, 1, 1_000_000);
        assert_eq!(ends(&mut one), [(1, 51), (0, 101)]);
    }
}
