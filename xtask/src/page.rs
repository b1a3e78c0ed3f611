// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report's page: its types, its logic, that what is committed is what its sources make, and the
//! page in a browser.

use crate::counts::Counts;
use crate::test::{Division, Job};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Node's oldest version that the page is built with: Debian 12's.
const OLDEST: u32 = 18;

/// Runs it, or says why not.
///
/// # Errors
/// A command cannot be started, or a page cannot be read.
pub fn stage(job: &Job) -> Result<Counts> {
    let web = job.root.join("web");
    let version = output(Command::new("node").arg("--version"));
    if !version.as_deref().is_some_and(new_enough) || output(npm(&web).arg("--version")).is_none() {
        let found = version.unwrap_or_else(|| "no Node".into());
        let reason = format!("needs node {OLDEST} or newer and npm, found {} (make deps)", found.trim());
        return Ok(job.skip("page", &reason));
    }
    // Nothing of what follows can run without the packages.
    let (status, _) = step(job, install(&web), "page: npm ci")?;
    if !status.success() {
        return Ok(Counts::one(false));
    }
    let (status, _) = step(job, script(&web, "check"), "page: types")?;
    let mut counts = Counts::one(status.success());
    counts.add(build(job, &web)?);
    for (name, what) in [("test", "page: unit tests"), ("e2e", "page: in a browser")] {
        let (status, mut told) = step(job, script(&web, name), what)?;
        if !status.success() && told.failed == 0 {
            told.failed = 1;
        }
        counts.add(told);
    }
    Ok(counts)
}

fn step(job: &Job, command: Command, name: &str) -> Result<(ExitStatus, Counts)> {
    job.run(command, Division::Whole, name, |line| job.say(line))
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

/// Builds the page elsewhere and compares it with the committed one.
fn build(job: &Job, web: &Path) -> Result<Counts> {
    let built = job.target_dir().join("page.html");
    let mut command = script(web, "build");
    command.env("PLUMB_PAGE", &built);
    let (status, _) = step(job, command, "page: build")?;
    if !status.success() {
        return Ok(Counts::one(false));
    }
    let committed = job.root.join("crates/report/page.html");
    let same = read(&built)? == read(&committed)?;
    if !same {
        let page = committed.display();
        job.say(&format!("{page} is not what web/ makes: run 'npm run build' in web/ and commit it"));
    }
    Ok(Counts::one(same))
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
