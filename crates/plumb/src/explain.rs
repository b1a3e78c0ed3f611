// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb explain`: trace to account, tables and verdict. `plumb run` ends with it.

use crate::cli::{ExplainArgs, Show};
use crate::profile::annotate;
use crate::quality::{self, Quality};
use crate::{chain, setup, tables};
use anyhow::{Context, Result};
use plumb_diagnose::{diagnose, Diagnosis};
use plumb_model::profile::{self, Collector, Profile};
use plumb_model::{HotRow, Model, Observer, RunResult};
use plumb_report::collect::{Collect, Collected};
use plumb_report::plain;
use plumb_report::stream::Stream;
use plumb_report::terminal::screen::{Look, Screen, COLUMNS};
use plumb_report::terminal::wrapped_to;
use plumb_trace::reader::{Summary, Trace};
use plumb_trace::units;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Everything that is known of one run.
#[derive(Debug, Clone, Serialize)]
pub struct Explained {
    /// Machine, target and options, from the trace.
    pub environment: BTreeMap<String, String>,
    /// How far the trace can be trusted.
    pub quality: Quality,
    /// Verdict, kind of limit, findings.
    #[serde(flatten)]
    pub diagnosis: Diagnosis,
    /// Account, tables, devices.
    #[serde(flatten)]
    pub result: RunResult,
    /// What [`RunResult::hot`] is the first lines of.
    #[serde(skip)]
    pub profile: Profile,
}

/// Reads a trace and lets the model work on it.
///
/// # Errors
/// No trace, of another schema, or without events.
pub fn explain(dir: &Path) -> Result<Explained> {
    explain_trace(&open(dir)?)
}

/// The same of a trace that is open.
///
/// # Errors
/// As [`explain`].
pub fn explain_trace(trace: &Trace) -> Result<Explained> {
    let pass = pass(trace, ())?;
    Ok(explained(trace, pass).0)
}

/// The same, with the rows that a report page shows.
///
/// # Errors
/// As [`explain`].
pub fn explain_with_rows(trace: &Trace) -> Result<(Explained, Collected)> {
    let pass = pass(trace, Stream::new(setup::span(trace).0, Collect::default()))?;
    let (explained, stream) = explained(trace, pass);
    let rows = stream.finish().finish(&explained.result, &trace.state)?;
    Ok((explained, rows))
}

/// Opens the trace of a run directory, or one that stands alone.
///
/// # Errors
/// There is none, or it is of another schema.
pub fn open(dir: &Path) -> Result<Trace> {
    Trace::open(dir).with_context(|| format!("{}: no run and no trace to explain", dir.display()))
}

/// What the model makes of a trace, with what a further observer saw.
struct Pass<O> {
    result: RunResult,
    collector: Collector,
    observer: O,
    summary: Summary,
}

fn pass<O: Observer>(trace: &Trace, observer: O) -> Result<Pass<O>> {
    let collector = Collector::new(0, u64::MAX).clock(&sample_clock(&trace.metadata.env));
    let mut model = Model::new(setup::of(trace), (collector, observer));
    let summary = trace.for_each(|item| model.feed(item))?;
    let (result, (collector, observer)) = model.finish();
    Ok(Pass { result, collector, observer, summary })
}

fn explained<O>(trace: &Trace, pass: Pass<O>) -> (Explained, O) {
    let Pass { mut result, collector, observer, summary } = pass;
    let environment = trace.metadata.env.clone();
    let profile = collector.profile(&trace.state);
    result.hot = hot(&profile, &environment);
    let quality = Quality::of(trace, &summary);
    let diagnosis = diagnose(&result, &quality.trust());
    (Explained { environment, quality, diagnosis, result, profile }, observer)
}

/// The functions with most time, with their instructions.
pub(crate) fn hot(profile: &Profile, env: &BTreeMap<String, String>) -> Vec<HotRow> {
    let mut rows = profile::hot(profile);
    let machine = env.get("machine").map_or(std::env::consts::ARCH, String::as_str);
    annotate::instructions(profile, machine, &mut rows);
    rows
}

/// What the sampling clock was; empty where there was none.
pub fn sample_clock(env: &BTreeMap<String, String>) -> String {
    let rate = env.get("sample_hz").filter(|hz| *hz != "0").map(|hz| format!("cpu-clock {hz} Hz"));
    env.get("sample_clock").cloned().or(rate).unwrap_or_default()
}

