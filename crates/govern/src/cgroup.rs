// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Control groups whose I/O can be limited, of both versions, and what they have transferred
//! (Documentation/admin-guide/cgroup-v1/blkio-controller.rst and cgroup-v2.rst).

use anyhow::{bail, Context, Result};
use plumb_machine::{mounts, DeviceNumber, Root};
use serde::Serialize;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Which hierarchy a cgroup is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Version {
    /// The controller blkio has one of its own.
    V1,
    /// The one of all controllers.
    V2,
}

/// What a file of limits counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bytes,
    Requests,
    Both,
}

pub(crate) const V1_FILES: [(&str, Kind); 4] = [
    ("blkio.throttle.read_bps_device", Kind::Bytes),
    ("blkio.throttle.write_bps_device", Kind::Bytes),
    ("blkio.throttle.read_iops_device", Kind::Requests),
    ("blkio.throttle.write_iops_device", Kind::Requests),
];
const V2_FILES: [(&str, Kind); 1] = [("io.max", Kind::Both)];

/// The hierarchy that limits I/O on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    pub version: Version,
    pub mount: PathBuf,
}

impl Controller {
    /// Finds it: the controller is in one of both at a time.
    ///
    /// # Errors
    /// It is in none.
    pub fn find(root: &Root) -> Result<Controller> {
        let all = mounts(root);
        let v1 = all.iter().find(|m| m.kind == "cgroup" && m.options.split(',').any(|o| o == "blkio"));
        let v2 = all.iter().find(|m| {
            let controllers = root.text(m.point.join("cgroup.controllers")).unwrap_or_default();
            m.kind == "cgroup2" && controllers.split_whitespace().any(|c| c == "io")
        });
        let found = v1.map(|m| (Version::V1, m)).or(v2.map(|m| (Version::V2, m)));
        let (version, mount) = found.context(
            "no cgroup hierarchy with the controller of block I/O is mounted ('io' of v2, 'blkio' of v1), so nothing \
             can be limited; mount one: mount -t cgroup2 none /sys/fs/cgroup, or mount -t cgroup -o blkio none DIR",
        )?;
        let point = mount.point.clone();
        if version == Version::V1 && root.text(point.join(V1_FILES[0].0)).is_none() {
            bail!("{}: the kernel has no {} (built without CONFIG_BLK_DEV_THROTTLING), so nothing can be limited", point.display(), V1_FILES[0].0);
        }
        Ok(Controller { version, mount: point })
    }

    /// A group by its directory, or by its path below the mount, whether it is there or not.
    pub fn named(&self, name: &str) -> Group {
        let at = Path::new(name);
        let dir = match at.starts_with(&self.mount) {
            true => at.to_path_buf(),
            false => self.mount.join(name.trim_start_matches('/')),
        };
        Group { version: self.version, dir }
    }

    /// One that is low.
    ///
    /// # Errors
    /// There is none, or it cannot be limited; named with the next step.
    pub fn group(&self, name: &str) -> Result<Group> {
        let group = self.named(name);
        let shown = group.dir.display();
        if !group.is_there() {
            bail!(
                "{shown} is not a cgroup; give its path below {}, or omit --low and give a command",
                self.mount.display()
            );
        }
        if group.dir == self.mount {
            bail!("cgroup {name}: cannot limit the root cgroup; create one for the maintenance");
        }
        Ok(group)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Which hierarchy it is in.
    pub version: Version,
    pub dir: PathBuf,
}

impl Group {
    /// Whether there is such a group, now.
    pub fn is_there(&self) -> bool {
        self.dir.join("cgroup.procs").exists()
    }

    /// Whether it can be limited.
    ///
    /// # Errors
    /// It cannot; named with the next step.
    pub fn can_be_limited(&self) -> Result<()> {
        let (file, _) = self.files()[0];
        if self.dir.join(file).exists() {
            return Ok(());
        }
        let parent = self.dir.parent().unwrap_or(&self.dir);
        bail!(
            "cgroup {}: has no {file}; give its parent the controller: echo +io > {}",
            self.dir.display(),
            parent.join("cgroup.subtree_control").display()
        )
    }

    /// The number that the kernel knows it by.
    ///
    /// # Errors
    /// It is gone.
    pub fn id(&self) -> Result<u64> {
        Ok(std::fs::metadata(&self.dir).with_context(|| format!("cgroup {}", self.dir.display()))?.ino())
    }

