// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the command: once without a recording, to see that it works and where it runs; then a set of recorded
//! runs for each step, as `plumb run --repeat` makes them.

use super::command::{Launch, Observed};
use super::state::{Found, Measured, Part, State};
use anyhow::{bail, Context, Result};
use plumb_compare::run_directory::{read, write_document};
use plumb_compare::set::{median_of, repetition, SetFile, SET};
use plumb_diagnose::Diagnosis;
use plumb_machine::child::{wait_all, Child, Status, Waited};
use plumb_machine::{utc, Root};
use plumb_model::{sum, RunResult, CATEGORIES};
use plumb_stats::repetitions;
use plumb_undo::guarded_journal::{append, last_words, GuardedJournal, StoppedByUser};
use plumb_undo::timeout;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Between two looks at the command while it runs without a recording.
const LOOK: Duration = Duration::from_millis(20);
/// Lines of the account and of the profile that are kept.
const LINES: usize = 6;

/// What tools and the command print.
const OUTPUT: &str = "output.txt";

/// Runs the command once without a recording.
///
/// # Errors
/// It failed, took too long or was stopped.
pub fn observe(state: &State, launch: &Launch, guarded: &mut GuardedJournal) -> Result<Observed> {
    prepare(state, guarded)?;
    let words = launch.words(&state.command);
    let output = guarded.dir.join(OUTPUT);
    let said = append(&output)?;
    let from = said.metadata().map_or(0, |m| m.len());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
    let mut observed = Observed::default();
    let begun = Instant::now();
    let status = run(command, guarded, &mut |child| observed.look(child.pid(), &Root::real()))?;
    observed.elapsed = begun.elapsed().as_nanos() as u64;
    if !status.success() {
        bail!("cannot measure {}: {status}{}", state.command.join(" "), last_words(&output, from));
    }
    Ok(observed)
}

/// Runs a command to its end, journaled; `look` sees it again and again.
fn run(command: Command, guarded: &mut GuardedJournal, look: &mut dyn FnMut(&Child)) -> Result<Status> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mark = guarded.journal.mark();
    let mut child = [guarded.command(command, true)?];
    let until = Instant::now() + guarded.limit;
    child[0].go();
    let waited = loop {
        match wait_all(&mut child, Some(until.min(Instant::now() + LOOK)), true) {
            Waited::Late if Instant::now() < until => look(&child[0]),
            waited => break waited,
        }
    };
    if waited != Waited::Ended {
        timeout::end(&mut child, &[], &[], guarded.journal.devices());
    }
    guarded.guardian.ended(child[0].pid());
    guarded.journal.undo_since(mark);
    match (waited, child[0].status()) {
        (Waited::Stopped, _) => Err(StoppedByUser.into()),
        (Waited::Ended, Some(status)) => Ok(status),
        _ => bail!("{name}: did not end in {} s", guarded.limit.as_secs()),
    }
}

fn prepare(state: &State, guarded: &mut GuardedJournal) -> Result<()> {
    let Some(words) = &state.prepare else { return Ok(()) };
    let mut command = Command::new("sh");
    command.arg("-c").arg(words);
    let output = guarded.dir.join(OUTPUT);
    guarded.tool(command, &output).with_context(|| format!("--prepare '{words}'"))
}

