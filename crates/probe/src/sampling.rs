// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sampling clock: one perf event a CPU, whose tick runs a BPF program.

use anyhow::{Context, Result};
use libbpf_rs::{Link, ProgramMut};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

/// The head of struct perf_event_attr, include/uapi/linux/perf_event.h; the
/// kernel takes what is missing as zero.
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_freq: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

/// PERF_TYPE_SOFTWARE
const SOFTWARE: u32 = 1;
/// PERF_COUNT_SW_CPU_CLOCK
const CPU_CLOCK: u64 = 0;
/// Bit `freq` of the flags: sample_freq is a rate, not a period.
const FREQ: u64 = 1 << 10;

/// A clock on every CPU that is online; they tick until they are dropped.
#[derive(Debug)]
pub struct Clocks {
    _links: Vec<Link>,
}

impl Clocks {
    /// Starts them at `hz` ticks a second of CPU time.
    ///
    /// # Errors
    /// The kernel refuses perf events (kernel.perf_event_paranoid, a container).
    pub fn start(program: &ProgramMut<'_>, hz: u64, cpus: u32) -> Result<Self> {
        let attr = Attr {
            kind: SOFTWARE,
            size: size_of::<Attr>() as u32,
            config: CPU_CLOCK,
            sample_freq: hz,
            flags: FREQ,
            ..Attr::default()
        };
        let mut links = Vec::new();
        for cpu in 0..cpus {
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
                let error = std::io::Error::last_os_error();
                if error.raw_os_error() == Some(libc::ENODEV) {
                    continue; // offline
                }
                return Err(error)
                    .context("the sampling clock (perf_event_open); --sample 0 does without it");
            }
            // SAFETY: a descriptor of our own, just opened.
            let event = unsafe { OwnedFd::from_raw_fd(fd as i32) };
            links.push(program.attach_perf_event(event.as_raw_fd()).context("attach the sampling program")?);
            // The link closes it from here on.
            let _ = event.into_raw_fd();
        }
        Ok(Self { _links: links })
    }
}
