// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A profile in other programs' formats, and as a flame graph. docs/profile-exports.md describes them.

mod diff;
mod firefox;
mod flame;
mod folded;
mod json;
mod labels;
mod otlp;
mod pprof;
#[cfg(test)]
mod sample;
mod speedscope;
mod svg;
#[cfg(test)]
mod tests;
mod tree;
mod words;

pub use json::{document, ProfileDocument};

use anyhow::{bail, Result};
use plumb_model::profile::Profile;
use std::io::Write;

/// File formats of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Folded stacks, for flamegraph.pl.
    Folded,
    /// pprof's profile.proto, compressed.
    Pprof,
    /// OpenTelemetry's profiles/v1development, JSON.
    Otlp,
    /// speedscope's JSON.
    Speedscope,
    /// Firefox profiler's JSON.
    Firefox,
    /// The report page's JSON.
    Json,
    /// A flame graph, SVG; of two profiles their difference, as wide as the second's times.
    Flame,
    /// Of two profiles, a flame graph as wide as the first's times: what went away.
    FlameBefore,
}

/// Writes `profile`; with `before` given, how it differs from that one (flame graphs and folded stacks).
/// What a graph has no room for is returned, in a sentence.
///
/// # Errors
/// The format has no form for two profiles; nothing to draw; the writer's.
pub fn write(
    format: Format,
    profile: &Profile,
    before: Option<&Profile>,
    out: &mut dyn Write,
) -> Result<Option<String>> {
    if before.is_some() && !matches!(format, Format::Flame | Format::FlameBefore | Format::Folded) {
        bail!("this format has no form for two profiles: export them one by one, or take --flame or --export folded");
    }
    match (format, before) {
        (Format::Folded, _) => folded::write(profile, before, out).map(|()| None),
        (Format::Pprof, _) => pprof::write(profile, out).map(|()| None),
        (Format::Otlp, _) => otlp::write(profile, out).map(|()| None),
        (Format::Speedscope, _) => speedscope::write(profile, out).map(|()| None),
        (Format::Firefox, _) => firefox::write(profile, out).map(|()| None),
        (Format::Json, _) => json::write(profile, out).map(|()| None),
        (Format::Flame, None) => flame::write(profile, out),
        (Format::Flame, Some(before)) => diff::write(before, profile, diff::Widths::Second, out),
        (Format::FlameBefore, Some(before)) => diff::write(before, profile, diff::Widths::First, out),
        (Format::FlameBefore, None) => bail!("a flame graph as wide as the first's times needs two profiles"),
    }
}
