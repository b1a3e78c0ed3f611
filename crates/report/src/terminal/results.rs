// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results as tables on the terminal.

mod findings;
mod operations;

pub use findings::{findings, services, verdict};
pub use operations::operations;

use crate::terminal::screen::Screen;
use crate::terminal::{middle_out, seconds, Table};
use anyhow::Result;
use plumb_model::{sum, Category, ProcessRow, RunResult, Use, CATEGORIES};
use plumb_trace::units;
use std::io::Write;

/// Rows that a table shows; the rest is added up in one.
const MOST: usize = 40;

/// The rows to show, longest-lived first when there are too many, in the order of their begin.
fn shown(result: &RunResult) -> (Vec<&ProcessRow>, Option<ProcessRow>) {
    let mut rows: Vec<&ProcessRow> = result.processes.iter().collect();
    if rows.len() <= MOST {
        return (rows, None);
    }
    rows.sort_by_key(|p| std::cmp::Reverse(p.thread_time));
    let mut rest = sum(rows.split_off(MOST).into_iter());
    rest.comm = format!("{} others", result.processes.len() - MOST);
    rows.sort_by_key(|p| (p.begin, p.pid));
    (rows, Some(rest))
}

/// Command line, its middle left out where it is long: the end tells processes apart.
fn name(p: &ProcessRow) -> String {
    const MOST: usize = 28;
    middle_out(if p.cmdline.is_empty() { &p.comm } else { &p.cmdline }, MOST)
}

/// The rows of all processes that are shown, and their sum.
fn fill(
    table: &mut Table,
    result: &RunResult,
    all: &str,
    row: &dyn Fn(&ProcessRow, String, String) -> Vec<String>,
) {
    let (rows, rest) = shown(result);
    for p in &rows {
        table.row(row(p, p.pid.to_string(), name(p)));
    }
    if let Some(rest) = &rest {
        table.row(row(rest, String::new(), rest.comm.clone()));
    }
    if result.processes.len() > 1 {
        table.row(Vec::new());
        table.row(row(&sum(result.processes.iter()), String::new(), all.into()));
    }
}

/// The critical path: what the elapsed time, or that of the requests, went to when waits for the target's
/// own threads are followed. That of threads alone is their account.
///
/// # Errors
/// The writer's.
pub fn path(result: &RunResult, out: &mut Screen<'_>) -> Result<()> {
    let path = &result.path;
    let of = match path.of.as_str() {
        "command" => "the command",
        "requests" => "the requests",
        _ => return Ok(()),
    };
    if path.time == 0 {
        return Ok(());
    }
    writeln!(out)?;
    out.heading(&format!(
        "Critical path of {of} [{}; waits for threads of the target are followed to their cause]",
        units::duration(path.time)
    ))?;
    let mut table = Table::new(&["<category", "<who", "time", "share"]);
    let share = |ns: u64| ns as f64 * 100.0 / path.time as f64;
    let (shown, rest): (Vec<_>, Vec<_>) =
        path.parts.iter().enumerate().partition(|(i, p)| *i < 12 && share(p.time) >= 0.5);
    for (_, p) in shown {
        table.row(vec![
            p.category.to_string(),
            p.who.clone(),
            seconds(p.time),
            format!("{:.1} %", share(p.time)),
        ]);
    }
    let rest: u64 = rest.iter().map(|(_, p)| p.time).sum();
    if rest > 0 {
        table.row(vec!["smaller".into(), String::new(), seconds(rest), format!("{:.1} %", share(rest))]);
    }
    out.table(&table)?;
    Ok(())
}

