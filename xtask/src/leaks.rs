// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel has of somebody: processes, mounts, loop and device-mapper devices, cgroups, BPF objects, files.
//! It is asked of the kernel alone, so that what plumb believes does not matter.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn text(path: impl AsRef<Path>) -> String {
    std::fs::read(path).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
}

fn names(dir: impl AsRef<Path>) -> Vec<String> {
    let all = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut all: Vec<String> = all.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    all.sort();
    all
}

/// Processes with a text in their environment, zombies left out.
pub fn processes(mark: &str) -> Vec<(i32, String)> {
    let pids = names("/proc").into_iter().filter_map(|n| n.parse::<i32>().ok());
    let ours = pids.filter(|pid| text(format!("/proc/{pid}/environ")).contains(mark));
    let alive = ours.filter(|pid| {
        let stat = text(format!("/proc/{pid}/stat"));
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    });
    let words = |pid: i32| text(format!("/proc/{pid}/cmdline")).replace('\0', " ").trim().to_string();
    alive.map(|pid| (pid, words(pid))).collect()
}

/// Mount points, with source and kind.
pub fn mounts() -> Vec<String> {
    let all = text("/proc/self/mountinfo");
    let line = |l: &str| {
        let (left, right) = l.split_once(" - ")?;
        Some(format!("{} {right}", left.split(' ').nth(4)?))
    };
    all.lines().filter_map(line).collect()
}

/// Loop devices with their files, and device-mapper devices with their names.
pub fn devices() -> Vec<String> {
    let mut all = Vec::new();
    for disk in names("/sys/block") {
        let of = |file: &str| text(format!("/sys/block/{disk}/{file}")).trim().to_string();
        for what in [of("loop/backing_file"), of("dm/name"), of("pid")] {
            if !what.is_empty() {
                all.push(format!("{disk} {what}"));
            }
        }
    }
    all
}

/// Every cgroup of every hierarchy.
pub fn cgroups() -> BTreeSet<PathBuf> {
    let all = text("/proc/self/mountinfo");
    let cgroup = |l: &&str| l.split_once(" - ").is_some_and(|(_, r)| r.starts_with("cgroup"));
    let mut open: Vec<PathBuf> =
        all.lines().filter(cgroup).filter_map(|l| l.split(' ').nth(4).map(PathBuf::from)).collect();
    let mut found = BTreeSet::new();
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|t| t.is_dir()) && found.insert(entry.path()) {
                open.push(entry.path());
            }
        }
    }
    found
}

/// Everything below a directory, links not followed, without what is at or below `except`.
pub fn files(dir: &Path, except: &[PathBuf]) -> BTreeSet<PathBuf> {
    let (mut open, mut found) = (vec![dir.to_path_buf()], BTreeSet::new());
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if except.contains(&path) {
                continue;
            }
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                open.push(path.clone());
            }
            found.insert(path);
        }
    }
    found
}

/// Kinds of BPF objects, with the commands of bpf(2) that ask for the next id and for a descriptor.
pub const BPF: [(&str, i64, i64); 3] = [("prog", 11, 13), ("map", 12, 14), ("link", 31, 30)];

/// `union bpf_attr` as far as these commands look: an id and what belongs to it.
fn ask(command: i64, id: u32) -> Option<(i64, u32)> {
    let mut attribute = [id, 0, 0];
    let size = std::mem::size_of_val(&attribute);
    // SAFETY: the kernel reads and writes `size` bytes of an array that outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attribute.as_mut_ptr(), size) };
    (result >= 0).then_some((result, attribute[1]))
}

/// Whether a BPF object of that id exists.
pub fn bpf_exists(kind: &str, id: u32) -> bool {
    let Some((_, _, open)) = BPF.iter().find(|(k, ..)| *k == kind) else { return false };
    let Some((descriptor, _)) = ask(*open, id) else { return false };
    // SAFETY: the descriptor was just opened, and nobody else knows it.
    unsafe { libc::close(descriptor as i32) };
    true
}

/// How many BPF objects of a kind there are on the machine.
pub fn bpf_count(kind: &str) -> u64 {
    let Some((_, next, _)) = BPF.iter().find(|(k, ..)| *k == kind) else { return 0 };
    let (mut id, mut count) = (0, 0);
    while let Some((_, following)) = ask(*next, id) {
        id = following;
        count += 1;
    }
    count
}

/// Open descriptors of a process.
pub fn descriptors(pid: i32) -> u64 {
    names(format!("/proc/{pid}/fd")).len() as u64
}

/// Resident memory of a process without what it shares with its file, KiB.
pub fn memory(pid: i32) -> u64 {
    let status = text(format!("/proc/{pid}/status"));
    let field = |name: &str| {
        status.lines().find_map(|l| l.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
    };
    field("RssAnon:").unwrap_or(0)
}
