// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb load tpcc-fill`: the database that `plumb load tpcc` asks.

use super::fill;
use crate::cli::TpccFillArgs;
use anyhow::Result;
use plumb_load::preset::fill::{Filled, Observer};
use plumb_load::preset::tpcc;
use plumb_report::plain::Plain;
use plumb_trace::units;
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Makes the tables.
///
/// # Errors
/// One of them is there, or the database said no.
pub fn fill(args: &TpccFillArgs) -> Result<ExitCode> {
    let warehouses = match args.warehouses {
        1 => "1 warehouse".into(),
        n => format!("{n} warehouses"),
    };
    let say = |filled: &Filled| {
        let (rows, time) = (units::count(filled.rows), units::duration(filled.time_ns));
        writeln!(
            Plain(std::io::stdout().lock()),
            "Filled: {rows} rows of {warehouses} in {} tables, with keys, indexes, procedures and statistics, in {time}.",
            filled.tables
        )?;
        Ok(())
    };
    let make =
        |stop: &AtomicBool, observer: &Observer<'_>| tpcc::fill(&args.to, args.warehouses, stop, observer);
    fill::fill(args.quiet, make, |filled| &filled.notes, say)
}
