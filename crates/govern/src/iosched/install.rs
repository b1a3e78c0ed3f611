// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scheduler at every start: a rule of udev, and on request the module among those that are loaded early. Only
//! what was written here, and is as it was written, is deleted.

use super::knobs::Knob;
use super::status::{module, NO_MODULES};
use super::SCHEDULER;
use anyhow::{bail, Context, Result};
use plumb_machine::{Block, Root};
use std::io::{ErrorKind, Write};

/// Behind 60-persistent-storage.rules, which finds the serial numbers.
pub const RULES: &str = "/etc/udev/rules.d/60-plumb-iosched.rules";
/// The module among those that systemd loads early.
pub const MODULES: &str = "/etc/modules-load.d/plumb-iosched.conf";

const MARK: &str =
    "# Written by 'plumb iosched install', deleted by 'plumb iosched remove --persistent'; check ";

/// A text under a first line that tells whether it was changed.
fn sealed(text: &str) -> String {
    format!("{MARK}{:08x}\n{text}", crc32fast::hash(text.as_bytes()))
}

fn is_ours(text: &str) -> bool {
    let Some((first, rest)) = text.split_once('\n') else { return false };
    first.strip_prefix(MARK) == Some(format!("{:08x}", crc32fast::hash(rest.as_bytes())).as_str())
}

fn read(path: &str, root: &Root) -> Result<Option<String>> {
    match std::fs::read_to_string(root.path(path)) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        text => text.map(Some).with_context(|| path.to_string()),
    }
}

/// Refuses a file of somebody else's.
fn free(path: &str, root: &Root) -> Result<()> {
    if read(path, root)?.is_some_and(|there| !is_ours(&there)) {
        bail!(
            "{path}: exists, and another program or user wrote or changed it; move it away, then install again"
        );
    }
    Ok(())
}

fn write(path: &str, text: &str, root: &Root) -> Result<()> {
    let real = root.path(path);
    if let Some(dir) = real.parent() {
        std::fs::create_dir_all(dir).with_context(|| format!("{}: run as root", dir.display()))?;
    }
    // Whoever is killed here leaves the old file whole; udev and systemd do not read a name like the new one's.
    let new = root.path(new_name(path));
    let made = || -> std::io::Result<()> {
        match std::fs::remove_file(&new) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = std::fs::File::create_new(&new)?;
        file.write_all(sealed(text).as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, &real)
    };
    made().inspect_err(|_| drop(std::fs::remove_file(&new))).with_context(|| format!("{path}: run as root"))
}

/// Where a file is written before it has its name.
fn new_name(path: &str) -> String {
    path.rsplit_once('/').map_or_else(|| format!(".{path}.new"), |(dir, name)| format!("{dir}/.{name}.new"))
}

/// A disk in a rule: by its serial number, where udev has found one, since names are given anew at each start.
fn matching(disk: &Block, root: &Root) -> String {
    let udev = root.text(format!("/run/udev/data/b{}", disk.number)).unwrap_or_default();
    let serial = udev.lines().find_map(|l| l.strip_prefix("E:ID_SERIAL="));
    match serial.filter(|s| !s.is_empty() && !s.contains(['"', '*', '?', '[', '|'])) {
        Some(serial) => format!("ENV{{ID_SERIAL}}==\"{serial}\""),
        None => format!("KERNEL==\"{}\"", disk.name),
    }
}

fn rules(disks: &[Block], knobs: &[(&Knob, u64)], root: &Root) -> String {
    let mut text = String::new();
    for disk in disks {
        let on = format!(
            "ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", {}, ATTR{{queue/scheduler}}=\"{SCHEDULER}\"",
            matching(disk, root)
        );
        text += &on;
        for (knob, value) in knobs {
            text += &format!(", ATTR{{queue/iosched/{}}}=\"{value}\"", knob.name);
        }
        text.push('\n');
    }
    text
}

/// The disk that a line of [`rules`] is for, as it says it.
fn whose(line: &str) -> Option<&str> {
    line.split(", ").find(|w| w.starts_with("KERNEL==") || w.starts_with("ENV{ID_SERIAL}=="))
}

