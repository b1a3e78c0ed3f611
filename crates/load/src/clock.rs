// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clock that operations are timed with: the time stamp counter where the
//! kernel itself keeps time by it, else CLOCK_MONOTONIC. Either way the figures
//! are nanoseconds that can be laid beside a trace's.

use plumb_machine::clock::now as monotonic;
use std::time::Duration;

const SHIFT: u32 = 32;
const SPAN: Duration = Duration::from_millis(40);
/// A counter that is further from the kernel's time than this just after the
/// calibration was not steady meanwhile (a guest that was moved, for one).
const TRUSTED_PPM: f64 = 200.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Tsc,
    Monotonic,
}

/// A calibrated clock; a plain value, so that a forked worker has its own.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    source: Source,
    mult: u64,
    base_raw: u64,
    base_ns: u64,
    cost_ns: f64,
    resolution_ns: u64,
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn counter() -> u64 {
    // SAFETY: rdtsc is in every x86-64 CPU; the kernel forbids it only where
    // prctl(PR_SET_TSC) was asked to.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn counter() -> u64 {
    monotonic()
}

/// Whether the kernel trusts the counter: it keeps time by it, or (a KVM guest)
/// by a page that only scales it, on a CPU whose counter neither changes its
/// rate nor stops.
fn trusted() -> bool {
    if cfg!(not(target_arch = "x86_64")) {
        return false;
    }
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    trusted_by(
        read("/sys/devices/system/clocksource/clocksource0/current_clocksource").trim(),
        &read("/proc/cpuinfo"),
    )
}

fn trusted_by(current: &str, cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|l| l.starts_with("flags")).unwrap_or_default();
    let has = |flag| flags.split_whitespace().any(|f| f == flag);
    current == "tsc" || (current == "kvm-clock" && has("constant_tsc") && has("nonstop_tsc"))
}

/// One instant on both clocks: of some tries, the one whose reading of the
/// kernel's clock took the fewest ticks, in the middle of these.
fn both() -> (u64, u64) {
    (0..50)
        .map(|_| {
            let before = counter();
            let ns = monotonic();
            let took = counter().saturating_sub(before);
            (took, before + took / 2, ns)
        })
        .min()
        .map_or((0, 0), |(_, raw, ns)| (raw, ns))
}

impl Clock {
    /// Chooses the source and measures it; takes up to 60 ms.
    pub fn calibrate() -> Self {
        let mut clock = if trusted() { Self::tsc() } else { None }.unwrap_or_else(Self::kernel);
        clock.measure();
        clock
    }

    /// CLOCK_MONOTONIC itself.
    fn kernel() -> Self {
        let source = Source::Monotonic;
        Self { source, mult: 0, base_raw: 0, base_ns: monotonic(), cost_ns: 0.0, resolution_ns: 1 }
    }

    fn tsc() -> Option<Self> {
        let (raw0, ns0) = both();
        std::thread::sleep(SPAN);
        let (raw1, ns1) = both();
        let ticks = raw1.checked_sub(raw0).filter(|&t| t > 0)?;
        let mult = u64::try_from((u128::from(ns1 - ns0) << SHIFT) / u128::from(ticks)).ok()?;
        let clock =
            Self { source: Source::Tsc, mult, base_raw: raw1, base_ns: ns1, cost_ns: 0.0, resolution_ns: 1 };
        std::thread::sleep(SPAN / 8);
        let (raw2, ns2) = both();
        let off = clock.ns_of(raw2) as f64 - ns2 as f64;
        (off.abs() / (ns2 - ns1).max(1) as f64 * 1e6 < TRUSTED_PPM).then_some(clock)
    }

    fn measure(&mut self) {
        const CALLS: u32 = 4000;
        let begin = monotonic();
        for _ in 0..CALLS {
            std::hint::black_box(self.now());
        }
        self.cost_ns = (monotonic() - begin) as f64 / f64::from(CALLS);
        let mut step = u64::MAX;
        let mut last = self.now();
        for _ in 0..CALLS {
            let now = self.now();
            if now > last {
                step = step.min(now - last);
            }
            last = now;
        }
        self.resolution_ns = if step == u64::MAX { 1 } else { step };
    }

