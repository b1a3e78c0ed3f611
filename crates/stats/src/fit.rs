// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Least squares for effects, also where combinations are missing: the means of what a
//! term has not explained yet are moved into it, term by term, until nothing moves (backfitting;
//! Gauss and Seidel's iteration of the normal equations). With all combinations there it
//! ends after one round, and is Jain's arithmetic of means (The Art of Computer Systems
//! Performance Analysis, 1991, ch. 21-23).

/// Rounds at most; a design that needs more can hardly tell its factors apart.
const MOST_ROUNDS: usize = 200;
/// What moves less, as a part of the largest value, is nothing.
const NOTHING: f64 = 1e-10;

/// A factor, or two together: which group each cell is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// Factors by number: one or two.
    pub factors: Vec<usize>,
    /// Each group's levels of these factors.
    pub levels: Vec<Vec<usize>>,
    pub group: Vec<usize>,
    pub cells: Vec<usize>,
}

impl Term {
    /// Of cells with these levels; groups are the combinations that occur.
    pub fn new(factors: &[usize], cells: &[Vec<usize>]) -> Term {
        let of = |cell: &Vec<usize>| factors.iter().map(|f| cell[*f]).collect::<Vec<usize>>();
        let mut levels: Vec<Vec<usize>> = cells.iter().map(of).collect();
        levels.sort();
        levels.dedup();
        let place = |cell| levels.binary_search(&of(cell)).unwrap_or_default();
        let group: Vec<usize> = cells.iter().map(place).collect();
        let mut count = vec![0; levels.len()];
        group.iter().for_each(|g| count[*g] += 1);
        Term { factors: factors.to_vec(), levels, group, cells: count }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    pub whole: f64,
    /// Each term's effects, group by group.
    pub effects: Vec<Vec<f64>>,
    /// What is left of each cell.
    pub rest: Vec<f64>,
}

impl Fit {
    /// Sum of the squares of what is left.
    pub fn squares(&self) -> f64 {
        self.rest.iter().map(|r| r * r).sum()
    }
}

/// Fits single factors first, then pairs of factors to what those leave.
pub fn fit(values: &[f64], terms: &[Term]) -> Fit {
    let whole = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let mut fit = Fit {
        whole,
        effects: terms.iter().map(|t| vec![0.0; t.cells.len()]).collect(),
        rest: values.iter().map(|v| v - whole).collect(),
    };
    let largest = fit.rest.iter().fold(0.0f64, |l, r| l.max(r.abs()));
    for order in [1, 2] {
        for _ in 0..MOST_ROUNDS {
            let mut moved = 0.0f64;
            for (term, effects) in terms.iter().zip(&mut fit.effects) {
                if term.factors.len() == order {
                    moved = moved.max(settle(term, effects, &mut fit.rest));
                }
            }
            if moved <= largest * NOTHING {
                break;
            }
        }
    }
    // A level's effect is told beside the mean of the levels, not of the cells.
    for (term, effects) in terms.iter().zip(&mut fit.effects).filter(|(t, _)| t.factors.len() == 1) {
        let mean = effects.iter().sum::<f64>() / term.cells.len().max(1) as f64;
        effects.iter_mut().for_each(|e| *e -= mean);
        fit.whole += mean;
    }
    fit
}

/// Moves the groups' means from the rest to the effects; the largest of them.
fn settle(term: &Term, effects: &mut [f64], rest: &mut [f64]) -> f64 {
    let mut means = vec![0.0; effects.len()];
    for (group, r) in term.group.iter().zip(rest.iter()) {
        means[*group] += r;
    }
    let mut largest = 0.0f64;
    for ((mean, cells), effect) in means.iter_mut().zip(&term.cells).zip(effects) {
        *mean /= (*cells).max(1) as f64;
        *effect += *mean;
        largest = largest.max(mean.abs());
    }
    for (group, r) in term.group.iter().zip(rest) {
        *r -= means[*group];
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(missing: &[(usize, usize)]) -> Vec<Vec<usize>> {
        let all = (0..3).flat_map(|a| (0..4).map(move |b| (a, b)));
        all.filter(|c| !missing.contains(c)).map(|(a, b)| vec![a, b]).collect()
    }

    #[test]
    fn effects_that_add_up_come_out_whatever_is_missing() {
        let (a, b) = ([-1.0, 0.5, 0.5], [-3.0, -1.0, 1.0, 3.0]);
        for missing in [vec![], vec![(0, 0), (1, 2)], vec![(0, 0), (0, 1), (0, 2), (2, 3)]] {
            let cells = grid(&missing);
            let values: Vec<f64> = cells.iter().map(|c| 7.0 + a[c[0]] + b[c[1]]).collect();
            let got = fit(&values, &[Term::new(&[0], &cells), Term::new(&[1], &cells)]);
            assert!((got.whole - 7.0).abs() < 1e-6, "{missing:?}: {}", got.whole);
            for (got, want) in got.effects[0].iter().chain(&got.effects[1]).zip(a.iter().chain(&b)) {
                assert!((got - want).abs() < 1e-6, "{missing:?}: {got} {want}");
            }
            assert!(got.squares() < 1e-12, "{missing:?}: {:?}", got.rest);
        }
    }

    #[test]
    fn what_two_do_together_is_left_to_their_pair() {
        let cells = grid(&[]);
        let together = |c: &[usize]| if c == [1, 2] { 6.0 } else { 0.0 };
        let values: Vec<f64> = cells.iter().map(|c| together(c)).collect();
        let terms = [Term::new(&[0], &cells), Term::new(&[1], &cells), Term::new(&[0, 1], &cells)];
        let got = fit(&values, &terms);
        // 6 less its row's 1.5, its column's 2, and the whole's 0.5 counted twice.
        let at = terms[2].levels.iter().position(|l| l == &[1, 2]).expect("there");
        assert!((got.effects[2][at] - 3.0).abs() < 1e-9, "{}", got.effects[2][at]);
        assert!(got.squares() < 1e-12);
    }

    #[test]
    fn nothing_and_one_cell_are_no_trouble() {
        assert_eq!(fit(&[], &[]).whole, 0.0);
        let one = [vec![0usize]];
        let got = fit(&[5.0], &[Term::new(&[0], &one)]);
        assert_eq!((got.whole, got.squares()), (5.0, 0.0));
    }
}
