// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb publish` and `plumb lake`: the tables of runs in a directory, or a bucket, that engines read.

mod forward;

use crate::cli::{LakeArgs, LakeCommand, PublishArgs};
use crate::quality::NOT_VALID;
use anyhow::{bail, Context, Result};
use forward::{Forwarded, Forwarder};
use plumb_machine::json::{self, formats, Format, Output};
use plumb_machine::signals::{self, Calls};
use plumb_report::lake::{self, Policy, Published, Rules, State};
use plumb_report::query::{runs, RunDir};
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
    /// Of a bucket: what is there now, and what waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    forwarded: Option<Forwarded>,
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
    let mut forwarder = Forwarder::of(&args.to, args.spool.as_deref(), args.spool_size)?;
    if forwarder.is_none() && args.runs.is_empty() {
        bail!("which runs? plumb publish RUN... --to {}", args.to.display());
    }
    signals::catch(Calls::Interrupt);
    let stop = signals::asked();
    let mut done = Done { lake: args.to.clone(), runs: Vec::new(), failed: Vec::new(), forwarded: None };
    let lake = forwarder.as_ref().map_or(args.to.clone(), |f| f.spool().to_owned());
    // What waits goes first, whatever becomes of the rest: it makes room.
    forwarder.iter_mut().try_for_each(|f| f.forward(stop))?;
    let found = found(&args.runs, &mut done.failed)?;
    for (n, batch) in found.chunks(lake::BATCH).enumerate() {
        if let Some(full) = forwarder.as_ref().map(Forwarder::full).transpose()?.flatten() {
            let rest = &found[n * lake::BATCH..];
            eprintln!("plumb: {} runs are not taken: {full}", units::count(rest.len() as u64));
            let failed = |run: &RunDir| Failed { path: run.name.clone(), error: full.clone() };
            done.failed.extend(rest.iter().map(failed));
            break;
        }
        for (name, became) in lake::publish(batch, &lake, &policy, stop)? {
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
        forwarder.iter_mut().try_for_each(|f| f.forward(stop))?;
        if signals::stopped() {
            break;
        }
    }
    let refused = match forwarder {
        None => None,
        Some(forwarder) => {
            let (forwarded, refused) = forwarder.end()?;
            eprintln!("{}", forwarded.words(&args.to));
            done.forwarded = Some(forwarded);
            refused
        }
    };
    if args.json {
        json::write(std::io::stdout().lock(), &done)?;
    }
    if signals::stopped() {
        bail!("ended; call it again: what is there stays, and what waits goes on");
    }
    if let Some(error) = refused {
        return Err(error);
    }
    let left = done.failed.len();
    if left > 0 {
        let all = left + done.runs.len();
        bail!("{left} of {all} runs are not published; give them again, what is there stays");
    }
    Ok(if done.runs.iter().all(|r| r.valid) { ExitCode::SUCCESS } else { ExitCode::from(NOT_VALID) })
}

/// The runs that are named; of a directory of `plumb watch` its windows, and the runs that it wrote. With several names one that
/// stands for none is a failure of its own.
///
/// # Errors
/// The only one stands for none.
fn found(named: &[PathBuf], failed: &mut Vec<Failed>) -> Result<Vec<RunDir>> {
    let mut all = Vec::new();
    for path in named {
        all.push(path.clone());
        let written = path.join("runs");
        let some = || written.read_dir().is_ok_and(|mut entries| entries.next().is_some());
        if path.join("windows").is_dir() && some() {
            all.push(written);
        }
    }
    match runs(&all) {
        Err(error) if all.len() < 2 => Err(error),
        Ok(found) => Ok(found),
        Err(_) => {
            let mut out = Vec::new();
            for path in all {
                match runs(std::slice::from_ref(&path)) {
                    Ok(found) => out.extend(found),
                    Err(error) => {
                        let error = format!("{error:#}");
                        eprintln!("plumb: cannot publish {error}");
                        failed.push(Failed { path: path.display().to_string(), error });
                    }
                }
            }
            Ok(out)
        }
    }
}

/// Runs `plumb lake`.
///
/// # Errors
/// It is no lake, or cannot be read.
pub fn lake(args: &LakeArgs) -> Result<ExitCode> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    match &args.command {
        LakeCommand::Views { lake, engine } => match forward::bucket(lake)? {
            None => lake::views_of(lake, (*engine).into(), &mut out)?,
            Some((url, bucket)) => {
                let tables = bucket.directories()?;
                if !tables.iter().any(|table| table == "runs") {
                    bail!("{url}: is no lake: it has no directory 'runs'; plumb publish RUN --to {url} makes one");
                }
                let place = lake::Place::Bucket { url: &url, http: &bucket.place() };
                lake::views((*engine).into(), &place, &|table| tables.iter().any(|t| t == table), &mut out)?;
            }
        },
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
