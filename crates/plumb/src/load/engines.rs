// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb load engines`: which interfaces this kernel has.

use crate::cli::EnginesArgs;
use anyhow::Result;
use clap::ValueEnum;
use plumb_load::engine;
use plumb_load::job::Through;
use plumb_machine::json::{self, formats, Format, Output};
use plumb_report::terminal::Table;
use serde::Serialize;
use std::process::ExitCode;

#[derive(Serialize)]
struct Engines<'a> {
    engines: Vec<Engine<'a>>,
}

impl Output for Engines<'_> {
    const FORMAT: &'static Format = &formats::LOAD_ENGINES;
}

#[derive(Serialize)]
struct Engine<'a> {
    /// The word of `--through`.
    engine: Through,
    /// What is called.
    calls: &'a str,
    available: bool,
    /// Why it is not available.
    missing: Option<&'a str>,
    /// Several operations can be in flight at once.
    queues: bool,
}

/// Runs the command.
///
/// # Errors
/// The writer's.
pub fn main(args: &EnginesArgs) -> Result<ExitCode> {
    let all = Through::value_variants().iter().filter_map(|t| Some((*t, t.to_possible_value()?)));
    let all: Vec<_> = all
        .map(|(through, word)| {
            let calls = word.get_help().map(ToString::to_string).unwrap_or_default();
            (through, calls, engine::available(through).err().map(|e| e.to_string()))
        })
        .collect();
    let mut out = std::io::stdout().lock();
    if args.json {
        let engines = all.iter().map(|(through, calls, missing)| Engine {
            engine: *through,
            calls,
            available: missing.is_none(),
            missing: missing.as_deref(),
            queues: through.queues(),
        });
        json::write(&mut out, &Engines { engines: engines.collect() })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["<--through", "<here", "<--depth", "<what is called"]);
    for (through, calls, missing) in all {
        let depth = if through.queues() { "yes" } else { "1" };
        let here = if missing.is_some() { "no" } else { "yes" };
        table.row(vec![through.to_string(), here.into(), depth.into(), calls]);
        if let Some(why) = missing {
            table.row(vec![String::new(), String::new(), String::new(), format!("> {why}")]);
        }
    }
    table.write(&mut out)?;
    Ok(ExitCode::SUCCESS)
}
