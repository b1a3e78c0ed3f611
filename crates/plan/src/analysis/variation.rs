// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much of the variation each factor explains (Jain, ch. 18 and 21-23): sums of squares
//! on the scale on which effects are told, every combination counting alike.

use super::cells::{CellFigures, Scale};
use crate::table::Table;
use plumb_stats::fit::{fit, Term};
use plumb_stats::repetitions;
use serde::Serialize;

/// A part of the variation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// A factor, two of them (`method x fs`), or what is left.
    pub what: String,
    /// Names of the factors; none of what is left.
    pub factors: Vec<String>,
    /// Its share, 0 to 1.
    pub share: f64,
}

/// The parts; they add up to 1, or are none where nothing varies.
///
/// Terms are taken one after the other, single factors before pairs and the larger before the
/// smaller, so that the parts add up also where combinations are missing; the order
/// matters only there.
pub fn of(table: &Table, means: &[f64], cells: &[CellFigures], terms: &[Term], scale: Scale) -> Vec<Part> {
    let per_cell = repetitions(cells);
    let within: f64 = cells.iter().map(|c| squares_within(c, scale)).sum();
    let name = |term: &Term| -> Vec<String> {
        term.factors.iter().map(|f| table.factors[*f].name.clone()).collect()
    };
    let whole = fit(means, terms);
    let size = |i: usize| -> f64 { terms[i].group.iter().map(|g| whole.effects[i][*g].powi(2)).sum::<f64>() };
    let mut order: Vec<usize> = (0..terms.len()).collect();
    order.sort_by(|a, b| {
        let few = terms[*a].factors.len().cmp(&terms[*b].factors.len());
        few.then(size(*b).total_cmp(&size(*a)))
    });
    let mut parts = Vec::new();
    let mut taken: Vec<Term> = Vec::new();
    let mut left = fit(means, &taken).squares();
    for i in order {
        taken.push(terms[i].clone());
        let next = fit(means, &taken).squares().min(left);
        let factors = name(&terms[i]);
        parts.push(Part { what: factors.join(" x "), factors, share: (left - next) * per_cell });
        left = next;
    }
    let repeated = cells.iter().any(|c| c.values.len() > 1);
    let varied = terms.iter().filter(|t| t.factors.len() == 1).count();
    let rest = |what: &str, share: f64| Part { what: what.into(), factors: Vec::new(), share };
    if !repeated && varied > 1 {
        let what = if varied > 2 {
            "three factors and more, and chance"
        } else {
            "both factors together, and chance"
        };
        parts.push(rest(what, left * per_cell));
    } else {
        if varied > 2 {
            parts.push(rest("three factors and more together", left * per_cell));
        }
        if repeated {
            parts.push(rest("chance (between repetitions)", within));
        }
    }
    let all: f64 = parts.iter().map(|p| p.share).sum();
    if all <= 0.0 || !all.is_finite() {
        return Vec::new();
    }
    parts.iter_mut().for_each(|p| p.share /= all);
    parts
}

/// Repetitions of a cell; of different numbers the harmonic mean, as one does for unweighted means.
fn repetitions(cells: &[CellFigures]) -> f64 {
    let inverse: f64 = cells.iter().map(|c| 1.0 / c.values.len().max(1) as f64).sum();
    cells.len() as f64 / inverse.max(f64::MIN_POSITIVE)
}

fn squares_within(cell: &CellFigures, scale: Scale) -> f64 {
    let values: Vec<f64> = cell.values.iter().map(|v| scale.to(*v)).collect();
    let mean = repetitions::mean(&values);
    values.iter().map(|v| (v - mean).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::Design;
    use super::super::Analysis;
    use super::*;

    fn parts(table: &Table) -> Vec<Part> {
        let parts = Analysis::of(table, "write.mean").expect("a figure").effects.variation;
        assert!((parts.iter().map(|p| p.share).sum::<f64>() - 1.0).abs() < 1e-9, "{parts:?}");
        assert!(parts.iter().all(|p| p.share >= 0.0), "{parts:?}");
        parts
    }

    fn share(parts: &[Part], what: &str) -> f64 {
        parts.iter().find(|p| p.what.starts_with(what)).unwrap_or_else(|| panic!("{what}: {parts:?}")).share
    }

    #[test]
    fn shares_are_those_of_the_squares() {
        // On the logarithm a makes +-1, b +-2 (in units of ln 2 / 2): squares as 1 : 4.
        let of = |l: &[usize]| 1e6 * f64::from(1u32 << (l[0] + 2 * l[1]));
        let got = parts(&Design::new(&[("a", 2), ("b", 2)], 3).table(of, 0.0));
        assert!((share(&got, "b") - 0.8).abs() < 1e-6 && got[0].what == "b", "{got:?}");
        assert!((share(&got, "a") - 0.2).abs() < 1e-6, "{got:?}");
        assert!(share(&got, "a x b").max(share(&got, "chance")) < 1e-6, "{got:?}");
    }

    #[test]
    fn an_example_of_two_factors_by_hand() {
        // Means 0, 0, 0, 4 (on the logarithm): whole 1, each factor 1, together 1, squares 4 : 4 : 4.
        let of = |l: &[usize]| if l == [1, 1] { 4.0f64.exp() } else { 1.0 };
        let got = parts(&Design::new(&[("a", 2), ("b", 2)], 2).table(of, 0.0));
        for what in ["a", "b", "a x b"] {
            let one = got.iter().find(|p| p.what == what).expect(what);
            assert!((one.share - 1.0 / 3.0).abs() < 1e-6, "{got:?}");
        }
    }

    #[test]
    fn noise_alone_is_chance_and_three_factors_have_their_rest() {
        let got = parts(&Design::new(&[("a", 2), ("b", 3)], 40).table(|_| 1e6, 0.1));
        assert!(share(&got, "chance") > 0.9, "{got:?}");
        let of = |l: &[usize]| if l == [1, 1, 1] { 9e6 } else { 1e6 };
        let got = parts(&Design::new(&[("a", 2), ("b", 2), ("c", 2)], 2).table(of, 0.0));
        assert!((share(&got, "three") - 1.0 / 7.0).abs() < 1e-6, "all seven are alike: {got:?}");
        let got = parts(&Design::new(&[("a", 2), ("b", 2)], 1).table(|l| 1e6 * (1 + l[0]) as f64, 0.1));
        assert!(share(&got, "both factors together, and chance") > 0.0);
        let nothing = Design::new(&[("a", 2)], 2).table(|_| 1e6, 0.0);
        assert_eq!(Analysis::of(&nothing, "write.mean").expect("a figure").effects.variation, []);
    }
}
