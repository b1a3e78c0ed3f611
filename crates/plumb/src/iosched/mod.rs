// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb iosched`.
use crate::cli::IoschedCommand;
use anyhow::Result;
use std::process::ExitCode;

pub fn main(_: &IoschedCommand) -> Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
