// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waiting until a moment as exactly as an ordinary kernel allows: an absolute deadline on
//! CLOCK_MONOTONIC, no timer slack, real-time priority where that is allowed, and the
//! last microseconds awake.

use plumb_machine::clock::now as monotonic;
use std::sync::atomic::{AtomicU32, Ordering};

/// The longest time that a wait's end is spent awake, ns: about what a wake-up takes on a
/// virtual machine. More would only take the CPU from who waits for the reply.
const SPIN_MOST: u64 = 40_000;
/// The shortest, ns.
const SPIN_LEAST: u64 = 2_000;

/// Wakes the one that waits at [`Waiter::until`] before its time.
#[derive(Default)]
pub(super) struct Bell(AtomicU32);

impl Bell {
    /// What [`Waiter::until`] compares with; read under the lock that guards the deadline.
    pub(super) fn seen(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Who waits since before this looks again.
    pub(super) fn ring(&self) {
        self.0.fetch_add(1, Ordering::Release);
        // SAFETY: the word lives as long as self; FUTEX_WAKE does not touch it.
        unsafe {
            libc::syscall(libc::SYS_futex, self.0.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1)
        };
    }

    /// Sleeps until it rings, or until the moment (CLOCK_MONOTONIC, ns), or for no reason.
    fn sleep(&self, seen: u32, moment: Option<u64>) {
        let time = moment.map(|ns| libc::timespec {
            tv_sec: (ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (ns % 1_000_000_000) as libc::c_long,
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the word and the time outlive the call. FUTEX_WAIT_BITSET takes the time
        // as absolute, on CLOCK_MONOTONIC without FUTEX_CLOCK_REALTIME (futex(2)).
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG,
                seen,
                time,
                std::ptr::null::<u32>(),
                libc::FUTEX_BITSET_MATCH_ANY,
            )
        };
    }
}

/// How the calling thread waits.
pub(super) struct Waiter {
    /// Sleeps end so much before the moment, ns: how late sleeps ended of late.
    margin: u64,
}

impl Waiter {
    /// Makes the calling thread one that wakes on time, as far as it may.
    pub(super) fn new() -> Self {
        let param = libc::sched_param { sched_priority: 1 };
        // SAFETY: calls with plain numbers and a valid pointer. Where real-time priority is
        // not allowed, wake-ups are less exact; the calibration shows how exact.
        unsafe {
            libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize);
            libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &param);
        }
        Self { margin: SPIN_MOST / 2 }
    }

    /// Waits until the moment (CLOCK_MONOTONIC, ns; none: for ever), or until the bell
    /// rings. `seen` is [`Bell::seen`] of before the moment was chosen.
    pub(super) fn until(&mut self, bell: &Bell, seen: u32, moment: Option<u64>) {
        let Some(moment) = moment else { return bell.sleep(seen, None) };
        let alarm = moment.saturating_sub(self.margin);
        if monotonic() < alarm {
            bell.sleep(seen, Some(alarm));
            if bell.seen() != seen {
                return;
            }
            let now = monotonic();
            if now < alarm {
                // A signal, or nothing at all.
                return;
            }
            let late = now - alarm;
            // Up at once, down slowly: the margin is about the worst of the last 30.
            self.margin = match late > self.margin {
                true => late,
                false => self.margin - (self.margin - late) / 32,
            }
            .clamp(SPIN_LEAST, SPIN_MOST);
        }
        while monotonic() < moment && bell.seen() == seen {
            std::hint::spin_loop();
        }
    }
}
