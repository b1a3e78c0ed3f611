// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The comparison on the terminal.

use super::lines::{Line, Mark};
use super::measure::{Group, Unit, REQUEST, THREADS_TIME};
use super::side::{Kind, Side};
use super::words::{is_short, number, signed_time};
use crate::comparison::Comparison;
use anyhow::Result;
use plumb_report::terminal::Table;
use plumb_stats::repetitions;
use std::io::Write;

/// Characters of an environment's value that are shown; all of it is in the JSON.
const MOST: usize = 60;
/// Differences of the environment that are shown; all of them are in the JSON.
const MOST_DIFFERENCES: usize = 20;

/// Prints all of it.
///
/// # Errors
/// The writer's.
pub fn print(c: &Comparison, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}", c.headline)?;
    for sentence in &c.sentences {
        writeln!(out, "{sentence}")?;
    }
    writeln!(out)?;
    for (name, side) in [("A", &c.a), ("B", &c.b)] {
        writeln!(out, "{name} {}{}", side.path.display(), runs(side))?;
    }
    environment(c, out)?;
    for doubt in &c.doubts {
        writeln!(out, "Doubt: {doubt}")?;
    }
    let errors = c.lines.iter().any(Line::error_known);
    for (group, title) in [
        (Group::Elapsed, "Elapsed"),
        (
            Group::Account,
            "Account of the threads' time [shares of the total in %, their difference in points]",
        ),
        (Group::Path, "Critical path [shares of it in %, their difference in points]"),
        (Group::Metric, "Target and machine"),
        (Group::Device, "Devices [means over the requests; I2D: insert to issue, D2C: issue to complete]"),
        (Group::Span, "Spans [requests, statements, functions; by name and key]"),
        (Group::Finding, "Findings [share of the time]"),
    ] {
        let lines: Vec<&Line> = c.lines.iter().filter(|l| l.group == group && l.shown).collect();
        if !lines.is_empty() {
            let of_requests = lines[0].key.starts_with(REQUEST);
            let title = if of_requests {
                "Mean request [shares of it in %, their difference in points]"
            } else {
                title
            };
            writeln!(out, "\n{title}")?;
            table(&lines, errors).write(out)?;
        }
        if group == Group::Account && errors && !lines.is_empty() {
            let parts = || c.lines.iter().filter(|l| l.group == group && l.key != THREADS_TIME);
            let whole = parts().map(|l| l.mean_a.max(l.mean_b)).sum();
            let sum = signed_time(parts().map(|l| l.mean_difference).sum(), is_short(whole));
            writeln!(out, "  Medians need not add up; the means' differences do: {sum} in all.")?;
        }
    }
    writeln!(out)?;
    if errors {
        writeln!(
            out,
            "A and B: medians. low, high: 95 % bootstrap interval of B - A, {} resamples. **: found, as one of {} lines tested\n\
             together (at most {:.0} % of such marks are false); *: the interval excludes 0, which happens by chance to one line in 20.",
            repetitions::RESAMPLES,
            c.tested,
            repetitions::LEVEL * 100.0
        )?;
    } else {
        writeln!(
            out,
            "No error is known: repeat before you believe a small difference (plumb run --repeat 10)."
        )?;
    }
    for gate in &c.gates {
        writeln!(out, "{}", gate.words)?;
    }
    Ok(())
}

fn runs(side: &Side) -> String {
    let left_out: Vec<String> = side
        .left_out
        .iter()
        .map(|l| format!("{} left out: {}", l.dir.file_name().unwrap_or_default().to_string_lossy(), l.why))
        .collect();
    match (side.kind, left_out.is_empty()) {
        (Kind::Run, _) => String::new(),
        (Kind::Set, true) => format!(" ({} runs)", side.members.len()),
        (Kind::Set, false) => format!(" ({} runs; {})", side.members.len(), left_out.join("; ")),
    }
}

fn environment(c: &Comparison, out: &mut dyn Write) -> Result<()> {
    if c.environment.is_empty() {
        writeln!(
            out,
            "Made in the same way: target, kernel, CPUs, memory, disks, mounts, events recorded, version of plumb."
        )?;
        return Ok(());
    }
    for d in c.environment.iter().filter(|d| d.another_target) {
        writeln!(out, "NOT THE SAME TARGET:\n  A: {}\n  B: {}", d.a, d.b)?;
    }
    let others: Vec<_> = c.environment.iter().filter(|d| !d.another_target).collect();
    if !others.is_empty() {
        writeln!(out, "Not made in the same way:")?;
        let mut table = Table::new(&["<what", "<A", "<B"]);
        for d in others.iter().take(MOST_DIFFERENCES) {
            table.row(vec![d.what.clone(), short(&d.a), short(&d.b)]);
        }
        table.write(out)?;
        if others.len() > MOST_DIFFERENCES {
            writeln!(out, "  and {} more (--json)", others.len() - MOST_DIFFERENCES)?;
        }
    }
    Ok(())
}

/// Its beginning; `-` for nothing.
fn short(text: &str) -> String {
    if text.is_empty() {
        return "-".into();
    }
    if text.chars().count() <= MOST {
        return text.into();
    }
    text.chars().take(MOST - 1).chain(['~']).collect()
}

