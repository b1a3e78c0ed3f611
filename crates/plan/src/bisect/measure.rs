// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One build or run: a process group of its own, with a limit, that a signal ends.

use anyhow::{Context, Result};
use plumb_machine::child::{wait_all, Child, Waited};
use plumb_undo::guarded_journal::last_words;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a command that is stopped may take to end.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy)]
pub struct Ran {
    pub elapsed_ns: u64,
    pub cpu_ns: u64,
}

pub enum Outcome {
    Ran(Ran),
    /// Why, in a sentence.
    Failed(String),
    /// A signal asked to stop.
    Stopped,
}

/// Runs a command in `dir`; what it prints goes to `log`, which is made anew.
///
/// # Errors
/// No process can be made, or `log` not be written.
pub fn run(words: &[String], dir: &Path, log: &Path, limit: Option<Duration>) -> Result<Outcome> {
    let printed = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).current_dir(dir).stdin(Stdio::null());
    command.stdout(printed.try_clone()?).stderr(printed);
    // A hook that calls this has its own repository in there.
    super::repository::FOREIGN.iter().for_each(|name| _ = command.env_remove(name));
    let mut child = [Child::command(command)?];
    let (before, begun) = (cpu_of_children(), Instant::now());
    child[0].go();
    let waited = wait_all(&mut child, limit.map(|l| begun + l), true);
    let elapsed_ns = begun.elapsed().as_nanos() as u64;
    if waited != Waited::Ended {
        end(&mut child);
        return Ok(match waited {
            Waited::Stopped => Outcome::Stopped,
            _ => Outcome::Failed(format!("it took longer than {:?}", limit.unwrap_or_default())),
        });
    }
    let status = child[0].status().context("a command that ended has a status")?;
    if !status.success() {
        return Ok(Outcome::Failed(format!("{status}{}", last_words(log, 0))));
    }
    Ok(Outcome::Ran(Ran { elapsed_ns, cpu_ns: cpu_of_children() - before }))
}

fn end(child: &mut [Child]) {
    child[0].signal(libc::SIGTERM);
    if wait_all(child, Some(Instant::now() + PATIENCE), false) != Waited::Ended {
        child[0].signal(libc::SIGKILL);
        wait_all(child, None, false);
    }
}

/// CPU time of all children that have ended, ns. One runs at a time, so a difference is one's own.
fn cpu_of_children() -> u64 {
    // SAFETY: usage is valid for writing.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    [usage.ru_utime, usage.ru_stime]
        .iter()
        .map(|t| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000)
        .sum()
}
