// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process as /proc/PID/stat shows it (proc_pid_stat(5)), which process is meant by a number, and its end.

use crate::Root;
use anyhow::{bail, Context, Result};
use std::fmt::Display;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Flag of a kernel thread (PF_KTHREAD, include/linux/sched.h).
const PF_KTHREAD: u64 = 0x0020_0000;

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
        let (_, words) = fields(&text)?;
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

/// A number that the kernel tells of a thread (proc_pid_status(5)); none where it is gone.
fn told(tid: u32, key: &str, root: &Root) -> Option<u32> {
    let status = root.text(format!("/proc/{tid}/status"))?;
    status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')?.trim().parse().ok())
}

/// Whether a thread is its process's first one; not so where it is gone.
pub fn is_first(tid: u32, root: &Root) -> bool {
    told(tid, "Tgid", root) == Some(tid)
}

/// Whether a thread is of a process, or of one that this started; not so where it is gone.
pub fn is_of(tid: u32, pid: u32, root: &Root) -> bool {
    ["Tgid", "PPid"].into_iter().any(|key| told(tid, key, root) == Some(pid))
}

/// CPU time that a process's threads have used, those that ended among them, and its children that it waited for, ns;
/// none where it is gone.
pub fn cpu_time(pid: u32, root: &Root) -> Option<u64> {
    let text = root.text(format!("/proc/{pid}/stat"))?;
    let (_, words) = fields(&text)?;
    let ticks: u64 = words.get(11..15)?.iter().filter_map(|w| w.parse::<u64>().ok()).sum();
    // SAFETY: takes a number and gives one.
    let a_second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok().filter(|n| *n > 0)?;
    Some(ticks * (1_000_000_000 / a_second))
}

/// Whether a process and all of its threads have ended, waited for or not: its first thread may end before the others.
pub fn is_over(pid: u32, root: &Root) -> bool {
    match Process::of(pid, root) {
        None => true,
        Some(process) => {
            process.has_ended()
                && std::fs::read_dir(root.path(format!("/proc/{pid}/task"))).map_or(0, Iterator::count) <= 1
        }
    }
}

/// Name of a thread, and the fields behind it: state, parent, group, ...
fn fields(stat: &str) -> Option<(&str, Vec<&str>)> {
    // The name, in parentheses, may hold anything, so it ends at the last one.
    let (head, tail) = stat.rsplit_once(')')?;
    Some((head.split_once('(')?.1, tail.split_whitespace().collect()))
}

/// A thread of a process, as a trace names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    pub name: String,
    /// The process that its process is a child of.
    pub parent: u32,
    pub of_the_kernel: bool,
}

impl Thread {
    /// The thread, unless it is gone.
    pub fn of(pid: u32, tid: u32, root: &Root) -> Option<Thread> {
        let text = root.text(format!("/proc/{pid}/task/{tid}/stat"))?;
        let (name, words) = fields(&text)?;
        Some(Thread {
            name: name.into(),
            parent: words.get(1)?.parse().ok()?,
            of_the_kernel: words.get(6)?.parse::<u64>().ok()? & PF_KTHREAD != 0,
        })
    }
}

/// The processes that run, zombies among them.
pub fn all(root: &Root) -> Vec<u32> {
    numbers("/proc", root)
}

/// The threads of a process; none where it is gone.
pub fn threads(pid: u32, root: &Root) -> Vec<u32> {
    numbers(&format!("/proc/{pid}/task"), root)
}

/// The processes whose first thread has this name, but for those whose parent has it too, in the order of their numbers.
pub fn named(name: &str, root: &Root) -> Vec<u32> {
    // The kernel keeps 15 bytes.
    let name = name.get(..15).unwrap_or(name);
    let first = |pid: u32| Thread::of(pid, pid, root).filter(|t| t.name == name && !t.of_the_kernel);
    let found = all(root).into_iter().filter_map(|pid| Some((pid, first(pid)?.parent)));
    found.filter(|(_, parent)| first(*parent).is_none()).map(|(pid, _)| pid).collect()
}

/// The children of processes, their children, and so on, in the order of their numbers.
pub fn descendants(pids: &[u32], root: &Root) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = all(root)
        .into_iter()
        .filter_map(|pid| Some((pid, u32::try_from(Process::of(pid, root)?.parent).ok()?)))
        .collect();
    let mut found = pids.to_vec();
    let mut at = 0;
    while let Some(pid) = found.get(at).copied() {
        // Numbers that are used again while /proc is read must not make a circle.
        let children = parents.iter().filter(|(_, parent)| *parent == pid).map(|(child, _)| *child);
        let new: Vec<u32> = children.filter(|child| !found.contains(child)).collect();
        found.extend(new);
        at += 1;
    }
    found.retain(|pid| !pids.contains(pid));
    found.sort_unstable();
    found
}

fn numbers(dir: &str, root: &Root) -> Vec<u32> {
    let mut found: Vec<u32> = root.names(dir).iter().filter_map(|name| name.parse().ok()).collect();
    found.sort_unstable();
    found
}

/// A process by its number and when it was started, clock ticks after boot: a later process of its number is
/// another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    pub pid: i32,
    pub start: u64,
}

impl Identity {
    /// The process that has this number now, also one that is dead and not yet waited for.
    pub fn of(pid: i32) -> Option<Identity> {
        Process::of(pid, &Root::real()).map(|process| Identity { pid, start: process.start })
    }

