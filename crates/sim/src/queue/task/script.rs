// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tasks that do again what was recorded of a thread: the same operations, each after what it waited for.
//!
//! A recording tells when a thread queued something, and when its earlier ones ended. Where nothing of its own
//! was under way, the next one waited for the last that ended, and the time between was the thread's own: its
//! think time. Where others were under way it took the place of one that had ended since it last queued: not of
//! that one alone, since another scheduler ends them in another order, but of any that leaves so many under way.
//! Else it belongs to what was queued just before it. Write-back, which nobody waits for, comes when it came.

use super::{Next, Op, NOTHING};
use crate::device::{Ns, Operation};
use crate::queue::requests::{Class, Hints};
use plumb_trace::load::OperationKind;

/// What was recorded of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// Its thread; any number.
    pub owner: u32,
    /// What it asked for; a flush has no bytes.
    pub operation: Operation,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
    pub fua: bool,
    /// The cache is flushed before it.
    pub flush_before: bool,
    pub class: Class,
    pub hints: Hints,
    /// When it was queued, ns since the beginning.
    pub queued: Ns,
    /// When it was completed, ns since the beginning.
    pub ended: Ns,
}

/// What an operation waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// So long after the beginning, ns.
    Start(Ns),
    /// So long after the one before it was queued, ns.
    Queued(Ns),
    /// So long after no more than so many of the thread's own were left under way, ns.
    Left(u32, Ns),
    /// When the one of this number has ended.
    Ended(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    operation: Operation,
    offset: u64,
    length: u32,
    fua: bool,
    class: Class,
    hints: Hints,
    after: After,
    /// Its thread waits for it: it counts as under way.
    awaited: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The thread whose it was.
    pub owner: u32,
    steps: Vec<Step>,
    ended: Vec<bool>,
    begun: usize,
    under_way: u32,
    /// When no more than so many were left under way.
    left: Vec<Ns>,
    last: Ns,
    free: Vec<u32>,
    /// Which step is in a slot.
    in_slot: Vec<u32>,
}

/// What each thread does, from what was recorded, in the order of the threads' first operations.
pub fn scripts(mut recorded: Vec<Recorded>) -> Vec<Script> {
    recorded.sort_by_key(|r| r.queued);
    let mut owners: Vec<u32> = Vec::new();
    let mut of: std::collections::HashMap<u32, Vec<Recorded>> = std::collections::HashMap::new();
    for r in recorded {
        let all = of.entry(r.owner).or_default();
        if all.is_empty() {
            owners.push(r.owner);
        }
        all.push(r);
    }
    owners.into_iter().filter_map(|owner| Some(Script::of(owner, &of.remove(&owner)?))).collect()
}

impl Script {
    /// From what a thread queued, in that order.
    fn of(owner: u32, recorded: &[Recorded]) -> Script {
        let mut steps: Vec<Step> = Vec::with_capacity(recorded.len());
        // When those under way end.
        let mut open: Vec<Ns> = Vec::new();
        let mut last_ended: Option<Ns> = None;
        let mut before: Option<Ns> = None;
        for r in recorded {
            let fell = open.iter().filter(|end| **end <= r.queued).max().copied();
            open.retain(|end| *end > r.queued);
            last_ended = last_ended.max(fell);
            // Where nobody is under way, for whatever ended last; in any case since it last queued.
            let ended = if open.is_empty() { last_ended } else { fell };
            let ended = ended.filter(|end| before.is_none_or(|before| *end >= before));
            let awaited = r.operation != Operation::Write || r.hints.sync || r.fua || r.flush_before;
            let after = match (ended, before) {
                _ if !awaited => After::Start(r.queued),
                (Some(end), _) => After::Left(open.len() as u32, r.queued - end),
                (None, Some(before)) => After::Queued(r.queued - before),
                (None, None) => After::Start(r.queued),
            };
            before = Some(r.queued);
            let (class, hints) = (r.class, r.hints);
            let mut step = Step {
                operation: r.operation,
                offset: r.offset,
                length: r.length,
                fua: r.fua,
                class,
                hints,
                after,
                awaited,
            };
            if r.flush_before && r.operation != Operation::Flush {
                steps.push(Step { operation: Operation::Flush, offset: 0, length: 0, fua: false, ..step });
                step.after = After::Ended(steps.len() as u32 - 1);
            }
            if awaited {
                open.push(r.ended);
            }
            steps.push(step);
        }
        let ended = vec![false; steps.len()];
        Script {
            owner,
            steps,
            ended,
            begun: 0,
            under_way: 0,
            left: Vec::new(),
            last: 0,
            free: Vec::new(),
            in_slot: Vec::new(),
        }
    }

