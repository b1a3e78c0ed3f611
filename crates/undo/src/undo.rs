// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Undoing one change, whoever asks for it and however far it came.

use crate::change::{Change, Held, Open, CLEARED};
use crate::delegation::who_needs;
use crate::devices::Devices;
use crate::mounted;
use crate::queue;
use crate::undone::Undone;
use crate::value::value;
use plumb_machine::child::{wait_all, Child, Status, Waited};
use plumb_machine::process::{start_of, Identity};
use plumb_machine::{mounts, DeviceNumber, Process, Root};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long somebody who uses a mount point is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long an unmount may write back what a slow disk still lacks.
const WRITE_BACK: Duration = Duration::from_secs(600);
/// How long a killed process may take to go.
const DEATH: Duration = Duration::from_secs(10);

pub fn undo(open: &Open, held: Held, devices: &dyn Devices) -> Undone {
    // What lies in files is there after a boot too: a directory, and whatever a command of the user's did.
    if open.before_boot
        && !matches!(open.change, Change::Directory { .. } | Change::Tree { .. } | Change::Command { .. })
    {
        return Undone::Nothing;
    }
    match &open.change {
        // Whatever is there since then, it is not sure that it is the plan's.
        Change::Formatted { device, kind } if kind == CLEARED && held == Held::NotSince => {
            match devices.is_unfinished(device) {
                false => Undone::Nothing,
                true => Undone::LeftAlone(format!(
                    "{}: holds data of no known format, maybe of a file system that was not finished; if nobody needs it, \
                     name the device with --destroy in the next run",
                    device.display()
                )),
            }
        }
        Change::Formatted { device, kind } if kind == CLEARED => match devices.clear_unfinished(device) {
            Ok(false) => Undone::Nothing,
            Ok(true) => {
                Undone::Did(format!("{}: cleared of a file system that was not finished", device.display()))
            }
            Err(e) => Undone::Failed(format!("{e:#}")),
        },
        Change::Began { .. } | Change::Formatted { .. } | Change::Write { old: None, .. } => Undone::Nothing,
        Change::Disk { name } => stop(name, devices),
        Change::Directory { path } => remove(path),
        Change::Tree { path } => remove_tree(path),
        Change::Mount { point, disk, .. } => unmount(point, disk.as_deref(), devices),
        Change::Mounted { point, device, old } => remounted(point, *device, old),
        Change::Write { path, old: Some(old), instead, .. } => write_back(
            path,
            old,
            open.took.as_deref(),
            instead.as_ref().map(|(p, v)| (p.as_path(), v.as_str())),
        ),
        Change::Queue { dir, values } => queue::undo(dir, values),
        Change::Cgroup { path } => cgroup(path),
        Change::Controller { path, name } => controller(path, name),
        Change::Limit(limit) if limit.foreign().is_some() => Undone::LeftAlone(format!(
            "{}: {} is {} by now, which somebody else wrote; it was {}",
            limit.path.display(),
            limit.device,
            limit.foreign().unwrap_or_default(),
            limit.before
        )),
        Change::Limit(limit) => match limit.put_back() {
            Ok(false) => Undone::Nothing,
            Ok(true) => {
                Undone::Did(format!("{}: {} {} again", limit.path.display(), limit.device, limit.before))
            }
            Err(e) => Undone::Failed(format!("{}: {e}", limit.path.display())),
        },
        Change::Command { name, undo, directory } => run(name, undo, directory.as_deref()),
        Change::Processes { group, start } => kill(*group, *start),
    }
}

/// Gives a mounted file system its old word again.
fn remounted(point: &Path, device: DeviceNumber, old: &str) -> Undone {
    let now = mounted::pair(old).and_then(|pair| mounted::word(point, device, pair, &Root::real()));
    match now.filter(|now| *now != old).map(|_| mounted::set(point, old)) {
        // It is so already, or nothing is mounted there any more.
        None => Undone::Nothing,
        Some(Ok(())) => Undone::Did(format!("{}: {old} again", point.display())),
        Some(Err(e)) => Undone::Failed(format!("{}: {old}: {e}", point.display())),
    }
}

