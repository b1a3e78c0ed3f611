// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Repetitions that are measured on other hosts: one that is reached by a command ([`reach`]: ssh, a network namespace, a
//! container), or guests that are booted for it ([`guests`]).
//!
//! Data flows: cell -> a plan of this cell alone, which the program runs on the host -> scripts ([`HostTask`]) -> there
//! and back -> the repetition's directory, which looks as if the cell had been measured here. Other hosts are recorded
//! meanwhile; their recordings and the cell's own are a set in `hosts/`, explained in `hosts.txt`. What the host
//! changes on its own system its own plan's journal and guardian put back. What comes from a host is believed to be a
//! result, and nothing else: plain files are kept.

mod guests;
mod reach;

use super::analysis::cells::NOT_VALID;
use super::file::{ChartKind, DeviceSpec, HostSpec, OneOrMore, PlanFile, Settings};
use super::measure::Measured;
use super::needs;
use super::run::NOT_RESTORED as NOT_RESTORED_HEAD;
use super::state::{Cell, State};
use super::store;
use anyhow::{bail, Context, Result};
use plumb_machine::child::Status;
use plumb_undo::guarded_journal::{last_words, GuardedJournal, StoppedByUser};
use std::fs::File;
use std::os::unix::fs::{symlink, DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The events that tell where a request is on its way from host to host.
const EVENTS: &str = "default,tcp";
/// A host says so when its recording has begun.
const READY: &str = "plumb-cell-ready";
/// What a guest calls its first device; /dev/vda takes its results.
const FIRST_DEVICE: u8 = b'b';

/// What runs on the measured host. The line `end`, or the end of its standard input, ends it too: then who began it stops,
/// or is gone. One that is gone cannot clean up here.
const MEASURED_SCRIPT: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 2
mkdir -p out
exec 3<&0
./plumb plan run ./cell.toml -o out/plan --quiet --json @OPTIONS@ </dev/null >out/report 2>out/said &
pid=$!
{ read -r word; kill -TERM "$pid"; [ "$word" = end ] || echo >gone; } <&3 &
watch=$!
wait "$pid"
code=$?
kill "$watch" 2>/dev/null
[ ! -e gone ] || sh ./clean
exit "$code"
"#;
/// On one that is recorded meanwhile.
const RECORDED_SCRIPT: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 2
mkdir -p out
./plumb record -a -e @EVENTS@ -o out/trace -- sh ./until 2>out/said
code=$?
[ "$code" = 0 ] || tail -n 1 out/said >&2
[ ! -e gone ] || sh ./clean
exit "$code"
"#;
/// On one that only has a device.
const DEVICE_SCRIPT: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 2
mkdir -p out
exec sh ./until
"#;
/// Waits for the end. A connection that is cut without a word is noticed by nobody, so it waits for so long only.
const UNTIL: &str = r#"echo @READY@
{ sleep @SECONDS@ & echo $! >sleeping; wait $!; [ ! -e sleeping ] || kill $$; } >/dev/null 2>&1 &
word=
read -r word
sleeping=$(cat sleeping 2>/dev/null)
rm -f sleeping
kill "$sleeping" 2>/dev/null
[ "$word" = end ] || echo >gone
exit 0
"#;
/// Removes everything, unless something is still changed.
const CLEAN: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 0
dir=$PWD
if [ -e out/plan/changes.jsonl ]; then
	./plumb plan restore out/plan >&2 || exit 1
fi
cd / && rm -rf "$dir"
"#;

/// Something on another host is still changed.
#[derive(Debug)]
pub struct NotRestored(String);

impl std::fmt::Display for NotRestored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotRestored {}

/// What a host of a repetition is to do.
struct HostTask<'a> {
    name: &'a str,
    spec: &'a HostSpec,
    /// What it needs, and its script `run`; what it leaves comes back as `out` beside it.
    dir: PathBuf,
    /// It is recorded.
    recorded: bool,
    /// The models that are devices of its own.
    devices: Vec<(&'a str, &'a DeviceSpec)>,
}

impl HostTask<'_> {
    fn out(&self) -> PathBuf {
        self.dir.join("out")
    }
}

/// Measures a repetition of a cell that names a host, into `dir`.
///
/// # Errors
/// A host cannot be reached or booted, or ends without a result; the user stopped it.
pub fn measure(
    plan: &PlanFile,
    cell: &Cell,
    host: &str,
    dir: &Path,
    guarded: &mut GuardedJournal,
) -> Result<Measured> {
    let work = dir.join("work");
    std::fs::DirBuilder::new().mode(0o700).create(&work).with_context(|| work.display().to_string())?;
    let came = measured(plan, cell, host, dir, &work, guarded);
    let _ = std::fs::remove_dir_all(&work);
    came
}

