// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Attributes of a disk's queue, which the kernel sets to their defaults when its scheduler changes.

use crate::undone::Undone;
use crate::value::value;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What can be read and written of a queue, its scheduler's own attributes too.
pub fn attributes(dir: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for sub in ["", "iosched"] {
        for entry in std::fs::read_dir(dir.join(sub)).into_iter().flatten().flatten() {
            let writable = entry.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o200 != 0);
            let name = Path::new(sub).join(entry.file_name()).display().to_string();
            if let (true, Ok(value)) = (writable, value(&entry.path())) {
                all.insert(name, value);
            }
        }
    }
    all
}

/// Makes the attributes of a queue what they were.
pub fn undo(dir: &Path, values: &BTreeMap<String, String>) -> Undone {
    let now = |name: &str| value(&dir.join(name)).ok();
    if !dir.exists() {
        return Undone::Nothing;
    }
    let (ours, theirs) = (values.get("scheduler"), now("scheduler"));
    if ours != theirs.as_ref() {
        return Undone::LeftAlone(format!(
            "{}: its scheduler is another one than before the plan, so its other attributes stay",
            dir.display()
        ));
    }
    let (mut back, mut stay) = (Vec::new(), Vec::new());
    // A change of nr_requests sets what depends on it.
    let mut values: Vec<_> = values.iter().collect();
    values.sort_by_key(|(name, _)| *name != "nr_requests");
    for (name, old) in values {
        match now(name) {
            Some(now) if now != *old => match std::fs::write(dir.join(name), old) {
                Ok(()) => back.push(format!("{name} {old}")),
                Err(e) => stay.push(format!("{name} is {now} and was {old} ({e})")),
            },
            _ => {}
        }
    }
    match (back.is_empty(), stay.is_empty()) {
        (true, true) => Undone::Nothing,
        (_, true) => Undone::Did(format!("{}: {} again", dir.display(), back.join(", "))),
        _ => Undone::LeftAlone(format!("{}: {}", dir.display(), stay.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_with_another_scheduler_is_left_alone() {
        let dir = tempfile::TempDir::new().expect("a directory");
        let put = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("written");
        put("scheduler", "[none] kyber");
        put("nr_requests", "128");
        let values = |scheduler: &str| {
            BTreeMap::from([
                ("nr_requests".into(), "64".into()),
                ("scheduler".to_string(), scheduler.to_string()),
            ])
        };
        assert!(matches!(undo(dir.path(), &values("kyber")), Undone::LeftAlone(_)));
        assert!(matches!(undo(dir.path(), &values("none")), Undone::Did(_)));
        assert_eq!(value(&dir.path().join("nr_requests")).expect("read"), "64");
    }
}
