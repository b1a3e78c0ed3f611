// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb schema`: what the documents and streams of JSON look like, for programs that read them.

use crate::cli::SchemaArgs;
use anyhow::{Context, Result};
use plumb_machine::json::{formats, Format};
use plumb_report::terminal::Table;
use plumb_trace::suggest::nearest;
use std::io::Write;
use std::process::ExitCode;

/// Runs the command.
///
/// # Errors
/// No format of this name.
pub fn main(args: &SchemaArgs) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    match &args.name {
        Some(name) => out.write_all(find(name)?.schema.as_bytes())?,
        None => {
            let mut table = Table::new(&["<format", "version", "<what it is"]);
            for format in formats::ALL {
                table.row(vec![format.short().into(), format.version.to_string(), format.about().into()]);
            }
            table.write(&mut out)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn find(name: &str) -> Result<&'static Format> {
    let short = name.strip_prefix("plumb.").unwrap_or(name);
    formats::ALL.iter().copied().find(|format| format.short() == short).with_context(|| {
        let names: Vec<&str> = formats::ALL.iter().map(|format| format.short()).collect();
        let near = nearest(short, &names).map_or(String::new(), |near| format!("did you mean '{near}'? "));
        format!("there is no format '{name}'; {near}plumb schema lists all")
    })
}
