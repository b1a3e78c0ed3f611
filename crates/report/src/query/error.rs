// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is wrong with a statement, where, and what was probably meant.

use crate::table::{find, TABLES};
use rusqlite::Error;
use std::fmt;

/// Names that are offered at most.
const MOST: usize = 4;
/// Below this likeness (Jaro-Winkler) a name is not offered.
const ALIKE: f64 = 0.8;

/// A statement that cannot be run.
#[derive(Debug)]
pub struct Wrong {
    what: String,
    /// Line of the statement and column in it, in characters.
    place: Option<(String, usize)>,
    next: Option<String>,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        if let Some(next) = &self.next {
            write!(f, "; {next}")?;
        }
        if let Some((line, column)) = &self.place {
            write!(f, "\n  {line}\n  {}^", " ".repeat(*column))?;
        }
        Ok(())
    }
}

impl std::error::Error for Wrong {}

impl Wrong {
    pub(super) fn refused(what: &str) -> Self {
        let what = format!("a query reads only, and this one would {what}");
        Self { what, place: None, next: Some("begin it with SELECT or WITH".into()) }
    }

    pub(super) fn no_query() -> Self {
        let next = Some("begin it with SELECT or WITH".into());
        Self { what: "this is no query".into(), place: None, next }
    }

    /// What SQLite says of a statement.
    pub(super) fn of(sql: &str, error: Error) -> Self {
        match error {
            Error::SqlInputError { msg, offset, .. } => {
                let next = next(&msg, sql);
                let place = usize::try_from(offset).ok().and_then(|at| place(sql, at));
                Self { what: msg, place, next }
            }
            Error::SqliteFailure(_, Some(msg)) => Self { next: next(&msg, sql), what: msg, place: None },
            Error::MultipleStatement => Self {
                what: "these are several statements".into(),
                place: None,
                next: Some("give one; WITH ... AS names parts of it".into()),
            },
            other => Self { what: other.to_string(), place: None, next: None },
        }
    }
}

/// The line that a byte lies in, and the column.
fn place(sql: &str, at: usize) -> Option<(String, usize)> {
    let before = sql.get(..at)?;
    let begin = before.rfind('\n').map_or(0, |n| n + 1);
    let line = sql[begin..].lines().next().unwrap_or_default();
    // A tab is as wide as a blank here, so that the mark stands below its place.
    Some((line.replace('\t', " "), sql[begin..at].chars().count()))
}

/// What to do about it.
fn next(message: &str, sql: &str) -> Option<String> {
    if let Some(name) = message.strip_prefix("no such table: ") {
        let near = near(name, TABLES.iter().map(|t| t.name));
        return Some(match near.is_empty() {
            true => "plumb query --tables lists them".into(),
            false => format!("there is {}; plumb query --tables lists all", near.join(", ")),
        });
    }
    if let Some(name) = message.strip_prefix("no such column: ") {
        // With a hint of SQLite's own behind it, or an alias before it.
        let name = name.split_whitespace().next().unwrap_or(name);
        let name = name.rsplit('.').next().unwrap_or(name);
        return Some(columns(name, sql));
    }
    if let Some(name) = message.strip_prefix("no such function: ") {
        let near = near(name, super::functions::NAMES.iter().copied());
        let own = super::functions::NAMES.join(", ");
        return Some(match near.is_empty() {
            true => format!("besides SQLite's own there are {own}"),
            false => format!("there is {}", near.join(", ")),
        });
    }
    None
}

/// Near names among the columns of the tables that the statement names, and who else has such a column.
fn columns(name: &str, sql: &str) -> String {
    let words = sql.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| !w.is_empty());
    // A table's name may be that of a column too, as `waits`.
    let (mut named, mut here) = (Vec::new(), false);
    for word in words {
        match word.to_ascii_lowercase().as_str() {
            "from" | "join" => here = true,
            "select" | "on" | "using" | "where" | "group" | "order" | "limit" => here = false,
            _ => named.extend(find(word).filter(|_| here)),
        }
    }
    named.sort_by_key(|t| t.place);
    named.dedup_by_key(|t| t.place);
    let near = near(name, named.iter().flat_map(|t| t.columns.iter().map(|c| c.name)));
    let mut out = Vec::new();
    if !near.is_empty() {
        out.push(format!("there is {}", near.join(", ")));
    }
    let others = TABLES.iter().filter(|t| t.column(name).is_some()).map(|t| t.name);
    let others: Vec<&str> = others.take(MOST).collect();
    if !others.is_empty() {
        out.push(format!("{name} is a column of {}", others.join(", ")));
    }
    if let Some(table) = named.first() {
        out.push(format!("plumb query --schema {} lists its columns", table.name));
    }
    out.join("; ")
}

/// Names that are like one, the most alike first.
fn near<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let name = name.to_lowercase();
    let mut all: Vec<(f64, &str)> = names.map(|n| (strsim::jaro_winkler(&name, n), n)).collect();
    all.retain(|(alike, _)| *alike >= ALIKE);
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    all.dedup_by_key(|(_, n)| *n);
    all.into_iter().take(MOST).map(|(_, n)| n).collect()
}
