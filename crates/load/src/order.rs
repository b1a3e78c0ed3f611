// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which place comes next.

use crate::job::{Job, Order, Sharing, What};
use plumb_stats::random::{Mt19937, Scatter, Zipf};

/// A place: which of the worker's files, and where in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub file: u32,
    /// Bytes from the file's beginning; of names and counters their number.
    pub offset: u64,
}

/// The places of one worker: blocks of `step` bytes from `base` on, in each of its files.
#[derive(Debug, Clone)]
pub struct Places {
    walk: Walk,
    blocks: u64,
    total: u64,
    step: u64,
    base: u64,
}

#[derive(Debug, Clone)]
enum Walk {
    /// Next block number; forwards, from the first.
    Forwards(u64),
    /// Blocks left before it begins again at the end.
    Backwards(u64),
    /// `stride` bytes on; `at` is the place in bytes, `lap` how often it came round.
    Stride {
        at: u64,
        lap: u64,
        stride: u64,
        span: u64,
        file: u64,
    },
    Random(Box<Mt19937>),
    Once(Scatter, u64),
    Zipf(Box<Mt19937>, Zipf, Scatter),
    /// The same block over and over.
    Same,
}

impl Places {
    /// The places of worker `worker` of `workers`, over `files` files.
    ///
    /// Workers that share files divide the range where the order is one of
    /// neighbours, and have all of it, each with a seed of its own, where it is random.
    pub fn new(job: &Job, worker: u32, workers: u32, files: u64) -> Self {
        let order = job.places();
        let random = matches!(order, Order::Random | Order::Zipf);
        let (step, span, files, mut base) = match job.what {
            What::LockAndUpdate => (1, u64::from(job.counters), 1, 0),
            What::Request => (1, u64::from(job.connections), 1, 0),
            What::Serve => (1, 1, 1, 0),
            what if what.names() => (1, files, 1, 0),
            _ => (job.block.0.max(1), job.span(), files, job.offset.0),
        };
        let mut blocks = (span / step).max(1);
        let divided = job.sharing == Sharing::Shared && !random && workers > 1;
        if divided && !job.what.without_files() {
            let part = (blocks / u64::from(workers)).max(1);
            base += part * u64::from(worker) % blocks * step;
            blocks = part;
        }
        let total = blocks * files;
        let seed = job.seed.wrapping_add(worker);
        let walk = match order {
            _ if job.what == What::RecordRewrite => Walk::Same,
            Order::Sequential => Walk::Forwards(0),
            Order::Backwards => Walk::Backwards(total),
            Order::Interleave => Walk::stride(job.interleave.0.max(step), blocks * step),
            Order::Strided => Walk::stride(job.stride.0.max(1), blocks * step),
            Order::Random => Walk::Random(Box::new(Mt19937::new(seed))),
            Order::RandomOnce => Walk::Once(Scatter::new(total, u64::from(seed)), 0),
            Order::Zipf => Walk::Zipf(
                Box::new(Mt19937::new(seed)),
                Zipf::new(total, job.zipf),
                // One seed for all workers: they have the same favourites.
                Scatter::new(total, u64::from(job.seed)),
            ),
        };
        Places { walk, blocks, total, step, base }
    }

    /// Operations of one pass over the range.
    pub fn pass(&self) -> u64 {
        self.total
    }

    /// The next place; there is always one.
    #[inline(always)]
    pub fn next_place(&mut self) -> Place {
        let block = match &mut self.walk {
            Walk::Forwards(next) => {
                let block = *next;
                *next = if block + 1 == self.total { 0 } else { block + 1 };
                block
            }
            Walk::Random(random) => random.below(self.total),
            Walk::Backwards(left) => {
                if *left == 0 {
                    *left = self.total;
                }
                *left -= 1;
                *left
            }
            Walk::Once(scatter, next) => {
                let block = scatter.place(*next);
                *next = if *next + 1 == self.total { 0 } else { *next + 1 };
                block
            }
            Walk::Zipf(random, zipf, scatter) => scatter.place(zipf.sample(random)),
            Walk::Same => 0,
            Walk::Stride { at, lap, stride, span, file } => {
                let place = Place { file: *file as u32, offset: self.base + *at };
                *at += *stride;
                if *at + self.step > *span {
                    *lap += 1;
                    *at = *lap * self.step;
                    if *at >= *stride || *at + self.step > *span {
                        (*at, *lap) = (0, 0);
                        *file = (*file + 1) % (self.total / self.blocks);
                    }
                }
                return place;
            }
        };
        if self.total == self.blocks {
            return Place { file: 0, offset: self.base + block * self.step };
        }
        Place { file: (block / self.blocks) as u32, offset: self.base + block % self.blocks * self.step }
    }
}

impl Walk {
    fn stride(stride: u64, span: u64) -> Self {
        Walk::Stride { at: 0, lap: 0, stride, span, file: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Bytes;
    use std::collections::HashSet;

    fn places(job: &Job, count: usize, files: u64) -> Vec<(u32, u64)> {
        let mut p = Places::new(job, 0, 1, files);
        (0..count).map(|_| p.next_place()).map(|p| (p.file, p.offset / 4096)).collect()
    }

    fn job(order: Order) -> Job {
        Job {
            order,
            size: Bytes(8 * 4096),
            stride: Bytes(3 * 4096),
            interleave: Bytes(4 * 4096),
            ..Job::default()
        }
    }

    #[test]
    fn orders_go_where_they_say() {
        let offsets = |order| places(&job(order), 8, 1).into_iter().map(|(_, o)| o).collect::<Vec<_>>();
        assert_eq!(offsets(Order::Sequential), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(offsets(Order::Backwards), [7, 6, 5, 4, 3, 2, 1, 0]);
        assert_eq!(offsets(Order::Interleave), [0, 4, 1, 5, 2, 6, 3, 7]);
        assert_eq!(offsets(Order::Strided), [0, 3, 6, 1, 4, 7, 2, 5]);
        let once: HashSet<_> = offsets(Order::RandomOnce).into_iter().collect();
        assert_eq!(once.len(), 8);
    }

    #[test]
    fn random_places_are_the_mersenne_twisters() {
        let mut twister = Mt19937::new(123_456);
        let expected: Vec<_> = (0..100).map(|_| (0, twister.below(8))).collect();
        assert_eq!(places(&job(Order::Random), 100, 1), expected);
    }

    #[test]
    fn a_pass_goes_through_all_files_and_begins_again() {
        let got = places(&job(Order::Sequential), 17, 2);
        assert_eq!(got[7], (0, 7));
        assert_eq!(got[8], (1, 0));
        assert_eq!(got[16], (0, 0));
        assert_eq!(Places::new(&job(Order::Sequential), 0, 1, 2).pass(), 16);
    }

    #[test]
    fn workers_of_a_shared_file_divide_it() {
        let job = Job { sharing: Sharing::Shared, threads: 2, ..job(Order::Sequential) };
        let mut second = Places::new(&job, 1, 2, 1);
        assert_eq!(second.pass(), 4);
        assert_eq!(second.next_place().offset, 4 * 4096);
    }

    #[test]
    fn names_and_counters_are_numbers() {
        let create = Job { what: What::Create, ..Job::default() };
        let mut p = Places::new(&create, 0, 1, 3);
        assert_eq!((0..4).map(|_| p.next_place().offset).collect::<Vec<_>>(), [0, 1, 2, 0]);
        let lock = Job { what: What::LockAndUpdate, counters: 5, ..Job::default() };
        assert_eq!(Places::new(&lock, 0, 1, 1).pass(), 5);
    }
}
