// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb profile`: the views of a wall-clock profile.

mod annotate;
mod export;

use crate::cli::ProfileArgs;
use crate::quality::Quality;
use crate::setup;
use anyhow::{Context, Result};
use plumb_model::profile::{Collector, Profile};
use plumb_model::Model;
use plumb_trace::reader::Trace;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Reads a trace and makes the profile of a span of it.
fn read(dir: &Path, args: &ProfileArgs) -> Result<(Profile, Quality)> {
    let trace = Trace::open(dir)
        .with_context(|| format!("{}: no run and no trace to make a profile of", dir.display()))?;
    let setup = setup::of(&trace);
    let (begin, end) = (setup.begin, setup.end);
    let from = begin.saturating_add(args.from.unwrap_or(0));
    let to = args.to.map_or(end, |to| begin.saturating_add(to).min(end));
    let mut model = Model::new(setup, Collector::new(from, to));
    let summary = trace.for_each(|item| model.feed(item))?;
    let (_, collector) = model.finish();
    Ok((collector.profile(&trace.state), Quality::of(&trace, &summary)))
}

/// Runs the command.
///
/// # Errors
/// No trace, one without samples and stacks, or a filter or name that nothing fits.
pub fn main(args: &ProfileArgs) -> Result<ExitCode> {
    let (profile, quality) = read(&args.dir, args)?;
    let mut out = std::io::stdout().lock();
    if args.annotate.is_some() {
        annotate::main(&profile, args, &mut out)?;
    } else if let Some(kind) = args.export {
        export::write(kind, &profile, None, &mut out)?;
    }
    out.flush()?;
    Ok(quality.exit_code())
}