fn signed(value: f64, unit: Unit) -> String {
    // Not by number() alone: -0.0001 has no sign worth showing.
    let text = number(value.abs(), unit);
    let zero = text.chars().all(|c| matches!(c, '0' | '.'));
    let sign = match value {
        _ if zero => "",
        v if v > 0.0 => "+",
        _ => "-",
    };
    format!("{sign}{text}")
}

/// Seconds become milliseconds in a table whose times are all below one second.
fn scale(unit: Unit, milliseconds: bool) -> (Unit, f64) {
    match unit {
        Unit::Seconds if milliseconds => (Unit::Milliseconds, 1e3),
        _ => (unit, 1.0),
    }
}

fn name(unit: Unit) -> &'static str {
    match unit {
        Unit::Seconds => "s",
        Unit::Milliseconds => "ms",
        Unit::Count | Unit::Mean => "",
        Unit::Kib => "KiB",
        Unit::Rate => "1/s",
        Unit::Percent => "%",
    }
}

fn table(lines: &[&Line], errors: bool) -> Table {
    let shares = lines.iter().any(|l| l.share_a.is_some());
    let findings = lines.iter().all(|l| l.group == Group::Finding);
    let mut head = vec!["<what", "<unit", "A", "B", "B - A"];
    if errors {
        head.extend(["low", "high"]);
    }
    head.push("B / A");
    if shares {
        head.extend(["share A", "share B", "points"]);
    }
    if errors || findings {
        head.push("<");
    }
    let mut table = Table::new(&head);
    let times = lines.iter().filter(|l| l.unit == Unit::Seconds);
    let milliseconds = times.map(|l| l.a.max(l.b)).fold(0.0, f64::max) < 1.0;
    for l in lines {
        if l.key == THREADS_TIME && lines.len() > 1 {
            table.row(Vec::new());
        }
        let (unit, by) = scale(l.unit, milliseconds);
        let mut row = vec![l.name.clone(), name(unit).into(), number(l.a * by, unit), number(l.b * by, unit)];
        row.push(signed(l.difference * by, unit));
        let optional = |v: Option<f64>, f: &dyn Fn(f64) -> String| v.map_or_else(|| "-".into(), f);
        if errors {
            row.extend([l.low, l.high].map(|v| optional(v, &|v| signed(v * by, unit))));
        }
        row.push(optional(l.ratio, &|r| format!("{r:.3}")));
        if shares {
            row.extend([l.share_a, l.share_b].map(|v| optional(v, &|v| format!("{v:.1}"))));
            row.push(optional(l.share_difference, &|v| signed(v, Unit::Percent)));
        }
        if errors || findings {
            let mark = match l.mark {
                Mark::None => "",
                Mark::Interval => "*",
                Mark::Found => "**",
            };
            let came = match (findings, l.a == 0.0, l.b == 0.0) {
                (true, true, false) => " appeared",
                (true, false, true) => " gone",
                _ => "",
            };
            row.push(format!("{mark}{came}").trim().into());
        }
        table.row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::lines::from_measures;
    use super::super::measure::Measure;
    use super::super::side::{LeftOut, Member};
    use super::*;
    use crate::environment::Differs;

    fn side(path: &str, kind: Kind, left_out: Vec<LeftOut>) -> Side {
        Side { path: path.into(), kind, members: Vec::<Member>::new(), left_out }
    }

    fn finding(id: &str, share: f64) -> Measure {
        let (key, name) = (format!("finding.{id}"), id.to_string());
        let (group, unit) = (Group::Finding, Unit::Percent);
        Measure { group, key, name, unit, value: Some(share), absent_is_zero: true }
    }

    #[test]
    fn what_was_not_the_same_stands_before_the_figures_and_findings_come_and_go() {
        let a = [vec![finding("lock", 25.0), finding("quota", 10.0)]];
        let b = [vec![finding("quota", 12.5), finding("flush", 5.0)]];
        let left_out = vec![LeftOut { dir: "b/3".into(), why: "interrupted".into() }];
        let differs = |what: &str, a: &str, another_target| Differs {
            what: what.into(),
            a: a.into(),
            b: String::new(),
            another_target,
        };
        let comparison = Comparison {
            headline: "B is slower.".into(),
            sentences: Vec::new(),
            a: side("a", Kind::Run, Vec::new()),
            b: side("b", Kind::Set, left_out),
            environment: vec![differs("target", "dd", true), differs("kernel", "6.1", false)],
            doubts: vec!["B, run 2: it rained".into()],
            tested: 0,
            lines: from_measures(&a, &b),
            gates: Vec::new(),
        };
        let mut out = Vec::new();
        print(&comparison, &mut out).expect("text");
        let text = String::from_utf8(out).expect("UTF-8");
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        let want = [
            "B is slower.",
            "",
            "A a",
            "B b (0 runs; 3 left out: interrupted)",
            "NOT THE SAME TARGET:",
            "  A: dd",
            "  B:",
            "Not made in the same way:",
            "  what   A   B",
            "  kernel 6.1 -",
            "Doubt: B, run 2: it rained",
            "",
            "Findings [share of the time]",
            "  what  unit    A    B B - A B / A",
            "  lock  %    25.0  0.0 -25.0 0.000 gone",
            "  flush %     0.0  5.0  +5.0     - appeared",
            "  quota %    10.0 12.5  +2.5 1.250",
        ];
        assert_eq!(lines[..want.len()], want);
    }
}
