// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report of a guide, in the order of its method: goal, preconditions, environment, profile, trace, judgement,
//! improvement. The same sections on the terminal and as Markdown.

use super::state::{Measured, Part, Proposal, State};
use super::text;
use anyhow::Result;
use plumb_machine::{json, output};
use plumb_report::terminal::{wrapped, Table};
use plumb_trace::units::brief;
use std::io::Write;
use std::path::Path;

/// Its name in a guide's directory.
pub const FILE: &str = "report.md";

struct Section {
    title: String,
    lines: Vec<String>,
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Section {
    fn of(title: &str, lines: Vec<String>) -> Section {
        Section { title: title.into(), lines, head: Vec::new(), rows: Vec::new() }
    }

    fn table(title: &str, head: &[&'static str], rows: Vec<Vec<String>>) -> Section {
        Section { title: title.into(), lines: Vec::new(), head: head.to_vec(), rows }
    }
}

/// Writes `report.md`.
///
/// # Errors
/// It cannot be written.
pub fn write(state: &State, dir: &Path) -> Result<()> {
    output::replace(&dir.join(FILE), |out| {
        writeln!(out, "# plumb guide: {}\n\n{}", state.goal, text::end(state))?;
        for section in sections(state, dir) {
            writeln!(out, "\n## {}\n", section.title)?;
            for line in &section.lines {
                writeln!(out, "- {line}")?;
            }
            if !section.head.is_empty() {
                let cell = |text: &str| text.replace('|', "\\|");
                let names: Vec<&str> = section.head.iter().map(|h| h.trim_start_matches('<')).collect();
                writeln!(out, "| {} |\n|{}", names.join(" | "), "---|".repeat(names.len()))?;
                for row in &section.rows {
                    writeln!(out, "| {} |", row.iter().map(|c| cell(c)).collect::<Vec<_>>().join(" | "))?;
                }
            }
        }
        Ok(())
    })
}

/// Prints it, or the state as JSON.
///
/// # Errors
/// Standard output is gone.
pub fn print(state: &State, dir: &Path, as_json: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if as_json {
        return Ok(json::write(&mut out, state)?);
    }
    writeln!(out, "{}", wrapped(&text::end(state), 0))?;
    for section in sections(state, dir) {
        writeln!(out, "\n{}", section.title)?;
        for line in &section.lines {
            writeln!(out, "  {}", wrapped(line, 4))?;
        }
        if !section.head.is_empty() {
            let mut table = Table::new(&section.head);
            section.rows.iter().for_each(|row| table.row(row.clone()));
            table.write(&mut out)?;
        }
    }
    Ok(())
}

fn sections(state: &State, dir: &Path) -> Vec<Section> {
    let first = state.first().and_then(|s| s.measured.as_ref());
    let last = state.current().and_then(|s| s.measured.as_ref());
    let mut all = vec![goal(state, first), preconditions(state), environment(state)];
    if let (Some(first), Some(last)) = (first, last) {
        let after = (first.run != last.run).then_some(last);
        all.push(parts("4 Profile: function (what it spent the time on)", |m| &m.profile, first, after));
        all.push(parts("5 Trace: account of the threads' time", |m| &m.account, first, after));
        all.push(judgement(first, after, dir));
    }
    all.push(changes(state));
    all.extend(Some(untried(state, dir)).filter(|s| !s.lines.is_empty()));
    all.push(end(state, dir));
    all
}

fn goal(state: &State, first: Option<&Measured>) -> Section {
    let mut line = state.goal.to_string();
    if let Some(first) = first {
        line += &format!(": a median below {}", brief(state.goal.limit(first.median) as u64));
    }
    Section::of("1 Goal", vec![line])
}

fn preconditions(state: &State) -> Section {
    let mut lines = vec![format!("command: {}", text::quoted(&state.command))];
    lines.extend(state.prepare.iter().map(|p| format!("before each repetition: {p}")));
    if let Some(seen) = &state.observed {
        let groups: Vec<String> =
            seen.cgroups.iter().map(|(c, dir)| format!("{c} {}", dir.display())).collect();
        lines.push(format!("runs on CPUs {}, nice {}, cgroups: {}", seen.cpus, seen.nice, groups.join(", ")));
    }
    lines.extend(state.preconditions.lines().iter().map(|(name, value)| format!("{name}: {value}")));
    Section::of("2 Preconditions", lines)
}

fn environment(state: &State) -> Section {
    let mut lines = Vec::new();
    if let Some(seen) = &state.observed {
        lines.push(format!(
            "the command works: exit code 0 after {} without a recording",
            brief(seen.elapsed)
        ));
    }
    lines.push(match state.checks.len() {
        0 => "recording has all that it needs".into(),
        _ => "recording works, and has less than it could have:".into(),
    });
    lines.extend(state.checks.iter().cloned());
    Section::of("3 Environment", lines)
}

fn parts(
    title: &str,
    of: fn(&Measured) -> &Vec<Part>,
    first: &Measured,
    after: Option<&Measured>,
) -> Section {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let Some(after) = after else {
        let rows = of(first).iter().map(|p| vec![p.name.clone(), percent(p.share)]).collect();
        return Section::table(title, &["<", "first"], rows);
    };
    let mut names: Vec<&String> = of(first).iter().chain(of(after)).map(|p| &p.name).collect();
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|n| seen.insert(*n));
    let share = |m: &Measured, name: &str| {
        of(m).iter().find(|p| p.name == name).map_or_else(|| "-".into(), |p| percent(p.share))
    };
    let rows = names.iter().map(|n| vec![n.to_string(), share(first, n), share(after, n)]).collect();
    Section::table(title, &["<", "first", "accepted"], rows)
}

fn judgement(first: &Measured, after: Option<&Measured>, dir: &Path) -> Section {
    let mut lines = Vec::new();
    for (name, measured) in [("first", Some(first)), ("accepted", after)] {
        let Some(measured) = measured else { continue };
        lines.push(format!("{name}: {}", text::judgement(measured)));
        for found in &measured.findings {
            lines.push(format!("{name}: {:.0} % {}: {}", found.share * 100.0, found.id, found.headline));
        }
        lines.push(format!("{name}: plumb explain {}", dir.join(&measured.run).display()));
        lines.extend(measured.doubts.iter().map(|d| format!("doubt: {d}")));
    }
    Section::of("6 Judgement", lines)
}

fn changes(state: &State) -> Section {
    let mut rows = Vec::new();
    for step in &state.steps {
        let change = step.change.as_ref();
        rows.push(vec![
            step.number.to_string(),
            change.map_or_else(|| "none".into(), text::change),
            change.map_or_else(String::new, |c| c.finding.id.clone()),
            step.measured.as_ref().map_or_else(|| "-".into(), text::time),
            step.confirmed.or(step.effect).map_or_else(|| "-".into(), |e| text::effect(&e)),
            text::verdict(&step.verdict),
        ]);
    }
    let head = ["step", "<change", "<for", "elapsed, median (95 %)", "effect (95 %)", "<verdict"];
    Section::table("7 Changes, and measured again", &head, rows)
}

fn untried(state: &State, dir: &Path) -> Section {
    let line = |p: &Proposal| {
        let allowed = if p.allowed {
            "allowed, but no step was left".into()
        } else {
            format!("allow it with {}", p.may)
        };
        format!("{}, for {}: {}; costs: {}; {allowed}", text::change(p), p.finding.id, p.because, p.costs)
    };
    let mut lines: Vec<String> = state.untried.iter().map(line).collect();
    if state.untried.iter().any(|p| !p.allowed) {
        let mut may: Vec<&str> =
            state.untried.iter().filter(|p| !p.allowed).map(|p| p.may.as_str()).collect();
        may.dedup();
        let given = text::options(state);
        lines.push(format!(
            "plumb guide -o {}-2 --goal '{}' {} {} -- {}",
            dir.display(),
            state.goal,
            given,
            may.join(" "),
            text::quoted(&state.command)
        ));
    }
    Section::of("Proposed, not tried", lines)
}

fn end(state: &State, dir: &Path) -> Section {
    let mut lines = Vec::new();
    let accepted: Vec<&Proposal> = state.accepted().collect();
    if accepted.is_empty() {
        lines.push("No change was accepted: the system is as it was found.".into());
    } else if state.keep {
        lines.push(format!(
            "The accepted changes are kept until the next boot; to put them back: plumb guide undo {}",
            dir.display()
        ));
    } else {
        lines.push("The accepted changes were put back (--keep keeps them). To make them last:".into());
    }
    lines.extend(accepted.iter().map(|p| p.action.permanent()));
    lines.extend(state.put_back.iter().map(|what| format!("put back: {what}")));
    if let Some(found) = state.current().and_then(|s| s.measured.as_ref()).and_then(|m| m.findings.first()) {
        lines.push(format!("what limits it now: {}; {}", found.headline, found.next));
    }
    Section::of("End", lines)
}
