// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far a load is, on standard error: a line that is written over on a
//! terminal, else one now and then.

use plumb_load::run;
use plumb_load::session::Observer;
use plumb_trace::units;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Between lines where they stay.
const APART: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Progress {
    quiet: bool,
    terminal: bool,
    last: Mutex<Option<Instant>>,
}

impl Progress {
    /// Shows nothing when `quiet`.
    pub fn new(quiet: bool) -> Self {
        Progress { quiet, terminal: std::io::stderr().is_terminal(), last: Mutex::new(None) }
    }

    /// Shows a line in place of the one before; where lines stay, one now and then.
    pub fn show(&self, line: &str) {
        if self.quiet {
            return;
        }
        if self.terminal {
            eprint!("\r\x1b[K{line}");
            return;
        }
        let Ok(mut last) = self.last.lock() else { return };
        if last.is_none_or(|at| at.elapsed() >= APART) {
            *last = Some(Instant::now());
            eprintln!("{line}");
        }
    }

    fn wipe(&self) {
        if !self.quiet && self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}

impl Observer for Progress {
    fn say(&self, sentence: &str) {
        if !self.quiet {
            self.wipe();
            eprintln!("{sentence}");
        }
    }

    fn begins(&self, what: &str) {
        if !self.quiet && self.terminal {
            eprint!("\r\x1b[K{what}: getting ready ...");
        }
        if let Ok(mut last) = self.last.lock() {
            *last = Some(Instant::now());
        }
    }

    fn progress(&self, what: &str, progress: &run::Progress) {
        self.show(&line(what, progress));
    }

    fn ends(&self) {
        self.wipe();
    }
}

fn line(what: &str, p: &run::Progress) -> String {
    let mut line = format!(
        "{what}: {:.0} s, {} operations, {}/s, {}/s",
        p.elapsed_ns as f64 / 1e9,
        units::count(p.operations),
        units::count(p.rate as u64),
        units::bytes(p.bandwidth as u64),
    );
    if p.errors > 0 {
        line += &format!(", {} failed", units::count(p.errors));
    }
    if let Some(left) = p.left_ns {
        line += &format!(", {:.0} s left", left as f64 / 1e9);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_rate_and_time_left() {
        let mut p = run::Progress {
            elapsed_ns: 3_000_000_000,
            left_ns: Some(7_000_000_000),
            rate: 1234.5,
            bandwidth: 65536.0,
            operations: 4000,
            ..run::Progress::default()
        };
        assert_eq!(line("write", &p), "write: 3 s, 4,000 operations, 1,234/s, 64.0 KiB/s, 7 s left");
        (p.left_ns, p.errors) = (None, 2);
        assert_eq!(line("write", &p), "write: 3 s, 4,000 operations, 1,234/s, 64.0 KiB/s, 2 failed");
    }
}
