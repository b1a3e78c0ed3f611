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

/// The names of failed tests, as Rust's harness and web/test/reporter.ts list them at a program's end.
#[derive(Debug, Default)]
pub struct Failures {
    listing: bool,
    /// The names, each once.
    pub names: Vec<String>,
}

impl Failures {
    /// Takes one line of output.
    pub fn take(&mut self, line: &str) {
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

#[cfg(test)]
mod tests {
    use super::*;

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
