// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Comparisons of tables whose difference is known.

use super::*;
use crate::analysis::synthetic::Design;
use crate::file::PlanFile;

fn plan_state() -> State {
    let text =
        "name = 'n'\ntitle = 't'\npurpose = 'p'\nhypothesis = 'h'\ntakes = '1m'\nfigures = ['write.mean']\n\
                [device.a]\nmodel = 'atlas10k4'\n";
    let plan: PlanFile = toml::from_str(text).expect("a plan");
    State::empty(plan)
}

/// 2 x 3 cells with 2 % noise; b times as long.
fn table(repeat: u32, seed: u64, b: f64) -> Table {
    let mut design = Design::new(&[("a", 2), ("b", 3)], repeat);
    design.seed = seed;
    design.table(|l| b * 1e6 * (1 + l[0] + 2 * l[1]) as f64, 0.02)
}

fn compared(a: &Table, b: &Table) -> Comparison {
    let state = plan_state();
    Comparison::from((Path::new("a"), &state, a), (Path::new("b"), &state, b), &[]).expect("a comparison")
}

#[test]
fn the_same_has_no_difference() {
    for (a, b) in [(table(5, 1, 1.0), table(5, 1, 1.0)), (table(5, 1, 1.0), table(5, 2, 1.0))] {
        let got = compared(&a, &b);
        assert!(
            got.headline.starts_with("No difference found in the mean time of a write over 6"),
            "{}",
            got.headline
        );
        assert!(got.figures[0].cells.iter().all(|l| l.mark != Mark::Found), "{:?}", got.figures[0].cells);
        assert!(got.differs.is_empty() && got.only_a.is_empty() && got.only_b.is_empty());
    }
}

#[test]
fn a_fifth_slower_is_found_over_all_and_cell_by_cell() {
    let got = compared(&table(5, 1, 1.0), &table(5, 2, 1.2));
    let overall = got.figures[0].overall.as_ref().expect("common cells");
    let interval = overall.interval.expect("repeated");
    assert!(overall.found && interval.low < 1.2 && 1.2 < interval.high, "{overall:?}");
    assert!(interval.high / interval.low < 1.05, "{overall:?}");
    assert!(got.figures[0].cells.iter().all(|l| l.mark == Mark::Found), "{:?}", got.figures[0].cells);
    assert!(got.headline.starts_with("B is worse: it takes 1.20 times as long"), "{}", got.headline);
    assert!(got.headline.contains("6 of 6 differ"), "{}", got.headline);
    let back = compared(&table(5, 2, 1.2), &table(5, 1, 1.0));
    assert!(back.headline.starts_with("B is better: it takes 0.83 times"), "{}", back.headline);
}

#[test]
fn three_repetitions_find_it_over_all_and_say_what_a_cell_needs() {
    let got = compared(&table(3, 1, 1.0), &table(3, 2, 1.2));
    assert!(got.figures[0].overall.as_ref().expect("cells").found);
    assert_eq!(got.figures[0].tested, 0);
    assert!(got.figures[0].cells.iter().all(|l| l.q.is_none() && l.mark == Mark::Interval));
    assert!(got.headline.contains("4 and 4 repetitions are needed"), "{}", got.headline);
    let single = compared(&table(1, 1, 1.0), &table(1, 2, 1.2));
    assert!(single.headline.contains("no error is known"), "{}", single.headline);
    assert!(!single.figures[0].overall.as_ref().expect("cells").found);
}

#[test]
fn the_interval_over_all_holds_the_truth_nineteen_times_of_twenty() {
    let holds = (0..60).filter(|seed| {
        let got = FigureComparison::of(&table(3, *seed, 1.0), &table(3, seed + 1000, 1.2), "write.mean")
            .expect("both");
        let interval = got.overall.expect("cells").interval.expect("repeated");
        interval.low <= 1.2 && 1.2 <= interval.high
    });
    let holds = holds.count();
    assert!((51..=60).contains(&holds), "{holds} of 60");
}

#[test]
fn rates_turn_the_words_and_zeros_are_differences() {
    let rate = |mut t: Table| {
        t.units.insert("write.mean".into(), Unit::PerSecond);
        t
    };
    let got = compared(&rate(table(5, 1, 1.0)), &rate(table(5, 2, 1.2)));
    assert!(got.headline.starts_with("B is better: it has 1.20 times as much"), "{}", got.headline);
    let zero = |mut t: Table| {
        for row in t.rows.iter_mut().filter(|r| r.levels == [0, 0]) {
            row.figures.insert("write.mean".into(), 0.0);
        }
        t
    };
    let got = compared(&zero(table(5, 1, 1.0)), &zero(table(5, 2, 1.2)));
    assert_eq!(got.figures[0].scale, Scale::Difference);
    assert!(got.headline.starts_with("B is worse: it moved"), "{}", got.headline);
    assert_eq!(got.figures[0].cells[0].ratio, None);
}

#[test]
fn cells_of_one_side_other_plans_and_no_common_figure_are_told() {
    let (a, mut b) = (table(3, 1, 1.0), table(3, 2, 1.0));
    b.rows.retain(|r| r.label != "a0 b1");
    b.rows.iter_mut().filter(|r| r.label == "a1 b2").for_each(|r| r.label = "new".into());
    let mut other = plan_state();
    other.plan.devices.get_mut("a").expect("there").model = Some("cheetah15k".into());
    other.plan.name = "m".into();
    let one = plan_state();
    let (from, to) = ((Path::new("a"), &one, &a), (Path::new("b"), &other, &b));
    let got = Comparison::from(from, to, &[]).expect("a comparison");
    assert_eq!(
        (got.only_a.as_slice(), got.only_b.as_slice()),
        (["a0 b1".to_string(), "a1 b2".into()].as_slice(), ["new".to_string()].as_slice())
    );
    let want = Differs { what: "device.a.model".into(), a: "atlas10k4".into(), b: "cheetah15k".into() };
    assert!(got.differs.contains(&want) && got.differs.len() == 2, "{:?}", got.differs);
    let mut out = Vec::new();
    show::write(&got, &mut out).expect("text");
    let text = String::from_utf8(out).expect("UTF-8");
    for words in
        ["Only A has: a0 b1 and a1 b2", "Only B has: new", "device.a.model atlas10k4 cheetah15k", "B / A"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
    let none = Comparison::from(from, to, &["read.mean".into()]).expect_err("nowhere").to_string();
    assert!(none.contains("read.mean") && none.contains("write.mean"), "{none}");
    b.units.clear();
    let (from, to) = ((Path::new("a"), &one, &a), (Path::new("b"), &other, &b));
    assert!(Comparison::from(from, to, &[]).is_err());
}
