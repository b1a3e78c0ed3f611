// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A switch of a CPU from one thread to the next, decoded once for the account, the views and the exports.

use plumb_trace::kernel::task_state;
use plumb_trace::reader::RawRecord;
use plumb_trace::schema::SchedSwitch;
use plumb_trace::Record;

/// How a thread left its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// It never runs again.
    Ended,
    /// It could have run on.
    Preempted,
    /// It called sched_yield(2) or the like. Without CONFIG_PREEMPT a tick that takes the CPU looks the same.
    Yielded,
    /// It sleeps in this state, see [`task_state`].
    Slept(u32),
}

/// One sched_switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    /// Thread that left; 0 is idle.
    pub prev: u32,
    pub prev_prio: u16,
    pub left: Left,
    /// The CPU quota of its cgroup was used up.
    pub over_quota: bool,
    /// Thread that runs now; 0 is idle.
    pub next: u32,
    pub next_prio: u16,
}

impl Switch {
    /// The switch that a sched_switch record tells of.
    pub fn read(r: &RawRecord<'_>) -> Self {
        let e = SchedSwitch::read(r.bytes);
        let left = if e.prev_state & task_state::DEAD != 0 {
            Left::Ended
        } else if e.preempt != 0 {
            Left::Preempted
        } else if e.prev_state == task_state::RUNNING {
            Left::Yielded
        } else {
            Left::Slept(e.prev_state)
        };
        let over_quota = e.preempt & 2 != 0;
        Self {
            prev: r.tid,
            prev_prio: e.prev_prio,
            left,
            over_quota,
            next: e.next_tid,
            next_prio: e.next_prio,
        }
    }

    /// The thread that ended with this record, if one did.
    pub fn ended(r: &RawRecord<'_>) -> Option<u32> {
        let switch = (r.id == SchedSwitch::ID).then(|| Self::read(r))?;
        (switch.left == Left::Ended).then_some(switch.prev)
    }
}
