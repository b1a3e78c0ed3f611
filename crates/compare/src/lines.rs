// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One line for every figure: A, B, the signed difference and its error.

use super::measure::{Group, Measure, Unit, ELAPSED, REQUEST, THREADS_TIME};
use super::side::Side;
use plumb_stats::repetitions::{self, Difference};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Parts of the account below this share of both sides' time are not worth a line.
const WORTH_A_LINE: f64 = 1.0 / 5000.0;
/// Devices with less than this share of a side's requests are not worth lines.
const WORTH_A_DEVICE: f64 = 0.01;
/// Spans with less than this share of the threads' time in both sides together are not, %.
const WORTH_A_SPAN: f64 = 0.1;
/// A count that changes by this much from nothing is half as large an effect as one can be.
const SMALL_COUNT: f64 = 10.0;

/// How sure a difference is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// No error is known, or the interval holds zero.
    None,
    /// The interval excludes zero; of so many lines some do by chance.
    Interval,
    /// And it holds against the number of lines that were tested.
    Found,
}

/// One figure of both sides.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    pub group: Group,
    /// Its name for thresholds.
    pub key: String,
    pub name: String,
    pub unit: Unit,
    /// Whether it stands in a table: too small ones do not.
    pub shown: bool,
    /// A's value, of a set the median.
    pub a: f64,
    pub b: f64,
    pub difference: f64,
    /// b / a; none where a is zero.
    pub ratio: Option<f64>,
    /// A's mean; means of parts add up, medians need not.
    pub mean_a: f64,
    pub mean_b: f64,
    pub mean_difference: f64,
    /// 95 % bootstrap interval of the difference, lower end.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// 95 % bootstrap interval of the difference as a part of a, lower end.
    pub relative_low: Option<f64>,
    pub relative_high: Option<f64>,
    /// Smallest difference that would be found four times in five.
    pub smallest_detectable: Option<f64>,
    /// p of the rank-sum permutation test.
    pub p: Option<f64>,
    /// The same against the number of lines tested (Benjamini and Hochberg); none where it was not among them.
    pub q: Option<f64>,
    pub mark: Mark,
    /// Parts of the account and of the path: A's share of the total, %.
    pub share_a: Option<f64>,
    pub share_b: Option<f64>,
    /// Points of share, b - a.
    pub share_difference: Option<f64>,
    /// A's values, one a run.
    pub values_a: Vec<f64>,
    pub values_b: Vec<f64>,
}

impl Line {
    fn new(like: &Measure, values_a: Vec<f64>, values_b: Vec<f64>) -> Self {
        let (a, b) = (repetitions::median(&values_a), repetitions::median(&values_b));
        let (mean_a, mean_b) = (repetitions::mean(&values_a), repetitions::mean(&values_b));
        let known = Difference::of(&values_a, &values_b);
        Self {
            group: like.group,
            key: like.key.clone(),
            name: like.name.clone(),
            unit: like.unit,
            shown: a != 0.0 || b != 0.0,
            a,
            b,
            difference: b - a,
            ratio: (a != 0.0).then(|| b / a),
            mean_a,
            mean_b,
            mean_difference: mean_b - mean_a,
            low: known.map(|d| d.interval.low),
            high: known.map(|d| d.interval.high),
            relative_low: known.and_then(|d| Some(d.relative?.low)),
            relative_high: known.and_then(|d| Some(d.relative?.high)),
            smallest_detectable: known.map(|d| d.smallest_detectable()),
            p: known.map(|d| d.p),
            q: None,
            mark: match known {
                // The question itself; the other lines are judged together, later.
                Some(d) if like.key == ELAPSED && d.found() => Mark::Found,
                Some(d) if d.interval.excludes_zero() => Mark::Interval,
                _ => Mark::None,
            },
            share_a: None,
            share_b: None,
            share_difference: None,
            values_a,
            values_b,
        }
    }

    /// The difference as a part of A; none where A is zero.
    pub fn relative(&self) -> Option<f64> {
        (self.a != 0.0).then(|| self.difference / self.a.abs())
    }

    /// Whether the values allow an error.
    pub fn error_known(&self) -> bool {
        self.low.is_some()
    }

