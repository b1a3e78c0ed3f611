// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb compare`: words, page and exit code of what [`plumb_compare`] finds.

use crate::cli::{CompareArgs, Show};
use crate::explain::{explain, select};
use crate::report;
use anyhow::{Context, Result};
use plumb_compare::comparison::{Comparison, Options};
use plumb_compare::show;
use plumb_compare::side::Explained;
use plumb_report::plain::Plain;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Reads both sides and compares them.
///
/// # Errors
/// As [`Comparison::read`].
pub fn read(args: &CompareArgs) -> Result<Comparison> {
    let (a, b) = (args.a.clone(), args.b.clone());
    let options = Options { a, b, comm: args.comm.clone(), fail_above: args.fail_above.clone() };
    Comparison::read(&options, &explained)
}

fn explained(dir: &Path, comm: &[String]) -> Result<Explained> {
    let mut explained = explain(dir)?;
    let show = Show { comm: comm.to_vec(), threads: false, chain: false, wide: false, json: false };
    select(&mut explained, &show).with_context(|| dir.display().to_string())?;
    let all = serde_json::to_value(&explained)?;
    let crate::explain::Explained { environment, quality, result, .. } = explained;
    Ok(Explained { environment, quality, result, all })
}

/// Runs the command.
///
/// # Errors
/// One of the two is no run, no trace and no set; a threshold that cannot be judged.
pub fn main(args: &CompareArgs) -> Result<ExitCode> {
    let comparison = read(args)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&comparison)?)?;
    } else {
        show::print(&comparison, &mut Plain(&mut out))?;
    }
    if let Some(page) = &args.report {
        let mut document = report::comparison(args, &comparison)?;
        report::link_sides(&mut document, &comparison, page);
        report::write_page(page, &document)?;
        eprintln!("report: {}", page.display());
    }
    Ok(comparison.exit_code())
}
