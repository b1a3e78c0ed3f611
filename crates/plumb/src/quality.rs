// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The exit code that follows from how far a trace can be trusted.

pub use plumb_report::document::Quality;
use std::process::ExitCode;

/// Exit code of a measurement that is not valid.
pub const NOT_VALID: u8 = 3;

/// The exit code that a trace's quality asks for.
pub fn exit_code(quality: &Quality) -> ExitCode {
    if quality.valid() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_VALID)
    }
}
