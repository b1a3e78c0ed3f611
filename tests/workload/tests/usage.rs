// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cargo test` builds a program beside a package's tests alone.

use std::process::Command;

#[test]
fn a_load_that_there_is_not_is_named() {
    let out = Command::new(env!("CARGO_BIN_EXE_plumb-workload")).arg("nix").output().expect("runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && said.contains("no load 'nix'"), "{said}");
}
