// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb bisect`: the words of [`plumb_plan::bisect`].

use crate::cli::BisectArgs;
use crate::run;
use anyhow::Result;
use plumb_plan::bisect::{options::Options, search};
use std::process::ExitCode;
use std::time::Duration;

/// Runs the command.
///
/// # Errors
/// As [`search::main`].
pub fn main(args: &BisectArgs) -> Result<ExitCode> {
    search::main(&Options {
        good: args.good.clone(),
        bad: args.bad.clone(),
        repository: args.repo.clone(),
        among: args.among.clone(),
        build: args.build.clone(),
        figure: args.figure.clone(),
        error: args.error,
        least: args.least,
        most: args.most,
        warm_up: args.warm_up,
        limit: args.limit.map(Duration::from_nanos),
        output: args.output.clone(),
        stamp: run::stamp(),
        quiet: args.quiet,
        json: args.json,
        command: args.command.clone(),
    })
}
