// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `plumb whatif`.

use clap::Args;
use plumb_load::job::Bytes;
use std::path::PathBuf;

/// Help's last part.
pub const HELP: &str = "\
The run is simulated from its recording: each thread does what it did, in the same order, on the CPUs, the disk and the page
cache that the options describe. 'plumb help what-if' says what is kept as it was recorded.

Exit codes: 0 done, 2 error, 3 events were lost, or the run done again with nothing changed takes another time (25 %).

Examples:
  plumb run -o before -- ./load.sh
  plumb whatif before --disk nvme
  plumb whatif before --disk gp3 --disk-set medium.iops=6000 --cpus 8
  plumb whatif before --memory +512M
  plumb whatif before --disk nvme --memory 2x
  plumb whatif before --cpu-speed 1.5 --json";

/// The run, and the machine to predict it for.
#[derive(Debug, Args)]
pub struct WhatifArgs {
    /// Run directory, or a trace
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Disk in the place of the recorded one: a preset's name, or a model's file (with a / or .toml)
    #[arg(long, value_name = "MODEL", help_heading = "Disk")]
    pub disk: Option<String>,
    /// Change the model: a dotted key of its file (repeatable)
    #[arg(long, value_name = "KEY=VALUE", requires = "disk", help_heading = "Disk")]
    pub disk_set: Vec<String>,
    /// The recorded disk, where requests went to several
    #[arg(long, value_name = "NAME", help_heading = "Disk")]
    pub from_disk: Option<String>,
    /// I/O scheduler in front of the model: none, or those of plumb sim [default: the recorded disk's]
    #[arg(long, value_name = "NAME", help_heading = "Disk")]
    pub scheduler: Option<String>,
    /// Set a knob of the scheduler, in the kernel's name and unit (repeatable)
    #[arg(long, value_name = "KEY=VALUE", requires = "disk", help_heading = "Disk")]
    pub scheduler_set: Vec<String>,
    /// Requests that the device has at once: its tags
    #[arg(long, value_name = "N", default_value_t = 64, requires = "disk", help_heading = "Disk",
        value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub depth_of_device: u32,
    /// CPUs [default: as recorded]
    #[arg(long, value_name = "N", help_heading = "Machine", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub cpus: Option<u32>,
    /// How many times as fast each CPU is
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = speed, help_heading = "Machine")]
    pub cpu_speed: f64,
    /// More page cache: +SIZE, or FACTORx: so many times the memory of the recorded machine, all of it more cache
    #[arg(long, value_name = "+SIZE|FACTORx", value_parser = more, help_heading = "Machine")]
    pub memory: Option<More>,
    /// Print the result as JSON
    #[arg(long, help_heading = "Result")]
    pub json: bool,
}

fn speed(text: &str) -> Result<f64, String> {
    let factor: f64 = text.parse().map_err(|_| "a factor, as 1.5".to_string())?;
    match (0.01..=100.0).contains(&factor) {
        true => Ok(factor),
        false => Err("a factor from 0.01 to 100".into()),
    }
}

/// How much more page cache there is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum More {
    /// Bytes.
    Size(u64),
    /// The machine's memory times this, from 1 on.
    Times(f64),
}

impl More {
    /// In bytes, on a machine with so much memory.
    pub fn bytes(self, memory: u64) -> u64 {
        match self {
            Self::Size(bytes) => bytes,
            Self::Times(factor) => (memory as f64 * (factor - 1.0)) as u64,
        }
    }
}

fn more(text: &str) -> Result<More, String> {
    const HOW: &str = "so much more, as +512M or 2x: what a smaller cache would lose was not recorded";
    if let Some(size) = text.strip_prefix('+') {
        return size.parse::<Bytes>().map(|size| More::Size(size.0)).map_err(|e| e.to_string());
    }
    let factor = text.strip_suffix('x').and_then(|factor| factor.parse::<f64>().ok());
    factor.filter(|f| (1.0..=1000.0).contains(f)).map(More::Times).ok_or_else(|| HOW.into())
}
