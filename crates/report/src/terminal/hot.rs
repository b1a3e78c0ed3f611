// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions that had most of the time.

use super::screen::Screen;
use super::table::{seconds, Table};
use anyhow::Result;
use plumb_model::profile::short;
use plumb_model::{HotRow, RunResult};
use plumb_trace::units;
use std::io::Write;

/// Rows of the table; `plumb profile` shows the others.
const MOST: usize = 8;
/// Callers that stand behind a function.
const CALLERS: usize = 2;

/// The function, and what called it.
fn place(row: &HotRow, callers: usize) -> String {
    let callers = row.under.iter().take(callers);
    std::iter::once(&row.function).chain(callers).map(|name| short(name)).collect::<Vec<_>>().join(" < ")
}

/// Functions by the time that they ran, or that was waited in them.
///
/// # Errors
/// The writer's.
pub fn hot(result: &RunResult, out: &mut Screen<'_>) -> Result<()> {
    let all: u64 = result.processes.iter().map(|p| p.thread_time).sum();
    let mut rows: Vec<&HotRow> = result.hot.iter().filter(|r| r.time > 0).collect();
    if rows.is_empty() {
        return Ok(());
    }
    rows.sort_by_key(|r| std::cmp::Reverse(r.time));
    writeln!(out)?;
    out.heading("Functions by time [s; share of thread time; samples or waits]")?;
    rows.truncate(MOST);
    let table = |callers: usize| {
        let function = if callers == 0 { "<function" } else { "<function < callers" };
        let mut table = Table::new(&["time", "share", "samples", "<what", "<who", function, "<module"])
            .least(&["samples", "module"]);
        for r in &rows {
            table.row(vec![
                seconds(r.time),
                format!("{:.1} %", r.time as f64 * 100.0 / all.max(1) as f64),
                units::count(r.count),
                r.category.to_string(),
                r.who.clone(),
                place(r, callers),
                r.module.rsplit('/').next().unwrap_or_default().to_string(),
            ]);
        }
        table
    };
    let whole = table(CALLERS);
    if out.fits(&whole) {
        out.table(&whole)?;
    } else {
        out.table_less(&table(0), &["callers"])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_model::profile::Origin;
    use plumb_model::ProcessRow;

    fn row(category: &str, function: &str, time: u64) -> HotRow {
        HotRow {
            category: category.parse().expect("a category"),
            who: if category == "running" { String::new() } else { "sda".into() },
            function: function.into(),
            module: "/usr/bin/app".into(),
            origin: Origin::User,
            under: vec!["parse".into(), "main".into(), "start".into()],
            call: String::new(),
            count: 7,
            time,
            instruction: None,
        }
    }

    #[test]
    fn the_longest_come_first_and_no_more_than_eight() {
        let mut result = RunResult {
            processes: vec![ProcessRow { thread_time: 2_000_000_000, ..ProcessRow::default() }],
            hot: vec![row("block.device", "read", 500_000_000), row("running", "hash", 1_000_000_000)],
            ..RunResult::default()
        };
        let text = |result: &RunResult| {
            let mut out = Vec::new();
            hot(result, &mut Screen::file(&mut out)).expect("memory");
            String::from_utf8(out).expect("text")
        };
        assert_eq!(
            text(&result),
            "
Functions by time [s; share of thread time; samples or waits]
   time  share samples what         who function < callers  module
  1.000 50.0 %       7 running          hash < parse < main app
  0.500 25.0 %       7 block.device sda read < parse < main app
"
        );
        result.hot.extend((0..20).map(|i| row("running", "f", i)));
        assert_eq!(text(&result).lines().count(), 3 + MOST);
        result.hot.clear();
        assert_eq!(text(&result), "");
    }
}
