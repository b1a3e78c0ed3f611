// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Repetitions that are measured on other hosts: one that is reached by a command ([`reach`]: ssh, a network namespace, a
//! container), or guests that are booted for it ([`guests`]).
//!
//! Data flows: cell -> a plan of this cell alone, which the program runs on the host -> scripts ([`Errand`]) -> there
//! and back -> the repetition's directory, which looks as if the cell had been measured here. Hosts beside record
//! meanwhile; their recordings and the cell's own are a set in `hosts/`, explained in `hosts.txt`. What the host
//! changes on its own system its own plan's journal and guardian put back.

mod guests;
mod reach;

use super::file::{ChartKind, DeviceSpec, HostSpec, OneOrMore, PlanFile, Settings};
use super::measure::Measured;
use super::needs;
use super::state::{Cell, State};
use super::store;
use anyhow::{bail, Context, Result};
use plumb_undo::guarded_journal::{last_words, GuardedJournal};
use std::fs::File;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

/// Longest that a host beside may take to begin and to end its recording, s.
const BESIDE: u64 = 60;
/// The events that tell where a request is on its way from host to host.
const EVENTS: &str = "default,tcp";
/// What a guest calls its first device; /dev/vda takes its results.
const FIRST_DEVICE: u8 = b'b';

/// What runs on the measured host. It ends when its standard input does: then who began it is gone, or wants it so.
const MEASURED: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 2
mkdir -p out
exec 3<&0
./plumb plan run ./cell.toml -o out/plan --quiet --json @OPTIONS@ </dev/null >out/report 2>out/said &
pid=$!
{ read -r _; kill -TERM "$pid"; } <&3 &
watch=$!
wait "$pid"
code=$?
kill "$watch" 2>/dev/null
exit "$code"
"#;
/// On one that is recorded beside.
const BESIDE_IT: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 2
mkdir -p out
exec ./plumb record -a -e @EVENTS@ -o out/trace -- sh ./until 2>out/said
"#;
/// On one that only has a device.
const ONLY_THERE: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 2
mkdir -p out
exec sh ./until
"#;
const UNTIL: &str = "echo ready\nread -r _\n";

/// What a host of a repetition is to do.
struct Errand<'a> {
    name: &'a str,
    spec: &'a HostSpec,
    /// What it needs, and its script `run`; what it leaves comes back as `out` beside it.
    dir: PathBuf,
    /// It is recorded.
    recorded: bool,
    /// The models that are devices of its own.
    devices: Vec<(&'a str, &'a DeviceSpec)>,
}

impl Errand<'_> {
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
    std::fs::create_dir(&work).with_context(|| work.display().to_string())?;
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
    let errands = errands(plan, &cell.settings, host, work, &guarded.destroy)?;
    let output = dir.join("output.txt");
    let done = match errands[0].spec.guest {
        Some(_) => guests::run(&errands, &cell.settings, work, &output, guarded),
        None => reach::run(&errands, &output, guarded),
    };
    let measured = done.and_then(|()| taken(&errands[0], dir));
    if measured.is_err() {
        // What the hosts said, for whoever looks why.
        for errand in &errands {
            for file in ["said", "console", "qemu"] {
                let _ = std::fs::copy(errand.out().join(file), dir.join(format!("{}.{file}", errand.name)));
            }
        }
    }
    let measured = measured?;
    set(&errands, dir, &output, guarded).context("the recordings of its hosts")?;
    Ok(measured)
}

/// The measured host's first, then those of the others.
fn errands<'a>(
    plan: &'a PlanFile,
    settings: &'a Settings,
    host: &str,
    work: &Path,
    destroy: &[PathBuf],
) -> Result<Vec<Errand<'a>>> {
    let devices = needs::devices(settings, plan);
    let beside: Vec<&str> = settings.beside.as_ref().map(OneOrMore::all).unwrap_or_default();
    let mut names = vec![host];
    names.extend(&beside);
    for other in devices.iter().filter_map(|(_, d)| d.host.as_deref()) {
        if !names.contains(&other) {
            names.push(other);
        }
    }
    let mut errands = Vec::new();
    for (number, name) in names.into_iter().enumerate() {
        let (name, spec) = plan.hosts.get_key_value(name).with_context(|| format!("the plan has no host {name}"))?;
        let dir = work.join(number.to_string());
        std::fs::create_dir(&dir).with_context(|| dir.display().to_string())?;
        let own = |d: &&(&str, &DeviceSpec)| {
            d.1.model.is_some() && d.1.host.as_deref().map_or(number == 0, |other| other == name)
        };
        let devices: Vec<_> = devices.iter().filter(own).copied().collect();
        errands.push(Errand { name, spec, dir, recorded: number == 0 || beside.contains(&name.as_str()), devices });
    }
    for (number, errand) in errands.iter().enumerate() {
        let script = match number {
            0 => {
                let inner = inner(plan, settings, errand);
                put(&errand.dir, "cell.toml", &inner.text()?)?;
                let mut options = String::new();
                for device in destroy {
                    options += &format!("--destroy {} ", quoted(&device.to_string_lossy()));
                }
                MEASURED.replace("@OPTIONS@", options.trim_end())
            }
            _ if errand.recorded => BESIDE_IT.replace("@EVENTS@", EVENTS),
            _ => ONLY_THERE.to_string(),
        };
        put(&errand.dir, "run", &script)?;
        put(&errand.dir, "until", UNTIL)?;
    }
    Ok(errands)
}

