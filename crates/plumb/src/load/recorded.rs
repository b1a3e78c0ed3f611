// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a load tells besides its figures: a turn of its disk, and its result to the recording that started it.

use plumb_report::run_directory::LOAD;
use plumb_sim::serve::disk;
use plumb_trace::load::TRACE_VARIABLE;
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A turn of the served disk that the target is or lies on, ns.
pub fn turn_of_served(target: &Path) -> Option<u64> {
    let about = target.metadata().ok()?;
    let number = if about.file_type().is_block_device() { about.rdev() } else { about.dev() };
    let is_it = |device: &PathBuf| device.metadata().is_ok_and(|d| d.rdev() == number);
    let disk = disk::list().into_iter().find(|disk| disk.device.as_ref().is_some_and(is_it))?;
    disk.spec.turn_ns().map(|ns| ns.round() as u64)
}

/// Leaves the result in the run directory of the recording that started the load, where none is there yet (a plan
/// keeps its own). A load that may not write there has its result on standard output alone.
pub fn leave(document: impl FnOnce() -> Value) {
    let Some(trace) = std::env::var_os(TRACE_VARIABLE).map(PathBuf::from) else { return };
    let Some(dir) = trace.parent() else { return };
    let file = OpenOptions::new().write(true).create_new(true).open(dir.join(LOAD));
    if let (Ok(mut file), Ok(text)) = (file, serde_json::to_string_pretty(&document())) {
        let _ = file.write_all(text.as_bytes());
    }
}
