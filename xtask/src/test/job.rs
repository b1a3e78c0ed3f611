// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A stage while it runs: its commands, their output, and the time that is left.

use super::retries::{self, Retry};
use super::times::{Division, Timed, Watch};
use super::Session;
use crate::counts::{count, Counts, Failures};
use crate::limit::{self, End, Limit};
use crate::programs::{self, Program};
use anyhow::{bail, Result};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// Where the output of a stage goes.
pub enum Output {
    Direct,
    /// Shown when the stage ends; a copy is written to a file meanwhile.
    Held {
        text: RefCell<String>,
        log: Option<File>,
    },
}

impl Output {
    pub fn held(log: Option<File>) -> Self {
        Self::Held { text: RefCell::default(), log }
    }

    pub fn say(&self, line: &str) {
        match self {
            Self::Direct => println!("{line}"),
            Self::Held { text, log } => {
                let mut text = text.borrow_mut();
                text.push_str(line);
                text.push('\n');
                if let Some(mut log) = log.as_ref() {
                    // The copy is for whoever watches; without it the stage goes on.
                    let _ = writeln!(log, "{line}");
                }
            }
        }
    }

    pub fn text(self) -> String {
        match self {
            Self::Direct => String::new(),
            Self::Held { text, .. } => text.into_inner(),
        }
    }
}

/// What a stage leaves for the end of the test run.
#[derive(Default)]
pub struct Notes {
    pub times: Vec<Timed>,
    pub retries: Vec<Retry>,
    /// Names of tests that failed, also of those that passed when tried again.
    pub failed: Vec<String>,
    /// What their panics said, by the test's name.
    pub reasons: Vec<(String, Vec<String>)>,
}

pub struct Job<'a> {
    session: &'a Session<'a>,
    pub root: &'a Path,
    name: &'a str,
    /// How long it may take, and when that is over.
    limit: Duration,
    end: Instant,
    output: &'a Output,
    pub notes: RefCell<Notes>,
}

impl<'a> Job<'a> {
    pub fn new(
        session: &'a Session,
        name: &'a str,
        limit: Duration,
        end: Instant,
        output: &'a Output,
    ) -> Self {
        Self { session, root: session.root, name, limit, end, output, notes: RefCell::default() }
    }

    pub fn say(&self, line: &str) {
        self.output.say(line);
    }

    /// The stage, or a part of it, cannot run.
    pub fn skip(&self, name: &str, reason: &str) -> Counts {
        self.say(&format!("SKIP {name}: {reason}"));
        Counts { skipped: 1, ..Counts::default() }
    }

    /// Whether stages were named: not all run.
    pub fn named(&self) -> bool {
        self.session.named
    }

    pub fn target_dir(&self) -> PathBuf {
        self.session.target_dir()
    }

