// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What works on the system for a repetition: the journal that knows every change, the guardian
//! that knows every process, and the file where tools say what they did.

use crate::guardian::Guardian;
use crate::journal::{processes, Journal};
use crate::timeout;
use anyhow::{anyhow, bail, Context, Result};
use plumb_machine::child::{wait_all, Child, Status, Waited, Within};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The user asked to stop: no failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoppedByUser;

impl std::fmt::Display for StoppedByUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stopped by the user")
    }
}

impl std::error::Error for StoppedByUser {}

#[derive(Debug)]
pub struct GuardedJournal {
    pub journal: Journal,
    /// Puts it back if this process dies.
    pub guardian: Guardian,
    /// The plan's directory, absolute.
    pub dir: PathBuf,
    /// Devices whose content may be lost.
    pub destroy: Vec<PathBuf>,
    /// Longest that anything may take.
    pub limit: Duration,
    /// What the processes that begin from now on may have of the machine; none: all that plumb has.
    pub within: Option<Within>,
}

impl GuardedJournal {
    /// Runs a tool to its end; what it says is appended to `output`.
    ///
    /// # Errors
    /// It failed, took too long or was stopped; its last words.
    pub fn tool(&mut self, command: Command, output: &Path) -> Result<()> {
        self.tool_with(command, output, Stdio::null(), None)
    }

    /// As [`GuardedJournal::tool`], with another standard input, or a standard output of its own.
    ///
    /// # Errors
    /// As [`GuardedJournal::tool`].
    pub fn tool_with(
        &mut self,
        command: Command,
        output: &Path,
        stdin: Stdio,
        stdout: Option<Stdio>,
    ) -> Result<()> {
        let name = command.get_program().to_string_lossy().into_owned();
        let begin = append(output)?.metadata().map_or(0, |m| m.len());
        match self.status_of(command, output, stdin, stdout)? {
            Status::Exited(0) => Ok(()),
            status => Err(anyhow!("{name}: {status}{}", last_words(output, begin))),
        }
    }

    /// As [`GuardedJournal::tool_with`]; how it ended.
    ///
    /// # Errors
    /// It took too long or was stopped.
    pub fn status_of(
        &mut self,
        mut command: Command,
        output: &Path,
        stdin: Stdio,
        stdout: Option<Stdio>,
    ) -> Result<Status> {
        let name = command.get_program().to_string_lossy().into_owned();
        let said = append(output)?;
        command
            .stdin(stdin)
            .stdout(stdout.map_or_else(|| said.try_clone().map(Stdio::from), Ok)?)
            .stderr(said);
        command.env("LC_ALL", "C");
        let mut child = [self.command(command, false)?];
        child[0].go();
        let waited = wait_all(&mut child, Some(Instant::now() + self.limit), true);
        if waited != Waited::Ended {
            timeout::end(&mut child, &[], &[], self.journal.devices());
        }
        self.guardian.ended(child[0].pid());
        match (waited, child[0].status()) {
            (Waited::Stopped, _) => Err(StoppedByUser.into()),
            (Waited::Late, _) => bail!("{name}: did not end in {} s", self.limit.as_secs_f64()),
            (Waited::Ended, Some(status)) => Ok(status),
            (Waited::Ended, None) => bail!("{name}: gone"),
        }
    }

    /// Does something whose processes have all of the machine.
    pub fn unconfined<T>(&mut self, body: impl FnOnce(&mut Self) -> T) -> T {
        let within = self.within.take();
        let came = body(self);
        self.within = within;
        came
    }

    /// A command that the guardian knows, and of one that lives long the journal too; it begins with
    /// [`Child::go`].
    ///
    /// # Errors
    /// No process can be made, or the journal cannot be written.
    pub fn command(&mut self, command: Command, long: bool) -> Result<Child> {
        let child = Child::command(command)?;
        self.guardian.begins(child.pid());
        if let Some(Err(error)) = self.within.as_ref().map(|within| within.take(child.pid())) {
            let mut children = [child];
            timeout::end(&mut children, &[], &[], self.journal.devices());
            self.guardian.ended(children[0].pid());
            return Err(error);
        }
        if long {
            self.journal.will(processes(child.pid()))?;
        }
        Ok(child)
    }
}

/// Opens a file to append to.
///
/// # Errors
/// It cannot be opened.
pub fn append(path: &Path) -> Result<File> {
    File::options().append(true).create(true).open(path).with_context(|| path.display().to_string())
}

/// The last line that says something, after byte `begin` of a file: `: no space left`.
pub fn last_words(path: &Path, begin: u64) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let new = bytes.get(begin as usize..).unwrap_or_default();
    let text = String::from_utf8_lossy(&new[new.len().saturating_sub(4096)..]).into_owned();
    match text.lines().rev().map(str::trim).find(|l| !l.is_empty()) {
        Some(line) => format!(": {}", line.chars().take(300).collect::<String>()),
        None => String::new(),
    }
}
