// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes what `plumb watch` keeps, on a thread of its own: a disk that stands still must not keep anybody from reading
//! what is recorded.

use super::asked::Asked;
use super::keep::Store;
use super::say;
use anyhow::{Context, Result};
use plumb_live::metrics::{Metrics, Run};
use plumb_live::otlp::{Fired, Sender as Otlp};
use plumb_live::shown::Shown;
use plumb_live::Taken;
use plumb_machine::capabilities;
use plumb_machine::host::Identity;
use plumb_machine::json::{formats, Format, Output};
use plumb_machine::{utc_of, Root};
use serde::Serialize;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, sync_channel, Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What waits for its disk; each run of it is in memory.
const WAITING: usize = 4;
/// Reports that wait for one another.
const REPORTS: usize = 16;
/// So often is looked what was asked for.
const LOOK: Duration = Duration::from_millis(250);
/// What the process that reads the symbols of a run's programs needs to become the user nobody.
const NAMES: &[u32] = &[capabilities::SETUID, capabilities::SETGID];
/// What writing needs, and who reports: directories may be of the user whom sudo runs plumb for.
const WRITES: &[u32] =
    &[capabilities::CHOWN, capabilities::DAC_OVERRIDE, capabilities::DAC_READ_SEARCH, capabilities::FOWNER];

/// A line of windows/DATE.jsonl.
#[derive(Serialize)]
struct Line<'a> {
    /// When the window began, UTC.
    at: String,
    /// The same, ns after 1970.
    began_unix_ns: u64,
    /// Name of the machine.
    host: &'a str,
    /// Its machine-id(5); empty: it has none.
    machine_id: &'a str,
    /// Release of its kernel.
    kernel: &'a str,
    /// Version of plumb.
    plumb: &'a str,
    #[serde(flatten)]
    shown: &'a Shown,
}

impl<'a> Line<'a> {
    fn of(machine: &'a Identity, begin: u64, shown: &'a Shown) -> Self {
        Self {
            at: utc_of(begin),
            began_unix_ns: begin * 1_000_000_000,
            host: &machine.host,
            machine_id: &machine.machine_id,
            kernel: &machine.kernel,
            // As traces have it.
            plumb: concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR")),
            shown,
        }
    }
}

impl Output for Line<'_> {
    const FORMAT: &'static Format = &formats::WATCH;
}

/// What is to be written; times are seconds after 1970.
pub enum Job {
    Window { begin: u64, end: u64, shown: Box<Shown> },
    Run { fired: Fired, taken: Box<Taken> },
}

/// The thread.
pub struct Writer {
    /// None at the end.
    jobs: Option<SyncSender<Job>>,
    asked: Receiver<String>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// # Errors
    /// There can be no thread.
    pub fn start(store: Store, asked: Asked, metrics: Metrics, otlp: Option<Otlp>) -> Result<Self> {
        let (jobs, todo) = sync_channel(WAITING);
        let (tell, told) = channel();
        let program = std::env::current_exe().context("plumb's own file")?;
        let work = move || {
            // Where the kernel refuses, it goes on with what it has.
            let _ = capabilities::keep(&[WRITES, NAMES].concat(), WRITES);
            let reports = Reports { program, waiting: VecDeque::new(), present: None };
            Work { store, asked, metrics, otlp, reports, machine: Identity::read(&Root::real()) }
                .all(&todo, &tell);
        };
        let thread = thread::Builder::new().name("writer".into()).spawn(work);
        let thread = Some(thread.context("a thread for the writer")?);
        Ok(Self { jobs: Some(jobs), asked: told, thread })
    }

    /// Has something written; it is lost where the disk has not taken what came before.
    pub fn write(&self, job: Job) {
        let Some(jobs) = &self.jobs else { return };
        let lost = match jobs.try_send(job) {
            Ok(()) => return,
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => job,
        };
        let what = match lost {
            Job::Window { .. } => "window".into(),
            Job::Run { fired, .. } => format!("run of {}", fired.name),
        };
        say(&format!("a {what} is lost: what came before it is still being written"));
    }

    /// Names of runs that somebody asked for.
    pub fn asked(&self) -> Vec<String> {
        self.asked.try_iter().collect()
    }
}

/// Waits until all is written.
impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Work {
    store: Store,
    asked: Asked,
    metrics: Metrics,
    otlp: Option<Otlp>,
    reports: Reports,
    machine: Identity,
}

impl Work {
    fn all(mut self, jobs: &Receiver<Job>, tell: &Sender<String>) {
        loop {
            match jobs.recv_timeout(LOOK) {
                Ok(job) => self.write(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.reports.go_on();
            let names = self.asked.take();
            names.into_iter().for_each(|name| _ = tell.send(name));
        }
        self.reports.end();
    }

    fn write(&mut self, job: Job) {
        match job {
            Job::Window { begin, end, shown } => {
                let line = Line::of(&self.machine, begin, &shown);
                // A full disk is no reason to see nothing any more: triggers and later windows come.
                if let Err(error) = self.store.window(begin, &line) {
                    say(&format!("a window is lost: {error:#}"));
                }
                self.store.retain(end);
                give_back();
            }
            Job::Run { mut fired, taken } => {
                let (at, name) = (fired.at, &fired.name);
                let dir = self.store.run(at, name);
                if let Err(error) = taken.write(&dir.join("trace")) {
                    // A part of a run is none, and takes the room that there is.
                    let _ = std::fs::remove_dir_all(&dir);
                    return say(&format!("a run of {name} is lost: {error:#}"));
                }
                say(&format!("run {}", dir.display()));
                let id = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let took = fired.what.end.saturating_sub(fired.what.begin) as f64 / 1e9;
                self.metrics.run(name, Run { id, took, at });
                fired.run = dir.display().to_string();
                if let Some(otlp) = &self.otlp {
                    otlp.fired(fired);
                }
                self.reports.add(dir);
            }
        }
    }
}

/// Gives memory that is free back to the kernel. The C library keeps a heap for each thread, and what was freed in the
/// middle of it.
fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number, how much to leave at the heap's end.
    let _ = unsafe { libc::malloc_trim(0) };
}

/// Reports of runs, one at a time.
struct Reports {
    /// plumb itself.
    program: PathBuf,
    waiting: VecDeque<PathBuf>,
    present: Option<Child>,
}

impl Reports {
    fn add(&mut self, dir: PathBuf) {
        if self.waiting.len() < REPORTS {
            self.waiting.push_back(dir);
        } else {
            say(&format!("no report of {0}: too many wait; plumb report {0} makes it", dir.display()));
        }
    }

    /// Begins the next one when the one before has ended.
    fn go_on(&mut self) {
        if self.present.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None))) {
            return;
        }
        self.present = None;
        let Some(dir) = self.waiting.pop_front() else { return };
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
            Ok(child) => self.present = Some(child),
            Err(error) => say(&format!("report of {}: {error}", dir.display())),
        }
    }

    fn end(&mut self) {
        loop {
            self.go_on();
            let Some(mut child) = self.present.take() else { return };
            let _ = child.wait();
        }
    }
}
