// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb plan compare`: two directories of a plan, cell by cell: ratios of medians with
//! their intervals, what of them is found when so many are tested together, and over all
//! common cells one ratio with its interval.

pub(super) mod differs;
mod show;

use super::analysis::cells::{self, CellFigures, Scale};
use super::analysis::words::{capital, ratio, several, title, Format};
use super::state::State;
use super::table::{Table, Unit};
use super::{figures, report, store};
use crate::options;
use anyhow::{bail, Result};
use differs::Differs;
use plumb_machine::json::{self, formats, Output};
use plumb_report::plain::Plain;
use plumb_stats::repetitions::{self, Difference, Interval};
use plumb_stats::student;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Serialize)]
pub struct Comparison {
    /// Faster, slower, or no difference found: of the main figure.
    pub headline: String,
    pub a: Side,
    pub b: Side,
    /// Figure by figure, the main one first.
    pub figures: Vec<FigureComparison>,
    /// Combinations that only A has figures of.
    pub only_a: Vec<String>,
    /// Combinations that only B has figures of.
    pub only_b: Vec<String>,
    /// What is not the same of the plans, of machine and system: what, A's, B's.
    pub differs: Vec<Differs>,
}

impl Output for Comparison {
    const FORMAT: &'static json::Format = &formats::PLAN_COMPARE;
}

#[derive(Debug, Serialize)]
pub struct Side {
    pub dir: PathBuf,
    pub name: String,
    /// Version of plumb that ran it.
    pub plumb: String,
    pub repetitions: usize,
    /// Sentences that lower the worth of some of them.
    pub doubts: usize,
}

/// One figure on both sides.
#[derive(Debug, Serialize)]
pub struct FigureComparison {
    pub figure: String,
    pub unit: Unit,
    pub scale: Scale,
    pub overall: Option<Overall>,
    /// Cell by cell, in A's order.
    pub cells: Vec<Line>,
    /// So many cells were tested together.
    pub tested: usize,
}

/// B beside A over all common cells, each counting alike.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overall {
    pub cells: usize,
    /// Geometric mean of the ratios, or mean of the differences.
    pub effect: f64,
    /// 95 % interval of it (Student's t with Satterthwaite's degrees of freedom, from the
    /// repetitions within the cells); none of single repetitions.
    pub interval: Option<Interval>,
    /// Whether the interval excludes that there is no difference.
    pub found: bool,
}

/// What may be said of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    None,
    /// The interval excludes that there is no difference, as it does by chance of one in 20.
    Interval,
    /// It differs, as one of all that were tested together.
    Found,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    pub label: String,
    pub a: f64,
    pub b: f64,
    /// Repetitions of A and of B.
    pub repetitions: [usize; 2],
    /// B's median over A's; none where A's is 0.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio.
    pub interval: Option<Interval>,
    /// 95 % interval of the difference.
    pub difference: Option<Interval>,
    /// p of the rank-sum test; none where the repetitions are too few for it to find anything.
    pub p: Option<f64>,
    /// The same of all cells that were tested together (Benjamini and Hochberg).
    pub q: Option<f64>,
    pub mark: Mark,
}

impl FigureComparison {
    fn of(a: &Table, b: &Table, figure: &str) -> Option<Self> {
        let unit = *a.units.get(figure)?;
        let (in_a, in_b) = (cells::of(a, figure).0, cells::of(b, figure).0);
        let pairs: Vec<(&CellFigures, &CellFigures)> =
            in_a.iter().filter_map(|a| Some((a, in_b.iter().find(|b| b.label == a.label)?))).collect();
        let scale = Scale::of(unit, pairs.iter().flat_map(|(a, b)| a.values.iter().chain(&b.values)));
        let mut lines: Vec<Line> = pairs.iter().map(|(a, b)| line(a, b)).collect();
        let p: Vec<f64> = lines.iter().filter_map(|l| l.p).collect();
        let tested = p.len();
        let mut q = repetitions::false_discovery(&p).into_iter();
        for line in &mut lines {
            line.q = line.p.and_then(|_| q.next());
            let apart = line.difference.is_some_and(|i| i.excludes_zero());
            line.mark = match (apart, line.q) {
                (true, Some(q)) if q <= repetitions::LEVEL => Mark::Found,
                (true, _) => Mark::Interval,
                _ => Mark::None,
            };
        }
        Some(Self {
            figure: figure.into(),
            unit,
            scale,
            overall: Overall::of(&pairs, scale),
            cells: lines,
            tested,
        })
    }
}

