// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys that a plan's file may have, and the line of one that it may not have.
//!
//! serde refuses unknown keys too, but cannot say in which level of which factor.

use anyhow::{bail, Result};
use plumb_trace::suggest::nearest;
use toml::de::{DeTable, DeValue};
use toml::Spanned;

pub(super) const PLAN: &[&str] = &[
    "name",
    "title",
    "purpose",
    "hypothesis",
    "source",
    "takes",
    "repeat",
    "order",
    "blocks",
    "seed",
    "budget",
    "limit",
    "figures",
    "device",
    "host",
    "cell",
    "factor",
    "skip",
    "chart",
];
pub(super) const DEVICE: &[&str] = &["model", "set", "size", "seed", "path", "directory", "host", "protocol"];
pub(super) const HOST: &[&str] = &["reach", "guest", "memory", "virtual-time", "delay", "kernel-options"];
/// Keys of a level, which has those of its settings as well.
pub(super) const LEVEL: &[&str] = &["name", "price"];
/// Keys of `[cell]` and of a level.
pub(super) const SETTINGS: &[&str] = &[
    "device",
    "file-system",
    "server",
    "memory",
    "cpus",
    "queue",
    "sysctl",
    "write",
    "prepare",
    "neighbour",
    "remount",
    "preset",
    "load",
    "command",
    "copies",
    "record",
    "host",
    "record-hosts",
];
pub(super) const FACTOR: &[&str] = &["name", "level"];
/// Keys of a file system.
pub(super) const FILE_SYSTEM: &[&str] = &["kind", "mkfs", "mount"];
/// Keys of a server, but for its settings, whose names are the server's.
pub(super) const SERVER: &[&str] = &["kind", "settings", "user"];
/// Keys of a combination that is left out.
pub(super) const SKIP: &[&str] = &["when", "why"];
pub(super) const CHART: &[&str] = &["name", "title", "kind", "figure", "x", "over", "by", "lines", "log"];

/// Looks through all tables.
///
/// # Errors
/// The first unknown key, with its line, its place, and the nearest known one.
pub(super) fn known(text: &str, plan: &DeTable<'_>) -> Result<()> {
    let mut walk = Walk { found: Vec::new() };
    walk.table("", plan, PLAN);
    for (name, device) in tables(plan, "device") {
        walk.table(&format!("device {name}"), device, DEVICE);
    }
    for (name, host) in tables(plan, "host") {
        walk.table(&format!("host {name}"), host, HOST);
    }
    if let Some(DeValue::Table(cell)) = value(plan, "cell") {
        walk.settings("cell", cell, SETTINGS);
    }
    let of_level: Vec<&str> = [LEVEL, SETTINGS].concat();
    for (i, factor) in list(plan, "factor").enumerate() {
        let name = name(factor).unwrap_or_else(|| (i + 1).to_string());
        walk.table(&format!("factor {name}"), factor, FACTOR);
        for (i, level) in list(factor, "level").enumerate() {
            walk.settings(&format!("factor {name}, level {}", i + 1), level, &of_level);
        }
    }
    for (i, skip) in list(plan, "skip").enumerate() {
        walk.table(&format!("skip {}", i + 1), skip, SKIP);
    }
    for (i, chart) in list(plan, "chart").enumerate() {
        walk.table(&format!("chart {}", name(chart).unwrap_or_else(|| (i + 1).to_string())), chart, CHART);
    }
    match walk.found.into_iter().min() {
        None => Ok(()),
        Some((at, said)) => {
            let line = text.as_bytes().iter().take(at).filter(|b| **b == b'\n').count() + 1;
            bail!("line {line}: {said}")
        }
    }
}

/// What was found: place in the text, and the sentence.
struct Walk {
    found: Vec<(usize, String)>,
}

impl Walk {
    fn table(&mut self, place: &str, table: &DeTable<'_>, known: &[&str]) {
        self.table_with(place, table, known, &[]);
    }

    /// `inner` are keys of tables within this one, as they are written here.
    fn table_with(&mut self, place: &str, table: &DeTable<'_>, known: &[&str], inner: &[String]) {
        for key in table.keys().filter(|k| !known.contains(&k.get_ref().as_ref())) {
            let word = key.get_ref();
            let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
            let last = |dotted: &str| dotted.rsplit('.').next().unwrap_or_default().to_string();
            let within: Vec<String> = inner.iter().map(|dotted| last(dotted)).collect();
            let near = nearest(word, known).or_else(|| {
                let name = nearest(word, &within)?;
                inner.iter().find(|dotted| last(dotted) == name).map(String::as_str)
            });
            let near = near.map(|n| format!("; did you mean \"{n}\"?")).unwrap_or_default();
            let said = format!("{place}unknown key \"{word}\"{near}; known: {}", known.join(", "));
            self.found.push((key.span().start, said));
        }
    }

    fn settings(&mut self, place: &str, settings: &DeTable<'_>, known: &[&str]) {
        let inner: Vec<String> = FILE_SYSTEM.iter().map(|key| format!("file-system.{key}")).collect();
        self.table_with(place, settings, known, &inner);
        if let Some(DeValue::Table(file_system)) = value(settings, "file-system") {
            self.table(&format!("{place}, file-system"), file_system, FILE_SYSTEM);
        }
        if let Some(DeValue::Table(server)) = value(settings, "server") {
            self.table(&format!("{place}, server"), server, SERVER);
        }
    }
}

fn value<'a, 'i>(table: &'a DeTable<'i>, key: &str) -> Option<&'a DeValue<'i>> {
    table.iter().find(|(k, _)| k.get_ref() == key).map(|(_, v)| v.get_ref())
}

fn name(table: &DeTable<'_>) -> Option<String> {
    match value(table, "name") {
        Some(DeValue::String(name)) => Some(name.to_string()),
        _ => None,
    }
}

/// The tables of an array of tables.
fn list<'a, 'i>(table: &'a DeTable<'i>, key: &str) -> impl Iterator<Item = &'a DeTable<'i>> {
    let items = match value(table, key) {
        Some(DeValue::Array(items)) => Some(items),
        _ => None,
    };
    items.into_iter().flatten().filter_map(as_table)
}

fn as_table<'a, 'i>(value: &'a Spanned<DeValue<'i>>) -> Option<&'a DeTable<'i>> {
    match value.get_ref() {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

/// The tables in a table, by name.
fn tables<'a, 'i>(table: &'a DeTable<'i>, key: &str) -> Vec<(String, &'a DeTable<'i>)> {
    let Some(DeValue::Table(inner)) = value(table, key) else { return Vec::new() };
    inner.iter().filter_map(|(name, v)| Some((name.get_ref().to_string(), as_table(v)?))).collect()
}
