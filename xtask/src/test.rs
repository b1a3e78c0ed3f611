// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every test of the repository, by what it needs: nothing, root, a virtual machine. A stage that fails
//! does not stop those behind it, nor does one that hangs.

mod job;
mod lanes;
mod retries;
mod stages;
#[cfg(test)]
mod tests;
mod times;

pub use job::Job;
pub use stages::{build, list, task};
pub use times::Division;

use crate::counts::Counts;
use crate::programs::Program;
use anyhow::{anyhow, bail, Context, Result};
use job::{Notes, Output};
use stages::Phase;
use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// What all stages together may take; those that it leaves no time for count as failed.
const TOTAL: Duration = minutes(87);
/// What a build from nothing and the tests' files take, bytes: 9 GB were seen, and half as much again for files of tests.
const ROOM: u64 = 14_000_000_000;
/// Between the stop of a stage that takes too long and its end by force.
const GRACE: Duration = Duration::from_secs(10);
/// Between two lines about stages whose output is held back.
const BEAT: Duration = Duration::from_secs(30);
/// Stages that run concurrently: builds use all processors themselves; guests that run in real time leave half
/// of two processors idle.
const BUILD_LANES: usize = 2;
const LANES: usize = 3;
/// Tests that are named at the end.
const SLOWEST: usize = 10;

pub const fn minutes(n: u64) -> Duration {
    Duration::from_secs(n * 60)
}

/// Runs the stages of these names, or all.
///
/// # Errors
/// There is no stage of a name. When something failed the process ends with 1.
pub fn run(root: &Path, names: &[&str]) -> Result<()> {
    let stages = stages::select(names)?;
    let mut session = Session::new(root, TOTAL, GRACE);
    has_room(&session.target_dir())?;
    let logs = session.target_dir().join("test-log");
    std::fs::create_dir_all(&logs).with_context(|| logs.display().to_string())?;
    session.logs = Some(logs);
    session.named = !names.is_empty();
    for phase in [Phase::Build, Phase::Alone, Phase::Concurrent] {
        let mut tasks = Vec::new();
        for stage in stages.iter().filter(|s| s.phase == phase) {
            tasks.extend(stage.tasks(&session)?);
        }
        if phase == Phase::Alone || tasks.len() == 1 {
            tasks.iter().for_each(|task| session.alone(task));
        } else {
            let lanes = if phase == Phase::Build { BUILD_LANES } else { LANES };
            lanes::run(&session, tasks, lanes, BEAT);
        }
    }
    session.end()
}

/// A build from nothing fills the disk in its last minutes, and says so in the middle of some test.
fn has_room(target: &Path) -> Result<()> {
    if target.join("debug/deps").exists() {
        return Ok(());
    }
    std::fs::create_dir_all(target).with_context(|| target.display().to_string())?;
    let name = CString::new(target.as_os_str().as_bytes())?;
    // SAFETY: a name that ends, and a struct of numbers to be filled.
    let (done, facts) = unsafe {
        let mut facts: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(name.as_ptr(), &raw mut facts), facts)
    };
    let free = facts.f_bavail * facts.f_frsize;
    if done == 0 && free < ROOM {
        bail!(
            "{}: {:.1} GB are free, and a build from nothing with all tests takes up to {} GB; make room, or name another \
             directory in CARGO_TARGET_DIR",
            target.display(),
            free as f64 / 1e9,
            ROOM / 1_000_000_000
        );
    }
    Ok(())
}

/// Writes anew what the golden tests compare.
///
/// # Errors
/// A test failed for another reason than a difference.
pub fn golden(root: &Path) -> Result<()> {
    let all = [("golden", ""), ("docs", ""), ("plumb_plan", "report")];
    let session = Session::new(root, TOTAL, GRACE);
    session.alone(&stages::task("build"));
    let programs = session.programs.get().map_or(&[][..], Vec::as_slice);
    for (name, tests) in all {
        let found: Vec<&Program> = programs.iter().filter(|p| p.name == name).collect();
        if found.is_empty() {
            bail!("there is no test program '{name}': the build failed");
        }
        for program in found {
            let mut command = program.command();
            let status = command.arg(tests).env("PLUMB_GOLDEN", "1").status().context("a test program")?;
            if !status.success() {
                bail!("{}: the test '{name}' failed; its words are above", program.package);
            }
        }
    }
    println!("written: tests/golden, docs/load.md, docs/findings.md, docs/tables.md; 'git diff' shows what changed");
    Ok(())
}

type Work<'a> = dyn Fn(&Job) -> Result<Counts> + Send + Sync + 'a;

/// A stage that is to run, or its part for one kernel.
pub struct Task<'a> {
    name: String,
    limit: Duration,
    /// No two tasks that hold the same thing run concurrently.
    holds: Option<&'static str>,
    work: Box<Work<'a>>,
}

impl<'a> Task<'a> {
    pub fn new(
        name: String,
        limit: Duration,
        holds: Option<&'static str>,
        work: impl Fn(&Job) -> Result<Counts> + Send + Sync + 'a,
    ) -> Self {
        Self { name, limit, holds, work: Box::new(work) }
    }
}

/// One test run.
pub struct Session<'a> {
    root: &'a Path,
    /// When no stage may run any more.
    end: Instant,
    grace: Duration,
    /// Where copies of output that is held back are written.
    logs: Option<PathBuf>,
    /// Stages were named: not all run.
    named: bool,
    /// What the stage `build` made.
    programs: OnceLock<Vec<Program>>,
    report: Mutex<Report>,
}

