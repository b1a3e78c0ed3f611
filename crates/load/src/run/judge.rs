// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts the facts of a run before the checks of its validity.

use super::Context;
use crate::result::StepResult;

/// Attributes the operations' time and judges the result.
pub(super) fn judge(_result: &mut StepResult, _context: &Context<'_>) {}
