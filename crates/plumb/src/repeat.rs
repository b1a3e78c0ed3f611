// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb run --repeat`: a set of runs of the same, and how far they agree.
//!
//! A set is a directory with `set.json` and one run directory for each
//! repetition, 1/, 2/, ...

use crate::cli::RunArgs;
use crate::explain::print;
use crate::quality::NOT_VALID;
use crate::{report, run};
use anyhow::{bail, Context, Result};
use plumb_analysis::Analysis;
use plumb_compare::run_directory::write_document;
use plumb_compare::set::{median_of, median_run, read_set, repetition, Repetition, SetFile, SET};
use plumb_machine::child::Child;
use plumb_machine::json::{self, formats, Format, Output};
use plumb_machine::utc;
use plumb_machine::{output, signals};
use plumb_report::document_files::{self, PAGE};
use plumb_report::run_directory::Seen;
use plumb_report::terminal::Table;
use plumb_stats::repetitions;
use plumb_trace::units;
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Makes one run in a process of its own: the recorder raises its priority, which
/// the command of the next repetition would inherit, and counts its own CPU time.
/// True when the run directory is whole.
fn in_child(args: &RunArgs, dir: &Path) -> Result<bool> {
    let child = Child::fork(|| match run::make(args, dir, true, |_| Ok(())) {
        Ok(_) => 0,
        Err(error) => {
            eprintln!("plumb: {error:#}");
            2
        }
    })?;
    Ok(child.wait().success())
}

/// Runs the command `count` times.
///
/// # Errors
/// No repetition could be made, or the set cannot be written.
pub fn main(args: &RunArgs, count: u32) -> Result<ExitCode> {
    let dir = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("plumb-set-{}", run::stamp())));
    if ["set.json", "run.json", "trace", "1"].iter().any(|name| dir.join(name).exists()) {
        bail!("{}: holds a run or a set already; choose another directory with -o", dir.display());
    }
    if args.what.command.is_empty() && args.what.duration.is_none() {
        bail!("--repeat of what already runs needs a length: give --for DURATION, or a command after --");
    }
    let made = !dir.exists();
    output::private_unless(args.what.share);
    output::directory(&dir)?;
    let mut set = SetFile {
        plumb: env!("CARGO_PKG_VERSION").into(),
        arguments: std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect(),
        command: args.what.command.iter().map(|w| w.to_string_lossy().into_owned()).collect(),
        asked: count,
        ..SetFile::default()
    };
    signals::catch_and_wake()?;
    let terminal = !args.what.quiet && std::io::stderr().is_terminal();
    for i in 1..=count {
        if terminal {
            eprint!("repetition {i} of {count} ...");
        }
        let begun = utc();
        let path = dir.join(i.to_string());
        let whole = in_child(args, &path)?;
        if terminal {
            eprint!("\r\x1b[K");
        }
        if !whole && set.repetitions.is_empty() {
            if made {
                // Nothing was recorded: leave nothing. Only empty directories go.
                let _ = std::fs::remove_dir(&path);
                let _ = std::fs::remove_dir(&dir);
            }
            bail!("the first of {count} repetitions could not be made; the reason stands above");
        }
        let stopped = signals::stopped();
        if whole {
            let repetition = repetition(&path, begun, &args.show.comm, stopped)?;
            if !args.what.quiet {
                tell(&repetition, i, count);
            }
            set.repetitions.push(repetition);
        }
        if !whole {
            set.ended_early = Some(format!("repetition {i} could not be made"));
        } else if stopped && i < count {
            set.ended_early = Some(format!("stopped by the user in repetition {i}"));
        }
        write_document(&dir.join(SET), &set)?;
        if set.ended_early.is_some() || stopped {
            break;
        }
    }
    if signals::stopped() && !set.repetitions.iter().any(|r| r.complete) {
        eprintln!(
            "plumb: stopped by the user before a repetition was whole; what there is lies in {}",
            dir.display()
        );
        return Ok(ExitCode::from(NOT_VALID));
    }
    tell_all(args, &dir, &set)
}

fn tell(r: &Repetition, i: u32, count: u32) {
    eprintln!(
        "repetition {i} of {count}: {} elapsed, {} events, {} lost; {}{}",
        units::duration(r.elapsed),
        units::count(r.events),
        units::count(r.lost),
        r.reason,
        if r.complete { "" } else { " (interrupted: left out of the statistics)" },
    );
    if let Some(error) = &r.error {
        eprintln!("plumb: repetition {i}: the recording ended early: {error}; what came before is readable");
    }
}

/// The directory to explain: of a set its median run, which is said on standard error.
///
/// # Errors
/// The set cannot be read, or none of its repetitions is whole.
pub fn run_of(dir: PathBuf) -> Result<PathBuf> {
    if !dir.join(SET).exists() {
        return Ok(dir);
    }
    let set = read_set(&dir)?;
    let middle = median_of(&dir, &set)?;
    eprintln!(
        "{0} is a set of {1} runs; this is {0}/{2}, the median run (plumb explain {0}/N shows another)",
        dir.display(),
        set.repetitions.len(),
        middle.dir
    );
    Ok(dir.join(&middle.dir))
}

#[derive(Serialize)]
struct Repeated<'a> {
    set: &'a SetFile,
    elapsed: Spread,
    /// Its directory, in the set's.
    median_run: &'a str,
    /// What was found in it.
    result: &'a Analysis,
}

impl Output for Repeated<'_> {
    const FORMAT: &'static Format = &formats::RUN_SET;
}

/// Elapsed times of the whole repetitions.
#[derive(Serialize)]
struct Spread {
    /// `ns`.
    unit: &'static str,
    median: f64,
    least: f64,
    most: f64,
    repetitions: usize,
    /// Lower end of the median's 95 % interval; null where there are too few for one.
    low: Option<f64>,
    /// Upper end.
    high: Option<f64>,
}