    /// For the order of a table. A time is weighed by what it is a part of, so that a
    /// small one is small however often it doubled; so is a small count.
    fn effect(&self, whole: &Whole) -> f64 {
        let larger = self.a.abs().max(self.b.abs());
        let of = match self.unit {
            Unit::Seconds => whole.elapsed,
            Unit::Milliseconds => whole.slowest,
            Unit::Percent => 100.0,
            Unit::Count => larger + SMALL_COUNT,
            _ => larger,
        };
        self.difference.abs() / of.max(f64::MIN_POSITIVE)
    }
}

/// What differences of times are weighed by.
struct Whole {
    /// Elapsed time of the slower side, s.
    elapsed: f64,
    /// Longest mean time, ms.
    slowest: f64,
}

impl Whole {
    fn of(lines: &[Line]) -> Self {
        let largest = |counts: &dyn Fn(&Line) -> bool| {
            lines.iter().filter(|l| counts(l)).map(|l| l.a.max(l.b)).fold(0.0, f64::max)
        };
        Self { elapsed: largest(&|l| l.key == ELAPSED), slowest: largest(&|l| l.unit == Unit::Milliseconds) }
    }
}

/// Values of a figure, one a run of the side; runs in which it has none are left out.
fn values(side: &[BTreeMap<&str, &Measure>], like: &Measure) -> Vec<f64> {
    let of = |run: &BTreeMap<&str, &Measure>| match run.get(like.key.as_str()) {
        Some(measure) => measure.value,
        None => like.absent_is_zero.then_some(0.0),
    };
    side.iter().filter_map(of).collect()
}

/// Every figure that both sides have, table by table, the biggest effect first.
pub fn lines(a: &Side, b: &Side) -> Vec<Line> {
    let of = |side: &Side| side.members.iter().map(|m| m.measures.clone()).collect::<Vec<_>>();
    from_measures(&of(a), &of(b))
}

/// The same of the figures alone, one list a run.
pub fn from_measures(a: &[Vec<Measure>], b: &[Vec<Measure>]) -> Vec<Line> {
    let (runs_a, runs_b) = (by_key(a), by_key(b));
    // Where only some runs have an account of time, the others' zeros are not times.
    let accounted = |run: &Vec<Measure>| run.iter().any(|m| m.group == Group::Account);
    let all = || a.iter().chain(b);
    let accounts = all().all(accounted) || !all().any(accounted);
    // Nor is a request's time comparable with a command's, or with nothing.
    let of_requests = |run: &Vec<Measure>| run.iter().any(|m| m.key.starts_with(REQUEST));
    let paths = all().all(of_requests) || !all().any(of_requests);
    let mut seen = BTreeSet::new();
    let mut out = Vec::new();
    for measure in all().flatten() {
        let timeless = measure.group == Group::Account || is_cpu(&measure.key);
        let pathless = measure.group == Group::Path && !paths;
        if !seen.insert(measure.key.as_str()) || (timeless && !accounts) || pathless {
            continue;
        }
        let (in_a, in_b) = (values(&runs_a, measure), values(&runs_b, measure));
        if !in_a.is_empty() && !in_b.is_empty() {
            out.push(Line::new(measure, in_a, in_b));
        }
    }
    shares(&mut out);
    hide_small(&mut out);
    test_together(&mut out);
    let whole = Whole::of(&out);
    let last = |l: &Line| l.key == THREADS_TIME;
    out.sort_by(|x, y| {
        (x.group, last(x), x.mark != Mark::Found)
            .cmp(&(y.group, last(y), y.mark != Mark::Found))
            .then_with(|| y.effect(&whole).total_cmp(&x.effect(&whole)))
    });
    out
}

fn by_key(runs: &[Vec<Measure>]) -> Vec<BTreeMap<&str, &Measure>> {
    runs.iter().map(|run| run.iter().map(|m| (m.key.as_str(), m)).collect()).collect()
}

fn is_cpu(key: &str) -> bool {
    matches!(key, "cpu" | "cpu-wait" | "others-cpu" | "recorder-cpu" | "switches" | "preemptions" | "threads")
}

