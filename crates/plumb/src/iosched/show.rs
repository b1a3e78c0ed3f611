// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb iosched status` in words.

use anyhow::Result;
use plumb_govern::iosched::knobs::KNOBS;
use plumb_govern::iosched::status::{Disk, Mode, Selected, Status};
use plumb_govern::iosched::SCHEDULER;
use plumb_report::terminal::{wrapped, Table};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Processes that are named before the rest is counted.
const NAMED: usize = 10;

pub fn status(status: &Status, json: bool) -> Result<()> {
    let mut out = io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, status)?;
        writeln!(out)?;
        return Ok(out.flush()?);
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
    let mut table = Table::new(&["<disk", "<turns", "queues", "<scheduler", "<may have"]);
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
            scheduler(&mut out, disk, selected)?;
        }
    }
    low(&mut out, status)?;
    Ok(out.flush()?)
}

fn scheduler(out: &mut dyn Write, disk: &Disk, selected: &Selected) -> io::Result<()> {
    let mode = match selected.mode {
        Mode::Batch => "batch mode: low requests go freely",
        Mode::Gated => "low requests are held back",
        Mode::NotShown => "no request showed just now whether it is in batch mode",
    };
    writeln!(out, "{}: {mode}", disk.name)?;
    let mut table = Table::new(&["<knob", "value", "<unit", "<what it does"]);
    for knob in KNOBS.iter() {
        let value = selected.knobs.get(knob.name).map_or("-".into(), u64::to_string);
        table.row(vec![knob.name.into(), value, knob.unit.into(), knob.about.into()]);
    }
    table.write(out)?;
    let counters = |of: &BTreeMap<String, u64>| -> String {
        of.iter().map(|(key, n)| format!("{key} {n}")).collect::<Vec<_>>().join(", ")
    };
    for (name, of) in
        [("normal", &selected.normal), ("low", &selected.low), ("decisions", &selected.decisions)]
    {
        writeln!(out, "  {name}: {}", wrapped(&counters(of), name.len() + 4))?;
    }
    let cgroups = selected.low_cgroups.join(" ");
    writeln!(out, "  low cgroups: {}", if cgroups.is_empty() { "none" } else { &cgroups })
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
    writeln!(out, "low by I/O priority class idle: {}{rest}", wrapped(&named.join(", "), 2))
}
