// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the state machines are told of a trace before they see its first event.

use crate::machine::Carried;
use plumb_trace::reader::State as TraceState;
use plumb_trace::schema::StateTrigger;

/// What is known before the first event.
#[derive(Debug, Default)]
pub struct Setup {
    /// First moment that is accounted, ns; events before it only set states.
    pub begin: u64,
    /// Last moment, ns; later events are not read. `u64::MAX` where it is not known.
    pub end: u64,
    /// Every process of the machine is of the target, but the recorder.
    pub everyone: bool,
    /// Process id of the recorder.
    pub recorder: u32,
    /// The processes of these names are a service of their own; empty: none.
    pub comms: Vec<String>,
    /// Who waits for a TCP segment that is sent again is recorded.
    pub retransmit_waiters: bool,
    /// The trace tells how long data was in its TCP socket before it was read.
    pub reads: bool,
    /// First thread of the command: the critical path is its. 0 without a command.
    pub root: u32,
    /// What is known before anything is told; the rest may be told, see [`crate::Model::feed`].
    pub state: TraceState,
    /// What another model knew: this one goes on in its place.
    pub carried: Option<Box<Carried>>,
}

impl Setup {
    /// What froze a flight recorder, or was written with what lies around it: of several, what was told last.
    pub fn trigger(&self) -> Option<&StateTrigger> {
        let triggers = &self.state.triggers;
        triggers.iter().rev().find(|t| t.end >= self.begin && t.end <= self.end).or(triggers.last())
    }
}
