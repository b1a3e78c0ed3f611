// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of a workload's operations.

use super::{name, MOST};
use crate::terminal::screen::Screen;
use crate::terminal::Table;
use anyhow::Result;
use plumb_model::{Category, OperationRow, RunResult, CATEGORIES};
use plumb_trace::load::OperationKind;
use plumb_trace::units;
use std::io::Write;

/// Operations are short: milliseconds to the microsecond.
fn ms(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

/// Adds up rows; the kind is the caller's.
fn sum<'a>(kind: &str, rows: impl Iterator<Item = &'a OperationRow>) -> OperationRow {
    let mut out = OperationRow { kind: kind.into(), ..OperationRow::default() };
    for r in rows {
        out.count += r.count;
        out.errors += r.errors;
        out.bytes += r.bytes;
        out.total += r.total;
        out.max = out.max.max(r.max);
        out.late += r.late;
        out.unfinished += r.unfinished;
        out.overlapping |= r.overlapping;
        out.accounted += r.accounted;
        for (name, ns) in &r.account {
            *out.account.entry(*name).or_default() += ns;
        }
    }
    out
}

/// What the workload's operations took and where that time went; nothing where
/// there are none.
///
/// # Errors
/// The writer's.
pub fn operations(result: &RunResult, out: &mut Screen<'_>) -> Result<()> {
    let mut rows: Vec<(String, String, &OperationRow)> = result
        .processes
        .iter()
        .flat_map(|p| p.operations.iter().map(move |o| (p.pid.to_string(), name(p), o)))
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    let all = || result.processes.iter().flat_map(|p| &p.operations);
    let whole = sum("", all());
    let processes = result.processes.iter().filter(|p| !p.operations.is_empty()).count();
    // Half a percent of the time shows; what is smaller is added up.
    let columns: Vec<Category> = CATEGORIES
        .iter()
        .map(|(category, ..)| *category)
        .filter(|c| {
            *c == Category::Unexplained || whole.account.get(c).is_some_and(|ns| ns * 200 > whole.accounted)
        })
        .collect();
    writeln!(out)?;
    out.heading("Operations of the workload [ms; the parts add up to the time]")?;
    let mut head = vec!["pid", "<process", "<kind", "count", "errors", "MiB", "mean", "max"];
    let late = whole.late > 0;
    if late {
        head.push("late");
    }
    head.push("time");
    head.extend(columns.iter().map(|c| c.name()));
    head.push("smaller");
    let mut table = Table::new(&head);
    let cells = |pid: String, process: String, o: &OperationRow| {
        let mean = |ns: u64| ms(ns / o.count.max(1));
        let mut cells = vec![
            pid,
            process,
            format!("{}{}", o.kind, if o.overlapping { " *" } else { "" }),
            units::count(o.count),
            units::count(o.errors),
            format!("{:.1}", o.bytes as f64 / 1_048_576.0),
            mean(o.total),
            ms(o.max),
        ];
        if late {
            cells.push(mean(o.late));
        }
        cells.push(ms(o.total));
        let part = |c: &Category| o.account.get(c).copied().unwrap_or(0);
        cells.extend(columns.iter().map(|c| ms(part(c))));
        cells.push(ms(o.accounted - columns.iter().map(part).sum::<u64>()));
        cells
    };
    if rows.len() > MOST {
        rows.sort_by_key(|(_, _, o)| std::cmp::Reverse(o.total));
        let rest = rows.split_off(MOST);
        for (pid, process, o) in rows {
            table.row(cells(pid, process, o));
        }
        let sum = sum("", rest.iter().map(|(_, _, o)| *o));
        table.row(cells(String::new(), format!("{} others", rest.len()), &sum));
    } else {
        for (pid, process, o) in rows {
            table.row(cells(pid, process, o));
        }
    }
    if processes > 1 {
        table.row(Vec::new());
        for kind in OperationKind::all().map(OperationKind::word) {
            let of_kind = sum(kind, all().filter(|o| o.kind == kind));
            if of_kind.count + of_kind.unfinished > 0 {
                table.row(cells(String::new(), "all".into(), &of_kind));
            }
        }
    }
    out.table(&table)?;
    if late {
        writeln!(out, "  late: mean delay of an operation behind its intended start, ms")?;
    }
    if whole.overlapping {
        writeln!(
            out,
            "  * concurrent operations: time is charged to the oldest open one, {} ms in total",
            ms(all().filter(|o| o.overlapping).map(|o| o.accounted).sum())
        )?;
    }
    if whole.unfinished > 0 {
        writeln!(
            out,
            "  {} operations did not complete and are not counted",
            units::count(whole.unfinished)
        )?;
    }
    Ok(())
}
