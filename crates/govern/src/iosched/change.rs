// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Selecting the scheduler and setting its knobs, and putting back what was before. What was before stands in an undo
//! journal until then, which is gone with the machine's next start, as the scheduler is.

use super::knobs::Knob;
use super::status::{loads_modules, NO_MODULES};
use super::{schedulers, SCHEDULER};
use anyhow::{bail, Context, Result};
use plumb_machine::{Block, Root};
use plumb_undo::change::{Change, Open};
use plumb_undo::devices::{Devices, NoDevices, PlainFiles};
use plumb_undo::journal::{open_in, Journal};
use plumb_undo::queue::attributes;
use plumb_undo::undone::Undone;
use plumb_undo::value::value;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Attributes of a queue that the kernel sets anew when its scheduler changes.
const OF_QUEUE: [&str; 2] = ["nr_requests", "async_depth"];

/// What a disk had before.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Before {
    pub scheduler: String,
    /// Its attributes, and the queue's.
    pub values: BTreeMap<String, String>,
}

impl Before {
    fn of(disk: &Block, scheduler: &str, root: &Root) -> Before {
        let mut values = attributes(&queue(disk, root));
        values.retain(|name, _| OF_QUEUE.contains(&name.as_str()) || name.starts_with("iosched/"));
        Before { scheduler: scheduler.into(), values }
    }

    /// As a journal has it.
    fn change(&self, disk: &Block, root: &Root) -> Change {
        let mut values = self.values.clone();
        values.insert("scheduler".into(), self.scheduler.clone());
        Change::Queue { dir: queue(disk, root), values }
    }
}

fn queue(disk: &Block, root: &Root) -> PathBuf {
    root.path(disk.dir.join("queue"))
}

/// Directory of a disk's journal, gone with the machine's next start, as the scheduler is.
fn state(disk: &Block, root: &Root) -> PathBuf {
    root.path(format!("/run/plumb/iosched/{}", disk.name))
}

/// What plumb 0.1.0 wrote in the place of a journal.
fn old_state(disk: &Block, root: &Root) -> PathBuf {
    root.path(format!("/run/plumb/iosched/{}.json", disk.name))
}

/// What a disk had before it was set; None: it was not.
///
/// # Errors
/// The file makes no sense; named.
pub fn before(disk: &Block, root: &Root) -> Result<Option<Before>> {
    let said = |path: &Path| {
        format!("{}: cannot be understood; remove it, and set the scheduler by hand", path.display())
    };
    let dir = state(disk, root);
    let open = open_in(&dir).with_context(|| said(&dir))?;
    let first = open.into_iter().find_map(|open| match open.change {
        Change::Queue { mut values, .. } => Some(Before { scheduler: values.remove("scheduler")?, values }),
        _ => None,
    });
    if first.is_some() {
        return Ok(first);
    }
    let path = old_state(disk, root);
    let text = match std::fs::read(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.with_context(|| path.display().to_string())?,
    };
    serde_json::from_slice(&text).map(Some).with_context(|| said(&path))
}

fn write(disk: &Block, name: &str, value: &str, root: &Root) -> Result<()> {
    let path = root.path(disk.dir.join("queue").join(name));
    std::fs::write(&path, value).map_err(|e| {
        let next = match e.kind() {
            ErrorKind::PermissionDenied => "run as root",
            ErrorKind::NotFound => "this kernel or module has no such attribute",
            _ => "see the kernel's log (dmesg)",
        };
        anyhow::Error::new(e).context(format!("{}: does not take {value}; {next}", path.display()))
    })
}

/// Before anything is tried that would fail with other words.
fn needs_root(disk: &Block, root: &Root) -> Result<()> {
    // SAFETY: a call without pointers that cannot fail.
    if root.is_real() && unsafe { libc::geteuid() } != 0 {
        bail!("{}: changing its scheduler needs root; run as root", disk.name);
    }
    Ok(())
}

/// Loads the module where it lacks.
fn load(disk: &Block, root: &Root) -> Result<bool> {
    let there = || schedulers(disk, root).is_some_and(|(all, _)| all.iter().any(|s| s == SCHEDULER));
    if there() {
        return Ok(false);
    }
    if !loads_modules(root) {
        bail!("{}: {NO_MODULES}", disk.name);
    }
    let how = "build and install it first (docs/iosched.md: Install), or use plumb govern, which needs none";
    if !root.is_real() {
        bail!("module {SCHEDULER} is not loaded; {how}");
    }
    let out = Command::new("modprobe").arg(SCHEDULER).output().context("modprobe (install kmod)")?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr).trim().replace('\n', "; ");
        bail!("modprobe {SCHEDULER} failed: {said}; {how}");
    }
    if !there() {
        bail!("{}: module {SCHEDULER} is loaded, and the disk does not offer it; 'plumb iosched status {0}' tells why", disk.name);
    }
    Ok(true)
}

