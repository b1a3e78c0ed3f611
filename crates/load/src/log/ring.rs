// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ring between a worker and the drainer, in memory that both processes
//! map: one producer, one consumer, no lock.

use super::{kind_of, Row};
use plumb_machine::clock::now as monotonic;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Rows that a ring holds.
pub const RING_ROWS: usize = 1 << 17;
/// How long a producer sleeps before it looks for room again.
const PAUSE_NS: i64 = 20_000;

/// A row in 40 bytes. Two durations instead of two instants, and 48 bits of the
/// generation beside kind and flags.
#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    intended_ns: u64,
    wait: u32,
    service: u32,
    offset: u64,
    generation_kind_flags: u64,
    result: i32,
    file: u32,
}

const COARSE: u32 = 1 << 31;

/// Up to 2.1 s to the nanosecond, up to 36 minutes to 1,024 ns, then that.
fn shorten(ns: u64) -> u32 {
    if ns < u64::from(COARSE) {
        ns as u32
    } else {
        (ns >> 10).min(u64::from(COARSE - 1)) as u32 | COARSE
    }
}

fn lengthen(short: u32) -> u64 {
    if short & COARSE == 0 {
        u64::from(short)
    } else {
        u64::from(short & !COARSE) << 10
    }
}

impl Entry {
    fn of(row: &Row) -> Self {
        Self {
            intended_ns: row.intended_ns,
            wait: shorten(row.begin_ns.saturating_sub(row.intended_ns)),
            service: shorten(row.end_ns.saturating_sub(row.begin_ns)),
            offset: row.offset,
            generation_kind_flags: row.generation << 16
                | u64::from(row.kind as u8) << 8
                | u64::from(row.flags),
            result: row.result,
            file: row.file,
        }
    }

    fn row(&self) -> Row {
        let begin_ns = self.intended_ns.saturating_add(lengthen(self.wait));
        Row {
            worker: 0,
            kind: kind_of((self.generation_kind_flags >> 8) as u8),
            flags: self.generation_kind_flags as u8,
            file: self.file,
            intended_ns: self.intended_ns,
            begin_ns,
            end_ns: begin_ns.saturating_add(lengthen(self.service)),
            offset: self.offset,
            result: self.result,
            generation: self.generation_kind_flags >> 16,
        }
    }
}

/// Keeps the two sides' words off each other's cache lines (and off the pair
/// of lines that the prefetcher takes).
#[repr(C, align(128))]
struct Line<T>(T);

/// The ring. All-zero bytes are an empty one. It is not `Sync`: who makes the
/// two references out of shared memory vouches that there is one producer and
/// one consumer.
#[repr(C)]
pub struct Ring {
    /// Rows ever pushed; the producer's.
    head: Line<AtomicU64>,
    /// Rows ever drained; the consumer's.
    tail: Line<AtomicU64>,
    closed: Line<AtomicU32>,
    waits: Line<AtomicU64>,
    waited_ns: AtomicU64,
    lost: AtomicU64,
    entries: UnsafeCell<[Entry; RING_ROWS]>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("head", &self.head.0)
            .field("tail", &self.tail.0)
            .field("waits", &self.waits.0)
            .finish_non_exhaustive()
    }
}

impl Ring {
    fn slot(&self, at: u64) -> *mut Entry {
        let first = self.entries.get().cast::<Entry>();
        // SAFETY: the index is within the array.
        unsafe { first.add(at as usize & (RING_ROWS - 1)) }
    }