    /// What of it is not limited although it may be background I/O; None: all is.
    pub fn not_covered(&self) -> Option<String> {
        match self.version {
            Version::V1 => Some(
                "buffered writes: under cgroup v1 the kernel writes dirty pages back for everybody, unlimited; reads and \
                 direct writes are limited"
                    .into(),
            ),
            Version::V2 if !self.dir.join("memory.current").exists() => Some(format!(
                "buffered writes: {} has no memory controller, so the kernel does not know whose dirty pages it writes \
                 back; reads and direct writes are limited",
                self.dir.display()
            )),
            Version::V2 => None,
        }
    }

    /// Bytes that it has transferred to and from a disk, with all below it; None where the kernel does not tell.
    pub fn bytes(&self, device: DeviceNumber) -> Option<u64> {
        let name = match self.version {
            Version::V1 => "blkio.throttle.io_service_bytes_recursive",
            Version::V2 => "io.stat",
        };
        let text = std::fs::read_to_string(self.dir.join(name)).ok()?;
        Some(transferred(&text, device))
    }

    /// The topmost one above it that counts as it does: under v1 the root; None under v2, whose root has the disks'
    /// sums.
    pub fn top(&self) -> Option<Group> {
        let counts = |dir: &&Path| dir.join("blkio.throttle.io_service_bytes_recursive").exists();
        let above = self.dir.ancestors().skip(1).take_while(counts).last();
        above
            .filter(|_| self.version == Version::V1)
            .map(|dir| Group { version: self.version, dir: dir.into() })
    }

    /// The files of its limits.
    pub(crate) fn files(&self) -> &'static [(&'static str, Kind)] {
        match self.version {
            Version::V1 => &V1_FILES,
            Version::V2 => &V2_FILES,
        }
    }

    /// It and, where limits do not reach down, all below it.
    pub(crate) fn all(&self) -> Vec<PathBuf> {
        let mut found = vec![self.dir.clone()];
        let mut at = 0;
        while self.version == Version::V1 && at < found.len() {
            let entries = std::fs::read_dir(&found[at]).into_iter().flatten().flatten();
            let dirs: Vec<_> =
                entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()).collect();
            found.extend(dirs);
            at += 1;
        }
        found
    }
}

/// Sum of what lines of a device say: `8:0 Read 512`, or `8:0 rbytes=512 wbytes=0 rios=1 ...`.
fn transferred(text: &str, device: DeviceNumber) -> u64 {
    let device = device.to_string();
    let mut sum = 0;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if words.next() != Some(device.as_str()) {
            continue;
        }
        let words: Vec<&str> = words.collect();
        match words[..] {
            ["Read" | "Write", number] => sum += number.parse().unwrap_or(0),
            _ => {
                let numbers =
                    words.iter().filter_map(|w| w.strip_prefix("rbytes=").or(w.strip_prefix("wbytes=")));
                sum += numbers.filter_map(|n| n.parse::<u64>().ok()).sum::<u64>();
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: DeviceNumber = DeviceNumber { major: 8, minor: 0 };

    #[test]
    fn bytes_of_both_versions_are_read() {
        let v1 = "8:16 Read 7\n8:0 Read 512\n8:0 Write 1024\n8:0 Sync 1536\n8:0 Total 1536\nTotal 1536\n";
        assert_eq!(transferred(v1, DISK), 1536);
        assert_eq!(transferred("8:0 rbytes=512 wbytes=1024 rios=1 wios=2 dbytes=4096 dios=1\n", DISK), 1536);
        assert_eq!(transferred("", DISK), 0);
    }

    #[test]
    fn what_cannot_be_limited_is_named_with_the_next_step() {
        let top = tempfile::TempDir::new().expect("a directory");
        let controller = Controller { version: Version::V2, mount: top.path().into() };
        let said = controller.group("backup").expect_err("none").to_string();
        assert!(said.contains("backup") && said.contains("--low"), "{said}");
        std::fs::create_dir(top.path().join("backup")).expect("made");
        std::fs::write(top.path().join("backup/cgroup.procs"), "").expect("written");
        let group = controller.group("/backup").expect("there");
        let said = group.can_be_limited().expect_err("no io.max").to_string();
        assert!(said.contains("+io") && said.contains("cgroup.subtree_control"), "{said}");
        assert!(group.not_covered().is_some_and(|n| n.contains("memory controller")));
        std::fs::write(top.path().join("cgroup.procs"), "").expect("written");
        assert!(controller.group("/").is_err());
    }
}
