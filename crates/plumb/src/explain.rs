// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb explain`: trace to account, tables and verdict. `plumb run` ends with it.

use crate::cli::{ExplainArgs, Show};
use crate::quality;
use anyhow::{ensure, Result};
use plumb_analysis::hosts::{self, Hosts, Member, Set};
use plumb_analysis::{Analysis, Pass};
use plumb_diagnose::Diagnosis;
use plumb_machine::json::{self, formats, Format, Output};
use plumb_model::profile::Profile;
use plumb_report::terminal::screen::Screen;
use plumb_report::terminal::{evidence_chain, results};
use plumb_report::{plain, terminal};
use plumb_trace::units;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// What was found in a recording.
#[derive(Serialize)]
pub struct Explained<'a> {
    #[serde(flatten)]
    pub analysis: &'a Analysis,
    /// Requests between the services of one machine; only of a trace with TCP segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<&'a Hosts>,
}

impl Output for Explained<'_> {
    const FORMAT: &'static Format = &formats::EXPLAIN;
}

#[derive(Serialize)]
struct ExplainedSet {
    /// By name.
    recordings: BTreeMap<String, Recording>,
    /// Requests between them.
    hosts: Hosts,
}

impl Output for ExplainedSet {
    const FORMAT: &'static Format = &formats::EXPLAIN_SET;
}

#[derive(Serialize)]
#[serde(untagged)]
enum Recording {
    Explained(Box<Analysis>),
    /// It cannot be read.
    Failed {
        error: String,
    },
}

/// Prints what was found, as text or JSON.
///
/// # Errors
/// The writer's.
pub fn print(explained: &Analysis, show: &Show, out: &mut Screen<'_>) -> Result<()> {
    if show.json {
        return Ok(json::write(out, &Explained { analysis: explained, hosts: None })?);
    }
    // Names are the programs' own: what acts on a terminal is escaped, here for all tables and sentences.
    let explained = &Analysis {
        environment: plain::all(&explained.environment)?,
        quality: plain::all(&explained.quality)?,
        diagnosis: plain::all(&explained.diagnosis)?,
        result: plain::all(&explained.result)?,
        profile: Profile::default(),
    };
    if show.chain {
        return evidence_chain::write(explained, out);
    }
    let account = explained.quality.no_account.is_empty();
    results::verdict(&explained.diagnosis, out)?;
    writeln!(out)?;
    results::services(&explained.diagnosis, out)?;
    if account {
        terminal::bars(&explained.result, out)?;
    }
    results::findings(&explained.diagnosis, out)?;
    if account {
        results::processes(&explained.result, out)?;
        writeln!(out)?;
        results::accounts(&explained.result, out)?;
        terminal::hot(&explained.result, out)?;
        results::operations(&explained.result, out)?;
        terminal::spans(&explained.result, out)?;
        terminal::wait_events(&explained.result, out)?;
        results::path(&explained.result, out)?;
        results::locks(&explained.result, out)?;
    }
    if account && show.threads {
        results::threads(&explained.result, out)?;
    }
    results::devices(&explained.result, out)?;
    if account {
        terminal::unexplained(&explained.result, out)?;
    }
    terminal::loss(&explained.quality, &explained.result, out)
}

/// What limits each recording of a collector's set, and their requests to each other: of text the first sentence of
/// each, of JSON all, by name.
fn set(recordings: &[PathBuf], args: &ExplainArgs, out: &mut Screen<'_>) -> Result<ExitCode> {
    let shown = args.dir.display();
    ensure!(!recordings.is_empty(), "{shown}: nothing was collected yet");
    ensure!(!args.show.threads, "{shown} is a set: --threads is of one recording");
    let mut all = BTreeMap::new();
    let set = Set::read(recordings, &args.show.comm);
    let code = ExitCode::from(set.exit_code());
    for Member { name, analysis, .. } in set.members {
        let explained = match analysis {
            Ok(explained) => explained,
            Err(e) => {
                eprintln!("plumb: {name}: {e:#}");
                all.insert(name, Recording::Failed { error: format!("{e:#}") });
                continue;
            }
        };
        if args.show.json {
            all.insert(name, Recording::Explained(Box::new(explained)));
            continue;
        }
        let host = explained.environment.get("hostname").map_or("", |h| h);
        let long = units::duration(explained.result.end.saturating_sub(explained.result.begin));
        out.heading(&plain::all(&format!("{name} [{host}, {long}]"))?)?;
        let lines = explained.diagnosis.lines.into_iter().take(1).collect();
        results::verdict(&plain::all(&Diagnosis { lines, ..Diagnosis::default() })?, out)?;
    }
    if args.show.json {
        json::write(out, &ExplainedSet { recordings: all, hosts: set.hosts })?;
    } else {
        let show = if args.show.chain { terminal::slowest } else { terminal::hosts };
        show(&plain::all(&set.hosts)?, out)?;
        writeln!(out, "\nOf one of them: plumb explain {shown}/NAME")?;
    }
    Ok(code)
}

/// Runs the command. With `chain` it is `plumb view chain`: the slowest requests step by step, of one trace too.
///
/// # Errors
/// No trace to explain.
pub fn main(args: &ExplainArgs, chain: bool) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    let out = &mut Screen::stdout(&mut out, args.show.wide);
    if let Some(recordings) = plumb_net::recordings(&args.dir)? {
        return set(&recordings, args, out);
    }
    let trace = plumb_analysis::open(&args.dir)?;
    let segments = hosts::has_segments(&trace);
    ensure!(
        segments || !chain,
        "{}: the trace has no tcp events, which view chain needs: record with -e default,tcp",
        args.dir.display()
    );
    if !segments || (args.show.chain && !chain) {
        let explained = Pass::over(&trace).only(&args.show.comm).analysis()?;
        print(&explained, &args.show, out)?;
        return Ok(quality::exit_code(&explained.quality));
    }
    // Services of one machine that send each other requests are a set of one.
    let (explained, hosts) = hosts::alone(&trace, &args.show.comm);
    let explained = explained?;
    if args.show.json {
        json::write(out, &Explained { analysis: &explained, hosts: Some(&hosts) })?;
    } else if chain {
        terminal::slowest(&plain::all(&hosts)?, out)?;
    } else {
        print(&explained, &args.show, out)?;
        terminal::hosts(&plain::all(&hosts)?, out)?;
    }
    Ok(quality::exit_code(&explained.quality))
}
