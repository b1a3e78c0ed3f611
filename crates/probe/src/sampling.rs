// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sampling clock: one perf event a CPU, whose tick runs a BPF program.

use anyhow::{bail, Context, Result};
use libbpf_rs::{Link, ProgramMut};
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::str::FromStr;

/// Highest rate that the kernel takes, ticks a second.
const MAX_RATE: &str = "/proc/sys/kernel/perf_event_max_sample_rate";

/// When samples are taken. Written `199` or `199Hz`, `3000c`, `off` or `0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    Off,
    /// So many times a second of CPU time.
    Rate(u64),
    /// Once in so many CPU cycles; needs a PMU.
    Cycles(u64),
}

impl Sampling {
    /// Samples a second; 0 where there are none, or where that depends on the CPU's speed.
    pub fn hz(self) -> u64 {
        match self {
            Self::Rate(hz) => hz,
            Self::Off | Self::Cycles(_) => 0,
        }
    }
}

impl FromStr for Sampling {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let lower = text.to_ascii_lowercase();
        if lower == "off" {
            return Ok(Self::Off);
        }
        let (digits, cycles) = match lower.strip_suffix('c') {
            Some(digits) => (digits, true),
            None => (lower.strip_suffix("hz").unwrap_or(&lower), false),
        };
        // u64's own parser also takes a sign.
        let number = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<u64>().ok()).flatten();
        match (number, cycles) {
            (Some(0), false) => Ok(Self::Off),
            (Some(hz), false) => Ok(Self::Rate(hz)),
            (Some(0), true) => bail!("0 cycles are no period; 'off' takes no samples"),
            (Some(cycles), true) => Ok(Self::Cycles(cycles)),
            (None, _) => bail!(
                "'{text}' is no sampling clock; give a rate such as 199 or 199Hz, a number of CPU cycles such as 3000000c, or off"
            ),
        }
    }
}

impl fmt::Display for Sampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Rate(hz) => write!(f, "{hz}Hz"),
            Self::Cycles(n) => write!(f, "{n}c"),
        }
    }
}

/// A clock that this machine has. In a trace's metadata: `cpu-clock 199 Hz`, `cycles 199 Hz`,
/// `every 3000 cycles`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    cycles: bool,
    sampling: Sampling,
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.sampling, self.cycles) {
            (Sampling::Off, _) => Ok(()),
            (Sampling::Rate(hz), true) => write!(f, "cycles {hz} Hz"),
            (Sampling::Rate(hz), false) => write!(f, "cpu-clock {hz} Hz"),
            (Sampling::Cycles(n), _) => write!(f, "every {n} cycles"),
        }
    }
}

/// Cycles of a CPU in a second at most, as far as buffers go.
const FASTEST: u64 = 4_000_000_000;

impl Clock {
    /// Ticks of a CPU in a second, as far as it is known before.
    pub fn most_hz(self) -> u64 {
        match self.sampling {
            Sampling::Off => 0,
            Sampling::Rate(hz) => hz,
            Sampling::Cycles(n) => FASTEST / n.max(1),
        }
    }

    /// The clock for `sampling`: CPU cycles where every CPU that is online can count and
    /// interrupt by them, otherwise the kernel's timer. `None` when none is wanted.
    ///
    /// # Errors
    /// A rate above what the kernel takes, cycles without a PMU, no permission.
    pub fn choose(sampling: Sampling, cpus: u32) -> Result<Option<Self>> {
        let max = std::fs::read_to_string(MAX_RATE).ok().and_then(|t| t.trim().parse().ok());
        check_rate(sampling, max)?;
        if sampling == Sampling::Off {
            return Ok(None);
        }
        let cycles = Self { cycles: true, sampling };
        match ((0..cpus).try_for_each(|cpu| cycles.open(cpu).map(drop)), sampling) {
            (Ok(()), _) => Ok(Some(cycles)),
            // Whatever the reason, the timer may work; where it does not, its start tells why.
            (Err(_), Sampling::Rate(_)) => Ok(Some(Self { cycles: false, ..cycles })),
            (Err(e), _) => Err(without_pmu(e, sampling)),
        }
    }

    /// An event of a CPU; none where the CPU is offline.
    fn open(self, cpu: u32) -> io::Result<Option<OwnedFd>> {
        let (period, flags) = match self.sampling {
            Sampling::Rate(hz) => (hz, FREQ),
            Sampling::Cycles(n) => (n, 0),
            Sampling::Off => return Ok(None),
        };
        let (kind, config) = if self.cycles { (HARDWARE, CPU_CYCLES) } else { (SOFTWARE, CPU_CLOCK) };
        let size = size_of::<Attr>() as u32;
        let attr = Attr { kind, size, config, period, flags, ..Attr::default() };
        // SAFETY: attr is valid for its size; the call returns a descriptor or -1.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attr,
                -1,
                cpu as i32,
                -1,
                8, /* CLOEXEC */
            )
        };
        if fd < 0 {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(libc::ENODEV) { Ok(None) } else { Err(error) };
        }
        // SAFETY: a descriptor of our own, just opened.
        Ok(Some(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }
}

