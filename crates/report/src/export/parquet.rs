// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables as Parquet: a file a table, typed columns, texts by a dictionary, whole numbers by their
//! differences, least and largest value of each column in each row group. Not compressed: the
//! encodings take most of what a compressor would.
//!
//! Written by hand because the crate `parquet` costs more to build than all of this program's own
//! parts; <https://github.com/apache/parquet-format> has the format.

mod column;
mod encode;
mod footer;
pub mod join;
mod read;
mod thrift;

use crate::table::{self, Cell, Kind, Sink, Table, SCHEMA, TABLES};
use anyhow::{Context as _, Result};
use column::{physical, Chunk, Column};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use thrift::Fields;

const MAGIC: &[u8] = b"PAR1";
/// Rows of a row group.
const GROUP: usize = 1 << 18;
/// Bytes of texts in a column that end a row group early: an export's memory is bounded by them.
const TEXTS: usize = 1 << 25;

const OPTIONAL: i32 = 1;
const UTF8: i32 = 0;

/// The key of what a file was made of.
const MADE: &str = "plumb.made";

/// Of what a file was made; none where that cannot be found.
pub fn made(path: &Path) -> Option<String> {
    let (footer, _) = footer::read(&File::open(path).ok()?).ok()?;
    Some(String::from_utf8_lossy(footer::word(&footer, MADE)?).into_owned())
}

struct Group {
    rows: i64,
    chunks: Vec<Chunk>,
}

/// Writes a file, row by row.
struct Writer {
    /// The table's name.
    table: String,
    schema: Vec<(String, Kind)>,
    /// Keys and values of the footer.
    words: Vec<(String, String)>,
    path: PathBuf,
    file: File,
    /// Bytes that are written.
    at: u64,
    columns: Vec<Column>,
    rows: usize,
    groups: Vec<Group>,
}

impl Writer {
    fn create(
        path: PathBuf,
        table: &'static Table,
        added: &'static [table::Column],
        made: &str,
    ) -> Result<Self> {
        let added = added.iter().filter(|c| table.column(c.name).is_none());
        let schema = table.columns.iter().chain(added).map(|c| (c.name.to_owned(), c.kind)).collect();
        let mut words: Vec<(String, String)> =
            vec![("plumb.table".into(), table.about.into()), ("plumb.schema".into(), SCHEMA.to_string())];
        words.extend(Some((MADE.into(), made.into())).filter(|_| !made.is_empty()));
        Self::new(path, table.name.into(), schema, words)
    }