/// Measures the command as the system is now, into the set `steps/NAME`.
///
/// # Errors
/// A repetition failed, or it was stopped.
pub fn measure(
    state: &State,
    name: &str,
    launch: &Launch,
    guarded: &mut GuardedJournal,
    say: &dyn Fn(&str),
) -> Result<Measured> {
    let relative = format!("steps/{name}");
    let dir = guarded.dir.join(&relative);
    if dir.exists() {
        // What a killed guide left of it.
        std::fs::remove_dir_all(&dir).with_context(|| dir.display().to_string())?;
    }
    std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    let words = launch.words(&state.command);
    let mut set = SetFile {
        plumb: env!("CARGO_PKG_VERSION").into(),
        arguments: state.arguments.clone(),
        command: words.clone(),
        asked: state.repeat,
        ..SetFile::default()
    };
    for i in 1..=state.repeat {
        prepare(state, guarded)?;
        let begun = utc();
        let run_dir = dir.join(i.to_string());
        recorded(&words, &run_dir, guarded)?;
        let repetition = repetition(&run_dir, begun, &[], false)?;
        if let Some(code) = repetition.exit_code.filter(|code| *code != 0) {
            bail!(
                "the command failed: exit code {code}; its output is in {}",
                guarded.dir.join(OUTPUT).display()
            );
        }
        if let Some(error) = &repetition.error {
            bail!("the recording failed: {error}");
        }
        say(&format!("  {i} of {}: {}", state.repeat, plumb_trace::units::brief(repetition.elapsed)));
        set.repetitions.push(repetition);
        write_document(&dir.join(SET), &set)?;
    }
    of_set(&guarded.dir, &relative, &set)
}

fn recorded(words: &[String], dir: &Path, guarded: &mut GuardedJournal) -> Result<()> {
    let output = guarded.dir.join(OUTPUT);
    let said = append(&output)?;
    let from = said.metadata().map_or(0, |m| m.len());
    let mut command = Command::new("/proc/self/exe");
    // With --json the command's own output goes to standard error.
    command
        .arg0("plumb")
        .args(["run", "--quiet", "--json", "--no-report", "--exit-code", "plumb", "-o"])
        .arg(dir);
    command.arg("--").args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
    match run(command, guarded, &mut |_| {})? {
        // 3: events were lost, which is a doubt.
        Status::Exited(0 | 3) => Ok(()),
        status => bail!("plumb run: {status}{}", last_words(&output, from)),
    }
}

/// What the set in a directory below `top` says.
fn of_set(top: &Path, relative: &str, set: &SetFile) -> Result<Measured> {
    let dir = top.join(relative);
    let middle = median_of(&dir, set)?;
    let path = dir.join(&middle.dir).join("result.json");
    let diagnosis: Diagnosis = read(&path)?;
    let result: RunResult = read(&path)?;
    let elapsed: Vec<u64> = set.repetitions.iter().map(|r| r.elapsed).collect();
    let values: Vec<f64> = elapsed.iter().map(|ns| *ns as f64).collect();
    let interval = repetitions::median_interval(&values);
    let lost = set.repetitions.iter().filter(|r| r.lost > 0);
    Ok(Measured {
        median: repetitions::median(&values),
        low: interval.map(|i| i.low),
        high: interval.map(|i| i.high),
        elapsed,
        run: format!("{relative}/{}", middle.dir),
        account: account(&result),
        profile: profile(&result),
        doubts: lost.map(|r| format!("{relative}/{}: {} events were lost", r.dir, r.lost)).collect(),
        findings: diagnosis
            .findings
            .into_iter()
            .map(|f| Found { id: f.id, headline: f.headline, device: f.device, share: f.share, next: f.next })
            .collect(),
        verdict: diagnosis.verdict,
    })
}

/// Categories of the threads' time, most time first.
fn account(result: &RunResult) -> Vec<Part> {
    let sums = sum(result.processes.iter());
    let share = |ns: u64| ns as f64 / sums.thread_time.max(1) as f64;
    let mut parts: Vec<Part> = CATEGORIES
        .iter()
        .map(|(category, name, _)| Part { name: name.to_string(), share: share(sums.part(*category)) })
        .collect();
    first(&mut parts);
    parts
}

/// Functions with what they ran or waited for, most time first.
fn profile(result: &RunResult) -> Vec<Part> {
    let whole = sum(result.processes.iter()).thread_time.max(1) as f64;
    let name = |row: &plumb_model::HotRow| format!("{} ({})", row.function, row.category.name());
    let mut parts: Vec<Part> =
        result.hot.iter().map(|row| Part { name: name(row), share: row.time as f64 / whole }).collect();
    first(&mut parts);
    parts
}

fn first(parts: &mut Vec<Part>) {
    parts.sort_by(|a, b| b.share.total_cmp(&a.share));
    parts.retain(|p| p.share >= 0.005);
    parts.truncate(LINES);
}
