// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several files of one table as one: rows are read and written again, since a footer that tells of each run's row group
//! takes an engine longer to read than the rows.

use super::column::kind;
use super::footer::{self, Value, GROUPS, SCHEMA, WORDS};
use super::read::{self, Wanted};
use super::{Writer, MAGIC};
use crate::table::{Cell, Kind, Table};
use anyhow::{ensure, Context, Error, Result};
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Of which runs a file has rows: a line each, of which the first word is the run.
const RUNS: &str = "plumb.runs";
/// The column that says it.
const RUN: &str = "run";
/// Bytes that joined files may have whatever they are made of.
const ROOM: u64 = 64 << 20;

/// Columns of a table at most: what a file claims is read, whoever wrote it.
const COLUMNS: usize = 128;

/// A file that is joined to others; open only while it is read.
#[derive(Debug)]
pub struct Part {
    path: PathBuf,
    bytes: u64,
    footer: Value,
    /// Whose rows it has.
    runs: Vec<String>,
    /// Runs of which the rows are left out.
    without: HashSet<String>,
    /// Device and inode: the name may get another file.
    is: (u64, u64),
}

impl Part {
    /// Opens a file, of the run `run` if it is of one.
    ///
    /// # Errors
    /// It cannot be read, or is not what plumb writes.
    pub fn open(path: &Path, run: &str) -> Result<Self> {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        let (footer, end) = footer::read(&file)?;
        let runs = match footer::word(&footer, RUNS) {
            None => vec![run.into()],
            Some(lines) => {
                let lines = String::from_utf8_lossy(lines);
                lines
                    .split_terminator('\n')
                    .filter_map(|line| Some(line.split(' ').next()?.to_owned()))
                    .collect()
            }
        };
        let columns = footer.field(SCHEMA).map_or(&[][..], Value::items);
        ensure!(columns.len() <= COLUMNS, "it has more than {COLUMNS} columns");
        for column in columns.iter().skip(1) {
            let kind = column.field(1).and_then(Value::number).and_then(kind);
            kind.context("a column of a type that plumb does not write")?;
        }
        let mut before = MAGIC.len() as u64;
        for group in footer.field(GROUPS).map_or(&[][..], Value::items) {
            // As they are written: else one file's bytes could be read without end.
            before = behind(group, before)?;
            ensure!(before <= end, "a row group lies outside of the file");
        }
        Ok(Self {
            path: path.into(),
            bytes: meta.len(),
            footer,
            runs,
            without: HashSet::new(),
            is: (meta.dev(), meta.ino()),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs that it has rows of.
    pub fn runs(&self) -> impl Iterator<Item = &str> {
        self.runs.iter().map(String::as_str).filter(|run| !self.without.contains(*run))
    }

    /// How many columns its table had when it was written: as columns are only added, this tells one schema from another.
    pub fn columns(&self) -> usize {
        self.schema().len().saturating_sub(1)
    }

    /// Hands on the rows of the runs that `keeps` names, with the columns of `used`, places in the table.
    ///
    /// Tells of a row group that is not what plumb writes, with the reason: its rows, and those behind it, are not handed on.
    pub fn rows(
        &self,
        (table, used): (&'static Table, &[usize]),
        keeps: &dyn Fn(&str) -> bool,
        row: &mut dyn FnMut(&[Cell<'_>]),
    ) -> Option<String> {
        let kept: HashSet<&str> = self.runs().filter(|run| keeps(run)).collect();
        if kept.is_empty() {
            return None;
        }
        let width = table.columns.len();
        let all = used.iter().map(|place| (*place, &table.columns[*place]));
        let mut wanted: Vec<_> = all.map(|(place, c)| Wanted { name: c.name, kind: c.kind, place }).collect();
        let filters = kept.len() < self.runs.len();
        if filters {
            wanted.push(Wanted { name: RUN, kind: Kind::Text, place: width });
        }
        let mut chosen = |cells: &[Cell<'_>]| {
            if !filters || matches!(cells[width], Cell::Text(run) if kept.contains(run)) {
                row(&cells[..width]);
            }
        };
        let error = self.each((&wanted, width + 1), &mut chosen).err()?;
        Some(match &self.runs[..] {
            [run] => format!("run {run}: {error:#}"),
            runs => format!("some of {} runs: {error:#}", runs.len()),
        })
    }

    fn each(&self, wanted: (&[Wanted<'_>], usize), row: &mut dyn FnMut(&[Cell<'_>])) -> Result<()> {
        let file = File::open(&self.path)?;
        let meta = file.metadata()?;
        ensure!((meta.dev(), meta.ino()) == self.is, "it is another file by now");
        let mut groups = self.footer.field(GROUPS).map_or(&[][..], Value::items).iter();
        groups.try_for_each(|group| read::rows(&file, group, self.schema(), wanted, row))
    }

    /// Names and kinds of its columns.
    fn kinds(&self) -> Vec<(String, Kind)> {
        let columns = self.schema().iter().skip(1);
        columns.filter_map(|c| Some((text(c.field(4)), kind(c.field(1)?.number()?)?))).collect()
    }

    /// Reads all of it, for nothing.
    ///
    /// # Errors
    /// It is not what plumb writes.
    pub fn check(&self) -> Result<()> {
        let schema = self.kinds();
        self.each((&all(&schema), schema.len()), &mut |_| {})
    }

    /// The list of columns, behind the table itself.
    fn schema(&self) -> &[Value] {
        self.footer.field(SCHEMA).map_or(&[], Value::items)
    }

    /// Whether the two can be in one file.
    pub fn fits(&self, other: &Self) -> bool {
        self.schema() == other.schema()
    }

    /// Leaves out what it has of these parts' runs.
    pub fn without(&mut self, parts: &[Self]) {
        self.without = parts.iter().flat_map(Self::runs).map(str::to_owned).collect();
    }

    /// Removes the file, unless its name has another one by now.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self) -> Result<()> {
        let there = self.path.symlink_metadata().is_ok_and(|m| (m.dev(), m.ino()) == self.is);
        if there {
            std::fs::remove_file(&self.path).with_context(|| self.path.display().to_string())?;
        }
        Ok(())
    }
}

fn text(value: Option<&Value>) -> String {
    String::from_utf8_lossy(value.map_or(&[][..], Value::bytes)).into_owned()
}

fn all(schema: &[(String, Kind)]) -> Vec<Wanted<'_>> {
    let columns = schema.iter().enumerate();
    columns.map(|(place, (name, kind))| Wanted { name, kind: *kind, place }).collect()
}

/// Where a row group ends, of which the columns lie one behind the other, from `before` on.
fn behind(group: &Value, mut before: u64) -> Result<u64> {
    for chunk in group.field(1).context("a row group without columns")?.items() {
        let meta = chunk.field(3).context("a column without a place")?;
        let number = |field| meta.field(field).and_then(Value::number);
        let data = number(9).context("a column without a place")?;
        let (from, length) = (number(11).unwrap_or(data), number(7).context("a column without a length")?);
        ensure!(0 <= from && from <= data && 0 <= length, "a column's place is none");
        let to = from.checked_add(length).context("a column's place is none")?;
        ensure!(data <= to, "a column's place is none");
        ensure!(before <= from as u64, "a column lies in another");
        before = to as u64;
    }
    Ok(before)
}

/// Writes the rows of all parts into one file; tells how many bytes it has.
///
/// # Errors
/// A part cannot be read, they have not the same columns, the file cannot be written, or `stop` became true.
pub fn join(parts: &[Part], out: &Path, stop: &AtomicBool) -> Result<u64> {
    let first = parts.first().context("there is nothing to join")?;
    let schema = first.kinds();
    let runs: String = parts.iter().flat_map(Part::runs).map(|run| format!("{run}\n")).collect();
    let words = first.footer.field(WORDS).map_or(&[][..], Value::items).iter();
    let mut words: Vec<_> = words.map(|word| (text(word.field(1)), text(word.field(2)))).collect();
    words.retain(|(key, _)| key != RUNS);
    words.push((RUNS.into(), runs));
    let table = text(first.schema().first().and_then(|table| table.field(4)));
    let run = schema.iter().position(|(name, _)| name == RUN);
    // Rows of one text of many MiB, which stands in the file once, would be written for hours.
    let most = parts.iter().map(|part| part.bytes).fold(ROOM, |sum, bytes| sum.saturating_add(4 * bytes));
    let mut writer = Writer::new(out.into(), table, schema.clone(), words)?;
    for part in parts {
        let name = || part.path.display().to_string();
        ensure!(part.fits(first), "{}: has other columns than {}", name(), first.path.display());
        let mut written = Ok(());
        let mut row = |cells: &[Cell<'_>]| {
            let left_out = match run.map(|place| cells[place]) {
                Some(Cell::Text(run)) => part.without.contains(run),
                _ => false,
            };
            if written.is_ok() && !left_out {
                written = writer.row(cells);
                if writer.at > most || stop.load(Ordering::Relaxed) {
                    written = Err(Error::msg(match writer.at > most {
                        true => "its rows take many times its own room: they are not what plumb writes",
                        false => "ended before all was joined",
                    }));
                }
            }
        };
        part.each((&all(&schema), schema.len()), &mut row).with_context(name)?;
        written.with_context(name)?;
    }
    writer.finish()?;
    Ok(writer.file.metadata().with_context(|| out.display().to_string())?.len())
}
