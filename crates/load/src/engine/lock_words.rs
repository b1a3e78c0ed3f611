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

/// futex(2), not private: the word is shared between processes. What it
/// returns says nothing that the word does not.
fn futex(word: &AtomicU32, call: libc::c_int, value: u32) {
    let none = std::ptr::null::<libc::timespec>();
    // SAFETY: the word lives as long as the call does.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), call, value, none) };
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
    fn a_spinning_lock_excludes() {
        excludes(spin_lock, spin_unlock);
    }
}