    /// The producer's: one row, in a few stores while there is room. Without
    /// room it waits for the consumer, unless the ring was closed; then the
    /// row is counted as lost. `row.worker` is the consumer's to know.
    #[inline]
    pub fn push(&self, row: &Row) {
        let head = self.head.0.load(Ordering::Relaxed);
        if head - self.tail.0.load(Ordering::Acquire) >= RING_ROWS as u64 && !self.wait_for_room(head) {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // SAFETY: the slot was drained (Acquire above), and the consumer reads
        // it only after the store to head below.
        unsafe { self.slot(head).write(Entry::of(row)) };
        self.head.0.store(head + 1, Ordering::Release);
    }

    #[cold]
    fn wait_for_room(&self, head: u64) -> bool {
        let begin = monotonic();
        let pause = libc::timespec { tv_sec: 0, tv_nsec: PAUSE_NS };
        let room = loop {
            if head - self.tail.0.load(Ordering::Acquire) < RING_ROWS as u64 {
                break true;
            }
            if self.closed.0.load(Ordering::Relaxed) != 0 {
                break false;
            }
            // SAFETY: pause outlives the call; a sleep cut short only looks
            // sooner.
            unsafe { libc::nanosleep(&pause, std::ptr::null_mut()) };
        };
        self.waits.0.fetch_add(1, Ordering::Relaxed);
        self.waited_ns.fetch_add(monotonic() - begin, Ordering::Relaxed);
        room
    }

    /// The consumer's: gives every row that is there to `f`, in order, and
    /// frees its place; how many there were. The rows' worker is 0.
    pub fn drain(&self, mut f: impl FnMut(Row)) -> usize {
        let tail = self.tail.0.load(Ordering::Relaxed);
        // The producer is another process: whatever it wrote, no more than
        // the ring is read.
        let rows = self.head.0.load(Ordering::Acquire).saturating_sub(tail).min(RING_ROWS as u64);
        for at in tail..tail + rows {
            // SAFETY: the producer released this slot with its store to head,
            // and writes it again only after the store to tail below; any
            // bits are a valid entry.
            f(unsafe { self.slot(at).read() }.row());
            // In steps, so that a waiting producer need not wait for all.
            if at & 1023 == 1023 {
                self.tail.0.store(at + 1, Ordering::Release);
            }
        }
        self.tail.0.store(tail + rows, Ordering::Release);
        rows as usize
    }

    /// The consumer's last word: nobody drains any more, do not wait. Whoever
    /// finds the consumer dead must say it in its place, or a producer with a
    /// full ring waits for ever.
    pub fn close(&self) {
        self.closed.0.store(1, Ordering::Relaxed);
    }

    /// How often the producer found no room.
    pub fn waits(&self) -> u64 {
        self.waits.0.load(Ordering::Relaxed)
    }

    /// How long it waited for room altogether, in nanoseconds.
    pub fn waited_ns(&self) -> u64 {
        self.waited_ns.load(Ordering::Relaxed)
    }

    /// Rows pushed into a full ring that was closed.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_stats::random::SplitMix64;

    /// Zeroed memory as a ring, freed at the end.
    fn ring() -> Box<Ring> {
        let layout = std::alloc::Layout::new::<Ring>();
        // SAFETY: the layout is Ring's own and not empty; all-zero bytes are a
        // valid ring.
        unsafe { Box::from_raw(std::alloc::alloc_zeroed(layout).cast()) }
    }

    struct Shared<'a>(&'a Ring);
    // SAFETY: the tests have one producer and one consumer.
    unsafe impl Send for Shared<'_> {}
    impl Shared<'_> {
        fn ring(&self) -> &Ring {
            self.0
        }
    }

    fn random_row(random: &mut SplitMix64) -> Row {
        let intended_ns = random.below(1 << 60);
        let begin_ns = intended_ns + random.below(1 << 31);
        Row {
            worker: 0,
            kind: kind_of(random.below(14) as u8),
            flags: random.next_u64() as u8,
            file: random.next_u64() as u32,
            intended_ns,
            begin_ns,
            end_ns: begin_ns + random.below(1 << 31),
            offset: random.next_u64(),
            result: random.next_u64() as i32,
            generation: random.below(1 << 48),
        }
    }

    #[test]
    fn rows_come_out_as_they_went_in() {
        assert_eq!(size_of::<Entry>(), 40);
        let ring = ring();
        let mut random = SplitMix64::new(1);
        let rows: Vec<Row> = (0..1000).map(|_| random_row(&mut random)).collect();
        rows.iter().for_each(|row| ring.push(row));
        let mut out = Vec::new();
        assert_eq!(ring.drain(|row| out.push(row)), 1000);
        assert!(out == rows);
        assert_eq!(ring.drain(|_| panic!("empty")), 0);
    }

    #[test]
    fn a_full_ring_waits_and_loses_nothing() {
        let ring = ring();
        let total = 3 * RING_ROWS as u64 + 17;
        let (producer, consumer) = (Shared(&ring), Shared(&ring));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for n in 0..total {
                    producer.ring().push(&Row { generation: n, ..Row::default() });
                }
            });
            scope.spawn(move || {
                let ring = consumer.ring();
                let deadline = monotonic() + 60_000_000_000;
                while ring.waits() == 0 && monotonic() < deadline {
                    std::thread::yield_now();
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    if ring.head.0.load(Ordering::Relaxed) == RING_ROWS as u64 {
                        break;
                    }
                }
                let mut next = 0;
                while next < total && monotonic() < deadline {
                    ring.drain(|row| {
                        assert_eq!(row.generation, next);
                        next += 1;
                    });
                }
                ring.close();
                assert_eq!(next, total, "all rows within a minute");
            });
        });
        assert_eq!(ring.lost(), 0);
    }

    #[test]
    fn a_closed_full_ring_counts_what_it_loses() {
        let ring = ring();
        ring.close();
        for _ in 0..RING_ROWS + 3 {
            ring.push(&Row::default());
        }
        assert_eq!((ring.lost(), ring.waits()), (3, 3));
        assert_eq!(ring.drain(|_| ()), RING_ROWS);
    }

    #[test]
    fn long_durations_keep_their_magnitude() {
        for ns in [0, 1, (1 << 31) - 1, 1 << 31, 3_000_000_000, 600_000_000_000] {
            let back = lengthen(shorten(ns));
            assert!(back <= ns && ns - back < 1024, "{ns} {back}");
        }
        assert!(lengthen(shorten(u64::MAX)) > 2_000_000_000_000);
    }
}
