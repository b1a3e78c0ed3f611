// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cargo xtask fuzz --hours N [TARGET...]`: long runs of fuzz/. The test run has a fixed count instead.

use anyhow::{bail, Context, Result};
use std::path::Path;
use std::process::Command;

/// Overflow checks and debug assertions are on in the profile dev.
///
/// # Errors
/// The hours are no number, or a target failed; what it told is above.
pub fn run(root: &Path, hours: &str, targets: &[&str]) -> Result<()> {
    let hours: f64 = hours.parse().with_context(|| format!("--hours {hours}"))?;
    let seconds = format!("{:.0}", hours * 3600.0);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root).args([
        "run",
        "--locked",
        "--quiet",
        "-p",
        "plumb-fuzz",
        "--",
        "--seconds",
        &seconds,
    ]);
    if !command.args(targets).status().context("cargo")?.success() {
        bail!("fuzz: a target failed");
    }
    Ok(())
}