fn measured(
    plan: &PlanFile,
    cell: &Cell,
    host: &str,
    dir: &Path,
    work: &Path,
    guarded: &mut GuardedJournal,
) -> Result<Measured> {
    let tasks = tasks(plan, &cell.settings, host, work, (&guarded.destroy, guarded.limit))?;
    let output = dir.join("output.txt");
    let doubts = match tasks[0].spec.guest {
        Some(_) => guests::run(&tasks, &cell.settings, work, &output, guarded),
        None => reach::run(&tasks, &output, guarded),
    };
    let measured = doubts.and_then(|doubts| Ok((taken(&tasks[0], dir)?, doubts)));
    if measured.is_err() {
        // What the hosts said, for whoever looks why.
        for task in &tasks {
            for file in ["said", "console", "qemu"] {
                let _ = std::fs::copy(task.out().join(file), dir.join(format!("{}.{file}", task.name)));
            }
        }
    }
    let (mut measured, mut doubts) = measured?;
    for task in tasks.iter().skip(1).filter(|t| t.recorded && !t.out().join("trace").exists()) {
        doubts.push(format!("host {}: it left no recording", task.name));
    }
    match set(&tasks, dir, &output, guarded) {
        Err(e) if e.is::<StoppedByUser>() => return Err(e),
        Err(e) => doubts.push(format!("the recordings of its hosts: {e:#}")),
        Ok(()) => {}
    }
    measured.doubts.extend(doubts.into_iter().map(|doubt| format!("{NOT_VALID}{doubt}")));
    Ok(measured)
}

/// The measured host's first, then those of the others.
fn tasks<'a>(
    plan: &'a PlanFile,
    settings: &'a Settings,
    host: &str,
    work: &Path,
    (destroy, limit): (&[PathBuf], Duration),
) -> Result<Vec<HostTask<'a>>> {
    let devices = needs::devices(settings, plan);
    let also: Vec<&str> = settings.record_hosts.as_ref().map(OneOrMore::all).unwrap_or_default();
    let mut names = vec![host];
    names.extend(&also);
    for other in devices.iter().filter_map(|(_, d)| d.host.as_deref()) {
        if !names.contains(&other) {
            names.push(other);
        }
    }
    let mut tasks = Vec::new();
    for (number, name) in names.into_iter().enumerate() {
        let (name, spec) =
            plan.hosts.get_key_value(name).with_context(|| format!("the plan has no host {name}"))?;
        let dir = work.join(number.to_string());
        std::fs::create_dir(&dir).with_context(|| dir.display().to_string())?;
        let own = |d: &&(&str, &DeviceSpec)| {
            d.1.model.is_some() && d.1.host.as_deref().map_or(number == 0, |other| other == name)
        };
        let devices: Vec<_> = devices.iter().filter(own).copied().collect();
        tasks.push(HostTask {
            name,
            spec,
            dir,
            recorded: number == 0 || also.contains(&name.as_str()),
            devices,
        });
    }
    for (number, task) in tasks.iter().enumerate() {
        let script = match number {
            0 => {
                let inner = inner(plan, settings, task);
                put(&task.dir, "cell.toml", &inner.text()?)?;
                let mut options = String::new();
                for device in destroy.iter().filter_map(|word| of_host(word, host)) {
                    options += &format!("--destroy {} ", quoted(device));
                }
                MEASURED_SCRIPT.replace("@OPTIONS@", options.trim_end())
            }
            _ if task.recorded => RECORDED_SCRIPT.replace("@EVENTS@", EVENTS),
            _ => DEVICE_SCRIPT.to_string(),
        };
        put(&task.dir, "run", &script)?;
        let seconds = (limit * 4).as_secs() + 3600;
        let until = UNTIL.replace("@READY@", READY).replace("@SECONDS@", &seconds.to_string());
        put(&task.dir, "until", &until)?;
        put(&task.dir, "clean", CLEAN)?;
    }
    Ok(tasks)
}

