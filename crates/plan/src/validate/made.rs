// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures that a plan's cells make, as far as that is known before they run.

use super::super::figures;
use super::super::file::{Chart, ChartKind, Factor, PlanFile};
use super::FIGURES;
use anyhow::{bail, Context, Result};
use plumb_load::job::{Cell, What};
use std::collections::BTreeSet;

/// Whether a recording makes it. Which spans it has is known when it is made.
fn of_recording(figure: &str) -> bool {
    ["time.", "span."].iter().any(|head| figure.starts_with(head))
}

/// Names of the levels of a chart's `by`.
fn levels(chart: &Chart, factors: &[Factor]) -> Vec<String> {
    let by = factors.iter().filter(|factor| Some(&factor.name) == chart.by.as_ref());
    by.flat_map(|factor| &factor.levels).map(|level| level.name.clone()).collect()
}

#[derive(Debug, Default)]
pub(crate) struct Made {
    /// Kinds of operation, with the step before them where a load has several: `write`, `seeks:read`.
    kinds: BTreeSet<String>,
    /// Figures of loads whose threads' own times are known: `thread.mean`.
    threads: BTreeSet<String>,
    /// One is recorded, so there are shares of time.
    pub(super) recorded: bool,
}

impl Made {
    pub(super) fn load(&mut self, cells: &[Cell]) {
        let steps = || cells.iter().flat_map(|c| c.steps.iter().map(move |s| (c, s)));
        let mut places: Vec<(String, String)> = Vec::new();
        for (cell, step) in steps() {
            let place = (cell.label.clone(), step.label.clone());
            if !places.contains(&place) {
                places.push(place);
            }
        }
        for (cell, step) in steps() {
            let before = figures::prefix(&places, &cell.label, &step.label);
            let kinds = step.jobs.iter().flat_map(|job| job.kinds());
            if step.jobs.iter().any(|job| job.what == What::LockAndUpdate) {
                self.threads.insert(format!("{before}thread.mean"));
            }
            self.kinds.extend(kinds.map(|kind| format!("{before}{}", kind.word())));
        }
    }

    /// Whether there is such a figure in any cell.
    fn has(&self, figure: &str) -> bool {
        let of_kind = || figure.rsplit_once('.').is_some_and(|(kind, _)| self.kinds.contains(kind));
        // p99.9 has a dot of its own.
        let of_quantile = || figure.strip_suffix(".p99.9").is_some_and(|kind| self.kinds.contains(kind));
        match of_recording(figure) {
            true => self.recorded,
            false => figure == "elapsed" || self.threads.contains(figure) || of_kind() || of_quantile(),
        }
    }

    fn charted(&self, chart: &Chart, factors: &[Factor]) -> bool {
        match chart.kind {
            ChartKind::Bars | ChartKind::Lines | ChartKind::Surface => self.has(&chart.figure),
            ChartKind::Scatter => {
                let levels = levels(chart, factors);
                chart.places(&levels).is_some_and(|both| both.iter().all(|place| self.has(place.figure)))
            }
            ChartKind::Operations => self
                .kinds
                .iter()
                .any(|k| k.rsplit_once(':').map_or(k.as_str(), |(_, kind)| kind) == chart.figure),
            ChartKind::Account if chart.figure == "spans" => self.recorded,
            ChartKind::Account => !self.kinds.is_empty(),
        }
    }

    /// Leaves only the figures and charts in a plan that its cells make.
    pub(crate) fn retain(&self, plan: &mut PlanFile) {
        plan.figures.retain(|figure| self.has(figure));
        let PlanFile { charts, factors, .. } = plan;
        charts.retain(|chart| self.charted(chart, factors));
    }

    /// Looks whether each figure that the plan names is made.
    ///
    /// # Errors
    /// The first one that is not, with those that are.
    pub(crate) fn check(&self, plan: &PlanFile) -> Result<()> {
        for figure in &plan.figures {
            if !self.has(figure) {
                self.not_made(figure).context("figures")?;
            }
        }
        for chart in &plan.charts {
            if !self.charted(chart, &plan.factors) {
                let named = || format!("chart {}", chart.name);
                if chart.kind == ChartKind::Scatter {
                    self.not_scattered(chart, &plan.factors).with_context(named)?;
                }
                self.not_made(&chart.figure).with_context(named)?;
            }
        }
        Ok(())
    }

    fn not_scattered(&self, chart: &Chart, factors: &[Factor]) -> Result<()> {
        let levels = levels(chart, factors);
        let Some(both) = chart.places(&levels) else {
            bail!(
                "x and figure: \"LEVEL:FIGURE\", as in \"{}:elapsed\"; levels of {} are {}",
                levels.first().map_or("", String::as_str),
                chart.by.as_deref().unwrap_or_default(),
                levels.join(", ")
            );
        };
        let without = both.iter().find(|place| !self.has(place.figure));
        without.map_or(Ok(()), |place| self.not_made(place.figure))
    }

    fn not_made(&self, figure: &str) -> Result<()> {
        if of_recording(figure) || figure == "spans" {
            bail!("\"{figure}\": no cell of the plan is recorded; give record = [], or leave the figure out");
        }
        let kinds: Vec<&str> = self.kinds.iter().map(String::as_str).collect();
        if kinds.is_empty() {
            bail!("\"{figure}\": the plan has commands and no load; there is elapsed");
        }
        bail!(
            "\"{figure}\": no load of the plan makes it; there are elapsed, {}and of {} one of {}",
            self.threads.iter().map(|name| format!("{name}, ")).collect::<String>(),
            kinds.join(", "),
            FIGURES.join(", ")
        )
    }
}
