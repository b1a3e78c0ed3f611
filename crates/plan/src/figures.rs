// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a plan's directory to the figures of its repetitions. What cannot be read is
//! missing, with its reason; it ends nothing.

mod load;
mod recorded;
mod times;

pub(super) use load::prefix;

use super::analysis;
use super::file::{Level, Settings, Value as Setting};
use super::state::{Cell, End, Made, State};
use super::table::{FactorNames, Row, Table, TimeOf, Unit, Work};
use super::verdict::{shares_disk, without_neighbour};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// What a level says of the kind of work.
fn of_load(level: &Level) -> (Option<&String>, Option<&Setting>, bool) {
    let settings = &level.settings;
    (settings.preset.as_ref(), settings.load.get("what"), settings.command.is_some())
}

/// Whether it is a command or asks a database: of those the loads tell.
fn is_told(settings: &Settings) -> bool {
    settings.command.is_some() || settings.server.is_some()
}

/// All figures of what was made.
pub fn table(dir: &Path, state: &State) -> Table {
    let factor = |f: &super::file::Factor| FactorNames {
        name: f.name.clone(),
        levels: f.levels.iter().map(|l| l.name.clone()).collect(),
        commands: (0..f.levels.len()).filter(|l| is_told(&f.levels[*l].settings)).collect(),
        other_work: f.levels.windows(2).any(|l| of_load(&l[0]) != of_load(&l[1])),
    };
    let mut table = Table { factors: state.plan.factors.iter().map(factor).collect(), ..Table::default() };
    // Made again (`--again`): the last one counts.
    let mut made: BTreeMap<(usize, u32), (usize, &Made)> = BTreeMap::new();
    for (place, one) in state.made.iter().enumerate() {
        made.insert((one.cell, one.repetition), (place, one));
    }
    for (number, cell) in state.cells.iter().enumerate() {
        let own: Vec<&(usize, &Made)> = made.values().filter(|(_, m)| m.cell == number).collect();
        if own.is_empty() {
            table.missing.push((cell.label.clone(), not_made(cell, state)));
        }
        for (place, one) in own {
            match row(dir, cell, one, *place, &mut table.units) {
                Ok(row) => table.rows.push(row),
                Err(why) => {
                    table.missing.push((format!("{} (repetition {})", cell.label, one.repetition), why));
                }
            }
        }
    }
    table.rows.sort_by_key(|r| r.place);
    table
}

fn not_made(cell: &Cell, state: &State) -> String {
    match (&cell.skipped, &state.ended_early) {
        (Some(why), _) => why.clone(),
        (None, Some(why)) => format!("not made: the plan ended early ({why})"),
        (None, None) => "not made yet".into(),
    }
}

fn row(
    dir: &Path,
    cell: &Cell,
    made: &Made,
    place: usize,
    units: &mut BTreeMap<String, Unit>,
) -> Result<Row, String> {
    match &made.end {
        End::Measured => {}
        End::Failed(why) => return Err(why.clone()),
        End::TimedOut => {
            let stuck = made.dir.join("stuck.txt");
            return Err(format!("took longer than the limit; what it was at: {}", stuck.display()));
        }
    }
    let dir = dir.join(&made.dir);
    let mut found = Found::default();
    found.add("elapsed", Unit::Ns, made.elapsed_ns as f64);
    if cell.settings.command.is_none() {
        let copies = cell.settings.copies.unwrap_or(1).max(1);
        let mut results =
            (1..=copies).map(|n| json(&dir.join(load_name(n)))).collect::<Result<Vec<_>, _>>()?;
        if shares_disk(&cell.settings) {
            results.iter_mut().for_each(without_neighbour);
        }
        load::figures(&results, &mut found)?;
        found.steps = times::of_steps(&results);
    }
    if cell.settings.record.is_some() {
        let result = json(&dir.join("result.json"))?;
        recorded::figures(&result, &mut found)?;
        found.spans = times::of_spans(&result, &found.steps);
    }
    for (name, (unit, _)) in &found.figures {
        units.insert(name.clone(), *unit);
    }
    let mut doubts = made.doubts.clone();
    for doubt in found.doubts {
        if !doubts.iter().any(|known| without_copy(known) == doubt) {
            doubts.push(doubt);
        }
    }
    Ok(Row {
        cell: made.cell,
        label: cell.label.clone(),
        levels: cell.levels.clone(),
        repetition: made.repetition,
        place,
        figures: found.figures.into_iter().map(|(name, (_, value))| (name, value)).collect(),
        doubts,
        verdict: found.verdict,
        kind: found.kind,
        dir: made.dir.clone(),
        work: found.work,
        path: found.path,
        steps: found.steps,
        spans: found.spans,
    })
}

/// A doubt without the number of the copy that has it.
fn without_copy(doubt: &str) -> String {
    let (head, rest) = match doubt.strip_prefix(analysis::cells::NOT_VALID) {
        Some(rest) => (analysis::cells::NOT_VALID, rest),
        None => ("", doubt),
    };
    match rest.strip_prefix("copy ").and_then(|rest| rest.split_once(": ")) {
        Some((number, said)) if number.bytes().all(|b| b.is_ascii_digit()) => format!("{head}{said}"),
        _ => doubt.to_string(),
    }
}

/// The file of the so-manyth copy's result, from 1.
fn load_name(copy: u32) -> String {
    if copy == 1 {
        "load.json".into()
    } else {
        format!("load.{copy}.json")
    }
}

fn json(path: &Path) -> Result<Value, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let text = std::fs::read_to_string(path).map_err(|e| format!("{name}: {e}"))?;
    serde_json::from_str(&text).map_err(|e| format!("{name} cannot be read: {e}"))
}

/// What one repetition's files hold.
#[derive(Debug, Default)]
struct Found {
    figures: BTreeMap<String, (Unit, f64)>,
    doubts: Vec<String>,
    verdict: Option<String>,
    kind: Option<String>,
    work: Vec<Work>,
    path: BTreeMap<String, BTreeMap<String, f64>>,
    steps: Vec<TimeOf>,
    spans: Vec<TimeOf>,
}

impl Found {
    fn add(&mut self, name: &str, unit: Unit, value: f64) {
        if value.is_finite() {
            self.figures.insert(name.into(), (unit, value));
        }
    }

    fn doubt(&mut self, sentence: String) {
        if !self.doubts.contains(&sentence) {
            self.doubts.push(sentence);
        }
    }
}

#[cfg(test)]
mod tests;
