// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One time as a sum of others: so many of this operation, so many of that, and what is the same everywhere.
//!
//! All parts are 0 or more, and what is made small are relative errors, since the times of slow and fast machines lie far
//! apart. With at most [`MOST`] of the others the best set of parts is found by trying all.

use std::array::from_fn;
use std::collections::BTreeMap;

/// Most of the others that one is made of.
pub const MOST: usize = 2;

/// A time as a sum.
#[derive(Debug, Clone, PartialEq)]
pub struct Sum {
    /// Number of the other, and how many times it is in it.
    pub parts: Vec<(usize, f64)>,
    /// What is in it everywhere.
    pub constant: f64,
}

impl Sum {
    /// What it says of a point, of which the others are known.
    pub fn of(&self, others: &[f64]) -> f64 {
        self.constant + self.parts.iter().map(|(i, times)| times * others[*i]).sum::<f64>()
    }

    /// The sum that says best what `times` are of `points`, whose `others` are known; none of fewer points than unknowns
    /// and two more.
    pub fn best(others: &[Vec<f64>], times: &[f64], points: &[usize]) -> Option<Sum> {
        let mut normal = Normal::none(others.first()?.len());
        points.iter().for_each(|i| normal.add(&others[*i], times[*i]));
        normal.best()
    }

    fn unknowns(&self) -> usize {
        self.parts.len() + usize::from(self.constant > 0.0)
    }
}

/// The relative error of each point, as the sum that the points of other groups choose says it: 0.1 is 10 % too much. `groups` has the
/// group of each point: points that are nearly the same tell nothing of a new one.
pub fn left_out(others: &[Vec<f64>], times: &[f64], groups: &[usize]) -> Vec<f64> {
    let Some(count) = others.first().map(Vec::len) else { return Vec::new() };
    let mut by: BTreeMap<usize, Normal> = BTreeMap::new();
    for (i, group) in groups.iter().enumerate() {
        by.entry(*group).or_insert_with(|| Normal::none(count)).add(&others[i], times[i]);
    }
    // Sums of the groups behind each one; to subtract one from the sum of all would lose the digits of small ones.
    let mut behind = vec![Normal::none(count)];
    for normal in by.values().rev() {
        let mut more = behind[behind.len() - 1].clone();
        more.join(normal);
        behind.push(more);
    }
    let mut before = Normal::none(count);
    let mut sums = BTreeMap::new();
    for (at, (group, normal)) in by.iter().enumerate() {
        let mut rest = before.clone();
        rest.join(&behind[by.len() - 1 - at]);
        sums.insert(*group, rest.best());
        before.join(normal);
    }
    let of = |i: usize| Some(sums[&groups[i]].as_ref()?.of(&others[i]) / times[i] - 1.0);
    (0..times.len()).filter_map(of).collect()
}

/// The normal equations of relative errors, of all others and the constant, which is the last.
#[derive(Debug, Clone)]
struct Normal {
    points: usize,
    squares: Vec<Vec<f64>>,
    right: Vec<f64>,
}

impl Normal {
    /// Of no point, with so many others.
    fn none(others: usize) -> Self {
        Self { points: 0, squares: vec![vec![0.0; others + 1]; others + 1], right: vec![0.0; others + 1] }
    }

    fn add(&mut self, others: &[f64], time: f64) {
        let row: Vec<f64> = others.iter().chain([&1.0]).map(|part| part / time).collect();
        self.points += 1;
        for (a, part) in row.iter().enumerate() {
            self.right[a] += part;
            self.squares[a].iter_mut().zip(&row).for_each(|(sum, other)| *sum += part * other);
        }
    }