/// What the end of a test run tells.
#[derive(Default)]
struct Report {
    total: Counts,
    broken: Vec<String>,
    stages: Vec<(String, Duration)>,
    notes: Notes,
}

impl<'a> Session<'a> {
    pub fn new(root: &'a Path, total: Duration, grace: Duration) -> Self {
        let (programs, report) = (OnceLock::new(), Mutex::default());
        Self { root, end: Instant::now() + total, grace, logs: None, named: false, programs, report }
    }

    fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn target_dir(&self) -> PathBuf {
        self.root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
    }

    /// Output that is shown when the task ends; meanwhile it is in target/test-log.
    fn held(&self, task: &str) -> Output {
        let log = self.logs.as_ref().map(|dir| dir.join(task.replace(' ', "-")));
        Output::held(log.and_then(|file| File::create(file).ok()))
    }

    /// A block of output that no other one gets between.
    fn print(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        // Without a reader the exit code still tells.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// Runs a task and shows its output as it comes.
    pub fn alone(&self, task: &Task) {
        self.perform(task, Output::Direct);
    }

    /// Runs a task; returns the output that was held back.
    fn perform(&self, task: &Task, output: Output) -> String {
        let name = &task.name;
        output.say(&format!("\n== {name}"));
        let started = Instant::now();
        let limit = task.limit.min(self.end.saturating_duration_since(started));
        let job = Job::new(self, name, limit, started + limit, &output);
        let result = if limit.is_zero() {
            Err(anyhow!("not run: the stages before took all the time that there is for a test run"))
        } else {
            (task.work)(&job)
        };
        let counts = result.unwrap_or_else(|e| {
            output.say(&format!("{e:#}"));
            Counts { failed: 1, ..Counts::default() }
        });
        let word = match counts {
            Counts { failed: 1.., .. } => "FAILED",
            Counts { passed: 0, skipped: 1.., .. } => "skipped",
            _ => "ok",
        };
        output.say(&format!("== {name}: {word}, {:.1} s", started.elapsed().as_secs_f64()));
        let mut notes = job.notes.into_inner();
        let mut report = self.report();
        if counts.failed > 0 {
            let names = if notes.failed.is_empty() {
                String::new()
            } else {
                format!(" ({})", notes.failed.join(", "))
            };
            report.broken.push(format!("{name}{names}"));
            notes.reasons.retain(|(test, _)| notes.failed.contains(test));
            report.notes.reasons.append(&mut notes.reasons);
        }
        report.total.add(counts);
        report.stages.push((name.clone(), started.elapsed()));
        report.notes.times.append(&mut notes.times);
        report.notes.retries.append(&mut notes.retries);
        drop(report);
        output.text()
    }

    /// Says what passed; ends the process where something failed.
    ///
    /// # Errors
    /// None today.
    pub fn end(self) -> Result<()> {
        let list = retries::file(&self.target_dir());
        let text = |command: &mut Command| {
            let output = command.current_dir(self.root).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let date = text(Command::new("date").args(["-u", "+%FT%TZ"])).unwrap_or_else(|| "-".into());
        let commit = text(Command::new("git").args(["rev-parse", "--short", "HEAD"]));
        let report = self.report.into_inner().unwrap_or_else(PoisonError::into_inner);
        let commit = commit.unwrap_or_else(|| "-".into());
        if let Err(e) = retries::append(&list, &date, &commit, &report.notes.retries) {
            println!("{e:#}");
        }
        let before = std::fs::read_to_string(&list).unwrap_or_default();
        print!("{}", report.text(&list, &before));
        if report.total.failed > 0 {
            // The counts are the last line; an error's text would follow them.
            std::process::exit(1);
        }
        Ok(())
    }
}

impl Report {
    /// The end of the output; `list` is the file of all retries, `before` what it holds.
    fn text(&self, list: &Path, before: &str) -> String {
        let mut lines = vec![String::new(), "seconds of each stage:".into()];
        let seconds = |took: Duration, name: &str| format!("  {:>7.1}  {name}", took.as_secs_f64());
        lines.extend(self.stages.iter().map(|(name, took)| seconds(*took, name)));
        lines.push("slowest tests, in seconds:".into());
        let slowest = times::slowest(self.notes.times.clone(), SLOWEST);
        lines.extend(slowest.iter().map(|t| seconds(t.took, &t.name)));
        let retried = &self.notes.retries;
        let count = if retried.is_empty() { "none".into() } else { retried.len().to_string() };
        lines.push(format!("retried tests: {count}"));
        for retry in retried {
            let ended =
                retry.passed.map_or("", |passed| if passed { ": then passed" } else { ": failed again" });
            lines.push(format!("  {}: {}{ended}", retry.stage, retry.test));
        }
        let all = retries::summary(before);
        if !all.is_empty() {
            lines.push(format!("retried in all runs of {}:", list.display()));
            lines.extend(all.iter().map(|(test, times)| format!("  {times:>3}x {test}")));
        }
        for (test, reason) in &self.notes.reasons {
            lines.push(format!("why {test}:"));
            lines.extend(reason.iter().map(|line| format!("  {line}")));
        }
        if !self.broken.is_empty() {
            lines.push(format!("failed: {}", self.broken.join(", ")));
        }
        let Counts { passed, failed, ignored, skipped } = self.total;
        lines.push(format!("{passed} passed, {failed} failed, {} skipped", ignored + skipped));
        lines.join("\n") + "\n"
    }
}
