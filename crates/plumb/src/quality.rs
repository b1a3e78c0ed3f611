// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The exit code that follows from how far a trace can be trusted.

pub use plumb_report::document::Quality;
pub use plumb_report::quality::NOT_VALID;
use std::process::ExitCode;

/// The exit code that a trace's quality asks for.
pub fn exit_code(quality: &Quality) -> ExitCode {
    if quality.valid() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_VALID)
    }
}
