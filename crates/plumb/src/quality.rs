// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The exit code that follows from how far a trace can be trusted.

use plumb_analysis::Quality;
pub use plumb_analysis::NOT_VALID;
use std::process::ExitCode;

/// The exit code that a trace's quality asks for.
pub fn exit_code(quality: &Quality) -> ExitCode {
    if quality.valid() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_VALID)
    }
}