/// The set's page; table of the repetitions, then the account of the median run.
fn tell_all(args: &RunArgs, dir: &Path, set: &SetFile) -> Result<ExitCode> {
    let middle = median_run(set).with_context(|| {
        format!(
            "no repetition was whole, so there is nothing to tell; what there is lies in {}",
            dir.display()
        )
    })?;
    let whole: Vec<f64> = set.repetitions.iter().filter(|r| r.complete).map(|r| r.elapsed as f64).collect();
    let (median, interval) = (repetitions::median(&whole), repetitions::median_interval(&whole));
    let (least, most) =
        (whole.iter().copied().fold(f64::MAX, f64::min), whole.iter().copied().fold(0.0, f64::max));
    let seen = Seen::of(&dir.join(&middle.dir), !args.no_report)?;
    if !args.no_report {
        document_files::keep(dir, &report::set(dir, set, middle, &seen))?;
    }
    let mut explained = seen.analysis;
    if !args.show.comm.is_empty() {
        explained = Analysis::of(&dir.join(&middle.dir), &args.show.comm)?;
    }
    run::show(args, |out| {
        if args.show.json {
            let elapsed = Spread {
                unit: "ns",
                median,
                least,
                most,
                repetitions: whole.len(),
                low: interval.map(|i| i.low),
                high: interval.map(|i| i.high),
            };
            json::write(out, &Repeated { set, elapsed, median_run: &middle.dir, result: &explained })?;
        } else {
            let (unit, ns) = if most < 1e9 { ("ms", 1e6) } else { ("s", 1e9) };
            let time = |v: f64| format!("{:.3}", v / ns);
            let elapsed = format!("elapsed [{unit}]");
            let mut table = Table::new(&["repetition", &elapsed, "exit code", "events", "lost", "<"]);
            for r in &set.repetitions {
                let mark = match (r.complete, r.dir == middle.dir) {
                    (false, _) => "interrupted, left out",
                    (true, true) => "the median run",
                    (true, false) => "",
                };
                table.row(vec![
                    r.dir.clone(),
                    time(r.elapsed as f64),
                    r.exit_code.map_or_else(|| "-".into(), |c| c.to_string()),
                    units::count(r.events),
                    units::count(r.lost),
                    mark.into(),
                ]);
            }
            table.write(out)?;
            let error = interval.map_or_else(
                || format!("with fewer than {} repetitions no error can be known", repetitions::FEWEST),
                |i| format!("95 % interval of the median {} to {} {unit}", time(i.low), time(i.high)),
            );
            writeln!(
                out,
                "Elapsed of the target: median {} {unit} of {}, from {} to {} {unit}; {error}.",
                time(median),
                whole.len(),
                time(least),
                time(most)
            )?;
            if let Some(why) = &set.ended_early {
                writeln!(out, "{} of {} repetitions were made: {why}.", set.repetitions.len(), set.asked)?;
            }
            for sentence in failures(set) {
                writeln!(out, "{sentence}")?;
            }
            writeln!(out, "\nRepetition {}, the median run:", middle.dir)?;
            print(&explained, &args.show, out)?;
        }
        Ok(())
    })?;
    if !args.what.quiet {
        eprintln!(
            "set directory: {0} (plumb compare {0} OTHER; plumb explain {0}/{1} shows the median run again)",
            dir.display(),
            middle.dir
        );
        if !args.no_report {
            eprintln!("report: {}", dir.join(PAGE).display());
        }
    }
    Ok(exit_code(set))
}

fn failures(set: &SetFile) -> Vec<String> {
    let failed = set.repetitions.iter().filter(|r| r.complete);
    failed
        .filter_map(|r| {
            let code = r.exit_code.filter(|c| *c != 0)?;
            Some(format!("The command failed in repetition {}: exit code {code}.", r.dir))
        })
        .collect()
}

fn exit_code(set: &SetFile) -> ExitCode {
    if set.repetitions.iter().any(|r| r.error.is_some())
        || set.ended_early.as_deref().is_some_and(|w| w.ends_with("could not be made"))
    {
        ExitCode::from(2)
    } else if set.ended_early.is_some() || set.repetitions.iter().any(|r| r.lost > 0 || !r.complete) {
        ExitCode::from(NOT_VALID)
    } else {
        ExitCode::SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(elapsed: &[(u64, bool)]) -> SetFile {
        let repetition = |(i, (elapsed, complete)): (usize, &(u64, bool))| Repetition {
            dir: (i + 1).to_string(),
            elapsed: *elapsed,
            complete: *complete,
            exit_code: Some(i as i32 % 2),
            ..Repetition::default()
        };
        SetFile { repetitions: elapsed.iter().enumerate().map(repetition).collect(), ..SetFile::default() }
    }

    #[test]
    fn an_interrupted_set_is_not_valid() {
        let code = |of: &SetFile| format!("{:?}", exit_code(of));
        let early = SetFile { ended_early: Some("stopped by the user".into()), ..set(&[(1, true)]) };
        assert_eq!(code(&set(&[(1, true), (1, true)])), format!("{:?}", ExitCode::SUCCESS));
        // In its last repetition, and before that.
        for of in [set(&[(1, true), (1, false)]), early] {
            assert_eq!(code(&of), format!("{:?}", ExitCode::from(NOT_VALID)));
        }
    }

    #[test]
    fn failures_are_named() {
        let told = failures(&set(&[(1, true), (1, true), (1, true), (1, false)]));
        assert_eq!(told, ["The command failed in repetition 2: exit code 1."]);
    }
}
