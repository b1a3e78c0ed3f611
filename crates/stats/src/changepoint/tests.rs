// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Simulated searches: how often the answer is wrong, and how many runs it takes. `-- --nocapture` prints them.

use super::scan;
use super::search::{Next, Question, Search};
use crate::random::SplitMix64;
use std::collections::BTreeSet;

const ERROR: f64 = 0.05;
/// Runs after which a simulated search is given up.
const MOST: usize = 400;

/// What is searched: 65 versions, of which one by chance makes it 5 % slower, at 3 % noise.
#[derive(Clone, Copy)]
struct Scenario {
    versions: usize,
    change: Option<usize>,
    ratio: f64,
    noise: f64,
    /// Runs of this part take up to 50 % longer.
    outliers: f64,
    /// Correlation of a run's noise with the one before.
    memory: f64,
    /// What the machine does to run i.
    drift: fn(f64) -> f64,
}

const SLOWDOWN: Scenario = Scenario {
    versions: 65,
    change: None,
    ratio: 1.05,
    noise: 0.03,
    outliers: 0.0,
    memory: 0.0,
    drift: |_| 0.0,
};

#[derive(Debug, Default)]
struct Tally {
    right: usize,
    /// Another version was named.
    wrong: usize,
    no_difference: usize,
    open: usize,
    runs: usize,
    versions: usize,
}

impl Tally {
    fn searches(&self) -> usize {
        self.right + self.wrong + self.no_difference + self.open
    }

    fn mean_runs(&self) -> f64 {
        self.runs as f64 / self.searches() as f64
    }
}

/// One search; the search at its end.
fn search(s: &Scenario, seed: u64, tally: &mut Tally) -> Search {
    let mut random = SplitMix64::new(seed);
    let change = s.change.unwrap_or_else(|| 1 + random.below(s.versions as u64 - 1) as usize);
    let mut search = Search::new(Question { versions: s.versions, error: ERROR, least: 0.02 });
    let (mut seen, mut noise) = (BTreeSet::new(), 0.0);
    let count = loop {
        if search.runs() >= MOST {
            break &mut tally.open;
        }
        match search.next() {
            Next::Measure(version) => {
                seen.insert(version);
                noise = s.memory * noise + (1.0 - s.memory * s.memory).sqrt() * random.normal();
                let level = if version >= change { s.ratio } else { 1.0 };
                let outlier = if random.unit() < s.outliers { 1.0 + 0.5 * random.unit() } else { 1.0 };
                let drift = 1.0 + (s.drift)(search.runs() as f64);
                search.add(version, level * (s.noise * noise).exp() * outlier * drift);
            }
            Next::Found { first, last } if s.ratio != 1.0 && (first..=last).contains(&change) => {
                break &mut tally.right
            }
            Next::Found { .. } => break &mut tally.wrong,
            Next::NoDifference => break &mut tally.no_difference,
        }
    };
    *count += 1;
    tally.runs += search.runs();
    tally.versions += seen.len();
    search
}

fn simulate(name: &str, s: Scenario, searches: usize) -> Tally {
    let mut tally = Tally::default();
    for i in 0..searches {
        search(&s, 7919 * i as u64 + 1, &mut tally);
    }
    let (low, high) = binomial(tally.wrong, searches);
    println!(
        "{name}: {searches} searches, wrong {:.1} % (95 % interval {:.1} to {:.1} %), {:.1} runs of {:.1} versions: {tally:?}",
        100.0 * tally.wrong as f64 / searches as f64,
        100.0 * low,
        100.0 * high,
        tally.mean_runs(),
        tally.versions as f64 / searches as f64,
    );
    tally
}

/// Wilson's 95 % interval of a share.
fn binomial(k: usize, n: usize) -> (f64, f64) {
    let (n, p, z) = (n as f64, k as f64 / n as f64, 1.96_f64);
    let middle = p + z * z / (2.0 * n);
    let half = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    ((middle - half) / (1.0 + z * z / n), (middle + half) / (1.0 + z * z / n))
}

/// Wrong answers of every kind are at most what was stated: their share, not only the lower end of its interval.
fn holds(tally: &Tally) {
    let wrong = tally.wrong + tally.no_difference;
    assert!(wrong as f64 <= ERROR * tally.searches() as f64, "{tally:?}");
    assert!(tally.open * 50 <= tally.searches(), "{tally:?}");
}

#[test]
fn a_slowdown_of_5_percent_at_3_percent_noise() {
    let tally = simulate("5 % at 3 % noise", SLOWDOWN, 1000);
    holds(&tally);
    let (low, high) = binomial(tally.wrong, 1000);
    assert!(high <= ERROR, "{low} to {high}");
    let each = scan::repetitions(1.05_f64.ln() / 0.03, ERROR).expect("a scan can");
    let scan = f64::from(each) * SLOWDOWN.versions as f64;
    println!("a full scan with this error: {each} runs of each version, {scan} runs");
    assert!(tally.mean_runs() < scan.min(64.0), "{} of {scan}", tally.mean_runs());
}