/// Runs the command that undoes another one.
fn run(name: &str, words: &[String], directory: Option<&Path>) -> Undone {
    let Some((program, rest)) = words.split_first() else { return Undone::Nothing };
    let mut command = Command::new(program);
    // Ctrl-C is for whoever undoes, not for what is undone.
    command.process_group(0);
    if let Some(directory) = directory {
        command.current_dir(directory);
    }
    match command.args(rest).stdin(Stdio::null()).stdout(Stdio::null()).status() {
        Ok(status) if status.success() => Undone::Did(format!("{name}: undone by {}", words.join(" "))),
        Ok(status) => Undone::Failed(format!("{name}: {}: {status}", words.join(" "))),
        Err(e) => Undone::Failed(format!("{name}: {program}: {e}")),
    }
}

fn stop(name: &str, devices: &dyn Devices) -> Undone {
    let there = || devices.is_served(name);
    if !there() {
        return Undone::Nothing;
    }
    let gently = devices.stop(name, false);
    match gently {
        Ok(()) => Undone::Did(format!("disk {name}: stopped")),
        Err(why) => match devices.stop(name, true) {
            Ok(()) => Undone::Forced(format!("disk {name}: stopped by force, since {why:#}")),
            Err(_) if !there() => Undone::Did(format!("disk {name}: ended")),
            Err(why) => {
                Undone::Failed(format!("disk {name}: {why:#}; call 'plumb disk stop {name} --force'"))
            }
        },
    }
}

fn remove(path: &Path) -> Undone {
    match std::fs::remove_dir(path) {
        Ok(()) => Undone::Did(format!("{}: removed", path.display())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Undone::Nothing,
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOTEMPTY | libc::EEXIST)) => {
            Undone::LeftAlone(format!("{} is not empty", path.display()))
        }
        Err(e) => Undone::Failed(format!("{}: {e}", path.display())),
    }
}

