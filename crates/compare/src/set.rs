// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sets of runs: `set.json` and one run directory for each repetition, 1/, 2/, ...

use crate::run_directory::read;
use anyhow::{bail, Context, Result};
use plumb_machine::json::{formats, Format, Output};
use plumb_model::{sum, RunResult};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Its name in a set's directory.
pub const SET: &str = "set.json";

/// `set.json`: how the set was made and what became of each repetition.
/// Written anew after every repetition, so that a killed set is readable too.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SetFile {
    pub plumb: String,
    /// The words that it was called with.
    pub arguments: Vec<String>,
    /// The command that was repeated; empty for another target.
    pub command: Vec<String>,
    /// Repetitions that were asked for.
    pub asked: u32,
    /// Those that were made, in the order in which they were made.
    pub repetitions: Vec<Repetition>,
    /// Why it ended before all were made, where it did.
    pub ended_early: Option<String>,
}

impl Output for SetFile {
    const FORMAT: &'static Format = &formats::SET;
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Repetition {
    /// Run directory, in the set's.
    pub dir: String,
    /// When it was begun, UTC.
    pub begun: String,
    /// Whole: neither interrupted nor ended by an error of the recording.
    pub complete: bool,
    /// Elapsed time of the target (of the processes that were asked for), ns.
    pub elapsed: u64,
    /// The command's exit code; 128 + n for signal n; none when it still ran, or is no command.
    pub exit_code: Option<i32>,
    pub reason: String,
    /// Events that were recorded.
    pub events: u64,
    /// Events that were lost.
    pub lost: u64,
    /// What went wrong in the recording.
    pub error: Option<String>,
}

/// Elapsed time of what is in the result, ns: from the first begin of a process
/// to the last end; the recording's length where there is no account of time.
pub fn elapsed(result: &RunResult) -> u64 {
    let all = sum(result.processes.iter());
    if all.thread_time == 0 {
        result.end.saturating_sub(result.begin)
    } else {
        all.elapsed
    }
}

/// What of `run.json` a set needs.
#[derive(Deserialize)]
struct RunFile {
    recording: Recording,
}

#[derive(Deserialize)]
struct Recording {
    exit_code: Option<i32>,
    reason: String,
    events: u64,
    lost: u64,
    error: Option<String>,
}

/// A repetition as its run directory tells of it.
///
/// # Errors
/// The directory is not whole, or has no process called as in `comm`.
pub fn repetition(dir: &Path, begun: String, comm: &[String], interrupted: bool) -> Result<Repetition> {
    let run: RunFile = read(&dir.join("run.json"))?;
    let mut result: RunResult = read(&dir.join("result.json"))?;
    if !comm.is_empty() {
        result.processes.retain(|p| comm.contains(&p.comm));
        if result.processes.is_empty() {
            bail!(
                "no process is called {} in {}; plumb explain {1} shows which there are",
                comm.join(" or "),
                dir.display()
            );
        }
    }
    Ok(Repetition {
        dir: dir.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        begun,
        complete: !interrupted && run.recording.error.is_none(),
        elapsed: elapsed(&result),
        exit_code: run.recording.exit_code,
        reason: run.recording.reason,
        events: run.recording.events,
        lost: run.recording.lost,
        error: run.recording.error,
    })
}

/// The whole repetition whose elapsed time is the median; of an even number, the lower one in the middle.
pub fn median_run(set: &SetFile) -> Option<&Repetition> {
    let mut whole: Vec<&Repetition> = set.repetitions.iter().filter(|r| r.complete).collect();
    whole.sort_by_key(|r| r.elapsed);
    whole.get(whole.len().saturating_sub(1) / 2).copied()
}

/// `set.json` of a set's directory.
///
/// # Errors
/// It cannot be read.
pub fn read_set(dir: &Path) -> Result<SetFile> {
    read(&dir.join(SET))
}

/// The median run of a set in `dir`.
///
/// # Errors
/// None of its repetitions is whole.
pub fn median_of<'a>(dir: &Path, set: &'a SetFile) -> Result<&'a Repetition> {
    median_run(set).with_context(|| {
        format!(
            "{}: no repetition of this set is whole; explain one by its number, as in {0}/1",
            dir.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(elapsed: &[(u64, bool)]) -> SetFile {
        let repetition = |(i, (elapsed, complete)): (usize, &(u64, bool))| Repetition {
            dir: (i + 1).to_string(),
            elapsed: *elapsed,
            complete: *complete,
            exit_code: Some(i as i32 % 2),
            ..Repetition::default()
        };
        SetFile { repetitions: elapsed.iter().enumerate().map(repetition).collect(), ..SetFile::default() }
    }

    #[test]
    fn the_median_run_is_a_whole_one() {
        let of = |e: &[(u64, bool)]| median_run(&set(e)).map(|r| r.dir.clone());
        assert_eq!(of(&[(5, true), (1, true), (3, true)]).as_deref(), Some("3"));
        assert_eq!(of(&[(5, true), (1, false), (3, true)]).as_deref(), Some("3"), "the lower one of two");
        assert_eq!(of(&[(5, false)]), None);
    }

    #[test]
    fn a_set_is_read_as_it_was_written() {
        let set = set(&[(1, true), (2, false)]);
        let text = serde_json::to_string(&set).expect("JSON");
        assert_eq!(serde_json::from_str::<SetFile>(&text).expect("JSON"), set);
    }
}