    /// How many operations it has.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    pub fn afters(&self) -> impl Iterator<Item = After> + '_ {
        self.steps.iter().map(|s| s.after)
    }

    /// The class of most of its operations.
    pub fn class(&self) -> Class {
        let idle = self.steps.iter().filter(|s| s.class == Class::Idle).count();
        if 2 * idle > self.steps.len() {
            Class::Idle
        } else {
            Class::BestEffort
        }
    }

    /// Behind its last byte.
    pub fn end(&self) -> u64 {
        self.steps.iter().map(|s| s.offset + u64::from(s.length)).max().unwrap_or(0)
    }

    /// What it does at `now`, with `start` as the beginning; what it begins is put into `ops`.
    pub(super) fn next(&mut self, now: Ns, start: Ns, ops: &mut Vec<Op>) -> Next {
        let Some(step) = self.steps.get(self.begun) else { return Next::Ended };
        let due = match step.after {
            After::Start(at) => start.saturating_add(at),
            After::Queued(by) => self.last.saturating_add(by),
            After::Left(most, _) if self.under_way > most => return Next::Waits,
            // Where there were never more the one before it is all that is known.
            After::Left(most, by) => match self.left.get(most as usize) {
                Some(left) => left.saturating_add(by).max(self.last),
                None => self.last.saturating_add(by),
            },
            After::Ended(number) if !self.ended[number as usize] => return Next::Waits,
            After::Ended(_) => now,
        };
        if due > now {
            return Next::At(due);
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.in_slot.push(0);
            self.in_slot.len() as u32 - 1
        });
        if slot as usize >= ops.len() {
            ops.resize(slot as usize + 1, NOTHING);
        }
        let kind = match step.operation {
            Operation::Read => OperationKind::Read,
            Operation::Flush => OperationKind::Sync,
            Operation::Write | Operation::Discard => OperationKind::Write,
        };
        ops[slot as usize] = Op {
            kind,
            operation: step.operation,
            offset: step.offset,
            length: u64::from(step.length),
            due,
            begin: now,
            slot,
            fua: step.fua,
            class: step.class,
            hints: step.hints,
            ..NOTHING
        };
        self.in_slot[slot as usize] = self.begun as u32;
        self.begun += 1;
        self.under_way += u32::from(step.awaited);
        self.last = now;
        Next::Begin(slot)
    }

    /// What is in a slot has ended.
    pub(super) fn ends(&mut self, slot: u32, now: Ns) {
        let number = self.in_slot[slot as usize] as usize;
        self.ended[number] = true;
        if self.steps[number].awaited {
            self.under_way -= 1;
            let left = self.under_way as usize;
            if left >= self.left.len() {
                self.left.resize(left + 1, now);
            }
            self.left[left] = now;
        }
        self.free.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Recorded = Recorded {
        owner: 7,
        operation: Operation::Read,
        offset: 0,
        length: 4096,
        fua: false,
        flush_before: false,
        class: Class::BestEffort,
        hints: Hints::DIRECT,
        queued: 0,
        ended: 0,
    };

    fn read(queued: Ns, ended: Ns) -> Recorded {
        Recorded { queued, ended, ..READ }
    }

    fn afters(recorded: &[Recorded]) -> Vec<After> {
        scripts(recorded.to_vec()).iter().flat_map(Script::afters).collect()
    }

    #[test]
    fn one_at_a_time_thinks_between() {
        let told = afters(&[read(5, 10), read(13, 20), read(20, 25)]);
        assert_eq!(told, [After::Start(5), After::Left(0, 3), After::Left(0, 0)]);
    }

    #[test]
    fn what_is_queued_together_waits_for_all_of_the_last_ones() {
        // Three pieces of one operation, the second ends last.
        let told = afters(&[read(0, 10), read(0, 30), read(1, 20), read(37, 40), read(37, 41)]);
        let expected =
            [After::Start(0), After::Queued(0), After::Queued(1), After::Left(0, 7), After::Queued(0)];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_deep_queue_asks_again_for_each_that_ends() {
        let told = afters(&[read(0, 10), read(0, 20), read(11, 30), read(22, 40)]);
        let expected = [After::Start(0), After::Queued(0), After::Left(1, 1), After::Left(1, 2)];
        assert_eq!(told, expected);
    }

    #[test]
    fn write_back_comes_when_it_came_and_delays_nobody() {
        let write =
            |queued, ended, hints| Recorded { operation: Operation::Write, hints, ..read(queued, ended) };
        let told = afters(&[
            write(3, 90, Hints::default()),
            write(4, 8, Hints { sync: true, ..Hints::default() }),
            write(9, 91, Hints::default()),
            read(10, 12),
        ]);
        assert_eq!(told, [After::Start(3), After::Queued(1), After::Start(9), After::Queued(1)]);
        let flush = Recorded {
            flush_before: true,
            fua: true,
            ..write(4, 8, Hints { sync: true, ..Hints::default() })
        };
        assert_eq!(afters(&[flush, read(9, 10)]), [After::Start(4), After::Ended(0), After::Left(0, 1)]);
    }

    #[test]
    fn threads_go_on_their_own() {
        let other = Recorded { owner: 9, class: Class::Idle, ..read(2, 50) };
        let scripts = scripts(vec![other, read(0, 10), read(12, 14)]);
        let told: Vec<_> = scripts.iter().map(|s| (s.owner, s.len(), s.class())).collect();
        assert_eq!(told, [(7, 2, Class::BestEffort), (9, 1, Class::Idle)]);
        assert_eq!(scripts[0].afters().last(), Some(After::Left(0, 2)));
    }
}
