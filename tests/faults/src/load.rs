// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loads: what runs inside of the target and nothing else.
//!
//! Each does `ops` times some useful work on the CPU and one operation that the fault makes
//! expensive. Without the fault it does the same useful work.

pub mod cpu;
pub mod disk;
pub mod healthy;
pub mod ipc;
pub mod lock;
pub mod memory;

use crate::sys;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// How much of it. What `fault` means stands beside each fault in the catalogue.
#[derive(Debug, Clone, Copy)]
pub struct Dose {
    /// Operations.
    pub ops: u64,
    /// Useful work on the CPU for each, us of an undisturbed CPU.
    pub work: u64,
    /// How bad the fault is.
    pub fault: u64,
    /// Threads or processes that take part.
    pub width: u64,
    /// Sleep after each operation, us: time that belongs to the program, not to the fault.
    pub rest: u64,
}

/// Where the set-up wants the load to run.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Place {
    /// Directory for files and sockets.
    #[arg(long, default_value = ".")]
    pub dir: PathBuf,
    /// Block device.
    #[arg(long)]
    pub device: Option<PathBuf>,
    /// The CPU to stay on.
    #[arg(long)]
    pub cpu: Option<usize>,
    /// Cgroups to enter (their directories).
    #[arg(long)]
    pub cgroup: Vec<PathBuf>,
    /// Rounds of arithmetic in a microsecond of useful work.
    #[arg(long, default_value_t = 300)]
    pub rate: u64,
    /// What one unit of a fault in microseconds takes on an undisturbed CPU, ns.
    #[arg(long, default_value_t = 1_000)]
    pub unit_ns: u64,
}

/// Everything that a load knows.
#[derive(Debug, Clone)]
pub struct Ctx {
    /// Whether the fault is there; where the set-up alone makes it, a load does not look.
    pub on: bool,
    /// How much.
    pub dose: Dose,
    /// Where.
    pub place: Place,
}

impl Ctx {
    /// The useful work of one operation.
    pub fn work(&self) {
        sys::spin(self.place.rate, self.dose.work);
    }
    /// Work of so many microseconds.
    pub fn spin(&self, us: u64) {
        sys::spin(self.place.rate, us);
    }
    /// How many units of the kernel's work a fault of `fault` microseconds is. Like the useful work
    /// it is an amount, not a time, and calibrated, so that its share is the same on any machine.
    pub fn units(&self) -> u64 {
        (self.dose.fault * 1_000).div_ceil(self.place.unit_ns.max(1))
    }
    /// A file of the set-up's directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.place.dir.join(name)
    }
    /// The device.
    pub fn device(&self) -> Result<&Path> {
        self.place.device.as_deref().context("--device is missing: this load needs a block device")
    }
}

/// What a load is.
pub type Load = fn(&Ctx) -> Result<()>;

/// Goes to its place and does the load.
pub fn run(load: Load, ctx: &Ctx) -> Result<()> {
    for cgroup in &ctx.place.cgroup {
        let path = cgroup.join("cgroup.procs");
        std::fs::write(&path, std::process::id().to_string()).with_context(|| path.display().to_string())?;
    }
    if let Some(cpu) = ctx.place.cpu {
        sys::pin(cpu)?;
    }
    load(ctx)
}

/// Runs `part(0..width)` in so many threads; the calling thread is the first, so that none of them
/// only waits for the others.
pub fn threads(width: u64, part: impl Fn(u64) -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let part = &part;
        let rest: Vec<_> = (1..width).map(|i| scope.spawn(move || part(i))).collect();
        let mut result = part(0);
        for thread in rest {
            let other = thread.join().unwrap_or_else(|_| anyhow::bail!("a thread of the load panicked"));
            result = result.and(other);
        }
        result
    })
}
