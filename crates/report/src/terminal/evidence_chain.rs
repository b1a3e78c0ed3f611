// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The chain of evidence of one run on one page: from the question to the judgement,
//! each step resting on the one before.
//!
//! After "OSS performance and reliability evaluation: OS layer" (Japan OSS Promotion
//! Forum, 2004), figure 4.2-6: goal, preconditions, environment, profile, trace,
//! overall judgement, improvement; there a loop through five tools and a page each.

use crate::terminal::wrapped;
use anyhow::Result;
use plumb_analysis::Analysis;
use plumb_diagnose::{Finding, Limit};
use plumb_model::profile::short;
use plumb_model::{HotRow, LockRow, PatternRow};
use plumb_trace::units;
use std::io::Write;

/// Parts of the path, functions and changes of hands that a page shows.
const MOST: usize = 5;
/// Below this share a part is not shown.
const LEAST: f64 = 0.02;

/// Writes the page.
///
/// # Errors
/// The writer's.
pub fn write(explained: &Analysis, out: &mut dyn Write) -> Result<()> {
    let Analysis { environment, diagnosis, result, .. } = explained;
    let get = |key: &str| environment.get(key).map_or("", String::as_str);
    let mut page = Page { out, step: 0 };
    page.step("Target", &[get("target").to_string()])?;
    page.step("Environment", &[conditions(explained)])?;

    let mut served = vec![format!(
        "{}{}",
        units::duration(result.path.time),
        match result.path.of.as_str() {
            "command" => " wall time",
            "requests" => " request time",
            _ => " thread time",
        }
    )];
    for p in &result.processes {
        served.extend(p.operations.iter().filter(|o| o.count > 0).map(|o| {
            format!(
                "{} ({}): {} x {}, {} mean",
                p.comm,
                p.pid,
                units::count(o.count),
                o.kind,
                units::duration(o.total / o.count)
            )
        }));
    }
    served.truncate(MOST);
    page.step("Duration", &served)?;

    let whole = result.path.time.max(1) as f64;
    let share = |ns: u64| ns as f64 / whole;
    let parts = result.path.parts.iter().filter(|p| share(p.time) >= LEAST).take(MOST);
    let mut account: Vec<String> = parts
        .map(|p| {
            let who = if p.who.is_empty() { String::new() } else { format!(" ({})", p.who) };
            format!("{:>5.1} %  {}{who}", share(p.time) * 100.0, p.category)
        })
        .collect();
    account.push(format!("Kind of limit: {}", diagnosis.kind.name()));
    page.step("Account of time", &account)?;

    let first = diagnosis.findings.first();
    let hot = hottest(&result.hot, diagnosis.kind);
    page.step("Functions", &functions(&hot, explained))?;
    let instructions: Vec<String> = hot.iter().filter_map(|h| h.instruction.clone()).take(2).collect();
    if !instructions.is_empty() {
        page.step("Instructions", &instructions)?;
    }
    page.step("Events", &events(explained))?;
    page.step("Verdict", &judgement(first, &diagnosis.verdict))?;
    page.step("Confidence", &trust(explained, first))?;
    Ok(())
}

struct Page<'a> {
    out: &'a mut dyn Write,
    step: usize,
}

impl Page<'_> {
    fn step(&mut self, title: &str, lines: &[String]) -> Result<()> {
        self.step += 1;
        writeln!(self.out, "{}. {title}", self.step)?;
        for line in lines.iter().filter(|l| !l.is_empty()) {
            writeln!(self.out, "   {}", wrapped(line, 3))?;
        }
        Ok(())
    }
}

fn conditions(explained: &Analysis) -> String {
    let env = &explained.environment;
    let get = |key: &str| env.get(key).map_or("", String::as_str);
    let disks: Vec<&str> = explained
        .result
        .devices
        .iter()
        .filter(|d| d.reads + d.writes > 0)
        .map(|d| d.name.as_str())
        .take(MOST)
        .collect();
    let disks = if disks.is_empty() { String::new() } else { format!("; disks used: {}", disks.join(", ")) };
    let clock = get("sample_clock");
    let clock = if clock.is_empty() { "none".into() } else { clock.to_string() };
    format!(
        "Linux {}, {} CPUs{disks}; {} events, sampling clock: {clock}",
        get("kernel_release"),
        explained.result.cpus.len(),
        units::count(explained.quality.events)
    )
}

