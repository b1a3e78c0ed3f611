// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A plan's charts as SVG that needs nothing else: [`account`], [`bars`], [`lines`], [`operations`], [`scatter`], [`surface`], on a
//! [`canvas`] (drawn by plotters) with an [`axis`] on each side.
//!
//! A chart shows the levels of its `over` and `by` factors; each combination of the other
//! factors is a chart of its own, its file named after it.

mod account;
mod bars;
mod lines;
mod operations;
mod plot;
mod scatter;
mod surface;

use super::super::analysis::cells::{self, CellFigures};
use super::super::analysis::{main_figure, words};
use crate::file::{Chart, ChartKind};
use crate::state::State;
use crate::table::{Table, Unit};
use anyhow::Result;
use plot::{level, Plot};
use std::path::Path;

/// A chart that was drawn.
#[derive(Debug, Clone)]
pub struct Drawn {
    pub file: String,
    pub svg: String,
}

/// All charts of a plan.
#[derive(Debug, Default)]
pub struct Charts {
    pub drawn: Vec<Drawn>,
    /// What could not be, and why.
    pub notes: Vec<String>,
}

/// Draws the plan's charts; of a plan that asks for none, bars of its main figure.
pub fn draw(dir: &Path, state: &State, table: &Table) -> Charts {
    let mut charts = Charts::default();
    let asked = if state.plan.charts.is_empty() { default(state, table) } else { state.plan.charts.clone() };
    for chart in &asked {
        if let Err(error) = one(dir, state, table, chart, &mut charts) {
            charts.notes.push(format!("{}: not drawn: {error:#}", chart.name));
        }
    }
    charts
}

fn default(state: &State, table: &Table) -> Vec<Chart> {
    let named = state.plan.figures.iter().find(|f| table.units.contains_key(*f)).cloned();
    let figure = named.or_else(|| main_figure(table));
    let chart = |figure: String| Chart {
        name: safe(&figure),
        title: words::capital(&words::title(&figure)),
        kind: ChartKind::Bars,
        figure,
        x: None,
        over: None,
        by: None,
        lines: Vec::new(),
        log: false,
    };
    figure.map(chart).into_iter().collect()
}

/// A chart, or several of it.
fn one(dir: &Path, state: &State, table: &Table, chart: &Chart, charts: &mut Charts) -> Result<()> {
    let factor = |name: &Option<String>| -> Result<Option<usize>> {
        let Some(name) = name else { return Ok(None) };
        let found = table.factors.iter().position(|f| f.name == *name);
        found.map(Some).ok_or_else(|| anyhow::anyhow!("the plan has no factor {name}"))
    };
    let (over, by) = (factor(&chart.over)?, factor(&chart.by)?);
    let unit = || {
        let unit = table.units.get(&chart.figure).copied();
        unit.ok_or_else(|| anyhow::anyhow!("no repetition has the figure {}", chart.figure))
    };
    let groups = match (chart.kind, over, by) {
        (ChartKind::Operations | ChartKind::Account, ..) => groups(table, &all_cells(table), None, by),
        (ChartKind::Scatter, _, None) => anyhow::bail!("a scatter needs a factor of loads (by = ...)"),
        (ChartKind::Scatter, _, Some(by)) => {
            let plot = Plot { table, chart, unit: Unit::Count, over, by: Some(by), suffix: "" };
            charts.drawn.push(Drawn { file: file(chart, ""), svg: scatter::draw(&plot, by)? });
            return Ok(());
        }
        (ChartKind::Lines, None, _) => anyhow::bail!("lines need a factor to go over (over = ...)"),
        (ChartKind::Bars, None, None) => {
            unit()?;
            vec![(String::new(), cells::of(table, &chart.figure).0)]
        }
        (ChartKind::Bars | ChartKind::Lines | ChartKind::Surface, ..) => {
            unit()?;
            groups(table, &cells::of(table, &chart.figure).0, over, by)
        }
    };
    for (suffix, cells) in groups {
        let plot = |unit| Plot { table, chart, unit, over, by, suffix: &suffix };
        let drawn = match (chart.kind, over, by) {
            (ChartKind::Account, ..) => account::draw(table, chart, by, &suffix, &cells),
            (ChartKind::Bars, ..) => bars::draw(&plot(unit()?), &cells),
            (ChartKind::Surface, Some(over), Some(by)) => surface::draw(&plot(unit()?), over, by, &cells),
            (ChartKind::Surface, ..) => anyhow::bail!("a surface needs two factors (over and by)"),
            (ChartKind::Lines, ..) => lines::draw(&plot(unit()?), &cells),
            _ => operations::draw(dir, state, table, chart, by, &suffix, &cells),
        };
        match drawn {
            Ok(svg) => charts.drawn.push(Drawn { file: file(chart, &suffix), svg }),
            Err(error) => charts.notes.push(format!("{} {suffix}: not drawn: {error:#}", chart.name)),
        }
    }
    Ok(())
}

fn file(chart: &Chart, suffix: &str) -> String {
    let name = if suffix.is_empty() { chart.name.clone() } else { format!("{}-{suffix}", chart.name) };
    format!("{}.svg", safe(&name))
}

/// Letters, digits and what is harmless in a file's name.
fn safe(name: &str) -> String {
    let letter = |c: char| if c.is_alphanumeric() || "._-+=".contains(c) { c } else { '-' };
    let name: String = name.chars().map(letter).collect();
    name.trim_start_matches('.').into()
}

/// Every cell with a row, without figures.
fn all_cells(table: &Table) -> Vec<CellFigures> {
    let mut every = table.clone();
    every.units = [("every".to_string(), crate::table::Unit::Count)].into();
    every.rows.iter_mut().for_each(|r| r.figures = [("every".to_string(), 1.0)].into());
    cells::of(&every, "every").0
}

/// Cells by their levels of the factors that the chart does not show and that vary.
fn groups(
    table: &Table,
    cells: &[CellFigures],
    over: Option<usize>,
    by: Option<usize>,
) -> Vec<(String, Vec<CellFigures>)> {
    let varies = |f: &usize| cells.iter().any(|c| c.levels[*f] != cells[0].levels[*f]);
    let shown = |f: &usize| Some(*f) == over || Some(*f) == by;
    let others: Vec<usize> = (0..table.factors.len()).filter(|f| !shown(f)).filter(varies).collect();
    let mut groups: Vec<(String, Vec<CellFigures>)> = Vec::new();
    for cell in cells {
        let names: Vec<&str> = others.iter().map(|f| level(table, Some(*f), &cell.levels)).collect();
        let name = names.join(" ");
        match groups.iter_mut().find(|(n, _)| *n == name) {
            Some((_, group)) => group.push(cell.clone()),
            None => groups.push((name, vec![cell.clone()])),
        }
    }
    groups
}

#[cfg(test)]
mod tests;
