// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Targets: `LOAD: 500/s, p99 20ms`.

use crate::analysis::words::{ratio, value};
use crate::table::Unit;
use anyhow::{anyhow, bail, Context, Result};
use plumb_trace::suggest::nearest;
use plumb_trace::units::{self, parse_duration};
use serde::Serialize;
use std::str::FromStr;

/// Times that a target may name.
const TIMES: [&str; 6] = ["elapsed", "mean", "p50", "p90", "p99", "p99.9"];
const EXAMPLES: &str = "examples: 500/s, 'write.rate 500/s', '500/s of 200', 'p99 20ms', 'elapsed 2s'";

/// What a user wants of a load.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    pub load: String,
    pub wants: Vec<Want>,
}

/// One figure, and its limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Want {
    /// Kind of operation, with its step where there are several; none: the only one.
    kind: Option<String>,
    limit: Limit,
}

#[derive(Debug, Clone, PartialEq)]
enum Limit {
    /// Operations a second, and how many are in a run where the load does not count them.
    AtLeast(f64, Option<f64>),
    /// One of [`TIMES`], and ns.
    AtMost(&'static str, f64),
}

impl FromStr for Target {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (load, wants) = text.rsplit_once(':').with_context(|| {
            format!("'{text}' is no target: write LOAD: LIMIT, as in 'PostgreSQL -N: 500/s, p99 20ms'")
        })?;
        let wants = wants.split(',').map(|w| Want::of(w.trim()).with_context(|| format!("target '{text}'")));
        Ok(Self { load: load.trim().into(), wants: wants.collect::<Result<_>>()? })
    }
}

impl Want {
    fn of(text: &str) -> Result<Self> {
        let bad = || anyhow!("'{text}' is no limit; {EXAMPLES}");
        let positive = |text: &str| {
            text.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0).with_context(bad)
        };
        let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
        // The name of a figure, with its kind before it; a rate may stand alone.
        let begins_with_number = first.starts_with(|c: char| c.is_ascii_digit() || ".-+".contains(c));
        let (name, amount) = if begins_with_number { ("rate", text) } else { (first, rest.trim()) };
        let time = TIMES.into_iter().find(|t| name == *t || name.ends_with(&format!(".{t}")));
        let kind = |figure: &str| name.strip_suffix(figure)?.strip_suffix('.').map(String::from);
        if let Some(time) = time {
            let ns = parse_duration(amount).map_err(|e| anyhow!("{name}: {e}"))?;
            if ns == 0 {
                bail!("{name}: the time must be above 0");
            }
            return Ok(Self { kind: kind(time), limit: Limit::AtMost(time, ns as f64) });
        }
        if name != "rate" && !name.ends_with(".rate") {
            bail!(
                "there is no figure '{name}' for a target: there are rate, {}; {EXAMPLES}",
                TIMES.join(", ")
            );
        }
        let (rate, of) = match amount.split_once(" of ") {
            Some((rate, of)) => (rate.trim(), Some(positive(of)?)),
            None => (amount, None),
        };
        let rate = rate.strip_suffix("/s").or_else(|| rate.strip_suffix("tps")).with_context(bad)?;
        Ok(Self { kind: kind("rate"), limit: Limit::AtLeast(positive(rate)?, of) })
    }
}

/// A target's figure of a load, as it was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Criterion {
    pub load: String,
    /// Its name in the plan's tables.
    pub figure: String,
    pub unit: Unit,
    /// In the unit.
    pub limit: f64,
    /// Of a rate: the operations of which a measured time is; none: a time is what is wanted.
    #[serde(skip)]
    operations: Option<f64>,
    /// What was wanted, in words.
    pub words: String,
}

impl Criterion {
    /// `figures` are those that were measured of the load.
    ///
    /// # Errors
    /// None of them is the one that is wanted, or several are; names them.
    pub fn of(target: &Target, want: &Want, figures: &[&str]) -> Result<Self> {
        let load = &target.load;
        let (name, limit) = match want.limit {
            Limit::AtLeast(rate, _) => ("rate", rate),
            Limit::AtMost(name, ns) => (name, ns),
        };
        let operations = match want.limit {
            Limit::AtLeast(_, of) => Some(of.unwrap_or(1.0)),
            Limit::AtMost(..) => None,
        };
        let figure = match (name, &want.limit) {
            ("elapsed", _) | (_, Limit::AtLeast(_, Some(_))) => {
                if let Some(kind) = &want.kind {
                    bail!(
                        "'{load}': a run's elapsed time is that of all its operations; leave out '{kind}.'"
                    );
                }
                "elapsed".into()
            }
            _ => Self::figure(load, want.kind.as_deref(), name, figures)?,
        };
        let unit = if operations.is_some() { Unit::PerSecond } else { Unit::Ns };
        let shown = if name == "rate" || figure == "elapsed" { name } else { &figure };
        let words = match unit {
            Unit::PerSecond => format!("{load}: at least {}", self::shown(limit, unit)),
            _ => format!("{load}: {shown} at most {}", self::shown(limit, unit)),
        };
        Ok(Self { load: load.clone(), figure, unit, limit, operations, words })
    }

    fn figure(load: &str, kind: Option<&str>, name: &str, figures: &[&str]) -> Result<String> {
        let there: Vec<&str> = figures
            .iter()
            .copied()
            .filter(|f| f.strip_suffix(name).is_some_and(|f| f.ends_with('.')))
            .collect();
        let found: Vec<&str> = match kind {
            Some(kind) => there.iter().copied().filter(|f| *f == format!("{kind}.{name}")).collect(),
            None => there.clone(),
        };
        match (&found[..], &there[..], name) {
            ([one], _, _) => Ok((*one).into()),
            ([], [], _) if figures == ["elapsed"] && name == "rate" => bail!(
                "'{load}' is a command, of which only the elapsed time is known: say how many operations a run has, as in '500/s of 200'"
            ),
            ([], [], _) => bail!("'{load}' has no figure {name}; there are: {}", figures.join(", ")),
            ([], _, _) => bail!("'{load}' has no figure {}.{name}; there are: {}", kind.unwrap_or_default(), there.join(", ")),
            _ => bail!("'{load}' has several kinds of operation: name one of {}", there.join(", ")),
        }
    }