/// Leaves only the processes that were asked for.
pub fn select(explained: &mut Explained, show: &Show) -> Result<()> {
    if show.comm.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = explained.result.processes.iter().map(|p| p.comm.clone()).collect();
    explained.result.processes.retain(|p| show.comm.contains(&p.comm));
    if explained.result.processes.is_empty() {
        let mut names = names;
        names.sort();
        names.dedup();
        anyhow::bail!("no process is called {}; there are: {}", show.comm.join(" or "), names.join(", "));
    }
    let profile = std::mem::take(&mut explained.profile);
    explained.profile = profile
        .filtered(|p, e| p.threads.get(e.thread as usize).is_some_and(|t| show.comm.contains(&t.process)));
    explained.result.hot = hot(&explained.profile, &explained.environment);
    // The command's critical path is not that of a part of its processes.
    explained.result.path = tables::threads_path(&explained.result);
    explained.diagnosis = diagnose(&explained.result, &explained.quality.trust());
    Ok(())
}

/// Prints what was found, as text or JSON.
///
/// # Errors
/// The writer's.
pub fn print(explained: &Explained, show: &Show, out: &mut Screen<'_>) -> Result<()> {
    if show.json {
        writeln!(out, "{}", serde_json::to_string_pretty(explained)?)?;
        return Ok(());
    }
    // Names are the programs' own: what acts on a terminal is escaped, here for all tables and sentences.
    let explained = &Explained {
        environment: plain::all(&explained.environment)?,
        quality: plain::all(&explained.quality)?,
        diagnosis: plain::all(&explained.diagnosis)?,
        result: plain::all(&explained.result)?,
        profile: Profile::default(),
    };
    if show.chain {
        return chain::write(explained, out);
    }
    let account = explained.quality.no_account.is_empty();
    for (i, sentence) in explained.diagnosis.verdict.iter().enumerate() {
        let sentence = wrapped_to(sentence, 0, COLUMNS);
        let line = if i == 0 { out.paint(&sentence, Look::Bold) } else { sentence };
        writeln!(out, "{line}")?;
    }
    writeln!(out)?;
    if account {
        tables::bars(&explained.result, out)?;
    }
    tables::findings(&explained.diagnosis, out)?;
    if account {
        tables::processes(&explained.result, out)?;
        writeln!(out)?;
        tables::accounts(&explained.result, out)?;
        tables::hot(&explained.result, out)?;
        tables::operations(&explained.result, out)?;
        tables::path(&explained.result, out)?;
        tables::locks(&explained.result, out)?;
    }
    if account && show.threads {
        tables::threads(&explained.result, out)?;
    }
    tables::devices(&explained.result, out)?;
    if account {
        tables::unexplained(&explained.result, out)?;
    }
    let q = &explained.quality;
    writeln!(
        out,
        "\nTrace: {} events, {} of the recorder's own, {} lost, {} missed.",
        units::count(q.events),
        units::count(q.state_events),
        units::count(q.lost),
        units::count(q.missed)
    )?;
    if q.operation_events > 0 {
        writeln!(
            out,
            "  {} events of a workload's operations, {} lost",
            units::count(q.operation_events),
            units::count(q.operation_events_lost)
        )?;
    }
    for (cpu, begin, end, lost) in q.gaps.iter().take(10) {
        let at = begin.saturating_sub(explained.result.begin);
        let length = units::duration(end.saturating_sub(*begin).min(explained.result.end));
        writeln!(
            out,
            "  CPU {cpu}: {} events lost at {} for {length}",
            units::count(*lost),
            units::duration(at)
        )?;
    }
    for place in &q.damage {
        writeln!(out, "  damaged: {place}; what follows it in this file is left out")?;
    }
    for (what, n) in &explained.result.impossible {
        writeln!(out, "  {}: {what}", units::count(*n))?;
    }
    Ok(())
}

/// Runs the command.
///
/// # Errors
/// No trace to explain.
pub fn main(args: &ExplainArgs) -> Result<ExitCode> {
    let mut explained = explain(&args.dir)?;
    select(&mut explained, &args.show)?;
    let mut out = std::io::stdout().lock();
    print(&explained, &args.show, &mut Screen::stdout(&mut out, args.show.wide))?;
    Ok(quality::exit_code(&explained.quality))
}
