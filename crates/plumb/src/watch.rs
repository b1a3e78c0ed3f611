// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb watch`: the machine, recorded all the time: a line of each window, and runs of what triggers tell of.

mod config;
mod keep;

use crate::cli::watch::WatchArgs;
use crate::live::shown::Shown;
use crate::live::{self, locked, Told, Words};
use anyhow::{bail, Context, Result};
use config::{Config, When, EXAMPLE};
use keep::Store;
use plumb_machine::json::{formats, Format, Output};
use plumb_machine::signals::{self, Calls};
use plumb_machine::{clock, output, utc_of};
use plumb_probe::{Tape, Trigger};
use plumb_trace::schema::StateTrigger;
use plumb_trace::units;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

/// A line of windows/DATE.jsonl.
#[derive(Serialize)]
struct Line<'a> {
    /// When the window began, UTC.
    at: String,
    #[serde(flatten)]
    shown: &'a Shown,
}

impl Output for Line<'_> {
    const FORMAT: &'static Format = &formats::WATCH;
}

/// A trigger that may write a run.
struct Armed {
    when: When,
    trigger: Trigger,
    /// When it fired last, ns CLOCK_MONOTONIC, and how often since a run was written.
    last: Option<u64>,
    since: u64,
    /// What it fired for, and until when that goes on.
    due: Option<(StateTrigger, u64)>,
}

/// What is done with what is recorded.
struct Keeper {
    store: Store,
    tape: Arc<Mutex<Tape>>,
    armed: Vec<Armed>,
    /// plumb itself.
    program: PathBuf,
    /// Reports that are being made.
    reports: Vec<Child>,
}

/// Seconds after 1970 of a moment of CLOCK_MONOTONIC.
fn wall(at: u64) -> u64 {
    let clocks = clock::together();
    (clocks.realtime.saturating_sub(clocks.monotonic) + at) / 1_000_000_000
}

impl Keeper {
    fn told(&mut self, told: Told) -> Result<()> {
        self.reports.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        match told {
            Told::Window(window) => {
                let shown = Shown::of(&window);
                let begin = wall(window.begin);
                let line = Line { at: utc_of(begin), shown: &shown };
                // A full disk is no reason to see nothing any more: triggers and later windows come.
                if let Err(error) = self.store.window(begin, &line) {
                    eprintln!("plumb: a window is lost: {error:#}");
                }
                self.store.retain(wall(window.end));
            }
            Told::Trigger(fired) => self.fired(&fired),
            Told::Until(until) => self.write_due(until),
        }
        Ok(())
    }

    fn fired(&mut self, fired: &StateTrigger) {
        let of = self.armed.iter_mut().find(|armed| armed.trigger.text() == fired.condition);
        let Some(armed) = of else { return };
        if armed.last.is_some_and(|last| fired.end < last + armed.when.every) {
            armed.since += 1;
            return;
        }
        let took = units::duration(fired.end.saturating_sub(fired.begin));
        eprintln!(
            "plumb: trigger {}: {}: thread {} took {took}",
            armed.when.name, fired.condition, fired.thread
        );
        armed.last = Some(fired.end);
        armed.due = Some((fired.clone(), fired.end + armed.when.after));
    }

    /// Writes the runs of triggers whose time after the moment is over.
    fn write_due(&mut self, until: u64) {
        for armed in &mut self.armed {
            let Some((fired, _)) = armed.due.take_if(|(_, end)| *end <= until) else { continue };
            let since = std::mem::take(&mut armed.since);
            let dir = self.store.run(wall(fired.end), &armed.when.name);
            let more =
                if since > 0 { format!(", {since} times more since the run before") } else { String::new() };
            let reason = format!("trigger '{}'{more}", fired.condition);
            match locked(&self.tape).write(&dir.join("trace"), &reason) {
                Err(error) => eprintln!("plumb: {}: {error:#}", dir.display()),
                Ok(()) => {
                    eprintln!("plumb: run {}", dir.display());
                    // In its own process, behind all others: what it reads may take seconds, and its memory goes back.
                    let report = Command::new("nice")
                        .args(["-n", "19"])
                        .arg(&self.program)
                        .arg("report")
                        .arg(&dir)
                        .stdin(Stdio::null())
                        .stdout(Stdio::null())
                        .spawn();
                    match report {
                        Ok(child) => self.reports.push(child),
                        Err(error) => eprintln!("plumb: report of {}: {error}", dir.display()),
                    }
                }
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        for child in &mut self.reports {
            let _ = child.wait();
        }
    }
}

fn armed(config: &Config) -> Result<Vec<Armed>> {
    let one = |when: &When| {
        Ok(Armed { trigger: when.parsed()?, when: when.clone(), last: None, since: 0, due: None })
    };
    config.triggers.iter().map(one).collect()
}

/// Runs the command.
///
/// # Errors
/// The file is wrong, or nothing can be recorded.
pub fn main(args: &WatchArgs) -> Result<ExitCode> {
    if args.example {
        write!(std::io::stdout(), "{EXAMPLE}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let config = Config::read(args.file.as_deref())?;
    if args.check {
        return Ok(ExitCode::SUCCESS);
    }
    // What is recorded is everybody's.
    output::private_unless(false);
    signals::catch(Calls::Restart);
    let begun = Instant::now();
    let mut triggers = armed(&config)?;
    let store = Store::open(&config.directory, config.retention.clone())?;
    eprintln!(
        "plumb: watching: windows of {} in {}, {} triggers",
        units::duration(config.window),
        config.directory.display(),
        config.triggers.len()
    );
    while !signals::stopped() {
        let left = args.duration.map(|d| d.saturating_sub(begun.elapsed().as_nanos() as u64));
        if left == Some(0) {
            break;
        }
        let words = Words {
            window: config.window,
            events: config.events.clone(),
            triggers: triggers.iter().map(|a| a.trigger.clone()).collect(),
            budget: Some(config.budget),
            duration: Some(left.map_or(config.restart, |left| left.min(config.restart))),
        };
        let tape = Arc::new(Mutex::new(Tape::new(config.keep, config.memory)?));
        let program = std::env::current_exe().context("plumb's own file")?;
        let keeper = Keeper {
            store: store.clone(),
            tape: Arc::clone(&tape),
            armed: triggers,
            program,
            reports: Vec::new(),
        };
        let keeper = Arc::new(Mutex::new(keeper));
        let told = Arc::clone(&keeper);
        // On a thread of its own: a recorder gives up what it needed to begin.
        let record = || live::record(&words, &tape, move |what| locked(&told).told(what));
        let done = thread::scope(|scope| scope.spawn(record).join());
        let Ok(done) = done else { bail!("the recorder has failed") };
        done.context("the recording")?;
        triggers = std::mem::take(&mut locked(&keeper).armed);
    }
    Ok(ExitCode::SUCCESS)
}
