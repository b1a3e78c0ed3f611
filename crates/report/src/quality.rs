// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far a trace can be trusted.

use crate::document::Quality;
use plumb_diagnose::Trust;
use plumb_trace::reader::{Summary, Trace};
use plumb_trace::units;

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
        let recorded = trace.metadata.env.get("events").map_or("", String::as_str);
        let no_account =
            ["sched_switch", "sched_waking"].iter().filter(|e| !recorded.split(',').any(|r| r == **e));
        Self {
            no_account: no_account.map(ToString::to_string).collect(),
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
        if self.lost > 0 {
            doubts.push(format!(
                "{} events were lost in {} intervals",
                units::count(self.lost),
                self.gaps.len()
            ));
        }
        if self.missed > 0 {
            doubts.push(format!("{} events were missed by recursion", units::count(self.missed)));
        }
        if self.operation_events_lost > 0 {
            doubts.push(format!(
                "{} events of the workload's operations were lost",
                units::count(self.operation_events_lost)
            ));
        }
        if !self.damage.is_empty() {
            doubts.push("parts of the trace cannot be read".into());
        }
        if self.cut_off {
            doubts.push("the recording was cut off".into());
        }
        for (set, n) in &self.thinned {
            doubts.push(format!("only 1 of {n} of the {set} events was kept"));
        }
        Trust { no_account: self.no_account.clone(), doubts, rotating: self.rotating.clone() }
    }

    /// Nothing was lost, and all of it can be read.
    pub fn valid(&self) -> bool {
        self.lost == 0 && self.operation_events_lost == 0 && self.damage.is_empty()
    }
}
