// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is what was acknowledged there? The log tells which write of each block was
//! promised, the stamps in the block tell which write it holds.
//!
//! The promise after a crash: a write is durable when it was made so (flag
//! [`crate::log::DURABLE`]) or when a successful sync of its file began after
//! it ended. A failed sync takes the promise from the writes before it, since
//! the kernel may have marked their pages clean. The block must then hold this
//! write or one that did not end before it began: later ones that nobody
//! synced, or that the log was cut off before, may be there or not.
//!
//! Data flow: log -> `expect` (a sorted table of blocks) -> `device` (the
//! blocks' bytes) -> `judge` (stamps against the table, the log once more for
//! writes other than the promised one). Without a log: `whole`.

mod device;
mod expect;
mod judge;
mod without_log;

use crate::data::Generation;
use crate::log::{LogError, LogReader};
use plumb_machine::json::{formats, Format, Output};
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};

/// The most faults that are listed; all are counted.
pub const LISTED: usize = 20;

/// Which writes must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// Those that are durable: after a crash of machine or device.
    Durable,
    /// All that succeeded: after a run without a crash.
    Acknowledged,
}

/// What is wrong with a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The promised write is not there: an older one is, or none.
    Missing,
    /// Sectors of more than one write, one of them older than promised.
    Torn,
    /// A sector whose checksum is wrong.
    Corrupt,
    /// A sector that belongs elsewhere.
    Misplaced,
    /// The device gave an error.
    Unreadable,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub kind: FaultKind,
    pub path: PathBuf,
    /// Offset of the block in bytes.
    pub offset: u64,
    /// Length of the block in bytes.
    pub length: u64,
    /// The generation that was promised; none where nothing was.
    pub expected: Option<Generation>,
    /// What is there, in words.
    pub found: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// Blocks that were read and judged; the sum of the counts below.
    pub blocks: u64,
    /// Of these, blocks of which a write was promised.
    pub promised: u64,
    /// Blocks as they must or may be.
    pub ok: u64,
    /// Blocks of more than one write, all of which may be there: a write was
    /// under way. No promise is broken, but a reader must expect it.
    pub torn_under_way: u64,
    /// [`FaultKind::Missing`].
    pub missing: u64,
    /// [`FaultKind::Torn`].
    pub torn: u64,
    /// [`FaultKind::Corrupt`].
    pub corrupt: u64,
    /// [`FaultKind::Misplaced`].
    pub misplaced: u64,
    /// [`FaultKind::Unreadable`].
    pub unreadable: u64,
    /// The first [`LISTED`] faults.
    pub faults: Vec<Finding>,
    /// What limits the answer, in sentences.
    pub notes: Vec<String>,
}

impl Output for Verification {
    const FORMAT: &'static Format = &formats::LOAD_VERIFY;
}

impl Verification {
    /// Whether there is no fault. Without blocks nothing was verified: false.
    pub fn sound(&self) -> bool {
        self.blocks > 0 && self.blocks == self.ok + self.torn_under_way
    }

    fn fault(&mut self, finding: Finding) {
        *match finding.kind {
            FaultKind::Missing => &mut self.missing,
            FaultKind::Torn => &mut self.torn,
            FaultKind::Corrupt => &mut self.corrupt,
            FaultKind::Misplaced => &mut self.misplaced,
            FaultKind::Unreadable => &mut self.unreadable,
        } += 1;
        if self.faults.len() < LISTED {
            self.faults.push(finding);
        }
    }
}

/// Why nothing could be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A file cannot be read at all.
    #[error("{path}: {source}; give the file or device that the run wrote")]
    Io { path: PathBuf, source: io::Error },
    /// The job wrote no stamps.
    #[error("log {path} has no write with a stamp: there is nothing to verify; run the job with stamps")]
    NotStamped { path: PathBuf },
    /// One target for more than one file.
    #[error("{path} is to stand for {files} files of the log; give the directory that holds them")]
    OneForMany {
        /// The target that was given.
        path: PathBuf,
        /// Files in the log's head.
        files: usize,
    },
    /// Sectors at places that no device has.
    #[error("log {path} has writes at offsets that are not multiples of 512: a stamp is per sector; run the job with aligned blocks")]
    Unaligned { path: PathBuf },
    /// A row speaks of a file that the head does not name.
    #[error("log {path} speaks of file {file}, but names only {files}; it is damaged")]
    NoSuchFile {
        path: PathBuf,
        /// The index in the row.
        file: u32,
        /// Files in the log's head.
        files: usize,
    },
}

/// Verifies after a crash what the log says is durable. `target` stands for
/// the log's only file, or is the directory where its files are now.
///
/// # Errors
/// A log or file that cannot be read, or a log without stamped writes.
pub fn verify(log: LogReader, target: Option<&Path>) -> Result<Verification, VerifyError> {
    verify_promise(log, target, Promise::Durable)
}

/// As [`verify`], for the promise that is asked for.
///
/// # Errors
/// As [`verify`].
pub fn verify_promise(
    mut log: LogReader,
    target: Option<&Path>,
    promise: Promise,
) -> Result<Verification, VerifyError> {
    let paths = targets(&log, target)?;
    let table = expect::table(&mut log, promise)?;
    judge::judge(&mut log, &paths, table)
}

/// Verifies without a log that the stamps of every block agree: finds torn,
/// misplaced and corrupt blocks, but no lost ones.
///
/// # Errors
/// [`VerifyError::Io`] for a file that cannot be opened.
pub fn verify_stamps(path: &Path) -> Result<Verification, VerifyError> {
    without_log::verify(path)
}

fn targets(log: &LogReader, target: Option<&Path>) -> Result<Vec<PathBuf>, VerifyError> {
    let files = &log.head().files;
    match target {
        None => Ok(files.clone()),
        Some(dir) if dir.is_dir() => {
            Ok(files.iter().map(|f| f.file_name().map_or_else(|| dir.to_owned(), |n| dir.join(n))).collect())
        }
        Some(one) if files.len() == 1 => Ok(vec![one.to_owned()]),
        Some(one) => Err(VerifyError::OneForMany { path: one.to_owned(), files: files.len() }),
    }
}

#[cfg(test)]
mod tests;
