// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A function's instructions with the time at each.

use crate::cli::ProfileArgs;
use anyhow::{bail, Result};
use plumb_model::profile::Profile;
use std::io::Write;

/// Prints the instructions of the function `args.annotate`; as JSON with `args.json`.
///
/// # Errors
/// No function has that name; the writer's.
pub fn main(_profile: &Profile, _args: &ProfileArgs, _out: &mut dyn Write) -> Result<()> {
    bail!("--annotate is not there yet")
}
