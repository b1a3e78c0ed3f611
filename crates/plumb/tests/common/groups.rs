// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Control groups for tests of who belongs to which service.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Control groups as systemd, Docker and a kubelet would call them, removed when dropped.
pub struct Groups {
    made: Vec<PathBuf>,
    top: PathBuf,
}

impl Groups {
    /// In version 2 or systemd's own hierarchy; none where no group can be made.
    pub fn new() -> Option<Self> {
        let tops = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"];
        let top = tops.iter().map(Path::new).find(|top| top.join("cgroup.procs").exists())?;
        Some(Self { made: Vec::new(), top: top.into() })
    }

    /// A group of version 1 in the hierarchy of a controller; none where there is no such.
    #[allow(dead_code, reason = "not every test limits somebody")]
    pub fn beside(&mut self, controller: &str, name: &str) -> Option<PathBuf> {
        let dir = Path::new("/sys/fs/cgroup").join(controller).join(name);
        std::fs::create_dir(&dir).ok()?;
        self.made.push(dir.clone());
        Some(dir)
    }

    pub fn make(&mut self, path: &str) -> PathBuf {
        let mut dir = self.top.clone();
        for word in path.split('/') {
            dir.push(word);
            if !dir.exists() {
                std::fs::create_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
                self.made.push(dir.clone());
            }
        }
        dir
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for dir in self.made.iter().rev() {
            // Who was in it may not be gone yet.
            for _ in 0..100 {
                match std::fs::remove_dir(dir) {
                    Ok(()) => break,
                    Err(_) => std::thread::sleep(Duration::from_millis(10)),
                }
            }
        }
    }
}
