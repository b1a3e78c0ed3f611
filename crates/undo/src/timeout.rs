// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What processes that take too long are at, and how they are ended.

use crate::devices::Devices;
use crate::undo::{living, thaw};
use plumb_machine::child::{wait_all, Child, Waited};
use plumb_machine::process::start_of;
use plumb_machine::{Process, Root};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Between being asked to end, being killed, and being given up.
const GRACE: Duration = Duration::from_secs(5);

/// The processes of these groups, and all that descend from them.
fn family(groups: &[i32]) -> Vec<i32> {
    let root = Root::real();
    let pids = root.names("/proc").into_iter().filter_map(|n| n.parse::<i32>().ok());
    let there: BTreeMap<i32, Process> =
        pids.filter_map(|pid| Some((pid, Process::of(pid, &root)?))).collect();
    let mut all: Vec<i32> = there
        .iter()
        .filter(|(pid, process)| groups.contains(pid) || groups.contains(&process.group))
        .map(|(pid, _)| *pid)
        .collect();
    let mut next = 0;
    while next < all.len() {
        let parent = all[next];
        let children: Vec<i32> = there.iter().filter(|(_, p)| p.parent == parent).map(|(c, _)| *c).collect();
        all.extend(children.into_iter().filter(|c| !all.contains(c)).collect::<Vec<_>>());
        next += 1;
    }
    all
}

/// What every thread of some processes and their descendants is at: state, kernel function,
/// system call, kernel stack (proc(5): status, wchan, syscall, stack).
pub fn stacks(children: &[Child]) -> String {
    let root = Root::real();
    let groups: Vec<i32> = children.iter().map(Child::pid).collect();
    let mut text = String::new();
    for pid in family(&groups) {
        for tid in root.names(format!("/proc/{pid}/task")) {
            let of = |name: &str| root.text(format!("/proc/{pid}/task/{tid}/{name}")).unwrap_or_default();
            let status = of("status");
            let state = status.lines().find_map(|l| l.strip_prefix("State:")).unwrap_or(" unknown").trim();
            let _ = writeln!(text, "process {pid}, thread {tid}, {}: {state}", of("comm"));
            let _ = writeln!(text, "  waits in: {}", of("wchan"));
            let _ = writeln!(text, "  system call: {}", of("syscall"));
            for line in of("stack").lines() {
                let _ = writeln!(text, "  {line}");
            }
        }
    }
    text
}

/// Ends processes: asks them, kills them, and when that does not do, takes away what they may
/// hang on, a frozen file system of `mounts` or one of the served `disks` that does not answer. Tells what had to be done.
pub fn end(children: &mut [Child], mounts: &[&Path], disks: &[&str], devices: &dyn Devices) -> Vec<String> {
    let groups: Vec<i32> = children.iter().map(Child::pid).collect();
    let all: Vec<(i32, u64)> =
        family(&groups).into_iter().filter_map(|pid| Some((pid, start_of(pid)?))).collect();
    let signal = |children: &[Child], signal: i32| {
        for child in children {
            child.signal(signal);
        }
        for (pid, _) in all.iter().filter(|(pid, start)| living(*pid, *start)) {
            // SAFETY: a signal to a descendant of our own child.
            unsafe { libc::kill(*pid, signal) };
        }
    };
    let gone = |children: &mut [Child]| {
        let until = Instant::now() + GRACE;
        let ended = wait_all(children, Some(until), false) == Waited::Ended;
        while ended && all.iter().any(|(pid, start)| living(*pid, *start)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        ended && !all.iter().any(|(pid, start)| living(*pid, *start))
    };
    signal(children, libc::SIGTERM);
    if gone(children) {
        return Vec::new();
    }
    signal(children, libc::SIGKILL);
    if gone(children) {
        return Vec::new();
    }
    let mut told = Vec::new();
    for point in mounts {
        if thaw(point) {
            told.push(format!("the file system at {} was frozen, and was thawed to end it", point.display()));
        }
    }
    if !told.is_empty() && gone(children) {
        return told;
    }
    for name in disks {
        // Its requests fail, and who waits for them goes on.
        match devices.stop(name, true) {
            Ok(()) => told.push(format!("disk {name} was stopped by force, since a process hung on it")),
            Err(why) => told.push(format!("disk {name} could not be stopped: {why:#}")),
        }
    }
    if !gone(children) {
        let stays = all.iter().find(|(pid, start)| living(*pid, *start)).map_or(0, |(pid, _)| *pid);
        told.push(format!("process {stays} does not die and is left behind"));
    }
    told
}
