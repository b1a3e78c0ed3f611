// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What freezes a flight recorder: a system call, a block request or a wait
//! for a CPU that took longer than it may.

use crate::select::call_number;
use anyhow::{bail, Result};
use plumb_trace::schema::{BlockRqComplete, BlockRqIssue, SchedSwitch, SchedWaking, SysEnter, SysExit};
use plumb_trace::{units, Record};
use rustc_hash::FxHashMap;

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

/// Watches records for one condition. They are drained CPU after CPU, so they are put into their order first: an end that
/// is paired with a begin of long ago would be told as a wait that nobody had.
#[derive(Debug)]
pub struct Watch {
    trigger: Trigger,
    /// What was drained and may have something before it that was not.
    heard: Vec<Heard>,
    /// Begins without an end, by thread or request, with their threads.
    open: FxHashMap<u64, (u64, u32)>,
}

#[derive(Debug, Clone, Copy)]
struct Heard {
    ts: u64,
    /// Thread or request.
    key: u64,
    step: Step,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Begins(u32),
    Ends,
    /// What began will not end: who was woken while it ran waits for no CPU.
    Lapses,
    /// Events are missing: what began may have ended.
    Missing,
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
        Self { trigger, heard: Vec::new(), open: FxHashMap::default() }
    }

    /// Looks at a record.
    pub fn look(&mut self, record: &[u8]) {
        let id = u16::from_le_bytes([record[8], record[9]]);
        match (self.trigger.what, id) {
            (What::Call(wanted), SysEnter::ID) => {
                let e = SysEnter::read(record);
                if e.nr == wanted {
                    self.hear(e.ts, u64::from(e.tid), Step::Begins(e.tid));
                }
            }
            (What::Call(wanted), SysExit::ID) => {
                let e = SysExit::read(record);
                if e.nr == wanted {
                    self.hear(e.ts, u64::from(e.tid), Step::Ends);
                }
            }
            (What::Request, BlockRqIssue::ID) => {
                let e = BlockRqIssue::read(record);
                self.hear(e.ts, e.rq, Step::Begins(e.tid));
            }
            (What::Request, BlockRqComplete::ID) => {
                let e = BlockRqComplete::read(record);
                self.hear(e.ts, e.rq, Step::Ends);
            }
            (What::Runqueue, SchedWaking::ID) => {
                let e = SchedWaking::read(record);
                self.hear(e.ts, u64::from(e.wakee), Step::Begins(e.wakee));
            }
            (What::Runqueue, SchedSwitch::ID) => {
                let e = SchedSwitch::read(record);
                self.hear(e.ts, u64::from(e.tid), Step::Lapses);
                self.hear(e.ts, u64::from(e.next_tid), Step::Ends);
            }
            _ => {}
        }
    }

    /// Events up to `ts` were lost or not recorded.
    pub fn missed(&mut self, ts: u64) {
        self.hear(ts, 0, Step::Missing);
    }

    fn hear(&mut self, ts: u64, key: u64, step: Step) {
        self.heard.push(Heard { ts, key, step });
    }

    /// Nothing of before `until`, ns, will be drained any more: what took too long and ended by then; of several the one
    /// that took longest.
    pub fn settle(&mut self, until: u64) -> Option<Fired> {
        self.heard.sort_by_key(|heard| heard.ts);
        let known = self.heard.partition_point(|heard| heard.ts <= until);
        let mut longest = None::<Fired>;
        for Heard { ts, key, step } in self.heard.drain(..known) {
            match step {
                Step::Begins(tid) => _ = self.open.insert(key, (ts, tid)),
                Step::Lapses => _ = self.open.remove(&key),
                Step::Missing => self.open.clear(),
                Step::Ends => {
                    let Some((begin, tid)) = self.open.remove(&key) else { continue };
                    let fired = Fired { begin, end: ts, tid };
                    let least = longest.map_or(self.trigger.limit, |longest| longest.took());
                    longest = if fired.took() > least { Some(fired) } else { longest };
                }
            }
        }
        longest
    }

    pub fn trigger(&self) -> &Trigger {
        &self.trigger
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(condition: &str) -> Watch {
        Watch::new(Trigger::parse(condition).expect("a condition"))
    }

    #[test]
    fn fires_on_the_slow_call_and_on_no_other() {
        let nr = call_number("fsync").expect("fsync");
        let mut w = watch("fsync > 50ms");
        let enter =
            |ms: u64, nr| SysEnter { ts: ms * 1_000_000, id: SysEnter::ID, tid: 5, nr, ..Default::default() };
        let exit =
            |ms: u64, nr| SysExit { ts: ms * 1_000_000, id: SysExit::ID, tid: 5, nr, ..Default::default() };
        w.look(enter(0, nr).bytes());
        w.look(exit(50, nr).bytes());
        w.look(enter(60, nr + 1).bytes());
        w.look(exit(990, nr + 1).bytes());
        assert_eq!(w.settle(u64::MAX), None);
        // The exits are drained first, from another CPU's ring; the longest is told.
        w.look(exit(2000, nr).bytes());
        w.look(exit(2090, nr).bytes());
        assert_eq!(w.settle(1999 * 1_000_000), None);
        w.look(enter(1900, nr).bytes());
        w.look(enter(2010, nr).bytes());
        let fired = Fired { begin: 1_900_000_000, end: 2_000_000_000, tid: 5 };
        assert_eq!(w.settle(u64::MAX), Some(fired));
        assert_eq!(fired.took(), 100_000_000);
    }

    #[test]
    fn what_has_something_before_it_that_is_not_drained_waits() {
        let nr = call_number("fsync").expect("fsync");
        let mut w = watch("fsync > 50ns");
        let enter = |ts| SysEnter { ts, id: SysEnter::ID, tid: 5, nr, ..Default::default() };
        let exit = |ts| SysExit { ts, id: SysExit::ID, tid: 5, nr, ..Default::default() };
        w.look(enter(100).bytes());
        w.look(exit(1120).bytes());
        assert_eq!(w.settle(1000), None);
        // The thread was on another CPU meanwhile.
        w.look(exit(110).bytes());
        w.look(enter(1110).bytes());
        assert_eq!(w.settle(u64::MAX), None, "two short ones");
    }

    #[test]
    fn who_is_woken_while_it_runs_does_not_wait_for_a_cpu() {
        let mut w = watch("runqueue > 1ms");
        let woken =
            |ms: u64| SchedWaking { ts: ms * 1_000_000, id: SchedWaking::ID, wakee: 5, ..Default::default() };
        let switch = |ms: u64, tid, next_tid| SchedSwitch {
            ts: ms * 1_000_000,
            id: SchedSwitch::ID,
            tid,
            next_tid,
            ..Default::default()
        };
        w.look(woken(1).bytes());
        w.look(switch(2, 5, 7).bytes());
        w.look(switch(9, 7, 5).bytes());
        assert_eq!(w.settle(u64::MAX), None, "it left a CPU");
        w.look(woken(10).bytes());
        w.look(switch(12, 7, 5).bytes());
        assert_eq!(w.settle(u64::MAX), Some(Fired { begin: 10_000_000, end: 12_000_000, tid: 5 }));
        // Of another CPU, and the switch away from one that was not raised.
        for record in [switch(20, 0, 5), switch(900, 0, 5)] {
            w.look(record.bytes());
        }
        for record in [woken(19), woken(899)] {
            w.look(record.bytes());
        }
        assert_eq!(w.settle(u64::MAX), None, "each soon after its own wakeup");
    }

    #[test]
    fn what_began_before_events_were_missing_is_not_told() {
        let mut w = watch("request > 1ms");
        let issue = |ms: u64, rq| BlockRqIssue {
            ts: ms * 1_000_000,
            id: BlockRqIssue::ID,
            tid: 7,
            rq,
            ..Default::default()
        };
        let done = |ms: u64, rq| BlockRqComplete {
            ts: ms * 1_000_000,
            id: BlockRqComplete::ID,
            rq,
            ..Default::default()
        };
        w.look(issue(1, 0xabc).bytes());
        w.missed(5_000_000);
        w.look(done(900, 0xabc).bytes());
        w.look(done(4, 0xdef).bytes());
        w.look(issue(2, 0xdef).bytes());
        assert_eq!(w.settle(u64::MAX), Some(Fired { begin: 2_000_000, end: 4_000_000, tid: 7 }));
    }

    #[test]
    fn a_request_is_whose_cpu_time_it_was_issued_in() {
        let mut w = watch("request > 1ms");
        let issue = BlockRqIssue { ts: 1000, id: BlockRqIssue::ID, tid: 7, rq: 0xabc, ..Default::default() };
        let done = |ts, rq| BlockRqComplete { ts, id: BlockRqComplete::ID, tid: 9, rq, ..Default::default() };
        w.look(issue.bytes());
        w.look(done(9_001_000, 0xdef).bytes());
        w.look(done(2_001_000, 0xabc).bytes());
        assert_eq!(w.settle(u64::MAX), Some(Fired { begin: 1000, end: 2_001_000, tid: 7 }));
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