/// The journal of a disk, which has what was before.
///
/// # Errors
/// It cannot be read or written.
fn journal(disk: &Block, root: &Root) -> Result<Journal> {
    let dir = state(disk, root);
    std::fs::create_dir_all(&dir).with_context(|| format!("{}: run as root", dir.display()))?;
    let devices: &dyn Devices = if root.is_real() { &NoDevices } else { &PlainFiles };
    Journal::open(&dir, devices)
}

/// Begins the journal of a disk: what it had, and that its scheduler is changed.
///
/// # Errors
/// The journal cannot be written.
fn remember(disk: &Block, before: &Before, root: &Root) -> Result<Journal> {
    forget(disk, root)?;
    let mut journal = journal(disk, root)?;
    journal.begin()?;
    journal.will(before.change(disk, root))?;
    let path = queue(disk, root).join("scheduler");
    let old = Some(before.scheduler.clone());
    let change = Change::Write { path, old, new: SCHEDULER.into(), instead: None };
    let number = journal.will(change)?;
    journal.took(number, SCHEDULER)?;
    Ok(journal)
}

/// Undoes what is pending since a mark, as far as it differs; says what was done.
///
/// # Errors
/// A file does not take its old value; named.
fn put_back(
    disk: &Block,
    before: &Before,
    mark: u32,
    journal: &mut Journal,
    root: &Root,
) -> Result<Vec<String>> {
    let name = &disk.name;
    let now = |attribute: &str| value(&queue(disk, root).join(attribute)).ok();
    let had = now("scheduler");
    let mut left = Vec::new();
    let mut undo = |journal: &mut Journal, mark: u32| {
        left.extend(journal.undo_since(mark).into_iter().filter_map(|undone| match undone {
            Undone::LeftAlone(what) | Undone::Failed(what) => Some(what),
            Undone::Nothing | Undone::Did(_) | Undone::Forced(_) => None,
        }));
    };
    // The scheduler first: the attributes are its own.
    let writes = |open: &&Open| open.number >= mark && matches!(open.change, Change::Write { .. });
    if let Some(first) = journal.open_changes().iter().find(writes).map(|open| open.number) {
        undo(journal, first);
    }
    let mut did = Vec::new();
    if had.is_some_and(|had| had != before.scheduler) && now("scheduler").as_ref() == Some(&before.scheduler)
    {
        did.push(format!("{name}: scheduler {} again", before.scheduler));
    }
    let attributes: Vec<(&String, Option<String>)> = before.values.keys().map(|a| (a, now(a))).collect();
    undo(journal, mark);
    let mut back: Vec<_> =
        attributes.into_iter().filter(|(attribute, was)| was.is_some() && *was != now(attribute)).collect();
    back.sort_by_key(|(attribute, _)| *attribute != OF_QUEUE[0]);
    did.extend(
        back.iter().map(|(attribute, _)| format!("{name}: {attribute} {} again", before.values[*attribute])),
    );
    if !left.is_empty() {
        bail!("{}", left.join("; "));
    }
    Ok(did)
}

fn forget(disk: &Block, root: &Root) -> Result<()> {
    let gone = |removed: std::io::Result<()>, path: PathBuf| match removed {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e).with_context(|| path.display().to_string()),
        _ => Ok(()),
    };
    let (dir, old) = (state(disk, root), old_state(disk, root));
    gone(std::fs::remove_dir_all(&dir), dir)?;
    gone(std::fs::remove_file(&old), old)
}

