// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A profile in other programs' formats, and as a flame graph.

use crate::cli::Export;
use anyhow::{bail, Result};
use plumb_model::profile::Profile;
use std::io::Write;

/// Writes `profile`; with `before` given, how it differs from that one (flame graphs only).
///
/// # Errors
/// The format has no form for two profiles; the writer's.
pub fn write(
    kind: Export,
    _profile: &Profile,
    _before: Option<&Profile>,
    _out: &mut dyn Write,
) -> Result<()> {
    bail!("{kind:?} is not there yet")
}
