// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a repetition stands on: disks served, file systems made and mounted. Every repetition
//! has it anew, so that none inherits what another one left in a cache or on a disk. It is
//! removed by undoing what the journal has of it.

use super::file::{DeviceSpec, FileSystem, PlanFile, Settings};
use super::format;
use super::own_devices::OWN;
use anyhow::{bail, Context, Result};
use plumb_load::job::Bytes;
use plumb_machine::{devices_under, Block, Root};
use plumb_sim::serve::{disk, Backing, Disk, ServeOptions};
use plumb_sim::spec::Spec;
use plumb_undo::change::{Change, CLEARED};
use plumb_undo::guarded_journal::GuardedJournal;
use plumb_undo::undo;
use plumb_undo::undone::Undone;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Length of a served device that has none said.
const SIZE: Bytes = Bytes(1 << 30);

/// A device of a repetition.
#[derive(Debug, Clone)]
pub struct Place {
    /// Its node; none of a directory.
    pub node: Option<PathBuf>,
    /// Where its file system is mounted, or the directory; none of a device without a file system.
    pub dir: Option<PathBuf>,
    /// Its name in the registry, of a served one.
    pub disk: Option<String>,
    /// The file system that was made on it.
    file_system: Option<FileSystem>,
    /// A device of this machine, which is written without a file system.
    raw: bool,
}

impl Place {
    /// What a load works on.
    pub fn target(&self) -> Option<&Path> {
        self.dir.as_deref().or(self.node.as_deref())
    }

    /// Whether a load needs to be told that it may be written, since something may be on it.
    pub fn is_bare(&self) -> bool {
        self.dir.is_none()
    }
}

/// The devices that a cell names.
///
/// # Errors
/// The plan has no such device.
pub fn devices<'a>(plan: &'a PlanFile, settings: &'a Settings) -> Result<Vec<(&'a str, &'a DeviceSpec)>> {
    let names = settings.device.as_ref().map(super::file::OneOrMore::all).unwrap_or_default();
    let one = |name: &'a str| {
        let spec = plan.devices.get(name).with_context(|| format!("the plan has no device called {name}"))?;
        Ok((name, spec))
    };
    names.into_iter().map(one).collect()
}

/// Makes it. What was made when it fails stands in the journal.
///
/// # Errors
/// A device that cannot be served or must not be written, a tool that fails, a signal.
pub fn make(
    plan: &PlanFile,
    settings: &Settings,
    guarded: &mut GuardedJournal,
    output: &Path,
) -> Result<Vec<Place>> {
    // All disks before any mount: their servers take copies of the mounts that they find.
    let mut places = Vec::new();
    for (name, spec) in devices(plan, settings)? {
        places.push((name, spec, place(name, spec, guarded)?));
    }
    for (name, spec, place) in &mut places {
        let Some(node) = place.node.clone() else {
            if settings.file_system.is_some() {
                bail!("device {name} is a directory, and no file system is made on one");
            }
            continue;
        };
        if spec.path.is_some() {
            let claim = format::claim(&node, &guarded.destroy)?;
            if settings.file_system.is_some() {
                guarded.journal.will(Change::Formatted { device: node.clone(), kind: CLEARED.into() })?;
                format::begin(&claim)?;
            }
            place.raw = settings.file_system.is_none();
        }
        if let Some(kind) = &settings.file_system {
            place.file_system = Some(kind.clone());
            format_and_mount(name, &node, kind, place, guarded, output)?;
        }
    }
    Ok(places.into_iter().map(|(_, _, place)| place).collect())
}

fn place(name: &str, spec: &DeviceSpec, guarded: &mut GuardedJournal) -> Result<Place> {
    let mut place = Place { node: None, dir: None, disk: None, file_system: None, raw: false };
    match (&spec.model, &spec.path, &spec.directory) {
        (Some(model), None, None) => {
            let served = disk_name(name);
            let disk = serve(name, &served, model, spec, None, guarded)?;
            let node = disk.device.with_context(|| format!("device {name}: the disk has no node"))?;
            place.node = Some(node);
            place.disk = Some(served);
        }
        (None, Some(path), None) => {
            place.node =
                Some(path.canonicalize().with_context(|| format!("device {name}: {}", path.display()))?);
        }
        (None, None, Some(dir)) => {
            place.dir =
                Some(dir.canonicalize().with_context(|| format!("device {name}: {}", dir.display()))?);
        }
        _ => bail!("device {name} needs one of model, path and directory"),
    }
    Ok(place)
}

fn serve(
    name: &str,
    served: &str,
    model: &str,
    spec: &DeviceSpec,
    nbd: Option<String>,
    guarded: &mut GuardedJournal,
) -> Result<Disk> {
    guarded.journal.will(Change::Disk { name: served.into() })?;
    let options = ServeOptions {
        name: Some(served.into()),
        spec: Spec::load(model, &spec.set).with_context(|| format!("device {name}"))?,
        size: spec.size.unwrap_or(SIZE),
        backing: Backing::Memory,
        seed: u64::from(spec.seed),
        log: None,
        no_device: nbd.is_some(),
        nbd,
        // It outlives this process as long as there is something to put back, and no longer.
        owner: Some(guarded.guardian.pid()),
    };
    disk::start(options).with_context(|| format!("device {name}"))
}

