// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the output of a test program tells: Rust's harness, and scripts that end as it does.

#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Counts {
    pub passed: u64,
    /// Tests that failed, and stages.
    pub failed: u64,
    /// By the test harness, at #[ignore].
    pub ignored: u64,
    /// Lines that begin with SKIP and give a reason.
    pub skipped: u64,
}

impl Counts {
    /// A command that counts as one test.
    pub fn one(passed: bool) -> Self {
        Self { passed: u64::from(passed), failed: u64::from(!passed), ..Self::default() }
    }

    pub fn add(&mut self, more: Self) {
        self.passed += more.passed;
        self.failed += more.failed;
        self.ignored += more.ignored;
        self.skipped += more.skipped;
    }
}

/// Adds what one line of output tells.
pub fn count(line: &str, counts: &mut Counts) {
    // With one thread the harness begins a line, and the test's own text follows on it.
    let own = line.strip_prefix("test ").and_then(|l| l.split_once(" ... ")).map_or(line, |(_, text)| text);
    if own.starts_with("SKIP ") {
        counts.skipped += 1;
    }
    let Some((_, numbers)) = line.strip_prefix("test result: ").and_then(|l| l.split_once(". ")) else {
        return;
    };
    for part in numbers.split("; ") {
        let mut words = part.split(' ');
        let (Some(Ok(n)), Some(what)) = (words.next().map(str::parse::<u64>), words.next()) else { continue };
        match what {
            "passed" => counts.passed += n,
            "failed" => counts.failed += n,
            "ignored" => counts.ignored += n,
            _ => {}
        }
    }
}

/// Lines of a panic's message that are kept, and characters of each.
const REASON: (usize, usize) = (5, 300);

/// The names of failed tests, as Rust's harness and web/test/reporter.ts list them at a program's end.
#[derive(Debug, Default)]
pub struct Failures {
    listing: bool,
    /// Lines of the last panic's message that may still come.
    reason: usize,
    /// What the panics of threads said, with the thread's name, which is its test's.
    pub reasons: Vec<(String, Vec<String>)>,
    /// The names, each once.
    pub names: Vec<String>,
}

impl Failures {
    /// Takes one line of output.
    pub fn take(&mut self, line: &str) {
        self.take_reason(line);
        if let Some(check) = line.strip_prefix("FAIL ") {
            // Of a script: what was tried, and what came out.
            self.names.push(check.chars().take(160).collect());
        } else if line == "failures:" {
            self.listing = true;
        } else if self.listing {
            match line.strip_prefix("    ") {
                Some(name) if !name.contains(' ') => {
                    if !self.names.iter().any(|n| n == name) {
                        self.names.push(name.into());
                    }
                }
                _ => self.listing = line.is_empty() && self.names.is_empty(),
            }
        }
    }
}

impl Failures {
    fn take_reason(&mut self, line: &str) {
        // A backtrace's first line, the note in the place of one, or what follows.
        let over = line.starts_with("stack backtrace:") || line.starts_with("note: ") || line == "FAILED";
        let name = line
            .strip_prefix("thread '")
            .filter(|l| l.contains(" panicked at "))
            .and_then(|l| l.split_once("' "));
        if let Some((name, _)) = name {
            self.reasons.retain(|(known, _)| known != name);
            self.reasons.push((name.into(), Vec::new()));
            self.reason = REASON.0;
        } else if over || line.is_empty() {
            self.reason = 0;
        } else if self.reason > 0 {
            self.reason -= 1;
            let last = self.reasons.last_mut();
            last.into_iter().for_each(|(_, lines)| lines.push(line.chars().take(REASON.1).collect()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panics_first_lines_are_the_reason() {
        let mut failures = Failures::default();
        let text = "test a::b ... seen 3\n\nthread 'a::b' (12) panicked at src/x.rs:3:5:\nfirst\nsecond\nstack backtrace:\n   0: begin\nFAILED\n\
                    thread 'c' panicked at src/x.rs:9:5:\none\nnote: run with\nthread 'a::b' (13) panicked at src/x.rs:4:5:\nagain\n\nno more\n";
        text.lines().for_each(|l| failures.take(l));
        let lines = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(failures.reasons, [("c".into(), lines(&["one"])), ("a::b".into(), lines(&["again"]))]);
    }

    fn counted(text: &str) -> Counts {
        let mut counts = Counts::default();
        text.lines().for_each(|l| count(l, &mut counts));
        counts
    }

    #[test]
    fn result_lines_are_summed() {
        let text = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s\n\
                    test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s\n";
        assert_eq!(counted(text), Counts { passed: 14, failed: 3, ignored: 1, skipped: 0 });
    }

    #[test]
    fn failed_tests_are_named_once() {
        let mut failures = Failures::default();
        let text = "failures:\n\n---- a::b stdout ----\nthread panicked\n    at here\n\nfailures:\n    a::b\n    c\n\ntest result: FAILED. 1 passed\n    d\nfailures:\n    c\n";
        text.lines().for_each(|l| failures.take(l));
        failures.take("FAIL vm-6.1: reads: 9 ms, by the kernel 3 ms");
        assert_eq!(failures.names, ["a::b", "c", "vm-6.1: reads: 9 ms, by the kernel 3 ms"]);
    }

    #[test]
    fn skips_are_found_at_a_lines_start_and_behind_the_harness() {
        let text = "SKIP a: needs root\ntest b ... SKIP b: needs root\nok\ntest c ... ok\nwe do not SKIP d: at all\n";
        assert_eq!(counted(text), Counts { skipped: 2, ..Counts::default() });
    }
}