/// Selects the scheduler on a disk and sets knobs; says what was done.
///
/// # Errors
/// The disk has no choice, the module cannot be loaded, or a file does not take a value; named with the next step. Then the
/// disk is as it was; a module that was loaded for it stays, and is told.
pub fn set(disk: &Block, knobs: &[(&Knob, u64)], root: &Root) -> Result<Vec<String>> {
    let name = &disk.name;
    let Some((_, had)) = schedulers(disk, root) else {
        bail!("{name}: has no queue of requests, so no scheduler; name the disk below it, if there is one (lsblk -s /dev/{name})");
    };
    needs_root(disk, root)?;
    let mut did = Vec::new();
    if load(disk, root)? {
        did.push(format!("module {SCHEDULER} loaded"));
    }
    let now = Before::of(disk, &had, root);
    // What stands there of another time, before somebody selected another scheduler, counts no more.
    let first = had != SCHEDULER || before(disk, root)?.is_none();
    let (mut journal, mark) = if first {
        (remember(disk, &now, root)?, 0)
    } else {
        let mut journal = adopted(disk, root)?;
        let mark = journal.will(now.change(disk, root))?;
        (journal, mark)
    };
    match select(disk, &had, knobs, root) {
        Ok(all) => {
            if !first {
                // What counts is what was before the first time.
                journal.done(mark)?;
            }
            did.extend(all);
            Ok(did)
        }
        Err(error) => {
            let mut back = put_back(disk, &now, mark, &mut journal, root).map(drop);
            if first {
                back = back.and_then(|()| forget(disk, root));
            }
            match back {
                Ok(()) if did.is_empty() => Err(error.context(format!("{name}: nothing is changed"))),
                Ok(()) => Err(error.context(format!("{name}: nothing is changed, but {}", did.join(", ")))),
                Err(left) => Err(error.context(format!("{name}: and not all is as it was: {left:#}"))),
            }
        }
    }
}

/// The journal of a disk that was set before, maybe by plumb 0.1.0.
fn adopted(disk: &Block, root: &Root) -> Result<Journal> {
    if !old_state(disk, root).exists() {
        return journal(disk, root);
    }
    match before(disk, root)? {
        Some(before) => remember(disk, &before, root),
        None => journal(disk, root),
    }
}

fn select(disk: &Block, had: &str, knobs: &[(&Knob, u64)], root: &Root) -> Result<Vec<String>> {
    let name = &disk.name;
    let mut did = Vec::new();
    if had != SCHEDULER {
        write(disk, "scheduler", SCHEDULER, root)?;
        did.push(format!("{name}: scheduler {SCHEDULER}, was {had}"));
    }
    for (knob, value) in knobs {
        write(disk, &format!("iosched/{}", knob.name), &value.to_string(), root)?;
        did.push(format!("{name}: {} is {value} {}", knob.name, knob.unit).trim_end().to_string());
    }
    Ok(did)
}