fn line(a: &CellFigures, b: &CellFigures) -> Line {
    let difference = Difference::of(&a.values, &b.values);
    let testable = repetitions::can_find(a.values.len(), b.values.len());
    let ratio = difference.and_then(|d| d.relative).filter(|_| a.median > 0.0);
    Line {
        label: a.label.clone(),
        a: a.median,
        b: b.median,
        repetitions: [a.values.len(), b.values.len()],
        ratio: (a.median != 0.0).then(|| b.median / a.median),
        interval: ratio.map(|r| Interval { low: 1.0 + r.low, high: 1.0 + r.high }),
        difference: difference.map(|d| d.interval),
        p: difference.filter(|_| testable).map(|d| d.p),
        q: None,
        mark: Mark::None,
    }
}

impl Overall {
    fn of(pairs: &[(&CellFigures, &CellFigures)], scale: Scale) -> Option<Overall> {
        if pairs.is_empty() {
            return None;
        }
        let (mut sum, mut variance, mut weights) = (0.0, 0.0, 0.0);
        let mut known = true;
        for (a, b) in pairs {
            for (cell, sign) in [(a, -1.0), (b, 1.0)] {
                let values: Vec<f64> = cell.values.iter().map(|v| scale.to(*v)).collect();
                let (mean, n) = (repetitions::mean(&values), values.len() as f64);
                sum += sign * mean;
                known &= values.len() > 1;
                if values.len() > 1 {
                    let part = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0) / n;
                    variance += part;
                    weights += part * part / (n - 1.0);
                }
            }
        }
        let count = pairs.len() as f64;
        let effect = sum / count;
        let half = match variance > 0.0 {
            true => student::quantile((variance * variance / weights).max(1.0)) * variance.sqrt() / count,
            false => 0.0,
        };
        let interval = known.then_some(Interval { low: effect - half, high: effect + half });
        Some(Overall {
            cells: pairs.len(),
            effect: scale.from(effect),
            interval: interval.map(|i| Interval { low: scale.from(i.low), high: scale.from(i.high) }),
            found: interval.is_some_and(|i| i.excludes_zero()),
        })
    }
}

impl Comparison {
    /// Of two plans' directories.
    ///
    /// # Errors
    /// One of them has no plan; no common figure, or not the one that was asked for.
    pub fn of(a: &Path, b: &Path, asked: &[String]) -> Result<Comparison> {
        let (in_a, in_b) = (store::state(a)?, store::state(b)?);
        let (table_a, table_b) = (figures::table(a, &in_a), figures::table(b, &in_b));
        Comparison::from((a, &in_a, &table_a), (b, &in_b, &table_b), asked)
    }

