// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How wide and how long a view may be, and the unit of its times.

use super::options::Options;
use crate::terminal::screen::terminal_columns;
use crate::terminal::Table;
use anyhow::Result;
use std::io::{IsTerminal, Write};

/// Rows of a table, unless the user says otherwise.
const ROWS: usize = 40;
/// Branches of a tree below this share of its root are added up.
const LEAST: f64 = 0.01;
/// A name is not cut shorter than this.
const SHORTEST: usize = 12;
/// A module's name on a terminal.
const MODULE: usize = 14;

/// What the printers must know besides the profile.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// Columns of the terminal; `None` in a pipe, where nothing is cut.
    pub width: Option<usize>,
    /// Rows of a table, 0 all.
    pub limit: usize,
    /// Smallest share of a tree's branch.
    pub min: f64,
    /// Levels of a tree, 0 all.
    pub depth: usize,
}

impl Limits {
    /// As the options say, for standard output. JSON has everything unless a limit is asked for.
    pub fn of(options: &Options) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let size = terminal_columns().unwrap_or(80);
        Self {
            width: terminal.then_some(size),
            limit: options.limit.unwrap_or(if options.json { 0 } else { ROWS }),
            min: options.min.unwrap_or(if options.json { 0.0 } else { LEAST }),
            depth: options.depth,
        }
    }

    /// How many of these rows are shown.
    pub fn rows(&self, all: usize) -> usize {
        if self.limit == 0 {
            all
        } else {
            all.min(self.limit)
        }
    }

    /// Writes a text, on a terminal in lines that fit.
    ///
    /// # Errors
    /// The writer's.
    pub fn fold(&self, text: &str, indent: &str, out: &mut dyn Write) -> Result<()> {
        let width = self.width.unwrap_or(usize::MAX);
        let mut line = indent.to_string();
        for word in text.split(' ') {
            let empty = line.trim().is_empty();
            if !empty && line.chars().count() + 1 + word.chars().count() > width {
                writeln!(out, "{line}")?;
                line = format!("{indent}  {word}");
            } else {
                line += if empty { "" } else { " " };
                line += word;
            }
        }
        writeln!(out, "{line}")?;
        Ok(())
    }

    /// Writes a table; on a terminal the names in column `name` are cut to what the others leave,
    /// and those in `module` to a length of their own.
    ///
    /// # Errors
    /// The writer's.
    pub fn table(
        &self,
        head: &[&str],
        mut rows: Vec<Vec<String>>,
        name: usize,
        module: Option<usize>,
        out: &mut dyn Write,
    ) -> Result<()> {
        if let Some(width) = self.width {
            for row in &mut rows {
                if let Some(cell) = module.and_then(|m| row.get_mut(m)) {
                    *cell = cut(cell, MODULE);
                }
            }
            let column = |i: usize| {
                let cells = rows.iter().filter_map(|r| r.get(i)).map(|c| c.chars().count());
                cells.chain([head[i].trim_start_matches('<').len()]).max().unwrap_or(0)
            };
            // The table is indented by two, and columns stand one apart.
            let others: usize = (0..head.len()).filter(|i| *i != name).map(|i| column(i) + 1).sum();
            let left = width.saturating_sub(others + 2).max(SHORTEST);
            for row in &mut rows {
                if let Some(cell) = row.get_mut(name) {
                    *cell = cut(cell, left);
                }
            }
        }
        let mut table = Table::new(head);
        rows.into_iter().for_each(|r| table.row(r));
        table.write(out)?;
        Ok(())
    }
}

/// A name with its middle left out: C++ names begin alike and end alike.
pub fn cut(name: &str, most: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= most || most < 3 {
        return name.to_string();
    }
    let head = (most - 1) / 2;
    let tail = most - 1 - head;
    letters[..head].iter().chain(&['~']).chain(&letters[letters.len() - tail..]).collect()
}

/// A part's share of a whole, 0 to 1.
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// A share as tables show it, in %.
pub fn percent(part: u64, whole: u64) -> String {
    format!("{:.1}", share(part, whole) * 100.0)
}

/// The unit of a table's times, by the largest of them: name, ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    /// `s`, `ms` or `us`.
    pub name: &'static str,
    scale: f64,
}

impl Unit {
    pub fn of(whole: u64) -> Self {
        match whole {
            1_000_000_000.. => Self { name: "s", scale: 1e9 },
            1_000_000.. => Self { name: "ms", scale: 1e6 },
            _ => Self { name: "us", scale: 1e3 },
        }
    }

    pub fn time(self, ns: u64) -> String {
        format!("{:.3}", ns as f64 / self.scale)
    }

    /// A difference in it, with its sign.
    pub fn signed(self, ns: i128) -> String {
        format!("{:+.3}", ns as f64 / self.scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_in_the_middle_and_only_where_they_must() {
        assert_eq!(cut("abcdefghij", 10), "abcdefghij");
        assert_eq!(cut("abcdefghijk", 10), "abcd~ghijk");
        assert_eq!(cut("äöüäöüä", 5), "äö~üä");
    }

    #[test]
    fn a_table_fits_the_terminal_and_is_whole_in_a_pipe() {
        let rows = || vec![vec!["1.000".into(), "std::collections::hash_map::insert".into(), "app".into()]];
        let text = |width| {
            let mut out = Vec::new();
            let ground = Limits { width, ..Limits::default() };
            ground.table(&["self", "<function", "<module"], rows(), 1, Some(2), &mut out).expect("memory");
            String::from_utf8(out).expect("text")
        };
        let longest = |text: &str| text.lines().map(|l| l.chars().count()).max();
        assert_eq!(longest(&text(Some(40))), Some(40));
        assert!(text(Some(40)).contains("std::collect~_map::insert"), "{}", text(Some(40)));
        assert!(text(None).contains("std::collections::hash_map::insert"));
    }

    #[test]
    fn sentences_are_folded_at_the_terminals_edge_only() {
        let text = |width| {
            let mut out = Vec::new();
            Limits { width, ..Limits::default() }.fold("one two three four", "", &mut out).expect("memory");
            String::from_utf8(out).expect("text")
        };
        assert_eq!(text(Some(10)), "one two\n  three\n  four\n");
        assert_eq!(text(None), "one two three four\n");
    }
}
