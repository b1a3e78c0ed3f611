// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a plan's journal says is changed on this system, and still is. Looks, and changes nothing.

use crate::change::{Change, Open};
use crate::devices::Devices;
use crate::value::value;
use crate::{journal, lock, mounted, undo};
use anyhow::Result;
use plumb_machine::Root;
use serde::Serialize;
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// Each thing, in the order in which it was changed.
    pub changed: Vec<String>,
    /// The process that still runs the plan: it puts them back itself.
    pub running: Option<i32>,
    pub back: String,
}

impl Standing {
    /// Of a plan's directory; None when nothing is left changed.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn of(dir: &Path, devices: &dyn Devices) -> Result<Option<Standing>> {
        let changed: Vec<String> =
            journal::open_in(dir)?.iter().filter_map(|open| stands(open, devices)).collect();
        if changed.is_empty() {
            return Ok(None);
        }
        let back = format!("plumb plan restore {}", dir.display());
        Ok(Some(Standing { changed, running: lock::holder_of_directory(dir), back }))
    }

    /// What puts them back, as a sentence.
    pub fn advice(&self) -> String {
        match self.running {
            Some(pid) => format!("process {pid} runs the plan and puts them back when it ends"),
            None => format!("'{}' puts them back", self.back),
        }
    }
}

/// A change in words, if the system still shows it.
fn stands(open: &Open, devices: &dyn Devices) -> Option<String> {
    if open.before_boot && !matches!(open.change, Change::Directory { .. } | Change::Tree { .. }) {
        return None;
    }
    match &open.change {
        Change::Began { .. } | Change::Formatted { .. } | Change::Write { old: None, .. } => None,
        Change::Disk { name } => devices.is_served(name).then(|| format!("disk {name} is served")),
        Change::Directory { path } | Change::Tree { path } => {
            path.is_dir().then(|| format!("{}: was made", path.display()))
        }
        Change::Mount { point, device, .. } => undo::mounted(point)
            .then(|| format!("{}: {} is mounted there", point.display(), device.display())),
        Change::Mounted { point, device, old } => {
            let now = mounted::pair(old).and_then(|pair| mounted::word(point, *device, pair, &Root::real()));
            now.filter(|now| now != old).map(|now| format!("{} is mounted {now}, was {old}", point.display()))
        }
        Change::Write { path, old: Some(old), .. } => differs(path, old),
        Change::Queue { dir, values } => {
            let all: Vec<String> =
                values.iter().filter_map(|(name, old)| differs(&dir.join(name), old)).collect();
            (!all.is_empty()).then(|| all.join("; "))
        }
        Change::Cgroup { path } => path.is_dir().then(|| format!("cgroup {} was made", path.display())),
        Change::Controller { path, name } => {
            undo::gives(path, name).then(|| format!("{}: {name} was added", path.display()))
        }
        Change::Limit(limit) => limit
            .changed()
            .map(|now| format!("{}: {} {now}, was {}", limit.path.display(), limit.device, limit.before)),
        Change::Command { name, undo, .. } => {
            Some(format!("{name} was applied; undone by: {}", undo.join(" ")))
        }
        Change::Processes { group, start } => {
            undo::runs(*group, *start).then(|| format!("process group {group} runs"))
        }
    }
}

fn differs(path: &Path, old: &str) -> Option<String> {
    let now = value(path).ok().filter(|now| now != old)?;
    Some(format!("{} is {now}, was {old}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Held;
    use crate::devices::PlainFiles;
    use crate::journal::{Journal, JOURNAL};

    #[test]
    fn what_is_still_changed_is_told_with_its_old_value_and_the_way_back() {
        let dir = tempfile::TempDir::new().expect("a directory");
        let file = |name: &str, value: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, value).expect("a value");
            path
        };
        let (left, back, made) = (file("left", "[b] a"), file("back", "1"), dir.path().join("made"));
        std::fs::create_dir(&made).expect("a directory");
        assert_eq!(Standing::of(dir.path(), &PlainFiles).expect("no journal"), None);
        let mut journal = Journal::open(dir.path(), &PlainFiles).expect("new");
        journal.begin().expect("written");
        let write = |path: &Path, old: &str| Change::Write {
            path: path.into(),
            old: Some(old.into()),
            new: "b".into(),
            instead: None,
        };
        let all = [
            Change::Directory { path: made.clone() },
            write(&left, "a"),
            write(&back, "1"),
            Change::Directory { path: dir.path().join("gone") },
            Change::Queue { dir: dir.path().into(), values: [("left".into(), "c".into())].into() },
            Change::Disk { name: "plumb-nowhere".into() },
        ];
        for change in all {
            journal.will(change).expect("written");
        }
        let before = std::fs::read(dir.path().join(JOURNAL)).expect("the journal");
        let standing = Standing::of(dir.path(), &PlainFiles).expect("readable").expect("changed");
        let left = left.display();
        let want = [
            format!("{}: was made", made.display()),
            format!("{left} is b, was a"),
            format!("{left} is b, was c"),
        ];
        assert_eq!(standing.changed, want);
        assert_eq!(standing.running, None);
        assert_eq!(
            standing.advice(),
            format!("'plumb plan restore {}' puts them back", dir.path().display())
        );
        assert_eq!(std::fs::read(dir.path().join(JOURNAL)).expect("the journal"), before);
        let mut locks = lock::Locks::default();
        locks.run(dir.path()).expect("free");
        let advice = Standing::of(dir.path(), &PlainFiles).expect("readable").expect("changed").advice();
        assert!(advice.contains(&format!("process {} runs", std::process::id())), "{advice}");
        drop(locks);
        journal::restore(dir.path(), Held::NotSince, &PlainFiles, &mut |_| {}).expect("restored");
        let standing = Standing::of(dir.path(), &PlainFiles).expect("readable");
        assert!(standing.is_none(), "{standing:?}");
    }
}
