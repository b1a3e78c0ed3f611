// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A change as it is made: through the journal where it is one of the system, or by what the command is started with.

use super::command::Launch;
use super::trial::Trial;
use crate::settings;
use anyhow::{Context, Result};
use plumb_machine::{mounts, DeviceNumber, Root};
use plumb_undo::change::Change as Journaled;
use plumb_undo::guarded_journal::GuardedJournal;
use plumb_undo::limit::{self, Limit};
use plumb_undo::mounted;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::Command;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Files of /proc and /sys, and what is written to each.
    Write(Vec<(PathBuf, String)>),
    /// The scheduler of a queue, by its directory in sysfs.
    Scheduler {
        queue: PathBuf,
        name: String,
    },
    /// A device's limits in files of cgroups, and what is written of it to each.
    Limits {
        device: DeviceNumber,
        files: Vec<(PathBuf, String)>,
    },
    /// A word of file systems, by where they are mounted.
    Mount {
        points: Vec<PathBuf>,
        word: String,
    },
    Cpus(String),
    Nice(i32),
    Env {
        name: String,
        value: String,
    },
    Command(Trial),
}

impl Action {
    /// Makes it, journaled before.
    ///
    /// # Errors
    /// The kernel does not take the value, or a command failed; what was begun stands in the journal.
    pub fn make(&self, guarded: &mut GuardedJournal, launch: &mut Launch) -> Result<()> {
        match self {
            Action::Write(files) => {
                files.iter().try_for_each(|(path, value)| settings::set(path, value, &mut guarded.journal))
            }
            Action::Scheduler { queue, name } => settings::set_scheduler(queue, name, &mut guarded.journal),
            Action::Limits { device, files } => files.iter().try_for_each(|(path, value)| {
                let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
                let before = limit::line(&text, *device).unwrap_or_else(|| limit::none(path).into());
                guarded.journal.will_limit(&Limit {
                    path: path.clone(),
                    device: *device,
                    before,
                    after: Some(value.clone()),
                })?;
                std::fs::write(path, format!("{device} {value}\n"))
                    .with_context(|| path.display().to_string())
            }),
            Action::Mount { points, word } => points.iter().try_for_each(|point| {
                let root = Root::real();
                let mount = mounts(&root).into_iter().rfind(|m| m.point == *point);
                let device =
                    mount.with_context(|| format!("{}: nothing is mounted there", point.display()))?.number;
                let now = mounted::pair(word).and_then(|pair| mounted::word(point, device, pair, &root));
                let old =
                    now.with_context(|| format!("{word} is no word of a mount that plumb changes"))?.into();
                guarded.journal.will(Journaled::Mounted { point: point.clone(), device, old })?;
                mounted::set(point, word).with_context(|| format!("{}: {word}", point.display()))
            }),
            Action::Cpus(_) | Action::Nice(_) | Action::Env { .. } => {
                self.start_with(launch);
                Ok(())
            }
            Action::Command(trial) => {
                let undo = ["sh", "-c", &trial.undo].map(str::to_string).to_vec();
                let directory = std::env::current_dir().ok();
                guarded.journal.will(Journaled::Command { name: trial.name.clone(), undo, directory })?;
                let mut command = Command::new("sh");
                command.arg("-c").arg(&trial.apply);
                let output = guarded.dir.join("output.txt");
                guarded.tool(command, &output).with_context(|| format!("--try {}", trial.name))
            }
        }
    }

    fn start_with(&self, launch: &mut Launch) {
        match self {
            Action::Cpus(list) => launch.cpus = Some(list.clone()),
            Action::Nice(nice) => launch.nice = Some(*nice),
            Action::Env { name, value } => {
                launch.environment.retain(|(n, _)| n != name);
                launch.environment.push((name.clone(), value.clone()));
            }
            Action::Write(_)
            | Action::Scheduler { .. }
            | Action::Limits { .. }
            | Action::Mount { .. }
            | Action::Command(_) => {}
        }
    }

    /// The command that makes it last, as a shell takes it; of the measured command what to start it with.
    pub fn permanent(&self) -> String {
        match self {
            Action::Write(files) => {
                let all: Vec<String> =
                    files.iter().map(|(path, value)| format!("echo {value} > {}", path.display())).collect();
                all.join("; ")
            }
            Action::Scheduler { queue, name } => format!("echo {name} > {}/scheduler", queue.display()),
            Action::Limits { device, files } => {
                let echo = |(path, value): &(PathBuf, String)| {
                    format!("echo '{device} {value}' > {}", path.display())
                };
                files.iter().map(echo).collect::<Vec<_>>().join("; ")
            }
            Action::Mount { points, word } => {
                let remount = |point: &PathBuf| format!("mount -o remount,{word} {}", point.display());
                points.iter().map(remount).collect::<Vec<_>>().join("; ")
            }
            Action::Cpus(list) => format!("start the command with: taskset -c {list}"),
            Action::Nice(nice) => format!("start the command with: nice -n {nice}"),
            Action::Env { name, value } => format!("start the command with: {name}={value}"),
            Action::Command(trial) => trial.apply.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_of_a_variable_counts() {
        let mut launch = Launch::default();
        for value in ["1", "2"] {
            Action::Env { name: "A".into(), value: value.into() }.start_with(&mut launch);
        }
        Action::Nice(-5).start_with(&mut launch);
        assert_eq!(launch.environment, [("A".to_string(), "2".to_string())]);
        assert_eq!(launch.nice, Some(-5));
    }
}
