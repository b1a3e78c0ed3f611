// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far a plan is and how long it will still take.

use super::state::{End, Made, State};
use std::io::IsTerminal;

/// The plan's progress, on standard error.
#[derive(Debug)]
pub struct Progress {
    quiet: bool,
    terminal: bool,
}

impl Progress {
    /// Says nothing if `quiet`.
    pub fn new(quiet: bool) -> Progress {
        Progress { quiet, terminal: std::io::stderr().is_terminal() }
    }

    /// A line, also when quiet: something that the user must know.
    pub fn must(&self, line: &str) {
        eprintln!("{}plumb: {line}", if self.terminal { "\r\x1b[K" } else { "" });
    }

    pub fn say(&self, line: &str) {
        if !self.quiet {
            eprintln!("{}{line}", if self.terminal { "\r\x1b[K" } else { "" });
        }
    }

    /// A repetition begins; shown on a terminal until it has ended.
    pub fn begins(&self, state: &State, cell: usize, repetition: u32) {
        if !self.quiet && self.terminal {
            let left = left(state).map_or(String::new(), |ns| format!(", about {} left", words(ns)));
            eprint!("\r\x1b[K{} ...{left}", what(state, state.made.len() + 1, cell, repetition));
        }
    }

    /// It has ended; it is in the state already.
    pub fn ended(&self, state: &State, made: &Made) {
        let left = match left(state) {
            Some(0) | None => String::new(),
            Some(ns) => format!(", about {} left", words(ns)),
        };
        let end = match &made.end {
            End::Measured => words(made.took_ns),
            End::Failed(why) => format!("FAILED after {}: {why}", words(made.took_ns)),
            End::TimedOut => {
                format!("took longer than the limit; see {}", made.dir.join("stuck.txt").display())
            }
        };
        self.say(&format!("{}: {end}{left}", what(state, state.made.len(), made.cell, made.repetition)));
        for doubt in &made.doubts {
            self.say(&format!("    {doubt}"));
        }
    }
}

fn what(state: &State, number: usize, cell: usize, repetition: u32) -> String {
    // A plan without factors has one cell, whose label is empty.
    let label = state.cells.get(cell).map_or("", |c| c.label.as_str());
    let label = if label.is_empty() { state.plan.name.as_str() } else { label };
    format!("[{number}/{}] {label}, repetition {repetition}", state.schedule.len())
}

/// What is still to be made, in its order.
pub fn rest(state: &State) -> Vec<(usize, u32)> {
    let is_made = |c: usize, r: u32| state.made.iter().any(|m| (m.cell, m.repetition) == (c, r));
    state.schedule.iter().copied().filter(|(c, r)| !is_made(*c, *r)).collect()
}

/// How long the next repetition of a cell takes, ns: as its longest so far, or as the mean of all; before
/// the first one its part of what the plan says that all of it takes. None of a plan without cells.
pub fn next(state: &State, cell: usize) -> Option<u64> {
    let own = state.made.iter().filter(|m| m.cell == cell).map(|m| m.took_ns).max();
    let all = state.cells.len() as u64 * u64::from(state.plan.repeat);
    own.or_else(|| mean(state.made.iter().map(|m| m.took_ns))).or_else(|| state.plan.takes.0.checked_div(all))
}

/// How long all that is left takes, ns: each cell by its own mean, one without by that of all.
pub fn left(state: &State) -> Option<u64> {
    let all = mean(state.made.iter().map(|m| m.took_ns))?;
    let of =
        |cell: usize| mean(state.made.iter().filter(|m| m.cell == cell).map(|m| m.took_ns)).unwrap_or(all);
    Some(rest(state).into_iter().map(|(cell, _)| of(cell)).sum())
}

fn mean(values: impl Iterator<Item = u64>) -> Option<u64> {
    let (count, sum) = values.fold((0u128, 0u128), |(n, sum), v| (n + 1, sum + u128::from(v)));
    (count > 0).then(|| (sum / count) as u64)
}

/// A length of time as one says it: `0.4 s`, `12 s`, `6 min`, `2.5 h`.
pub fn words(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    match seconds {
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 119.5 => format!("{s:.0} s"),
        s if s < 119.5 * 60.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// A length of time as people say it: `40 s`, `12 min`, `3 h 20 min`.
pub fn about(ns: u64) -> String {
    let seconds = ns.div_ceil(1_000_000_000);
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(schedule: &[(usize, u32)], made: &[(usize, u32, u64)]) -> State {
        let text = r#"name = "t"
            title = "t"
            purpose = "t"
            hypothesis = "t"
            takes = "1s""#;
        let one = |(cell, repetition, took_ns): &(usize, u32, u64)| Made {
            cell: *cell,
            repetition: *repetition,
            dir: "x".into(),
            begun: String::new(),
            took_ns: *took_ns,
            elapsed_ns: 0,
            end: End::Measured,
            doubts: Vec::new(),
        };
        State {
            schedule: schedule.to_vec(),
            made: made.iter().map(one).collect(),
            ..State::empty(toml::from_str(text).expect("a plan"))
        }
    }

    #[test]
    fn what_is_left_is_told_by_each_cells_own_time() {
        let schedule = [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (2, 2)];
        assert_eq!(left(&state(&schedule, &[])), None);
        // Cell 0 takes 10, cell 1 takes 30; cell 2, unknown, counts as their mean.
        let known = state(&schedule, &[(0, 1, 10), (1, 1, 30)]);
        assert_eq!(left(&known), Some(20 + 10 + 30 + 20));
        assert_eq!(rest(&known), [(2, 1), (0, 2), (1, 2), (2, 2)]);
        assert_eq!(left(&state(&schedule[..1], &[(0, 1, 10)])), Some(0));
    }

    #[test]
    fn the_next_one_is_expected_to_take_as_long_as_the_longest() {
        let state = state(&[], &[(0, 1, 10), (0, 2, 40), (1, 1, 10)]);
        assert_eq!((next(&state, 0), next(&state, 1), next(&state, 2)), (Some(40), Some(10), Some(20)));
    }

    #[test]
    fn times_are_said_as_people_do() {
        for (seconds, said) in [
            (0.04, "0.0 s"),
            (1.26, "1.3 s"),
            (12.4, "12 s"),
            (119.0, "119 s"),
            (360.0, "6 min"),
            (9000.0, "2.5 h"),
        ] {
            assert_eq!(words((seconds * 1e9) as u64), said);
        }
    }
}
