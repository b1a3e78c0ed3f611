// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of the system for a repetition: queue attributes, kernel parameters, files of /proc
//! and /sys. Each old value stands in the journal before the new one is written.

use super::file::{Settings, Value};
use anyhow::{bail, Context, Result};
use plumb_undo::change::Change;
use plumb_undo::journal::Journal;
use plumb_undo::queue::attributes;
use plumb_undo::value::value;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// Of two counterparts the kernel keeps one: it sets the other to 0 and does not take that 0 back
/// (Documentation/admin-guide/sysctl/vm.rst).
const COUNTERPARTS: [[&str; 2]; 2] = [
    ["/proc/sys/vm/dirty_bytes", "/proc/sys/vm/dirty_ratio"],
    ["/proc/sys/vm/dirty_background_bytes", "/proc/sys/vm/dirty_background_ratio"],
];

/// The file of a kernel parameter.
///
/// # Errors
/// The name leads elsewhere.
pub fn parameter(name: &str) -> Result<PathBuf> {
    let path = PathBuf::from(format!("/proc/sys/{}", name.replace('.', "/")));
    permitted(&path)?;
    Ok(path)
}

/// Whether a plan may write this file.
///
/// # Errors
/// It is no file of /proc or /sys.
pub fn permitted(path: &Path) -> Result<()> {
    let below = ["/proc", "/sys"].iter().any(|top| path.starts_with(top) && path != Path::new(top));
    if !below || path.components().any(|c| matches!(c, Component::ParentDir)) {
        bail!("{}: a plan writes files of /proc and /sys alone", path.display());
    }
    Ok(())
}

/// A value as it is written; none for one that is taken away again.
pub fn text(value: &Value) -> Option<String> {
    match value {
        Value::Flag(false) => None,
        Value::Flag(true) => Some("1".into()),
        Value::Whole(n) => Some(n.to_string()),
        Value::Real(n) => Some(n.to_string()),
        Value::Text(text) => Some(text.clone()),
        Value::Several(words) => Some(words.join(" ")),
    }
}

/// Writes all settings of a cell, those of queues into each of `queues` (directories of sysfs).
///
/// # Errors
/// A file that is not there or does not take the value; named. What was written stands in the journal.
pub fn apply(settings: &Settings, queues: &[PathBuf], journal: &mut Journal) -> Result<()> {
    if !settings.queue.is_empty() && queues.is_empty() {
        bail!("the cell sets attributes of a queue, and none of its devices has one");
    }
    for dir in queues {
        if let Some(scheduler) = settings.queue.get("scheduler").and_then(text) {
            set_scheduler(dir, &scheduler, journal)?;
        }
        for (name, value) in settings.queue.iter().filter(|(name, _)| *name != "scheduler") {
            let path = dir.join(name);
            permitted(&path)?;
            text(value).map_or(Ok(()), |value| set(&path, &value, journal))?;
        }
    }
    for (name, value) in &settings.sysctl {
        let path = parameter(name)?;
        text(value).map_or(Ok(()), |value| set(&path, &value, journal))?;
    }
    for (path, value) in &settings.write {
        permitted(path)?;
        text(value).map_or(Ok(()), |value| set(path, &value, journal))?;
    }
    Ok(())
}

/// Gives a queue (its directory in sysfs) another scheduler; the attributes that the kernel sets with it stand in the
/// journal too.
///
/// # Errors
/// As [`set`].
pub(crate) fn set_scheduler(queue: &Path, name: &str, journal: &mut Journal) -> Result<()> {
    journal.will(Change::Queue { dir: queue.into(), values: attributes(queue) })?;
    set(&queue.join("scheduler"), name, journal)
}

/// Writes a value, after the old one stands in the journal.
///
/// # Errors
/// The file is not there, cannot be read, or does not take the value; named.
pub(crate) fn set(path: &Path, new: &str, journal: &mut Journal) -> Result<()> {
    let shown = path.display();
    let meta = std::fs::metadata(path).with_context(|| format!("{shown}: this kernel has no such file"))?;
    let old = match value(path) {
        Ok(old) => Some(old),
        // One such as vm.drop_caches does something, and holds nothing.
        Err(_) if meta.permissions().mode() & 0o444 == 0 => None,
        Err(e) if e.kind() == ErrorKind::PermissionDenied => {
            return Err(e).with_context(|| format!("{shown}: run as root"));
        }
        Err(e) => {
            return Err(e).with_context(|| format!("{shown}: cannot be read, so could not be put back"))
        }
    };
    if old.as_deref() == Some(new) {
        return Ok(());
    }
    let known = old.is_some();
    let instead = old.as_deref().filter(|old| *old == "0").and_then(|_| instead(path));
    let number = journal.will(Change::Write { path: path.into(), old, new: new.into(), instead })?;
    if let Err(e) = std::fs::write(path, new) {
        journal.done(number)?;
        return Err(e).with_context(|| format!("{shown}: does not take {new}"));
    }
    if known {
        let took = value(path).with_context(|| format!("{shown}: reading it again"))?;
        journal.took(number, &took)?;
    }
    Ok(())
}

/// The counterpart of a file that holds 0, and what it holds.
fn instead(path: &Path) -> Option<(PathBuf, String)> {
    let other = COUNTERPARTS.iter().find_map(|[a, b]| match path {
        p if p == Path::new(a) => Some(b),
        p if p == Path::new(b) => Some(a),
        _ => None,
    })?;
    Some((other.into(), value(Path::new(other)).ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::own_devices::OWN;
    use super::*;

    #[test]
    fn only_files_of_proc_and_sys_are_written() {
        assert_eq!(parameter("vm.dirty_ratio").expect("one"), Path::new("/proc/sys/vm/dirty_ratio"));
        for bad in ["/etc/passwd", "/proc/../etc/passwd", "/proc", "sys/block", "/procfs/x"] {
            assert!(permitted(Path::new(bad)).is_err(), "{bad}");
        }
        assert!(permitted(Path::new("/sys/block/sda/queue/scheduler")).is_ok());
    }

    #[test]
    fn a_value_is_journaled_before_and_what_the_file_took_after() {
        let dir = tempfile::TempDir::new().expect("a directory");
        let file = dir.path().join("value");
        std::fs::write(&file, "a [b] c").expect("written");
        let mut journal = Journal::open(dir.path(), &OWN).expect("new");
        set(&file, "c", &mut journal).expect("set");
        let open = journal.open_changes();
        assert_eq!(open.len(), 1);
        assert_eq!(open[0].took.as_deref(), Some("c"));
        assert!(matches!(&open[0].change, Change::Write { old: Some(old), .. } if old == "b"), "{open:?}");
        set(&file, "c", &mut journal).expect("the same is no change");
        assert_eq!(journal.open_changes().len(), 1);
        assert!(set(&dir.path().join("none"), "1", &mut journal).is_err());
        assert_eq!(journal.open_changes().len(), 1);
    }

    #[test]
    fn a_counterpart_is_known_by_its_file() {
        assert_eq!(instead(Path::new("/proc/sys/vm/swappiness")), None);
        if let Some((path, _)) = instead(Path::new("/proc/sys/vm/dirty_bytes")) {
            assert_eq!(path, Path::new("/proc/sys/vm/dirty_ratio"));
        }
    }
}
