// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb iosched status` in words.

use anyhow::Result;
use plumb_govern::iosched::knobs::{Knob, BASIC, KNOBS};
use plumb_govern::iosched::status::{Disk, Mode, Selected, Status};
use plumb_govern::iosched::SCHEDULER;
use plumb_machine::json;
use plumb_report::terminal::{wrapped, Table};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Processes that are named before the rest is counted.
const NAMED: usize = 10;

/// As text or JSON; `advanced` lists every knob, else only the first two and those that were changed. JSON has all.
pub fn status(status: &Status, json: bool, advanced: bool) -> Result<()> {
    let mut out = io::stdout().lock();
    if json {
        return Ok(json::write(&mut out, status)?);
    }
    let module = match (&status.module.loaded, &status.module.file) {
        (true, _) => "loaded".to_string(),
        (false, Some(file)) => format!("installed ({file}), not loaded; set loads it"),
        (false, None) if status.module.barred => "not installed for this kernel".to_string(),
        (false, None) => {
            "not installed for this kernel (docs/iosched.md tells how); plumb govern needs none".to_string()
        }
    };
    writeln!(out, "module {SCHEDULER}: {module}")?;
    for hindrance in &status.hindrances {
        writeln!(out, "  {}", wrapped(hindrance, 2))?;
    }
    let mut table = Table::new(&["<disk", "<rotational", "queues", "<scheduler", "<available"]);
    for disk in &status.disks {
        table.row(vec![
            disk.name.clone(),
            if disk.rotational { "yes" } else { "no" }.into(),
            disk.hardware_queues.to_string(),
            disk.scheduler.clone().unwrap_or_else(|| "-".into()),
            disk.available.join(" "),
        ]);
    }
    table.write(&mut out)?;
    for disk in &status.disks {
        for note in &disk.notes {
            writeln!(out, "{}: {}", disk.name, wrapped(note, disk.name.len() + 2))?;
        }
    }
    for disk in &status.disks {
        if let Some(selected) = &disk.selected {
            scheduler(&mut out, disk, selected, advanced)?;
        }
    }
    low(&mut out, status)?;
    Ok(out.flush()?)
}

fn scheduler(out: &mut dyn Write, disk: &Disk, selected: &Selected, advanced: bool) -> io::Result<()> {
    let mode = match selected.mode {
        Mode::Batch => "batch mode: low-priority requests are not throttled",
        Mode::Gated => "low-priority requests are throttled",
        Mode::NotShown => "no request in the last 100 ms shows whether it is in batch mode",
    };
    writeln!(out, "{}: {mode}", disk.name)?;
    let value = |knob: &Knob| selected.knobs.get(knob.name).copied();
    let rows = |knobs: &[&Knob], out: &mut dyn Write| -> io::Result<()> {
        let mut table = Table::new(&["<knob", "value", "default", "<unit", "<what it does"]);
        for knob in knobs {
            let default = knob.default(disk.rotational).to_string();
            let value = value(knob).map_or("-".into(), |v| v.to_string());
            table.row(vec![knob.name.into(), value, default, knob.unit.into(), knob.about.into()]);
        }
        table.write(out)
    };
    let (basic, rest) = KNOBS.split_at(BASIC);
    rows(&basic.iter().collect::<Vec<_>>(), out)?;
    let changed = |knob: &&Knob| value(knob).is_some_and(|v| v != knob.default(disk.rotational));
    let listed: Vec<&Knob> = rest.iter().filter(|k| advanced || changed(k)).collect();
    if advanced {
        writeln!(out, "advanced:")?;
        rows(&listed, out)?;
        writeln!(out, "when to change one:")?;
        for knob in &listed {
            writeln!(out, "  {}: {}", knob.name, wrapped(knob.when, knob.name.len() + 4))?;
        }
    } else if listed.is_empty() {
        writeln!(out, "advanced: {} knobs, all at their defaults (--advanced)", rest.len())?;
    } else {
        writeln!(out, "advanced: {} of {} knobs changed (--advanced lists all)", listed.len(), rest.len())?;
        rows(&listed, out)?;
    }
    let counters = |of: &BTreeMap<String, u64>| -> String {
        of.iter().map(|(key, n)| format!("{key} {n}")).collect::<Vec<_>>().join(", ")
    };
    for (name, of) in
        [("normal", &selected.normal), ("low", &selected.low), ("decisions", &selected.decisions)]
    {
        writeln!(out, "  {name}: {}", wrapped(&counters(of), name.len() + 4))?;
    }
    let cgroups = selected.low_cgroups.join(" ");
    writeln!(out, "  background cgroups: {}", if cgroups.is_empty() { "none" } else { &cgroups })
}

fn low(out: &mut dyn Write, status: &Status) -> io::Result<()> {
    if status.low.is_empty() {
        return writeln!(out, "no process has I/O priority class idle; ionice -c3 COMMAND gives it");
    }
    let named: Vec<String> = status
        .low
        .iter()
        .take(NAMED)
        .map(|l| format!("{} ({}, {} of {} threads)", l.name, l.pid, l.threads[0], l.threads[1]))
        .collect();
    let rest = status.low.len().saturating_sub(NAMED);
    let rest = if rest > 0 { format!(", and {rest} more") } else { String::new() };
    writeln!(out, "background by I/O priority class idle: {}{rest}", wrapped(&named.join(", "), 2))
}