    fn join(&mut self, more: &Normal) {
        self.points += more.points;
        self.right.iter_mut().zip(&more.right).for_each(|(sum, more)| *sum += more);
        for (sums, more) in self.squares.iter_mut().zip(&more.squares) {
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
    }

    fn best(&self) -> Option<Sum> {
        let count = self.right.len() - 1;
        let mut best: Option<(f64, Sum)> = None;
        let pairs = (0..count).flat_map(|a| (a + 1..count).map(move |b| vec![a, b]));
        for chosen in (0..count).map(|a| vec![a]).chain(pairs) {
            let unknowns = chosen.len() + 1;
            if self.points < unknowns + 2 {
                continue;
            }
            let Some((squares, sum)) = self.fit(&chosen) else { continue };
            // Generalised cross-validation: another unknown must earn its place (Craven and Wahba, 1979).
            let free = 1.0 - sum.unknowns() as f64 / self.points as f64;
            let score = squares / (free * free);
            if best.as_ref().is_none_or(|(least, _)| score < *least) {
                best = Some((score, sum));
            }
        }
        best.map(|(_, sum)| sum)
    }

    /// Least squares with parts of 0 or more: of all sets of parts that may be above 0 the best whose solution is.
    fn fit(&self, chosen: &[usize]) -> Option<(f64, Sum)> {
        let columns = chosen.len() + 1;
        let place = |c: usize| chosen.get(c).copied().unwrap_or(self.right.len() - 1);
        let squares: [[f64; 3]; 3] = from_fn(|a| from_fn(|b| self.squares[place(a)][place(b)]));
        let right: [f64; 3] = from_fn(|a| self.right[place(a)]);
        let mut best: Option<(f64, [f64; 3])> = None;
        for set in 1..1_usize << columns {
            let members: Vec<usize> = (0..columns).filter(|c| set >> c & 1 == 1).collect();
            let Some(solution) = solve(&squares, &right, &members) else { continue };
            if members.iter().any(|c| solution[*c] < 0.0) {
                continue;
            }
            // The sum of (1 - prediction)², by the normal equations.
            let left = self.points as f64 - members.iter().map(|c| solution[*c] * right[*c]).sum::<f64>();
            if best.is_none_or(|(least, _)| left < least) {
                best = Some((left, solution));
            }
        }
        let (left, solution) = best?;
        let parts = chosen.iter().zip(solution).map(|(o, times)| (*o, times));
        let parts: Vec<(usize, f64)> = parts.filter(|(_, times)| *times > 0.0).collect();
        (!parts.is_empty()).then_some((left.max(0.0), Sum { parts, constant: solution[columns - 1] }))
    }
}

/// Gauss with the members' rows and columns; the others are 0. None where they depend on each other.
fn solve(squares: &[[f64; 3]; 3], right: &[f64; 3], members: &[usize]) -> Option<[f64; 3]> {
    let n = members.len();
    let mut rows: Vec<Vec<f64>> = members
        .iter()
        .map(|a| members.iter().map(|b| squares[*a][*b]).chain([right[*a]]).collect())
        .collect();
    for at in 0..n {
        let pivot = (at..n).max_by(|a, b| rows[*a][at].abs().total_cmp(&rows[*b][at].abs()))?;
        rows.swap(at, pivot);
        if rows[at][at].abs() < 1e-12 * squares[members[at]][members[at]].abs() || rows[at][at] == 0.0 {
            return None;
        }
        for below in at + 1..n {
            let by = rows[below][at] / rows[at][at];
            let (above, rest) = rows.split_at_mut(below);
            for (value, pivot) in rest[0].iter_mut().zip(&above[at]).skip(at) {
                *value -= by * pivot;
            }
        }
    }
    let mut solution = [0.0; 3];
    let mut found = vec![0.0; n];
    for at in (0..n).rev() {
        let known: f64 = (at + 1..n).map(|c| rows[at][c] * found[c]).sum();
        found[at] = (rows[at][n] - known) / rows[at][at];
        solution[members[at]] = found[at];
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    /// Points of four others, and a time that has 250 of the second, 3 of the fourth, and 0.5.
    fn points(n: usize, noise: f64, seed: u64) -> (Vec<Vec<f64>>, Vec<f64>) {
        let mut random = SplitMix64::new(seed);
        let mut others = || -> Vec<f64> { (0..4).map(|_| (random.normal() - 3.0).exp()).collect() };
        let others: Vec<Vec<f64>> = (0..n).map(|_| others()).collect();
        let mut random = SplitMix64::new(seed + 1000);
        let mut of = |o: &Vec<f64>| (250.0 * o[1] + 3.0 * o[3] + 0.5) * (noise * random.normal()).exp();
        let times = others.iter().map(&mut of).collect();
        (others, times)
    }

    #[test]
    fn the_parts_of_a_sum_are_found() {
        let (others, times) = points(20, 0.0, 1);
        let all: Vec<usize> = (0..20).collect();
        let sum = Sum::best(&others, &times, &all).expect("enough points");
        assert_eq!(sum.parts.iter().map(|p| p.0).collect::<Vec<_>>(), [1, 3], "{sum:?}");
        assert!(
            (sum.parts[0].1 / 250.0 - 1.0).abs() < 1e-6 && (sum.constant / 0.5 - 1.0).abs() < 1e-3,
            "{sum:?}"
        );
        assert!(left_out(&others, &times, &all).iter().all(|e| e.abs() < 1e-3));
    }

    #[test]
    fn what_was_left_out_is_told_as_by_the_sum_of_the_rest() {
        let groups: Vec<usize> = (0..24).map(|i| i % 9).collect();
        for seed in 0..20 {
            let (mut others, mut times) = points(24, 0.1, seed);
            // A machine that is far slower than the others.
            others[5].iter_mut().chain([&mut times[5]]).for_each(|time| *time *= 1e5);
            others[6][0] *= 1e6;
            let slowly = |i: usize| {
                let rest: Vec<usize> = (0..24).filter(|j| groups[*j] != groups[i]).collect();
                Sum::best(&others, &times, &rest).expect("a sum").of(&others[i]) / times[i] - 1.0
            };
            let errors = left_out(&others, &times, &groups);
            let alike = |(i, e): (usize, &f64)| (e - slowly(i)).abs() <= 1e-6 * (1.0 + e.abs());
            assert!(errors.len() == 24 && errors.iter().enumerate().all(alike), "{seed}: {errors:?}");
        }
    }

    #[test]
    fn nothing_is_in_a_time_less_than_not_at_all() {
        let (others, _) = points(12, 0.0, 2);
        // Falls where the second rises.
        let times: Vec<f64> = others.iter().map(|o| 1.0 / o[1]).collect();
        let sum = Sum::best(&others, &times, &(0..12).collect::<Vec<_>>());
        assert!(sum.is_none_or(|s| s.constant >= 0.0 && s.parts.iter().all(|p| p.1 > 0.0)));
        assert_eq!(Sum::best(&others, &times, &[0, 1, 2]), None, "three points");
    }

    #[test]
    fn the_error_of_what_was_left_out_is_that_of_new_points() {
        let (mut left, mut new) = (Vec::new(), Vec::new());
        for seed in 0..40 {
            let (others, times) = points(17, 0.2, seed);
            let (known, after) = (16, 16);
            let median = |errors: &[f64]| {
                let absolute: Vec<f64> = errors.iter().map(|e| e.abs()).collect();
                crate::repetitions::median(&absolute)
            };
            let all: Vec<usize> = (0..known).collect();
            left.push(median(&left_out(&others[..known], &times[..known], &all)));
            let sum = Sum::best(&others, &times, &all).expect("a sum");
            new.push((sum.of(&others[after]) / times[after] - 1.0).abs());
        }
        let (left, new) = (crate::repetitions::median(&left), crate::repetitions::median(&new));
        assert!((0.10..0.25).contains(&left) && (left / new - 1.0).abs() < 0.6, "{left} {new}");
    }

    #[test]
    fn points_of_one_group_do_not_tell_each_other() {
        // Two points of each disk, nearly the same; the time is the disk's own, and the others say nothing of it.
        let mut random = SplitMix64::new(5);
        let (mut others, mut times) = (Vec::new(), Vec::new());
        for _ in 0..8 {
            let (disk, time) = (random.normal().exp(), random.normal().exp());
            for _ in 0..2 {
                others.push(vec![disk * (1.0 + 0.001 * random.unit()), random.normal().exp()]);
                times.push(time);
            }
        }
        let (apart, pairs): (Vec<usize>, Vec<usize>) = (0..16).map(|i| (i, i / 2)).unzip();
        let of = |points: std::ops::Range<usize>| {
            let sum = Sum::best(&others, &times, &points.collect::<Vec<_>>()).expect("a sum");
            sum.of(&others[0]) / times[0] - 1.0
        };
        let is = |groups: &[usize], points| (left_out(&others, &times, groups)[0] - of(points)).abs() < 1e-9;
        assert!(is(&pairs, 2..16) && is(&apart, 1..16));
        assert!((of(2..16) - of(1..16)).abs() > 1e-6, "the other point of its group says something of it");
    }
}
