// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans, workloads and comparisons as documents.

use crate::cli::{CompareArgs, Show};
use crate::compare::Comparison;
use crate::explain::{explain, select};
use crate::{plan as plans, profile};
use anyhow::{Context, Result};
use plumb_load::environment::utc;
use plumb_report::document::{Absent, Document};
use plumb_report::run::empty;
use serde_json::Value;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Of a plan's directory. Results of its cells lie there and are not taken in.
///
/// # Errors
/// There is no plan in it.
pub fn plan(dir: &Path) -> Result<Document> {
    let state = plans::store::state(dir)?;
    let begun = state.made.into_iter().next().map(|m| m.begun).unwrap_or_default();
    let report = plans::report::Report::of(dir, &[])?;
    let mut document = empty("plan", &report.title, &begun);
    document.plan = Some(serde_json::to_value(report)?);
    Ok(document)
}

/// Of what `plumb load --json` printed.
///
/// # Errors
/// The file cannot be read.
pub fn load(file: &Path) -> Result<Document> {
    let name = || file.display().to_string();
    let reader = BufReader::new(File::open(file).with_context(name)?);
    let load: Value = serde_json::from_reader(reader).with_context(name)?;
    let words: Vec<&str> =
        load["arguments"].as_array().into_iter().flatten().filter_map(Value::as_str).skip(1).collect();
    let title = if words.is_empty() { name() } else { format!("plumb {}", words.join(" ")) };
    let made = load["environment"]["utc"].as_str().unwrap_or_default().to_string();
    let mut document = empty("load", &title, &made);
    document.loads = vec![load];
    document.absent.push(Absent {
        part: "account".into(),
        why: "It was not recorded; 'plumb run -- plumb load ...' records it.".into(),
    });
    Ok(document)
}

/// Of two sides, with a profile of each.
///
/// # Errors
/// A trace cannot be read.
pub fn comparison(args: &CompareArgs, found: &Comparison) -> Result<Document> {
    let title = format!("{} and {}", args.a.display(), args.b.display());
    let mut document = empty("comparison", &title, &utc());
    document.comparison = Some(serde_json::to_value(found)?);
    let show = Show { comm: args.comm.clone(), threads: false, chain: false, json: false };
    let examples = found.examples();
    if found.a.members.len().max(found.b.members.len()) > 1 {
        eprintln!("profiles are of {} and {}", examples[0].display(), examples[1].display());
    }
    for (name, dir) in ["A", "B"].into_iter().zip(examples) {
        let mut explained = explain(dir)?;
        select(&mut explained, &show)?;
        if explained.profile.time() > 0 {
            document.profiles.push(serde_json::to_value(profile::document(&explained.profile))?);
        } else {
            let why = format!("No time of {name} was seen in {}.", dir.display());
            document.absent.push(Absent { part: "profile".into(), why });
        }
    }
    if document.profiles.len() < 2 {
        // One alone would be taken for the side before.
        document.profiles.clear();
    }
    Ok(document)
}
