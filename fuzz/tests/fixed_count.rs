// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every target: its regressions, its seeds, and a fixed number of mutants of a fixed seed.

fn main() -> std::process::ExitCode {
    // `cargo test NAME` passes a filter; options of Rust's harness mean nothing here.
    let names: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    if plumb_fuzz::fixed(&names) {
        std::process::ExitCode::SUCCESS
    } else {
        std::process::ExitCode::FAILURE
    }
}