/// Puts back what a disk had before; says what was done.
///
/// # Errors
/// It was not set by plumb, or a file does not take a value; named.
pub fn remove(disk: &Block, root: &Root) -> Result<Vec<String>> {
    let name = &disk.name;
    needs_root(disk, root)?;
    // Of a 'set' that was killed before its first change, or a 'remove' behind its last one.
    let nothing =
        || vec![format!("{name}: nothing was left changed; {} removed", state(disk, root).display())];
    let Some(before) = before(disk, root)? else {
        if state(disk, root).exists() {
            forget(disk, root)?;
            return Ok(nothing());
        }
        bail!("{name}: plumb has not set its scheduler since the machine was started; it is left alone (to change it: write one of its names to {})", disk.dir.join("queue/scheduler").display());
    };
    let now = schedulers(disk, root).map(|(_, now)| now).unwrap_or_default();
    // Who was killed here may have come as far as the scheduler, and not to its attributes.
    let did = if now == SCHEDULER || now == before.scheduler {
        put_back(disk, &before, 0, &mut adopted(disk, root)?, root)?
    } else {
        vec![format!("{name}: not changed: its scheduler is now {now}, set by someone else")]
    };
    forget(disk, root)?;
    Ok(if did.is_empty() { nothing() } else { did })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::knobs;
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    /// A machine with sda (turns), nvme0n1 (two queues) and dm-0 on sda.
    pub(crate) struct Tree(tempfile::TempDir);

    impl Tree {
        pub(crate) fn new() -> Tree {
            let tree = Tree(tempfile::TempDir::new().expect("a directory"));
            for (name, number, scheduler) in [
                ("sda", "8:0", "none [mq-deadline] bfq"),
                ("nvme0n1", "259:0", "[none] mq-deadline"),
                ("dm-0", "253:0", "none"),
            ] {
                let at = |file: &str| format!("sys/devices/{name}/{file}");
                tree.put(&at("dev"), number);
                tree.put(&at("size"), "1000");
                tree.put(&at("queue/rotational"), if name == "sda" { "1" } else { "0" });
                tree.put(&at("queue/scheduler"), scheduler);
                tree.put(&format!("dev/{name}"), "");
                for (dir, link, up) in [
                    ("sys/block", name, ".."),
                    ("sys/class/block", name, "../.."),
                    ("sys/dev/block", number, "../.."),
                ] {
                    std::fs::create_dir_all(tree.0.path().join(dir)).expect("made");
                    symlink(format!("{up}/devices/{name}"), tree.0.path().join(dir).join(link))
                        .expect("linked");
                }
            }
            tree.put("sys/devices/sda/mq/0/cpu_list", "0");
            tree.put("sys/devices/sda/queue/nr_requests", "256");
            tree.put("sys/devices/sda/queue/iosched/fifo_batch", "8");
            tree.put("sys/devices/nvme0n1/mq/0/cpu_list", "0");
            tree.put("sys/devices/nvme0n1/mq/1/cpu_list", "1");
            std::fs::create_dir_all(tree.0.path().join("sys/devices/dm-0/slaves")).expect("made");
            symlink("../../sda", tree.0.path().join("sys/devices/dm-0/slaves/sda")).expect("linked");
            tree
        }

        pub(crate) fn put(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            std::fs::create_dir_all(path.parent().expect("below")).expect("made");
            std::fs::write(path, text).expect("written");
        }

        pub(crate) fn text(&self, path: &str) -> String {
            std::fs::read_to_string(self.0.path().join(path)).expect(path)
        }

        pub(crate) fn path(&self) -> &Path {
            self.0.path()
        }

        pub(crate) fn root(&self) -> Root {
            Root::at(self.0.path())
        }

        /// As if the module were loaded and selected.
        pub(crate) fn lp_deadline(&self, name: &str) {
            let at = |file: &str| format!("sys/devices/{name}/queue/{file}");
            self.put(&at("scheduler"), "none mq-deadline [lp-deadline]");
            for (file, text) in [
                ("low_depth", "1"),
                ("low_slots", "12"),
                ("low_cgroups", "/backup.slice\n"),
                ("normal_stat", "inserted 9\nqueued 0\nin_flight 0\n"),
                ("low_stat", "dispatched 7\n"),
                ("decisions", "batched 3\nheld 4\n"),
            ] {
                self.put(&at(&format!("iosched/{file}")), text);
            }
        }
    }

    #[test]
    fn it_is_set_and_put_back() {
        let tree = Tree::new();
        let root = tree.root();
        let sda = super::super::disk("/dev/sda", &root).expect("there");
        let said = set(&sda, &[], &root).expect_err("no module").to_string();
        assert!(said.contains("not loaded") && said.contains("plumb govern"), "{said}");
        tree.put("sys/devices/sda/queue/scheduler", "none [mq-deadline] lp-deadline");
        tree.put("sys/devices/sda/queue/iosched/low_depth", "1");
        let knob = knobs::parse("low_depth=4").expect("a knob");
        let did = set(&sda, &[knob], &root).expect("set");
        assert_eq!(did, ["sda: scheduler lp-deadline, was mq-deadline", "sda: low_depth is 4"]);
        assert_eq!(tree.text("sys/devices/sda/queue/iosched/low_depth"), "4");
        let had = before(&sda, &root).expect("readable").expect("remembered");
        assert_eq!((had.scheduler.as_str(), had.values["nr_requests"].as_str()), ("mq-deadline", "256"));
        // Set again: what was before the first time is what counts.
        set(&sda, &[], &root).expect("set");
        assert_eq!(before(&sda, &root).expect("readable"), Some(had));
        tree.put("sys/devices/sda/queue/nr_requests", "64");
        let did = remove(&sda, &root).expect("removed");
        assert!(
            did.contains(&"sda: scheduler mq-deadline again".into())
                && did.contains(&"sda: nr_requests 256 again".into()),
            "{did:?}"
        );
        assert_eq!(tree.text("sys/devices/sda/queue/scheduler"), "mq-deadline");
        let said = remove(&sda, &root).expect_err("twice").to_string();
        assert!(said.contains("has not set its scheduler"), "{said}");
    }

    #[test]
    fn what_cannot_be_set_changes_nothing_and_what_was_remembered_long_ago_does_not_count() {
        let tree = Tree::new();
        let root = tree.root();
        tree.put("sys/devices/sda/queue/scheduler", "none [mq-deadline] lp-deadline");
        tree.put("sys/devices/sda/queue/iosched/low_slots", "25");
        // A file that takes nothing.
        tree.put("sys/devices/sda/queue/iosched/low_depth/x", "");
        let sda = super::super::disk("sda", &root).expect("there");
        let knobs = ["low_slots=50", "low_depth=4"].map(|k| knobs::parse(k).expect("a knob"));
        let said = format!("{:#}", set(&sda, &knobs, &root).expect_err("refused"));
        assert!(said.contains("nothing is changed") && said.contains("low_depth"), "{said}");
        assert_eq!(tree.text("sys/devices/sda/queue/scheduler"), "mq-deadline");
        assert_eq!(tree.text("sys/devices/sda/queue/iosched/low_slots"), "25");
        assert_eq!(before(&sda, &root).expect("readable"), None);
        tree.put("sys/devices/sda/queue/scheduler", "none [mq-deadline] lp-deadline");
        set(&sda, &knobs[..1], &root).expect("set");
        tree.put("sys/devices/sda/queue/scheduler", "none mq-deadline [bfq] lp-deadline");
        set(&sda, &[], &root).expect("set");
        assert_eq!(before(&sda, &root).expect("readable").expect("remembered").scheduler, "bfq");
    }

    /// The file of plumb 0.1.0.
    #[test]
    fn what_an_older_version_remembered_is_put_back() {
        let tree = Tree::new();
        let root = tree.root();
        tree.put("sys/devices/sda/queue/scheduler", "none mq-deadline [lp-deadline]");
        tree.put("sys/devices/sda/queue/nr_requests", "64");
        tree.put("sys/devices/sda/queue/iosched/low_depth", "1");
        let old = r#"{"scheduler": "mq-deadline", "values": {"nr_requests": "256"}}"#;
        let sda = super::super::disk("sda", &root).expect("there");
        for set_again in [false, true] {
            tree.put("run/plumb/iosched/sda.json", old);
            let knob = knobs::parse("low_depth=4").expect("a knob");
            if set_again {
                tree.put("sys/devices/sda/queue/scheduler", "none mq-deadline [lp-deadline]");
                tree.put("sys/devices/sda/queue/nr_requests", "64");
                set(&sda, &[knob], &root).expect("set");
            }
            let had = before(&sda, &root).expect("readable").expect("remembered");
            assert_eq!((had.scheduler.as_str(), had.values["nr_requests"].as_str()), ("mq-deadline", "256"));
            let did = remove(&sda, &root).expect("removed");
            assert_eq!(did, ["sda: scheduler mq-deadline again", "sda: nr_requests 256 again"]);
            assert_eq!(tree.text("sys/devices/sda/queue/scheduler"), "mq-deadline");
            assert_eq!(before(&sda, &root).expect("readable"), None);
        }
    }

    #[test]
    fn what_was_killed_half_way_is_removed() {
        let tree = Tree::new();
        let root = tree.root();
        let sda = super::super::disk("sda", &root).expect("there");
        // Before its first change.
        drop(journal(&sda, &root).expect("made"));
        let did = remove(&sda, &root).expect("removed");
        assert!(
            did[0].contains("nothing was left changed") && did[0].contains("iosched/sda removed"),
            "{did:?}"
        );
        assert!(remove(&sda, &root).is_err(), "twice");
        // Between the scheduler and its attributes.
        tree.put("sys/devices/sda/queue/scheduler", "none [mq-deadline] lp-deadline");
        set(&sda, &[], &root).expect("set");
        tree.put("sys/devices/sda/queue/scheduler", "none [mq-deadline] lp-deadline");
        tree.put("sys/devices/sda/queue/nr_requests", "64");
        assert_eq!(remove(&sda, &root).expect("removed"), ["sda: nr_requests 256 again"]);
        assert_eq!(before(&sda, &root).expect("readable"), None);
    }

    #[test]
    fn what_somebody_else_selected_is_left_alone() {
        let tree = Tree::new();
        let root = tree.root();
        tree.put("sys/devices/sda/queue/scheduler", "none [mq-deadline] lp-deadline");
        let sda = super::super::disk("sda", &root).expect("there");
        set(&sda, &[], &root).expect("set");
        tree.put("sys/devices/sda/queue/scheduler", "none mq-deadline [bfq]");
        let did = remove(&sda, &root).expect("removed");
        assert!(did[0].contains("not changed"), "{did:?}");
        assert_eq!(tree.text("sys/devices/sda/queue/scheduler"), "none mq-deadline [bfq]");
        assert_eq!(before(&sda, &root).expect("readable"), None);
    }
}
