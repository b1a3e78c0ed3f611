// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that processes have open: in a mode that costs time (past the cache, or durable at each write), for writing,
//! or locked.

use crate::{process, Root};
use plumb_trace::schema::StateOpen;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Those of a process that have O_DIRECT, O_SYNC or O_DSYNC (proc_pid_fdinfo(5)); none where it is gone.
pub fn open_files(pid: u32, root: &Root) -> Vec<StateOpen> {
    let wanted = (libc::O_DIRECT | libc::O_SYNC | libc::O_DSYNC) as u64;
    let mut fds: Vec<u32> =
        root.names(format!("/proc/{pid}/fdinfo")).into_iter().filter_map(|n| n.parse().ok()).collect();
    fds.sort_unstable();
    let flags = |fd: u32| flags(&root.text(format!("/proc/{pid}/fdinfo/{fd}"))?);
    let open = |fd| Some(StateOpen { pid, fd, flags: flags(fd).filter(|f| f & wanted != 0)? });
    fds.into_iter().filter_map(open).collect()
}

fn flags(info: &str) -> Option<u64> {
    let line = info.lines().find_map(|l| l.strip_prefix("flags:"))?;
    u64::from_str_radix(line.trim(), 8).ok()
}

/// A process that uses a file, and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileUser {
    pub pid: u32,
    pub name: String,
}

impl FileUser {
    fn of(pid: u32, root: &Root) -> FileUser {
        let name = root.text(format!("/proc/{pid}/comm")).unwrap_or_else(|| "a program".into());
        FileUser { pid, name }
    }
}

/// Another process that has open for writing what `is_it` says of a link in /proc/PID/fd, as far as processes can be
/// looked at; with what that said.
pub fn writer<T>(root: &Root, is_it: impl Fn(&Path) -> Option<T>) -> Option<(FileUser, T)> {
    writer_where(root, |_| true, is_it)
}

/// As [`writer`], of a file with these facts.
pub fn writer_of(file: &Metadata, root: &Root) -> Option<FileUser> {
    let same = |path: &Path| {
        let meta = std::fs::metadata(root.path(path)).ok()?;
        ((meta.dev(), meta.ino()) == (file.dev(), file.ino())).then_some(())
    };
    // The kernel tells a descriptor's inode since 5.14. stat(2) of another file may wait for a server that is gone.
    let may_be = |info: &str| {
        let inode = info.lines().find_map(|l| l.strip_prefix("ino:"));
        inode.is_none_or(|inode| inode.trim().parse() == Ok(file.ino()))
    };
    writer_where(root, may_be, same).map(|(user, ())| user)
}

fn writer_where<T>(
    root: &Root,
    may_be: impl Fn(&str) -> bool,
    is_it: impl Fn(&Path) -> Option<T>,
) -> Option<(FileUser, T)> {
    let own = std::process::id();
    for pid in process::all(root).into_iter().filter(|pid| *pid != own) {
        for fd in root.names(format!("/proc/{pid}/fd")) {
            let Some(info) = root.text(format!("/proc/{pid}/fdinfo/{fd}")) else { continue };
            // O_PATH is neither: nothing can be written through it.
            let writes = flags(&info).is_some_and(|f| {
                f & libc::O_ACCMODE as u64 != libc::O_RDONLY as u64 && f & libc::O_PATH as u64 == 0
            });
            if !writes || !may_be(&info) {
                continue;
            }
            if let Some(found) = is_it(Path::new(&format!("/proc/{pid}/fd/{fd}"))) {
                return Some((FileUser::of(pid, root), found));
            }
        }
    }
    None
}

/// Why a file could not be locked.
#[derive(Debug)]
pub enum LockError {
    /// Somebody else has it locked: this process, where the kernel tells which one.
    Locked(Option<FileUser>),
    System(io::Error),
}

/// Locks a file for this descriptor alone (flock(2)), until it and its copies are closed. Nobody may hold a lock of
/// another kind on a part of it (fcntl(2)). Where a file system has no locks, nobody can hold one.
///
/// # Errors
/// It is locked by somebody else.
pub fn lock(file: &File) -> Result<(), LockError> {
    let root = Root::real();
    let fd = file.as_raw_fd();
    // SAFETY: the descriptor is open; the call touches no memory of ours.
    if unsafe { libc::flock(fd, libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EWOULDBLOCK) => {
                let pid = file.metadata().ok().and_then(|meta| holder(&meta, &root));
                return Err(LockError::Locked(pid.map(|pid| FileUser::of(pid, &root))));
            }
            Some(libc::ENOLCK | libc::EOPNOTSUPP | libc::ENOSYS) => {}
            _ => return Err(LockError::System(error)),
        }
    }
    // SAFETY: zeroes are "the whole file" and "from its beginning".
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as _;
    // SAFETY: the descriptor is open, and the kernel fills the structure.
    let asked = unsafe { libc::fcntl(fd, libc::F_GETLK, &raw mut lock) };
    if asked == 0 && lock.l_type != libc::F_UNLCK as libc::c_short {
        // An open file description's lock has no process.
        let pid = u32::try_from(lock.l_pid).ok().filter(|pid| *pid > 0);
        return Err(LockError::Locked(pid.map(|pid| FileUser::of(pid, &root))));
    }
    Ok(())
}