/// Locks for which the target slept, and the last times that the first of them changed hands.
///
/// # Errors
/// The writer's.
pub fn locks(result: &RunResult, out: &mut Screen<'_>) -> Result<()> {
    let all: u64 = result.processes.iter().map(|p| p.thread_time).sum();
    let worth: Vec<_> = result.locks.iter().filter(|l| l.time * 200 > all).take(5).collect();
    if worth.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    out.heading("Locks [s; blocking waits]")?;
    let mut table = Table::new(&["<lock", "<kind", "<in", "waits", "time", "longest", "waiters", "<held by"])
        .least(&["kind", "waiters"]);
    for l in &worth {
        table.row(vec![
            l.lock.clone(),
            l.kind.clone(),
            l.site.clone(),
            units::count(l.waits),
            seconds(l.time),
            seconds(l.longest),
            l.most_waiting.to_string(),
            l.holders.iter().find(|h| !h.who.is_empty()).map(|h| h.who.clone()).unwrap_or_default(),
        ]);
    }
    out.table(&table)?;
    writeln!(out, "  Last handoffs of {}:", worth[0].lock)?;
    let mut table =
        Table::new(&["<at", "<released by", "<in", "<acquired by", "<for", "waited", "<still waiting"])
            .least(&["for", "in"]);
    for h in worth[0].chain.iter().rev().take(8).rev() {
        table.row(vec![
            units::duration(h.at),
            format!("{} ({})", h.holder_comm, h.holder),
            h.function.clone(),
            format!("{} ({})", h.next_comm, h.next),
            if h.read { "read".into() } else { String::new() },
            units::duration(h.waited),
            h.behind.to_string(),
        ]);
    }
    out.table(&table)?;
    Ok(())
}

const USE: &[&str] =
    &["CPU used", "CPU wait", "disk used", "disk wait", "accesses", "KiB", "KiB/access", "ms/access"];

/// In which order they are left out where there is no room.
const USE_LEAST: &[&str] =
    &["KiB/access", "KiB", "ms/access", "accesses", "disk wait", "CPU wait", "disk used"];

fn use_cells(u: &Use) -> Vec<String> {
    let mean = |v: f64| if u.accesses == 0 { "-".into() } else { format!("{v:.3}") };
    vec![
        seconds(u.cpu_used),
        seconds(u.cpu_wait),
        seconds(u.disk_used),
        seconds(u.disk_wait),
        units::count(u.accesses),
        units::count(u.bytes / 1024),
        mean(u.mean_bytes() / 1024.0),
        mean(u.mean_service() / 1e6),
    ]
}

/// Horikawa's table: elapsed, CPU, disk and accesses of each process.
///
/// # Errors
/// The writer's.
pub fn processes(result: &RunResult, out: &mut Screen<'_>) -> Result<()> {
    out.heading("Processes [s; accesses: requests with data; ms/access: mean service time]")?;
    let mut table = Table::new(&[&["pid", "<process", "elapsed"], USE].concat()).least(USE_LEAST);
    let row = |p: &ProcessRow, pid: String, name: String| {
        [vec![pid, name, seconds(p.elapsed)], use_cells(&p.usage)].concat()
    };
    fill(&mut table, result, "all (elapsed: first to last)", &row);
    out.table(&table)?;
    Ok(())
}

/// The same table and the account for each thread, longest-lived first.
///
/// # Errors
/// The writer's.
pub fn threads(result: &RunResult, out: &mut Screen<'_>) -> Result<()> {
    let mut rows: Vec<_> =
        result.processes.iter().flat_map(|p| p.threads.iter().map(move |t| (p, t))).collect();
    rows.sort_by_key(|(p, t)| (std::cmp::Reverse(t.elapsed), p.pid, t.tid));
    let total = rows.len();
    rows.truncate(MOST);
    writeln!(out)?;
    out.heading(&format!("Threads [s], {} of {}", rows.len(), units::count(total as u64)))?;
    let mut table =
        Table::new(&[&["tid", "pid", "<process", "elapsed"], USE, &["<account"]].concat()).least(USE_LEAST);
    for (p, t) in rows {
        let mut parts: Vec<(&Category, &u64)> = t.account.iter().collect();
        parts.sort_by_key(|(_, ns)| std::cmp::Reverse(**ns));
        let share = |ns: u64| ns as f64 * 100.0 / t.elapsed.max(1) as f64;
        let words: Vec<String> =
            parts.iter().take(4).map(|(k, ns)| format!("{k} {:.1} %", share(**ns))).collect();
        let head = vec![t.tid.to_string(), p.pid.to_string(), name(p), seconds(t.elapsed)];
        table.row([head, use_cells(&t.usage), vec![words.join(", ")]].concat());
    }
    out.table(&table)?;
    Ok(())
}

