// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Databases whose times are known sums of microbenchmarks' times.

use super::*;
use crate::analysis::synthetic::Design;
use crate::file::PlanFile;
use crate::table::Unit;

/// A run of the loads fsync, read and db on so many disks: a transaction is 2 of fsync, 0.9 of a read, and 100 us.
struct Synthetic {
    state: State,
    table: Table,
}

const LOADS: [&str; 3] = ["fsync", "read", "db"];

/// Times of fsync and read on a disk, ns.
fn own(disk: usize, shift: f64) -> [f64; 2] {
    let of = |by: usize| 1e6 * (1.0 + shift + ((disk * by) % 11) as f64);
    [of(7), of(5)]
}

/// ns
fn transaction(disk: usize, shift: f64) -> f64 {
    let [fsync, read] = own(disk, shift);
    2.0 * fsync + 0.9 * read + 1e5
}

impl Synthetic {
    fn of(disks: usize, shift: f64, noise: f64, repeat: u32, prices: impl Fn(usize) -> Option<f64>) -> Self {
        let mut design = Design::new(&[("disk", disks), ("work", 3)], repeat);
        design.seed = 7 + (shift * 100.0) as u64;
        let mut table = design.table(
            |levels| match levels[1] {
                2 => transaction(levels[0], shift),
                load => own(levels[0], shift)[load],
            },
            noise,
        );
        table.factors[1].levels = LOADS.map(String::from).to_vec();
        table.factors[1].other_work = true;
        table.factors[1].commands = vec![2];
        for row in &mut table.rows {
            let time = row.figures["write.mean"];
            row.figures = match row.levels[1] {
                2 => [("elapsed", 200.0 * time), ("request.rate", 1e9 / time), ("request.p99", 3.0 * time)]
                    .into_iter(),
                _ => [("elapsed", 300.0 * time), ("write.rate", 1e9 / time), ("write.p99", 2.0 * time)]
                    .into_iter(),
            }
            .map(|(name, figure)| (name.to_string(), figure))
            .collect();
        }
        table.units = [("elapsed".to_string(), Unit::Ns)].into();
        let disk = |i: usize| {
            let price = prices(i).map_or(String::new(), |price| format!("price = {price:.1}\n"));
            format!("[[factor.level]]\nname = 'disk{i}'\n{price}")
        };
        let load = |name: &str| {
            format!("[[factor.level]]\nname = '{name}'\nload = {{ what = 'write', size = '8M' }}\n")
        };
        let text = format!(
            "name = 'n'\ntitle = 't'\npurpose = 'p'\nhypothesis = 'h'\ntakes = '1m'\n[cell]\nload = {{ threads = 2 }}\n\
             [[factor]]\nname = 'disk'\n{}[[factor]]\nname = 'work'\n{}",
            (0..disks).map(disk).collect::<String>(),
            LOADS.map(load).concat()
        );
        Self { state: State::empty(PlanFile::parse(&text).expect(&text)), table }
    }

    fn plain(disks: usize) -> Self {
        Self::of(disks, 0.0, 0.01, 2, |_| None)
    }

    /// Other disks, whose times lie between those of the known ones.
    fn new(disks: usize) -> Self {
        Self::of(disks, 0.4, 0.01, 2, |_| None)
    }

    fn without(mut self, disk: Option<usize>, load: usize) -> Self {
        self.table.rows.retain(|r| r.levels[1] != load || disk.is_some_and(|d| d != r.levels[0]));
        self
    }
}

fn sized(known: &Synthetic, new: &[&Synthetic], targets: &[&str]) -> Result<Sizing> {
    let run = |name: &'static str, s| {
        let Synthetic { state, table }: &Synthetic = s;
        (Path::new(name), state, table)
    };
    let new: Vec<Run<'_>> = new.iter().map(|s| run("new", s)).collect();
    let targets: Vec<Target> = targets.iter().map(|t| t.parse()).collect::<Result<_>>()?;
    Sizing::from(run("known", known), &new, &targets, 0.05)
}

