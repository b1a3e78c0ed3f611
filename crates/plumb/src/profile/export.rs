// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A profile in other programs' formats, and as a flame graph. docs/profile-exports.md describes them.

mod diff;
mod firefox;
mod flame;
mod folded;
pub mod json;
mod labels;
mod pprof;
#[cfg(test)]
mod sample;
mod speedscope;
mod svg;
#[cfg(test)]
mod tests;
mod tree;
mod words;

use crate::cli::Export;
use anyhow::{bail, Result};
use plumb_model::profile::Profile;
use std::io::Write;

/// Writes `profile`; with `before` given, how it differs from that one (flame graphs and folded stacks).
/// What a graph has no room for is told on stderr.
///
/// # Errors
/// The format has no form for two profiles; nothing to draw; the writer's.
pub fn write(kind: Export, profile: &Profile, before: Option<&Profile>, out: &mut dyn Write) -> Result<()> {
    if before.is_some() && !matches!(kind, Export::Flame | Export::FlameBefore | Export::Folded) {
        bail!("this format has no form for two profiles: export them one by one, or take --flame or --export folded");
    }
    let lacking = match (kind, before) {
        (Export::Folded, _) => folded::write(profile, before, out).map(|()| None),
        (Export::Pprof, _) => pprof::write(profile, out).map(|()| None),
        (Export::Speedscope, _) => speedscope::write(profile, out).map(|()| None),
        (Export::Firefox, _) => firefox::write(profile, out).map(|()| None),
        (Export::Json, _) => json::write(profile, out).map(|()| None),
        (Export::Flame, None) => flame::write(profile, out),
        (Export::Flame, Some(before)) => diff::write(before, profile, diff::Widths::Second, out),
        (Export::FlameBefore, Some(before)) => diff::write(before, profile, diff::Widths::First, out),
        (Export::FlameBefore, None) => bail!("a flame graph as wide as the first's times needs two profiles"),
    }?;
    if let Some(lacking) = lacking {
        eprintln!("plumb: {lacking}");
    }
    Ok(())
}
