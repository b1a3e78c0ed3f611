// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb watch`: the machine, recorded all the time: a line of each window, and runs of what triggers tell of.

mod config;
mod keep;

use crate::cli::watch::WatchArgs;
use anyhow::{Context, Result};
use config::{Config, EXAMPLE};
use keep::Store;
use plumb_live::shown::Shown;
use plumb_live::triggers::{Due, Triggers, When};
use plumb_live::{Kept, Told, Words};
use plumb_machine::json::{formats, Format, Output};
use plumb_machine::signals::{self, Calls};
use plumb_machine::{clock, output, utc_of};
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
            Told::Trigger(fired) => {
                if let Some(name) = self.triggers.fired(&fired) {
                    let took = units::duration(fired.end.saturating_sub(fired.begin));
                    eprintln!(
                        "plumb: trigger {name}: {}: thread {} took {took}",
                        fired.condition, fired.thread
                    );
                }
            }
            Told::Until(until) => {
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
        if let Err(error) = self.kept.write(&dir.join("trace"), &reason) {
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
        let trigger = when.parsed()?;
        Ok(When { name: when.name.clone(), trigger, every: when.every, after: when.after })
    };
    let triggers = Triggers::new(config.triggers.iter().map(when).collect::<Result<Vec<_>>>()?);
    let store = Store::open(&config.directory, config.retention.clone())?;
    eprintln!(
        "plumb: watching: windows of {} in {}, {} triggers",
        units::duration(config.window),
        config.directory.display(),
        config.triggers.len()
    );
    let words = Words {
        window: config.window,
        events: config.events.clone(),
        triggers: triggers.conditions(),
        budget: Some(config.budget),
        keep: config.keep,
        memory: config.memory,
        restart: config.restart,
        duration: args.duration,
    };
    let kept = Arc::new(Kept::default());
    let program = std::env::current_exe().context("plumb's own file")?;
    let mut keeper = Keeper { store, kept: Arc::clone(&kept), triggers, program, reports: Vec::new() };
    plumb_live::record(&words, &kept, move |what| keeper.told(what))?;
    Ok(ExitCode::SUCCESS)
}
