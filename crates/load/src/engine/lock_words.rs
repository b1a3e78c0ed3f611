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

/// Gives it back.
#[inline(always)]
pub(super) fn spin_unlock(word: &AtomicU32) {
    word.store(FREE, Ordering::Release);
}
