// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long each test took, read from when its line of output came.

use std::time::{Duration, Instant};

/// How the output of a command is divided into tests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Division {
    /// The command is one test.
    Whole,
    /// Rust's harness with one thread: a test ends with its verdict.
    Harness,
    /// A script: a test ends with its line `ok`, `FAIL` or `PASS`, or with the row of a fault.
    Answers,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Timed {
    pub name: String,
    pub took: Duration,
}

/// Times the tests of one command.
pub struct Watch {
    division: Division,
    /// What the names begin with.
    prefix: String,
    /// When the last test ended.
    since: Instant,
    /// A test of the harness whose own output follows its name.
    open: Option<String>,
    pub times: Vec<Timed>,
}

impl Watch {
    pub fn new(division: Division, prefix: String, now: Instant) -> Self {
        Self { division, prefix, since: now, open: None, times: Vec::new() }
    }

    /// Takes one line of output.
    pub fn take(&mut self, line: &str, now: Instant) {
        match self.division {
            Division::Whole => {}
            Division::Harness => self.harness(line, now),
            Division::Answers => {
                if let Some(name) = answer(line) {
                    self.ended(&name, now);
                }
            }
        }
    }

    /// The command ended.
    pub fn end(&mut self, now: Instant) {
        if self.division == Division::Whole {
            self.ended("", now);
        } else if let Some(name) = self.open.take() {
            self.ended(&name, now);
        }
    }

    fn harness(&mut self, line: &str, now: Instant) {
        if let Some((name, rest)) = line.strip_prefix("test ").and_then(|l| l.split_once(" ... ")) {
            if let Some(before) = self.open.take() {
                self.ended(&before, now);
            }
            if verdict(rest) {
                self.ended(name, now);
            } else {
                self.open = Some(name.into());
            }
        } else if verdict(line) || line.starts_with("test result: ") {
            if let Some(name) = self.open.take() {
                self.ended(&name, now);
            }
        }
    }

    fn ended(&mut self, name: &str, now: Instant) {
        let name = if name.is_empty() { self.prefix.clone() } else { format!("{} {name}", self.prefix) };
        self.times.push(Timed { name, took: now.saturating_duration_since(self.since) });
        self.since = now;
    }
}

fn verdict(text: &str) -> bool {
    text == "ok" || text == "FAILED" || text.starts_with("ignored")
}

/// What a script's line says was tried.
fn answer(line: &str) -> Option<String> {
    for word in ["ok ", "FAIL ", "PASS "] {
        if let Some(name) = line.strip_prefix(word) {
            return Some(name.trim().into());
        }
    }
    let mut words = line.split_whitespace();
    let (name, kind, judged) = (words.next()?, words.next()?, words.next()?);
    (kind == "clean" || matches!(judged, "ok" | "MISSED")).then(|| name.into())
}

/// The slowest of them, slowest first.
pub fn slowest(mut times: Vec<Timed>, count: usize) -> Vec<Timed> {
    times.sort_by_key(|t| std::cmp::Reverse(t.took));
    times.truncate(count);
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines come after these seconds.
    fn timed(division: Division, lines: &[(u64, &str)]) -> Vec<(String, u64)> {
        let start = Instant::now();
        let mut watch = Watch::new(division, "p".into(), start);
        let mut last = start;
        for (second, line) in lines {
            last = start + Duration::from_secs(*second);
            watch.take(line, last);
        }
        watch.end(last);
        watch.times.into_iter().map(|t| (t.name, t.took.as_secs())).collect()
    }

    fn named(all: &[(&str, u64)]) -> Vec<(String, u64)> {
        all.iter().map(|(name, took)| ((*name).to_owned(), *took)).collect()
    }

    #[test]
    fn a_test_of_the_harness_ends_with_its_verdict() {
        let lines = [
            (0, "running 3 tests"),
            (2, "test a::b ... ok"),
            (3, "test c ... it says something"),
            (4, "SKIP nothing"),
            (9, "ok"),
            (10, "test d ... FAILED"),
            (10, "test result: FAILED. 2 passed; 1 failed"),
        ];
        assert_eq!(timed(Division::Harness, &lines), named(&[("p a::b", 2), ("p c", 7), ("p d", 1)]));
    }

    #[test]
    fn a_test_that_is_killed_is_timed_too() {
        let lines = [(1, "test a ... text"), (5, "more text")];
        assert_eq!(timed(Division::Harness, &lines), named(&[("p a", 5)]));
    }

    #[test]
    fn scripts_and_the_fault_suite_are_divided_by_their_answers() {
        let lines = [
            (1, "$ words"),
            (3, "ok   vm-6.1: all of it"),
            (4, "FAIL vm-6.1: nothing"),
            (6, "PASS a disk"),
            (9, "journal                strong  ok      expected x"),
            (10, "sqlite                 clean   clean"),
            (10, "recall strong        100 %"),
        ];
        let expected = [
            ("p vm-6.1: all of it", 3),
            ("p vm-6.1: nothing", 1),
            ("p a disk", 2),
            ("p journal", 3),
            ("p sqlite", 1),
        ];
        assert_eq!(timed(Division::Answers, &lines), named(&expected));
    }

    #[test]
    fn a_whole_command_is_one() {
        assert_eq!(timed(Division::Whole, &[(1, "test a ... ok"), (7, "ok b")]), named(&[("p", 7)]));
    }

    #[test]
    fn the_slowest_come_first() {
        let time = |name: &str, took| Timed { name: name.into(), took: Duration::from_secs(took) };
        let all = vec![time("a", 1), time("b", 3), time("c", 2)];
        assert_eq!(slowest(all, 2), [time("b", 3), time("c", 2)]);
    }
}
