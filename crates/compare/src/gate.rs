// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--fail-above` and `--fail-below`: thresholds that a difference must not cross.

use super::lines::Line;
use super::measure::ELAPSED;
use anyhow::{bail, Result};
use plumb_analysis::NOT_VALID;
use serde::Serialize;
use std::process::ExitCode;

/// A threshold as it was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    pub(crate) metric: String,
    pub(crate) percent: f64,
    pub(crate) way: Way,
}

/// Which way a figure must not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Above,
    Below,
}

impl Way {
    pub(crate) fn option(self) -> &'static str {
        match self {
            Self::Above => "--fail-above",
            Self::Below => "--fail-below",
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Above => "above",
            Self::Below => "below",
        }
    }

    /// The change, positive in the direction that fails.
    pub(crate) fn up(self, change: f64) -> f64 {
        match self {
            Self::Above => change,
            Self::Below => -change,
        }
    }

    /// The end of an interval that is nearest to no change.
    pub(crate) fn near<T>(self, low: T, high: T) -> T {
        match self {
            Self::Above => low,
            Self::Below => high,
        }
    }
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
    /// Growth that is allowed, %; a fall where `below`.
    pub percent: f64,
    /// Whether it must not fall by more, rather than grow.
    pub below: bool,
    /// Growth from A to B, %; none where A is zero.
    pub growth: Option<f64>,
    /// End of its 95 % interval that is nearest to no growth, %; none where no error is known.
    pub low: Option<f64>,
    pub crossed: bool,
    pub words: String,
}

impl Gate {
    /// Those of `--fail-above` and of `--fail-below`.
    ///
    /// # Errors
    /// As [`Gate::parse`].
    pub fn all(above: &[String], below: &[String]) -> Result<Vec<Self>> {
        let above = above.iter().map(|text| Self::parse(Way::Above, text));
        above.chain(below.iter().map(|text| Self::parse(Way::Below, text))).collect()
    }

    /// `METRIC=5%`, above also `5%`.
    ///
    /// # Errors
    /// No percentage, or no metric; says what is one.
    pub fn parse(way: Way, text: &str) -> Result<Self> {
        let option = way.option();
        let (metric, number) = text.rsplit_once('=').unwrap_or((ELAPSED, text));
        let percent = number
            .strip_suffix('%')
            .and_then(|n| n.trim().parse::<f64>().ok())
            .filter(|p| p.is_finite() && *p >= 0.0);
        let Some(percent) = percent else {
            let examples = if way == Way::Above { "5%, cpu=5%" } else { "requests=5%" };
            bail!("{option} '{text}': '{number}' is not a percentage; examples: {examples}");
        };
        if way == Way::Below && !text.contains('=') {
            bail!("{option} '{text}': name the figure that must not fall, as in requests={text}");
        }
        Ok(Self { metric: metric.into(), percent, way })
    }

    /// Judges the lines. With an error known, only what is above with confidence crosses.
    ///
    /// # Errors
    /// There is no such figure, or its length was chosen by who recorded.
    pub fn judge(&self, lines: &[Line], length_given: bool) -> Result<Verdict> {
        let Some(line) = lines.iter().find(|l| l.key == self.metric) else {
            let known: Vec<&str> = lines.iter().map(|l| l.key.as_str()).collect();
            let (option, metric) = (self.way.option(), &self.metric);
            bail!("{option}: A and B have no figure '{metric}'; they have: {}", known.join(", "));
        };
        let way = self.way;
        if self.metric == ELAPSED && length_given {
            bail!("{}: how long these were recorded was chosen, so it says nothing of speed; name a METRIC, as in cpu=5%", way.option());
        }
        let growth = line.relative().map(|r| r * 100.0);
        let low = way.near(line.relative_low, line.relative_high).map(|r| r * 100.0);
        let near = way.near(line.low, line.high);
        let crossed = match (line.error_known(), low) {
            (true, Some(low)) => way.up(low) > self.percent,
            // A resample of A may be zero, and has no growth then.
            (true, None) => near.is_some_and(|near| way.up(near) > line.a.abs() * self.percent / 100.0),
            (false, _) => growth.map_or(way.up(line.difference) > 0.0, |g| way.up(g) > self.percent),
        };
        let by = growth.map_or_else(|| "from zero".into(), |g| format!("{g:+.1} %"));
        let end = way.near("lower", "upper");
        let error = match (low, near) {
            (Some(low), _) => format!("{end} end of the 95 % interval {low:+.1} %"),
            (None, Some(near)) => format!("{end} end of the difference's 95 % interval {near:+.3}"),
            (None, None) => "no error is known".into(),
        };
        let not = if crossed { "" } else { "not " };
        let sure = if line.error_known() && !crossed && growth.is_some_and(|g| way.up(g) > self.percent) {
            " with confidence"
        } else {
            ""
        };
        let words = format!("{}: {by} ({error}), {not}{}{sure}.", line.name, self.limit());
        Ok(self.verdict((growth, low), crossed, words))
    }

