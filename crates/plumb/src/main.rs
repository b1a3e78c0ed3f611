// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program. All it does is in the library; here are the words in and the exit code out.

use plumb_report::plain::Plain;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    plumb_machine::descriptors::remember_inherited();
    let cli = plumb::command_line();
    match plumb::dispatch(cli) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // It may name what is in a file of somebody else's.
            let _ = writeln!(Plain(std::io::stderr()), "plumb: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// The reader of our output went away (`plumb events | head`): no error of ours.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = std::io::ErrorKind::BrokenPipe;
    error.chain().any(|e| {
        e.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == broken)
            || e.downcast_ref::<serde_json::Error>().is_some_and(|e| e.io_error_kind() == Some(broken))
    })
}
