// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The presets in `presets/`, and files of the user's.
//!
//! Data flows: text -> table -> keys that `--set` changes -> [`Spec`] -> built once, so
//! that figures which contradict each other are told here.

use super::{Spec, SpecError};
use plumb_trace::suggest::nearest;
use toml::{Table, Value};

/// A preset's name and text.
type Preset = (&'static str, &'static str);

/// Names and texts, in the order in which they are listed.
const PRESETS: &[Preset] = &[
    ("atlas10k4", include_str!("../../presets/atlas10k4.toml")),
    ("st336607lc", include_str!("../../presets/st336607lc.toml")),
    ("cheetah15k", include_str!("../../presets/cheetah15k.toml")),
    ("hdp72503", include_str!("../../presets/hdp72503.toml")),
    ("intel330", include_str!("../../presets/intel330.toml")),
    ("nvme", include_str!("../../presets/nvme.toml")),
    ("gp3", include_str!("../../presets/gp3.toml")),
    ("gp2", include_str!("../../presets/gp2.toml")),
    ("iscsi", include_str!("../../presets/iscsi.toml")),
    ("failing", include_str!("../../presets/failing.toml")),
    ("stalling", include_str!("../../presets/stalling.toml")),
    ("instant", include_str!("../../presets/instant.toml")),
];

pub(super) fn all() -> Vec<Spec> {
    // The tests below see to it that each can be read.
    PRESETS.iter().filter_map(|(_, text)| toml::from_str(text).ok()).collect()
}

/// The one of that name.
pub(super) fn named(name: &str) -> Result<Spec, SpecError> {
    load(name, &[])
}

/// A preset or a file, with keys changed.
pub(super) fn load(name: &str, set: &[String]) -> Result<Spec, SpecError> {
    let said = |why: String| SpecError(format!("{name}: {why}"));
    let text = if name.contains('/') || name.ends_with(".toml") {
        std::fs::read_to_string(name).map_err(|e| said(format!("cannot be read: {e}")))?
    } else {
        text(name)?.to_string()
    };
    let plain: Table = text.parse().map_err(|e: toml::de::Error| said(e.to_string()))?;
    let mut table = Value::Table(plain.clone());
    for edit in set {
        change(&mut table, edit).map_err(|why| said(format!("--set {edit}: {why}")))?;
    }
    let spec = match (read(table.clone()), set.is_empty()) {
        (Ok(spec), _) => spec,
        // From the text the error has its line.
        (Err(why), true) => {
            let located = toml::from_str::<Spec>(&text).err().map(|e| in_keys(&e.to_string()));
            return Err(said(located.unwrap_or(why)));
        }
        (Err(why), false) => {
            let culprit = culprit(&plain, set).or_else(|| first_unread(&plain, set));
            let culprit = culprit.map_or(String::new(), |edit| format!("--set {edit}: "));
            return Err(said(format!("{culprit}{why}")));
        }
    };
    spec.build(spec.size.0.min(1 << 30), 0).map_err(|e| said(e.0))?;
    Ok(spec)
}

fn text(name: &str) -> Result<&'static str, SpecError> {
    if let Some((_, text)) = PRESETS.iter().find(|(preset, _)| *preset == name) {
        return Ok(text);
    }
    let names: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
    // A name's beginning is no typing error, and more often meant than nothing.
    let begun = || names.iter().copied().find(|preset| !name.is_empty() && preset.starts_with(name));
    let near = nearest(name, &names).or_else(begun);
    let there = near.map_or("there are".into(), |preset| format!("did you mean {preset}? There are"));
    Err(SpecError(format!(
        "there is no disk model '{name}'; {there}: {}; or the path of a file (./{name}, {name}.toml)",
        names.join(", ")
    )))
}

fn read(table: Value) -> Result<Spec, String> {
    // Of a medium without figures nobody else sees that there are some.
    if let Some(medium) = table.get("medium").and_then(Value::as_table) {
        let kind = medium.get("kind").and_then(Value::as_str);
        if let (Some("instant"), Some(key)) = (kind, medium.keys().find(|key| *key != "kind")) {
            return Err(format!("there is no key `{key}` of a medium of kind instant, there is `kind`"));
        }
    }
    table.try_into().map_err(|e: toml::de::Error| in_keys(e.message()))
}

/// serde's words in those of a file.
fn in_keys(message: &str) -> String {
    let message = message.trim_end().replace("unknown field", "there is no key");
    let message = message.replace("unknown variant", "there is no value");
    let message = message.replace("expected one of", "there are").replace("missing field", "missing key");
    message.replace("expected a boolean", "expected true or false")
}

/// The edit that makes the table unreadable: without it, it can be read.
fn culprit<'s>(plain: &Table, set: &'s [String]) -> Option<&'s str> {
    let without = |left: usize| {
        let mut table = Value::Table(plain.clone());
        let others = set.iter().enumerate().filter(|(i, _)| *i != left);
        others.map(|(_, edit)| change(&mut table, edit)).all(|done| done.is_ok()) && read(table).is_ok()
    };
    (0..set.len()).find(|left| without(*left)).map(|i| set[i].as_str())
}

/// Where several are wrong: the first one with which the table cannot be read any more.
fn first_unread<'s>(plain: &Table, set: &'s [String]) -> Option<&'s str> {
    let mut table = Value::Table(plain.clone());
    let wrong = |edit: &&String| change(&mut table, edit).is_err() || read(table.clone()).is_err();
    set.iter().find(wrong).map(String::as_str)
}

/// Does `KEY=VALUE` to the table.
fn change(table: &mut Value, edit: &str) -> Result<(), String> {
    let (key, text) = edit.split_once('=').ok_or("is not KEY=VALUE, as in medium.write-cache=1M")?;
    let path: Vec<&str> = key.trim().split('.').collect();
    if path.iter().any(|part| part.is_empty()) {
        return Err("the key has an empty part; an example: medium.write-cache=1M".into());
    }
    put(table, &path, value(text.trim()))
}

/// A value as TOML writes it; what is none is a string.
fn value(text: &str) -> Value {
    let parsed = format!("v = {text}").parse::<Table>().ok();
    let parsed = parsed.filter(|table| table.len() == 1).and_then(|mut table| table.remove("v"));
    match parsed {
        None | Some(Value::Datetime(_)) => Value::String(text.to_string()),
        Some(value) => value,
    }
}

fn put(at: &mut Value, path: &[&str], new: Value) -> Result<(), String> {
    let Some((first, rest)) = path.split_first() else {
        *at = new;
        return Ok(());
    };
    let index = |part: &&str| part.parse::<usize>().ok();
    // What is not there yet becomes what the next part of the key goes into.
    let empty = || match rest.first().map(index) {
        Some(Some(_)) => Value::Array(Vec::new()),
        _ => Value::Table(Table::new()),
    };
    match at {
        Value::Table(table) => put(table.entry(*first).or_insert_with(empty), rest, new),
        Value::Array(array) => {
            let count = array.len();
            let i = index(first).filter(|i| *i <= count);
            let i = i.ok_or_else(|| format!("there are {count}, counted from 0: no '{first}'"))?;
            if i == count {
                array.push(empty());
            }
            put(&mut array[i], rest, new)
        }
        other => Err(format!("what '{first}' would be in is a {}, not a table", other.type_str())),
    }
}

#[cfg(test)]
mod tests;
