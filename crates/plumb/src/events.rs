// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb events`: what can be recorded and what it costs.

use crate::cli::EventsArgs;
use anyhow::{bail, Result};
use plumb_machine::json::{self, formats, Format, Output};
use plumb_probe::measure_costs;
use plumb_probe::Selection;
use plumb_report::terminal::Table;
use plumb_trace::{kernel_events, sets};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Read, Seek, Write};
use std::process::ExitCode;

#[derive(Serialize)]
struct Events {
    events: Vec<Line>,
}

impl Output for Events {
    const FORMAT: &'static Format = &formats::EVENTS;
}

#[derive(Serialize)]
struct Line {
    name: &'static str,
    id: u16,
    set: &'static str,
    bytes: usize,
    tracepoint: &'static str,
    doc: &'static str,
    fields: Vec<String>,
    /// Mean run time of the event's program, ns: here with --measure, else on the reference machine.
    cost_ns: Option<f64>,
    /// Runs that the mean is over; only with --measure.
    runs: Option<u64>,
}

/// What each event cost on the machine of the published benchmark.
#[derive(Deserialize)]
struct Reference {
    evidence: String,
    machine: String,
    cost_ns: BTreeMap<String, f64>,
}

fn reference() -> Result<Reference> {
    Ok(serde_json::from_str(include_str!("event_cost.json"))?)
}

/// Prints the list.
///
/// # Errors
/// An unknown set; no permission to measure.
pub fn main(args: &EventsArgs) -> Result<ExitCode> {
    if let Some(set) = args.set.as_deref().filter(|s| !sets().contains(s)) {
        bail!("no set '{set}'; sets: {}", sets().join(", "));
    }
    let costs = if args.measure { measure()? } else { BTreeMap::new() };
    let reference = reference()?;
    let events = kernel_events()
        .filter(|e| args.set.as_deref().is_none_or(|s| s == e.set))
        .map(|e| {
            let cost = costs.get(e.name).filter(|(_, runs)| *runs > 0);
            Line {
                name: e.name,
                id: e.id,
                set: e.set,
                bytes: e.size,
                tracepoint: e.tracepoint,
                doc: e.doc,
                fields: e
                    .fields
                    .iter()
                    .map(|f| format!("{}[{}]", f.name, f.unit).replace("[]", ""))
                    .collect(),
                cost_ns: match cost {
                    Some((ns, runs)) => Some(*ns as f64 / *runs as f64),
                    None if args.measure => None,
                    None => reference.cost_ns.get(e.name).copied(),
                },
                runs: cost.map(|(_, runs)| *runs),
            }
        })
        .collect();
    let all = Events { events };
    let mut out = std::io::stdout().lock();
    if args.json {
        json::write(&mut out, &all)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut set = "";
    let mut table = Table::new(&["<event", "bytes", "cost", "<fields and meaning"]);
    for line in &all.events {
        if line.set != set {
            set = line.set;
            table.row(vec![format!("[{set}]"), String::new(), String::new(), String::new()]);
        }
        let cost = line.cost_ns.map_or_else(|| "-".into(), |ns| format!("{ns:.0} ns"));
        table.row(vec![line.name.into(), line.bytes.to_string(), cost, line.fields.join(" ")]);
        table.row(vec![String::new(), String::new(), String::new(), line.doc.into()]);
    }
    table.write(&mut out)?;
    let what = "mean run time of the event's program as the kernel counts it, the kernel's own clock readings included";
    if args.measure {
        writeln!(out, "\ncost: {what}; - did not happen")?;
    } else {
        let Reference { evidence, machine, .. } = &reference;
        writeln!(
            out,
            "\ncost: {what}, on {machine} ({evidence}); 'plumb events --measure' measures it here"
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Event to (ns, runs), over a little of everything.
fn measure() -> Result<BTreeMap<String, (u64, u64)>> {
    let mut file = temporary_file()?;
    let mut n = 0u64;
    let costs = measure_costs(&Selection::parse("all")?, 5, || {
        n += 1;
        let mut block = [0; 4096];
        let _ = file.rewind().and_then(|()| file.write_all(&block)).and_then(|()| file.rewind());
        let _ = file.read(&mut block);
        if n % 64 == 0 {
            let _ = file.sync_all();
            let _ = std::process::Command::new("true").status();
        }
        if n % 8 == 0 {
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
    })?;
    Ok(costs.into_iter().map(|(name, ns, runs)| (name, (ns, runs))).collect())
}

/// A file without a name in the present directory: gone when it is closed.
fn temporary_file() -> Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = std::fs::File::options().read(true).write(true).custom_flags(libc::O_TMPFILE).open(".");
    file.map_err(|e| {
        anyhow::anyhow!(
            "the present directory cannot hold a file to measure with: {e}; change to one that can"
        )
    })
}