/// The account with these categories as columns, the others added up in the last.
fn account(result: &RunResult, columns: &[Category]) -> Table {
    let all = sum(result.processes.iter());
    let small = |p: &ProcessRow| -> u64 {
        p.account.iter().filter(|(n, _)| !columns.contains(n)).map(|(_, ns)| ns).sum()
    };
    let mut table = {
        let names: Vec<&str> = columns.iter().map(|c| c.name()).collect();
        Table::new(&[&["pid", "<process", "time"], names.as_slice(), &["smaller"]].concat())
    };
    let row = |p: &ProcessRow, pid: String, name: String| {
        let mut cells = vec![pid, name, seconds(p.thread_time)];
        cells.extend(columns.iter().map(|c| seconds(p.part(*c))));
        cells.push(seconds(small(p)));
        cells
    };
    fill(&mut table, result, "all", &row);
    let mut share = vec![String::new(), "share".into(), "100 %".into()];
    let percent = |ns: u64| format!("{:.2} %", ns as f64 * 100.0 / all.thread_time.max(1) as f64);
    share.extend(columns.iter().map(|c| percent(all.part(*c))));
    share.push(percent(small(&all)));
    table.row(share);
    table
}

/// The account: parts that exclude each other and add up to the threads' time.
///
/// # Errors
/// The writer's.
pub fn accounts(result: &RunResult, out: &mut Screen<'_>) -> Result<()> {
    let all = sum(result.processes.iter());
    let least = all.thread_time / 10_000;
    let mut columns: Vec<Category> = CATEGORIES
        .iter()
        .map(|(category, ..)| *category)
        .filter(|c| *c == Category::Unexplained || all.part(*c) > least)
        .collect();
    out.heading("Account of thread time [s; exclusive parts that add up]")?;
    let mut table = account(result, &columns);
    let mut without = Vec::new();
    while !out.fits(&table) {
        let Some(least) = columns.iter().enumerate().min_by_key(|(_, c)| all.part(**c)) else { break };
        without.push(columns.remove(least.0));
        table = account(result, &columns);
    }
    out.table(&table)?;
    if !without.is_empty() {
        without.reverse();
        out.left_out(&format!(
            "`smaller` has {}",
            without.iter().map(Category::to_string).collect::<Vec<_>>().join(", ")
        ))?;
    }
    Ok(())
}

/// Devices that were used.
///
/// # Errors
/// The writer's.
pub fn devices(result: &RunResult, out: &mut Screen<'_>) -> Result<()> {
    let used: Vec<_> = result.devices.iter().filter(|d| d.reads + d.writes + d.flushes > 0).collect();
    if used.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    out.heading("Devices [busy: share of time with a request in flight; means in ms]")?;
    let mut table = Table::new(&[
        "<device",
        "reads",
        "writes",
        "flushes",
        "MiB",
        "KiB/req",
        "merges",
        "busy",
        "in flight",
        "queue",
        "plug",
        "flush",
        "schedule",
        "device",
    ])
    .least(&["queue", "merges", "plug", "KiB/req", "flushes", "flush", "schedule", "MiB"]);
    let elapsed = (result.end - result.begin).max(1) as f64;
    for d in used {
        let n = d.reads + d.writes;
        let bytes = (d.read_bytes + d.write_bytes) as f64;
        table.row(vec![
            d.name.clone(),
            units::count(d.reads),
            units::count(d.writes),
            units::count(d.flushes),
            format!("{:.1}", bytes / 1_048_576.0),
            format!("{:.1}", bytes / 1024.0 / n.max(1) as f64),
            units::count(d.merges),
            format!("{:.1} %", d.busy as f64 * 100.0 / elapsed),
            format!("{:.2}", d.mean_in_flight),
            format!("{:.3}", d.q2g / 1e6),
            format!("{:.3}", d.g2i / 1e6),
            format!("{:.3}", d.flush / 1e6),
            format!("{:.3}", d.i2d / 1e6),
            format!("{:.3}", d.d2c / 1e6),
        ]);
    }
    out.table(&table)?;
    Ok(())
}
