// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The worker processes: forked, started together, waited for, and never left behind.

use super::{Context, RunError};
use crate::board::{self, Board};
use crate::clock::Clock;
use crate::engine::{EngineError, Listeners};
use crate::files;
use crate::job::{Job, Step, What};
use crate::worker::{self, Common, Who};
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering::*};

/// From the word that says go to the common start: time for all to wake up, ns.
const LEAD: u64 = 2_000_000;
/// After a stop from outside, workers have so long to end their operations, in steps of 100 ms.
const STOP_STEPS: u32 = 50;

/// The worker processes of a step.
#[derive(Debug)]
pub(super) struct Crew {
    pids: Vec<libc::pid_t>,
    /// Servers' sockets; their names go at the end.
    _listeners: Vec<Listeners>,
}

impl Crew {
    /// Starts all workers; returns when they have opened their files and engines.
    pub(super) fn start(step: &Step, context: &Context<'_>, board: &Board) -> Result<Crew, RunError> {
        let listeners: Vec<_> = step.jobs.iter().map(Listeners::open).collect::<Result<_, _>>()?;
        let common = Common {
            board,
            clock: context.clock,
            ground: context.ground,
            run_id: context.run_id,
            listeners: &listeners,
        };
        let clients = step.jobs.iter().filter(|j| j.what != What::Serve).map(Job::workers).sum();
        board.head().clients.store(clients, Release);
        let mut crew = Crew { pids: Vec::new(), _listeners: Vec::new() };
        let mut seat = 0;
        let (_, first_files) = files::numbered(&step.jobs, context.ground);
        // SAFETY: plain call.
        let parent = unsafe { libc::getpid() };
        for (j, job) in step.jobs.iter().enumerate() {
            for process in 0..job.processes {
                let whos: Vec<Who> = (0..job.threads)
                    .map(|t| {
                        let seat = seat + t as usize;
                        Who { seat, job: j, worker: process * job.threads + t, first_file: first_files[seat] }
                    })
                    .collect();
                seat += whos.len();
                // SAFETY: the child runs our code only and leaves by _exit; glibc makes malloc usable in it.
                match unsafe { libc::fork() } {
                    -1 => {
                        return Err(RunError::System {
                            what: "cannot start another worker process (fewer --processes?)",
                            error: io::Error::last_os_error(),
                        })
                    }
                    0 => child(&common, job, &whos, parent),
                    pid => crew.pids.push(pid),
                }
            }
        }
        crew._listeners = listeners;
        let head = board.head();
        let seats = board.seats() as u32;
        loop {
            let ready = head.ready.load(Acquire);
            if ready >= seats {
                break;
            }
            crew.all_live(board)?;
            if context.stop.load(Acquire) {
                return Err(RunError::Files(crate::files::FileError::Stopped));
            }
            board::wait_word(&head.ready, ready, 200_000_000);
        }
        match (0..board.seats()).find_map(|i| board.seat(i).said()) {
            Some(said) => Err(EngineError(said).into()),
            None => Ok(crew),
        }
    }

    pub(super) fn pids(&self) -> Vec<u32> {
        self.pids.iter().map(|&p| p as u32).collect()
    }

    /// Lets them begin; returns the common start, ns.
    pub(super) fn go(&self, board: &Board, clock: &Clock) -> u64 {
        let head = board.head();
        let start = clock.now() + LEAD;
        head.start.store(start, Release);
        head.go.store(1, Release);
        board::wake_word(&head.go);
        start
    }

    /// A worker that died before it was ready would be waited for in vain.
    fn all_live(&mut self, board: &Board) -> Result<(), RunError> {
        for i in 0..self.pids.len() {
            let mut status = 0;
            // SAFETY: a child of ours.
            if unsafe { libc::waitpid(self.pids[i], &mut status, libc::WNOHANG) } == self.pids[i] {
                let pid = self.pids.swap_remove(i);
                let said = (0..board.seats()).find_map(|s| board.seat(s).said());
                return Err(match said {
                    Some(said) => EngineError(said).into(),
                    None => RunError::Died(
                        died(pid, status)
                            .unwrap_or_else(|| format!("worker process {pid} ended before the load began")),
                    ),
                });
            }
        }
        Ok(())
    }

