// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of what changed, and the parts of the account behind it.

use super::{effect, format, headed, short, LEVEL};
use crate::analysis::cells::Scale;
use crate::analysis::changes::PartChange;
use crate::analysis::words::{several, value};
use crate::analysis::Analysis;
use crate::table::Unit;
use anyhow::Result;
use plumb_report::terminal::{self, wrapped};
use std::io::Write;

/// Changes of a factor's levels that are told.
const MOST_CHANGES: usize = 8;

/// What changed from a factor's first level to another, and the parts of the account behind it.
pub(super) fn write(analysis: &Analysis, out: &mut dyn Write) -> Result<()> {
    let all = &analysis.changes;
    if all.pairs.iter().all(|c| !c.recorded) {
        return Ok(());
    }
    let format = format(&analysis.cells, analysis.unit);
    let unit = headed(&analysis.figure, format.unit);
    let of = match &all.operation {
        Some(kind) => format!("account for each {kind}"),
        None if all.of_path => "critical path".into(),
        None => "account".into(),
    };
    writeln!(out, "\nWhat changed from a factor's first level: {unit}, and parts of the {of}")?;
    let scale = analysis.effects.scale;
    let x = if scale == Scale::Ratio { "x" } else { "change" };
    let head = ["<factor", "<level", "<with", "from", "to", x, "low", "high", "<part", "its change"];
    let mut table = terminal::Table::new(&head);
    let (mut shown, mut told) = (0, 0);
    for of_factor in all.pairs.chunk_by(|a, b| a.factor == b.factor) {
        let worth: Vec<_> = of_factor.iter().filter(|c| c.found || c.q.is_none()).collect();
        told += worth.len();
        for (number, change) in worth.into_iter().take(MOST_CHANGES).enumerate() {
            shown += 1;
            let part = |part: &PartChange| {
                let name = match (part.call.as_str(), all.of_path) {
                    ("", true) => part.category.clone(),
                    ("", false) => format!("outside calls: {}", part.category),
                    (call, _) => format!("{call}: {}", part.category),
                };
                let sign = if part.difference > 0.0 { "+" } else { "" };
                [name, format!("{sign}{}", value(part.difference, Unit::Ns))]
            };
            let mut parts = change.parts.iter().map(part);
            let mut row = vec![
                if number == 0 { short(&change.factor, LEVEL) } else { String::new() },
                short(&change.levels[1], LEVEL),
                change.with.iter().map(|l| short(l, LEVEL)).collect::<Vec<_>>().join(" "),
                format.number(change.medians[0]),
                format.number(change.medians[1]),
            ];
            row.extend(effect(change.effect, change.interval, scale, format));
            let none = if change.recorded { "no single one is significant" } else { "not recorded" };
            row.extend(parts.next().unwrap_or_else(|| [none.into(), String::new()]));
            table.row(row);
            for more in parts {
                table.row(vec![String::new(); head.len() - 2].into_iter().chain(more).collect());
            }
        }
    }
    if shown > 0 {
        table.write(out)?;
    }
    let tested = all.pairs.iter().filter(|c| c.q.is_some()).count();
    let found = all.pairs.iter().filter(|c| c.found).count();
    let mut note = format!(
        "{found} of {} differ significantly (Welch's t; the pairs of a factor together have a false discovery rate of 5 %).",
        several(tested, "pair")
    );
    if tested < all.pairs.len() {
        note += &format!(
            " Of {} no error is known: any difference may be chance.",
            several(all.pairs.len() - tested, "pair")
        );
    }
    if shown < told {
        note += &format!(" {} of {told} are shown; report.json has all.", shown);
    }
    writeln!(out, "  {}", wrapped(&note, 2))?;
    Ok(())
}