/// Removes a server's directory. Its first process is gone, but others of a server that was killed may still work there.
fn remove_tree(path: &Path) -> Undone {
    let begun = Instant::now();
    kill_within(path);
    forget_shared_memory(path);
    loop {
        // A link in it is removed, not followed (std::fs::remove_dir_all).
        match std::fs::remove_dir_all(path) {
            Ok(()) => return Undone::Did(format!("{}: removed with what was in it", path.display())),
            Err(e) if e.kind() == io::ErrorKind::NotFound && !path.exists() => return Undone::Nothing,
            Err(e) if begun.elapsed() > PATIENCE => {
                return Undone::Failed(format!("{}: {e}", path.display()));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Kills the servers' processes that work in a directory and are its owner's: PostgreSQL's are in sessions of their own, and one that
/// computes does not see that the first is gone.
fn kill_within(tree: &Path) {
    let Ok(owner) = std::fs::symlink_metadata(tree).map(|m| m.uid()) else { return };
    let root = Root::real();
    for pid in root.names("/proc").into_iter().filter_map(|name| name.parse::<i32>().ok()) {
        let dir = Path::new("/proc").join(pid.to_string());
        let is_server =
            root.text(dir.join("comm")).is_some_and(|c| ["postgres", "mariadbd"].contains(&c.trim()));
        let within = || std::fs::read_link(dir.join("cwd")).is_ok_and(|cwd| cwd.starts_with(tree));
        if is_server && within() && std::fs::metadata(&dir).is_ok_and(|m| m.uid() == owner) {
            // SAFETY: a signal; the process was just seen to be one of the server's.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
}

/// Removes the shared memory of a PostgreSQL server that was killed (System V, shmop(2)), which its next start would: key and number
/// are in the seventh line of postmaster.pid (miscadmin.h, LOCK_FILE_LINE_SHMEM_KEY). One that is in use is left alone.
fn forget_shared_memory(tree: &Path) {
    // The file is the server's user's: it may be anything, and names a segment of that user's, or none.
    let Ok(owner) = std::fs::symlink_metadata(tree).map(|m| m.uid()) else { return };
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(tree.join("data/postmaster.pid"));
    let Ok(file) = file else { return };
    let mut text = String::new();
    let is_file = file.metadata().is_ok_and(|m| m.is_file());
    if !is_file || file.take(4096).read_to_string(&mut text).is_err() {
        return;
    }
    let words = text.lines().nth(6).unwrap_or_default().split_whitespace();
    let Some(id) = words.last().and_then(|word| word.parse().ok()) else { return };
    let begun = Instant::now();
    // SAFETY: a record of zeros is valid, and lives through both calls.
    unsafe {
        let mut segment: libc::shmid_ds = std::mem::zeroed();
        while libc::shmctl(id, libc::IPC_STAT, &mut segment) == 0 && begun.elapsed() < PATIENCE {
            if segment.shm_perm.uid != owner {
                return;
            }
            if segment.shm_nattch == 0 {
                libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut());
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Removes a cgroup; what runs in it runs on in its parent.
fn cgroup(path: &Path) -> Undone {
    let shown = path.display();
    let begun = Instant::now();
    let mut moved = std::collections::BTreeSet::new();
    loop {
        match std::fs::remove_dir(path) {
            Ok(()) if moved.is_empty() => return Undone::Did(format!("{shown}: removed")),
            Ok(()) => {
                let moved: Vec<_> = moved.iter().map(i32::to_string).collect();
                return Undone::Forced(format!(
                    "{shown}: removed; what ran in it runs on in its parent (process {})",
                    moved.join(", ")
                ));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Undone::Nothing,
            Err(e) if begun.elapsed() > PATIENCE => return Undone::Failed(format!("{shown}: {e}")),
            // A process that dies is in it a little longer.
            Err(_) => {}
        }
        let inside = std::fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
        let parent = path.parent().unwrap_or(path).join("cgroup.procs");
        for pid in inside.lines().filter_map(|l| l.parse::<i32>().ok()) {
            if std::fs::write(&parent, pid.to_string()).is_ok() {
                moved.insert(pid);
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a cgroup gives a controller to those below it, by its `cgroup.subtree_control`.
pub fn gives(path: &Path, name: &str) -> bool {
    value(path).is_ok_and(|now| now.split(' ').any(|c| c == name))
}

/// Takes a controller from the groups below one, if none of them needs it.
fn controller(path: &Path, name: &str) -> Undone {
    let shown = path.display();
    if !gives(path, name) {
        return Undone::Nothing;
    }
    if let Some(who) = who_needs(name, path.parent().unwrap_or(path)) {
        return Undone::LeftAlone(format!("{shown}: {name} stays, since {who}"));
    }
    match std::fs::write(path, format!("-{name}")) {
        Ok(()) => Undone::Did(format!("{shown}: without {name} again")),
        Err(e) => Undone::Failed(format!("{shown}: does not take -{name}: {e}")),
    }
}

/// Whether something is mounted exactly there.
pub fn mounted(point: &Path) -> bool {
    mounts(&Root::real()).iter().any(|m| m.point == point)
}

/// Thaws a file system that somebody froze (ioctl FITHAW of linux/fs.h); true when it was frozen.
/// A frozen one keeps its device, also after it is unmounted, and who writes to it hangs unkillably.
pub fn thaw(point: &Path) -> bool {
    const FITHAW: libc::c_ulong = 0xc004_5878;
    let Ok(dir) = std::fs::File::open(point) else { return false };
    // SAFETY: the descriptor is open; the call takes an int that it does not look at.
    unsafe { libc::ioctl(std::os::fd::AsRawFd::as_raw_fd(&dir), FITHAW as _, 0) == 0 }
}

/// Unmounts in a process of its own, which may hang where this one must not. An errno, or that it took too long.
fn umount(point: &Path, flags: i32, limit: Duration) -> Result<(), Option<i32>> {
    let Ok(path) = CString::new(point.as_os_str().as_bytes()) else { return Err(Some(libc::EINVAL)) };
    let child = Child::fork(|| {
        thaw(point);
        // SAFETY: the string ends in NUL and outlives the call.
        match unsafe { libc::umount2(path.as_ptr(), flags) } {
            0 => 0,
            _ => io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
        }
    });
    let Ok(child) = child else { return Err(Some(libc::EAGAIN)) };
    let mut child = [child];
    if wait_all(&mut child, Some(Instant::now() + limit), false) == Waited::Late {
        return Err(None);
    }
    match child[0].status() {
        Some(Status::Exited(0)) => Ok(()),
        Some(Status::Exited(errno)) => Err(Some(errno)),
        _ => Err(Some(libc::EINTR)),
    }
}

/// Unmounts; when that cannot be done for long, by force.
pub fn unmount(point: &Path, on: Option<&str>, devices: &dyn Devices) -> Undone {
    let shown = point.display();
    if !mounted(point) {
        return Undone::Nothing;
    }
    let begun = Instant::now();
    let why = loop {
        match umount(point, 0, WRITE_BACK) {
            Ok(()) if mounted(point) => {}
            Ok(()) => return Undone::Did(format!("{shown}: unmounted")),
            Err(Some(libc::EBUSY)) if begun.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(Some(libc::EBUSY)) => break format!("{shown} was in use{}", users(point)),
            Err(Some(errno)) => break format!("{shown}: {}", io::Error::from_raw_os_error(errno)),
            Err(None) => break format!("{shown} could not be unmounted in {} s", WRITE_BACK.as_secs()),
        }
    };
    if let Some(name) = on {
        // What hangs on the disk's requests goes on when they fail.
        let _ = devices.stop(name, true);
        if umount(point, 0, PATIENCE).is_ok() && !mounted(point) {
            return Undone::Forced(format!("{why}; disk {name} was stopped by force, and it is unmounted"));
        }
    }
    match umount(point, libc::MNT_DETACH, PATIENCE) {
        Ok(()) => Undone::Forced(format!("{why}; it is out of sight, and goes when its last user does")),
        Err(_) => Undone::Failed(format!("{why}; unmount it by hand")),
    }
}

/// Who works below a mount point: ` by sh (708)`.
fn users(point: &Path) -> String {
    let root = Root::real();
    let inside = |pid: &i32| {
        let fixed = ["cwd", "root"].map(|l| format!("/proc/{pid}/{l}"));
        let open = root.names(format!("/proc/{pid}/fd")).into_iter().map(|fd| format!("/proc/{pid}/fd/{fd}"));
        fixed.into_iter().chain(open).any(|l| std::fs::read_link(l).is_ok_and(|to| to.starts_with(point)))
    };
    let all = root.names("/proc").into_iter().filter_map(|n| n.parse::<i32>().ok()).filter(inside);
    let named: Vec<String> = all
        .map(|pid| format!("{} ({pid})", root.text(format!("/proc/{pid}/comm")).unwrap_or_default()))
        .collect();
    if named.is_empty() {
        String::new()
    } else {
        format!(" by {}", named.join(", "))
    }
}

/// Makes a driver's depth what a queue's nr_requests says.
///
/// A queue that loses its scheduler says the depth that its driver began with, though a smaller one that was
/// set before the scheduler stays in force; and the kernel skips a write of what it says already
/// (`queue_requests_store`, block/blk-sysfs.c).
fn hidden_depth(path: &Path, old: &str) -> io::Result<()> {
    match old.parse::<u32>() {
        Ok(depth) if path.ends_with("queue/nr_requests") => {
            // The least that the kernel takes is 4.
            let other = if depth > 4 { depth - 1 } else { depth + 1 };
            std::fs::write(path, other.to_string())?;
            std::fs::write(path, old)
        }
        _ => Ok(()),
    }
}

fn write_back(path: &Path, old: &str, took: Option<&str>, instead: Option<(&Path, &str)>) -> Undone {
    let shown = path.display();
    let now = match value(path) {
        Ok(now) => now,
        // It was the file of a device that is gone.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Undone::Nothing,
        Err(e) => return Undone::Failed(format!("{shown}: {e}")),
    };
    if now == old {
        return match hidden_depth(path, old) {
            Ok(()) => Undone::Nothing,
            Err(e) => Undone::Failed(format!("{shown}: {e}")),
        };
    }
    if let Some(took) = took.filter(|took| *took != now) {
        return Undone::LeftAlone(format!(
            "{shown} is {now}: it was changed after the plan set it to {took}; it was {old}"
        ));
    }
    let (to, what) = instead.unwrap_or((path, old));
    if let Err(e) = std::fs::write(to, what) {
        return Undone::Failed(format!("{}: writing {what} back: {e}", to.display()));
    }
    match value(path) {
        Ok(now) if now == old => Undone::Did(format!("{shown}: {old} again")),
        Ok(now) => Undone::LeftAlone(format!(
            "{shown} is {now} after {what} was written to {}; it was {old}",
            to.display()
        )),
        Err(e) => Undone::Failed(format!("{shown}: {e}")),
    }
}

/// Members of a process group that began at `start` or later and still run.
fn members(group: i32, start: u64) -> Vec<i32> {
    let root = Root::real();
    let all = root.names("/proc").into_iter().filter_map(|n| n.parse::<i32>().ok());
    let is_one = |p: Process| p.group == group && p.start >= start && !p.has_ended();
    all.filter(|pid| Process::of(pid, &root).is_some_and(is_one)).collect()
}

/// Whether a process group that began at `start` still has members.
pub fn runs(group: i32, start: u64) -> bool {
    group > 1 && start_of(group).is_none_or(|s| s == start) && !members(group, start).is_empty()
}

/// Kills a process group that began at `start`, and waits until it is gone.
pub fn kill(group: i32, start: u64) -> Undone {
    // The number of a group is not given again while it has members; a leader with another start
    // is of a later one.
    if group <= 1 || start_of(group).is_some_and(|s| s != start) {
        return Undone::Nothing;
    }
    let left = || members(group, start);
    if left().is_empty() {
        return Undone::Nothing;
    }
    let begun = Instant::now();
    loop {
        let left = left();
        if left.is_empty() {
            return Undone::Did(format!("process group {group}: ended"));
        }
        if begun.elapsed() > DEATH {
            return Undone::LeftAlone(format!("process {} does not die", left[0]));
        }
        for pid in left {
            // SAFETY: a signal to a member of a group that the plan made.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether the process of that number that began at `start` still runs.
pub fn living(pid: i32, start: u64) -> bool {
    Identity { pid, start }.runs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_whose_counterpart_was_set_comes_back_through_it() {
        let dir = tempfile::TempDir::new().expect("a directory");
        let (bytes, ratio) = (dir.path().join("bytes"), dir.path().join("ratio"));
        std::fs::write(&bytes, "4096").expect("written");
        std::fs::write(&ratio, "0").expect("written");
        // Plain files do not depend on each other: it is told that the one is not back.
        let told = write_back(&bytes, "0", Some("4096"), Some((&ratio, "20")));
        assert!(matches!(told, Undone::LeftAlone(_)), "{told:?}");
        assert_eq!(std::fs::read_to_string(&ratio).expect("read"), "20");
    }

    #[test]
    fn a_depth_that_looks_restored_is_written_again() {
        let dir = tempfile::TempDir::new().expect("a directory");
        let queue = dir.path().join("queue");
        std::fs::create_dir(&queue).expect("made");
        for (name, again) in [("nr_requests", true), ("read_ahead_kb", false)] {
            let path = queue.join(name);
            std::fs::write(&path, "128").expect("written");
            let long_ago = std::time::SystemTime::UNIX_EPOCH;
            let file = std::fs::File::options().write(true).open(&path).expect("open");
            file.set_modified(long_ago).expect("set");
            assert!(matches!(write_back(&path, "128", Some("4"), None), Undone::Nothing));
            let modified = path.metadata().and_then(|m| m.modified()).expect("a time");
            assert_eq!(modified != long_ago, again, "{name}");
            assert_eq!(value(&path).expect("read"), "128");
        }
    }
}