/// Shares of the account's total and of the path's, in %.
fn shares(lines: &mut [Line]) {
    let total = lines.iter().find(|l| l.key == THREADS_TIME).map_or((0.0, 0.0), |l| (l.a, l.b));
    let path =
        lines.iter().filter(|l| l.group == Group::Path).fold((0.0, 0.0), |sum, l| (sum.0 + l.a, sum.1 + l.b));
    for line in lines {
        let whole = match line.group {
            Group::Account => total,
            Group::Path => path,
            _ => continue,
        };
        let share = |part: f64, whole: f64| if whole > 0.0 { part * 100.0 / whole } else { 0.0 };
        let (a, b) = (share(line.a, whole.0), share(line.b, whole.1));
        (line.share_a, line.share_b, line.share_difference) = (Some(a), Some(b), Some(b - a));
    }
}

/// By size alone, not by the difference, so that what is left may be tested.
fn hide_small(lines: &mut [Line]) {
    let total = lines.iter().find(|l| l.key == THREADS_TIME).map_or(0.0, |l| l.a + l.b);
    let requests: Vec<(String, f64, f64)> = lines
        .iter()
        .filter(|l| l.group == Group::Device)
        .filter_map(|l| Some((l.key.strip_suffix(".requests")?.to_string(), l.a, l.b)))
        .collect();
    let all = requests.iter().fold((0.0, 0.0), |sum, r| (sum.0 + r.1, sum.1 + r.2));
    let busy: BTreeSet<&str> = requests
        .iter()
        .filter(|(_, a, b)| *a > all.0 * WORTH_A_DEVICE || *b > all.1 * WORTH_A_DEVICE)
        .map(|(name, ..)| name.as_str())
        .collect();
    // Points of share of both sides together.
    let few: BTreeSet<String> = lines
        .iter()
        .filter(|l| l.group == Group::Span && l.a + l.b < WORTH_A_SPAN)
        .filter_map(|l| Some(l.key.strip_suffix(".share")?.to_string()))
        .collect();
    for line in lines.iter_mut() {
        line.shown &= match line.group {
            Group::Account => line.a + line.b > total * WORTH_A_LINE,
            Group::Span => !few.contains(line.key.rsplit_once('.').map_or("", |(name, _)| name)),
            Group::Device => line.key.rsplit_once('.').is_some_and(|(name, _)| busy.contains(name)),
            _ => true,
        };
    }
}

