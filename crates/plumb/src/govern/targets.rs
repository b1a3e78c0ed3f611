// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a command line asks to govern: who is low, who is normal, on which disks.

use crate::cli::GovernArgs;
use anyhow::{bail, Result};
use plumb_govern::cgroup::{Controller, Group};
use plumb_govern::disks::{self, Disk};
use plumb_govern::policy::Settings;
use plumb_govern::rate::Rate;
use plumb_machine::Root;
use plumb_probe::classes::DEVICES;

pub struct Whole {
    pub controller: Controller,
    pub low: Vec<Group>,
    pub normal: Vec<Group>,
    pub disks: Vec<(Disk, Settings)>,
    /// Sentences about what is not limited.
    pub not_covered: Vec<String>,
}

impl Whole {
    /// What a command line asks for.
    ///
    /// # Errors
    /// Something of it is not there, or cannot be governed; named with the next step.
    pub fn of(args: &GovernArgs) -> Result<Whole> {
        let root = Root::real();
        if args.low.is_empty() && args.command.is_empty() {
            bail!("no background I/O given: name a cgroup (--low backup.slice), or a command after --: plumb govern -- restic backup /home");
        }
        if args.target == Some(0) || args.delay == 0 {
            bail!("--target and --delay must be more than 0");
        }
        let controller = Controller::find(&root)?;
        let mut low = args.low.iter().map(|name| controller.group(name)).collect::<Result<Vec<_>>>()?;
        low.sort_by(|a, b| a.dir.cmp(&b.dir));
        // One below another, or named twice, is low with it.
        low.dedup_by(|later, kept| later.dir.starts_with(&kept.dir));
        low.iter().try_for_each(Group::can_be_limited)?;
        let (mut normal, mut found) = (Vec::new(), Vec::new());
        for name in &args.protect {
            match disks::below(name, &root) {
                Ok(disks) => found.extend(disks),
                Err(no_disk) if name.starts_with("/dev/") => return Err(no_disk),
                Err(_) => normal.push(protected(name, &controller)?),
            }
        }
        for group in &normal {
            if let Some(limited) = low.iter().find(|l| group.dir.starts_with(&l.dir)) {
                bail!(
                    "cannot protect cgroup {}: it is in {}, which --low limits",
                    group.dir.display(),
                    limited.dir.display()
                );
            }
        }
        if found.is_empty() {
            found = disks::all(&root)?;
        }
        found.sort_by_key(|d| d.number);
        found.dedup();
        if found.len() > DEVICES {
            bail!(
                "{} disks: at most {DEVICES} can be governed at once; name some: --protect {}",
                found.len(),
                found[0].name
            );
        }
        let settings = |d: &Disk| Settings {
            limit: args.limit.unwrap_or(Rate::of_disk(d.rotational)),
            delay: args.delay,
            steered: args.target.is_some(),
        };
        let disks = found.into_iter().map(|d| (settings(&d), d)).map(|(s, d)| (d, s)).collect();
        Ok(Whole { controller, low, normal, disks, not_covered: Vec::new() })
    }
}

/// A cgroup that --protect names.
fn protected(name: &str, controller: &Controller) -> Result<Group> {
    let group = controller.named(name);
    if group.dir == controller.mount {
        bail!("--protect {name} is the root cgroup; omit it: all I/O that is not background I/O is foreground I/O");
    }
    if !group.is_there() {
        bail!(
            "--protect {name}: neither a disk nor a cgroup; 'lsblk' lists the disks, and {} holds the cgroups",
            controller.mount.display()
        );
    }
    Ok(group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_govern::cgroup::Version;

    #[test]
    fn what_cannot_be_protected_is_told_in_words_of_protect() {
        let top = tempfile::TempDir::new().expect("a directory");
        let controller = Controller { version: Version::V2, mount: top.path().into() };
        let said = protected("nosuchdev", &controller).expect_err("none").to_string();
        assert!(
            said.contains("--protect nosuchdev: neither a disk nor a cgroup") && said.contains("lsblk"),
            "{said}"
        );
        assert!(!said.contains("--low"), "{said}");
        std::fs::create_dir(top.path().join("web")).expect("made");
        for dir in ["", "web"] {
            std::fs::write(top.path().join(dir).join("cgroup.procs"), "").expect("written");
        }
        assert_eq!(protected("web", &controller).expect("there").dir, top.path().join("web"));
        let said = protected("/", &controller).expect_err("everything").to_string();
        assert!(said.contains("omit it"), "{said}");
    }
}