/// `max`: the kernel's highest rate, where it is known.
fn check_rate(sampling: Sampling, max: Option<u64>) -> Result<()> {
    match (sampling, max) {
        (Sampling::Rate(hz), Some(max)) if hz > max => bail!(
            "--sample {hz}: this kernel takes at most {max} samples a second ({MAX_RATE}, which it lowers itself \
             when samples take too long); give less, or raise that"
        ),
        _ => Ok(()),
    }
}

fn without_pmu(e: io::Error, sampling: Sampling) -> anyhow::Error {
    match e.raw_os_error() {
        // perf_event_open(2): no such event, no interrupt of it, no such PMU.
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENXIO) => anyhow::anyhow!(
            "--sample {sampling}: the CPUs of this machine offer no counter of cycles that interrupts (no PMU, as in \
             most virtual machines); give a rate such as 199Hz, which the kernel's timer can do"
        ),
        _ => anyhow::Error::new(e)
            .context(format!("--sample {sampling} (perf_event_open of CPU cycles); give a rate such as 199Hz, or off")),
    }
}

/// The head of struct perf_event_attr, include/uapi/linux/perf_event.h; the
/// kernel takes what is missing as zero.
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    /// sample_period, or with FREQ sample_freq
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

/// PERF_TYPE_HARDWARE
const HARDWARE: u32 = 0;
/// PERF_COUNT_HW_CPU_CYCLES
const CPU_CYCLES: u64 = 0;
/// PERF_TYPE_SOFTWARE
const SOFTWARE: u32 = 1;
/// PERF_COUNT_SW_CPU_CLOCK
const CPU_CLOCK: u64 = 0;
/// Bit `freq` of the flags: the period is a rate.
const FREQ: u64 = 1 << 10;

/// A clock on every CPU that is online; they tick until they are dropped.
#[derive(Debug)]
pub struct Clocks {
    _links: Vec<Link>,
    /// The links' perf events.
    events: Vec<RawFd>,
}

/// PERF_EVENT_IOC_ENABLE, PERF_EVENT_IOC_DISABLE: include/uapi/linux/perf_event.h
const ENABLE: libc::c_ulong = 0x2400;
const DISABLE: libc::c_ulong = 0x2401;

impl Clocks {
    /// Starts them.
    ///
    /// # Errors
    /// The kernel refuses perf events (kernel.perf_event_paranoid, a container).
    pub fn start(program: &ProgramMut<'_>, clock: Clock, cpus: u32) -> Result<Self> {
        let (mut links, mut events) = (Vec::new(), Vec::new());
        for cpu in 0..cpus {
            let event = clock.open(cpu);
            let event =
                event.context("the sampling clock (perf_event_open); --sample off does without it")?;
            let Some(event) = event else { continue };
            links.push(program.attach_perf_event(event.as_raw_fd()).context("attach the sampling program")?);
            // The link closes it from here on.
            events.push(event.into_raw_fd());
        }
        Ok(Self { _links: links, events })
    }

    /// Goes on, or stops for a while. Opening them anew would take privileges that the recorder has given up.
    pub fn tick(&self, on: bool) {
        for event in &self.events {
            // SAFETY: a descriptor that a link keeps open as long as self lives; the call has no memory.
            unsafe { libc::ioctl(*event, if on { ENABLE } else { DISABLE }, 0) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_for_a_clock() {
        let parse = |text: &str| text.parse::<Sampling>();
        for (text, is) in [
            ("199", Sampling::Rate(199)),
            ("199Hz", Sampling::Rate(199)),
            ("99hz", Sampling::Rate(99)),
            ("0", Sampling::Off),
            ("off", Sampling::Off),
            ("3000c", Sampling::Cycles(3000)),
        ] {
            assert_eq!(parse(text).expect(text), is);
            assert_eq!(parse(&is.to_string()).expect("what it prints"), is);
        }
        for text in ["", "c", "0c", "Hz", "-1", "+5", "1.5", "199 Hz", "199k", "99999999999999999999"] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains("off"), "{text}: {error}");
        }
    }

    #[test]
    fn a_rate_that_the_kernel_refuses_is_told_with_its_limit() {
        let error = check_rate(Sampling::Rate(2001), Some(2000)).expect_err("too high").to_string();
        assert!(error.contains("2000") && error.contains(MAX_RATE), "{error}");
        check_rate(Sampling::Rate(2000), Some(2000)).expect("the limit itself");
        check_rate(Sampling::Cycles(3000), Some(2000)).expect("no rate");
        check_rate(Sampling::Rate(9), None).expect("no limit is known");
    }

    #[test]
    fn a_clock_is_told_in_words() {
        let clock = |cycles, sampling| Clock { cycles, sampling }.to_string();
        assert_eq!(clock(false, Sampling::Rate(199)), "cpu-clock 199 Hz");
        assert_eq!(clock(true, Sampling::Rate(199)), "cycles 199 Hz");
        assert_eq!(clock(true, Sampling::Cycles(3000)), "every 3000 cycles");
    }

    #[test]
    fn a_machine_without_a_pmu_says_so() {
        let error =
            without_pmu(io::Error::from_raw_os_error(libc::ENOENT), Sampling::Cycles(3000)).to_string();
        assert!(error.contains("PMU") && error.contains("3000c"), "{error}");
    }
}