/// Rows of the categories that speak for the kind of limit, most time first.
fn hottest(rows: &[HotRow], kind: Limit) -> Vec<&HotRow> {
    let of = kind.categories();
    let mut rows: Vec<&HotRow> = rows.iter().collect();
    rows.sort_by_key(|h| std::cmp::Reverse(h.time));
    if rows.iter().any(|h| of.contains(&h.category)) {
        rows.retain(|h| of.contains(&h.category));
    }
    let least = rows.first().map_or(0, |h| h.time / 20);
    rows.retain(|h| h.time >= least);
    rows.truncate(MOST);
    rows
}

fn functions(hot: &[&HotRow], explained: &Analysis) -> Vec<String> {
    if hot.is_empty() {
        return vec!["no samples and no stacks recorded (see --sample, --stacks)".into()];
    }
    let all: u64 = explained.result.processes.iter().map(|p| p.thread_time).sum();
    hot.iter()
        .map(|h| {
            let under: Vec<String> = h.under.iter().map(|c| short(c)).take(4).collect();
            let under = if under.is_empty() { String::new() } else { format!(" < {}", under.join(" < ")) };
            let who = if h.who.is_empty() { String::new() } else { format!(" {}", h.who) };
            let call = if h.call.is_empty() { String::new() } else { format!(" in {}", h.call) };
            format!(
                "{:>5.1} %  {}{under}{call}  [{}{who}]",
                h.time as f64 * 100.0 / all.max(1) as f64,
                short(&h.function),
                h.category
            )
        })
        .collect()
}

/// What requests or holders did, as the kind of limit asks.
fn events(explained: &Analysis) -> Vec<String> {
    let result = &explained.result;
    let mut out = Vec::new();
    if explained.diagnosis.kind == Limit::Lock {
        out.extend(result.locks.iter().take(2).flat_map(hands));
    }
    let elapsed = (result.end - result.begin).max(1) as f64;
    for d in result.devices.iter().filter(|d| d.busy as f64 >= elapsed * LEAST).take(4) {
        out.push(format!(
            "{}: {:.0} % busy, {:.1} requests in flight (max {}), {:.3} ms mean service time (D2C), {:.3} ms mean queueing time (Q2D)",
            d.name,
            d.busy as f64 * 100.0 / elapsed,
            d.mean_in_flight,
            d.max_in_flight,
            d.d2c / 1e6,
            (d.q2g + d.g2i + d.i2d) / 1e6
        ));
    }
    out.extend(result.patterns.iter().filter(|p| p.target && p.requests > 0).take(2).map(pattern));
    if out.is_empty() {
        out.push("no disk I/O and no lock contention".into());
    }
    out
}

fn pattern(p: &PatternRow) -> String {
    format!(
        "{} {} {}: {} requests of {} mean, {:.0} % sequential; service time {} median, {} p99",
        p.comm,
        if p.write { "writes to" } else { "reads from" },
        p.device,
        units::count(p.requests),
        units::bytes(p.bytes / p.requests),
        p.sequential as f64 * 100.0 / p.requests as f64,
        units::duration(p.service_median),
        units::duration(p.service_p99)
    )
}

/// A lock, and who had it from whom: tables 4.2-22 and 4.2-23 of the evaluation.
fn hands(lock: &LockRow) -> Vec<String> {
    let site = if lock.site.is_empty() { String::new() } else { format!(" in {}", lock.site) };
    let mut out = vec![format!(
        "{} {}{site}: {} blocking waits, {} max, up to {} waiters",
        lock.kind,
        lock.lock,
        units::count(lock.waits),
        units::duration(lock.longest),
        lock.most_waiting
    )];
    let mut chain: Vec<_> = lock.chain.iter().collect();
    chain.sort_by_key(|h| std::cmp::Reverse(h.waited));
    chain.truncate(3);
    chain.sort_by_key(|h| h.at);
    out.extend(chain.iter().map(|h| {
        let function = if h.function.is_empty() { String::new() } else { format!(" in {}", h.function) };
        format!(
            "at {}: {} ({}) released it{function}; {} ({}) acquired it after {}, {} more waiting",
            units::duration(h.at),
            h.holder_comm,
            h.holder,
            h.next_comm,
            h.next,
            units::duration(h.waited),
            h.behind
        )
    }));
    out
}

fn judgement(first: Option<&Finding>, verdict: &[String]) -> Vec<String> {
    let mut out: Vec<String> = verdict.first().cloned().into_iter().collect();
    out.extend(first.map(|f| format!("Next: {}", f.next)));
    out
}

fn trust(explained: &Analysis, first: Option<&Finding>) -> Vec<String> {
    let mut out: Vec<String> = explained.diagnosis.verdict.last().cloned().into_iter().collect();
    out.extend(first.into_iter().flat_map(|f| f.doubt.iter().cloned()));
    out.dedup();
    out
}
