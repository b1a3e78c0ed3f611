// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ctrl-C and kill end a recording or a load, not the program.

use plumb_probe::Stop;
use std::sync::atomic::{AtomicBool, Ordering};

static STOP: Stop = Stop::new();
static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: libc::c_int) {
    STOP.ask();
    ASKED.store(true, Ordering::Release);
}

/// Catches SIGINT, SIGTERM and SIGHUP from now on; each asks the recording to stop.
pub fn stop_on_signal() -> &'static Stop {
    catch(libc::SA_RESTART);
    &STOP
}

/// Catches the same for a load. It waits for its workers in a system call,
/// which the signal ends: it must look whether it is to stop.
pub fn asked_on_signal() -> &'static AtomicBool {
    catch(0);
    &ASKED
}

fn catch(flags: libc::c_int) {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only stores to atomics.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = flags;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}
