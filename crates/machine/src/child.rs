// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes that make one measurement each: forked, waited for with a limit, and told of
//! signals. Repetitions of `plumb run` and plans have them from here.
//!
//! The program itself lives on after Ctrl-C or kill, to end what is under way in good order.

use crate::{process, signals};
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// Descriptor that no child keeps; -1 for none.
static OURS_ALONE: AtomicI32 = AtomicI32::new(-1);

/// Names a descriptor that children close at once, however long they live before they become a command:
/// whoever reads the other end learns of this process's end, not of theirs.
pub fn ours_alone(fd: i32) {
    OURS_ALONE.store(fd, Ordering::Release);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Exited(i32),
    Killed(i32),
}

impl Status {
    /// Exit code 0.
    pub fn success(self) -> bool {
        self == Status::Exited(0)
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Status::Exited(code) => write!(f, "exit code {code}"),
            Status::Killed(signal) => write!(f, "killed by signal {signal}"),
        }
    }
}

/// Why a wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    Ended,
    Late,
    /// A signal asked to stop.
    Stopped,
}

/// What a process and its children may have of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Within {
    /// Numbers of the CPUs that run them; empty: any.
    pub cpus: Vec<usize>,
    /// The directory of their cgroup; none: that of their parent.
    pub group: Option<PathBuf>,
}

impl Within {
    /// Confines a process that waits for [`Child::go`].
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn take(&self, pid: i32) -> Result<()> {
        if let Some(group) = &self.group {
            let procs = group.join("cgroup.procs");
            std::fs::write(&procs, pid.to_string()).with_context(|| procs.display().to_string())?;
        }
        if self.cpus.is_empty() {
            return Ok(());
        }
        // SAFETY: a set of zeros is an empty one; CPU_SET checks its number, and the kernel reads the set.
        let failed = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            self.cpus.iter().for_each(|cpu| libc::CPU_SET(*cpu, &mut set));
            libc::sched_setaffinity(pid, size_of::<libc::cpu_set_t>(), &set) != 0
        };
        if failed {
            return Err(io::Error::last_os_error()).with_context(|| format!("CPUs {:?}", self.cpus));
        }
        Ok(())
    }
}

/// Numbers of the CPUs that may run this process, in their order.
pub fn own_cpus() -> Vec<usize> {
    // SAFETY: a set of zeros is an empty one, which the kernel fills; numbers are within it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &set)).collect()
    }
}

/// A process of ours. It is not ended when this is dropped.
#[derive(Debug)]
pub struct Child {
    pid: i32,
    fd: OwnedFd,
    /// Closed or written to: it may begin.
    gate: Option<File>,
    /// It leads a process group.
    leads: bool,
    status: Option<Status>,
}

