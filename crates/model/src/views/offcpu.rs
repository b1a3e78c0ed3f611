// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Threads off their CPU: from the switch that took it to the switch that gave
//! it back. Three views read the same absences: runqueue, waitqueue, waittime.

use super::names::Names;
use super::sample::{type_of, NONE};
use crate::sched::{Left, Switch};
use plumb_trace::kernel::task_state;
use plumb_trace::reader::{Item, RawRecord};
use plumb_trace::schema::{SchedFork, SchedSwitch, SchedWakeupNew, SchedWaking};
use plumb_trace::Record;
use std::collections::HashMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// On a CPU; woken meanwhile, which counts if it goes to sleep all the same.
    Running {
        raced: bool,
    },
    /// Ready since `at`; it slept before, or was preempted, or is new.
    Ready {
        at: u64,
        why: Why,
    },
    Asleep {
        at: u64,
        state: u32,
        raced: bool,
    },
}

/// Why a thread left its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    Preempted,
    /// It gave way of its own (sched_yield and the like).
    GaveWay,
    Born,
    /// It slept since this moment (ns), in this scheduler state.
    Slept(u64, u32),
}

/// A time off the CPU, complete.
#[derive(Debug, Clone, Copy)]
pub struct Absence {
    pub tid: u32,
    /// CPU that it came back to.
    pub cpu: u32,
    pub why: Why,
    /// Since when it was runnable, ns.
    pub ready: u64,
    /// When it ran again, ns.
    pub back: u64,
    /// Its kernel priority as it came back.
    pub priority: u32,
    /// Thread that had the CPU before; 0 is idle.
    pub instead: u32,
    /// Where it slept, [`NONE`] where that is not known.
    pub site: u64,
}

impl Absence {
    /// When it left its CPU, or was born, ns.
    pub fn left(&self) -> u64 {
        match self.why {
            Why::Slept(at, _) => at,
            _ => self.ready,
        }
    }

    /// Value of `Key::Type`: what kind of wait it was.
    pub fn kind(&self) -> u64 {
        type_of(match self.why {
            Why::Preempted => "preempted",
            Why::GaveWay => "gave way",
            Why::Born => "new",
            Why::Slept(_, state) if state & task_state::STOPPED != 0 => "stopped or traced",
            Why::Slept(_, state) if state & task_state::UNINTERRUPTIBLE != 0 => {
                if state & task_state::NOLOAD != 0 {
                    "idle (uninterruptible, no load)"
                } else {
                    "uninterruptible"
                }
            }
            Why::Slept(_, state) if state & task_state::INTERRUPTIBLE != 0 => "interruptible",
            Why::Slept(..) => "other sleep",
        })
    }
}

/// State machines of all threads.
#[derive(Debug, Default)]
pub struct OffCpu {
    threads: HashMap<u32, State>,
}

impl OffCpu {
    /// Takes the next item; tells an absence that it ends.
    pub fn feed(&mut self, item: &Item<'_>, names: &Names) -> Option<Absence> {
        match item {
            Item::Record(r) => self.record(r, names),
            Item::Gap(_) => {
                // Any of them may have been switched meanwhile; what is told is known.
                self.threads.clear();
                None
            }
            Item::Told(_) | Item::Operation(_) => None,
        }
    }

    fn record(&mut self, r: &RawRecord<'_>, names: &Names) -> Option<Absence> {
        match r.id {
            SchedSwitch::ID => {
                let e = Switch::read(r);
                if e.prev != 0 {
                    self.leaves(r.ts, &e);
                }
                return if e.next == 0 { None } else { self.returns(r, &e, names) };
            }
            SchedWaking::ID => self.woken(r.ts, SchedWaking::read(r.bytes).wakee),
            SchedWakeupNew::ID => {
                let state = State::Ready { at: r.ts, why: Why::Born };
                self.threads.insert(SchedWakeupNew::read(r.bytes).wakee, state);
            }
            SchedFork::ID => {
                // The id's last holder is gone, whether its end was seen or not.
                self.threads.remove(&SchedFork::read(r.bytes).child_tid);
            }
            _ => {}
        }
        None
    }

    fn leaves(&mut self, ts: u64, e: &Switch) {
        let tid = e.prev;
        let raced = matches!(self.threads.get(&tid), Some(State::Running { raced: true }));
        let state = match e.left {
            Left::Ended => {
                self.threads.remove(&tid);
                return;
            }
            Left::Preempted => State::Ready { at: ts, why: Why::Preempted },
            Left::Yielded => State::Ready { at: ts, why: Why::GaveWay },
            Left::Slept(state) => State::Asleep { at: ts, state, raced },
        };
        self.threads.insert(tid, state);
    }

    fn woken(&mut self, ts: u64, tid: u32) {
        match self.threads.get_mut(&tid) {
            Some(state @ State::Asleep { .. }) => {
                if let State::Asleep { at, state: how, .. } = *state {
                    *state = State::Ready { at: ts, why: Why::Slept(at, how) };
                }
            }
            Some(State::Running { raced }) => *raced = true,
            Some(State::Ready { .. }) | None => {}
        }
    }

    fn returns(&mut self, r: &RawRecord<'_>, e: &Switch, names: &Names) -> Option<Absence> {
        let was = self.threads.insert(e.next, State::Running { raced: false });
        let (ready, why) = match was? {
            State::Running { .. } => return None,
            State::Ready { at, why } => (at, why),
            // Woken between its decision to sleep and the switch: runnable at once.
            State::Asleep { at, state, raced: true } => (at, Why::Slept(at, state)),
            // Its wakeup was not recorded, so when it became runnable is not known.
            State::Asleep { .. } => return None,
        };
        Some(Absence {
            tid: e.next,
            cpu: r.cpu,
            why,
            ready,
            back: r.ts,
            priority: u32::from(e.next_prio),
            instead: r.tid,
            site: names.stack(e.next, r.ts).unwrap_or(NONE),
        })
    }
}
