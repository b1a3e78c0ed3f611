// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Semaphores, message queues, signals, terminals and leases, each behind a safe function.

use super::check;
use anyhow::{bail, Context, Result};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};

/// Bytes of a message.
const MESSAGE: usize = 64;

fn number(result: libc::c_int, what: &str) -> Result<libc::c_int> {
    if result < 0 {
        bail!("{what}: {}", io::Error::last_os_error());
    }
    Ok(result)
}

/// A System V object by its number, which the file at `path` holds.
fn id(path: &Path) -> Result<libc::c_int> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    text.trim().parse().with_context(|| path.display().to_string())
}

/// A System V semaphore of value 1: `semaphore(7)`'s older kind.
pub struct Semaphore(libc::c_int);

impl Semaphore {
    /// Makes one and writes its number to `path`.
    pub fn make(path: &Path) -> Result<Self> {
        // SAFETY: a call with plain numbers.
        let made = Self(number(unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600) }, "semget")?);
        std::fs::write(path, made.0.to_string()).with_context(|| path.display().to_string())?;
        made.add(1)?;
        Ok(made)
    }
    /// The one whose number is in `path`.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self(id(path)?))
    }
    /// Adds 1, or takes 1 away as soon as there is one.
    pub fn add(&self, value: i16) -> Result<()> {
        let mut what = libc::sembuf { sem_num: 0, sem_op: value, sem_flg: 0 };
        // SAFETY: one operation behind the pointer.
        check(unsafe { libc::semop(self.0, &mut what, 1) }, "semop")
    }
    pub fn remove(&self) -> Result<()> {
        // SAFETY: a call with plain numbers.
        check(unsafe { libc::semctl(self.0, 0, libc::IPC_RMID) }, "semctl(IPC_RMID)")
    }
}

/// A System V message queue.
pub struct Queue(libc::c_int);

#[repr(C)]
struct Message {
    kind: libc::c_long,
    text: [u8; MESSAGE],
}

impl Queue {
    /// Makes one and writes its number to `path`.
    pub fn make(path: &Path) -> Result<Self> {
        // SAFETY: a call with plain numbers.
        let made = Self(number(unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600) }, "msgget")?);
        std::fs::write(path, made.0.to_string()).with_context(|| path.display().to_string())?;
        Ok(made)
    }
    /// The one whose number is in `path`.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self(id(path)?))
    }
    /// `kind` is 1 or more.
    pub fn send(&self, kind: i64) -> Result<()> {
        let message = Message { kind, text: [7; MESSAGE] };
        // SAFETY: a message of that many bytes behind the pointer.
        check(unsafe { libc::msgsnd(self.0, std::ptr::from_ref(&message).cast(), MESSAGE, 0) }, "msgsnd")
    }
    pub fn receive(&self, kind: i64) -> Result<()> {
        let mut message = Message { kind: 0, text: [0; MESSAGE] };
        // SAFETY: room for a message of that many bytes behind the pointer.
        let got = unsafe { libc::msgrcv(self.0, std::ptr::from_mut(&mut message).cast(), MESSAGE, kind, 0) };
        number(got as libc::c_int, "msgrcv").map(drop)
    }
    pub fn remove(&self) -> Result<()> {
        // SAFETY: the third argument may be null for IPC_RMID.
        check(unsafe { libc::msgctl(self.0, libc::IPC_RMID, std::ptr::null_mut()) }, "msgctl(IPC_RMID)")
    }
}

/// Signals that the calling thread and its later children wait for instead of being interrupted.
pub struct Awaited(libc::sigset_t);

impl Awaited {
    pub fn new(signal: libc::c_int) -> Self {
        // SAFETY: sigset_t is plain data, filled by sigemptyset.
        let set = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, signal);
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            set
        };
        Self(set)
    }
    /// Waits for one; who sent it (0: the kernel).
    pub fn wait(&self) -> Result<u32> {
        // SAFETY: siginfo_t is plain data; both pointers are valid.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            number(libc::sigwaitinfo(&self.0, &mut info), "sigwaitinfo")?;
            Ok(info.si_pid() as u32)
        }
    }
}

/// The process whose number is in `path`, as soon as it is.
pub fn pid_in(path: &Path) -> u32 {
    loop {
        match std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()) {
            Some(pid) => return pid,
            None => super::sleep_us(200),
        }
    }
}

/// A new pseudo-terminal: its master, and the slave's path.
pub fn terminal() -> Result<(File, PathBuf)> {
    // SAFETY: calls with plain numbers; the buffer is as long as the call is told.
    let (master, name) = unsafe {
        let fd = number(libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY), "posix_openpt")?;
        let master = File::from_raw_fd(fd);
        check(libc::grantpt(fd), "grantpt")?;
        check(libc::unlockpt(fd), "unlockpt")?;
        let mut name = [0_u8; 128];
        check(libc::ptsname_r(fd, name.as_mut_ptr().cast(), name.len()), "ptsname_r")?;
        (master, name)
    };
    let name = name.split(|&b| b == 0).next().unwrap_or_default();
    Ok((master, String::from_utf8_lossy(name).into_owned().into()))
}

/// Takes a lease on a file, which then nobody else can open (whether that was possible), or gives it back.
pub fn lease(file: &File, take: bool) -> bool {
    let kind = if take { libc::F_WRLCK } else { libc::F_UNLCK };
    // SAFETY: the descriptor is open.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) == 0 }
}
