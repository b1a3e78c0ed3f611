// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Locks of one word, in memory that processes share.

use std::sync::atomic::{AtomicU32, Ordering};

/// States of a futex lock: free; taken; taken, and someone may sleep for it.
const FREE: u32 = 0;
const TAKEN: u32 = 1;
const AWAITED: u32 = 2;

/// Takes a lock of three states (U. Drepper, "Futexes Are Tricky", 2011, mutex 2).
#[inline(always)]
pub(super) fn futex_lock(word: &AtomicU32) {
    if word.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err() {
        wait(word);
    }
}

/// Spins this many times before it sleeps, as glibc's PTHREAD_MUTEX_ADAPTIVE_NP does at most.
const LOOKS: u32 = 100;

/// Takes a futex lock that spins for a while before it sleeps; [`futex_unlock`] gives it back.
#[inline(always)]
pub(super) fn adaptive_lock(word: &AtomicU32) {
    for _ in 0..LOOKS {
        if word.load(Ordering::Relaxed) == FREE
            && word.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            return;
        }
        std::hint::spin_loop();
    }
    wait(word);
}

#[cold]
fn wait(word: &AtomicU32) {
    // Whoever slept cannot know whether others still do, so it takes the lock as awaited.
    while word.swap(AWAITED, Ordering::Acquire) != FREE {
        futex(word, libc::FUTEX_WAIT, AWAITED);
    }
}

/// Gives it back; enters the kernel only when someone may sleep.
#[inline(always)]
pub(super) fn futex_unlock(word: &AtomicU32) {
    if word.swap(FREE, Ordering::Release) == AWAITED {
        futex(word, libc::FUTEX_WAKE, 1);
    }
}

/// A lock whose waiters sleep on an event of their own, and are moved to the lock when it is given back, as those of a
/// condition variable were by glibc before 2.25.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Monitor {
    word: AtomicU32,
    /// Rises with each time that somebody who may be awaited gives the lock back.
    event: AtomicU32,
}

/// Takes it; sleeps until the next event where it is taken.
#[inline(always)]
pub(super) fn requeue_lock(lock: &Monitor) {
    if lock.word.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err() {
        wait_for_event(lock);
    }
}

#[cold]
fn wait_for_event(lock: &Monitor) {
    loop {
        let seen = lock.event.load(Ordering::Acquire);
        if lock.word.swap(AWAITED, Ordering::Acquire) == FREE {
            return;
        }
        // Whoever gives it back after the swap raises the event first: then this does not sleep.
        futex(&lock.event, libc::FUTEX_WAIT, seen);
    }
}

/// Gives it back; where somebody may wait one is woken, and those behind that one sleep on for the lock.
#[inline(always)]
pub(super) fn requeue_unlock(lock: &Monitor) {
    if lock.word.swap(FREE, Ordering::Release) == AWAITED {
        wake_and_requeue(lock);
    }
}

#[cold]
fn wake_and_requeue(lock: &Monitor) {
    // Those that were moved before have waited longest.
    if futex(&lock.word, libc::FUTEX_WAKE, 1) > 0 {
        return;
    }
    loop {
        let now = lock.event.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        // SAFETY: both words live as long as the call does.
        let moved = unsafe {
            let (from, to) = (lock.event.as_ptr(), lock.word.as_ptr());
            libc::syscall(libc::SYS_futex, from, libc::FUTEX_CMP_REQUEUE, 1, i32::MAX as usize, to, now)
        };
        // Somebody else raised the event meanwhile: it is done again.
        if moved >= 0 || super::errno() != libc::EAGAIN {
            return;
        }
    }
}

/// futex(2), not private: the word is shared between processes. What it
/// returns says of a wait nothing that the word does not.
fn futex(word: &AtomicU32, call: libc::c_int, value: u32) -> libc::c_long {
    let none = std::ptr::null::<libc::timespec>();
    // SAFETY: the word lives as long as the call does.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), call, value, none) }
}

/// Takes a lock by looking until it is free (test and test-and-set). With
/// more workers than CPUs it spins away whole time slices: that is its nature.
#[inline(always)]
pub(super) fn spin_lock(word: &AtomicU32) {
    while word.swap(TAKEN, Ordering::Acquire) != FREE {
        while word.load(Ordering::Relaxed) != FREE {
            std::hint::spin_loop();
        }
    }
}

#[inline(always)]
pub(super) fn spin_unlock(word: &AtomicU32) {
    word.store(FREE, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::super::testing::Watchdog;
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    /// While it is taken nobody else gets it; then all do, one after the other.
    fn excludes(lock: fn(&AtomicU32), unlock: fn(&AtomicU32)) {
        let _watchdog = Watchdog::new();
        let (word, got, inside) = (AtomicU32::new(FREE), AtomicUsize::new(0), AtomicUsize::new(0));
        lock(&word);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    lock(&word);
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
                    got.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(5));
                    inside.fetch_sub(1, Ordering::SeqCst);
                    unlock(&word);
                });
            }
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(got.load(Ordering::SeqCst), 0, "it was taken");
            unlock(&word);
        });
        assert_eq!(got.load(Ordering::SeqCst), 3);
        assert_eq!(word.load(Ordering::SeqCst), FREE);
    }

    #[test]
    fn a_futex_excludes_and_wakes() {
        excludes(futex_lock, futex_unlock);
    }

    #[test]
    fn a_lock_that_spins_first_excludes_and_wakes() {
        excludes(adaptive_lock, futex_unlock);
    }

    #[test]
    fn a_lock_that_moves_its_waiters_excludes_and_wakes_all() {
        static LOCK: Monitor = Monitor { word: AtomicU32::new(FREE), event: AtomicU32::new(0) };
        let _watchdog = Watchdog::new();
        static INSIDE: AtomicUsize = AtomicUsize::new(0);
        requeue_lock(&LOCK);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        requeue_lock(&LOCK);
                        assert_eq!(INSIDE.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
                        std::thread::yield_now();
                        INSIDE.fetch_sub(1, Ordering::SeqCst);
                        requeue_unlock(&LOCK);
                    }
                });
            }
            // All of them sleep by then.
            std::thread::sleep(Duration::from_millis(50));
            requeue_unlock(&LOCK);
        });
        assert_eq!(LOCK.word.load(Ordering::SeqCst), FREE);
    }

    #[test]
    fn a_spinning_lock_excludes() {
        excludes(spin_lock, spin_unlock);
    }
}
