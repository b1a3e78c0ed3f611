// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a worker's operations: the next place, what to do there, and the data.

use super::Who;
use crate::buffers::Buffers;
use crate::data::{check_block, read_stamp, stamp, Fault, Pool, Stamp, SECTOR};
use crate::engine::{Action, Operation};
use crate::job::{Job, Through, What};
use crate::order::Places;
use plumb_stats::random::SplitMix64;
use plumb_trace::load::OperationKind;

/// Where a worker's operations come from.
#[derive(Debug)]
pub struct Source {
    places: Places,
    kind: OperationKind,
    action: Action,
    len: u32,
    /// Of 2^64, the share of reads of a mix; 0 when it is none.
    reads: u64,
    coin: SplitMix64,
    /// Every buffer is filled anew for every write.
    pool: Option<Pool>,
    stamps: Option<Stamps>,
    /// What is read has stamps to be checked.
    checks: bool,
    buffers: Buffers,
}

#[derive(Debug)]
struct Stamps {
    run: u64,
    /// As in the log: by seat, and files by their number in the step.
    worker: u32,
    first_file: u32,
    generation: u64,
}

impl Source {
    /// The operations of worker `who` over `files` files (or names).
    pub fn new(job: &Job, who: Who, files: u64, pool: Option<Pool>, buffers: Buffers, run: u64) -> Self {
        let action = match job.what {
            What::Write | What::Rewrite | What::RecordRewrite => Action::Write,
            What::Read | What::Mix | What::BackwardsRead | What::StridedRead | What::Reread => Action::Read,
            What::Create | What::Open | What::Stat | What::Rename | What::Unlink => Action::Name,
            What::FsyncOnly => Action::Sync,
            What::LockAndUpdate => Action::Lock,
            What::Request => Action::Request,
            What::Serve => Action::Serve,
            What::Copy => Action::Copy,
        };
        let named = job.what.names() && job.what != What::Create;
        let len = if named || matches!(action, Action::Lock | Action::Sync) { 0 } else { job.block.0 as u32 };
        let share = if job.what == What::Mix { u64::MAX / 100 * u64::from(job.mix) } else { 0 };
        Source {
            places: Places::new(job, who.worker, job.workers(), files),
            kind: job.kind(),
            action,
            len,
            reads: if job.what == What::Mix { share.max(1) } else { 0 },
            coin: SplitMix64::new(u64::from(job.seed) << 32 | u64::from(who.worker)),
            // A buffer that stays the same is incompressible in itself, but 8:1 over a window of several.
            pool: if job.stamp { None } else { pool },
            stamps: job.stamp.then_some(Stamps {
                run,
                worker: who.seat as u32,
                first_file: who.first_file,
                generation: 0,
            }),
            // With null nothing is read: the buffer holds what was to be written last.
            checks: job.stamp && job.through != Through::Null,
            buffers,
        }
    }

    /// Operations of one pass over the range.
    pub fn pass(&self) -> u64 {
        self.places.pass()
    }

    /// The next operation, for a slot; true when time was spent on its data.
    #[inline(always)]
    pub fn next(&mut self, slot: u32) -> (Operation, bool) {
        let place = self.places.next_place();
        let buffer = self.buffers.at(slot);
        let mut op = Operation {
            kind: self.kind,
            action: self.action,
            file: place.file,
            len: self.len,
            offset: place.offset,
            buffer,
        };
        if self.reads != 0 && self.coin.next_u64() >= self.reads {
            (op.kind, op.action) = (OperationKind::Write, Action::Write);
        }
        let fills = match op.action {
            Action::Write => true,
            Action::Name => op.len > 0,
            _ => false,
        };
        let spent = fills && self.fill(&op, slot);
        (op, spent)
    }

    /// The synchronisation of what was written to `file`.
    #[inline(always)]
    pub fn sync(&self, file: u32, offset: u64, len: u32) -> Operation {
        Operation {
            kind: OperationKind::Sync,
            action: Action::Sync,
            file,
            len,
            offset,
            buffer: self.buffers.at(0),
        }
    }

    #[inline(never)]
    fn fill(&mut self, op: &Operation, slot: u32) -> bool {
        let buffer = self.buffers.slice(slot, op.len as usize);
        if let Some(stamps) = &mut self.stamps {
            stamps.generation += 1;
            stamp(
                buffer,
                Stamp {
                    run: stamps.run,
                    file: stamps.first_file + op.file,
                    worker: stamps.worker,
                    offset: op.offset,
                    generation: stamps.generation,
                    sector: 0,
                    length: 0,
                },
            );
            return true;
        }
        match &mut self.pool {
            Some(pool) => {
                pool.fill(buffer);
                true
            }
            None => false,
        }
    }

    /// The generation of the block written last.
    #[inline(always)]
    pub fn generation(&self) -> u64 {
        self.stamps.as_ref().map_or(0, |s| s.generation)
    }

    /// Whether what was read is a whole block of this place; `true` where nothing can be said.
    #[inline(always)]
    pub fn sound(&mut self, op: &Operation, slot: u32, result: i64) -> bool {
        if !self.checks || op.action != Action::Read || result != i64::from(op.len) {
            return true;
        }
        whole(self.buffers.slice(slot, op.len as usize), op.offset)
    }
}

/// Whether a block is one write's, of any run and worker, at this place.
fn whole(block: &[u8], offset: u64) -> bool {
    let Ok(first) = read_stamp(block) else { return false };
    match check_block(block, &Stamp { offset, ..first }) {
        Ok(_) => true,
        // Files are filled with generation 0, which for the check means: not by this run.
        Err(Fault::Missing { .. }) => block.chunks_exact(SECTOR).all(|s| read_stamp(s).is_ok()),
        Err(_) => false,
    }
}
