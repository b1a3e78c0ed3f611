// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The comparison of a fleet in words and tables.

use super::{Fleet, FleetLine, FleetUnit, HostApart};
use anyhow::Result;
use plumb_report::terminal::Table;
use std::collections::BTreeSet;
use std::io::Write;

/// Names that stand in a sentence.
const NAMES: usize = 5;
/// Figures without a difference that are shown; all of them are in the JSON.
const OTHERS: usize = 12;
/// Hosts that are shown; all of them are in the JSON.
const HOSTS: usize = 40;
/// Things in common that are shown.
const COMMON: usize = 8;

/// `a, b, c and 4 others`.
pub fn list(names: &BTreeSet<&str>) -> String {
    let shown: Vec<&str> = names.iter().copied().take(NAMES).collect();
    match names.len() - shown.len() {
        0 => match shown.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
            _ => shown.concat(),
        },
        more => format!("{} and {more} others", shown.join(", ")),
    }
}

/// `+5.0 %` or `+1.2 points`.
pub(super) fn change(value: f64, relative: bool) -> String {
    match relative {
        true => format!("{:+.1} %", value * 100.0),
        false => format!("{value:+.1} points"),
    }
}

/// `rose by 5.0 %`; of several changes by how much in the middle, where all go one way.
fn moved(values: &[f64], relative: bool) -> String {
    let range = |of: fn(f64, f64) -> f64, from| values.iter().copied().fold(from, of);
    let (least, most) = (range(f64::min, f64::INFINITY), range(f64::max, f64::NEG_INFINITY));
    if least < 0.0 && most > 0.0 {
        return format!("changed by {} to {}", change(least, relative), change(most, relative));
    }
    let middle = plumb_stats::repetitions::median(values);
    let way = if middle < 0.0 { "fell" } else { "rose" };
    format!("{way} by {}", change(middle, relative).trim_start_matches(['+', '-']))
}

fn interval(line: &FleetLine) -> String {
    match line.low.zip(line.high) {
        Some((low, high)) if line.relative => {
            format!("95 % interval {:+.1} to {:+.1} %", low * 100.0, high * 100.0)
        }
        Some((low, high)) => format!("95 % interval {low:+.1} to {high:+.1} points"),
        None => "no interval: too few values".into(),
    }
}

/// The first sentence.
pub fn headline(lines: &[FleetLine], apart: &[HostApart], hosts: u64) -> String {
    let found = lines.iter().filter(|l| l.found).count();
    if let Some(first) = apart.first() {
        let those: BTreeSet<&str> =
            apart.iter().filter(|a| a.key == first.key).map(|a| a.host.as_str()).collect();
        let relative = lines.iter().find(|l| l.key == first.key).is_none_or(|l| l.relative);
        let others = match lines.iter().find(|l| l.key == first.key) {
            Some(line) if line.found => {
                format!("on the others it {} ({})", moved(&[line.change], line.relative), interval(line))
            }
            _ => "no change was found on the others".into(),
        };
        let changes: Vec<f64> = apart.iter().filter(|a| a.key == first.key).map(|a| a.change).collect();
        let also = BTreeSet::from_iter(apart.iter().map(|a| a.host.as_str())).len() - those.len();
        let also = if also > 0 {
            format!("; {also} more hosts stand apart in other figures")
        } else {
            String::new()
        };
        return format!(
            "{} of {hosts} hosts stand apart: {} {} on {}; {others}{also}.",
            those.len(),
            first.key,
            moved(&changes, relative),
            list(&those)
        );
    }
    let Some(first) = lines.iter().find(|l| l.found) else {
        if lines.iter().all(|l| l.p.is_none()) {
            return "No difference can be shown: that takes several hosts, or several runs on each side of one.".into();
        }
        return format!("No difference found on {hosts} hosts, among {} figures.", lines.len());
    };
    let more = match found - 1 {
        0 => String::new(),
        1 => "; one other figure changed too".into(),
        n => format!("; {n} other figures changed too"),
    };
    format!(
        "{} {} on {} hosts ({}); no host stands apart{more}.",
        first.key,
        moved(&[first.change], first.relative),
        first.hosts,
        interval(first)
    )
}

fn number(value: f64, unit: FleetUnit) -> String {
    match unit {
        FleetUnit::Seconds | FleetUnit::Milliseconds => format!("{value:.3} {}", unit.name()),
        FleetUnit::Rate | FleetUnit::Percent => format!("{value:.1} {}", unit.name()),
    }
}

/// Prints all of it.
///
/// # Errors
/// The writer's.
pub fn print(fleet: &Fleet, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}\n", fleet.headline)?;
    for (name, side) in [("A", &fleet.a), ("B", &fleet.b)] {
        writeln!(out, "{name} {}: {} runs of {} hosts", side.condition, side.runs, side.hosts)?;
    }
    for gate in &fleet.gates {
        writeln!(out, "{}", gate.words)?;
    }
    for doubt in &fleet.doubts {
        writeln!(out, "Doubt: {doubt}")?;
    }
    let found = fleet.lines.iter().filter(|l| l.found || l.apart > 0).count();
    let shown = fleet.lines.len().min(found + OTHERS);
    writeln!(
        out,
        "\nFigures [A and B: hosts that do not stand apart; * found against all {} figures]",
        fleet.lines.len()
    )?;
    let mut table = Table::new(&["<figure", "A", "B", "change", "95 % interval", "hosts", "apart", "<"]);
    for line in &fleet.lines[..shown] {
        let interval = match line.low.zip(line.high) {
            Some((low, high)) => format!("{} to {}", change(low, line.relative), change(high, line.relative)),
            None => "-".into(),
        };
        table.row(vec![
            line.key.clone(),
            number(line.a, line.unit),
            number(line.b, line.unit),
            change(line.change, line.relative),
            interval,
            line.hosts.to_string(),
            line.apart.to_string(),
            if line.found { "*".into() } else { String::new() },
        ]);
    }
    table.write(out)?;
    if shown < fleet.lines.len() {
        writeln!(
            out,
            "  {} more figures, without a difference; --json has them.",
            fleet.lines.len() - shown
        )?;
    }
    if !fleet.apart.is_empty() {
        writeln!(out, "\nHosts that stand apart [of a thousand that are named so, one may be wrong]")?;
        let mut table = Table::new(&["<host", "<figure", "change", "median of all"]);
        for host in fleet.apart.iter().take(HOSTS) {
            let relative = fleet.lines.iter().find(|l| l.key == host.key).is_none_or(|l| l.relative);
            table.row(vec![
                host.host.clone(),
                host.key.clone(),
                change(host.change, relative),
                change(host.others, relative),
            ]);
        }
        table.write(out)?;
        if fleet.apart.len() > HOSTS {
            writeln!(out, "  {} more; --json has them.", fleet.apart.len() - HOSTS)?;
        }
    }
    if !fleet.common.is_empty() {
        writeln!(out, "\nIn common [what these hosts have, and the others seldom]")?;
        for c in fleet.common.iter().take(COMMON) {
            writeln!(
                out,
                "  {}: {} = {}: {} of the {} hosts that stand apart, {} of the {} others",
                c.key, c.what, c.value, c.apart, c.of_apart, c.others, c.of_others
            )?;
        }
    }
    Ok(())
}