    fn process(self) -> Option<Process> {
        Process::of(self.pid, &Root::real()).filter(|process| process.start == self.start)
    }

    /// Whether its number is still its own: it runs, or is not yet waited for.
    pub fn exists(self) -> bool {
        self.process().is_some()
    }

    /// Whether it runs.
    pub fn runs(self) -> bool {
        self.process().is_some_and(|process| !process.has_ended())
    }
}

/// When the process of that number was started, see [`Identity`].
pub fn start_of(pid: i32) -> Option<u64> {
    Identity::of(pid).map(|process| process.start)
}

/// A descriptor that becomes readable when a process ends (Linux 5.3).
///
/// # Errors
/// There is none of that number.
pub fn pidfd(pid: i32) -> std::io::Result<OwnedFd> {
    // SAFETY: a call with plain numbers; a new descriptor comes back, which nobody else has.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd as libc::c_int))
    }
}

/// Waits for a process's end; whether it ended, and not the wait.
pub fn ended(pidfd: &OwnedFd, limit: Option<Duration>) -> bool {
    let mut poll = libc::pollfd { fd: pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let limit = limit.map_or(-1, |l| i32::try_from(l.as_millis()).unwrap_or(i32::MAX));
    // SAFETY: one valid structure.
    unsafe { libc::poll(&mut poll, 1, limit) == 1 }
}

/// Calls `told` when that process has ended; `lost` is what to say where it has already.
///
/// # Errors
/// There is none of that number, or no thread can be started.
pub fn on_end(pid: u32, lost: &str, told: impl FnOnce() + Send + 'static) -> Result<()> {
    let Ok(pidfd) = pidfd(pid as i32) else { bail!("{lost}") };
    let wait = move || {
        while !ended(&pidfd, None) {}
        told();
    };
    std::thread::Builder::new().name("owner".into()).spawn(wait).context("thread")?;
    Ok(())
}

/// The kernel's id of this boot; empty where it cannot be read.
pub fn boot(root: &Root) -> String {
    root.text("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_of_its_process_and_of_who_started_that() {
        let dir = tempfile::TempDir::new().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/9")).unwrap();
        std::fs::write(dir.path().join("proc/9/status"), "Name:\tplumb\nTgid:\t7\nNgid:\t0\nPPid:\t3\n")
            .unwrap();
        let root = Root::at(dir.path());
        assert!(is_of(9, 7, &root) && is_of(9, 3, &root) && !is_first(9, &root));
        assert!(!is_of(9, 9, &root) && !is_of(8, 7, &root), "gone");
    }

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
    fn descendants_are_children_and_theirs() {
        let dir = tempfile::TempDir::new().unwrap();
        for (pid, parent) in [(1, 0), (20, 1), (30, 20), (31, 20), (40, 31), (50, 1)] {
            let text = format!("{pid} (x) S {parent} 5 1 0 -1 4194560 1 0 2 0 4 4 0 0 20 0 1 0 4711 1 2\n");
            for of in [format!("proc/{pid}"), format!("proc/{pid}/task/{pid}")] {
                std::fs::create_dir_all(dir.path().join(&of)).unwrap();
                std::fs::write(dir.path().join(of).join("stat"), &text).unwrap();
            }
        }
        let root = Root::at(dir.path());
        assert_eq!(descendants(&[20], &root), [30, 31, 40]);
        assert_eq!(descendants(&[20, 31], &root), [30, 40]);
        assert!(descendants(&[50], &root).is_empty());
        assert_eq!(named("x", &root), [1], "others are children of one of the name");
        assert!(named("y", &root).is_empty());
    }

    #[test]
    fn this_process_is_there() {
        let own = Process::of("self", &Root::real()).unwrap();
        assert_eq!(Process::of(std::process::id(), &Root::real()).map(|p| p.start), Some(own.start));
        assert!(own.start > 0 && !own.has_ended() && own.parent > 0);
        let pid = std::process::id();
        assert!(all(&Root::real()).contains(&pid) && threads(pid, &Root::real()).contains(&pid));
        assert!(Thread::of(pid, pid, &Root::real()).is_some_and(|t| !t.of_the_kernel && !t.name.is_empty()));
    }

    #[test]
    fn a_process_that_nobody_waited_for_is_over() {
        let root = Root::real();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        assert!(!is_over(child.id(), &root));
        child.kill().expect("killed");
        let begin = std::time::Instant::now();
        while !is_over(child.id(), &root) {
            assert!(begin.elapsed() < Duration::from_secs(20), "it is a zombie");
        }
        child.wait().expect("reaped");
        assert!(is_over(child.id(), &root));
    }

    #[test]
    fn a_process_that_ended_or_another_of_its_number_is_not_it() {
        let own = Identity::of(std::process::id() as i32).unwrap();
        assert!(own.exists() && own.runs());
        assert!(!Identity { start: own.start + 1, ..own }.exists());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let other = Identity::of(child.id() as i32).unwrap();
        let fd = pidfd(other.pid).unwrap();
        assert!(ended(&fd, Some(Duration::from_secs(20))));
        assert!(other.exists() && !other.runs(), "a zombie keeps its number");
        child.wait().unwrap();
        assert!(!other.exists() && start_of(other.pid) != Some(other.start));
    }
}
