// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions, source lines and code of places in modules and in the kernel; read when
//! the recording is over.

use super::Modules;
use crate::stacks::Kallsyms;
use plumb_trace::schema::{StateCode, StateFunction, StateSymbols};
use std::collections::BTreeMap;

/// What was found out.
#[derive(Debug, Default)]
pub struct Named {
    /// A row for each place that has a function.
    pub functions: Vec<StateFunction>,
    /// A row for each module that was named, and the kernel (0).
    pub symbols: Vec<StateSymbols>,
    /// Code of the functions with most samples.
    pub code: Vec<StateCode>,
}

/// Names places. `places`: by module (0 the kernel) and offset, how many samples have
/// their innermost frame there (0: it is only a caller, its offset a return address).
pub fn name(_modules: &Modules, _places: &BTreeMap<(u32, u64), u64>, _kernel: &Kallsyms) -> Named {
    Named::default()
}
