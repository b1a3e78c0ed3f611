// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Out of the log: a table of the blocks that were written, each with the
//! write that must be there.

use super::{Promise, VerifyError};
use crate::data::{Generation, SECTOR};
use crate::log::{LogError, LogReader, Row, DURABLE};
use plumb_trace::load::OperationKind as Kind;
use std::collections::HashMap;

/// A block and its promised write. Blocks sort by place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) file: u32,
    pub(super) worker: u32,
    pub(super) offset: u64,
    /// The promised write's generation; 0 for no promise.
    pub(super) generation: Generation,
    /// When the promised write began; 0 for no promise.
    pub(super) begin_ns: u64,
}

/// What the log tells of one file.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileFacts {
    /// The length that divides all writes' places and lengths, in bytes: with
    /// blocks of several lengths the smallest piece that is written whole.
    pub(super) block: u64,
    /// When the last operation ended after which zeros are no loss.
    pub(super) discarded_ns: u64,
    first_failure_ns: u64,
    last_failure_ns: u64,
    /// Up to where the syncs before the first failure carry.
    synced_before_ns: u64,
    /// Up to where the syncs after the last failure carry.
    synced_ns: u64,
}

impl Default for FileFacts {
    fn default() -> Self {
        Self {
            block: 0,
            discarded_ns: 0,
            first_failure_ns: u64::MAX,
            last_failure_ns: 0,
            synced_before_ns: 0,
            synced_ns: 0,
        }
    }
}

/// The table, sorted by file and offset.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) blocks: Vec<Block>,
    pub(super) files: HashMap<u32, FileFacts>,
    pub(super) notes: Vec<String>,
}

/// A call that promises something for what was written before.
fn is_sync(row: &Row) -> bool {
    row.kind == Kind::Sync && row.flags & DURABLE != 0
}

/// A write with a stamp.
pub(super) fn is_write(row: &Row) -> bool {
    matches!(row.kind, Kind::Write | Kind::Rewrite) && row.generation != 0
}

/// The stamped length of a write in whole sectors; 0 for any other row.
pub(super) fn written(row: &Row) -> u64 {
    if !is_write(row) {
        return 0;
    }
    u64::try_from(row.result).unwrap_or(0) / SECTOR as u64 * SECTOR as u64
}

fn divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// All rows, as far as they can be read: damage ends the log as a crash does.
pub(super) fn rows(log: &mut LogReader, mut each: impl FnMut(&Row)) -> Result<Option<String>, VerifyError> {
    log.rewind()?;
    for row in log.by_ref() {
        match row {
            Ok(row) => each(&row),
            Err(damage @ LogError::Damaged { .. }) => return Ok(Some(damage.to_string())),
            Err(other) => return Err(other.into()),
        }
    }
    Ok(log.note().map(str::to_owned))
}

impl FileFacts {
    fn learn(&mut self, row: &Row) {
        let length = written(row);
        if length > 0 {
            self.block = divisor(divisor(self.block, row.offset), length);
        } else if is_sync(row) && row.result < 0 {
            self.first_failure_ns = self.first_failure_ns.min(row.begin_ns);
            self.last_failure_ns = self.last_failure_ns.max(row.end_ns);
        } else if row.kind == Kind::Unlink && row.result >= 0 {
            self.discarded_ns = self.discarded_ns.max(row.end_ns);
        }
    }

    /// A successful sync; the failures must be known.
    fn synced(&mut self, row: &Row) {
        if row.end_ns <= self.first_failure_ns {
            self.synced_before_ns = self.synced_before_ns.max(row.begin_ns);
        }
        self.synced_ns = self.synced_ns.max(row.begin_ns);
    }

    fn promised(&self, row: &Row, promise: Promise) -> bool {
        promise == Promise::Acknowledged
            || (is_write(row) && row.flags & DURABLE != 0)
            || row.end_ns <= self.synced_before_ns
            || (row.begin_ns > self.last_failure_ns && row.end_ns <= self.synced_ns)
    }
}

pub(super) fn table(log: &mut LogReader, promise: Promise) -> Result<Table, VerifyError> {
    let mut files: HashMap<u32, FileFacts> = HashMap::new();
    let note = rows(log, |row| files.entry(row.file).or_default().learn(row))?;
    let named = log.head().files.len();
    if let Some(&file) =
        files.iter().find(|(&f, facts)| facts.block > 0 && f as usize >= named).map(|(f, _)| f)
    {
        return Err(VerifyError::NoSuchFile { path: log.path().to_owned(), file, files: named });
    }
    if files.values().all(|f| f.block == 0) {
        return Err(VerifyError::NotStamped { path: log.path().to_owned() });
    }
    if files.values().any(|f| f.block % SECTOR as u64 != 0) {
        return Err(VerifyError::Unaligned { path: log.path().to_owned() });
    }
    rows(log, |row| {
        if is_sync(row) && row.result == 0 {
            files.entry(row.file).or_default().synced(row);
        }
    })?;

    let mut blocks = Blocks::default();
    rows(log, |row| {
        let length = written(row);
        let Some(facts) = files.get(&row.file).filter(|_| length > 0) else { return };
        let promised = facts.promised(row, promise);
        let (generation, begin_ns) = if promised { (row.generation, row.begin_ns.max(1)) } else { (0, 0) };
        for piece in 0..length / facts.block {
            let offset = row.offset.saturating_add(piece * facts.block);
            blocks.add(Block { file: row.file, worker: row.worker, offset, generation, begin_ns });
        }
    })?;
    let mut notes: Vec<String> = note.into_iter().collect();
    if files.values().any(|f| f.last_failure_ns > 0) && promise == Promise::Durable {
        notes.push(
            "a sync failed in the run: the writes before it count as durable only by an earlier sync".into(),
        );
    }
    if files.values().any(|f| f.discarded_ns > 0) {
        notes.push("files were cut, trimmed or removed in the run: zeros there are no loss".into());
    }
    Ok(Table { blocks: blocks.finish(), files, notes })
}

/// Gathers blocks in memory of the order of the different blocks, not of the
/// writes: now and then each block keeps only its latest promised write.
#[derive(Default)]
struct Blocks {
    all: Vec<Block>,
    different: usize,
}

impl Blocks {
    fn add(&mut self, block: Block) {
        if self.all.len() >= 2 * self.different + (1 << 20) {
            self.condense();
        }
        self.all.push(block);
    }

    fn condense(&mut self) {
        // Equal begins (of two workers, or a coarse clock): the younger one.
        self.all.sort_unstable_by_key(|b| {
            (b.file, b.offset, std::cmp::Reverse((b.begin_ns, b.generation, b.worker)))
        });
        self.all.dedup_by_key(|b| (b.file, b.offset));
        self.different = self.all.len();
    }

    fn finish(mut self) -> Vec<Block> {
        self.condense();
        self.all
    }
}