/// Writes the rule for some disks, which replaces an earlier one; says what was done, which disks have no rule any more, and
/// whether there is a module for it.
///
/// # Errors
/// A file of that name is somebody else's, or cannot be written; named.
pub fn install(disks: &[Block], knobs: &[(&Knob, u64)], early: bool, root: &Root) -> Result<Vec<String>> {
    let before = read(RULES, root)?.unwrap_or_default();
    let rules = rules(disks, knobs, root);
    free(RULES, root)?;
    if early {
        free(MODULES, root)?;
    }
    write(RULES, &rules, root)?;
    let names: Vec<&str> = disks.iter().map(|d| d.name.as_str()).collect();
    let mut did = vec![format!(
        "{RULES}: {} {} {SCHEDULER} from the next start on; at once: udevadm control --reload && udevadm trigger --action=change --subsystem-match=block",
        names.join(", "),
        if names.len() == 1 { "gets" } else { "get" }
    )];
    let kept: Vec<&str> = rules.lines().filter_map(whose).collect();
    for gone in before.lines().filter_map(whose).filter(|w| !kept.contains(w)) {
        did.push(format!("{RULES}: no rule for {gone} any more; name every disk that is to have one"));
    }
    let module = module(root);
    if module.barred {
        did.push(format!("the rule does nothing: {NO_MODULES}"));
    } else if !module.loaded && module.file.is_none() {
        did.push(format!(
            "module {SCHEDULER} is not installed for this kernel: until it is (docs/iosched.md: Install) the rule does nothing"
        ));
    }
    if early {
        write(MODULES, &format!("{SCHEDULER}\n"), root)?;
        did.push(format!("{MODULES}: the module is loaded early at the next start"));
    }
    Ok(did)
}

/// Deletes the files that [`install`] wrote; says what was done.
///
/// # Errors
/// One was changed since, or cannot be deleted; named.
pub fn uninstall(root: &Root) -> Result<Vec<String>> {
    let mut did = Vec::new();
    let (mut ours, mut stays) = (Vec::new(), Vec::new());
    for path in [RULES, MODULES] {
        match read(path, root)? {
            None => {}
            Some(text) if is_ours(&text) => ours.push(path),
            Some(_) => stays.push(path),
        }
    }
    if !stays.is_empty() {
        bail!(
            "{}: another program or user changed this file, so nothing is deleted; delete it by hand, then remove again",
            stays.join(", ")
        );
    }
    // Of an install that was killed.
    for path in [RULES, MODULES].map(new_name) {
        match std::fs::remove_file(root.path(&path)) {
            Ok(()) => did.push(format!("{path}: deleted")),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e).with_context(|| format!("{path}: run as root")),
        }
    }
    for path in ours {
        std::fs::remove_file(root.path(path)).with_context(|| format!("{path}: run as root"))?;
        did.push(format!("{path}: deleted"));
    }
    if did.is_empty() {
        did.push("nothing was installed".into());
    }
    Ok(did)
}

#[cfg(test)]
mod tests {
    use super::super::change::tests::Tree;
    use super::super::{disk, knobs};
    use super::*;

    #[test]
    fn a_rule_is_written_and_only_that_is_deleted() {
        let tree = Tree::new();
        let root = tree.root();
        tree.put("run/udev/data/b8:0", "S:disk/by-id/x\nE:ID_SERIAL=ACME_1234\nE:ID_TYPE=disk\n");
        let both = [disk("sda", &root).expect("there"), disk("nvme0n1", &root).expect("there")];
        let did =
            install(&both, &[knobs::parse("low_depth=4").expect("a knob")], false, &root).expect("written");
        assert!(did.len() == 2 && did[0].contains("udevadm") && did[1].contains("not installed"), "{did:?}");
        let text = tree.text(&RULES[1..]);
        assert!(text.contains("ENV{ID_SERIAL}==\"ACME_1234\", ATTR{queue/scheduler}=\"lp-deadline\", ATTR{queue/iosched/low_depth}=\"4\"\n"), "{text}");
        assert!(text.contains("KERNEL==\"nvme0n1\""), "{text}");
        assert!(!tree.path().join(&MODULES[1..]).exists(), "only on request");
        let did = install(&both[..1], &[], true, &root).expect("replaced");
        assert!(did.iter().any(|l| l.contains("no rule for KERNEL==\"nvme0n1\" any more")), "{did:?}");
        assert!(!tree.text(&RULES[1..]).contains("nvme0n1"));
        tree.put(&new_name(MODULES)[1..], "half");
        assert_eq!(uninstall(&root).expect("deleted").len(), 3);
        assert_eq!(uninstall(&root).expect("again"), ["nothing was installed"]);
    }

    #[test]
    fn what_somebody_else_wrote_or_changed_stays() {
        let tree = Tree::new();
        let root = tree.root();
        let sda = [disk("sda", &root).expect("there")];
        install(&sda, &[], true, &root).expect("written");
        let changed = tree.text(&RULES[1..]) + "# mine\n";
        tree.put(&RULES[1..], &changed);
        assert!(uninstall(&root).expect_err("changed").to_string().contains("another program or user"));
        assert!(install(&sda, &[], false, &root).expect_err("changed").to_string().contains("move it away"));
        assert_eq!(tree.text(&RULES[1..]), changed);
        assert!(tree.path().join(&MODULES[1..]).exists(), "both or none");
    }
}
