// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The faults and the clean runs, as data.

mod clean;
mod cpu;
mod disk;
mod lock;
mod wait;

pub use clean::{Clean, What, CLEAN};

use crate::load::{Dose, Load};
use crate::setup::Setup;
use std::sync::LazyLock;

/// A program with one known cause of lost time.
pub struct Fault {
    /// Its name on the command line.
    pub name: &'static str,
    /// How the cause is made.
    pub words: &'static str,
    /// The findings that name the cause; the first is the best name.
    pub expect: &'static [&'static str],
    /// What the program honestly is besides: passed over when the weak dose is judged, because then
    /// it is the larger part.
    pub base: &'static [&'static str],
    pub setup: Setup,
    pub load: Load,
    /// Costs 60 to 90 % of the victim's time.
    pub strong: Dose,
    /// Costs 20 to 35 %.
    pub weak: Dose,
    /// Whether the same program without the fault is worth a comparison.
    pub compare: bool,
}

/// `dose(operations, useful work of each in us, fault, width)`.
const fn dose(ops: u64, work: u64, fault: u64, width: u64) -> Dose {
    Dose { ops, work, fault, width, rest: 0 }
}

/// What is honest for a victim that works between its operations.
const WORKS: &[&str] = &["cpu.user"];

/// Every fault, by subject.
pub static FAULTS: LazyLock<Vec<&Fault>> =
    LazyLock::new(|| [cpu::FAULTS, disk::FAULTS, lock::FAULTS, wait::FAULTS].into_iter().flatten().collect());

/// Findings that plumb knows and that one machine without special hardware or helpers cannot be made
/// to have: said in the summary, so that nobody takes silence for proof.
pub const NOT_MADE: &[(&str, &str)] =
    &[("cpu.stolen", "needs a hypervisor that takes CPU time away"), ("peer.remote", "needs a second host")];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_every_fault_expects_something_else_than_its_base() {
        let names: BTreeSet<_> = FAULTS.iter().map(|f| f.name).chain(CLEAN.iter().map(|c| c.name)).collect();
        assert_eq!(names.len(), FAULTS.len() + CLEAN.len());
        for fault in FAULTS.iter() {
            assert!(!fault.expect.is_empty(), "{}: no expected finding", fault.name);
            assert!(
                fault.expect.iter().all(|id| !fault.base.contains(id)),
                "{}: expected in base",
                fault.name
            );
        }
    }

    #[test]
    fn there_are_as_many_as_the_claim_needs() {
        let ids: BTreeSet<_> = FAULTS.iter().map(|f| f.expect[0]).collect();
        assert!(FAULTS.len() >= 30, "{} faults", FAULTS.len());
        assert!(CLEAN.len() >= 15, "{} clean runs", CLEAN.len());
        assert!(ids.len() >= 20, "{ids:?}");
    }
}
