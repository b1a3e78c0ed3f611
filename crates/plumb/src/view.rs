// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb view`: one view of a trace, as statistics, distribution or log.

mod btt;
mod json;
mod text;

use crate::cli::{ExplainArgs, Show, ViewArgs};
use crate::{explain, quality};
use anyhow::{bail, Context, Result};
use clap::builder::PossibleValue;
use plumb_analysis::{setup, Quality};
use plumb_model::views::{waypoints, Filter, Grouping, Groups, Key, Names, Spec, Viewer, KEYS, VIEWS};
use plumb_report::plain::{self, Plain};
use plumb_report::terminal;
use plumb_trace::event_by_name;
use plumb_trace::reader::Trace;
use plumb_trace::schema::StateSpan;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

/// What stands below the options.
pub const HELP: &str = "\
All views but chain, netsend, netroute and waypoints work on a default recording; chain needs -e default,tcp, the next
two -e default,net, waypoints --span kernel:FUNCTION. A view whose events are not in the trace says which to record.
Call sites come from the stacks of waits (record's --stacks, 1 ms by default) of
the target's threads; a shorter wait is told by its system call.

Examples:
  plumb view runqueue DIR                      # who waited for a CPU, how long
  plumb view runqueue DIR --by instead         # and who ran before him
  plumb view spinlock DIR --by site --dist
  plumb view buffer DIR --device sda --from 1.5s --to 2s --log
  plumb view btt DIR --json | jq '.tables[0].rows[]'
  plumb view chain SET                         # the slowest requests of several hosts";

/// The view that has no items: requests from host to host.
const CHAIN: &str = "chain";

/// The names of the views, with what each shows.
pub fn names() -> Vec<PossibleValue> {
    let chain = "The slowest commands and requests between hosts, step by step; as explain --chain SET.";
    let all = VIEWS.iter().map(|v| (v.name, v.about)).chain([(CHAIN, chain)]);
    all.map(|(name, about)| PossibleValue::new(name).help(about)).collect()
}

/// The slowest requests of a set, or of one trace.
fn chain(args: &ViewArgs) -> Result<ExitCode> {
    let ViewArgs { stat, dist, log, json, by, from, to, pid, device, .. } = args;
    let other = *stat || *dist || *log || *json || by.is_some() || from.is_some() || to.is_some();
    if other || !pid.is_empty() || !device.is_empty() {
        bail!("view {CHAIN} has no option but --comm; as JSON: plumb explain --json");
    }
    let show = Show { comm: args.comm.clone(), threads: false, chain: true, wide: false, json: false };
    explain::main(&ExplainArgs { dir: args.dir.clone(), show }, true)
}

/// What the printers must know of the trace.
struct Ground<'a> {
    spec: &'static Spec,
    begin: u64,
    filter_from: u64,
    filter_to: u64,
    names: &'a Names,
    quality: &'a Quality,
    /// What else the reader must know, a sentence each.
    notes: &'a [String],
}

/// The trace must hold the events that the view is made of.
fn check_events(dir: &Path, spec: &Spec, trace: &Trace) -> Result<Vec<String>> {
    let env = &trace.metadata.env;
    let recorded: Vec<&str> = env.get("events").map_or("", String::as_str).split(',').collect();
    let lacks = |name: &&str| !recorded.contains(name);
    let set = |name: &str| event_by_name(name).map_or("", |e| e.set);
    let missing: Vec<&str> = spec.needs.iter().copied().filter(|n| lacks(n)).collect();
    if let Some(first) = missing.first() {
        let none = !recorded.iter().any(|r| set(r) == set(first));
        let what = if none {
            format!("the trace has no {} events", set(first))
        } else {
            format!("the trace lacks {}", missing.join(", "))
        };
        bail!("{}: {what}, which view {} needs: record with -e {}", dir.display(), spec.name, spec.record);
    }
    if spec.name == waypoints::NAME && !trace.state.spans.iter().any(StateSpan::of_kernel) {
        bail!(
            "{}: the trace has no spans of kernel functions, which view {} needs: record with --span kernel:FUNCTION, \
             once for each function",
            dir.display(),
            spec.name
        );
    }
    let mut notes: Vec<String> = spec
        .gains
        .iter()
        .filter(|(n, _)| lacks(n))
        .map(|(n, what)| format!("Without {n} in the trace: no {what}."))
        .collect();
    let mut sets: Vec<&str> = spec.needs.iter().map(|n| set(n)).collect();
    sets.dedup();
    for set in sets {
        if let Some(ratio) = env.get(&format!("thin_{set}")) {
            notes.push(format!(
                "1 of {ratio} {set} events recorded: counts are too low, and pairs may be wrong."
            ));
        }
    }
    Ok(notes)
}

fn key(spec: &Spec, name: &str) -> Result<Key> {
    let names: Vec<&str> = spec.keys.iter().map(|k| k.name()).collect();
    match KEYS.iter().find(|(_, n)| *n == name) {
        Some((key, _)) if spec.keys.contains(key) => Ok(*key),
        _ => bail!("view {} cannot group by '{name}'; keys: {}", spec.name, names.join(", ")),
    }
}

