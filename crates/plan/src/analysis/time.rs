// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the time of a load, or of one of its steps, goes: the account's categories in a few groups.

use crate::table::{Row, TimeOf};
use plumb_model::Category;
use plumb_report::palette::Kind;
use std::collections::BTreeMap;

/// The group of a category of the account; of a part of a load's own account the part itself.
pub fn group(name: &str) -> &str {
    use Category as C;
    match name.parse::<Category>() {
        Ok(C::Running) => "on a CPU",
        Ok(C::Interrupted | C::Overhead) => "interrupts, recorder",
        Ok(C::BlockIssued) => "block device: service",
        Ok(C::Network | C::Socket | C::Pipe) => "network, pipes",
        Ok(category) => match Kind::of_state(category) {
            Kind::Cpu => "waiting for a CPU",
            Kind::Device => "block device: queue",
            Kind::Journal => "journal, write-back",
            Kind::Lock => "locks",
            Kind::Memory => "memory",
            Kind::Other => "other threads",
            Kind::Sleep => "sleeping",
            _ => "other",
        },
        Err(_) => name,
    }
}

/// Of a repetition the time of its steps: of its recorded spans, or as the load itself accounts for it.
pub fn of(row: &Row) -> &[TimeOf] {
    if row.spans.is_empty() {
        &row.steps
    } else {
        &row.spans
    }
}

/// Shares of time by group; every repetition counts the same.
#[derive(Debug, Default)]
pub struct Shares {
    sums: BTreeMap<String, f64>,
    repetitions: u32,
}

impl Shares {
    /// Adds what a repetition tells of some steps.
    pub fn add<'a>(&mut self, times: impl Iterator<Item = &'a TimeOf> + Clone) {
        let whole: f64 = times.clone().map(TimeOf::whole).sum();
        if whole <= 0.0 {
            return;
        }
        self.repetitions += 1;
        for (part, ns) in times.flat_map(|time| &time.parts) {
            *self.sums.entry(group(part).into()).or_default() += ns / whole;
        }
    }

    /// The mean of the repetitions, the largest first; their sum is 1.
    pub fn means(self) -> Vec<(String, f64)> {
        let by = f64::from(self.repetitions.max(1));
        let mut all: Vec<(String, f64)> =
            self.sums.into_iter().map(|(group, sum)| (group, sum / by)).collect();
        all.retain(|(_, share)| *share > 0.0);
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_count_alike_however_long_they_took() {
        let time = |parts: &[(&str, f64)]| TimeOf {
            name: "Q1".into(),
            count: 1,
            parts: parts.iter().map(|(part, ns)| (part.to_string(), *ns)).collect(),
        };
        let mut shares = Shares::default();
        shares.add([time(&[("running", 10.0), ("block.device", 10.0)])].iter());
        shares.add([time(&[("running", 1000.0)])].iter());
        shares.add([].iter());
        assert_eq!(shares.means(), [("on a CPU".into(), 0.75), ("block device: service".into(), 0.25)]);
    }
}
