// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb guide list`: the table of tunables.

use super::tunables::{Candidates, Tunable, When, TUNABLES};
use anyhow::Result;
use plumb_machine::json::{self, formats, Format, Output};
use plumb_report::terminal::wrapped;
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;

/// Prints the table.
///
/// # Errors
/// Standard output is gone.
pub fn main(as_json: bool) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    if as_json {
        json::write(&mut out, &Tunables { tunables: TUNABLES.iter().map(row).collect() })?;
        return Ok(ExitCode::SUCCESS);
    }
    for tunable in TUNABLES {
        writeln!(out, "{}", tunable.key)?;
        let findings: Vec<String> = tunable.findings.iter().map(|(id, when)| finding(id, *when)).collect();
        let mut line = |name: &str, text: &str| {
            let text = format!("  {name:<9}{}", wrapped(text, 11));
            writeln!(out, "{text}")
        };
        line("for", &findings.join(", "))?;
        line("value", &format!("{}, of {}", tunable.setting.place(), tunable.setting.scope()))?;
        line("tries", &candidates(tunable))?;
        line("because", tunable.because)?;
        line("costs", tunable.costs)?;
        line("undo", tunable.setting.undo())?;
    }
    writeln!(out, "env:NAME=VALUE, --try\n  Changes of your own: for the first finding, or for one that @FINDING names.")?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Tunables {
    tunables: Vec<Row>,
}

impl Output for Tunables {
    const FORMAT: &'static Format = &formats::TUNABLES;
}

#[derive(Serialize)]
struct Row {
    key: &'static str,
    /// Findings that it is tried for.
    findings: Vec<&'static str>,
    /// What the value is of.
    scope: &'static str,
    /// Where the value stands.
    value: String,
    tries: String,
    because: &'static str,
    costs: &'static str,
    undo: &'static str,
}

fn row(tunable: &'static Tunable) -> Row {
    Row {
        key: tunable.key,
        findings: tunable.findings.iter().map(|(id, _)| *id).collect(),
        scope: tunable.setting.scope(),
        value: tunable.setting.place(),
        tries: candidates(tunable),
        because: tunable.because,
        costs: tunable.costs,
        undo: tunable.setting.undo(),
    }
}

fn finding(id: &str, when: When) -> String {
    match when {
        When::Always => id.into(),
        When::SequentialReads => format!("{id} (of sequential reads)"),
        When::Shared => format!("{id} (with several processes on the device)"),
        When::TagWait => format!("{id} (with bios waiting for a tag)"),
    }
}

fn candidates(tunable: &Tunable) -> String {
    let list = |all: Vec<String>| all.join(", ");
    match tunable.candidates {
        Candidates::Larger(all) => {
            format!("{}, where that is more", list(all.iter().map(u64::to_string).collect()))
        }
        Candidates::Smaller(all) => {
            format!("{}, where that is less", list(all.iter().map(i64::to_string).collect()))
        }
        Candidates::Words(all) => format!("{}, where the kernel offers it", all.join(", ")),
        Candidates::Unlimited => "no limit".into(),
        Candidates::AllCpus => "every CPU that is online".into(),
    }
}
