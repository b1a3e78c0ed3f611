// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far a trace can be trusted.

use crate::setup;
use plumb_diagnose::{Doubt, DoubtKind, Trust};
use plumb_trace::reader::{Summary, Trace};
use plumb_trace::units;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How far a trace can be trusted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Events in the per-CPU streams.
    pub events: u64,
    /// Events in the recorder's own streams.
    pub state_events: u64,
    /// Events lost, as the packets tell.
    pub lost: u64,
    /// Intervals in which they were lost: CPU, begin, end (ns, CLOCK_MONOTONIC), events.
    pub gaps: Vec<(u32, u64, u64, u64)>,
    /// Begins and ends of operations that a workload told.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub operation_events: u64,
    /// Of those, lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub operation_events_lost: u64,
    /// Events missed by recursion.
    pub missed: u64,
    /// Places that could not be read.
    pub damage: Vec<String>,
    /// The recording was cut off: its end is not in the trace.
    pub cut_off: bool,
    /// Events without which there is no account of time, and that were not recorded.
    pub no_account: Vec<String>,
    /// Ratios of thinned sets.
    pub thinned: BTreeMap<String, String>,
    /// Disks that rotate.
    pub rotating: Vec<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Events without which there is no account of time, and that a trace lacks.
fn no_account(trace: &Trace) -> Vec<String> {
    let missing =
        ["sched_switch", "sched_waking"].iter().filter(|e| !setup::has_event(&trace.metadata.env, e));
    missing.map(ToString::to_string).collect()
}

/// Whether a trace has the events that an account of time is made of.
pub fn has_account(trace: &Trace) -> bool {
    no_account(trace).is_empty()
}

/// Exit code of a measurement that is not valid.
pub const NOT_VALID: u8 = 3;

impl Quality {
    /// What a pass over a trace showed.
    pub fn of(trace: &Trace, summary: &Summary) -> Self {
        let thinned = trace
            .metadata
            .env
            .iter()
            .filter_map(|(k, v)| Some((k.strip_prefix("thin_")?.to_string(), v.clone())));
        Self {
            no_account: no_account(trace),
            events: summary.records,
            state_events: trace.state.events + summary.waits,
            operation_events: summary.operations,
            operation_events_lost: summary.operations_lost,
            lost: summary.lost(),
            gaps: summary.gaps.iter().map(|g| (g.cpu, g.begin, g.end, g.lost)).collect(),
            missed: trace.state.end.as_ref().map_or(0, |e| e.missed),
            damage: summary.damage.iter().map(ToString::to_string).collect(),
            cut_off: trace.state.end.is_none(),
            thinned: thinned.collect(),
            rotating: trace
                .state
                .disks
                .iter()
                .filter(|d| d.rotational == 1)
                .map(|d| d.name.clone())
                .collect(),
        }
    }

    /// What the diagnosis must know of it.
    pub fn trust(&self) -> Trust {
        let mut doubts = Vec::new();
        let mut add = |kind, words| doubts.push(Doubt::new(kind, words));
        if self.lost > 0 {
            let (lost, gaps) = (units::count(self.lost), self.gaps.len());
            let s = if gaps == 1 { "" } else { "s" };
            add(DoubtKind::LostEvents, format!("{lost} events lost in {gaps} interval{s}"));
        }
        if self.missed > 0 {
            let missed = units::count(self.missed);
            add(DoubtKind::MissedEvents, format!("{missed} events missed (probe recursion)"));
        }
        if self.operation_events_lost > 0 {
            let lost = units::count(self.operation_events_lost);
            add(DoubtKind::LostOperations, format!("{lost} operation events of the workload lost"));
        }
        if !self.damage.is_empty() {
            add(DoubtKind::Damage, "parts of the trace are unreadable".into());
        }
        if self.cut_off {
            add(DoubtKind::CutOff, "the recording was cut off".into());
        }
        for (set, n) in &self.thinned {
            add(DoubtKind::Thinned, format!("1 of {n} {set} events recorded"));
        }
        Trust { no_account: self.no_account.clone(), doubts, rotating: self.rotating.clone() }
    }

    /// Nothing was lost, and all of it can be read.
    pub fn valid(&self) -> bool {
        self.lost == 0 && self.operation_events_lost == 0 && self.damage.is_empty()
    }
}