/// Serves a device over NBD, and says how QEMU names it.
///
/// # Errors
/// It has no model, or cannot be served.
pub fn serve_for_guest(name: &str, spec: &DeviceSpec, guarded: &mut GuardedJournal) -> Result<String> {
    let model = spec.model.as_ref().with_context(|| format!("device {name}: a guest's device is a model"))?;
    let served = disk_name(name);
    // Not in the plan's directory: the path of a Unix socket is short.
    let socket = std::env::temp_dir().join(format!("plumb-{served}.nbd"));
    let _ = std::fs::remove_file(&socket);
    serve(name, &served, model, spec, Some(socket.to_string_lossy().into_owned()), guarded)?;
    Ok(format!("nbd+unix:///?socket={}", socket.display()))
}

/// The name in the registry of a plan's device: one of this process's.
fn disk_name(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
    format!("plan-{}-{}", std::process::id(), name.chars().map(safe).collect::<String>())
}

/// Where a plan's device is mounted.
pub fn mount_point(dir: &Path, name: &str) -> PathBuf {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
    dir.join("mount").join(name.chars().map(safe).collect::<String>())
}

fn format_and_mount(
    name: &str,
    node: &Path,
    kind: &FileSystem,
    place: &mut Place,
    guarded: &mut GuardedJournal,
    output: &Path,
) -> Result<()> {
    guarded.journal.will(Change::Formatted { device: node.into(), kind: kind.kind.clone() })?;
    guarded
        .tool(format::mkfs(&kind.kind, &kind.mkfs, node), output)
        .with_context(|| format!("device {name}"))?;
    let point = mount_point(&guarded.dir, name);
    for dir in [guarded.dir.join("mount"), point.clone()] {
        if !dir.exists() {
            guarded.journal.will(Change::Directory { path: dir.clone() })?;
            std::fs::create_dir(&dir).with_context(|| dir.display().to_string())?;
        }
    }
    let change = Change::Mount { point: point.clone(), device: node.into(), disk: place.disk.clone() };
    guarded.journal.will(change)?;
    guarded.tool(mount(node, &point, kind), output).with_context(|| format!("device {name}"))?;
    place.dir = Some(point);
    Ok(())
}

fn mount(node: &Path, point: &Path, kind: &FileSystem) -> Command {
    let mut command = Command::new("mount");
    command.args(["-t", &kind.kind]);
    if !kind.mount.is_empty() {
        command.args(["-o", &kind.mount]);
    }
    command.arg(node).arg(point);
    command
}

/// Unmounts and mounts again, with nothing of it left in memory.
///
/// # Errors
/// It is in use, or cannot be mounted again.
pub fn remount(places: &[Place], guarded: &mut GuardedJournal, output: &Path) -> Result<()> {
    for place in places {
        let (Some(node), Some(point), Some(kind)) = (&place.node, &place.dir, &place.file_system) else {
            continue;
        };
        match undo::unmount(point, None, &OWN) {
            Undone::Forced(why) | Undone::Failed(why) => bail!("remount: {why}"),
            _ => {}
        }
        forget(node)?;
        guarded.tool(mount(node, point, kind), output).context("remount")?;
    }
    Ok(())
}

/// Drops the page cache of a device. It stays after the unmount where somebody has the node open,
/// as the server of a disk has, and holds the file system's metadata.
fn forget(node: &Path) -> Result<()> {
    const BLKFLSBUF: libc::c_ulong = 0x1261;
    let file = File::open(node).with_context(|| node.display().to_string())?;
    // SAFETY: the descriptor is open; the call takes no argument.
    match unsafe { libc::ioctl(file.as_raw_fd(), BLKFLSBUF as _, 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()).with_context(|| format!("{}: BLKFLSBUF", node.display())),
    }
}

/// Clears the devices of this machine that were written without a file system, when nobody uses
/// them any more: they pass the guard again.
///
/// # Errors
/// Somebody uses one, or it fails.
pub fn leave(places: &[Place]) -> Result<()> {
    for node in places.iter().filter(|p| p.raw).filter_map(|p| p.node.as_ref()) {
        // It passed the guard before this repetition, which is what wrote it.
        let claim = plumb_load::guard::device(node, std::slice::from_ref(node), &Root::real())?;
        format::clear(&claim)?;
    }
    Ok(())
}

/// The queues' directories in sysfs of the disks that places stand on.
pub fn queues(places: &[Place]) -> Vec<PathBuf> {
    let root = Root::real();
    let mut all: Vec<PathBuf> = Vec::new();
    for place in places {
        let blocks: Vec<Block> = match (&place.node, &place.dir) {
            (Some(node), _) => root.device(node).and_then(|n| Block::of(n, &root)).into_iter().collect(),
            (None, Some(dir)) => devices_under(dir, &root),
            (None, None) => Vec::new(),
        };
        for block in blocks {
            let dir = block.disk(&root).unwrap_or(block).dir.join("queue");
            if dir.exists() && !all.contains(&dir) {
                all.push(dir);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_lead_nowhere_else() {
        assert_eq!(mount_point(Path::new("/plan"), "../x y"), Path::new("/plan/mount/---x-y"));
        assert!(disk_name("a/b").ends_with("-a-b"));
    }
}