    /// Waits until all have ended.
    pub(super) fn wait(mut self, stop: &AtomicBool, board: &Board) -> Result<(), RunError> {
        let mut first_death = None;
        let mut patience = STOP_STEPS;
        while let Some(&pid) = self.pids.last() {
            let mut status = 0;
            let stopped = stop.load(Acquire);
            if stopped {
                board.head().stop.store(1, Release);
            }
            let flags = if stopped { libc::WNOHANG } else { 0 };
            // SAFETY: a child of ours.
            let got = unsafe { libc::waitpid(pid, &mut status, flags) };
            if got == pid {
                self.pids.pop();
                if let Some(death) = died(pid, status) {
                    // The others would go on to their end with a part of the load missing.
                    board.head().stop.store(1, Release);
                    first_death.get_or_insert(death);
                }
            } else if got == -1 && io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
                self.pids.pop();
            } else if stopped {
                crate::pace::sleep(100_000_000);
                patience = patience.saturating_sub(1);
                if patience == 0 {
                    break; // Drop kills what is left
                }
            }
        }
        match first_death {
            Some(death) => Err(RunError::Died(death)),
            None => Ok(()),
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for &pid in &self.pids {
            // SAFETY: children of ours that were not waited for yet.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        // One in an uninterruptible wait ends when the kernel lets it; nobody should wait for that.
        for _ in 0..20 {
            self.pids.retain(|&pid| {
                // SAFETY: as above.
                unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) == 0 }
            });
            if self.pids.is_empty() {
                return;
            }
            crate::pace::sleep(50_000_000);
        }
    }
}

/// Whether one of these workers, not waited for yet, died; all stay to be waited for.
pub(super) fn one_died(pids: &[u32]) -> bool {
    pids.iter().any(|&pid| {
        // SAFETY: siginfo_t is plain numbers, for which zeros are a value; the kernel fills it.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: info may be written; a worker that was waited for is no child any more: ECHILD.
        let known = unsafe { libc::waitid(libc::P_PID, pid, &mut info, flags) } == 0;
        // SAFETY: waitid filled these fields, or they are zero.
        known && info.si_signo == libc::SIGCHLD && unsafe { info.si_status() } != 0
    })
}

/// How a worker died, when it did not end by itself.
fn died(pid: libc::pid_t, status: i32) -> Option<String> {
    if libc::WIFSIGNALED(status) {
        let signal = libc::WTERMSIG(status);
        let why = match signal {
            libc::SIGBUS => " (SIGBUS: a page of a mapping could not be read: the file was cut short, the file system is full, or its device failed)",
            libc::SIGKILL => " (SIGKILL: killed from outside, perhaps for want of memory; see dmesg)",
            libc::SIGSEGV => " (SIGSEGV: a fault in plumb load itself)",
            _ => "",
        };
        return Some(format!(
            "worker process {pid} was ended by signal {signal}{why}; the figures would miss its part"
        ));
    }
    match libc::WEXITSTATUS(status) {
        0 => None,
        code => Some(format!("worker process {pid} ended with code {code}, in the middle")),
    }
}

/// A worker process: as many threads as the job asks for, then the end.
fn child(common: &Common<'_>, job: &crate::job::Job, whos: &[Who], parent: libc::pid_t) -> ! {
    // SAFETY: plain calls; the worker must not outlive the run, and Ctrl-C is the run's to answer.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent {
            libc::_exit(1);
        }
        plumb_machine::signals::ignore();
    }
    let ended = catch_unwind(AssertUnwindSafe(|| match whos {
        [who] => worker::live(common, *who, job),
        many => std::thread::scope(|scope| {
            for who in many {
                let spawned = std::thread::Builder::new()
                    .stack_size(256 << 10)
                    .spawn_scoped(scope, move || worker::live(common, *who, job));
                if let Err(e) = spawned {
                    // SAFETY: no thread sits on this seat.
                    let seat = unsafe { common.board.seat_mut(who.seat) };
                    seat.say(&format!("cannot start another thread: {e}; use fewer --threads"));
                    common.board.head().ready.fetch_add(1, AcqRel);
                }
            }
        }),
    }));
    // SAFETY: no destructor of the parent's may run in this process.
    unsafe { libc::_exit(if ended.is_ok() { 0 } else { 101 }) }
}