    /// `above 5 %`, `below -5 %`.
    pub(crate) fn limit(&self) -> String {
        let sign = self.way.near("", if self.percent > 0.0 { "-" } else { "" });
        format!("{} {sign}{} %", self.way.word(), self.percent)
    }

    pub(crate) fn verdict(
        &self,
        (growth, low): (Option<f64>, Option<f64>),
        crossed: bool,
        words: String,
    ) -> Verdict {
        let (metric, below) = (self.metric.clone(), self.way == Way::Below);
        Verdict { metric, percent: self.percent, below, growth, low, crossed, words }
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

    fn judged(way: Way, gate: &str, a: &[f64], b: &[f64]) -> Verdict {
        let lines = from_measures(&set(a), &set(b));
        Gate::parse(way, gate).expect("a gate").judge(&lines, false).expect("a verdict")
    }

    fn crossed(gate: &str, a: &[f64], b: &[f64]) -> bool {
        judged(Way::Above, gate, a, b).crossed
    }

    #[test]
    fn words_are_understood_or_refused() {
        let way = Way::Above;
        let gate = |metric: &str, percent| Gate { metric: metric.into(), percent, way };
        assert_eq!(Gate::parse(way, "5%").expect("5 %"), gate("elapsed", 5.0));
        assert_eq!(Gate::parse(way, "block.device=2.5 %").expect("2.5 %"), gate("block.device", 2.5));
        for bad in ["5", "cpu", "cpu=", "=%", "-1%", "NaN%", ""] {
            let error = Gate::parse(way, bad).expect_err(bad).to_string();
            assert!(error.contains("cpu=5%"), "{error}");
            Gate::parse(Way::Below, bad).expect_err(bad);
        }
        let error = Gate::parse(Way::Below, "5%").expect_err("of what").to_string();
        assert!(error.contains("--fail-below") && error.contains("requests=5%"), "{error}");
        let gate = Gate::parse(way, "cqu=5%").expect("words");
        let error = gate.judge(&from_measures(&set(&[1.0]), &set(&[1.0])), false);
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

    #[test]
    fn what_must_not_fall_is_judged_by_its_interval_s_upper_end() {
        let below = |gate: &str, a: &[f64], b: &[f64]| judged(Way::Below, gate, a, b);
        assert!(below("cpu=5%", &[1.0], &[0.94]).crossed && !below("cpu=5%", &[1.0], &[0.96]).crossed);
        assert!(!below("cpu=5%", &[1.0], &[2.0]).crossed, "grown is not below");
        let a = [1.0, 1.01, 0.99, 1.0, 1.02];
        let fell = below("cpu=5%", &a, &[0.8, 0.81, 0.79, 0.8, 0.82]);
        assert!(fell.crossed && fell.below && fell.words.ends_with("below -5 %."), "{}", fell.words);
        assert!(fell.low.is_some_and(|near| (-20.0..-15.0).contains(&near)), "{:?}", fell.low);
        let wide = below("cpu=5%", &a, &[1.0, 0.7, 1.1, 0.9, 0.8]);
        assert!(!wide.crossed && wide.words.ends_with("not below -5 % with confidence."), "{}", wide.words);
        assert!(!below("cpu=0%", &a, &a).crossed && !below("cpu=5%", &[0.0; 5], &[0.1; 5]).crossed);
    }
}