/// Lines that are tested together: all that are shown and vary, but for the
/// elapsed time, which is the question and is judged alone.
fn test_together(lines: &mut [Line]) {
    let varies = |l: &Line| l.values_a.iter().chain(&l.values_b).any(|v| *v != l.values_a[0]);
    let tested: Vec<usize> = (0..lines.len())
        .filter(|i| {
            let l = &lines[*i];
            l.shown && l.key != ELAPSED && l.p.is_some() && varies(l)
        })
        .collect();
    let p: Vec<f64> = tested.iter().filter_map(|i| lines[*i].p).collect();
    for (i, q) in tested.iter().zip(repetitions::false_discovery(&p)) {
        let line = &mut lines[*i];
        line.q = Some(q);
        if line.mark == Mark::Interval && q <= repetitions::LEVEL {
            line.mark = Mark::Found;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(figures: &[(Group, &str, Unit, f64)]) -> Vec<Measure> {
        let measure = |(group, key, unit, value): &(Group, &str, Unit, f64)| Measure {
            group: *group,
            key: key.to_string(),
            name: key.to_string(),
            unit: *unit,
            value: Some(*value),
            absent_is_zero: true,
        };
        figures.iter().map(measure).collect()
    }

    fn account(elapsed: f64, parts: &[(&str, f64)]) -> Vec<Measure> {
        let total = parts.iter().map(|p| p.1).sum();
        let mut figures = vec![
            (Group::Elapsed, ELAPSED, Unit::Seconds, elapsed),
            (Group::Account, THREADS_TIME, Unit::Seconds, total),
        ];
        figures.extend(parts.iter().map(|(k, v)| (Group::Account, *k, Unit::Seconds, *v)));
        run(&figures)
    }

    fn line<'a>(lines: &'a [Line], key: &str) -> &'a Line {
        lines.iter().find(|l| l.key == key).unwrap_or_else(|| panic!("no line {key}"))
    }

    #[test]
    fn the_difference_of_the_totals_is_the_sum_of_the_signed_parts() {
        let a = [account(1.0, &[("running", 0.75), ("block.device", 0.25)])];
        let b = [account(2.0, &[("running", 0.5), ("block.device", 1.0), ("preempted", 0.5)])];
        let lines = from_measures(&a, &b);
        let parts: Vec<&Line> =
            lines.iter().filter(|l| l.group == Group::Account && l.key != THREADS_TIME).collect();
        let sum: f64 = parts.iter().map(|l| l.difference).sum();
        assert_eq!(sum, line(&lines, THREADS_TIME).difference);
        assert_eq!(sum, 1.0);
        assert_eq!(line(&lines, "running").difference, -0.25, "B less A");
        assert_eq!(line(&lines, "running").ratio, Some(0.5 / 0.75));
        assert_eq!(line(&lines, "preempted").ratio, None, "A has none of it");
        assert_eq!(line(&lines, "running").share_difference, Some(25.0 - 75.0));
        let order: Vec<&str> = lines.iter().map(|l| l.key.as_str()).collect();
        assert_eq!(order, [ELAPSED, "block.device", "preempted", "running", THREADS_TIME]);
        assert!(lines.iter().all(|l| l.mark == Mark::None && l.p.is_none()), "single runs have no error");
    }

    #[test]
    fn of_sets_the_means_add_up() {
        let runs = |scale: f64| -> Vec<Vec<Measure>> {
            [(1.0, 9.0), (2.0, 1.0), (7.0, 4.0)]
                .map(|(x, y)| account(x + y, &[("running", x * scale), ("timer", y * scale)]))
                .into()
        };
        let lines = from_measures(&runs(1.0), &runs(3.0));
        let sum: f64 = ["running", "timer"].iter().map(|k| line(&lines, k).mean_difference).sum();
        assert!((sum - line(&lines, THREADS_TIME).mean_difference).abs() < 1e-9);
        assert_eq!(line(&lines, "timer").a, 4.0, "the median");
    }

    #[test]
    fn what_differs_is_marked_and_what_does_not_is_not() {
        let set = |running: f64, timer: f64| -> Vec<Vec<Measure>> {
            (0..8)
                .map(|i| {
                    let jitter = f64::from(i * 3 % 8) / 1000.0;
                    account(running + timer, &[("running", running + jitter), ("timer", timer - jitter)])
                })
                .collect()
        };
        let lines = from_measures(&set(1.0, 0.5), &set(1.2, 0.5));
        assert_eq!(line(&lines, "running").mark, Mark::Found);
        assert_eq!(line(&lines, "timer").mark, Mark::None);
        let running = line(&lines, "running");
        assert!(running.low.is_some_and(|low| low > 0.19) && running.high.is_some_and(|high| high < 0.21));
        assert!(running.q.is_some_and(|q| q >= running.p.expect("tested")), "{running:?}");
    }

    #[test]
    fn small_devices_and_missing_means_make_no_lines() {
        let device = |big: f64, small: f64| {
            run(&[
                (Group::Device, "sda.requests", Unit::Count, big),
                (Group::Device, "sdb.requests", Unit::Count, small),
            ])
        };
        let mut a = device(1000.0, 1.0);
        a.push(Measure {
            value: None,
            absent_is_zero: false,
            ..run(&[(Group::Device, "sda.d2c", Unit::Milliseconds, 1.0)])[0].clone()
        });
        let lines = from_measures(&[a], &[device(1000.0, 2.0)]);
        assert!(line(&lines, "sda.requests").shown);
        assert!(!line(&lines, "sdb.requests").shown);
        assert!(!lines.iter().any(|l| l.key == "sda.d2c"));
    }

    #[test]
    fn without_an_account_on_one_side_none_is_compared() {
        let a = account(1.0, &[("running", 1.0)]);
        let b = run(&[(Group::Elapsed, ELAPSED, Unit::Seconds, 2.0)]);
        let lines = from_measures(&[a], &[b]);
        assert_eq!(lines.iter().map(|l| l.key.as_str()).collect::<Vec<_>>(), [ELAPSED]);
    }
}
