// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is asked before a plan changes anything: which devices it would write, whether it may,
//! and whether anybody else works on them.

use super::file::DeviceSpec;
use super::state::State;
use super::testbed::{devices, mount_point};
use super::{format, needs, settings};
use anyhow::{bail, Context, Result};
use plumb_machine::{mounts_everywhere, Block, DeviceNumber, Root};
use plumb_sim::spec::Spec;
use plumb_undo::lock::{self, Locks};
use plumb_undo::undo;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Checks everything that is to run, and locks what it works on.
///
/// # Errors
/// The first thing that stands against it, with its name and the next step.
pub fn all(state: &State, dir: &Path, destroy: &[PathBuf], locks: &mut Locks) -> Result<()> {
    let mut used: BTreeMap<&str, &DeviceSpec> = BTreeMap::new();
    let mut kinds = Vec::new();
    for cell in state.cells.iter().filter(|c| c.skipped.is_none()) {
        let named = || format!("cell {}", cell.label);
        // Another host's are looked at there.
        if cell.settings.host.is_some() {
            continue;
        }
        for (name, spec) in devices(&state.plan, &cell.settings).with_context(named)? {
            used.insert(name, spec);
            if let (Some(path), Some(kind)) = (&spec.path, &cell.settings.file_system) {
                kinds.push((path, kind));
            }
        }
        cell.settings.sysctl.keys().try_for_each(|n| settings::parameter(n).map(drop)).with_context(named)?;
        cell.settings.write.keys().try_for_each(|p| settings::permitted(p)).with_context(named)?;
    }
    apart(&used, dir)?;
    for (name, spec) in &used {
        if let Some(path) = &spec.path {
            may_be_written(path, destroy).with_context(|| format!("device {name}"))?;
        }
    }
    for (name, spec) in &used {
        let named = || format!("device {name}");
        if let Some(model) = &spec.model {
            Spec::load(model, &spec.set).with_context(named)?;
        }
        if let Some(path) = &spec.path {
            if let Some(number) = Root::real().device(path) {
                locks.device(number, &path.display().to_string()).with_context(named)?;
            }
            format::claim(path, destroy).with_context(named)?;
        }
        if let Some(dir) = &spec.directory {
            if !dir.is_dir() {
                bail!("device {name}: {} is no directory; make it first", dir.display());
            }
            locks.directory(dir).with_context(named)?;
        }
    }
    for (path, kind) in kinds {
        format::known_again(&kind.kind, &kind.mkfs, path, destroy)?;
    }
    Ok(())
}

/// Why a device would be refused if a plan began now without `--destroy`. What cannot be looked at, or is
/// not there, is told as a lack.
pub fn refusal(path: &Path) -> Option<String> {
    let root = Root::real();
    let number = root.device(path).filter(|_| needs::Machine::real().is_root())?;
    let mounted = mounts_everywhere(&root).iter().any(|m| m.devices(&root).contains(&number));
    match lock::holder_of(number).filter(|_| !mounted) {
        // The guard's exclusive open could come between a running plan and its device.
        Some(pid) => Some(format!("{}: process {pid} {}", path.display(), lock::OF_OTHERS)),
        None => may_be_written(path, &[]).err().map(|e| format!("{e:#}")),
    }
}

/// The guard's answer before any lock is asked for, and who holds the device's lock beside it.
fn may_be_written(path: &Path, destroy: &[PathBuf]) -> Result<()> {
    let Err(refusal) = format::claim(path, destroy) else { return Ok(()) };
    match Root::real().device(path).and_then(lock::holder_of) {
        // The run that took it was killed, and its guardian puts back what it changed: the lock waits for that.
        Some(pid) if !Path::new(&format!("/proc/{pid}")).exists() => Ok(()),
        Some(pid) => bail!("{refusal}; process {pid} works on it (another plan, or a partitioning tool)"),
        None => Err(refusal.into()),
    }
}

/// No two names may lead to one device, nor to one mount point.
fn apart(used: &BTreeMap<&str, &DeviceSpec>, dir: &Path) -> Result<()> {
    let root = Root::real();
    let mut disks: Vec<(&str, DeviceNumber, DeviceNumber)> = Vec::new();
    let mut dirs: BTreeMap<PathBuf, &str> = BTreeMap::new();
    let mut points: BTreeMap<PathBuf, &str> = BTreeMap::new();
    for (name, spec) in used {
        if let Some(number) = spec.path.as_ref().and_then(|p| root.device(p)) {
            let disk = Block::of(number, &root).and_then(|b| b.disk(&root)).map_or(number, |d| d.number);
            let same = |(_, n, d): &&(&str, DeviceNumber, DeviceNumber)| {
                *n == number || (*d == disk && (*n == *d || number == disk))
            };
            if let Some((other, ..)) = disks.iter().find(same) {
                bail!("devices {other} and {name} are one device ({number}), or one is a part of the other; a plan uses each once");
            }
            disks.push((name, number, disk));
        }
        if let Some(path) = spec.directory.as_ref().and_then(|d| d.canonicalize().ok()) {
            if let Some(other) = dirs.insert(path.clone(), name) {
                bail!(
                    "devices {other} and {name} are one directory, {}; a plan uses each once",
                    path.display()
                );
            }
        }
        let point = mount_point(dir, name);
        if undo::mounted(&point) {
            bail!("{}: something is mounted there that no journal knows; unmount it first", point.display());
        }
        if let Some(other) = points.insert(point, name) {
            bail!("devices {other} and {name} differ only in characters that no directory's name should have; rename one");
        }
    }
    Ok(())
}
