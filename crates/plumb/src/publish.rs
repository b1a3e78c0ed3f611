// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb publish` and `plumb lake`: the tables of runs in a directory that engines read.

use crate::cli::{LakeArgs, LakeCommand, PublishArgs};
use crate::quality::NOT_VALID;
use anyhow::{bail, Context, Result};
use plumb_machine::json::{self, formats, Format, Output};
use plumb_machine::signals::{self, Calls};
use plumb_report::lake::{self, Policy, Published, Rules, State};
use plumb_report::query::runs;
use plumb_trace::units;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Serialize)]
struct Done {
    lake: PathBuf,
    runs: Vec<Published>,
    failed: Vec<Failed>,
}

/// A run that is not in the lake, or is not there to the end.
#[derive(Serialize)]
struct Failed {
    /// Its directory.
    path: String,
    error: String,
}

impl Output for Done {
    const FORMAT: &'static Format = &formats::PUBLISH;
}

/// Runs the command.
///
/// # Errors
/// There are no runs, the rules cannot be, or a run could not be published.
pub fn main(args: &PublishArgs) -> Result<ExitCode> {
    let rules = match &args.rules {
        None => Rules::default(),
        Some(file) => {
            let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
            toml::from_str(&text).with_context(|| file.display().to_string())?
        }
    };
    let policy = Policy::new(&rules)?;
    let found = runs(&args.runs)?;
    signals::catch(Calls::Interrupt);
    let stop = signals::asked();
    let mut done = Done { lake: args.to.clone(), runs: Vec::new(), failed: Vec::new() };
    for batch in found.chunks(lake::BATCH) {
        for (name, became) in lake::publish(batch, &args.to, &policy, stop)? {
            match became {
                Ok(published) => {
                    eprintln!("{name}: {}", words(&published));
                    published.words.iter().for_each(|w| eprintln!("plumb: {name}: {w}"));
                    done.runs.push(published);
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    eprintln!("plumb: cannot publish {error}");
                    done.failed.push(Failed { path: name, error });
                }
            }
        }
        if signals::stopped() {
            break;
        }
    }
    if args.json {
        json::write(std::io::stdout().lock(), &done)?;
    }
    if signals::stopped() {
        bail!("ended; give the runs again: what is there stays");
    }
    let left = done.failed.len();
    if left > 0 {
        let all = left + done.runs.len();
        bail!("{left} of {all} runs are not published; give them again, what is there stays");
    }
    Ok(if done.runs.iter().all(|r| r.valid) { ExitCode::SUCCESS } else { ExitCode::from(NOT_VALID) })
}

/// Runs `plumb lake`.
///
/// # Errors
/// It is no lake, or cannot be read.
pub fn lake(args: &LakeArgs) -> Result<ExitCode> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    match &args.command {
        LakeCommand::Views { lake } => lake::duckdb_views(lake, &mut out)?,
        LakeCommand::Compact { lake, json } => {
            signals::catch(Calls::Interrupt);
            let done = lake::compact(lake, signals::asked())?;
            done.skipped.iter().for_each(|s| eprintln!("plumb: cannot join {s}"));
            if *json {
                json::write(&mut out, &done)?;
            } else {
                let count = |n| units::count(n);
                writeln!(
                    out,
                    "{} files are {}, {} written",
                    count(done.before),
                    count(done.after),
                    units::bytes(done.bytes)
                )?;
                if done.recent > 0 {
                    writeln!(
                        out,
                        "{} files of today and yesterday (UTC) stay: more may come",
                        count(done.recent)
                    )?;
                }
            }
            out.flush()?;
            if !done.skipped.is_empty() {
                bail!("{} files are left as they are", done.skipped.len());
            }
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn words(p: &Published) -> String {
    let state = match p.state {
        State::Published => "published",
        State::Unchanged => return format!("was there already, as {} of {}, {}", p.run, p.host, p.day),
        State::Joined => {
            return format!("was there already, joined with others, as {} of {}, {}", p.run, p.host, p.day)
        }
        State::Replaced => "replaced",
    };
    format!(
        "{state} as {} of {}, {}: {} rows in {} tables, {}",
        p.run,
        p.host,
        p.day,
        units::count(p.rows),
        p.tables,
        units::bytes(p.bytes)
    )
}