    /// A measured figure as a time, ns: of a rate that of one operation, or of the run.
    pub fn time(&self, figure: f64) -> f64 {
        if self.unit == Unit::PerSecond && self.figure != "elapsed" {
            1e9 / figure
        } else {
            figure
        }
    }

    /// A time in the target's unit.
    pub fn value(&self, time: f64) -> f64 {
        self.operations.map_or(time, |operations| operations * 1e9 / time)
    }

    /// The longest time that meets it, ns.
    pub fn longest(&self) -> f64 {
        // Its own inverse.
        self.value(self.limit)
    }

    /// The quantile that microbenchmarks may tell it by, as in `p99`.
    pub fn quantile(&self) -> Option<&str> {
        TIMES[2..].iter().copied().find(|q| self.figure.ends_with(&format!(".{q}")))
    }

    /// `612/s`, `12.3 ms`.
    pub fn shown(&self, value: f64) -> String {
        shown(value, self.unit)
    }
}

fn shown(amount: f64, unit: Unit) -> String {
    match unit {
        Unit::PerSecond if amount >= 99.95 => format!("{}/s", units::digits(amount)),
        Unit::PerSecond => format!("{}/s", ratio(amount)),
        unit => value(amount, unit),
    }
}

/// The nearest of the loads that there are, for whoever wrote another.
pub fn unknown(load: &str, there: &[String]) -> String {
    let near = nearest(load, there).map(|n| format!("; did you mean '{n}'?")).unwrap_or_else(|| ".".into());
    format!("there is no load '{load}'{near} There are: {}", there.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn criterion(text: &str, figures: &[&str]) -> Result<Criterion> {
        let target: Target = text.parse()?;
        Criterion::of(&target, &target.wants[0], figures)
    }

    #[test]
    fn a_target_names_load_figure_and_limit() {
        let figures = ["elapsed", "request.rate", "request.mean", "request.p99", "request.p99.9"];
        for (text, figure, limit, longest, words) in [
            ("append, fsync: 500/s", "request.rate", 500.0, 2e6, "append, fsync: at least 500/s"),
            ("a: b: 2.5 tps", "request.rate", 2.5, 4e8, "a: b: at least 2.50/s"),
            ("a: p99 20ms", "request.p99", 2e7, 2e7, "a: request.p99 at most 20.0 ms"),
            ("a: request.p99.9 1 s", "request.p99.9", 1e9, 1e9, "a: request.p99.9 at most 1.00 s"),
            ("a: mean 20ms", "request.mean", 2e7, 2e7, "a: request.mean at most 20.0 ms"),
            ("a: elapsed 3s", "elapsed", 3e9, 3e9, "a: elapsed at most 3.00 s"),
            ("a: 500/s of 200", "elapsed", 500.0, 4e8, "a: at least 500/s"),
        ] {
            let got = criterion(text, &figures).expect(text);
            let is = (got.figure.as_str(), got.limit, got.longest(), got.words.as_str());
            assert_eq!(is, (figure, limit, longest, words));
        }
        let two: Target = "a: 500/s, p99 20ms".parse().expect("two");
        assert_eq!(two.wants.len(), 2);
        let rate = criterion("a: 500/s", &figures).expect("a rate");
        assert_eq!((rate.time(250.0), rate.value(4e6), rate.quantile()), (4e6, 250.0, None));
        let elapsed = criterion("a: 500/s of 200", &figures).expect("a rate");
        assert_eq!((elapsed.time(4e8), elapsed.value(4e8)), (4e8, 500.0));
        assert_eq!(criterion("a: p99 1s", &figures).expect("one").quantile(), Some("p99"));
    }

    #[test]
    fn mistakes_are_named_with_what_there_is() {
        let load = ["elapsed", "read.p99", "read.rate", "write.p99", "write.rate"];
        for (text, figures, words) in [
            ("fsync", &load[..], &["'fsync' is no target", "500/s"][..]),
            ("a: 500", &load, &["'500' is no limit", "500/s of 200"]),
            ("a: 0/s", &load, &["no limit"]),
            ("a: -5/s", &load, &["no limit"]),
            ("a: 5/s of none", &load, &["no limit"]),
            ("a:", &load, &["no figure ''"]),
            ("a: p98 20ms", &load, &["'p98'", "p99.9"]),
            ("a: read.p99 20", &load, &["read.p99", "not a duration"]),
            ("a: elapsed 0s", &load, &["above 0"]),
            ("a: 500/s", &load, &["several kinds", "read.rate, write.rate"]),
            ("a: raed.p99 1s", &load, &["has no figure raed.p99", "read.p99, write.p99"]),
            ("a: mean 1s", &load, &["'a' has no figure mean", "read.p99"]),
            ("a: 500/s", &["elapsed"], &["'a' is a command", "500/s of 200"]),
            ("a: p99 1s", &["elapsed"], &["no figure p99", "elapsed"]),
        ] {
            let said = format!("{:#}", criterion(text, figures).expect_err(text));
            assert!(words.iter().all(|w| said.contains(w)), "{text}: {said}");
        }
        assert_eq!(criterion("a: write.rate 500/s", &load).expect("one").figure, "write.rate");
    }
}
