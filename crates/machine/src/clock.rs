// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's clocks.

use crate::{namespaces, Root};
use plumb_trace::schema::{StateClock, StateTimex};
use std::sync::LazyLock;

/// Reads one clock, ns.
#[inline]
pub fn of(id: libc::clockid_t) -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: ts is valid for writing.
    unsafe { libc::clock_gettime(id, &mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

/// What a time namespace puts this process's CLOCK_MONOTONIC ahead of the kernel's.
static AHEAD: LazyLock<i64> = LazyLock::new(|| namespaces::monotonic_ahead(&Root::real()));

/// The kernel's CLOCK_MONOTONIC, the trace's clock.
#[inline]
pub fn now() -> u64 {
    of(libc::CLOCK_MONOTONIC).wrapping_add_signed(-*AHEAD)
}

/// What the kernel's clock of ticks (jiffies) advances by, ns: the resolution of its coarse clocks (clock_getres(2)).
pub fn tick() -> u32 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: ts is valid for writing.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut ts) };
    ts.tv_nsec as u32
}

/// The three clocks together: of five tries the one with the least time between
/// the two MONOTONIC readings around it.
pub fn together() -> StateClock {
    (0..5)
        .map(|_| {
            let before = now();
            let (boottime, realtime) = (of(libc::CLOCK_BOOTTIME), of(libc::CLOCK_REALTIME));
            let after = now();
            (after - before, StateClock { monotonic: before + (after - before) / 2, boottime, realtime })
        })
        .min_by_key(|(width, _)| *width)
        .expect("five tries")
        .1
}

/// How the kernel's clock is steered; nothing where it does not tell (a sandbox).
pub fn steered() -> Option<StateTimex> {
    const NANO: i32 = 0x2000;
    // SAFETY: of all zeros it asks only, and changes nothing.
    let mut t: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: t is valid for writing.
    if unsafe { libc::adjtimex(&mut t) } < 0 {
        return None;
    }
    let offset = if t.status & NANO == 0 { t.offset.saturating_mul(1000) } else { t.offset };
    Some(StateTimex {
        frequency: t.freq,
        offset,
        max_error: t.maxerror.max(0) as u64,
        status: t.status as u32,
        tick: t.tick as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clocks_agree() {
        let c = together();
        assert!(c.boottime >= c.monotonic - 1_000_000 && c.realtime > c.boottime);
    }

    #[test]
    fn the_kernel_tells_how_its_clock_is_steered() {
        let t = steered().expect("asking needs no privilege");
        // It takes 500 ppm at most: kernel/time/ntp.c: MAXFREQ. A tick is 10 ms or shorter.
        assert!(t.frequency.abs() <= 500 << 16 && (900..=11_000).contains(&t.tick), "{t:?}");
    }
}
