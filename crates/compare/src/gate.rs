// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--fail-above`: a threshold that a difference must not cross.

use super::lines::Line;
use super::measure::ELAPSED;
use anyhow::{bail, Context, Result};
use plumb_analysis::NOT_VALID;
use serde::Serialize;
use std::process::ExitCode;

/// A threshold as it was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    pub(crate) metric: String,
    pub(crate) percent: f64,
}

/// Exit code when a threshold was crossed.
const CROSSED: u8 = 1;

/// What a comparison ends with: that it is not valid comes before that a threshold was crossed.
pub fn exit_code(valid: bool, gates: &[Verdict]) -> ExitCode {
    match gates.iter().any(|g| g.crossed) {
        _ if !valid => ExitCode::from(NOT_VALID),
        true => ExitCode::from(CROSSED),
        false => ExitCode::SUCCESS,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    pub metric: String,
    /// Growth that is allowed, %.
    pub percent: f64,
    /// Growth from A to B, %; none where A is zero.
    pub growth: Option<f64>,
    /// Lower end of its 95 % interval, %; none where no error is known.
    pub low: Option<f64>,
    pub crossed: bool,
    pub words: String,
}

impl Gate {
    /// `5%` or `METRIC=5%`.
    ///
    /// # Errors
    /// No percentage; says what is one.
    pub fn parse(text: &str) -> Result<Self> {
        let (metric, number) = text.rsplit_once('=').unwrap_or((ELAPSED, text));
        let percent = number
            .strip_suffix('%')
            .and_then(|n| n.trim().parse::<f64>().ok())
            .filter(|p| p.is_finite() && *p >= 0.0)
            .with_context(|| {
                format!("--fail-above '{text}': '{number}' is not a percentage; examples: 5%, cpu=5%")
            })?;
        Ok(Self { metric: metric.into(), percent })
    }

    /// Judges the lines. With an error known, only what is above with confidence crosses.
    ///
    /// # Errors
    /// There is no such figure, or its length was chosen by who recorded.
    pub fn judge(&self, lines: &[Line], length_given: bool) -> Result<Verdict> {
        let Some(line) = lines.iter().find(|l| l.key == self.metric) else {
            let known: Vec<&str> = lines.iter().map(|l| l.key.as_str()).collect();
            bail!("--fail-above: A and B have no figure '{}'; they have: {}", self.metric, known.join(", "));
        };
        if self.metric == ELAPSED && length_given {
            bail!("--fail-above: how long these were recorded was chosen, so it says nothing of speed; name a METRIC, as in cpu=5%");
        }
        let growth = line.relative().map(|r| r * 100.0);
        let low = line.relative_low.map(|r| r * 100.0);
        let crossed = match (line.error_known(), low) {
            (true, Some(low)) => low > self.percent,
            // A resample of A may be zero, and has no growth then.
            (true, None) => line.low.is_some_and(|low| low > line.a.abs() * self.percent / 100.0),
            (false, _) => growth.map_or(line.difference > 0.0, |g| g > self.percent),
        };
        let by = growth.map_or_else(|| "from zero".into(), |g| format!("{g:+.1} %"));
        let error = match (low, line.low) {
            (Some(low), _) => format!("lower end of the 95 % interval {low:+.1} %"),
            (None, Some(low)) => format!("lower end of the difference's 95 % interval {low:+.3}"),
            (None, None) => "no error is known".into(),
        };
        let than = if crossed { "above" } else { "not above" };
        let sure = if line.error_known() && !crossed && growth.is_some_and(|g| g > self.percent) {
            " with confidence"
        } else {
            ""
        };
        let words = format!("{}: {by} ({error}), {than} {} %{sure}.", line.name, self.percent);
        Ok(Verdict { metric: self.metric.clone(), percent: self.percent, growth, low, crossed, words })
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::from_measures;
    use super::super::measure::{Group, Measure, Unit};
    use super::*;

    fn set(values: &[f64]) -> Vec<Vec<Measure>> {
        let measure = |value: &f64| Measure {
            group: Group::Metric,
            key: "cpu".into(),
            name: "CPU used".into(),
            unit: Unit::Seconds,
            value: Some(*value),
            absent_is_zero: true,
        };
        values.iter().map(|v| vec![measure(v)]).collect()
    }

    fn crossed(gate: &str, a: &[f64], b: &[f64]) -> bool {
        let lines = from_measures(&set(a), &set(b));
        Gate::parse(gate).expect("a gate").judge(&lines, false).expect("a verdict").crossed
    }

    #[test]
    fn words_are_understood_or_refused() {
        let gate = |metric: &str, percent| Gate { metric: metric.into(), percent };
        assert_eq!(Gate::parse("5%").expect("5 %"), gate("elapsed", 5.0));
        assert_eq!(Gate::parse("block.device=2.5 %").expect("2.5 %"), gate("block.device", 2.5));
        for bad in ["5", "cpu", "cpu=", "=%", "-1%", "NaN%", ""] {
            let error = Gate::parse(bad).expect_err(bad).to_string();
            assert!(error.contains("cpu=5%"), "{error}");
        }
        let error =
            Gate::parse("cqu=5%").expect("words").judge(&from_measures(&set(&[1.0]), &set(&[1.0])), false);
        let error = error.expect_err("no such figure").to_string();
        assert!(error.contains("'cqu'") && error.contains("cpu"), "{error}");
    }

    #[test]
    fn of_single_runs_the_plain_growth_counts() {
        assert!(crossed("cpu=5%", &[1.0], &[1.06]));
        assert!(!crossed("cpu=5%", &[1.0], &[1.04]));
        assert!(!crossed("cpu=5%", &[1.0], &[0.5]), "faster is not above");
        assert!(crossed("cpu=5%", &[0.0], &[0.1]));
        assert!(!crossed("cpu=5%", &[0.0], &[0.0]));
    }

    #[test]
    fn of_sets_only_what_is_above_with_confidence() {
        let a = [1.0, 1.01, 0.99, 1.0, 1.02];
        assert!(crossed("cpu=5%", &a, &[1.2, 1.21, 1.19, 1.2, 1.22]));
        assert!(!crossed("cpu=50%", &a, &[1.2, 1.21, 1.19, 1.2, 1.22]));
        assert!(!crossed("cpu=5%", &a, &[1.0, 1.3, 0.9, 1.1, 1.2]), "wide");
        assert!(!crossed("cpu=0%", &a, &a));
        assert!(crossed("cpu=5%", &[0.0; 5], &[0.1; 5]));
    }
}
