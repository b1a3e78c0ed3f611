// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads and merges on a thread of its own, a bounded way ahead of whoever looks at the records.

use super::cursor::{sizes, Sizes};
use super::merge::{Merge, Sink};
use super::{Gap, Item, Operation, RawRecord, Summary, Told};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::thread;

/// Bytes of records that are handed over at once.
const BATCH: usize = 64 << 10;
/// Runs that are, at most.
const RUNS: usize = 4096;
/// Batches that may be ready.
const READY: usize = 8;

/// What a batch holds, in order.
enum Run {
    /// Of one CPU, up to this byte of the batch.
    Records {
        cpu: u32,
        to: usize,
    },
    Gap(Gap),
    Told(Told),
    Operation(Operation),
}

#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    runs: Vec<Run>,
}

impl Batch {
    fn hand_out(&mut self, sizes: &Sizes, f: &mut impl FnMut(Item<'_>)) {
        let mut pos = 0;
        for run in self.runs.drain(..) {
            match run {
                Run::Records { cpu, to } => {
                    while pos < to {
                        let record = RawRecord::at(&self.bytes[pos..], cpu, sizes);
                        pos += record.bytes.len();
                        f(Item::Record(record));
                    }
                }
                Run::Gap(gap) => f(Item::Gap(gap)),
                Run::Told(told) => f(Item::Told(&told)),
                Run::Operation(operation) => f(Item::Operation(operation)),
            }
        }
        self.bytes.clear();
    }
}

/// The reader's end.
struct Ahead {
    batch: Batch,
    full: SyncSender<Batch>,
    empty: Receiver<Batch>,
    /// Nobody looks any more.
    gone: bool,
}

impl Ahead {
    fn push(&mut self, run: Run) {
        self.batch.runs.push(run);
        if self.batch.bytes.len() >= BATCH || self.batch.runs.len() >= RUNS {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let next = self.empty.try_recv().unwrap_or_default();
        self.gone |= self.full.send(std::mem::replace(&mut self.batch, next)).is_err();
    }
}

impl Sink for Ahead {
    fn records(&mut self, cpu: u32, bytes: &[u8]) -> bool {
        self.batch.bytes.extend_from_slice(bytes);
        let to = self.batch.bytes.len();
        self.push(Run::Records { cpu, to });
        !self.gone
    }

    fn gap(&mut self, gap: Gap) {
        self.push(Run::Gap(gap));
    }

    fn told(&mut self, told: Told) {
        self.push(Run::Told(told));
    }

    fn operation(&mut self, operation: Operation) {
        self.push(Run::Operation(operation));
    }
}

/// Hands out everything that the streams hold.
pub(super) fn for_each(merge: &mut Merge, mut f: impl FnMut(Item<'_>)) -> Summary {
    let sizes = sizes(false);
    thread::scope(|scope| {
        let (full, ready) = sync_channel(READY);
        let (done, empty) = sync_channel(2 * READY);
        let reader = scope.spawn(move || {
            let mut ahead = Ahead { batch: Batch::default(), full, empty, gone: false };
            let summary = merge.run(&mut ahead);
            ahead.hand_over();
            summary
        });
        // Owned here: where `f` panics the reader must find it gone.
        let ready: Receiver<Batch> = ready;
        for mut batch in ready {
            batch.hand_out(&sizes, &mut f);
            let _ = done.try_send(batch);
        }
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