/// Who holds a lock on a file, as /proc/locks says: `1: FLOCK ADVISORY WRITE 4711 fe:00:131082 0 EOF`.
fn holder(file: &Metadata, root: &Root) -> Option<u32> {
    let text = root.text("/proc/locks")?;
    text.lines().find_map(|line| {
        // What waits for a lock has an arrow before its kind.
        let mut words = line.split_whitespace().skip(1).skip_while(|w| *w == "->").skip(3);
        let pid = words.next()?.parse().ok()?;
        let inode = words.next()?.rsplit(':').next()?;
        (inode.parse() == Ok(file.ino())).then_some(pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::OpenOptionsExt;
    use std::process::{Child, Command, Stdio};

    /// A shell that does something with descriptor 9 and waits.
    fn shell(script: &str, file: &Path) -> Child {
        let script = format!("{script} && echo ready && read line");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("sh");
        let mut said = [0; 6];
        io::Read::read_exact(child.stdout.as_mut().expect("a pipe"), &mut said).expect("ready");
        child
    }

    #[test]
    fn who_writes_or_locks_a_file_is_told() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("file");
        std::fs::write(&path, "text").expect("written");
        let file = File::options().read(true).write(true).open(&path).expect("file");
        let meta = file.metadata().expect("facts");
        assert_eq!(writer_of(&meta, &Root::real()), None, "not this process itself");
        let mut reads = shell("exec 9<\"$1\"", &path);
        assert_eq!(writer_of(&meta, &Root::real()), None);
        let mut writes = shell("exec 9>>\"$1\"", &path);
        let is = |user: Option<FileUser>, child: &Child| {
            user.is_some_and(|u| u == FileUser { pid: child.id(), name: "sh".into() })
        };
        assert!(is(writer_of(&meta, &Root::real()), &writes));
        let mut locks = shell("exec 9<\"$1\" && flock -x 9", &path);
        match lock(&file).expect_err("locked") {
            // The lock is that of flock(1), which has ended, or of its shell.
            LockError::Locked(user) => assert!(user.is_some()),
            LockError::System(e) => panic!("{e}"),
        }
        for child in [&mut reads, &mut writes, &mut locks] {
            child.kill().and_then(|()| child.wait()).expect("ended");
        }
        // fcntl(2) locks a part of it for a process.
        let (mut told, tell) = io::pipe().expect("a pipe");
        let (theirs, tell) = (file.try_clone().expect("a copy"), tell);
        let mut child = crate::child::Child::fork(move || {
            // SAFETY: plain calls on open descriptors; zeroes but for these are fine.
            unsafe {
                let mut part: libc::flock = std::mem::zeroed();
                (part.l_type, part.l_start, part.l_len) = (libc::F_WRLCK as _, 2, 1);
                let done = libc::fcntl(theirs.as_raw_fd(), libc::F_SETLK, &raw const part);
                libc::write(tell.as_raw_fd(), b"x".as_ptr().cast(), 1);
                libc::sleep(60);
                done
            }
        })
        .expect("a process");
        child.go();
        io::Read::read_exact(&mut told, &mut [0]).expect("a byte");
        match lock(&file).expect_err("a part is locked") {
            LockError::Locked(user) => assert_eq!(user.map(|u| u.pid), Some(child.pid() as u32)),
            LockError::System(e) => panic!("{e}"),
        }
        child.signal(libc::SIGKILL);
        child.wait();
        assert_eq!(writer_of(&meta, &Root::real()), None);
        lock(&file).expect("nobody else has it");
    }

    #[test]
    fn modes_of_open_files_are_told() {
        let dir = tempfile::tempdir().expect("directory");
        let open = |name: &str, flags| {
            let mut options = std::fs::File::options();
            options.write(true).create(true).custom_flags(flags).open(dir.path().join(name)).expect("file")
        };
        let (durable, plain) = (open("a", libc::O_DSYNC), open("b", 0));
        let found = open_files(std::process::id(), &Root::real());
        let of = |file: &std::fs::File| found.iter().find(|f| f.fd == file.as_raw_fd() as u32);
        assert!(of(&durable).is_some_and(|f| f.flags & libc::O_DSYNC as u64 != 0), "{found:?}");
        assert!(of(&plain).is_none());
        assert!(open_files(0, &Root::real()).is_empty());
    }
}
