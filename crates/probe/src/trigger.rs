// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What freezes a flight recorder: a system call, a block request or a wait
//! for a CPU that took longer than it may.

use crate::select::call_number;
use anyhow::{bail, Result};
use plumb_trace::schema::{BlockRqComplete, BlockRqIssue, SchedSwitch, SchedWaking, SysEnter, SysExit};
use plumb_trace::{units, Record};
use std::collections::{HashMap, VecDeque};

/// Ends that wait for their begins: of one thread or request, and of how many.
const MOST_ENDS: usize = 1024;
const MOST_EARLY: usize = 65_536;
/// Begins of one thread or request whose ends were not read.
const MOST_BEGINS: usize = 16;

/// A condition such as `fsync > 50ms`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trigger {
    what: What,
    limit: u64,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Call(u32),
    Request,
    Runqueue,
}

impl Trigger {
    /// Reads `NAME > DURATION`; NAME is a system call, `request` (a block
    /// request from issue to completion) or `runqueue` (from wakeup to CPU).
    ///
    /// # Errors
    /// Not of that form, with an example.
    pub fn parse(text: &str) -> Result<Self> {
        let Some((name, limit)) = text.split_once('>') else {
            bail!("'{text}' is not NAME > DURATION; examples: 'fsync > 50ms', 'request > 100ms', 'runqueue > 20ms'");
        };
        let what = match name.trim() {
            "request" => What::Request,
            "runqueue" => What::Runqueue,
            call => match call_number(call) {
                Some(nr) => What::Call(nr),
                None => bail!("'{call}' is no system call of this machine, nor request or runqueue"),
            },
        };
        let limit = units::parse_duration(limit.trim()).map_err(anyhow::Error::msg)?;
        Ok(Self { what, limit, text: text.trim().into() })
    }

    /// Events that it looks at.
    pub fn events(&self) -> &'static [&'static str] {
        match self.what {
            What::Call(_) => &["sys_enter", "sys_exit"],
            What::Request => &["block_rq_issue", "block_rq_complete"],
            What::Runqueue => &["sched_waking", "sched_switch"],
        }
    }

    /// The system call that must be recorded for it.
    pub fn call(&self) -> Option<u32> {
        match self.what {
            What::Call(nr) => Some(nr),
            _ => None,
        }
    }

    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Watches records as they are drained, CPU after CPU: a pair whose halves lie
/// on two CPUs may come end first, so either half completes it.
#[derive(Debug)]
pub struct Watch {
    trigger: Trigger,
    /// Begins without an end, with their threads.
    open: HashMap<u64, VecDeque<(u64, u32)>>,
    /// Ends without a begin, in their order: of several that came first each belongs to another begin.
    early: HashMap<u64, VecDeque<u64>>,
}

/// What took too long, times in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fired {
    pub begin: u64,
    pub end: u64,
    /// Who called, waited or issued it.
    pub tid: u32,
}

impl Fired {
    pub fn took(&self) -> u64 {
        self.end.saturating_sub(self.begin)
    }
}

impl Watch {
    /// A watch for one condition.
    pub fn new(trigger: Trigger) -> Self {
        Self { trigger, open: HashMap::new(), early: HashMap::new() }
    }

    /// Looks at a record; tells what took too long.
    pub fn look(&mut self, record: &[u8]) -> Option<Fired> {
        let id = u16::from_le_bytes([record[8], record[9]]);
        let ts = u64::from_le_bytes(record[..8].try_into().ok()?);
        let call = |tid: u32, nr: u32, begins| (u64::from(tid), tid, begins, nr);
        if self.trigger.what == What::Runqueue && id == SchedSwitch::ID {
            // Woken while it ran: it does not wait for a CPU.
            let prev = u64::from(SchedSwitch::read(record).tid);
            if let Some(begins) = self.open.get_mut(&prev) {
                begins.retain(|(begin, _)| *begin > ts);
                if begins.is_empty() {
                    self.open.remove(&prev);
                }
            }
        }
        let (key, tid, begins) = match (self.trigger.what, id) {
            (What::Call(wanted), SysEnter::ID | SysExit::ID) => {
                let (key, tid, begins, nr) = if id == SysEnter::ID {
                    let e = SysEnter::read(record);
                    call(e.tid, e.nr, true)
                } else {
                    let e = SysExit::read(record);
                    call(e.tid, e.nr, false)
                };
                (nr == wanted).then_some((key, tid, begins))?
            }
            (What::Request, BlockRqIssue::ID) => {
                let e = BlockRqIssue::read(record);
                (e.rq, e.tid, true)
            }
            (What::Request, BlockRqComplete::ID) => (BlockRqComplete::read(record).rq, 0, false),
            (What::Runqueue, SchedWaking::ID) => {
                let wakee = SchedWaking::read(record).wakee;
                (u64::from(wakee), wakee, true)
            }
            (What::Runqueue, SchedSwitch::ID) => {
                let next = SchedSwitch::read(record).next_tid;
                (u64::from(next), next, false)
            }
            _ => return None,
        };
        let fired = if begins {
            let ends = self.early.entry(key).or_default();
            while ends.front().is_some_and(|end| *end < ts) {
                ends.pop_front();
            }
            match ends.pop_front() {
                Some(end) => (ts, tid, end),
                None => {
                    self.early.remove(&key);
                    let begins = self.open.entry(key).or_default();
                    if begins.len() == MOST_BEGINS {
                        begins.pop_front();
                    }
                    begins.push_back((ts, tid));
                    return None;
                }
            }
        } else if let Some(begins) = self.open.get_mut(&key) {
            // The next one's begin may have come before this end; an end before all of them is of an earlier one.
            let earlier = begins.partition_point(|(begin, _)| *begin <= ts);
            let (begin, tid) = begins.drain(..earlier).next_back()?;
            if begins.is_empty() {
                self.open.remove(&key);
            }
            (begin, tid, ts)
        } else {
            let ends = self.early.entry(key).or_default();
            if ends.len() == MOST_ENDS {
                ends.pop_front();
            }
            ends.push_back(ts);
            if self.early.len() > MOST_EARLY {
                self.early.clear();
            }
            return None;
        };
        let (begin, tid, end) = fired;
        Some(Fired { begin, end, tid }).filter(|fired| fired.took() > self.trigger.limit)
    }

