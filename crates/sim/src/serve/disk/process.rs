// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a server asks of the kernel about processes: signals, the end of others, its own standing.

use anyhow::{bail, Context, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Has ps and top call the process `plumb-disk`, and not after /proc/self/exe; by its first thread,
/// whose name is the process's.
pub fn name() {
    // SAFETY: the string ends in NUL and has less than 16 bytes (prctl(2), PR_SET_NAME).
    unsafe { libc::prctl(libc::PR_SET_NAME, c"plumb-disk".as_ptr(), 0, 0, 0) };
}

/// Makes the calling process one that a disk can rely on; before any thread is started.
pub fn prepare() {
    name();
    // A thread that panics would leave others waiting; a process that ends does not.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        usual(info);
        std::process::abort();
    }));
    const PR_SET_IO_FLUSHER: libc::c_int = 57;
    // SAFETY: calls with plain numbers. Memory that the server asks for must not be made by writing to
    // its own disk (prctl(2), PR_SET_IO_FLUSHER: Linux 5.6); its threads inherit it.
    unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
}

/// SIGINT, SIGTERM and SIGHUP: the first one asks, the second one forces. `told` hears whether
/// it forces, and the signal's number. To be called before any thread is started.
///
/// # Errors
/// No thread can be started.
pub fn watch_signals(told: impl Fn(bool, i32) + Send + 'static) -> Result<()> {
    // SAFETY: the set is plain data, filled before it is used.
    let signals = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::sigaddset(&mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        set
    };
    let wait = move || {
        for force in [false].into_iter().chain(std::iter::repeat(true)) {
            let mut signal = 0;
            // SAFETY: both pointers are valid.
            unsafe { libc::sigwait(&signals, &mut signal) };
            told(force, signal);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).context("thread")?;
    Ok(())
}

/// A descriptor that becomes readable when a process ends.
///
/// # Errors
/// There is none of that number.
pub fn pidfd(pid: u32) -> std::io::Result<OwnedFd> {
    // SAFETY: a call with plain numbers; a new descriptor comes back, which nobody else has.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0);
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

/// Calls `told` when that process has ended.
///
/// # Errors
/// There is none of that number.
pub fn watch_owner(owner: u32, told: impl FnOnce() + Send + 'static) -> Result<()> {
    let Ok(pidfd) = pidfd(owner) else { bail!("process {owner}, whose disk it would be, has ended") };
    let wait = move || {
        while !ended(&pidfd, None) {}
        told();
    };
    std::thread::Builder::new().name("owner".into()).spawn(wait).context("thread")?;
    Ok(())
}

/// Real-time priority, where that is allowed: a disk does not wait for a CPU.
pub fn soon() {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: a valid pointer. Without the right to it the thread stays as it is.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &param) };
}
