// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb load dbt3-fill` and `dbt3-check`: the database that `plumb load dbt3` asks.

use super::fill;
use super::progress::Progress;
use crate::cli::{Dbt3CheckArgs, Dbt3FillArgs};
use crate::quality::NOT_VALID;
use anyhow::Result;
use plumb_load::preset::dbt3::{self, Checked, Filled};
use plumb_load::preset::fill::Observer;
use plumb_load::session::Observer as _;
use plumb_machine::json;
use plumb_report::plain::Plain;
use plumb_report::terminal::Table;
use plumb_trace::units;
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Makes the tables.
///
/// # Errors
/// One of them is there, or the database said no.
pub fn fill(args: &Dbt3FillArgs) -> Result<ExitCode> {
    let say = |filled: &Filled| {
        let mut out = std::io::stdout().lock();
        if args.json {
            json::write(&mut out, filled)?;
            return Ok(());
        }
        let (rows, time) = (units::count(filled.rows), units::duration(filled.time_ns));
        writeln!(
            Plain(&mut out),
            "Filled: {rows} rows of scale {} in 8 tables, with keys, indexes and statistics, in {time}.",
            filled.scale
        )?;
        Ok(())
    };
    let make = |stop: &AtomicBool, observer: &Observer<'_>| dbt3::fill(&args.to, args.scale, stop, observer);
    fill::fill(args.quiet, make, |filled| &filled.notes, say)
}

/// Runs the queries once and looks at their answers.
///
/// # Errors
/// The database cannot be asked, lacks the tables, or has those of another scale.
pub fn check(args: &Dbt3CheckArgs) -> Result<ExitCode> {
    let progress = Progress::new(args.quiet);
    let checked = dbt3::check(&args.to, args.scale, &|query| progress.show(&format!("{query} ...")));
    progress.ends();
    let checked = checked?;
    let mut out = std::io::stdout().lock();
    match args.json {
        true => json::write(&mut out, &checked)?,
        false => show(&checked, &mut Plain(&mut out))?,
    }
    Ok(if checked.is_right() { ExitCode::SUCCESS } else { ExitCode::from(NOT_VALID) })
}

fn show(checked: &Checked, out: &mut dyn Write) -> std::io::Result<()> {
    let wrong = checked.queries.iter().filter(|query| query.wrong.is_some()).count();
    let verdict = match (checked.compared, wrong) {
        (false, _) => format!(
            "{} at scale {}: there are no published answers; rows and checksums are the same for the same data",
            checked.database, checked.scale
        ),
        (true, 0) => format!("{} at scale 1: all answers are the published ones", checked.database),
        (true, n) => format!("{} at scale 1: {n} WRONG ANSWERS", checked.database),
    };
    writeln!(out, "{verdict}.")?;
    let mut table = Table::new(&["<query", "rows", "<checksum", "time", "<answer"]);
    for query in &checked.queries {
        let answer = match (&query.wrong, checked.compared) {
            (Some(wrong), _) => format!("WRONG: {wrong}"),
            (None, true) => "right".into(),
            (None, false) => "-".into(),
        };
        let time = units::duration(query.time_ns);
        table.row(vec![query.query.clone(), units::count(query.rows), query.checksum.clone(), time, answer]);
    }
    table.write(out)
}
