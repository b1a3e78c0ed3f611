// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process as /proc/PID/stat shows it (proc_pid_stat(5)).

use super::root::Root;
use std::fmt::Display;

/// What tells a process from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// What its first thread does: `R` runs, `D` waits for a disk.
    pub state: char,
    /// The process that it is a child of.
    pub parent: i32,
    pub group: i32,
    /// When it was started, clock ticks after boot: tells it from a later one of its number.
    pub start: u64,
}

impl Process {
    /// The process of that number (`self`: this one); none where there is none.
    pub fn of(pid: impl Display, root: &Root) -> Option<Process> {
        let text = root.text(format!("/proc/{pid}/stat"))?;
        // The name before it, in parentheses, may hold anything.
        let words: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        Some(Process {
            state: words.first()?.chars().next()?,
            parent: words.get(1)?.parse().ok()?,
            group: words.get(2)?.parse().ok()?,
            start: words.get(19)?.parse().ok()?,
        })
    }

    /// Dead, and at most not yet waited for.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// The kernel's id of this boot; empty where it cannot be read.
pub fn boot(root: &Root) -> String {
    root.text("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let dir = tempfile::TempDir::new().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/7")).unwrap();
        let text = "7 (a) Z (b) D 3 5 1 0 -1 4194560 1 0 2 0 4 4 0 0 20 0 1 0 4711 1 2\n";
        std::fs::write(dir.path().join("proc/7/stat"), text).unwrap();
        let root = Root::at(dir.path());
        let found = Process::of(7, &root).unwrap();
        assert_eq!(found, Process { state: 'D', parent: 3, group: 5, start: 4711 });
        assert!(!found.has_ended() && Process { state: 'Z', ..found }.has_ended());
        assert_eq!(Process::of(8, &root), None);
    }

    #[test]
    fn this_process_is_there() {
        let own = Process::of("self", &Root::real()).unwrap();
        assert_eq!(Process::of(std::process::id(), &Root::real()).map(|p| p.start), Some(own.start));
        assert!(own.start > 0 && !own.has_ended() && own.parent > 0);
    }
}