#[test]
fn without_a_change_nobody_is_accused() {
    let same = Scenario { ratio: 1.0, ..SLOWDOWN };
    let drifting = Scenario { drift: |run| run / 600.0, ..same };
    let cases = [
        ("no change", same, 1000),
        ("no change, outliers", Scenario { outliers: 0.1, ..same }, 100),
        ("no change, noise with a memory", Scenario { memory: 0.5, ..same }, 100),
        ("no change, drift", drifting, 200),
    ];
    for (name, scenario, searches) in cases {
        let tally = simulate(name, scenario, searches);
        assert!(tally.wrong as f64 <= ERROR * searches as f64, "{tally:?}");
        assert!(tally.no_difference * 10 >= searches * 9, "{tally:?}");
    }
}

#[test]
fn at_the_first_and_the_last_commit() {
    for (name, change) in [("first commit", 1), ("last commit", 64)] {
        holds(&simulate(name, Scenario { change: Some(change), ..SLOWDOWN }, 400));
    }
    holds(&simulate("two versions", Scenario { versions: 2, ..SLOWDOWN }, 200));
}

#[test]
fn with_outliers_and_with_noise_that_has_a_memory() {
    holds(&simulate("outliers: 10 % of the runs, up to 50 %", Scenario { outliers: 0.1, ..SLOWDOWN }, 100));
    holds(&simulate("noise with a memory of 0.5", Scenario { memory: 0.5, ..SLOWDOWN }, 200));
}

#[test]
fn while_the_machine_drifts() {
    let steady = Scenario { drift: |run| run / 600.0, ..SLOWDOWN };
    holds(&simulate("drift: 10 % in 60 runs", steady, 200));
    holds(&simulate(
        "drift: up and down by 3 % in 31 runs",
        Scenario { drift: |run| 0.03 * (run / 5.0).sin(), ..SLOWDOWN },
        100,
    ));
    let mut told = 0;
    for seed in 0..20 {
        let drifted =
            |s: &Scenario| search(s, seed, &mut Tally::default()).posterior().expect("runs").best.drifted();
        told += usize::from(drifted(&steady) > 0.02);
        let still = drifted(&SLOWDOWN);
        assert!(still < 0.04, "{still}");
    }
    assert!(told >= 18, "the drift is seen in {told} of 20");
}

#[test]
fn a_change_of_1_percent_at_3_percent_noise_is_below_2_percent() {
    let tally = simulate("1 % at 3 % noise", Scenario { ratio: 1.01, ..SLOWDOWN }, 60);
    assert!(tally.wrong as f64 <= ERROR * 60.0 && tally.no_difference >= 45, "{tally:?}");
}

#[test]
fn a_figure_without_noise_takes_the_runs_of_a_bisection() {
    let tally = simulate("no noise", Scenario { noise: 0.0, ..SLOWDOWN }, 60);
    assert_eq!(tally.right, 60, "{tally:?}");
    assert!(tally.mean_runs() < 20.0, "{}", tally.mean_runs());
    let faster = simulate("5 % less, 1 % noise", Scenario { ratio: 0.95, noise: 0.01, ..SLOWDOWN }, 60);
    assert!(faster.right >= 57, "{faster:?}");
}

#[test]
fn the_interval_of_the_change_has_the_true_one() {
    let mut has = 0;
    for seed in 0..200 {
        let search = search(&SLOWDOWN, seed, &mut Tally::default());
        let (low, high) = super::search::interval(&search.posterior().expect("runs"), search.runs());
        has += usize::from((low..high).contains(&1.05_f64.ln()));
    }
    println!("the 95 % interval has the true change in {has} of 200");
    assert!(has >= 176, "{has} of 200");
}

#[test]
fn a_commit_that_cannot_be_measured_is_accused_together_with_the_next() {
    let mut search = Search::new(Question { versions: 9, error: ERROR, least: 0.02 });
    search.skip(4);
    search.skip(5);
    let answer = loop {
        match search.next() {
            Next::Measure(version) => {
                assert!(![4, 5].contains(&version), "{version}");
                search.add(version, if version >= 5 { 1.2 } else { 1.0 });
            }
            answer => break answer,
        }
    };
    assert_eq!(answer, Next::Found { first: 4, last: 6 });
}

#[test]
fn two_changes_leave_versions_on_no_level() {
    let mut strays = 0;
    for seed in 0..20 {
        let mut random = SplitMix64::new(seed);
        let mut search = Search::new(Question { versions: 65, error: ERROR, least: 0.02 });
        while let Next::Measure(version) = search.next() {
            let level = [1.0, 1.1, 1.2][usize::from(version >= 20) + usize::from(version >= 45)];
            search.add(version, level * (0.01 * random.normal()).exp());
            if search.runs() >= MOST {
                break;
            }
        }
        strays += usize::from(!search.strays(&search.posterior().expect("runs")).is_empty());
    }
    println!("two changes of 10 %: told in {strays} of 20");
    assert!(strays >= 15, "{strays} of 20");
    let none = (0..20).filter(|seed| {
        let search = search(&SLOWDOWN, *seed, &mut Tally::default());
        !search.strays(&search.posterior().expect("runs")).is_empty()
    });
    assert!(none.count() <= 1);
}
