// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb profile`: the views of a wall-clock profile.

use crate::cli::ProfileArgs;
use crate::repeat;
use anyhow::{bail, Context, Result};
use plumb_model::profile::Profile;
use plumb_report::export::profile::{self as export, Format};
use plumb_report::plain::Plain;
use plumb_report::profile::{coverage_chart, coverages, difference, view, Limits, Options, Side};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Writes a file only when all of it is there.
fn write(
    format: Format,
    path: Option<&PathBuf>,
    profile: &Profile,
    before: Option<&Profile>,
    out: &mut dyn Write,
) -> Result<()> {
    if format == Format::FlameBefore && before.is_none() {
        bail!(
            "--flame-before shows what went away between two directories; name a second one, or use --flame"
        );
    }
    let mut text = Vec::new();
    let to: &mut dyn Write = if path.is_some() { &mut text } else { out };
    let lacking = export::write(format, profile, before, to)?;
    lacking.iter().for_each(|sentence| eprintln!("plumb: {sentence}"));
    if let Some(path) = path {
        std::fs::write(path, text).with_context(|| format!("{}: cannot be written", path.display()))?;
        eprintln!("{}: written", path.display());
    }
    Ok(())
}

fn read(dir: &Path, options: &Options) -> Result<Side> {
    Side::read(&repeat::run_of(dir.to_path_buf())?, options)
}

/// How few functions have how much of the time, of one directory or several.
fn coverage(args: &ProfileArgs) -> Result<ExitCode> {
    if args.normalize {
        bail!("--normalize scales times, and --coverage has shares of each directory's own: leave one of them out");
    }
    let options = args.options();
    let dirs = std::iter::once(&args.dir).chain(&args.others).chain(&args.diff);
    let mut sides = dirs.map(|dir| read(dir, &options)).collect::<Result<Vec<Side>>>()?;
    let valid = sides.iter().all(|side| side.valid);
    let mut out = BufWriter::new(std::io::stdout().lock());
    if let Some(path) = &args.svg {
        std::fs::write(path, coverage_chart(&sides)?)
            .with_context(|| format!("{}: cannot be written", path.display()))?;
        eprintln!("{}: written", path.display());
    } else {
        let mut text = Plain(&mut out);
        let out: &mut dyn Write = if args.json { &mut text.0 } else { &mut text };
        let ground = Limits::of(&options);
        match sides.len() {
            1 => view(sides.remove(0), &options, &ground, out)?,
            _ => coverages(sides, &options, &ground, out)?,
        }
    }
    out.flush()?;
    Ok(exit(valid))
}

fn exit(valid: bool) -> ExitCode {
    if valid {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(crate::quality::NOT_VALID)
    }
}

/// Runs the command.
///
/// # Errors
/// No trace, one without samples and stacks, or a filter or name that nothing fits.
pub fn main(args: &ProfileArgs) -> Result<ExitCode> {
    if args.coverage {
        return coverage(args);
    }
    if args.others.len() > 1 {
        bail!("{} directories: all views but --coverage take one or two", args.others.len() + 1);
    }
    let other = args.others.first().or(args.diff.as_ref());
    if args.normalize && other.is_none() {
        bail!("--normalize scales the first of two directories to the second; name a second one");
    }
    let options = args.options();
    let first = read(&args.dir, &options)?;
    let second = other.map(|dir| read(dir, &options)).transpose()?;
    let valid = first.valid && second.as_ref().is_none_or(|s| s.valid);
    let ground = Limits::of(&options);
    let mut out = BufWriter::new(std::io::stdout().lock());
    match (args.file(), second) {
        (Some((format, path)), None) => write(format, path, &first.profile, None, &mut out)?,
        (Some((format, path)), Some(second)) => {
            write(format, path, &second.profile, Some(&first.profile), &mut out)?;
        }
        (None, second) => {
            // JSON has its own escapes; in text no name may act on a terminal.
            let mut text = Plain(&mut out);
            let out: &mut dyn Write = if args.json { &mut text.0 } else { &mut text };
            match second {
                None => view(first, &options, &ground, out)?,
                Some(second) => difference(first, second, &options, &ground, out)?,
            }
        }
    }
    out.flush()?;
    Ok(exit(valid))
}
