// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several files of one table as one: their row groups are copied as they are, and the footer tells of all of them.

use super::footer::{self, Value, GROUPS, ROWS, SCHEMA, WORDS};
use super::thrift::{I64, STRUCT};
use super::{read, MAGIC};
use crate::table::{Cell, Table};
use anyhow::{bail, ensure, Context, Result};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Of which runs a file's row groups are, in their order: a line `RUN GROUPS` each.
const RUNS: &str = "plumb.runs";

/// Bytes that are copied at once.
const BUFFER: usize = 1 << 20;

/// Row groups of one run, which lie behind each other in a file.
#[derive(Debug, Clone)]
struct Rows {
    run: String,
    /// Of the footer's list.
    groups: Vec<Value>,
}

/// A file that is joined to others.
#[derive(Debug)]
pub struct Part {
    path: PathBuf,
    file: File,
    footer: Value,
    rows: Vec<Rows>,
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
        let mut groups = footer.field(GROUPS).map_or(&[][..], Value::items).iter();
        let told = told(&footer);
        let mut rows = Vec::new();
        match told {
            None => rows.push(Rows { run: run.into(), groups: groups.by_ref().cloned().collect() }),
            Some(told) => {
                for (run, count) in told? {
                    let groups: Vec<_> = groups.by_ref().take(count).cloned().collect();
                    ensure!(groups.len() == count, "it has fewer row groups than it tells of");
                    rows.push(Rows { run, groups });
                }
            }
        }
        ensure!(groups.next().is_none(), "it has row groups of no run");
        let mut before = MAGIC.len() as u64;
        for group in rows.iter().flat_map(|r| &r.groups) {
            let (from, to) = extent(group)?;
            // As they are written: else one file's bytes could be copied without end.
            ensure!(before <= from && to <= end, "a row group lies in another, or outside of the file");
            before = to;
        }
        Ok(Self { path: path.into(), file, footer, rows, is: (meta.dev(), meta.ino()) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs that it has rows of.
    pub fn runs(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|r| r.run.as_str())
    }

    /// How many columns its table had when it was written: as columns are only added, this tells one schema from another.
    pub fn columns(&self) -> usize {
        self.schema().map_or(0, |s| s.items().len().saturating_sub(1))
    }

    /// Hands on the rows of the runs that `keeps` names, with the columns of `used`: see [`read::rows`].
    ///
    /// Tells of runs with a row group that is not what plumb writes, each with the reason: that group's rows, and those behind
    /// it, are not handed on.
    pub fn rows(
        &self,
        used: (&'static Table, &[usize]),
        keeps: &dyn Fn(&str) -> bool,
        row: &mut dyn FnMut(&[Cell<'_>]),
    ) -> Vec<String> {
        let schema = self.schema().map_or(&[][..], Value::items);
        let mut all = |rows: &Rows| {
            let mut groups = rows.groups.iter();
            let read = groups.try_for_each(|group| read::rows(&self.file, group, schema, used, row));
            read.err().map(|error| format!("run {}: {error:#}", rows.run))
        };
        self.rows.iter().filter(|r| keeps(&r.run)).filter_map(&mut all).collect()
    }

    /// The list of columns.
    fn schema(&self) -> Option<&Value> {
        self.footer.field(SCHEMA)
    }

    /// Whether the two can be in one file.
    pub fn fits(&self, other: &Self) -> bool {
        self.schema() == other.schema()
    }

    /// Leaves out what it has of these runs.
    pub fn without(&mut self, runs: &[&str]) {
        self.rows.retain(|r| !runs.contains(&r.run.as_str()));
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

/// The lines of [`RUNS`]; none where the file is of one run.
fn told(footer: &Value) -> Option<Result<Vec<(String, usize)>>> {
    Some(String::from_utf8_lossy(footer::word(footer, RUNS)?).lines().map(line).collect())
}

fn line(line: &str) -> Result<(String, usize)> {
    let (run, groups) = line.rsplit_once(' ').context("a line of its runs is none")?;
    Ok((run.into(), groups.parse().context("a line of its runs is none")?))
}

/// Where a row group begins and ends in its file.
fn extent(group: &Value) -> Result<(u64, u64)> {
    let (mut least, mut most) = (u64::MAX, 0);
    for chunk in group.field(1).context("a row group without columns")?.items() {
        let meta = chunk.field(3).context("a column without a place")?;
        let number = |field| meta.field(field).and_then(Value::number);
        let data = number(9).context("a column without a place")?;
        let (from, length) = (number(11).unwrap_or(data), number(7).context("a column without a length")?);
        ensure!(0 <= from && from <= data && 0 <= length, "a column's place is none");
        let to = from.checked_add(length).context("a column's place is none")?;
        ensure!(data <= to, "a column's place is none");
        (least, most) = (least.min(from as u64), most.max(to as u64));
    }
    ensure!(least <= most, "a row group without columns");
    Ok((least, most))
}

/// Writes the rows of all parts into one file; tells how many bytes it has.
///
/// # Errors
/// A part cannot be read, they have not the same columns, or the file cannot be written.
pub fn join(parts: &[Part], out: &mut File) -> Result<u64> {
    let Some(first) = parts.first() else { bail!("there is nothing to join") };
    let mut at = MAGIC.len() as u64;
    out.write_all(MAGIC)?;
    let (mut groups, mut runs) = (Vec::new(), String::new());
    for part in parts {
        let name = || part.path.display().to_string();
        ensure!(part.fits(first), "{}: has other columns than {}", name(), first.path.display());
        for rows in &part.rows {
            runs += &format!("{} {}\n", rows.run, rows.groups.len());
            for group in &rows.groups {
                let (from, to) = extent(group)?;
                copy(&part.file, from, to, out).with_context(name)?;
                groups.push(moved(group, at as i64 - from as i64));
                at += to - from;
            }
        }
    }
    // A hostile count is as wrong as it was.
    let rows = groups.iter().filter_map(|g| g.field(3)?.number()).fold(0, i64::saturating_add);
    let mut footer = first.footer.clone();
    set(&mut footer, ROWS, Value::Number(I64, rows))?;
    set(&mut footer, GROUPS, Value::List(STRUCT, groups))?;
    let Some(Value::List(_, words)) = footer.field_mut(WORDS) else { bail!("a footer without words") };
    words.retain(|w| w.field(1).is_none_or(|k| k.bytes() != RUNS.as_bytes()));
    words.push(Value::Struct(vec![(1, Value::Bytes(RUNS.into())), (2, Value::Bytes(runs.into()))]));
    let mut bytes = Vec::new();
    footer.write(&mut bytes);
    let length = u32::try_from(bytes.len()).context("too many row groups for one file")?;
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(MAGIC);
    out.write_all(&bytes)?;
    Ok(at + bytes.len() as u64)
}

fn set(footer: &mut Value, field: i16, value: Value) -> Result<()> {
    *footer.field_mut(field).context("a footer without rows")? = value;
    Ok(())
}

fn copy(from: &File, mut at: u64, end: u64, out: &mut File) -> Result<()> {
    let mut buffer = vec![0; BUFFER.min((end - at) as usize)];
    while at < end {
        let length = buffer.len().min((end - at) as usize);
        from.read_exact_at(&mut buffer[..length], at)?;
        out.write_all(&buffer[..length])?;
        at += length as u64;
    }
    Ok(())
}

/// A row group whose bytes lie elsewhere.
fn moved(group: &Value, by: i64) -> Value {
    let mut group = group.clone();
    for chunk in group.field_mut(1).map_or(&mut [][..], Value::items_mut) {
        let Some(meta) = chunk.field_mut(3) else { continue };
        for place in [9, 11] {
            if let Some(Value::Number(_, at)) = meta.field_mut(place) {
                *at += by;
            }
        }
    }
    group
}
