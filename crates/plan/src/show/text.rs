// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A plan for people: at most 100 columns.

use super::super::file::Order;
use super::effects::Effects;
use super::Shown;
use crate::progress::about;
use plumb_trace::units;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;

const WIDTH: usize = 96;
/// Columns of what stands before the text.
const HEAD: usize = 14;
/// Labels that are told of the cells that are left out for one reason.
const SOME: usize = 6;

pub(super) fn write(shown: &Shown<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}: {}\n", shown.name, shown.title)?;
    line(out, "Purpose", shown.purpose)?;
    line(out, "Hypothesis", shown.hypothesis)?;
    if let Some(source) = shown.source {
        line(out, "Source", source)?;
    }
    writeln!(out)?;
    for (i, factor) in shown.factors.iter().enumerate() {
        let head = if i == 0 { "Factors" } else { "" };
        line(out, head, &format!("{}: {}", factor.name, factor.levels.join(", ")))?;
    }
    cells(shown, out)?;
    if !shown.figures.is_empty() {
        line(out, "Figures", &shown.figures.join(", "))?;
    }
    for (i, title) in shown.charts.iter().enumerate() {
        line(out, if i == 0 { "Charts" } else { "" }, title)?;
    }
    time(shown, out)?;
    if let Some(standing) = &shown.standing {
        writeln!(out, "\nPending changes on this system; {}:", standing.advice())?;
        for changed in &standing.changed {
            line(out, "  changed", changed)?;
        }
    }
    writeln!(out, "\nWhat is done to this system; all but what is lost is put back:")?;
    effects(&shown.effects, out)?;
    if !shown.needs.is_empty() {
        line(out, "Needs", &shown.needs.join(", "))?;
    }
    Ok(())
}

fn cells(shown: &Shown<'_>, out: &mut dyn Write) -> io::Result<()> {
    let skipped: usize = shown.skipped.values().map(Vec::len).sum();
    let (all, live) = (shown.cells.len(), shown.cells.len() - skipped);
    let some = if skipped == 0 { format!("{all}") } else { format!("{live} of {all}") };
    let order = match shown.order {
        Order::Random => format!("in random order (seed {})", shown.seed),
        Order::Blocked => format!("shuffled within {} (seed {})", shown.blocks.join(", "), shown.seed),
        Order::Given => "in the order of the plan".into(),
    };
    let times = if shown.repeat == 1 { "repetition".to_string() } else { "repetitions".into() };
    line(
        out,
        "Cells",
        &format!("{some} x {} {times} = {} measurements, {order}", shown.repeat, shown.time.repetitions),
    )?;
    for (why, labels) in &shown.skipped {
        let more = labels.len().saturating_sub(SOME);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let some = labels[..labels.len().min(SOME)].join("; ");
        line(out, "Left out", &format!("{}: {why} ({some}{more})", labels.len()))?;
    }
    if live == 0 {
        line(out, "", "Nothing of it can be measured here.")?;
    }
    Ok(())
}

fn time(shown: &Shown<'_>, out: &mut dyn Write) -> io::Result<()> {
    if shown.time.repetitions == 0 {
        return Ok(());
    }
    let budget = shown.time.budget_ns.map(|b| format!(", and no longer than {}", about(b)));
    let Some(run) = &shown.run else {
        return line(
            out,
            "Time",
            &format!("about {}{}", about(shown.time.takes_ns), budget.unwrap_or_default()),
        );
    };
    let mut done = format!("{} of {} made", run.made, shown.time.repetitions);
    for (count, what) in [(run.failed, "failed"), (run.timed_out, "took too long")] {
        if count > 0 {
            done += &format!(", {count} {what}");
        }
    }
    line(out, "Run", &format!("{}: {done}", run.dir))?;
    if let Some(why) = &run.ended_early {
        line(out, "", &format!("ended early: {why}"))?;
    }
    match run.left {
        0 => line(out, "Time", "nothing is left to do"),
        _ => line(
            out,
            "Time",
            &format!("about {} left; 'plumb plan run {}' goes on", about(shown.time.left_ns), run.dir),
        ),
    }
}

fn effects(effects: &Effects, out: &mut dyn Write) -> io::Result<()> {
    for served in &effects.served {
        let set =
            if served.set.is_empty() { String::new() } else { format!(" with {}", served.set.join(", ")) };
        let size = units::bytes(served.size);
        line(out, "  serve", &format!("{}: model {}{set}, {size}, in memory", served.name, served.model))?;
    }
    for (node, kinds) in &effects.lost {
        let how = match kinds.is_empty() {
            true => "is written to".to_string(),
            false => format!("is formatted ({})", joined(kinds)),
        };
        let path = node.display();
        line(
            out,
            "  LOST",
            &format!(
                "{path} {how}: what it holds is lost. It is refused while it is in use, and when it holds \
                 anything recognisable unless --destroy {path} is given"
            ),
        )?;
        if let Some(why) = effects.refused.get(node) {
            line(out, "  REFUSED", why)?;
        }
    }
    for mounted in &effects.mounted {
        line(out, "  mount", mounted)?;
    }
    for server in &effects.servers {
        line(out, "  server", &format!("{server}: made, started, stopped and removed"))?;
    }
    for dir in &effects.directories {
        line(out, "  files", &format!("made in {}, and removed", dir.display()))?;
    }
    set(out, "  queue", &effects.queue, |key| key.clone())?;
    set(out, "  sysctl", &effects.sysctl, |key| key.clone())?;
    set(out, "  write", &effects.write, |path| Path::display(path).to_string())?;
    if !effects.programs.is_empty() {
        line(out, "  call", &joined(&effects.programs))?;
    }
    for (host, all) in &effects.hosts {
        all.iter().try_for_each(|what| line(out, "  host", &format!("{host}: {what}")))?;
    }
    if effects.recorded > 0 {
        line(out, "  record", &format!("kernel events of {} cells", effects.recorded))?;
    }
    Ok(())
}

fn set<K: Ord>(
    out: &mut dyn Write,
    head: &str,
    all: &BTreeMap<K, BTreeSet<String>>,
    name: impl Fn(&K) -> String,
) -> io::Result<()> {
    all.iter().try_for_each(|(key, values)| line(out, head, &format!("{} = {}", name(key), joined(values))))
}

fn joined(words: &BTreeSet<String>) -> String {
    words.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// A head, and beside it text in lines that are not too long.
fn line(out: &mut dyn Write, head: &str, text: &str) -> io::Result<()> {
    let mut row = format!("{head:HEAD$}");
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && row.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(out, "{}", row.trim_end())?;
            row = " ".repeat(HEAD);
            empty = true;
        }
        if !empty {
            row.push(' ');
        }
        row.push_str(word);
        empty = false;
    }
    writeln!(out, "{}", row.trim_end())
}