fn text(sizing: &Sizing) -> String {
    let mut out = Vec::new();
    show::write(sizing, &mut out).expect("text");
    String::from_utf8(out).expect("UTF-8")
}

fn said(result: Result<Sizing>) -> String {
    format!("{:#}", result.expect_err("refused"))
}

fn place<'a>(sizing: &'a Sizing, name: &str) -> &'a Environment {
    sizing.environments.iter().find(|e| e.name == name).unwrap_or_else(|| panic!("{name}: {sizing:#?}"))
}

fn value(sizing: &Sizing, name: &str) -> Value {
    place(sizing, name).values[0].clone().unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn without_prices_the_slowest_that_meets_it_is_the_answer() {
    let known = Synthetic::of(11, 0.0, 0.001, 4, |_| None);
    let mut rates: Vec<(f64, usize)> = (0..11).map(|disk| (1e9 / transaction(disk, 0.0), disk)).collect();
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Between the fourth and the fifth.
    let target = format!("db: {}/s", (rates[3].0 + rates[4].0) / 2.0);
    let sizing = sized(&known, &[], &[&target]).expect("an answer");
    let [wanted, smaller] = [rates[4].1, rates[3].1].map(|disk| format!("disk{disk}"));
    assert!(
        sizing.met && sizing.answer.contains(&format!("Smallest that meets it: {wanted}: ")),
        "{}",
        sizing.answer
    );
    assert!(sizing.answer.contains(&format!("The next smaller one, {smaller}, has ")), "{}", sizing.answer);
    assert_eq!(sizing.environments.iter().filter(|e| e.meets == Meets::Yes).count(), 7);
    assert!(sizing.doubts.is_empty(), "{:?}", sizing.doubts);
    let prediction = sizing.targets[0].prediction.as_ref().expect("told");
    assert!(prediction.error < 0.01, "{prediction:?}");
    let none = sized(&known, &[], &["db: 5000/s"]).expect("an answer");
    let nearest = format!(
        "None of 11 environments meets it with a risk of at most 5.0 %. The nearest is disk{}",
        rates[10].1
    );
    assert!(!none.met && none.answer.starts_with(&nearest), "{}", none.answer);
}

#[test]
fn a_new_environment_is_told_by_its_microbenchmarks_alone() {
    let (known, new) = (Synthetic::plain(11), Synthetic::new(9).without(None, 2));
    for (target, factor) in
        [("db: 10/s", 1.0), ("db: mean 20ms", 1.0), ("db: p99 1s", 3.0), ("db: elapsed 9s", 200.0)]
    {
        let mut known = Synthetic { state: known.state.clone(), table: known.table.clone() };
        for row in known.table.rows.iter_mut().filter(|r| r.levels[1] == 2) {
            row.figures.insert("request.mean".into(), row.figures["elapsed"] / 200.0);
        }
        let sizing = sized(&known, &[&new], &[target]).expect("an answer");
        for disk in 0..9 {
            let got = value(&sizing, &format!("disk{disk} (new)"));
            let time = factor * transaction(disk, 0.4);
            let truth = if target.ends_with("/s") { 1e9 / time } else { time };
            assert_eq!((got.source, got.measured), (Source::Predicted, None));
            assert!((got.value / truth - 1.0).abs() < 0.05, "{target} {disk}: {truth} {got:?}");
            let interval = got.interval.expect("predicted");
            assert!(
                interval.low < got.value && got.value < interval.high && interval.high < 1.3 * interval.low
            );
        }
    }
}

#[test]
fn what_was_measured_in_a_new_environment_is_beside_the_prediction() {
    let (known, mut new) = (Synthetic::plain(11), Synthetic::new(9));
    for row in new.table.rows.iter_mut().filter(|r| r.levels == [4, 2]) {
        row.figures.insert("request.rate".into(), 1.0);
    }
    let sizing = sized(&known, &[&new], &["db: 100/s"]).expect("an answer");
    let got = value(&sizing, "disk4 (new)");
    assert_eq!(got.measured, Some(1.0));
    assert!((got.value / (1e9 / transaction(4, 0.4)) - 1.0).abs() < 0.05, "{got:?}");
    let check = sizing.targets[0].check.as_ref().expect("measured");
    assert_eq!((check.environments, check.within >= 7), (9, true), "{check:?}");
    let text = text(&sizing);
    for words in [" measured ", "9 new environments: error of the prediction", "0.0067", "x fsync + 0.0029"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
}

#[test]
fn the_risk_is_a_half_where_the_target_is_the_truth() {
    let new = Synthetic::new(9).without(None, 2);
    let mut risks = Vec::new();
    for disks in 9..12 {
        let known = Synthetic::of(disks, 0.0, 0.05, 2, |_| None);
        for disk in 0..9 {
            let target = format!("db: {}/s", 1e9 / transaction(disk, 0.4));
            let sizing = sized(&known, &[&new], &[&target]).expect("an answer");
            let got = value(&sizing, &format!("disk{disk} (new)"));
            assert_eq!(got.meets, Meets::Unsure, "{got:?}");
            risks.push(got.risk);
        }
    }
    let middle = median(&risks);
    assert!((0.3..0.7).contains(&middle), "{risks:?}");
}

#[test]
fn a_measurement_decides_in_known_environments_and_a_single_one_has_no_interval() {
    let mut known = Synthetic::of(9, 0.0, 0.001, 1, |_| None);
    for row in known.table.rows.iter_mut().filter(|r| r.levels == [3, 2]) {
        row.figures.insert("request.rate".into(), 777.0);
    }
    let sizing = sized(&known, &[], &["db: 700/s"]).expect("an answer");
    let got = value(&sizing, "disk3");
    assert_eq!((got.source, got.interval, got.risk), (Source::Measured(1), None, 0.0));
    assert!((got.value - 777.0).abs() < 1e-6, "{got:?}");
    assert!(sizing.answer.contains("777/s measured once."), "{}", sizing.answer);
    // Where it was not measured, the others tell it.
    let known = known.without(Some(3), 2);
    let sizing = sized(&known, &[], &["db: 700/s"]).expect("an answer");
    let got = value(&sizing, "disk3");
    assert_eq!(got.source, Source::Predicted);
    assert!((got.value / (1e9 / transaction(3, 0.0)) - 1.0).abs() < 0.02, "{got:?}");
}

#[test]
fn with_prices_the_cheapest_that_meets_it_is_the_answer() {
    // The fastest disk is the cheapest.
    let fastest = (0..11).min_by(|a, b| transaction(*a, 0.0).total_cmp(&transaction(*b, 0.0))).expect("some");
    let known = Synthetic::of(11, 0.0, 0.001, 2, |i| Some(if i == fastest { 2.5 } else { 10.0 + i as f64 }));
    let sizing = sized(&known, &[], &["db: 50/s"]).expect("an answer");
    assert!(
        sizing.answer.starts_with(&format!("Smallest that meets it: disk{fastest} (price 2.5): ")),
        "{}",
        sizing.answer
    );
    let prices: Vec<f64> = sizing.environments.iter().filter_map(|e| e.price).collect();
    assert!(prices.len() == 11 && prices.windows(2).all(|p| p[0] <= p[1]), "{prices:?}");
    let partly = Synthetic::of(11, 0.0, 0.001, 2, |i| (i > 2).then_some(3.0));
    let sizing = sized(&partly, &[], &["db: 50/s"]).expect("an answer");
    assert!(
        sizing.doubts.iter().any(|d| d.starts_with("3 environments without a price")),
        "{:?}",
        sizing.doubts
    );
    assert!(sizing.environments[8..].iter().all(|e| e.price.is_none()));
}

#[test]
fn all_targets_must_be_met() {
    let known = Synthetic::of(11, 0.0, 0.001, 4, |_| None);
    let mut times: Vec<f64> = (0..11).map(|disk| transaction(disk, 0.0)).collect();
    times.sort_by(f64::total_cmp);
    // The rate is met by 8, the quantile by the two fastest.
    let rate = format!("db: {}/s, p99 {}ns", 1e9 / times[7] * 0.99, (3.0 * times[1] * 1.01) as u64);
    let sizing = sized(&known, &[], &[&rate]).expect("an answer");
    assert!(sizing.answer.starts_with("Smallest that meets both: "), "{}", sizing.answer);
    assert_eq!(sizing.environments.iter().filter(|e| e.meets == Meets::Yes).count(), 2);
    assert!(text(&sizing).contains(" all\n"), "{}", text(&sizing));
}

#[test]
fn what_is_outside_of_the_known_range_is_a_doubt_with_its_size() {
    let known = Synthetic::plain(11);
    let mut new = Synthetic::new(9).without(None, 2);
    for row in new.table.rows.iter_mut().filter(|r| r.levels == [2, 0]) {
        row.figures.insert("elapsed".into(), 4.0 * 300.0 * 11e6);
    }
    new.state.plumb = "1".into();
    new.table.rows[0].doubts.push("not valid: it was too short".into());
    new.table.rows.iter_mut().for_each(|r| r.doubts.push("not valid: it was too short".into()));
    let sizing = sized(&known, &[&new], &["db: 50/s"]).expect("an answer");
    let doubts = sizing.doubts.join("\n");
    assert!(doubts.contains("fsync in KNOWN") && doubts.contains("disk2 (new) (4."), "{doubts}");
    assert!(doubts.contains("new: 36 of 36 repetitions that were used"), "{doubts}");
    assert!(doubts.contains("new: measured by plumb 1, KNOWN by 0."), "{doubts}");
    assert!(text(&sizing).contains("\nDoubts\n"));
}

#[test]
fn a_load_with_other_settings_is_refused_and_another_environment_is_not() {
    let known = Synthetic::plain(11);
    let mut new = Synthetic::new(9);
    new.state.plan.factors[1].levels[0]
        .settings
        .load
        .insert("size".into(), crate::file::Value::Text("16M".into()));
    let text = said(sized(&known, &[&new], &["db: 50/s"]));
    assert!(
        text.contains("'fsync' was measured with load.size = 16M, in KNOWN with 8M")
            && text.contains("hint: "),
        "{text}"
    );
    let mut new = Synthetic::new(9);
    new.state.plan.cell.device = Some(crate::file::OneOrMore::One("other".into()));
    new.state.plan.cell.sysctl.insert("vm.dirty_ratio".into(), crate::file::Value::Whole(1));
    assert!(sized(&known, &[&new], &["db: 50/s"]).is_ok());
    new.state.plan.cell.load.insert("threads".into(), crate::file::Value::Whole(8));
    assert!(said(sized(&known, &[&new], &["db: 50/s"])).contains("load.threads"));
    new.table.factors[1].name = "other".into();
    assert!(said(sized(&known, &[&new], &["db: 50/s"])).contains("no factor 'work'"));
}

#[test]
fn loads_that_are_not_there_and_too_few_environments_are_errors() {
    let known = Synthetic::plain(11);
    for (target, words) in [
        ("dp: 50/s", &["known: there is no load 'dp'; did you mean 'db'?", "fsync; read; db"][..]),
        ("db: write.p99 1s", &["has no figure write.p99", "request.p99"]),
        ("db: p50 1s", &["no figure p50", "request.p99"]),
    ] {
        let text = said(sized(&known, &[], &[target]));
        assert!(words.iter().all(|w| text.contains(w)), "{target}: {text}");
    }
    let new = Synthetic::new(4).without(None, 2);
    let text = said(sized(&Synthetic::plain(4), &[&new], &["db: 50/s"]));
    assert!(
        text.contains("takes 5 environments")
            && text.contains("known has it in 4")
            && text.contains("hint: "),
        "{text}"
    );
    // Where all was measured none is needed.
    assert!(sized(&Synthetic::plain(4), &[], &["db: 50/s"]).is_ok());
    let text = said(sized(&known.without(None, 2), &[], &["db: 50/s"]));
    assert!(text.contains("known: 'db' was not measured"), "{text}");
}
