// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One run of one load on its stage.

use crate::catalogue::{Clean, Fault, What};
use crate::load::Dose;
use crate::setup::Stage;
use crate::stop;
use anyhow::{bail, Context, Result};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How much of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Strength {
    /// 60 to 90 % of the time.
    Strong,
    /// 20 to 35 % of the time.
    Weak,
}

impl Strength {
    /// As on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Strong => "strong",
            Self::Weak => "weak",
        }
    }
}

impl Fault {
    /// The dose of a strength.
    pub fn dose(&self, strength: Strength) -> Dose {
        match strength {
            Strength::Strong => self.strong,
            Strength::Weak => self.weak,
        }
    }
}

/// What is run: its words, and what must stand around it.
pub struct Target {
    /// It falls when this is dropped.
    _stage: Stage,
    command: Vec<OsString>,
    directory: PathBuf,
}

/// Sets up a fault and says what the target is.
///
/// # Errors
/// The set-up's, with the fault's name.
pub fn fault(fault: &Fault, strength: Strength, on: bool, rate: u64) -> Result<Target> {
    stop::check()?;
    let mut stage = Stage::new(rate)?;
    (fault.setup)(&mut stage, fault.dose(strength), on).with_context(|| format!("{}: set-up", fault.name))?;
    let mut command = own("work", fault.name)?;
    command.push(strength.word().into());
    if !on {
        command.push("--without".into());
    }
    place(&stage, &mut command);
    Ok(Target { _stage: stage, command, directory: std::env::current_dir()? })
}

/// Sets up a clean run.
///
/// # Errors
/// The set-up's, with the run's name.
pub fn clean(clean: &Clean, rate: u64) -> Result<Target> {
    stop::check()?;
    let mut stage = Stage::new(rate)?;
    (clean.setup)(&mut stage).with_context(|| format!("{}: set-up", clean.name))?;
    let command = match clean.what {
        // What it prints would stand before plumb's JSON.
        What::Shell(words) => vec!["sh".into(), "-c".into(), format!("exec > /dev/null; {words}").into()],
        What::Load(..) => {
            let mut command = own("work", clean.name)?;
            command.push("strong".into());
            place(&stage, &mut command);
            command
        }
    };
    let directory = stage.place.dir.clone();
    Ok(Target { _stage: stage, command, directory })
}

fn own(subcommand: &str, name: &str) -> Result<Vec<OsString>> {
    Ok(vec![std::env::current_exe().context("own path")?.into(), subcommand.into(), name.into()])
}

fn place(stage: &Stage, command: &mut Vec<OsString>) {
    let place = &stage.place;
    let mut add = |option: &str, value: OsString| command.extend([option.into(), value]);
    add("--dir", place.dir.clone().into());
    add("--rate", place.rate.to_string().into());
    add("--unit-ns", place.unit_ns.to_string().into());
    if let Some(device) = &place.device {
        add("--device", device.clone().into());
    }
    if let Some(cpu) = place.cpu {
        add("--cpu", cpu.to_string().into());
    }
    for cgroup in &place.cgroup {
        add("--cgroup", cgroup.clone().into());
    }
}

impl Target {
    /// Runs the target by itself and times it from its start to its end.
    ///
    /// # Errors
    /// It cannot be started or fails, with what it said.
    pub fn alone(&self) -> Result<Duration> {
        let start = Instant::now();
        let output = self.start(&self.command)?;
        let elapsed = start.elapsed();
        if !output.status.success() {
            bail!("the load: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(elapsed)
    }

    /// Runs the target under plumb and gives plumb's JSON.
    ///
    /// # Errors
    /// plumb cannot be started or fails (an invalid measurement, exit code 3, is none: it is told
    /// in the JSON), or prints no JSON.
    pub fn under(&self, plumb: &Path, dir: &Path, events: Option<&str>) -> Result<serde_json::Value> {
        let mut words: Vec<OsString> = vec![plumb.into(), "run".into(), "-q".into(), "--json".into()];
        words.extend(["--exit-code".into(), "plumb".into()]);
        words.extend(["-o".into(), dir.into()]);
        if let Some(events) = events {
            words.extend(["-e".into(), events.into()]);
        }
        words.push("--".into());
        words.extend(self.command.iter().cloned());
        let output = self.start(&words)?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !matches!(output.status.code(), Some(0 | 1 | 3)) {
            bail!("{} run: {}: {}", plumb.display(), output.status, said.trim());
        }
        // A target that failed did not show its fault, whatever was found.
        if let Some(code) = exit_code(dir).filter(|&code| code != 0) {
            bail!("the target ended with exit code {code} under plumb: {}", said.trim());
        }
        serde_json::from_slice(&output.stdout).with_context(|| {
            format!("{} run: no JSON on its standard output; it said: {}", plumb.display(), said.trim())
        })
    }

    fn start(&self, words: &[OsString]) -> Result<Output> {
        let child = Command::new(&words[0])
            .args(&words[1..])
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own: all of it can be ended.
            .process_group(0)
            .spawn()
            .with_context(|| format!("{}: cannot be started", words[0].to_string_lossy()))?;
        stop::child(child.id());
        let output = child.wait_with_output();
        stop::child(0);
        stop::check()?;
        output.context("wait")
    }
}

/// The target's own exit code, as plumb's run directory has it.
fn exit_code(dir: &Path) -> Option<i64> {
    let run = std::fs::read(dir.join("run.json")).ok()?;
    serde_json::from_slice::<serde_json::Value>(&run).ok()?["recording"]["exit_code"].as_i64()
}
