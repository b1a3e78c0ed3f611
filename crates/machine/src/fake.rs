// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A written /proc, /sys and /dev for tests: stacks of block devices that no
//! test machine has.

use crate::Root;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// The tree; removed when dropped.
pub struct Fake {
    dir: tempfile::TempDir,
}

impl Default for Fake {
    fn default() -> Fake {
        let fake = Fake { dir: tempfile::TempDir::new().expect("a temporary directory") };
        for dir in ["proc/self", "proc/1", "sys/block", "sys/class/block", "sys/dev/block", "dev"] {
            std::fs::create_dir_all(fake.dir.path().join(dir)).unwrap();
        }
        fake.put("/proc/swaps", "Filename Type Size Used Priority\n");
        fake
    }
}

impl Fake {
    pub fn new() -> Fake {
        Fake::default()
    }

    pub fn root(&self) -> Root {
        Root::at(self.dir.path())
    }

    pub fn path(&self, absolute: &str) -> PathBuf {
        self.root().path(absolute)
    }

    pub fn put(&self, absolute: &str, text: &str) {
        let path = self.path(absolute);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn link(&self, absolute: &str, to: &str) {
        let path = self.path(absolute);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(to, path).unwrap();
    }

    /// A whole disk with an empty node of 1 MiB.
    pub fn disk(&self, name: &str, number: &str) -> &Fake {
        self.block(&format!("block/{name}"), name, number);
        self.put(&format!("/sys/block/{name}/queue/rotational"), "0\n");
        self
    }

    pub fn partition(&self, disk: &str, name: &str, number: &str) -> &Fake {
        self.block(&format!("block/{disk}/{name}"), name, number);
        self.put(&format!("/sys/block/{disk}/{name}/partition"), "1\n");
        self
    }

    fn block(&self, at: &str, name: &str, number: &str) {
        self.put(&format!("/sys/{at}/dev"), &format!("{number}\n"));
        self.link(&format!("/sys/dev/block/{number}"), &format!("../../{at}"));
        self.link(&format!("/sys/class/block/{name}"), &format!("../../{at}"));
        self.put(&format!("/dev/{name}"), "");
        std::fs::File::options()
            .write(true)
            .open(self.path(&format!("/dev/{name}")))
            .unwrap()
            .set_len(1 << 20)
            .unwrap();
    }

    /// `upper` stands on `lower`, both names of disks or partitions.
    pub fn stack(&self, upper: &str, lower: &str) -> &Fake {
        let real = |name: &str| self.root().resolve(format!("/sys/class/block/{name}")).unwrap();
        let (up, low) = (real(upper), real(lower));
        std::fs::create_dir_all(self.path(low.to_str().unwrap()).join("holders")).unwrap();
        std::fs::create_dir_all(self.path(up.to_str().unwrap()).join("slaves")).unwrap();
        symlink(
            self.path(up.to_str().unwrap()),
            self.path(low.to_str().unwrap()).join("holders").join(upper),
        )
        .unwrap();
        symlink(self.path(low.to_str().unwrap()), self.path(up.to_str().unwrap()).join("slaves").join(lower))
            .unwrap();
        self
    }

    /// A line of mountinfo as `process` sees it.
    pub fn mount(&self, process: &str, number: &str, point: &str, kind: &str, source: &str) -> &Fake {
        let path = format!("/proc/{process}/mountinfo");
        let before = self.root().text(&path).map(|t| t + "\n").unwrap_or_default();
        self.put(&path, &format!("{before}30 1 {number} / {point} rw,relatime - {kind} {source} rw\n"));
        self
    }
}
