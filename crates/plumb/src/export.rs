// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb export`: a run in other programs' formats.

mod tables;

use crate::cli::ExportArgs;
use crate::repeat;
use anyhow::{bail, Context, Result};
use plumb_machine::signals::{self, Calls};
use plumb_report::export::profile::Format;
use plumb_report::export::{lacking, lttng, perfetto, profile};
use plumb_report::profile::{Options, Side};
use plumb_report::staged_output::{Kind, StagedOutput};
use plumb_trace::reader::Trace;
use plumb_trace::units;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Bytes that are written at once.
const BUFFER: usize = 1 << 20;

/// All of it is there: it gets its name. `words` say what it holds.
fn done(made: StagedOutput, words: &str) -> Result<()> {
    let name = made.name();
    made.rename()?;
    eprintln!("{name}: written ({words})");
    Ok(())
}

/// Writes Perfetto's trace; whether the measurement is valid.
fn perfetto(trace: &Trace, path: StagedOutput, stop: &AtomicBool) -> Result<bool> {
    let file = path.create()?;
    let out = BufWriter::with_capacity(BUFFER, file);
    let (written, analysis) = perfetto::write(trace, out, stop).with_context(|| path.cannot())?;
    if written.samples == 0 {
        eprintln!(
            "plumb: the trace has no samples of the target, so {} has none; record with --sample 199Hz",
            path.name()
        );
    }
    let words = [
        (written.ftrace_events, "events of the kernel"),
        (written.intervals, "states of threads"),
        (written.wakeups, "wakeups"),
        (written.requests, "block requests"),
        (written.operations, "operations"),
        (written.samples, "samples"),
    ];
    let words: Vec<String> = words
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{} {what}", units::count(*n)))
        .collect();
    done(path, &words.join(", "))?;
    Ok(analysis.quality.valid())
}

/// Writes a trace as LTTng would have; whether the measurement is valid.
fn ctf_lttng(trace: &Trace, dir: StagedOutput, stop: &AtomicBool) -> Result<bool> {
    std::fs::create_dir(dir.path()).with_context(|| dir.cannot())?;
    let written = lttng::write(trace, dir.path(), stop).with_context(|| dir.cannot())?;
    if written.without_sector > 0 {
        eprintln!(
            "plumb: {} block events are of bios and requests that began before the trace; they are named plumb_... there",
            units::count(written.without_sector)
        );
    }
    let lost =
        if written.lost > 0 { format!(", {} lost", units::count(written.lost)) } else { String::new() };
    done(dir, &format!("{} events{lost}", units::count(written.events)))?;
    Ok(written.gaps == 0)
}

/// Writes profiles; the trace is read once for all of them. Whether the measurement is valid.
fn profiles(dir: &Path, files: Vec<(Format, StagedOutput)>) -> Result<bool> {
    let side = Side::read(dir, &Options::default())?;
    for (format, path) in files {
        let mut out = BufWriter::new(path.create()?);
        let lacking = profile::write(format, &side.profile, None, &mut out).with_context(|| path.cannot())?;
        lacking.iter().for_each(|sentence| eprintln!("plumb: {sentence}"));
        out.flush().with_context(|| path.cannot())?;
        done(path, "profile")?;
    }
    Ok(side.valid)
}

/// Runs the command.
///
/// # Errors
/// Something is there already; no trace; it cannot be read, or a file not be written.
pub fn main(args: &ExportArgs) -> Result<ExitCode> {
    let mut names: Vec<PathBuf> = Vec::new();
    let mut beside = |path: &Option<PathBuf>, kind| {
        let Some(path) = path else { return Ok(None) };
        if names.contains(path) {
            bail!("{}: two exports cannot have one name; give each its own", path.display());
        }
        names.push(path.clone());
        StagedOutput::new(path, kind, args.force).map(Some)
    };
    // All of them before the first is made: a refusal must not come after minutes of work.
    let to_perfetto = beside(&args.perfetto, Kind::File)?;
    let to_lttng = beside(&args.ctf_lttng, Kind::Directory)?;
    let mut to_profiles = Vec::new();
    for (kind, path) in [
        (Format::Folded, &args.folded),
        (Format::Pprof, &args.pprof),
        (Format::Otlp, &args.otlp),
        (Format::Firefox, &args.firefox),
        (Format::Speedscope, &args.speedscope),
    ] {
        to_profiles.extend(beside(path, Kind::File)?.map(|beside| (kind, beside)));
    }
    let to_tables = tables::To {
        csv: beside(&args.csv, Kind::Directory)?,
        parquet: beside(&args.parquet, Kind::Directory)?,
        openmetrics: beside(&args.openmetrics, Kind::File)?,
    };
    let dir = repeat::run_of(args.dir.clone())?;
    let mut valid = true;
    if !to_profiles.is_empty() {
        valid &= profiles(&dir, to_profiles)?;
    }
    let tables = to_tables.csv.is_some() || to_tables.parquet.is_some() || to_tables.openmetrics.is_some();
    if !(tables || to_perfetto.is_some() || to_lttng.is_some()) {
        return Ok(code(valid));
    }
    // Only what looks whether it is to stop may catch the signals.
    signals::catch(Calls::Interrupt);
    let stop = signals::asked();
    if to_perfetto.is_some() || to_lttng.is_some() {
        let trace = Trace::open(&dir).with_context(|| {
            format!("cannot export {}: neither a run directory nor a trace", dir.display())
        })?;
        lacking(&trace).iter().for_each(|sentence| eprintln!("plumb: {sentence}"));
        if let Some(path) = to_perfetto {
            valid &= perfetto(&trace, path, stop)?;
        }
        if let Some(path) = to_lttng {
            valid &= ctf_lttng(&trace, path, stop)?;
        }
    }
    if tables {
        valid &= tables::write(&dir, to_tables, stop)?;
    }
    Ok(code(valid))
}

fn code(valid: bool) -> ExitCode {
    if valid {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(crate::quality::NOT_VALID)
    }
}