/// The plan that the measured host runs: this cell, once.
fn inner(plan: &PlanFile, settings: &Settings, errand: &Errand<'_>) -> PlanFile {
    let mut inner = plan.clone();
    inner.name = "cell".into();
    (inner.repeat, inner.budget, inner.blocks, inner.order) = (1, None, Vec::new(), super::file::Order::Given);
    (inner.factors, inner.skips, inner.figures) = (Vec::new(), Vec::new(), Vec::new());
    // With it a load keeps its log.
    inner.charts.retain(|chart| chart.kind == ChartKind::Operations);
    for chart in &mut inner.charts {
        (chart.over, chart.by) = (None, None);
    }
    inner.hosts.clear();
    inner.cell = Settings { host: None, beside: None, ..settings.clone() };
    let used = settings.device.as_ref().map(OneOrMore::all).unwrap_or_default();
    inner.devices.retain(|name, _| used.contains(&name.as_str()));
    if errand.spec.guest.is_some() {
        for (name, spec) in inner.devices.iter_mut().filter(|(_, spec)| spec.model.is_some()) {
            let own = errand.devices.iter().position(|(own, _)| own == name);
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

/// Takes what the measured host left into the repetition's directory.
fn taken(errand: &Errand<'_>, dir: &Path) -> Result<Measured> {
    let plan = errand.out().join("plan");
    let state: Option<State> = store::read(&plan)?;
    let Some(made) = state.as_ref().and_then(|s| s.made.first()) else {
        bail!("host {}: nothing was measured{}", errand.name, last_words(&errand.out().join("said"), 0));
    };
    // Another host's word: it names nothing outside.
    if made.dir.components().any(|c| !matches!(c, Component::Normal(_))) {
        bail!("host {}: its result lies in {}", errand.name, made.dir.display());
    }
    let from = plan.join(&made.dir);
    for entry in std::fs::read_dir(&from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        if entry.file_name() != "cell.json" {
            let to = dir.join(entry.file_name());
            std::fs::rename(entry.path(), &to).with_context(|| to.display().to_string())?;
        }
    }
    Ok(Measured { elapsed_ns: made.elapsed_ns, end: made.end.clone(), doubts: made.doubts.clone() })
}

/// Puts the recordings into one set, and explains it.
fn set(errands: &[Errand<'_>], dir: &Path, output: &Path, guarded: &mut GuardedJournal) -> Result<()> {
    let recorded: Vec<_> = errands.iter().filter(|e| e.out().join("trace").exists()).collect();
    if recorded.is_empty() {
        return Ok(());
    }
    let hosts = dir.join("hosts");
    std::fs::create_dir(&hosts).with_context(|| hosts.display().to_string())?;
    for errand in recorded {
        let to = hosts.join(errand.name);
        std::fs::rename(errand.out().join("trace"), &to).with_context(|| to.display().to_string())?;
    }
    if dir.join("trace").exists() {
        symlink("../trace", hosts.join(errands[0].name)).context("hosts")?;
    }
    for (option, name) in [(None, "hosts.txt"), (Some("--json"), "hosts.json")] {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("plumb").arg("explain").args(option).arg(&hosts);
        let told = File::create(dir.join(name)).with_context(|| name.to_string())?;
        guarded.tool_with(command, output, Stdio::null(), Some(Stdio::from(told)))?;
    }
    Ok(())
}

fn put(dir: &Path, name: &str, text: &str) -> Result<()> {
    let path = dir.join(name);
    std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).with_context(|| path.display().to_string())
}

/// A word as sh reads it back.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests;