    pub fn cargo<'w>(&self, words: impl IntoIterator<Item = &'w str>) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(words).current_dir(self.root);
        // What cargo tells this program of its package. ring asks to be built anew when it changes, so that a build from
        // here and one by hand would each undo the other's.
        let ours = |key: &OsStr| {
            ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|p| key.to_string_lossy().starts_with(p))
        };
        std::env::vars_os().filter(|(key, _)| ours(key)).for_each(|(key, _)| _ = command.env_remove(key));
        command
    }

    /// A program of the workspace, as the stage `build` makes it.
    pub fn built(&self, name: &str) -> Result<PathBuf> {
        let path = self.target_dir().join("debug").join(name);
        if !path.is_file() {
            bail!("{} is missing: the stage 'build' makes it", path.display());
        }
        Ok(path)
    }

    /// What the stage `build` made.
    pub fn programs(&self) -> &[Program] {
        self.session.programs.get().map_or(&[], Vec::as_slice)
    }

    pub fn set_programs(&self, programs: Vec<Program>) {
        // Only one stage makes them, and it runs once.
        let _ = self.session.programs.set(programs);
    }

    /// A command without tests of its own; it counts as one.
    pub fn check(&self, command: Command) -> Result<Counts> {
        let (status, _) = self.run(command, Division::Whole, self.name, |line| self.say(line))?;
        Ok(Counts::one(status.success()))
    }

    /// A command whose output tells what passed.
    pub fn tests(&self, command: Command, division: Division) -> Result<Counts> {
        let (status, counts) = self.run(command, division, self.name, |line| self.say(line))?;
        Ok(with_status(counts, status))
    }

    /// Builds test programs with a call of cargo that tells of them in JSON.
    pub fn build(&self, cargo: Command) -> Result<(ExitStatus, Vec<Program>)> {
        let mut found = Vec::new();
        let mut broken = None;
        let (status, _) = self.run(cargo, Division::Whole, "cargo", |line| match programs::told(line) {
            Ok(None) => self.say(line),
            Ok(Some(program)) => found.extend(program),
            Err(e) => broken = Some(e),
        })?;
        broken.map_or(Ok((status, found)), Err)
    }

    /// Calls test programs one after the other.
    pub fn in_turn<'p>(
        &self,
        programs: impl Iterator<Item = &'p Program>,
        args: &[&str],
        division: Division,
        failures: &mut Failures,
    ) -> Result<Counts> {
        let mut counts = Counts::default();
        let mut any = false;
        for program in programs {
            any = true;
            let name = format!("{} {}", program.package, program.name);
            self.say(&format!("\n-- {name}"));
            let mut command = program.command();
            command.args(args);
            let (status, told) = self.run(command, division, &name, |line| {
                failures.take(line);
                self.say(line);
            })?;
            counts.add(with_status(told, status));
        }
        if !any {
            bail!("there are no test programs: their build failed");
        }
        Ok(counts)
    }

    /// Runs a command, hands over its output, counts what it tells and times its tests under `name`.
    pub fn run(
        &self,
        mut command: Command,
        division: Division,
        name: &str,
        mut show: impl FnMut(&str),
    ) -> Result<(ExitStatus, Counts)> {
        let words: Vec<_> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(OsStr::to_string_lossy)
            .collect();
        self.say(&format!("$ {}", words.join(" ")));
        let now = Instant::now();
        let limit = Limit { time: self.end.saturating_duration_since(now), grace: self.session.grace };
        let mut counts = Counts::default();
        let mut watch = Watch::new(division, name.into(), now);
        let mut failures = Failures::default();
        if command.get_current_dir().is_none() {
            command.current_dir(self.root);
        }
        let ended = limit::run(&mut command, limit, |line| {
            count(line, &mut counts);
            failures.take(line);
            watch.take(line, Instant::now());
            if let Some(retry) = retries::told(self.name, line) {
                self.notes.borrow_mut().retries.push(retry);
            }
            show(line);
        })?;
        watch.end(Instant::now());
        self.notes.borrow_mut().times.append(&mut watch.times);
        let again = |name: &String| self.notes.borrow().failed.contains(name);
        failures.names.retain(|name| !again(name));
        self.notes.borrow_mut().failed.append(&mut failures.names);
        let reasons = &mut self.notes.borrow_mut().reasons;
        reasons.retain(|(known, _)| failures.reasons.iter().all(|(new, _)| new != known));
        reasons.append(&mut failures.reasons);
        let status = match ended {
            End::Exited(status) => status,
            End::Stopped(running) => {
                let minutes = self.limit.as_secs_f64() / 60.0;
                self.say(&format!("== {}: stopped after {minutes:.1} min: still running:", self.name));
                running.iter().for_each(|line| self.say(&format!("  {line}")));
                counts.failed += 1;
                ExitStatus::from_raw(libc::SIGKILL)
            }
        };
        Ok((status, counts))
    }
}

/// What did not compile, and what was killed, has no result line.
fn with_status(mut counts: Counts, status: ExitStatus) -> Counts {
    if !status.success() && counts.failed == 0 {
        counts.failed = 1;
    }
    counts
}
