// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ctrl-C: the present run is ended, what was set up is taken down, and only then the program ends.

use crate::sys;
use anyhow::{bail, Result};
use plumb_machine::signals;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

static STOP: AtomicBool = AtomicBool::new(false);
static CHILD: AtomicU32 = AtomicU32::new(0);

/// Takes SIGINT, SIGTERM and SIGHUP from now on; to be called before any thread is started.
///
/// # Errors
/// No thread can be started.
pub fn watch() -> Result<()> {
    signals::on_each(|_| {
        STOP.store(true, SeqCst);
        match CHILD.load(SeqCst) {
            0 => {}
            // plumb stops its recording on SIGINT, a load ends.
            pid => sys::kill_group(pid, libc::SIGINT),
        }
    })
}

/// The leader of the process group that is ended on a signal; 0 for none.
pub fn child(pid: u32) {
    CHILD.store(pid, SeqCst);
    if pid != 0 && STOP.load(SeqCst) {
        sys::kill_group(pid, libc::SIGINT);
    }
}

/// # Errors
/// A signal came.
pub fn check() -> Result<()> {
    if STOP.load(SeqCst) {
        bail!("interrupted; what was set up is taken down");
    }
    Ok(())
}