    fn new(
        path: PathBuf,
        table: String,
        schema: Vec<(String, Kind)>,
        words: Vec<(String, String)>,
    ) -> Result<Self> {
        let mut file = File::create(&path).with_context(|| path.display().to_string())?;
        file.write_all(MAGIC).with_context(|| path.display().to_string())?;
        let columns = schema.iter().map(|(_, kind)| Column::new(*kind)).collect();
        Ok(Self {
            table,
            schema,
            words,
            path,
            file,
            at: MAGIC.len() as u64,
            columns,
            rows: 0,
            groups: Vec::new(),
        })
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> Result<()> {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.push(*cell);
        }
        self.rows += 1;
        // Texts are looked at now and then: it costs as much as a row.
        let full = self.rows % 1024 == 0 && self.columns.iter().any(|c| c.text_bytes() > TEXTS);
        if self.rows == GROUP || full {
            return self.flush();
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = Group { rows: self.rows as i64, chunks: Vec::with_capacity(self.columns.len()) };
        let mut out = Vec::new();
        for column in &mut self.columns {
            out.clear();
            group.chunks.push(column.write(self.at, &mut out));
            self.file.write_all(&out).with_context(|| self.path.display().to_string())?;
            self.at += out.len() as u64;
        }
        self.groups.push(group);
        self.rows = 0;
        Ok(())
    }

    fn footer(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut file = Fields::new(&mut out);
        let root = std::iter::once(None).chain(self.schema.iter().map(Some));
        file.i32(1, 1).structs(2, &root.collect::<Vec<_>>(), |column, element| match column {
            None => {
                element.binary(4, self.table.as_bytes()).i32(5, self.schema.len() as i32);
            }
            Some((name, kind)) => {
                element.i32(1, physical(*kind)).i32(3, OPTIONAL).binary(4, name.as_bytes());
                if *kind == Kind::Text {
                    element.i32(6, UTF8).nested(10, |logical| {
                        logical.nested(1, |_| {});
                    });
                }
            }
        });
        file.i64(3, self.groups.iter().map(|g| g.rows).sum());
        file.structs(4, &self.groups, |group, fields| {
            let chunks: Vec<_> = self.schema.iter().zip(&group.chunks).collect();
            let bytes = group.chunks.iter().map(|c| c.bytes).sum();
            fields.structs(1, &chunks, |((name, kind), chunk), fields| {
                fields.i64(2, 0).nested(3, |meta| {
                    meta.i32(1, physical(*kind)).i32s(2, &chunk.encodings).texts(3, &[name]);
                    meta.i32(4, 0).i64(5, chunk.values).i64(6, chunk.bytes).i64(7, chunk.bytes);
                    meta.i64(9, chunk.data);
                    if let Some(at) = chunk.dictionary {
                        meta.i64(11, at);
                    }
                    meta.nested(12, |statistics| {
                        statistics.i64(3, chunk.nulls);
                        if let Some((least, most)) = &chunk.range {
                            statistics.binary(5, most).binary(6, least);
                        }
                    });
                });
            });
            fields.i64(2, bytes).i64(3, group.rows).i64(6, bytes);
        });
        file.structs(5, &self.words, |(key, value), fields| {
            fields.binary(1, key.as_bytes()).binary(2, value.as_bytes());
        });
        file.binary(6, concat!("plumb version ", env!("CARGO_PKG_VERSION")).as_bytes());
        // Without it readers do not believe the least and largest values.
        file.structs(7, &self.schema, |_, order| {
            order.nested(1, |_| {});
        });
        file.end();
        out
    }

    fn finish(&mut self) -> Result<u64> {
        self.flush()?;
        let mut footer = self.footer();
        let length = footer.len() as u32;
        footer.extend_from_slice(&length.to_le_bytes());
        footer.extend_from_slice(MAGIC);
        self.file.write_all(&footer).with_context(|| self.path.display().to_string())?;
        Ok(self.groups.iter().map(|g| g.rows as u64).sum())
    }
}

/// Writes `NAME.parquet` for tables into a directory, also for those without rows.
pub struct Parquet {
    /// By the table's place; none for a table that is not written.
    writers: Vec<Option<Writer>>,
    failed: Option<anyhow::Error>,
}

impl Parquet {
    /// Makes the files of all tables; the directory is made where it is not there.
    ///
    /// # Errors
    /// A file cannot be made.
    pub fn create(dir: &Path) -> Result<Self> {
        Self::of(dir, TABLES, &[], "")
    }

    /// The same of some tables. Rows have the columns `added` behind their own, but for those that their table has itself.
    /// `made`: what [`made`] finds in the files.
    ///
    /// # Errors
    /// A file cannot be made.
    pub fn of(
        dir: &Path,
        tables: &[&'static Table],
        added: &'static [table::Column],
        made: &str,
    ) -> Result<Self> {
        std::fs::create_dir_all(dir).with_context(|| format!("directory {}", dir.display()))?;
        let mut writers: Vec<_> = TABLES.iter().map(|_| None).collect();
        for table in tables {
            let path = dir.join(format!("{}.parquet", table.name));
            writers[table.place as usize] = Some(Writer::create(path, table, added, made)?);
        }
        Ok(Self { writers, failed: None })
    }

    /// Writes what is left and the footers, without which nothing can be read; tells the rows of
    /// each table, in the order of [`TABLES`].
    ///
    /// # Errors
    /// A file could not be written.
    pub fn finish(mut self) -> Result<Vec<u64>> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.writers.iter_mut().map(|w| w.as_mut().map_or(Ok(0), Writer::finish)).collect(),
        }
    }
}

impl Sink for Parquet {
    fn wants(&self, table: &'static Table) -> bool {
        self.failed.is_none() && self.writers[table.place as usize].is_some()
    }

    fn row(&mut self, table: &'static Table, cells: &[Cell<'_>]) {
        if let (None, Some(writer)) = (&self.failed, &mut self.writers[table.place as usize]) {
            self.failed = writer.row(cells).err();
        }
    }
}
