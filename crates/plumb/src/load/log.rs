// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb load log`: the operations of a log, one a line.

use crate::cli::LogArgs;
use anyhow::{bail, Result};
use plumb_load::log::{LogReader, Row, DURABLE, PACED, WARM_UP};
use plumb_machine::json::{self, formats, Format, Output};
use plumb_report::csv_field::text;
use plumb_trace::units;
use serde::Serialize;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

/// A row, and its number.
#[derive(Serialize)]
struct Numbered {
    /// From 1.
    row: u64,
    #[serde(flatten)]
    of: Row,
}

impl Output for Numbered {
    const FORMAT: &'static Format = &formats::LOAD_LOG;
}

/// Runs the command.
///
/// # Errors
/// The log cannot be read, or is damaged in the middle.
pub fn main(args: &LogArgs) -> Result<ExitCode> {
    if args.from == 0 {
        bail!("--from 0: rows are counted from 1");
    }
    if let Some(to) = args.to.filter(|to| *to < args.from) {
        bail!("--from {} is behind --to {to}: there are no rows between; exchange them", args.from);
    }
    let mut reader = LogReader::open(&args.log)?;
    let head = reader.head().clone();
    let file = |row: &Row| match head.files.get(row.file as usize) {
        Some(path) => path.display().to_string(),
        None => row.file.to_string(),
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    if args.csv {
        writeln!(
            out,
            "row,worker,kind,durable,warm_up,file,offset,result,intended_ns,begin_ns,end_ns,generation"
        )?;
    } else if args.json {
        json::begin_lines::<Numbered>(&mut out)?;
    } else {
        writeln!(
            out,
            "Times from the first row's; response from the moment that an operation was due (open loop)."
        )?;
        writeln!(
            out,
            "{:>9} {:>6} {:<8} {:>12} {:>12} {:>12} {:>14} {:>10}  flags, file",
            "row", "worker", "kind", "at", "service", "response", "offset", "result"
        )?;
    }
    let mut first = None;
    let mut last = 0;
    for (number, row) in (1..).zip(reader.by_ref()) {
        let row = row?;
        let zero = *first.get_or_insert(row.begin_ns);
        last = number;
        if number < args.from {
            continue;
        }
        if args.to.is_some_and(|to| number > to) {
            break;
        }
        let flag = |flag: u8| row.flags & flag != 0;
        if args.json {
            json::line(&mut out, &Numbered { row: number, of: row })?;
        } else if args.csv {
            write!(out, "{number},{},{},{},{},", row.worker, row.kind.word(), flag(DURABLE), flag(WARM_UP))?;
            write!(out, "{},{},{},", text(&file(&row)), row.offset, row.result)?;
            let intended = if flag(PACED) { row.intended_ns.to_string() } else { String::new() };
            writeln!(out, "{intended},{},{},{}", row.begin_ns, row.end_ns, row.generation)?;
        } else {
            let response = match flag(PACED) {
                true => units::duration(row.end_ns.saturating_sub(row.intended_ns)),
                false => "-".into(),
            };
            // Rows of different workers stand chunk by chunk: one may lie before the first.
            let sign = if row.begin_ns < zero { "-" } else { "" };
            writeln!(
                out,
                "{number:>9} {:>6} {:<8} {:>12} {:>12} {response:>12} {:>14} {:>10}  {}{}{}",
                row.worker,
                row.kind.word(),
                format!("{sign}{}", units::duration(row.begin_ns.abs_diff(zero))),
                units::duration(row.end_ns.saturating_sub(row.begin_ns)),
                row.offset,
                row.result,
                if flag(DURABLE) { "durable " } else { "" },
                if flag(WARM_UP) { "warm-up " } else { "" },
                file(&row)
            )?;
        }
    }
    out.flush()?;
    if let Some(note) = reader.note() {
        eprintln!("plumb: {}: {note}", args.log.display());
    }
    if last < args.from {
        bail!("{}: has {last} rows, so there is none from {} on", args.log.display(), args.from);
    }
    Ok(ExitCode::SUCCESS)
}
