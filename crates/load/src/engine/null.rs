// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nothing is called: every operation ends at once. What is measured is the load engine.

use super::{Engine, EngineError, Operation, Setup};

/// The engine that does nothing.
#[derive(Debug)]
pub struct Null;

impl Engine for Null {
    fn open(_: &Setup<'_>) -> Result<Self, EngineError> {
        Ok(Null)
    }

    #[inline(always)]
    fn start(&mut self, operation: &Operation, _: u32) -> Option<i64> {
        Some(i64::from(operation.len))
    }
}