fn device(spec: &Spec, trace: &Trace, name: &str) -> Result<u64> {
    if spec.keys.contains(&Key::Interface) {
        return match name.strip_prefix("if").unwrap_or(name).parse() {
            Ok(n) => Ok(n),
            Err(_) => bail!(
                "'{name}' is no interface of a trace: they go by index, ifN; `ip link` shows it as the number in front"
            ),
        };
    }
    if !spec.keys.contains(&Key::Device) {
        bail!("the items of view {} belong to no device; leave out --device", spec.name);
    }
    let kernel = name.trim_start_matches("/dev/");
    let disks = &trace.state.disks;
    if let Some(disk) = disks.iter().find(|d| d.name == kernel) {
        if disk.disk != disk.dev {
            let whole = disks.iter().find(|d| d.dev == disk.disk).map_or("its disk", |d| &d.name);
            bail!("{name} is a partition, and requests are the whole disk's: --device {whole}");
        }
        return Ok(disk.dev.into());
    }
    let mut all: Vec<&str> = disks.iter().filter(|d| d.dev == d.disk).map(|d| d.name.as_str()).collect();
    all.sort_unstable();
    bail!("no disk '{name}' in the trace; disks: {}", all.join(", "))
}

fn filter(args: &ViewArgs, spec: &Spec, trace: &Trace, span: (u64, u64)) -> Result<Filter> {
    let (from, to) = setup::window(span, args.from, args.to)?;
    let devices = args.device.iter().map(|d| device(spec, trace, d)).collect::<Result<_>>()?;
    Ok(Filter { from, to, comms: args.comm.clone(), pids: args.pid.clone(), devices })
}

/// A reader that closed the pipe (head) has seen enough.
fn ended<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) => match e.downcast_ref::<std::io::Error>() {
            Some(io) if io.kind() == std::io::ErrorKind::BrokenPipe => Ok(None),
            _ => Err(e),
        },
    }
}

/// Runs the command.
///
/// # Errors
/// No trace, one without the events that the view needs, or a filter that names nothing.
pub fn main(args: &ViewArgs) -> Result<ExitCode> {
    if args.view == CHAIN {
        return chain(args);
    }
    let spec = Spec::find(&args.view).context("no such view")?;
    let by = args.by.as_deref().map(|b| key(spec, b)).transpose()?;
    let trace = Trace::open(&args.dir).with_context(|| {
        format!("cannot view {}: neither a run directory nor a trace", args.dir.display())
    })?;
    let notes = check_events(&args.dir, spec, &trace)?;
    let span = setup::span(&trace);
    let filter = filter(args, spec, &trace, span)?;
    let (from, to) = (filter.from, filter.to);
    let mut viewer = Viewer::new(spec, &trace.state, filter);
    let mut shown = Plain(BufWriter::new(std::io::stdout().lock()));
    // JSON has its own escapes; in text no name may act on a terminal.
    let mut out: &mut dyn Write = if args.json { &mut shown.0 } else { &mut shown };

    let wanted = match by {
        Some(by) => spec.tables_by(by),
        None if args.log => vec![Grouping { kind: "", by: Key::Thread }],
        None => spec.tables.to_vec(),
    };
    if args.log && args.json {
        plumb_machine::json::begin_lines::<json::Item>(&mut *out)?;
    }
    let mut tables: Vec<Groups> = wanted.iter().copied().map(Groups::new).collect();
    let (mut items, mut written) = (0, Ok(()));
    let summary = trace.for_each(|item| {
        viewer.feed(&item, &mut |sample, names| {
            if written.is_err() || !wanted.iter().any(|g| g.wants(sample.kind)) {
                return;
            }
            items += 1;
            match (args.log, args.json) {
                (false, _) => tables.iter_mut().for_each(|t| t.add(sample)),
                (true, true) => written = json::line(spec, sample, names, span.0, &mut out),
                (true, false) => written = text::line(spec, sample, names, span.0, &mut out),
            }
        });
    })?;
    if ended(written)?.is_none() {
        return Ok(ExitCode::SUCCESS);
    }
    if items == 0 && !args.comm.is_empty() {
        let all = viewer.names.all_comms();
        if !args.comm.iter().any(|c| all.contains(c)) {
            bail!(
                "no thread is called {}; threads: {}",
                args.comm.join(" or "),
                plain::name(&all.join(", "))
            );
        }
    }
    let quality = Quality::of(&trace, &summary);
    let ground = Ground {
        spec,
        begin: span.0,
        filter_from: from,
        filter_to: to.min(summary.end.max(from)),
        names: &viewer.names,
        quality: &quality,
        notes: &notes,
    };
    let printed = match (args.log, args.json) {
        (true, true) => Ok(()),
        (true, false) => text::notes(&ground, items, &mut std::io::stderr().lock()),
        (false, true) => json::document(&ground, &tables, items, &mut out),
        (false, false) if args.dist => text::distribution(&ground, &tables, items, &mut out),
        (false, false) if spec.name == waypoints::NAME && by.is_none() => {
            terminal::waypoints(&tables, ground.names, &mut out)?;
            text::notes(&ground, items, &mut out)
        }
        (false, false) if spec.name == "btt" => btt::statistics(&ground, &tables, items, &mut out),
        (false, false) => text::statistics(&ground, &tables, items, &mut out),
    };
    let flushed = printed.and_then(|()| Ok(out.flush()?));
    ended(flushed)?;
    Ok(quality::exit_code(&quality))
}
