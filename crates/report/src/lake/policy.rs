// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which tables and columns leave their host.

use crate::table::{find, Place, Table, RUNS, TABLES};
use anyhow::{bail, Context, Result};
use serde::Deserialize;

/// Tables with a row for every interval, sample or call: most of a run's rows, and few questions of a fleet.
pub(super) const BULK: [Place; 6] =
    [Place::Intervals, Place::CpuIntervals, Place::Waits, Place::Stacks, Place::Samples, Place::Operations];

/// A policy as a file has it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rules {
    /// Names of tables; none: all but the bulky ones.
    pub tables: Vec<String>,
    /// `TABLE.COLUMN`, or `*.COLUMN` for that column of every table: null in what is published.
    pub without: Vec<String>,
}

/// What is published.
#[derive(Debug)]
pub struct Policy {
    /// In the order of [`TABLES`]; `runs` is one of them.
    pub tables: Vec<&'static Table>,
    /// Columns that are held back.
    hidden: Vec<(Place, usize)>,
}

impl Policy {
    /// # Errors
    /// There is no such table or column, or readers cannot do without it.
    pub fn new(rules: &Rules) -> Result<Self> {
        let named = rules
            .tables
            .iter()
            .map(|name| {
                find(name)
                    .with_context(|| format!("there is no table {name}; plumb query --tables lists all"))
            })
            .collect::<Result<Vec<_>>>()?;
        let chosen = |t: &&'static Table| match named.is_empty() {
            true => !BULK.contains(&t.place),
            false => named.iter().any(|n| n.place == t.place) || t.place == RUNS.place,
        };
        let tables: Vec<_> = TABLES.iter().copied().filter(chosen).collect();
        let mut hidden = Vec::new();
        for name in &rules.without {
            let Some((of, column)) = name.split_once('.') else {
                bail!("'{name}' is no column; it is TABLE.COLUMN, or *.COLUMN for every table");
            };
            let before = hidden.len();
            for table in TABLES.iter().filter(|t| of == "*" || t.name == of) {
                hidden.extend(table.column(column).map(|c| (table.place, c)));
            }
            if hidden.len() == before {
                bail!("there is no column {name}; plumb query --tables lists all");
            }
            if column == "run"
                || (matches!(of, "runs" | "*") && matches!(column, "run_id" | "host" | "began_unix_ns"))
            {
                bail!("{name} is what a run is known by; it cannot be held back");
            }
        }
        Ok(Self { tables, hidden })
    }

    /// The same for the same tables and columns.
    pub(super) fn fingerprint(&self) -> String {
        let tables: Vec<_> = self.tables.iter().map(|t| t.name).collect();
        let hidden: Vec<_> =
            self.hidden.iter().map(|(p, c)| format!("{}.{c}", TABLES[*p as usize].name)).collect();
        format!("{}-{}", tables.join(","), hidden.join(","))
    }

    /// Places of a table's columns that are held back.
    pub(super) fn without(&self, table: &'static Table) -> impl Iterator<Item = usize> + '_ {
        self.hidden.iter().filter(|(place, _)| *place == table.place).map(|(_, column)| *column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(tables: &[&str], without: &[&str]) -> Result<Policy, String> {
        let all = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        Policy::new(&Rules { tables: all(tables), without: all(without) }).map_err(|e| e.to_string())
    }

    #[test]
    fn summaries_are_published_unless_tables_are_named() {
        let names = |p: Policy| p.tables.iter().map(|t| t.name).collect::<Vec<_>>();
        let usual = names(policy(&[], &[]).expect("no rules"));
        assert!(usual.contains(&"account") && usual.contains(&"requests"), "{usual:?}");
        assert!(!usual.contains(&"samples") && usual.contains(&"windows"), "{usual:?}");
        assert_eq!(
            names(policy(&["samples", "account"], &[]).expect("tables")),
            ["runs", "account", "samples"]
        );
    }

    #[test]
    fn a_column_is_held_back_in_one_table_or_in_all() {
        let threads = find("threads").expect("a table");
        let one = policy(&[], &["threads.thread"]).expect("a column");
        assert_eq!(one.without(threads).map(|c| threads.columns[c].name).collect::<Vec<_>>(), ["thread"]);
        assert_eq!(one.hidden.len(), 1);
        assert!(policy(&[], &["*.thread"]).expect("columns").hidden.len() > 1);
    }

    #[test]
    fn rules_that_cannot_be_are_named() {
        for (tables, without, word) in [
            (&["acount"][..], &[][..], "no table acount"),
            (&[], &["threads"], "'threads' is no column"),
            (&[], &["threads.nothing"], "no column threads.nothing"),
            (&[], &["*.run"], "cannot be held back"),
            (&[], &["runs.host"], "cannot be held back"),
            (&[], &["*.host"], "cannot be held back"),
        ] {
            let error = policy(tables, without).expect_err("refused");
            assert!(error.contains(word), "{error}");
        }
    }
}
