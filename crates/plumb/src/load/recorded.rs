// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a load tells besides its figures: a turn of its disk, and its result to the recording that started it.

use plumb_load::session::Document;
use plumb_machine::json;
use plumb_report::run_directory::LOAD;
use plumb_sim::serve::disk;
use plumb_trace::load::TRACE_VARIABLE;
use std::fs::OpenOptions;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A turn of the served disk that the targets are or lie on, ns; none if their disks turn differently.
pub fn turn_of_served(target: &Path, also: &[PathBuf]) -> Option<u64> {
    let turn = turn_of(target);
    turn.filter(|_| also.iter().all(|other| turn_of(other) == turn))
}

fn turn_of(target: &Path) -> Option<u64> {
    // A file that the load makes lies where its directory does.
    let parent = || target.parent().map(|dir| if dir.as_os_str().is_empty() { Path::new(".") } else { dir });
    let about = target.metadata().ok().or_else(|| parent()?.metadata().ok())?;
    let number = if about.file_type().is_block_device() { about.rdev() } else { about.dev() };
    let is_it = |device: &PathBuf| device.metadata().is_ok_and(|d| d.rdev() == number);
    let disk = disk::list().into_iter().find(|disk| disk.device.as_ref().is_some_and(is_it))?;
    disk.spec.turn_ns().map(|ns| ns.round() as u64)
}

/// Leaves the result in the run directory of the recording that started the load (`plumb run`), where none is there yet: a plan
/// keeps its own, and of several loads of a command the first one's is kept. A load that may not write there has its result on standard
/// output alone.
pub fn leave(document: &Document<'_>) {
    let Some(trace) = std::env::var_os(TRACE_VARIABLE).map(PathBuf::from) else { return };
    // The trace of `plumb record` has a directory of the user's around it.
    let Some(dir) = trace.parent().filter(|_| trace.ends_with("trace")) else { return };
    let file = OpenOptions::new().write(true).create_new(true).open(dir.join(LOAD));
    if let Ok(file) = file {
        let _ = json::write(file, document);
    }
}
