// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which version to measure next, and when to stop.

use super::fit::Observation;
use super::posterior::{posterior, Posterior};
use crate::repetitions::median;
use crate::student;

/// Runs of each end before anything is concluded.
const FEWEST: usize = 4;
/// Runs of the versions on both sides of the change before it is told.
const NEIGHBOURS: usize = 3;
/// One run in so many is of an end: the drift of the machine shows in those, and the levels do.
const ANCHOR: usize = 4;
/// A version that was measured (and built) already is taken where it brings so much of what the best one would.
const NEARLY: f64 = 0.9;
/// The middle is measured once it is so improbable that the ends do not differ at all.
const DIFFERENT: f64 = 0.2;
/// Standard errors by which a version may lie off its level.
const STRAY: f64 = 3.5;
/// Part of the error that the posterior may reach: the rest is for what its model leaves out.
const MARGIN: f64 = 0.7;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Question {
    /// Versions, the first and the last included: at least 2.
    pub versions: usize,
    /// Most probability of a wrong answer.
    pub error: f64,
    /// Smallest change of interest, as a part: 0.02 for 2 %.
    pub least: f64,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    Measure(usize),
    /// The change came with one of these versions, the last included; between them none can be measured.
    Found {
        first: usize,
        last: usize,
    },
    /// First and last version differ by less than asked, if at all.
    NoDifference,
}

/// A search under way; the same runs lead to the same next one.
#[derive(Debug, Clone)]
pub struct Search {
    question: Question,
    runs: Vec<Observation>,
    skipped: Vec<bool>,
}

impl Search {
    /// Of nothing measured yet.
    pub fn new(question: Question) -> Self {
        Search { question, runs: Vec::new(), skipped: vec![false; question.versions] }
    }

    /// A run measured `value` (above 0) of a version.
    pub fn add(&mut self, version: usize, value: f64) {
        self.runs.push(Observation { version, value: value.ln() });
    }

    /// A version cannot be measured; what was measured of it does not count. Not of the ends.
    pub fn skip(&mut self, version: usize) {
        self.skipped[version] = true;
        self.runs.retain(|r| r.version != version);
    }

    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    fn last(&self) -> usize {
        self.question.versions - 1
    }

    fn count(&self, version: usize) -> usize {
        self.runs.iter().filter(|r| r.version == version).count()
    }

    /// What the runs so far tell; none before both ends were measured often enough.
    pub fn posterior(&self) -> Option<Posterior> {
        (self.count(0) >= FEWEST && self.count(self.last()) >= FEWEST)
            .then(|| posterior(&self.runs, self.last(), self.least()))
    }

    fn least(&self) -> f64 {
        self.question.least.ln_1p()
    }

    /// Runs of versions, first and last each, between which none can be measured.
    fn groups(&self) -> Vec<(usize, usize)> {
        let usable: Vec<usize> = (0..self.question.versions).filter(|v| !self.skipped[*v]).collect();
        usable.windows(2).map(|pair| (pair[0] + 1, pair[1])).collect()
    }

    /// The end to measure next: good, bad, bad, good, so that a steady drift falls on both alike.
    fn end(&self) -> Next {
        let ends = self.count(0) + self.count(self.last());
        Next::Measure(if [0, 3].contains(&(ends % 4)) { 0 } else { self.last() })
    }

    /// What to do next.
    pub fn next(&self) -> Next {
        self.next_after(self.posterior().as_ref())
    }

    /// The same where [`Search::posterior`] is known.
    pub fn next_after(&self, posterior: Option<&Posterior>) -> Next {
        let Some(posterior) = posterior else { return self.end() };
        let (low, high) = interval(posterior, self.runs.len());
        if low > -self.least() && high < self.least() {
            return Next::NoDifference;
        }
        let probability =
            |(first, last): (usize, usize)| posterior.changed[first - 1..last].iter().sum::<f64>();
        let groups = self.groups();
        let best = groups.iter().copied().max_by(|a, b| probability(*a).total_cmp(&probability(*b)));
        let (first, last) = best.unwrap_or((1, self.last()));
        if probability((first, last)) >= 1.0 - MARGIN * self.question.error {
            let few = [first - 1, last].into_iter().find(|v| self.count(*v) < NEIGHBOURS);
            return few.map_or(Next::Found { first, last }, Next::Measure);
        }
        let is_end = |run: &Observation| [0, self.last()].contains(&run.version);
        let since = self.runs.iter().rev().take_while(|r| !is_end(r)).count();
        if posterior.none > DIFFERENT || since + 1 >= ANCHOR {
            return self.end();
        }
        self.middle(posterior).map_or_else(|| self.end(), Next::Measure)
    }

    /// Versions that the two levels do not explain, since the metric changed more than once or not at once: of three
    /// runs or more, whose median lies off by [`STRAY`] standard errors (from the spread of runs of the same version)
    /// and by half of the smallest change of interest.
    pub fn strays(&self, posterior: &Posterior) -> Vec<Stray> {
        let own = |version: usize| {
            let own = self.runs.iter().zip(&posterior.best.rest).filter(move |(r, _)| r.version == version);
            let rest: Vec<f64> = own.map(|(_, rest)| rest * posterior.best.scale).collect();
            (rest.len() >= 3).then(|| (median(&rest), rest))
        };
        let all: Vec<_> = (0..=self.last()).filter_map(|v| Some((v, own(v)?))).collect();
        let spread = all.iter().flat_map(|(_, (middle, rest))| rest.iter().map(move |r| (r - middle).abs()));
        let noise = 1.4826 * median(&spread.collect::<Vec<_>>());
        let stray = |(version, (by, rest)): (usize, (f64, Vec<f64>))| {
            // A median's standard error is 1.25 times a mean's.
            let error = 1.25 * noise / (rest.len() as f64).sqrt();
            (by.abs() > (STRAY * error).max(self.least() / 2.0)).then_some(Stray { version, by })
        };
        all.into_iter().filter_map(stray).collect()
    }

    /// The version whose side of the change is least known: the median of the posterior, or one close to it.
    fn middle(&self, posterior: &Posterior) -> Option<usize> {
        let mut below = 0.0;
        let all: f64 = posterior.changed.iter().sum();
        let mut information = Vec::new();
        for (i, probability) in posterior.changed.iter().enumerate().take(self.last() - 1) {
            below += probability / all;
            if !self.skipped[i + 1] {
                information.push((i + 1, entropy(below)));
            }
        }
        let most = information.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let measured = information.iter().filter(|(v, bits)| *bits >= NEARLY * most.1 && self.count(*v) > 0);
        Some(measured.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(most.0, |(v, _)| *v))
    }
}

/// A version whose own runs lie elsewhere than its side of the change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stray {
    pub version: usize,
    /// By how much, of logarithms.
    pub by: f64,
}

/// Bits of an event.
fn entropy(p: f64) -> f64 {
    let part = |p: f64| if p > 0.0 { -p * p.log2() } else { 0.0 };
    part(p) + part(1.0 - p)
}

/// 95 % interval of the difference of the logarithms.
pub fn interval(posterior: &Posterior, runs: usize) -> (f64, f64) {
    let t = student::quantile((runs.saturating_sub(2)).max(1) as f64);
    let best = &posterior.best;
    (best.difference - t * best.error, best.difference + t * best.error)
}
