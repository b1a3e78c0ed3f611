// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Charts of a simulation, on the sheets that plans draw on, and the same figures as CSV.

use anyhow::{bail, Context, Result};
use plumb_report::chart::lines::Lines;
use plumb_sim::device::Ns;
use plumb_sim::measured::MeasuredTable;
use plumb_sim::queue::classes::NAMES;
use std::path::Path;

/// Throughput of each class over time, as timeline.csv and timeline.svg in `dir`, with what was measured.
///
/// # Errors
/// The directory's.
pub fn timeline(
    dir: &Path,
    title: &str,
    step: Ns,
    steps: &[[u64; 2]],
    beside: Option<&MeasuredTable>,
) -> Result<()> {
    let seconds = step as f64 / 1e9;
    let mib = |bytes: u64| bytes as f64 / 1_048_576.0 / seconds;
    let at = |number: usize| number as f64 * seconds;
    let mut csv = format!("seconds,{}_mib_per_s,{}_mib_per_s\n", NAMES[0], NAMES[1]);
    for (number, [normal, idle]) in steps.iter().enumerate() {
        csv += &format!("{:.3},{:.4},{:.4}\n", at(number), mib(*normal), mib(*idle));
    }
    let line = |class: usize| {
        let points = steps.iter().enumerate().map(|(n, bytes)| (at(n), mib(bytes[class]))).collect();
        (NAMES[class].to_string(), points)
    };
    let measured = |class: usize| {
        let points = beside?.points(&format!("{}_mib_per_s", NAMES[class]));
        Some((format!("{}, measured", NAMES[class]), points))
    };
    let chart = Lines {
        title: title.into(),
        along: "time, s".into(),
        up: format!("throughput per {} ms, MiB/s", step / 1_000_000),
        marks: None,
        log: false,
        lines: [0, 1].into_iter().map(line).chain([0, 1].into_iter().filter_map(measured)).collect(),
    };
    let files = [csv, chart.svg()?];
    TIMELINE.iter().zip(&files).try_for_each(|(name, text)| put(dir, name, text))
}

/// The files of a simulation, and of a sweep.
pub const TIMELINE: [&str; 2] = ["timeline.csv", "timeline.svg"];
/// See [`TIMELINE`].
pub const SWEEP: [&str; 3] = ["sweep.csv", "sweep-idle.svg", "sweep-normal.svg"];

/// Whether files of these names can be put there.
///
/// # Errors
/// One is there; named.
pub fn room(dir: &Path, names: &[&str]) -> Result<()> {
    if let Some(there) = names.iter().map(|name| dir.join(name)).find(|path| path.exists()) {
        bail!("{}: is there already; choose another directory with --charts", there.display());
    }
    Ok(())
}

/// Which files were put there, in words.
pub fn told(dir: &Path, names: &[&str]) -> String {
    let paths = names.iter().map(|name| dir.join(name).display().to_string());
    format!("charts: {}", paths.collect::<Vec<_>>().join(", "))
}

/// Writes a file for which there is [`room`].
///
/// # Errors
/// The directory cannot be made or written; named.
pub fn put(dir: &Path, name: &str, text: &str) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("--charts {}", dir.display()))?;
    let path = dir.join(name);
    std::fs::write(&path, text).with_context(|| path.display().to_string())
}
