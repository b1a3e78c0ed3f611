// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb size`: the words of [`plumb_plan::size`].

use crate::cli::SizeArgs;
use anyhow::Result;
use plumb_plan::{options, size};
use std::process::ExitCode;

/// Runs the command.
///
/// # Errors
/// As [`size::main`].
pub fn main(args: &SizeArgs) -> Result<ExitCode> {
    size::main(&options::Size {
        known: args.known.clone(),
        targets: args.target.clone(),
        new: args.new.clone(),
        risk: args.risk,
        json: args.json,
    })
}
