// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb compare`: two runs, one signed difference.

use crate::cli::{CompareArgs, Show};
use crate::explain::{explain, select, Explained};
use crate::output::Table;
use crate::tables::sum;
use anyhow::Result;
use plumb_model::{ProcessRow, CATEGORIES};
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

#[derive(Serialize)]
struct Line {
    what: String,
    unit: &'static str,
    a: f64,
    b: f64,
    difference: f64,
    /// b / a; none where a is zero.
    ratio: Option<f64>,
}

fn line(what: &str, unit: &'static str, a: f64, b: f64) -> Line {
    Line { what: what.into(), unit, a, b, difference: b - a, ratio: (a != 0.0).then(|| b / a) }
}

fn load(dir: &Path, show: &Show) -> Result<Explained> {
    let mut explained = explain(dir)?;
    select(&mut explained, show)?;
    Ok(explained)
}

fn lines(a: &ProcessRow, b: &ProcessRow) -> Vec<Line> {
    let s = |ns: u64| ns as f64 / 1e9;
    let mut out = vec![
        line("elapsed, first begin to last end", "s", s(a.elapsed), s(b.elapsed)),
        line("CPU used", "s", s(a.usage.cpu_used), s(b.usage.cpu_used)),
        line("CPU wait", "s", s(a.usage.cpu_wait), s(b.usage.cpu_wait)),
        line("accesses", "", a.usage.accesses as f64, b.usage.accesses as f64),
        line("bytes", "KiB", a.usage.bytes as f64 / 1024.0, b.usage.bytes as f64 / 1024.0),
        line("mean size of an access", "KiB", a.usage.mean_bytes() / 1024.0, b.usage.mean_bytes() / 1024.0),
        line(
            "mean time of an access with the device",
            "ms",
            a.usage.mean_service() / 1e6,
            b.usage.mean_service() / 1e6,
        ),
        line("time of all threads", "s", s(a.thread_time), s(b.thread_time)),
    ];
    for (_, name, _) in CATEGORIES {
        if a.part(name) + b.part(name) > (a.thread_time + b.thread_time) / 5000 {
            out.push(line(&format!("  {name}"), "s", s(a.part(name)), s(b.part(name))));
        }
    }
    out
}

/// Runs the command.
///
/// # Errors
/// One of the two is no run.
pub fn main(args: &CompareArgs) -> Result<ExitCode> {
    let (a, b) = (load(&args.a, &args.show)?, load(&args.b, &args.show)?);
    let lines = lines(&sum(a.result.processes.iter()), &sum(b.result.processes.iter()));
    let mut out = std::io::stdout().lock();
    if args.show.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&lines)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "A {}\nB {}", args.a.display(), args.b.display())?;
    writeln!(out, "One run each, so no error is known: repeat before you believe a small difference.")?;
    let mut table = Table::new(&["<what", "<unit", "A", "B", "B - A", "B / A"]);
    for l in &lines {
        let number = |v: f64| if l.unit.is_empty() { format!("{v:.0}") } else { format!("{v:.3}") };
        let sign = if l.difference > 0.0 { "+" } else { "" };
        table.row(vec![
            l.what.clone(),
            l.unit.into(),
            number(l.a),
            number(l.b),
            format!("{sign}{}", number(l.difference)),
            l.ratio.map_or_else(|| "-".into(), |r| format!("{r:.3}")),
        ]);
    }
    table.write(&mut out)?;
    for (name, e) in [("A", &a), ("B", &b)] {
        writeln!(out, "{name}: {}", e.verdict.last().map_or("", String::as_str))?;
    }
    Ok(ExitCode::SUCCESS)
}
