// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What recording an event costs on this machine.

use crate::load::{self, Knobs, Loaded};
use crate::select::Selection;
use anyhow::Result;
use plumb_machine::{host, Root};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// Measures what each event costs: records `selection` in memory for
/// `seconds` while the kernel keeps run-time statistics of BPF programs.
///
/// # Errors
/// As [`crate::record`], or a kernel without BPF statistics.
pub fn measure_costs(
    selection: &Selection,
    seconds: u64,
    mut stimulus: impl FnMut(),
) -> Result<Vec<(String, u64, u64)>> {
    let cpus = host::possible_cpus(&Root::real());
    let (events, _) = load::resolve(selection)?;
    // SAFETY: returns a descriptor or an error.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    anyhow::ensure!(
        fd >= 0,
        "the kernel keeps no run-time statistics of BPF programs (before 5.8, or no permission)"
    );
    let knobs = Knobs { ring_bytes: 1 << 20, everyone: true, apart: true, ..Default::default() };
    let mut object = MaybeUninit::uninit();
    let mut loaded = Loaded::load(&mut object, &events, selection, &knobs, cpus)?;
    loaded.attach()?;
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        stimulus();
    }
    let costs = loaded.costs();
    loaded.detach();
    // SAFETY: our own descriptor, used for nothing else.
    unsafe { libc::close(fd) };
    Ok(costs)
}
