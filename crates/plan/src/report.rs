// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb plan report`: what a plan's directory shows, as text, JSON, CSV and charts.
//!
//! Data flows: plan.json and the repetitions' files -> [`figures`] -> [`Analysis`] of each
//! figure -> [`text`], [`csv`], [`charts`], and this document itself as JSON.

pub mod charts;
mod csv;
pub(super) mod text;

use super::analysis::cells::NOT_VALID;
use super::analysis::verdicts::{self, CellVerdict};
use super::analysis::{main_figure, Analysis};
use super::figures;
use super::own_devices::OWN;
use super::state::{Cell, State};
use super::store;
use super::table::{Row, Table, Unit};
use crate::options;
use anyhow::{bail, Context, Result};
use plumb_machine::json::{self, formats, headed, Format, Output};
use plumb_machine::Environment;
use plumb_report::chart_images;
use plumb_report::document::Document;
use plumb_report::plain::Plain;
use plumb_report::run::empty;
use plumb_report::terminal::similar_messages::{alike, ranged};
use plumb_undo::pending_changes::Standing;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Directory of the charts, within the plan's.
const CHARTS: &str = "charts";
/// The report as JSON, within the plan's directory.
const JSON: &str = "report.json";

#[derive(Debug, Serialize)]
pub struct Report {
    /// Version of plumb that ran the plan.
    pub plumb: String,
    pub name: String,
    pub title: String,
    pub purpose: String,
    pub hypothesis: String,
    /// Paper or tool that it repeats.
    pub source: Option<String>,
    /// The paragraph on the main figure.
    pub answer: String,
    /// Repetitions that were to be made, and that have figures.
    pub repetitions: [usize; 2],
    /// Why it ended before all was made.
    pub ended_early: Option<String>,
    /// What is known of each figure, the main one first.
    pub figures: Vec<Analysis>,
    /// Further figures that are there, with their units.
    pub others: BTreeMap<String, Unit>,
    pub verdicts: Vec<CellVerdict>,
    /// What lowers the worth of repetitions: each sentence with the repetitions that it is about.
    pub doubts: Vec<Doubt>,
    /// What the plan still has changed on this system; of a report that is asked for, not of the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
    pub environment: Option<Environment>,
    /// Charts that were written, within the plan's directory.
    pub charts: Vec<PathBuf>,
    /// Charts that could not be drawn, or not wholly, and why.
    pub chart_notes: Vec<String>,
    /// All figures of all repetitions, and what is missing.
    pub table: Table,
    #[serde(skip)]
    dir: PathBuf,
}

impl Output for Report {
    const FORMAT: &'static Format = &formats::PLAN_REPORT;
}

/// A sentence, and of which repetitions it is said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Doubt {
    /// What lowers their worth; of sentences that differ only in their numbers, the first one's.
    pub sentence: String,
    /// `LABEL (repetition N)`.
    pub of: Vec<String>,
}

impl Report {
    /// Of a plan's directory: about these figures, or those that the plan names, or its main one.
    ///
    /// # Errors
    /// No state; a figure that is nowhere, with those that there are.
    pub fn of(dir: &Path, figures: &[String]) -> Result<Report> {
        let state = store::state(dir)?;
        let table = figures::table(dir, &state);
        Ok(Report { standing: Standing::of(dir, &OWN)?, ..Report::from(dir, state, table, figures)? })
    }

    fn from(dir: &Path, state: State, table: Table, asked: &[String]) -> Result<Report> {
        if let Some(unknown) = asked.iter().find(|f| !table.units.contains_key(*f)) {
            let there: Vec<&str> = table.units.keys().map(String::as_str).collect();
            let there = if there.is_empty() { "none: nothing was measured".into() } else { there.join(", ") };
            bail!("{}: no repetition has the figure {unknown}; there are: {there}", dir.display());
        }
        let names = if asked.is_empty() { named(&state, &table) } else { asked.to_vec() };
        let analyses: Vec<Analysis> = names.iter().filter_map(|name| Analysis::of(&table, name)).collect();
        let answer = analyses.first().map_or_else(|| nothing(&table), |a| a.answer.clone());
        let mut others = table.units.clone();
        others.retain(|name, _| !names.contains(name));
        Ok(Report {
            plumb: state.plumb,
            name: state.plan.name,
            title: state.plan.title,
            purpose: state.plan.purpose,
            hypothesis: state.plan.hypothesis,
            source: state.plan.source,
            answer,
            repetitions: [state.schedule.len().max(table.rows.len()), table.rows.len()],
            ended_early: state.ended_early,
            figures: analyses,
            others,
            verdicts: verdicts::of(&table),
            doubts: doubts(&table, &state.cells),
            standing: None,
            environment: state.environment,
            charts: written(dir),
            chart_notes: Vec::new(),
            table,
            dir: dir.into(),
        })
    }
}

/// Figures that a plan's report is about: those of its file that occur, else the main one.
pub(super) fn named(state: &State, table: &Table) -> Vec<String> {
    let there: Vec<String> =
        state.plan.figures.iter().filter(|name| table.units.contains_key(*name)).cloned().collect();
    if there.is_empty() {
        main_figure(table).into_iter().collect()
    } else {
        there
    }
}