    fn from(
        (dir_a, a, table_a): (&Path, &State, &Table),
        (dir_b, b, table_b): (&Path, &State, &Table),
        asked: &[String],
    ) -> Result<Comparison> {
        let common = |f: &&String| table_a.units.contains_key(*f) && table_b.units.contains_key(*f);
        let there: Vec<&String> = table_a.units.keys().filter(common).collect();
        let names: Vec<String> = match asked {
            [] => report::named(a, table_a).into_iter().filter(|f| there.contains(&f)).collect(),
            asked => asked.to_vec(),
        };
        if let Some(unknown) = names.iter().find(|f| !there.contains(f)) {
            let there: Vec<&str> = there.iter().map(|f| f.as_str()).collect();
            bail!("A and B do not both have the figure {unknown}; both have: {}", there.join(", "));
        }
        if names.is_empty() {
            bail!(
                "{} and {} have no common figure to compare; name one with --figure ({})",
                dir_a.display(),
                dir_b.display(),
                there.iter().map(|f| f.as_str()).collect::<Vec<_>>().join(", ")
            );
        }
        let figures: Vec<FigureComparison> =
            names.iter().filter_map(|f| FigureComparison::of(table_a, table_b, f)).collect();
        let labels = |table: &Table| -> Vec<String> {
            let rows: BTreeMap<usize, &String> = table.rows.iter().map(|r| (r.cell, &r.label)).collect();
            rows.into_values().cloned().collect()
        };
        let (in_a, in_b) = (labels(table_a), labels(table_b));
        let side = |dir: &Path, state: &State, table: &Table| Side {
            dir: dir.into(),
            name: state.plan.name.clone(),
            plumb: state.plumb.clone(),
            repetitions: table.rows.len(),
            doubts: table.rows.iter().map(|r| r.doubts.len()).sum(),
        };
        Ok(Comparison {
            headline: figures.first().map_or(String::new(), headline),
            a: side(dir_a, a, table_a),
            b: side(dir_b, b, table_b),
            figures,
            only_a: in_a.iter().filter(|l| !in_b.contains(l)).cloned().collect(),
            only_b: in_b.iter().filter(|l| !in_a.contains(l)).cloned().collect(),
            differs: differs::of(a, b),
        })
    }
}

/// Of one figure: what B is beside A.
fn headline(figure: &FigureComparison) -> String {
    let name = title(&figure.figure);
    let Some(overall) = &figure.overall else {
        return format!("Nothing to compare: A and B have no common combination with the {name}.");
    };
    let cells = several(overall.cells, "common combination");
    let format = Format::of(figure.unit, overall.effect);
    let (effect, interval) = match figure.scale {
        Scale::Ratio => (
            format!("B / A {:.3}", overall.effect),
            overall.interval.map(|i| format!("{:.3} to {:.3}", i.low, i.high)),
        ),
        Scale::Difference => (
            format!("B - A {}", format.text(overall.effect)),
            overall.interval.map(|i| format!("{} to {}", format.number(i.low), format.number(i.high))),
        ),
    };
    let Some(interval) = interval else {
        return format!(
            "{} over {cells}: {effect}; single repetitions, so no error is known and nothing can be shown.",
            capital(&name)
        );
    };
    let error = format!("{effect}, 95 % interval {interval}");
    let found = figure.cells.iter().filter(|l| l.mark == Mark::Found).count();
    let each = match figure.tested {
        0 => format!(
            "; cell by cell {} and {} repetitions are needed to find any",
            repetitions::FEWEST + 1,
            repetitions::FEWEST + 1
        ),
        tested => format!("; {found} of {tested} differ by themselves"),
    };
    if !overall.found {
        return format!("No difference found in the {name} over {cells}: {error}{each}.");
    }
    let times = if figure.scale == Scale::Ratio { overall.effect } else { f64::NAN };
    let more = match figure.scale {
        Scale::Ratio => times > 1.0,
        Scale::Difference => overall.effect > 0.0,
    };
    let verdict = match (figure.unit.more_is_better(), more) {
        (Some(better), more) if better == more => "B is better",
        (Some(_), _) => "B is worse",
        (None, true) => "B has more",
        (None, false) => "B has less",
    };
    let how = match (figure.unit, times.is_finite()) {
        (Unit::Ns, true) => format!("it takes {} times as long", ratio(times)),
        (_, true) => format!("it has {} times as much", ratio(times)),
        _ => "it moved".into(),
    };
    format!("{verdict}: {how} ({name}) over {cells}: {error}{each}.")
}

/// Runs the command.
///
/// # Errors
/// One of the directories holds no plan; no common figure.
pub fn main(args: &options::Compare) -> Result<ExitCode> {
    let comparison = Comparison::of(&args.a, &args.b, &args.figure)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        json::write(&mut out, &comparison)?;
    } else {
        show::write(&comparison, &mut Plain(&mut out))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
