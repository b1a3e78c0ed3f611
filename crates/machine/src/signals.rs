// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SIGINT, SIGTERM and SIGHUP: Ctrl-C and kill end what is under way, not the program. Either a handler
//! notes them ([`catch`]), or a thread waits for them ([`on_each`]); a child that another process ends
//! ignores them ([`ignore`]).

use anyhow::{Context, Result};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

/// What asks a program to end.
const ENDING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Asks something that runs to end, once or several times.
#[derive(Debug, Default)]
pub struct Stop {
    times: AtomicU32,
    /// The signal that asked last; 0 for none.
    signal: AtomicI32,
}

impl Stop {
    /// A stop that nobody has asked for.
    pub const fn new() -> Self {
        Self { times: AtomicU32::new(0), signal: AtomicI32::new(0) }
    }

    /// May be called in a signal handler.
    pub fn ask(&self) {
        self.times.fetch_add(1, Ordering::Release);
    }

    /// As [`Self::ask`], because of a signal.
    fn ask_by(&self, signal: libc::c_int) {
        self.signal.store(signal, Ordering::Relaxed);
        self.ask();
    }

    /// How many times it was asked for.
    pub fn times(&self) -> u32 {
        self.times.load(Ordering::Acquire)
    }

    /// What a command is to be ended with: SIGTERM where that asked last, else SIGINT; many reload by SIGHUP.
    pub fn signal(&self) -> libc::c_int {
        match self.signal.load(Ordering::Relaxed) {
            libc::SIGTERM => libc::SIGTERM,
            _ => libc::SIGINT,
        }
    }
}

static STOP: Stop = Stop::new();
static ASKED: AtomicBool = AtomicBool::new(false);
/// Descriptor of the process that signals are passed on to; -1 for none.
static HEIR: AtomicI32 = AtomicI32::new(-1);
/// Both ends of a pipe that a signal writes to, so that none comes between a look at [`stopped`] and a
/// wait; -1 before.
static WAKE: [AtomicI32; 2] = [AtomicI32::new(-1), AtomicI32::new(-1)];

/// What becomes of a system call that a signal comes into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// It goes on.
    Restart,
    /// It ends with EINTR: who waits in it looks whether it is to stop.
    Interrupt,
}

extern "C" fn on_signal(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    STOP.ask_by(signal);
    ASKED.store(true, Ordering::Release);
    let (heir, wake) = (HEIR.load(Ordering::Acquire), WAKE[1].load(Ordering::Acquire));
    // SAFETY: the kernel hands a valid siginfo to a handler that asked for one; the system calls
    // are async-signal-safe, and errno is left as it was. The terminal sends its signals to a
    // child of our own group itself (si_code > 0).
    unsafe {
        let errno = *libc::__errno_location();
        if heir >= 0 && (*info).si_code <= 0 {
            libc::syscall(libc::SYS_pidfd_send_signal, heir, signal, std::ptr::null::<libc::c_void>(), 0);
        }
        if wake >= 0 {
            libc::write(wake, [0u8].as_ptr().cast(), 1);
        }
        *libc::__errno_location() = errno;
    }
}

/// From now on they only ask to stop, see [`stop`], [`asked`] and [`stopped`].
pub fn catch(calls: Calls) {
    let restart = if calls == Calls::Restart { libc::SA_RESTART } else { 0 };
    for signal in ENDING {
        // SAFETY: the handler has the signature that SA_SIGINFO asks for.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | restart;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// As [`catch`] with calls that go on; [`wake`] becomes readable with the first one.
///
/// # Errors
/// No pipe can be made.
pub fn catch_and_wake() -> Result<()> {
    let (read, write) = pipe(libc::O_NONBLOCK)?;
    // Both live as long as the program.
    WAKE[0].store(read.into_raw_fd(), Ordering::Release);
    WAKE[1].store(write.into_raw_fd(), Ordering::Release);
    catch(Calls::Restart);
    Ok(())
}

/// What counts how often they came.
pub fn stop() -> &'static Stop {
    &STOP
}

/// What says whether one came.
pub fn asked() -> &'static AtomicBool {
    &ASKED
}

/// Whether one came.
pub fn stopped() -> bool {
    ASKED.load(Ordering::Acquire)
}

/// A descriptor that is readable once one came, see [`catch_and_wake`]; -1, which poll(2) passes over, before.
pub fn wake() -> i32 {
    WAKE[0].load(Ordering::Acquire)
}

/// Passes those that do not come from the terminal on to this process from now on; None: to nobody.
pub fn pass_on_to(pidfd: Option<&OwnedFd>) {
    HEIR.store(pidfd.map_or(-1, AsRawFd::as_raw_fd), Ordering::Release);
}

/// In a copy of this process: what asked the original to stop has not asked the copy, which is neither to pass
/// signals on nor to wake the original.
pub fn forget() {
    STOP.times.store(0, Ordering::Release);
    STOP.signal.store(0, Ordering::Release);
    ASKED.store(false, Ordering::Release);
    HEIR.store(-1, Ordering::Release);
    WAKE.iter().for_each(|end| end.store(-1, Ordering::Release));
}

/// Ignores them from now on: another process answers them, and ends this one.
pub fn ignore() {
    for signal in ENDING {
        // SAFETY: a call with plain numbers.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Starts a thread that calls `told` with the number of each that comes. To be called before any other thread
/// is started, which would take the signals. Children begin with an empty mask: the standard library sees to that.
///
/// # Errors
/// No thread can be started.
pub fn on_each(told: impl FnMut(i32) + Send + 'static) -> Result<()> {
    wait_for(&ENDING, told)
}

/// As [`on_each`] for SIGHUP alone, which then does not ask to end: a daemon reads its file again.
///
/// # Errors
/// No thread can be started.
pub fn on_hangup(mut told: impl FnMut() + Send + 'static) -> Result<()> {
    wait_for(&[libc::SIGHUP], move |_| told())
}

fn wait_for(signals: &[libc::c_int], mut told: impl FnMut(i32) + Send + 'static) -> Result<()> {
    // SAFETY: the set is plain data, filled before it is used.
    let signals = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in signals {
            libc::sigaddset(&mut set, *signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        set
    };
    let wait = move || loop {
        let mut signal = 0;
        // SAFETY: both pointers are valid.
        unsafe { libc::sigwait(&signals, &mut signal) };
        told(signal);
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).context("thread")?;
    Ok(())
}

/// A pipe, closed at exec: the end to read, the end to write.
///
/// # Errors
/// The kernel's.
pub fn pipe(flags: libc::c_int) -> Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: ends has room for two descriptors, which are ours when the call succeeds.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | flags) != 0 {
            return Err(io::Error::last_os_error()).context("a pipe");
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}
