// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A function's instructions and the samples at each: which of them, or which loop, has most of its time.

pub mod disassembly;
pub mod histogram;
pub mod sheet;
#[cfg(test)]
mod tests;
pub mod words;

use plumb_model::profile::Profile;
use plumb_model::{Category, HotRow};

/// Tells of each function that ran which of its instructions, or which loop, had most of it; of
/// those whose code the trace holds. `machine`: whose code it is, as Rust calls it.
pub fn name(profile: &Profile, machine: &str, rows: &mut [HotRow]) {
    for row in rows.iter_mut().filter(|r| r.category == Category::Running) {
        let named = words::Named { function: &row.function, module: &row.module, origin: row.origin };
        row.instruction = words::hot_words(profile, machine, named);
    }
}
