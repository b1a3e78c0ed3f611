// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Effects of tables whose effects are known.

use super::super::cells;
use super::super::synthetic::{change, Design};
use super::*;

fn effects(table: &Table) -> Effects {
    Effects::of(table, &cells::of(table, "write.mean").0, Unit::Ns)
}

/// A 2 x 3 design: level a1 takes twice as long as a0; b0, b1, b2 as 1 : 2 : 4.
fn two_by_three(repeat: u32, seed: u64, noise: f64) -> Table {
    let mut design = Design::new(&[("a", 2), ("b", 3)], repeat);
    design.seed = seed;
    design.table(|l| 1e6 * f64::from(1u32 << l[0]) * f64::from(1u32 << l[1]), noise)
}

/// Ratios of a0, a1, b0, b1, b2 to the mean of their factor.
const TRUE: [f64; 5] = [std::f64::consts::FRAC_1_SQRT_2, std::f64::consts::SQRT_2, 0.5, 1.0, 2.0];

#[test]
fn known_effects_come_out_and_lie_in_their_intervals() {
    let got = effects(&two_by_three(5, 1, 0.03));
    assert_eq!(got.levels.len(), 5);
    for (effect, truth) in got.levels.iter().zip(TRUE) {
        assert!((effect.effect / truth).ln().abs() < 0.03, "{effect:?}, not {truth}");
        let interval = effect.interval.expect("five repetitions");
        assert!(interval.low < truth && truth < interval.high, "{effect:?}, not {truth}");
        assert!(interval.high / interval.low < 1.1, "{effect:?}");
    }
    assert_eq!(got.levels[4].level, "b2");
    assert_eq!(got.interactions, []);
    assert_eq!(got.tested, 6);
}

#[test]
fn nineteen_of_twenty_intervals_hold_the_truth() {
    for (repeat, noise) in [(2, 0.1), (3, 0.1), (5, 0.3)] {
        let (mut holds, mut all) = (0, 0);
        for seed in 0..60 {
            for (effect, truth) in effects(&two_by_three(repeat, seed, noise)).levels.iter().zip(TRUE) {
                let interval = effect.interval.expect("repetitions");
                holds += usize::from(interval.low <= truth && truth <= interval.high);
                all += 1;
            }
        }
        let share = holds as f64 / all as f64;
        // Of two repetitions Satterthwaite's degrees of freedom are too few rather than too many.
        let most = if repeat > 2 { 0.99 } else { 1.0 };
        assert!((0.91..=most).contains(&share), "{repeat} repetitions: {share}");
    }
}

#[test]
fn a_planted_interaction_is_found_and_is_as_large_as_it_was_made() {
    for repeat in [3, 5] {
        let mut table = two_by_three(repeat, 7, 0.03);
        for row in table.rows.iter_mut().filter(|r| r.levels == [1, 2]) {
            row.figures.values_mut().for_each(|v| *v *= 1.5);
        }
        let got = effects(&table);
        let first = got.interactions.first().expect("found");
        // On the logarithm a cell's own part less its row's third, its column's half, and more the whole's sixth.
        let share = 1.0 - 1.0 / 3.0 - 0.5 + 1.0 / 6.0;
        let truth = 1.5f64.powf(share);
        let at = got.interactions.iter().find(|i| i.levels == ["a1".to_string(), "b2".into()]);
        let at = at.expect("the planted one is among them");
        assert!((at.effect / truth).ln().abs() < 0.05, "{at:?}, not {truth}");
        assert!(at.interval.low < truth && truth < at.interval.high, "{at:?}, not {truth}");
        assert!(first.q <= 0.05);
    }
}

#[test]
fn no_interaction_is_found_where_none_is() {
    let found = |seed| effects(&two_by_three(3, seed, 0.15)).interactions.len();
    let wrong = (0..200).filter(|seed| found(*seed) > 0).count();
    assert!(wrong <= 16, "in {wrong} of 200 plans, where 10 are allowed by chance");
}

#[test]
fn without_a_combination_the_others_still_tell_the_truth() {
    let mut table = two_by_three(4, 3, 0.02);
    table.rows.retain(|r| r.levels != [0, 1]);
    let got = effects(&table);
    for (effect, truth) in got.levels.iter().zip(TRUE) {
        assert!((effect.effect / truth).ln().abs() < 0.04, "{effect:?}, not {truth}");
    }
    let words = got.notes.join(" ");
    assert!(words.contains("5 of 6 combinations") && words.contains("least squares"), "{words}");
    assert!((got.variation.iter().map(|p| p.share).sum::<f64>() - 1.0).abs() < 1e-9);
    assert!(got.notes.iter().all(|n| !n.contains("distinguished")));
}

#[test]
fn single_repetitions_have_effects_and_no_intervals() {
    let got = effects(&two_by_three(1, 3, 0.02));
    assert!((got.levels[4].effect / 2.0).ln().abs() < 0.1, "{:?}", got.levels[4]);
    assert!(got.levels.iter().all(|e| e.interval.is_none()));
    assert_eq!((got.tested, got.interactions.len()), (0, 0));
    assert!(got.notes[0].contains("One repetition"), "{:?}", got.notes);
    // A cell with one beside cells with more borrows their chance.
    let mut table = two_by_three(3, 3, 0.02);
    table.rows.retain(|r| r.levels != [0, 1] || r.repetition == 1);
    let got = effects(&table);
    assert!(got.levels.iter().all(|e| e.interval.is_some_and(|i| i.low < i.high)));
    assert!(got.notes.iter().any(|n| n.contains("different numbers")));
}

#[test]
fn one_factor_and_none() {
    let one = Design::new(&[("a", 3)], 3).table(|l| 1e6 * (l[0] + 1) as f64, 0.01);
    let got = effects(&one);
    assert_eq!((got.levels.len(), got.tested), (3, 0));
    assert!(got.levels[2].effect > 1.5 && got.levels[0].effect < 0.6);
    let none = effects(&Design::new(&[], 3).table(|_| 1e6, 0.01));
    assert_eq!((none.levels.len(), none.variation.len()), (0, 1));
    assert_eq!(none.variation[0].share, 1.0);
    let empty = effects(&Table { rows: Vec::new(), ..one });
    assert_eq!((empty.levels.len(), empty.variation.len(), empty.notes.len()), (0, 0, 0));
}

#[test]
fn zeros_make_differences_of_ratios_and_say_so() {
    let mut table = two_by_three(3, 1, 0.02);
    change(&mut table, "a0 b0", 1, |_| 0.0);
    let got = effects(&table);
    assert_eq!(got.scale, Scale::Difference);
    assert!(got.notes.iter().any(|n| n.contains("zeros")), "{:?}", got.notes);
    assert!(got.levels.iter().all(|e| e.effect.is_finite()));
    change(&mut table, "a0 b0", 1, |_| f64::NAN);
    assert_eq!(effects(&table).scale, Scale::Ratio);
}

#[test]
fn factors_that_never_cross_are_not_told_apart() {
    let mut table = Design::new(&[("a", 2), ("b", 2)], 3).table(|l| 1e6 * (1 + l[0]) as f64, 0.02);
    table.rows.retain(|r| r.levels[0] == r.levels[1]);
    let got = effects(&table);
    assert!(got.notes.iter().any(|n| n.contains("a and b cannot be distinguished")), "{:?}", got.notes);
}
