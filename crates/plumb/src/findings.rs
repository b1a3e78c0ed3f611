// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb findings`: what can be found.

use crate::cli::FindingsArgs;
use anyhow::Result;
use plumb_diagnose::RULES;
use plumb_machine::json::{self, formats, Format, Output};
use plumb_report::terminal::Table;
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;

#[derive(Serialize)]
struct Findings {
    /// In the order in which the rules look.
    findings: Vec<Row>,
}

impl Output for Findings {
    const FORMAT: &'static Format = &formats::FINDINGS;
}

#[derive(Serialize)]
struct Row {
    id: &'static str,
    title: &'static str,
    /// What to do about it.
    next: &'static str,
}

/// Runs the command.
///
/// # Errors
/// The writer's.
pub fn main(args: &FindingsArgs) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    let findings = RULES.iter().map(|r| Row { id: r.id, title: r.title, next: r.next }).collect();
    let all = Findings { findings };
    if args.json {
        json::write(&mut out, &all)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "In the order in which the rules look; each takes the time that it explains.")?;
    let mut table = Table::new(&["<finding", "<what it says"]);
    for r in &all.findings {
        table.row(vec![r.id.into(), r.title.into()]);
        table.row(vec![String::new(), format!("> {}", r.next)]);
    }
    table.write(&mut out)?;
    Ok(ExitCode::SUCCESS)
}