/// The plan that the measured host runs: this cell, once.
fn inner(plan: &PlanFile, settings: &Settings, task: &HostTask<'_>) -> PlanFile {
    let mut inner = plan.clone();
    inner.name = "cell".into();
    (inner.repeat, inner.budget, inner.blocks, inner.order) =
        (1, None, Vec::new(), super::file::Order::Given);
    (inner.factors, inner.skips, inner.figures) = (Vec::new(), Vec::new(), Vec::new());
    // With it a load keeps its log.
    inner.charts.retain(|chart| chart.kind == ChartKind::Operations);
    for chart in &mut inner.charts {
        (chart.over, chart.by) = (None, None);
    }
    inner.hosts.clear();
    inner.cell = Settings { host: None, record_hosts: None, ..settings.clone() };
    let used = settings.device.as_ref().map(OneOrMore::all).unwrap_or_default();
    inner.devices.retain(|name, _| used.contains(&name.as_str()));
    if task.spec.guest.is_some() {
        for (name, spec) in inner.devices.iter_mut().filter(|(_, spec)| spec.model.is_some()) {
            let own = task.devices.iter().position(|(own, _)| own == name);
            let path = own.map_or_else(|| PathBuf::from("/dev/plumb-disk"), node);
            *spec = DeviceSpec { path: Some(path), seed: spec.seed, ..DeviceSpec::default() };
        }
    }
    inner
}

/// What a guest calls the so-manyth device of its own.
fn node(number: usize) -> PathBuf {
    PathBuf::from(format!("/dev/vd{}", char::from(FIRST_DEVICE + number as u8)))
}

/// Names in a repetition's directory that are this host's.
const OWN: [&str; 6] = ["cell.json", "output.txt", "hosts", "hosts.txt", "hosts.json", "work"];

/// The device of `HOST:PATH` that is this host's.
fn of_host<'a>(word: &'a Path, host: &str) -> Option<&'a str> {
    word.to_str()?.strip_prefix(host)?.strip_prefix(':')
}

/// Leaves of what came from another host plain files and directories of ours: no link that leads elsewhere, no pipe that
/// whoever reads it waits for, no set-user-ID.
fn keep_files(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        let named = || path.display().to_string();
        let meta = path.symlink_metadata().with_context(named)?;
        if meta.is_dir() {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).with_context(named)?;
            keep_files(&path)?;
        } else if meta.is_file() && meta.nlink() == 1 {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).with_context(named)?;
        } else {
            std::fs::remove_file(&path).with_context(named)?;
        }
    }
    Ok(())
}

/// Takes what the measured host left into the repetition's directory.
fn taken(task: &HostTask<'_>, dir: &Path) -> Result<Measured> {
    let plan = task.out().join("plan");
    let state: Option<State> = store::read(&plan)?;
    let Some(made) = state.as_ref().and_then(|s| s.made.first()) else {
        bail!("host {}: nothing was measured{}", task.name, last_words(&task.out().join("said"), 0));
    };
    if let Some(why) = state.as_ref().and_then(|s| s.ended_early.as_ref()?.strip_prefix(NOT_RESTORED_HEAD)) {
        return Err(NotRestored(format!("host {}: {why}", task.name)).into());
    }
    if made.dir.components().any(|c| !matches!(c, Component::Normal(_))) {
        bail!("host {}: rejects the result's path {}", task.name, made.dir.display());
    }
    let from = plan.join(&made.dir);
    for entry in std::fs::read_dir(&from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        if !OWN.iter().any(|own| entry.file_name() == *own) {
            let to = dir.join(entry.file_name());
            std::fs::rename(entry.path(), &to).with_context(|| to.display().to_string())?;
        }
    }
    Ok(Measured { elapsed_ns: made.elapsed_ns, end: made.end.clone(), doubts: made.doubts.clone() })
}

/// Puts the recordings into one set, and explains it.
fn set(tasks: &[HostTask<'_>], dir: &Path, output: &Path, guarded: &mut GuardedJournal) -> Result<()> {
    let recorded: Vec<_> = tasks.iter().filter(|e| e.out().join("trace").exists()).collect();
    if recorded.is_empty() {
        return Ok(());
    }
    let hosts = dir.join("hosts");
    std::fs::create_dir(&hosts).with_context(|| hosts.display().to_string())?;
    for task in recorded {
        let to = hosts.join(task.name);
        std::fs::rename(task.out().join("trace"), &to).with_context(|| to.display().to_string())?;
    }
    if dir.join("trace").exists() {
        symlink("../trace", hosts.join(tasks[0].name)).context("hosts")?;
    }
    for (option, name) in [(None, "hosts.txt"), (Some("--json"), "hosts.json")] {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("plumb").arg("explain").args(option).arg(&hosts);
        let told = File::create_new(dir.join(name)).with_context(|| name.to_string())?;
        let status = guarded.status_of(command, output, Stdio::null(), Some(Stdio::from(told)))?;
        // 3: a recording lost events, which is in it.
        if !matches!(status, Status::Exited(0 | 3)) {
            bail!("plumb explain: {status}{}", last_words(output, 0));
        }
    }
    Ok(())
}

fn put(dir: &Path, name: &str, text: &str) -> Result<()> {
    let path = dir.join(name);
    std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755))
        .with_context(|| path.display().to_string())
}

/// A word as sh reads it back.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests;