impl Child {
    /// A copy of this process does something and ends with the exit code that comes of it.
    ///
    /// # Errors
    /// No process can be made.
    pub fn fork(body: impl FnOnce() -> i32) -> Result<Child> {
        io::stdout().flush()?;
        // SAFETY: the child has one thread. Where the parent has more, what those held stays locked in it, but for what malloc
        // holds (glibc sees to that): its parent must not wait for it without end.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()).context("another process"),
            0 => {
                signals::forget();
                let ours = OURS_ALONE.load(Ordering::Acquire);
                if ours >= 0 {
                    // SAFETY: this copy of the descriptor has no other user in this process.
                    unsafe { libc::close(ours) };
                }
                let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(2);
                let _ = io::stdout().flush();
                // SAFETY: ends the child without the parent's destructors.
                unsafe { libc::_exit(code) }
            }
            pid => {
                let fd = match process::pidfd(pid) {
                    Ok(fd) => fd,
                    Err(error) => {
                        // SAFETY: our own child, which is not reaped yet.
                        unsafe {
                            libc::kill(pid, libc::SIGKILL);
                            libc::waitpid(pid, std::ptr::null_mut(), 0);
                        }
                        return Err(error).context("a descriptor of a process (needs Linux 5.3)");
                    }
                };
                Ok(Child { pid, fd, gate: None, leads: false, status: None })
            }
        }
    }

    /// A command, in a process group of its own, that waits for [`Child::go`]. It dies when this process does, unless it
    /// runs as another user (PR_SET_PDEATHSIG is cleared then).
    ///
    /// # Errors
    /// No process can be made. That the command cannot be started is told on its own standard
    /// error, with exit code 127.
    pub fn command(mut command: Command) -> Result<Child> {
        let (read, write) = signals::pipe(0)?;
        let (read, gate) = (File::from(read), File::from(write));
        let mut child = Child::fork(|| {
            // SAFETY: calls on this process alone.
            unsafe {
                libc::setpgid(0, 0);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::close(gate.as_raw_fd());
            }
            // A parent that died meanwhile opens no gate.
            if !matches!((&read).read(&mut [0]), Ok(1)) {
                return 2;
            }
            let error = command.exec();
            eprintln!("plumb: cannot start {}: {error}", command.get_program().to_string_lossy());
            127
        })?;
        // Both sides do it: neither waits for the other. It may have done so and become the command.
        // SAFETY: our own child.
        unsafe { libc::setpgid(child.pid, child.pid) };
        child.leads = true;
        child.gate = Some(gate);
        Ok(child)
    }

    /// Its process id; of a command the group's too.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// How it ended, if it has been seen to.
    pub fn status(&self) -> Option<Status> {
        self.status
    }

    /// Whether it has ended; does not wait.
    pub fn has_ended(&mut self) -> bool {
        self.reap(libc::WNOHANG).is_some()
    }

    pub fn go(&mut self) {
        if let Some(mut gate) = self.gate.take() {
            // One that was killed meanwhile is seen when it is waited for.
            let _ = gate.write_all(&[1]);
        }
    }

    /// Sends a signal to it, and to its group if it leads one.
    pub fn signal(&self, signal: i32) {
        if self.status.is_none() {
            let to = if self.leads { -self.pid } else { self.pid };
            // SAFETY: our own child, not reaped yet, so that the number is still its own.
            unsafe { libc::kill(to, signal) };
        }
    }

    /// Waits for its end. Signals that reach this process meanwhile are handed on to it.
    pub fn wait(mut self) -> Status {
        signals::pass_on_to(Some(&self.fd));
        if signals::stopped() {
            // It came between fork and here, and reached nobody.
            self.signal(signals::stop().signal());
        }
        let status = self.reap(0);
        signals::pass_on_to(None);
        status.unwrap_or(Status::Exited(2))
    }

    /// What it ended with; None while it runs, where `options` say not to wait.
    fn reap(&mut self, options: i32) -> Option<Status> {
        if self.status.is_some() {
            return self.status;
        }
        // SAFETY: our own child and valid pointers. WNOWAIT leaves the number its own until below.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let (who, what) = (self.pid as libc::id_t, libc::WEXITED | libc::WNOWAIT | options);
            while libc::waitid(libc::P_PID, who, &mut info, what) != 0 {
                if *libc::__errno_location() != libc::EINTR {
                    self.status = Some(Status::Exited(2));
                    return self.status;
                }
            }
            if info.si_pid() == 0 {
                return None;
            }
            if self.leads {
                // What it left running in its group would stay on the ground that is removed next.
                libc::kill(-self.pid, libc::SIGKILL);
            }
            let mut status = 0;
            libc::waitpid(self.pid, &mut status, 0);
            self.status = Some(match libc::WIFEXITED(status) {
                true => Status::Exited(libc::WEXITSTATUS(status)),
                false => Status::Killed(libc::WTERMSIG(status)),
            });
        }
        if self.leads {
            let begun = Instant::now();
            // SAFETY: asks whether the group has members.
            while unsafe { libc::kill(-self.pid, 0) } == 0 && begun.elapsed() < Duration::from_secs(2) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        self.status
    }
}

/// Waits until all of them have ended, or for another reason not any longer.
pub fn wait_all(children: &mut [Child], until: Option<Instant>, heed_signals: bool) -> Waited {
    loop {
        if heed_signals && signals::stopped() {
            return Waited::Stopped;
        }
        let mut polled: Vec<libc::pollfd> = Vec::with_capacity(children.len() + 1);
        for child in children.iter_mut() {
            if child.reap(libc::WNOHANG).is_none() {
                polled.push(libc::pollfd { fd: child.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
            }
        }
        if polled.is_empty() {
            return Waited::Ended;
        }
        let left = until.map(|u| u.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Waited::Late;
        }
        if heed_signals {
            polled.push(libc::pollfd { fd: signals::wake(), events: libc::POLLIN, revents: 0 });
        }
        let most = i32::MAX as u128;
        let ms = left.map_or(-1, |l| (l.as_nanos().div_ceil(1_000_000)).min(most) as i32);
        // SAFETY: polled lives through the call; a negative descriptor is passed over.
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, ms) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Process, Root};

    fn command(words: &[&str]) -> Child {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        Child::command(command).expect("a process")
    }

    // A test has several threads: only what execs at once is forked here.

    #[test]
    fn a_command_waits_for_the_word_and_its_end_is_known() {
        let mut one = [command(&["sh", "-c", "exit 7"])];
        let soon = || Some(Instant::now() + Duration::from_millis(50));
        assert_eq!(wait_all(&mut one, soon(), false), Waited::Late);
        let group = Process::of(one[0].pid(), &Root::real()).map(|p| p.group);
        assert_eq!(group, Some(one[0].pid()), "a group of its own");
        one[0].go();
        assert_eq!(wait_all(&mut one, None, false), Waited::Ended);
        assert_eq!(one[0].status(), Some(Status::Exited(7)));
    }

    #[test]
    fn what_it_left_running_goes_with_it() {
        let mut one = [command(&["sh", "-c", "sleep 1000 & kill -9 $$"])];
        let group = one[0].pid();
        one[0].go();
        assert_eq!(wait_all(&mut one, None, false), Waited::Ended);
        assert_eq!(one[0].status(), Some(Status::Killed(9)));
        // SAFETY: asks whether the group has members.
        assert_ne!(unsafe { libc::kill(-group, 0) }, 0, "the sleep lives on");
    }
}
