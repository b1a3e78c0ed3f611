// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--beside FILE`: figures that were measured, in the columns of a simulation's own CSV, drawn beside the simulated
//! ones and divided into them.

use anyhow::{bail, Context, Result};
use std::path::Path;

#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredTable {
    columns: Vec<String>,
    /// The first column's word, then a figure for each of the others where there is one.
    rows: Vec<(String, Vec<Option<f64>>)>,
}

/// A figure that both have.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    pub row: String,
    pub figure: String,
    /// Of the simulation, in the column's unit.
    pub simulated: f64,
    pub measured: f64,
}

impl Pair {
    pub fn ratio(&self) -> f64 {
        self.simulated / self.measured
    }
}

impl MeasuredTable {
    /// Whether its rows go by `first`, and it has one of these figures.
    ///
    /// # Errors
    /// They do not, or it has none; named.
    pub fn fits(&self, first: &str, by: &str, figures: &[&str]) -> Result<()> {
        if self.columns[0] != first {
            bail!(
                "its first column is {}, and {by} {first}; give a file that goes by {first}",
                self.columns[0]
            );
        }
        if !self.columns.iter().skip(1).any(|c| figures.contains(&c.as_str())) {
            bail!(
                "none of its columns ({}) is one that is compared: {}",
                self.columns[1..].join(", "),
                figures.join(", ")
            );
        }
        Ok(())
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is no CSV of figures; named.
    pub fn read(path: &Path) -> Result<MeasuredTable> {
        let text = std::fs::read_to_string(path).with_context(|| format!("--beside {}", path.display()))?;
        MeasuredTable::parse(&text).with_context(|| format!("--beside {}", path.display()))
    }

    /// Reads its text.
    ///
    /// # Errors
    /// No heading, a line of another length, a word where a figure should be.
    pub fn parse(text: &str) -> Result<MeasuredTable> {
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let columns: Vec<String> =
            lines.next().unwrap_or("").split(',').map(|c| c.trim().to_string()).collect();
        if columns.len() < 2 {
            bail!("has no heading; it must have the columns that --charts writes (sweep.csv, timeline.csv)");
        }
        let row = |(number, line): (usize, &str)| {
            let mut cells = line.split(',').map(str::trim);
            let first = cells.next().unwrap_or("").to_string();
            let figure = |cell: &str| match cell {
                "" => Ok(None),
                cell => {
                    cell.parse::<f64>().map(Some).with_context(|| format!("line {}: '{cell}'", number + 2))
                }
            };
            let figures = cells.map(figure).collect::<Result<Vec<_>>>()?;
            if figures.len() + 1 != columns.len() {
                bail!(
                    "line {}: {} columns where the heading has {}",
                    number + 2,
                    figures.len() + 1,
                    columns.len()
                );
            }
            Ok((first, figures))
        };
        let rows = lines.enumerate().map(row).collect::<Result<_>>()?;
        Ok(MeasuredTable { columns, rows })
    }

    /// A column by the first one's words.
    pub fn column(&self, name: &str) -> Vec<(&str, f64)> {
        let Some(at) = self.columns.iter().skip(1).position(|c| c == name) else { return Vec::new() };
        self.rows.iter().filter_map(|(row, figures)| Some((row.as_str(), figures[at]?))).collect()
    }

    /// A column as points, where the first column's words are numbers.
    pub fn points(&self, name: &str) -> Vec<(f64, f64)> {
        self.column(name).into_iter().filter_map(|(row, y)| Some((row.parse().ok()?, y))).collect()
    }

    /// The figures of these columns that both have; `simulated` has the same columns.
    pub fn pairs(&self, simulated: &MeasuredTable, columns: &[&str]) -> Vec<Pair> {
        let of = |name: &&str| {
            let own = simulated.column(name);
            let pair = |(row, measured): (&str, f64)| {
                let simulated = own.iter().find(|(r, _)| *r == row)?.1;
                let (row, figure) = (row.to_string(), (*name).to_string());
                (measured > 0.0).then_some(Pair { row, figure, simulated, measured })
            };
            self.column(name).into_iter().filter_map(pair).collect::<Vec<_>>()
        };
        columns.iter().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_both_have_are_paired() {
        let measured = MeasuredTable::parse("knob,rate,p99\nalone,100,\n10,50,7\n20,0,8\n").expect("a table");
        let simulated = MeasuredTable::parse("knob,rate,p99,more\nalone,110,1,1\n10,40,7,1\n30,1,1,1\n")
            .expect("a table");
        let pairs = measured.pairs(&simulated, &["rate", "p99", "none"]);
        let told: Vec<_> = pairs.iter().map(|p| (p.row.as_str(), p.figure.as_str(), p.ratio())).collect();
        assert_eq!(told, [("alone", "rate", 1.1), ("10", "rate", 0.8), ("10", "p99", 1.0)]);
        assert_eq!(measured.points("rate"), [(10.0, 50.0), (20.0, 0.0)]);
    }

    #[test]
    fn a_table_by_something_else_or_of_other_figures_is_refused() {
        let fits = |text: &str| {
            let beside = MeasuredTable::parse(text).expect("a table");
            beside.fits("knob", "--sweep goes by", &["rate", "p99"]).map_err(|e| e.to_string())
        };
        assert_eq!(fits("knob,more,p99\n1,2,3\n"), Ok(()));
        let said = fits("interval,p99\n1,2\n").expect_err("another knob");
        assert!(said.contains("first column is interval") && said.contains("goes by knob"), "{said}");
        let said = fits("knob,more\n1,2\n").expect_err("another figure");
        assert!(said.contains("(more)") && said.contains("rate, p99"), "{said}");
    }

    #[test]
    fn what_is_no_table_is_told_with_its_line() {
        for (text, word) in [("", "no heading"), ("a,b\n1,x\n", "line 2"), ("a,b\n1,2\n1,2,3\n", "line 3")] {
            let said = format!("{:#}", MeasuredTable::parse(text).expect_err(text));
            assert!(said.contains(word), "{said}");
        }
    }
}
