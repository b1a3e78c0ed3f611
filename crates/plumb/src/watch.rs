// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb watch`: the machine, recorded all the time: a line of each window, and runs of what triggers tell of.

mod asked;
mod config;
mod keep;

use crate::cli::trigger::TriggerArgs;
use crate::cli::watch::WatchArgs;
use anyhow::{Context, Result};
use asked::Asked;
use config::{Config, EXAMPLE};
use keep::Store;
use plumb_live::shown::Shown;
use plumb_live::triggers::{Due, Triggers, When};
use plumb_live::{Kept, Told, Words};
use plumb_machine::json::{formats, Format, Output};
use plumb_machine::signals::{self, Calls};
use plumb_machine::{clock, output, utc_of, Root};
use plumb_trace::schema::StateTrigger;
use plumb_trace::units;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;

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

/// What is done with what is recorded.
struct Keeper {
    store: Store,
    kept: Arc<Kept>,
    asked: Asked,
    triggers: Triggers,
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

/// Says what runs will be written of.
fn say(fired: impl IntoIterator<Item = (String, StateTrigger)>) {
    for (name, fired) in fired {
        let took = units::duration(fired.end.saturating_sub(fired.begin));
        let who = match fired.thread {
            0 => format!("in {took}"),
            thread => format!("thread {thread} took {took}"),
        };
        eprintln!("plumb: trigger {name}: {}: {who}", fired.condition);
    }
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
            Told::Trigger(fired) => say(self.triggers.fired(&fired)),
            Told::Slow(request) => say(self.triggers.answered(&request)),
            Told::Until(until) => {
                say(self.triggers.look(clock::now(), &Root::real()));
                for name in self.asked.take() {
                    eprintln!("plumb: trigger {name}: asked for");
                    self.triggers.ask(&name, until);
                }
                for due in self.triggers.due(until) {
                    self.write(&due);
                }
            }
        }
        Ok(())
    }

    /// Writes a run and its page.
    fn write(&mut self, due: &Due) {
        let dir = self.store.run(wall(due.fired.end), &due.name);
        let more = match due.since {
            0 => String::new(),
            times => format!(", {times} times more since the run before"),
        };
        let reason = format!("trigger '{}'{more}", due.fired.condition);
        if let Err(error) = self.kept.write(&dir.join("trace"), &reason, Some(&due.fired)) {
            return eprintln!("plumb: {}: {error:#}", dir.display());
        }
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

impl Drop for Keeper {
    fn drop(&mut self) {
        for child in &mut self.reports {
            let _ = child.wait();
        }
    }
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
    let when = |when: &config::When| {
        let condition = when.parsed()?;
        Ok(When { name: when.name.clone(), condition, every: when.every, after: when.after })
    };
    let triggers = Triggers::new(config.triggers.iter().map(when).collect::<Result<Vec<_>>>()?);
    let store = Store::open(&config.directory, config.retention.clone())?;
    let asked = Asked::open(&config.directory)?;
    eprintln!(
        "plumb: watching: windows of {} in {}, {} triggers",
        units::duration(config.window),
        config.directory.display(),
        config.triggers.len()
    );
    let words = Words {
        window: config.window,
        events: config.events.clone(),
        triggers: triggers.recorded(),
        slow: triggers.slow_requests(),
        budget: Some(config.budget),
        keep: config.keep,
        memory: config.memory,
        restart: config.restart,
        duration: args.duration,
    };
    let kept = Arc::new(Kept::default());
    let program = std::env::current_exe().context("plumb's own file")?;
    let mut keeper = Keeper { store, kept: Arc::clone(&kept), asked, triggers, program, reports: Vec::new() };
    plumb_live::record(&words, &kept, move |what| keeper.told(what))?;
    Ok(ExitCode::SUCCESS)
}

/// Asks a watch for a run.
///
/// # Errors
/// Nobody watches there.
pub fn trigger(args: &TriggerArgs) -> Result<ExitCode> {
    asked::ask(&args.dir, &args.name)?;
    eprintln!("plumb: a run comes to {}", args.dir.join("runs").display());
    Ok(ExitCode::SUCCESS)
}
