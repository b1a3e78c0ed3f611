// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb compare`: words, page and exit code of what [`plumb_compare`] finds.

use crate::cli::CompareArgs;
use crate::report;
use anyhow::{Context, Result};
use plumb_compare::comparison::{Comparison, Options};
use plumb_compare::fleet::{self, Fleet};
use plumb_compare::gate::Gate;
use plumb_compare::show;
use plumb_machine::json;
use plumb_machine::signals::{self, Calls};
use plumb_report::document_files::write_page;
use plumb_report::plain::Plain;
use std::path::Path;
use std::process::ExitCode;

/// Reads both sides and compares them.
///
/// # Errors
/// As [`Comparison::read`].
pub fn read(args: &CompareArgs) -> Result<Comparison> {
    let (a, b) = (args.a.clone(), args.b.clone());
    let gates = Gate::all(&args.fail_above, &args.fail_below)?;
    let options = Options { a, b, comm: args.comm.clone(), gates };
    Comparison::read(&options)
}

/// Runs the command.
///
/// # Errors
/// One of the two is no run, no trace and no set; a threshold that cannot be judged.
pub fn main(args: &CompareArgs) -> Result<ExitCode> {
    if let Some(lake) = &args.lake {
        return fleet(lake, args);
    }
    let comparison = read(args)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        json::write(&mut out, &comparison)?;
    } else {
        show::print(&comparison, &mut Plain(&mut out))?;
    }
    if let Some(page) = &args.report {
        let mut document = report::comparison(args, &comparison)?;
        report::link_sides(&mut document, &comparison, page);
        write_page(page, &document)?;
        eprintln!("report: {}", page.display());
    }
    Ok(comparison.exit_code())
}

fn fleet(lake: &Path, args: &CompareArgs) -> Result<ExitCode> {
    let condition = |side: &Path| side.to_str().map(str::to_owned).context("a condition is not UTF-8");
    let gates = Gate::all(&args.fail_above, &args.fail_below)?;
    signals::catch(Calls::Interrupt);
    let mut found = Fleet::read(lake, &condition(&args.a)?, &condition(&args.b)?, signals::asked())?;
    found.judge(&gates)?;
    let mut out = std::io::stdout().lock();
    match args.json {
        true => json::write(&mut out, &found)?,
        false => fleet::print(&found, &mut Plain(&mut out))?,
    }
    if let Some(page) = &args.report {
        write_page(page, &report::fleet(&found)?)?;
        eprintln!("report: {}", page.display());
    }
    Ok(found.exit_code())
}
