// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Crash consistency: a disk that forgets what was not flushed, and a power cut at a chosen moment.
//!
//! The checker makes the disk and everything on it in a mount namespace of its own; a process apart,
//! outside of that namespace, serves the disk. If both were one process and it were killed, the file
//! system's unmount at the end of the namespace would wait for a flush by a server that is dead
//! already. So the server outlives the checker, answers whatever comes with an error, ends what
//! still lives in the namespace, and goes when the disk has been let go of.

mod blocks;
mod check;
mod command;
mod disk;
mod namespace;
mod prove;
mod serve;

use anyhow::Result;
use clap::Subcommand;
use std::process::ExitCode;
use std::time::Duration;

/// `plumb-faults crash ...`
#[derive(Debug, Subcommand)]
pub enum Words {
    /// Run a command on a new disk, cut the power, and let another command look at what survived.
    #[command(after_help = check::HELP)]
    Check(check::Words),
    /// Test the disk itself: what is not flushed is lost, what is flushed is kept.
    #[command(after_help = prove::HELP)]
    Prove(prove::Words),
    /// Serves a disk (what `check` and `prove` start): control on stdin, the open /dev/fuse as stdout.
    #[command(hide = true)]
    Serve(serve::Words),
}

/// Does it.
///
/// # Errors
/// The disk cannot be set up or something took too long; not what a command found on it.
pub fn main(words: &Words) -> Result<ExitCode> {
    match words {
        Words::Check(words) => check::main(words),
        Words::Prove(words) => prove::main(words),
        Words::Serve(words) => serve::main(words).map(|()| ExitCode::SUCCESS),
    }
}

/// Looks every few milliseconds whether `done`, until `limit`. Whether it was.
fn within(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let start = std::time::Instant::now();
    while !done() {
        if start.elapsed() >= limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// `250ms`, `3s`, `2m`; a bare number is seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "m" => 60.0,
        _ => return Err(format!("{text}: say a duration as 250ms, 3s or 2m")),
    };
    let number = digits.parse::<f64>().ok().filter(|n| (0.0..=86_400.0).contains(n));
    number
        .map(|n| Duration::from_secs_f64(n * factor))
        .ok_or_else(|| format!("{text}: say a duration as 250ms, 3s or 2m"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("3"), Ok(Duration::from_secs(3)));
        for wrong in ["", "ms", "-1s", "1h", "1e99s", "nan"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn waiting_ends_when_it_is_done_and_when_it_takes_too_long() {
        let mut left = 3;
        assert!(within(Duration::from_secs(60), || {
            left -= 1;
            left == 0
        }));
        assert!(!within(Duration::ZERO, || false));
    }
}
