// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The log of operations: each worker pushes a row per operation into its
//! [`Ring`], a drainer appends them by the [`LogWriter`], and the [`LogReader`]
//! gives them back, after a crash as well as after the end of the run.

mod code;
mod columns;
mod read;
mod ring;
mod write;

pub use read::LogReader;
pub use ring::{Ring, RING_ROWS};
pub use write::LogWriter;

use plumb_trace::load::OperationKind;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

const MAGIC: [u8; 8] = *b"PLUMBLOG";
const VERSION: u32 = 1;
const CHUNK_MAGIC: [u8; 4] = *b"PLCH";
const END_MAGIC: [u8; 4] = *b"PLEN";
/// Magic, worker, rows, the columns' lengths; then the payload and a checksum.
const CHUNK_HEAD: usize = 12 + 4 * columns::COLUMNS;
/// Magic, rows in the whole log, checksum.
const END_LENGTH: usize = 16;
/// The most rows that a chunk holds.
pub const CHUNK_ROWS: usize = 65_536;
/// The longest head that is believed.
const HEAD_LIMIT: usize = 64 << 20;

/// What a write wrote is durable when it returns (O_SYNC, O_DSYNC, RWF_DSYNC);
/// a synchronisation makes durable what was written before it (not sync_file_range).
pub const DURABLE: u8 = 1;
/// The operation belongs to the time before measuring.
pub const WARM_UP: u8 = 2;
/// The operation had a moment at which it was meant to start (an open loop);
/// without it `intended_ns` is just the start.
pub const PACED: u8 = 4;

/// One operation. Times are nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Row {
    pub worker: u32,
    #[serde(serialize_with = "as_word")]
    #[cfg_attr(any(), json(String))]
    pub kind: OperationKind,
    /// [`DURABLE`], [`WARM_UP`], [`PACED`].
    pub flags: u8,
    /// Index of the file in [`Head::files`].
    pub file: u32,
    /// When it was meant to start; not after `begin_ns`.
    pub intended_ns: u64,
    /// When it did start; not after `end_ns`.
    pub begin_ns: u64,
    pub end_ns: u64,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// Bytes moved, or the error's number below zero.
    pub result: i32,
    /// The generation that a write stamped its block with; below 2^48.
    pub generation: u64,
}

impl Default for Row {
    fn default() -> Self {
        Row {
            worker: 0,
            kind: OperationKind::Other,
            flags: 0,
            file: 0,
            intended_ns: 0,
            begin_ns: 0,
            end_ns: 0,
            offset: 0,
            result: 0,
            generation: 0,
        }
    }
}

fn as_word<S: serde::Serializer>(kind: &OperationKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.word())
}

/// A number that this version does not know is another operation.
fn kind_of(number: u8) -> OperationKind {
    OperationKind::from_number(number).unwrap_or(OperationKind::Other)
}

/// What a log says of itself before its rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// The job as it ran.
    pub job: serde_json::Value,
    /// The files in the order of [`Row::file`].
    pub files: Vec<PathBuf>,
    /// The source of the times, as [`crate::clock::Clock::source`] names it.
    pub clock: String,
    /// The run's number, as in the stamps of its blocks.
    pub run: u64,
}

/// Why a log cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file system said no.
    #[error("log {path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error(
        "{path} is not a log of operations: it does not begin with PLUMBLOG; give the file that a run wrote"
    )]
    Foreign { path: PathBuf },
    /// A log of another version.
    #[error("log {path} has version {found}, this program reads version {VERSION}; read it with the program that wrote it")]
    Version { path: PathBuf, found: u32 },
    /// Bytes that contradict themselves, before a part that is whole.
    #[error("log {path} is damaged at byte {at}: {what}; the rows before it can be read")]
    Damaged {
        path: PathBuf,
        /// Where, in bytes.
        at: u64,
        what: String,
    },
}

#[cfg(test)]
mod tests;
