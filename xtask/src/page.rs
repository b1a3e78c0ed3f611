// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report's page: its types, its logic, that what is committed is what its sources make, and the
//! page in a browser.

use crate::counts::Counts;
use crate::test::{minutes, skip, Session};
use anyhow::{Context, Result};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Node's oldest version that the page is built with: Debian 12's.
const OLDEST: u32 = 18;

/// Runs it, or says why not.
pub fn stage(session: &mut Session) {
    session.tests("page", minutes(15), |s| {
        let web = s.root.join("web");
        let version = output(Command::new("node").arg("--version"));
        if !version.as_deref().is_some_and(new_enough) || output(npm(&web).arg("--version")).is_none() {
            let found = version.unwrap_or_else(|| "no Node".into());
            let reason = format!("needs node {OLDEST} or newer and npm, found {} (make deps)", found.trim());
            return Ok((ExitStatus::default(), skip("page", &reason)));
        }
        let mut counts = Counts::default();
        // Nothing of what follows can run without the packages.
        let (status, _) = s.lines(install(&web))?;
        if !status.success() {
            return Ok((status, Counts::one(false)));
        }
        let steps = [
            step(s, script(&web, "check"), &mut counts)?,
            build(s, &web, &mut counts)?,
            tests(s, script(&web, "test"), &mut counts)?,
            tests(s, script(&web, "e2e"), &mut counts)?,
        ];
        // Of several the first that failed.
        Ok((steps.into_iter().find(|s| !s.success()).unwrap_or_default(), counts))
    });
}

fn npm(web: &Path) -> Command {
    let mut command = Command::new("npm");
    command.arg("--prefix").arg(web).current_dir(web);
    command
}

fn install(web: &Path) -> Command {
    let mut command = npm(web);
    command.args(["ci", "--prefer-offline", "--no-audit", "--no-fund"]);
    command
}

fn script(web: &Path, name: &str) -> Command {
    let mut command = npm(web);
    command.args(["run", "--silent", name]);
    command
}

/// A command that counts as one test.
fn step(s: &Session, command: Command, counts: &mut Counts) -> Result<ExitStatus> {
    let (status, _) = s.lines(command)?;
    counts.add(Counts::one(status.success()));
    Ok(status)
}

/// A command that tells what passed.
fn tests(s: &Session, command: Command, counts: &mut Counts) -> Result<ExitStatus> {
    let (status, mut told) = s.lines(command)?;
    if !status.success() && told.failed == 0 {
        told.failed = 1;
    }
    counts.add(told);
    Ok(status)
}

/// Builds the page elsewhere and compares it with the committed one.
fn build(s: &Session, web: &Path, counts: &mut Counts) -> Result<ExitStatus> {
    let built = s.target_dir().join("page.html");
    let mut command = script(web, "build");
    command.env("PLUMB_PAGE", &built);
    let (status, _) = s.lines(command)?;
    if !status.success() {
        counts.add(Counts::one(false));
        return Ok(status);
    }
    let committed = s.root.join("crates/report/page.html");
    let same = read(&built)? == read(&committed)?;
    if !same {
        println!("{} is not what web/ makes: run 'npm run build' in web/ and commit it", committed.display());
    }
    counts.add(Counts::one(same));
    Ok(if same { status } else { ExitStatus::from_raw(1 << 8) })
}

fn read(path: &PathBuf) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| path.display().to_string())
}

/// What a command prints; None where there is no such command.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Of `v20.1.0`.
fn new_enough(version: &str) -> bool {
    let major = version.trim().trim_start_matches('v').split('.').next();
    major.and_then(|m| m.parse::<u32>().ok()).is_some_and(|m| m >= OLDEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_node_are_read() {
        assert!(new_enough("v18.20.4\n"));
        assert!(new_enough("v20.0.0"));
        assert!(!new_enough("v16.1.0"));
        assert!(!new_enough("what"));
    }
}