    /// Nanoseconds, comparable with CLOCK_MONOTONIC.
    ///
    /// rdtsc is taken without a fence. The CPU may move it by some tens of
    /// instructions, but not across the system call that is timed: entering
    /// and leaving the kernel drains the pipeline or costs far more than the
    /// shift, and a fence would cost more than the error that it removes.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        match self.source {
            Source::Tsc => self.ns_of(counter()),
            Source::Monotonic => monotonic(),
        }
    }

    /// The source's own figure: ticks of the counter, or nanoseconds.
    #[inline(always)]
    pub fn raw(&self) -> u64 {
        match self.source {
            Source::Tsc => counter(),
            Source::Monotonic => monotonic(),
        }
    }

    /// What `raw` gave, as nanoseconds.
    #[inline(always)]
    pub fn ns_of(&self, raw: u64) -> u64 {
        match self.source {
            Source::Tsc => {
                // Another CPU's counter may be a few ticks behind the base.
                let ticks = raw.saturating_sub(self.base_raw);
                self.base_ns + ((u128::from(ticks) * u128::from(self.mult)) >> SHIFT) as u64
            }
            Source::Monotonic => raw,
        }
    }

    /// `tsc` or `clock_monotonic`.
    pub fn source(&self) -> &'static str {
        match self.source {
            Source::Tsc => "tsc",
            Source::Monotonic => "clock_monotonic",
        }
    }

    /// What one reading costs, in nanoseconds, measured at the calibration.
    pub fn cost_ns(&self) -> f64 {
        self.cost_ns
    }

    /// The smallest step between two readings in a row, in nanoseconds: at
    /// least the source's resolution, at most that and a reading's cost.
    pub fn resolution_ns(&self) -> u64 {
        self.resolution_ns
    }

    /// How far this clock went from CLOCK_MONOTONIC since the calibration, in
    /// parts per million of the time since; positive: this one is fast. What
    /// NTP does to CLOCK_MONOTONIC meanwhile is in it. 0 for CLOCK_MONOTONIC.
    pub fn drift_ppm_since(&self) -> f64 {
        if self.source == Source::Monotonic {
            return 0.0;
        }
        let (raw, ns) = both();
        let elapsed = ns.saturating_sub(self.base_ns).max(1);
        (self.ns_of(raw) as f64 - ns as f64) / elapsed as f64 * 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_kernels_clock() {
        let clock = Clock::calibrate();
        std::thread::sleep(Duration::from_millis(50));
        // 1,000 ppm is far above what a sound calibration leaves and far
        // below what a wrong rate or base would show.
        assert!(clock.drift_ppm_since().abs() < 1000.0, "{} ppm", clock.drift_ppm_since());
        let (before, now, after) = (monotonic(), clock.now(), monotonic());
        assert!(now + 1_000_000 > before && now < after + 1_000_000, "{before} {now} {after}");
        assert!(clock.cost_ns() > 0.0 && clock.resolution_ns() > 0);
    }

    #[test]
    fn never_goes_back_in_one_thread() {
        let clock = Clock::calibrate();
        let mut last = 0;
        for _ in 0..100_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn the_kernels_clock_is_used_as_it_is() {
        let mut clock = Clock::kernel();
        clock.measure();
        assert_eq!(clock.source(), "clock_monotonic");
        assert_eq!(clock.ns_of(12345), 12345);
        let (before, now, after) = (monotonic(), clock.now(), monotonic());
        assert!((before..=after).contains(&now));
        assert_eq!(clock.drift_ppm_since(), 0.0);
    }

    #[test]
    fn ticks_become_nanoseconds_at_the_measured_rate() {
        let clock = Clock {
            source: Source::Tsc,
            mult: 1 << (SHIFT - 1),
            base_raw: 1000,
            base_ns: 5000,
            cost_ns: 0.0,
            resolution_ns: 1,
        };
        assert_eq!((clock.ns_of(1010), clock.ns_of(1000), clock.ns_of(990)), (5005, 5000, 5000));
        // Ten years at 4 GHz do not overflow.
        let ticks = 10 * 365 * 86_400 * 4_000_000_000;
        assert_eq!(clock.ns_of(1000 + ticks), 5000 + ticks / 2);
    }

    #[test]
    fn the_counter_is_used_only_where_the_kernel_trusts_it() {
        let steady = "processor: 0\nflags\t\t: fpu constant_tsc nonstop_tsc\n";
        assert!(trusted_by("tsc", ""));
        assert!(trusted_by("kvm-clock", steady));
        assert!(!trusted_by("kvm-clock", "flags : fpu constant_tsc\n"));
        assert!(!trusted_by("hpet", steady));
        assert!(!trusted_by("", steady));
    }
}
