// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb load dbt3-fill` and `dbt3-check`: the database that `plumb load dbt3` asks.

use super::progress::Progress;
use crate::cli::{Dbt3CheckArgs, Dbt3FillArgs};
use crate::quality::NOT_VALID;
use anyhow::Result;
use plumb_load::preset::dbt3::{self, Checked};
use plumb_load::session::Observer;
use plumb_machine::json;
use plumb_machine::signals::{self, Calls};
use plumb_report::plain::Plain;
use plumb_report::terminal::Table;
use plumb_trace::units;
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Makes the tables.
///
/// # Errors
/// One of them is there, or the database said no.
pub fn fill(args: &Dbt3FillArgs) -> Result<ExitCode> {
    signals::catch(Calls::Interrupt);
    let (progress, stop) = (Progress::new(args.quiet), signals::asked());
    let show = |what: &str, rows: u64, expected: u64| {
        let of = if expected > 0 {
            format!("{} of about {} rows", units::count(rows), units::count(expected))
        } else {
            "...".into()
        };
        progress.show(&format!("{what}: {of}"));
    };
    let filled = dbt3::fill(&args.to, args.scale, stop, &show);
    progress.ends();
    match filled {
        Ok(filled) => {
            filled.notes.iter().for_each(|note| progress.say(&format!("plumb: {note}")));
            let mut out = std::io::stdout().lock();
            if args.json {
                json::write(&mut out, &filled)?;
                return Ok(ExitCode::SUCCESS);
            }
            let (rows, time) = (units::count(filled.rows), units::duration(filled.time_ns));
            writeln!(
                Plain(&mut out),
                "Filled: {rows} rows of scale {} in 8 tables, with keys, indexes and statistics, in {time}.",
                filled.scale
            )?;
            Ok(ExitCode::SUCCESS)
        }
        Err(e) if stop.load(Ordering::Acquire) => {
            eprintln!("plumb: {e}");
            Ok(ExitCode::from(NOT_VALID))
        }
        Err(e) => Err(e.into()),
    }
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
