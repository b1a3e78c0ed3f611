// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb guide undo`: puts back whatever a guide changed, what it was told to keep too.

use super::state::{self, State};
use crate::own_devices::GUIDE;
use crate::restore;
use anyhow::Result;
use std::path::Path;
use std::process::ExitCode;

/// `plumb guide undo DIR`.
///
/// # Errors
/// As [`restore::main`].
pub fn main(dir: &Path, as_json: bool) -> Result<ExitCode> {
    // What is put back is not kept any more.
    let kept = || match state::read(dir)?.filter(|s| s.keep) {
        Some(state) => state::write(dir, &State { keep: false, ..state }),
        None => Ok(()),
    };
    restore::main(dir, GUIDE, as_json, kept)
}
