// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ctrl-C and kill end a recording, not the program.

use plumb_probe::Stop;

static STOP: Stop = Stop::new();

extern "C" fn on_signal(_: libc::c_int) {
    STOP.ask();
}

/// Catches SIGINT, SIGTERM and SIGHUP from now on; each asks the recording to stop.
pub fn stop_on_signal() -> &'static Stop {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only adds to an atomic.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
    &STOP
}