fn nothing(table: &Table) -> String {
    match table.missing.first() {
        Some((label, why)) => format!("Nothing was measured: {label}: {}.", why.trim_end_matches('.')),
        None => "Nothing was measured: the plan has no combination.".into(),
    }
}

/// Said of recorded repetitions beside others.
const RECORDED: &str =
    "recorded, which costs time, beside combinations that are not: like is not compared with like \
                        (--record or --no-record makes all alike)";

/// The recorded repetitions, where others are not.
fn recorded(table: &Table, cells: &[Cell]) -> Option<Doubt> {
    let is = |row: &&Row| cells.get(row.cell).is_some_and(|c| c.settings.record.is_some());
    let (with, without): (Vec<&Row>, Vec<&Row>) = table.rows.iter().partition(is);
    let mut of = with.iter().map(|row| format!("{} (repetition {})", row.label, row.repetition)).peekable();
    (of.peek().is_some() && !without.is_empty())
        .then(|| Doubt { sentence: RECORDED.into(), of: of.collect() })
}

/// Each sentence once, with the range of its numbers; those of invalid repetitions first, then the most
/// frequent.
fn doubts(table: &Table, cells: &[Cell]) -> Vec<Doubt> {
    let mut groups: Vec<(Vec<&str>, Vec<String>)> = Vec::new();
    for row in &table.rows {
        for sentence in &row.doubts {
            let of = format!("{} (repetition {})", row.label, row.repetition);
            match groups.iter_mut().find(|(said, _)| alike(said[0], sentence)) {
                Some((said, all)) => {
                    said.push(sentence);
                    all.push(of);
                }
                None => groups.push((vec![sentence], vec![of])),
            }
        }
    }
    let mut all: Vec<Doubt> = recorded(table, cells).into_iter().collect();
    all.extend(groups.into_iter().map(|(said, of)| Doubt { sentence: ranged(&said), of }));
    all.sort_by_key(|d| (!d.sentence.starts_with(NOT_VALID), std::cmp::Reverse(d.of.len())));
    all
}

/// Charts that lie in a plan's directory.
fn written(dir: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(dir.join(CHARTS)).into_iter().flatten().flatten();
    let names = files.map(|f| Path::new(CHARTS).join(f.file_name()));
    let mut charts: Vec<PathBuf> = names.filter(|p| p.extension().is_some_and(|e| e == "svg")).collect();
    charts.sort();
    charts
}

/// Writes report.txt, report.json, report.csv and charts/*.svg into a plan's directory; those
/// of an earlier report are replaced. A chart that cannot be drawn is named in the report, which is given back.
///
/// # Errors
/// There is no plan, or the directory cannot be written.
pub fn write(dir: &Path) -> Result<Report> {
    let state = store::state(dir)?;
    let table = figures::table(dir, &state);
    let charts = charts::draw(dir, &state, &table);
    let into = dir.join(CHARTS);
    for old in written(dir) {
        let old = dir.join(old);
        std::fs::remove_file(&old).with_context(|| old.display().to_string())?;
    }
    if !charts.drawn.is_empty() {
        std::fs::create_dir_all(&into).with_context(|| into.display().to_string())?;
    }
    for chart in &charts.drawn {
        put(&into.join(&chart.file), chart.svg.as_bytes())?;
    }
    let mut report = Report::from(dir, state, table, &[])?;
    report.chart_notes = charts.notes;
    let mut document = Vec::new();
    text::write(&report, &mut document)?;
    put(&dir.join("report.txt"), &document)?;
    document.clear();
    json::write(&mut document, &report)?;
    put(&dir.join(JSON), &document)?;
    document.clear();
    csv::write(&report.table, &mut document)?;
    put(&dir.join("report.csv"), &document)?;
    Ok(report)
}

/// What the page of a plan's directory is made of: its report and its charts. Results of its cells lie there and are not taken in.
///
/// # Errors
/// There is no plan in it.
pub fn document(dir: &Path) -> Result<Document> {
    let begun = store::state(dir)?.made.into_iter().next().map(|m| m.begun).unwrap_or_default();
    let report = Report { chart_notes: noted(dir), ..Report::of(dir, &[])? };
    let mut document = empty("plan", &report.title, &begun);
    document.plan = Some(serde_json::to_value(headed(&report))?);
    chart_images::put(&mut document, dir, &report.charts)?;
    Ok(document)
}

/// What was said of charts when those that lie in the directory were drawn.
fn noted(dir: &Path) -> Vec<String> {
    #[derive(Deserialize)]
    struct Notes {
        chart_notes: Vec<String>,
    }
    let read = std::fs::read(dir.join(JSON)).ok().and_then(|text| serde_json::from_slice(&text).ok());
    read.map_or_else(Vec::new, |notes: Notes| notes.chart_notes)
}

/// Prints it on standard output, as JSON or as text.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(report: &Report, as_json: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if as_json {
        json::write(&mut out, report)?;
    } else {
        text::write(report, &mut Plain(&mut out))?;
    }
    Ok(())
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| path.display().to_string())
}

/// Runs the command.
///
/// # Errors
/// There is no plan in the directory, or no such figure.
pub fn main(args: &options::Report) -> Result<ExitCode> {
    let report = Report::of(&args.dir, &args.figure)?;
    if args.csv {
        csv::write(&report.table, &mut std::io::stdout().lock())?;
    } else {
        print(&report, args.json)?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
