// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a thread did in the interval that froze a flight recorder.

use crate::parts::{Part, Parts};
use plumb_trace::schema::StateTrigger;

/// The interval, and where its time went.
#[derive(Debug, Default)]
pub struct Triggered {
    /// Thread, and first and last moment, ns; nothing where no flight recorder was frozen.
    of: Option<(u32, u64, u64)>,
    /// The thread's name, where it was seen.
    pub name: Option<u32>,
    pub parts: Parts,
}

impl Triggered {
    pub fn new(trigger: Option<&StateTrigger>) -> Self {
        let of = trigger.map(|t| (t.thread, t.begin, t.end));
        Self { of, ..Self::default() }
    }

    /// A thread of that name spent `time` so within `from..to`; what lies in the interval counts by its share.
    pub fn spent(&mut self, (tid, name): (u32, u32), part: Part, (from, to): (u64, u64), time: u64) {
        let Some((_, begin, end)) = self.of.filter(|(of, ..)| *of == tid) else { return };
        self.name = Some(name);
        let within = to.min(end).saturating_sub(from.max(begin));
        let share = u128::from(time) * u128::from(within) / u128::from((to - from).max(1));
        self.parts.add(part, u64::try_from(share).unwrap_or(u64::MAX));
    }
}