    pub fn trigger(&self) -> &Trigger {
        &self.trigger
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fires_on_the_slow_call_and_on_no_other() {
        let nr = call_number("fsync").expect("fsync");
        let mut w = Watch::new(Trigger::parse("fsync > 50ms").expect("good"));
        let enter = |ts, nr| SysEnter { ts, id: SysEnter::ID, tid: 5, nr, ..Default::default() };
        let exit = |ts, nr| SysExit { ts, id: SysExit::ID, tid: 5, nr, ..Default::default() };
        assert_eq!(w.look(enter(0, nr).bytes()), None);
        assert_eq!(w.look(exit(50_000_000, nr).bytes()), None);
        assert_eq!(w.look(enter(60_000_000, nr + 1).bytes()), None);
        assert_eq!(w.look(exit(990_000_000, nr + 1).bytes()), None);
        // The exit was drained first: another CPU's ring.
        assert_eq!(w.look(exit(2_000_000_000, nr).bytes()), None);
        let fired = Fired { begin: 1_900_000_000, end: 2_000_000_000, tid: 5 };
        assert_eq!(w.look(enter(1_900_000_000, nr).bytes()), Some(fired));
        assert_eq!(fired.took(), 100_000_000);
        // The exit was drained behind the thread's next call: it left that CPU meanwhile.
        assert_eq!(w.look(enter(3_000_000_000, nr).bytes()), None);
        assert_eq!(w.look(enter(3_200_000_000, nr).bytes()), None);
        let fired = Fired { begin: 3_000_000_000, end: 3_100_000_000, tid: 5 };
        assert_eq!(w.look(exit(3_100_000_000, nr).bytes()), Some(fired));
        assert_eq!(w.look(exit(3_210_000_000, nr).bytes()), None, "a short one");
    }

    #[test]
    fn who_is_woken_while_it_runs_does_not_wait_for_a_cpu() {
        let mut w = Watch::new(Trigger::parse("runqueue > 1ms").expect("good"));
        let woken = |ts| SchedWaking { ts, id: SchedWaking::ID, wakee: 5, ..Default::default() };
        let switch =
            |ts, tid, next_tid| SchedSwitch { ts, id: SchedSwitch::ID, tid, next_tid, ..Default::default() };
        assert_eq!(w.look(woken(1_000_000).bytes()), None);
        assert_eq!(w.look(switch(2_000_000, 5, 7).bytes()), None, "it leaves a CPU");
        assert_eq!(w.look(switch(9_000_000, 7, 5).bytes()), None);
        assert_eq!(w.look(switch(9_500_000, 5, 7).bytes()), None);
        assert_eq!(w.look(woken(10_000_000).bytes()), None);
        let fired = Some(Fired { begin: 10_000_000, end: 12_000_000, tid: 5 });
        assert_eq!(w.look(switch(12_000_000, 7, 5).bytes()), fired);
        // Its switches come first, from another CPU's ring: each belongs to a wakeup of its own.
        for (ts, prev_tid, next_tid) in [(20, 0, 5), (21, 5, 0), (30, 0, 5), (31, 5, 0)] {
            assert_eq!(w.look(switch(ts * 1_000_000, prev_tid, next_tid).bytes()), None);
        }
        for ts in [19_900_000, 29_900_000] {
            assert_eq!(w.look(woken(ts).bytes()), None);
        }
        assert_eq!(w.look(switch(900_000_000, 0, 5).bytes()), None, "a wakeup that comes later");
    }

    #[test]
    fn a_request_is_whose_cpu_time_it_was_issued_in() {
        let mut w = Watch::new(Trigger::parse("request > 1ms").expect("good"));
        let issue = BlockRqIssue { ts: 1000, id: BlockRqIssue::ID, tid: 7, rq: 0xabc, ..Default::default() };
        let done = |ts, rq| BlockRqComplete { ts, id: BlockRqComplete::ID, tid: 9, rq, ..Default::default() };
        assert_eq!(w.look(issue.bytes()), None);
        assert_eq!(w.look(done(9_001_000, 0xdef).bytes()), None);
        let fired = Some(Fired { begin: 1000, end: 2_001_000, tid: 7 });
        assert_eq!(w.look(done(2_001_000, 0xabc).bytes()), fired);
    }

    #[test]
    fn bad_conditions_are_explained() {
        for (text, word) in
            [("fsync 50ms", "NAME > DURATION"), ("fsnyc > 1s", "fsnyc"), ("fsync > 50", "250ms")]
        {
            assert!(Trigger::parse(text).expect_err(text).to_string().contains(word));
        }
    }
}
