// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The measured command: what it is started with, and what was seen of it.

use plumb_machine::{cgroup, Root};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What changes of a guide start the command with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Launch {
    pub environment: Vec<(String, String)>,
    /// CPUs, as taskset(1) takes them.
    pub cpus: Option<String>,
    pub nice: Option<i32>,
}

impl Launch {
    /// The words that start the command: env(1), nice(1) and taskset(1) become it without a process more.
    pub fn words(&self, command: &[String]) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        if !self.environment.is_empty() {
            words.push("env".into());
            words.extend(self.environment.iter().map(|(name, value)| format!("{name}={value}")));
        }
        if let Some(nice) = self.nice {
            words.extend(["nice".into(), "-n".into(), (nice - own_nice()).to_string()]);
        }
        if let Some(cpus) = &self.cpus {
            words.extend(["taskset".into(), "-c".into(), cpus.clone()]);
        }
        words.extend_from_slice(command);
        words
    }
}

/// The nice value of this process, which the command inherits.
pub fn own_nice() -> i32 {
    // SAFETY: a plain system call on this process.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

/// What was seen of the command while it ran without a recording.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// Elapsed, ns.
    pub elapsed: u64,
    /// Directories of its cgroups, by controller.
    pub cgroups: Vec<(String, PathBuf)>,
    /// CPUs that it could run on, as a list (`0-3`), and whether it chose them itself.
    pub cpus: String,
    pub pinned_itself: bool,
    pub nice: i32,
}

impl Observed {
    /// Takes what the kernel says of the process; what is gone stays as it was.
    pub fn look(&mut self, pid: i32, root: &Root) {
        let status = |of: &str| root.text(format!("/proc/{of}/status")).unwrap_or_default();
        let own = status(&pid.to_string());
        let groups = cgroup::groups(pid, root);
        let found =
            ["cpu", "memory", "io", "blkio"].map(|c| Some((c.to_string(), cgroup::directory(pid, c, root)?)));
        let stat = root.text(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name may hold blanks: fields are counted behind it, state is the first.
        let fields: Vec<&str> =
            stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        // Of a process that has ended, cgroups of version 1 say the root's (proc_cgroup_show, kernel/cgroup/cgroup.c).
        if matches!(fields.first(), None | Some(&"Z" | &"X")) {
            return;
        }
        if let Some(cpus) = allowed(&own) {
            self.pinned_itself = allowed(&status("self")).is_some_and(|own| own != cpus);
            self.cpus = cpus;
        }
        if !groups.is_empty() {
            self.cgroups = found.into_iter().flatten().collect();
        }
        self.nice = fields.get(16).and_then(|nice| nice.parse().ok()).unwrap_or(self.nice);
    }

    pub fn cgroup(&self, controller: &str) -> Option<&Path> {
        self.cgroups.iter().find(|(c, _)| c == controller).map(|(_, dir)| dir.as_path())
    }
}

fn allowed(status: &str) -> Option<String> {
    status.lines().find_map(|l| Some(l.strip_prefix("Cpus_allowed_list:")?.trim().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_machine::Fake;

    #[test]
    fn changes_stand_before_the_command() {
        let command = ["dd".to_string(), "if=x".to_string()];
        assert_eq!(Launch::default().words(&command), command);
        let launch = Launch {
            environment: vec![("A".into(), "1 2".into())],
            cpus: Some("0-1".into()),
            nice: Some(own_nice() - 5),
        };
        let words = ["env", "A=1 2", "nice", "-n", "-5", "taskset", "-c", "0-1", "dd", "if=x"];
        assert_eq!(launch.words(&command), words);
    }

    #[test]
    fn what_the_kernel_says_of_a_process_is_seen() {
        let fake = Fake::new();
        fake.mount("self", "0:31", "/sys/fs/cgroup/cpu", "cgroup", "cgroup rw,cpu");
        fake.put("/proc/9/status", "Name:\ta\nCpus_allowed_list:\t1\n");
        fake.put("/proc/self/status", "Name:\tb\nCpus_allowed_list:\t0-1\n");
        fake.put("/proc/9/cgroup", "1:cpu:/x\n0::/\n");
        fake.put("/proc/9/stat", "9 (a b) R 1 9 9 0 -1 0 0 0 0 0 0 0 0 0 20 -3 1 0\n");
        let mut seen = Observed::default();
        seen.look(9, &fake.root());
        assert_eq!((seen.cpus.as_str(), seen.pinned_itself, seen.nice), ("1", true, -3));
        assert_eq!(seen.cgroup("cpu"), Some(Path::new("/sys/fs/cgroup/cpu/x")));
        assert_eq!(seen.cgroup("memory"), None);
        let before = seen.clone();
        seen.look(10, &fake.root());
        assert_eq!(seen, before, "gone");
        fake.put("/proc/9/cgroup", "1:cpu:/\n0::/\n");
        fake.put("/proc/9/stat", "9 (a b) Z 1 9 9 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0\n");
        seen.look(9, &fake.root());
        assert_eq!(seen, before, "ended");
    }
}
