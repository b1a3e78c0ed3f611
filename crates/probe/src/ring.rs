// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reading side of the per-CPU rings that bpf/emit.bpf.h writes.
//!
//! A ring is a power of two of 32-byte slots. The producer adds to the head,
//! writes, and commits each slot by its lap number; it never waits and never
//! looks at the reader. So the reader checks three things: that a slot's lap
//! says "committed", that the head has not come round while it copied, and how
//! many events went when it did. The head counts second halves too, hence the
//! number of lost events is exact, not an estimate from slots.

use plumb_trace::writer::CONT_ID;
use std::sync::atomic::{fence, AtomicU64, Ordering};

/// Bytes of a slot (PLUMB_SLOT_BYTES).
pub const SLOT: usize = 32;
const SLOT_BITS: u32 = 36;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;
const HALF_MASK: u64 = (1 << (64 - SLOT_BITS)) - 1;
/// Slots copied before the head is looked at again.
const BATCH: u64 = 2048;

/// One CPU's ring in memory that the kernel writes.
#[derive(Clone, Copy)]
pub struct Ring<'a> {
    head: &'a AtomicU64,
    base: *const u8,
    shift: u32,
}

/// How far one ring has been read.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tail {
    slots: u64,
    halves: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    pub slots: u64,
    /// Events that were overwritten before they were read.
    pub lost: u64,
}

/// What a drain hands over, in order.
pub enum Piece<'a> {
    /// That many events are missing here.
    Lost(u64),
    /// One record of 32 or 64 bytes.
    Record(&'a [u8]),
}

impl<'a> Ring<'a> {
    /// A ring of `1 << shift` slots at `base`, its head at `head`.
    ///
    /// # Safety
    /// `base` is readable for `32 << shift` bytes as long as the ring lives.
    pub unsafe fn new(head: &'a AtomicU64, base: *const u8, shift: u32) -> Self {
        Self { head, base, shift }
    }

    fn capacity(self) -> u64 {
        1 << self.shift
    }

    /// Head as absolute slots and halves, continued from where the tail is.
    fn head(self, tail: &Tail) -> (u64, u64) {
        let word = self.head.load(Ordering::Acquire);
        let slots = tail.slots + ((word & SLOT_MASK).wrapping_sub(tail.slots) & SLOT_MASK);
        // The low field's overflow carries into the halves.
        let carry = slots >> SLOT_BITS;
        let halves = (word >> SLOT_BITS).wrapping_sub(carry);
        (slots, tail.halves + (halves.wrapping_sub(tail.halves) & HALF_MASK))
    }

    fn at(self, slot: u64) -> *const u8 {
        let offset = (slot & (self.capacity() - 1)) as usize * SLOT;
        // SAFETY: the offset is below 32 << shift (new).
        unsafe { self.base.add(offset) }
    }

    fn commit_word(self, slot: u64) -> u64 {
        // SAFETY: 8-aligned and inside the ring; the kernel stores it whole.
        unsafe { (*self.at(slot).add(8).cast::<AtomicU64>()).load(Ordering::Acquire) }
    }

    /// The id in a slot if it is committed in the expected lap.
    fn id(self, slot: u64) -> Option<u16> {
        let word = self.commit_word(slot);
        let lap = ((slot >> self.shift) + 1) as u16;
        ((word >> 16) as u16 == lap).then_some(word as u16)
    }

    /// Reads what is committed. `wait` is called while a slot that must be
    /// known is not committed yet; it returns false to give up.
    pub fn drain(self, tail: &mut Tail, scratch: &mut Vec<u8>, mut f: impl FnMut(Piece<'_>)) -> Drained {
        let mut done = Drained::default();
        loop {
            let (head, _) = self.head(tail);
            if head - tail.slots > self.capacity() {
                let lost = self.skip(tail);
                done.lost += lost;
                f(Piece::Lost(lost));
                continue;
            }
            let end = head.min(tail.slots + BATCH);
            scratch.clear();
            let mut slot = tail.slots;
            let mut halves = 0;
            while slot < end {
                let Some(id) = self.id(slot) else { break };
                if id == CONT_ID {
                    // Only after a lap that came round; the check below finds it.
                    slot += 1;
                    halves += 1;
                    continue;
                }
                let two = slot + 1 < head && self.id(slot + 1) == Some(CONT_ID);
                for half in 0..1 + u64::from(two) {
                    // SAFETY: inside the ring; a concurrent overwrite is found by the check below,
                    // and the bytes are plain integers either way.
                    let bytes = unsafe { std::slice::from_raw_parts(self.at(slot + half), SLOT) };
                    scratch.extend_from_slice(bytes);
                }
                slot += 1 + u64::from(two);
                halves += u64::from(two);
            }
            if slot == tail.slots {
                return done;
            }
            fence(Ordering::Acquire);
            if self.head(tail).0 - tail.slots > self.capacity() {
                continue;
            }
            let mut at = 0;
            while at < scratch.len() {
                let two = scratch
                    .get(at + SLOT + 8..at + SLOT + 10)
                    .is_some_and(|id| u16::from_le_bytes([id[0], id[1]]) == CONT_ID);
                let len = SLOT * (1 + usize::from(two));
                f(Piece::Record(&scratch[at..at + len]));
                at += len;
            }
            done.slots += slot - tail.slots;
            tail.slots = slot;
            tail.halves += halves;
        }
    }

    /// Leaves what was overwritten and a quarter of the ring, so that the
    /// producer does not come round again at once; returns the events left.
    fn skip(self, tail: &mut Tail) -> u64 {
        loop {
            let (head, halves_at_head) = self.head(tail);
            let mut slot = head - self.capacity() * 3 / 4;
            let mut known = 0;
            let mut first = None;
            let start = slot;
            while slot < head {
                let Some(id) = self.id(slot) else {
                    if self.head(tail).0 - start > self.capacity() {
                        break;
                    }
                    std::hint::spin_loop();
                    continue;
                };
                match first {
                    None if id == CONT_ID => {}
                    None => first = Some(slot),
                    Some(_) => known += u64::from(id == CONT_ID),
                }
                slot += 1;
            }
            if slot < head || self.head(tail).0 - start > self.capacity() {
                continue;
            }
            let first = first.unwrap_or(head);
            let halves = halves_at_head - tail.halves - known;
            let lost = (first - tail.slots) - halves;
            tail.slots = first;
            tail.halves = halves_at_head - known;
            return lost;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A producer that does what bpf/emit.bpf.h does.
    struct Producer {
        head: AtomicU64,
        mem: Vec<u64>,
        shift: u32,
        made: u64,
    }

    impl Producer {
        fn new(shift: u32) -> Self {
            Self { head: AtomicU64::new(0), mem: vec![0; 4 << shift], shift, made: 0 }
        }
        fn emit(&mut self, two: bool) {
            self.made += 1;
            let add = if two { 2 | 1 << SLOT_BITS } else { 1 };
            let n = self.head.fetch_add(add, Ordering::AcqRel) & SLOT_MASK;
            self.commit(n, 7, self.made);
            if two {
                self.commit(n + 1, CONT_ID, 0);
            }
        }
        fn commit(&mut self, n: u64, id: u16, value: u64) {
            let at = ((n & ((1 << self.shift) - 1)) * 4) as usize;
            let lap = ((n >> self.shift) + 1) as u16;
            self.mem[at] = value;
            self.mem[at + 1] = u64::from(id) | u64::from(lap) << 16;
        }
        fn ring(&self) -> Ring<'_> {
            // SAFETY: mem is 32 << shift bytes and outlives the ring.
            unsafe { Ring::new(&self.head, self.mem.as_ptr().cast(), self.shift) }
        }
        fn drain(&self, tail: &mut Tail) -> (Vec<u64>, u64) {
            let (mut values, mut lost) = (Vec::new(), 0);
            self.ring().drain(tail, &mut Vec::new(), |p| match p {
                Piece::Lost(n) => lost += n,
                Piece::Record(r) => values.push(u64::from_le_bytes(r[..8].try_into().expect("eight"))),
            });
            (values, lost)
        }
    }

    #[test]
    fn reads_everything_in_order_across_laps() {
        let mut p = Producer::new(4);
        let mut tail = Tail::default();
        let mut all = Vec::new();
        for i in 0..200 {
            p.emit(i % 3 == 0);
            if i % 5 == 0 {
                let (values, lost) = p.drain(&mut tail);
                assert_eq!(lost, 0);
                all.extend(values);
            }
        }
        all.extend(p.drain(&mut tail).0);
        assert_eq!(all, (1..=200).collect::<Vec<_>>());
    }

    #[test]
    fn counts_lost_events_exactly_whatever_their_size() {
        for two_every in 1..9 {
            for burst in [17, 40, 100, 1000] {
                let mut p = Producer::new(4);
                let mut tail = Tail::default();
                let (mut got, mut lost) = (0, 0);
                for round in 0..5 {
                    for i in 0..burst + round {
                        p.emit(i % two_every == 0);
                    }
                    let (values, l) = p.drain(&mut tail);
                    got += values.len() as u64;
                    lost += l;
                    assert_eq!(got + lost, p.made, "every {two_every}, burst {burst}");
                }
                assert!(lost > 0);
            }
        }
    }

    #[test]
    fn waits_for_a_slot_that_is_not_committed() {
        let mut p = Producer::new(4);
        let mut tail = Tail::default();
        p.emit(false);
        p.head.fetch_add(1, Ordering::AcqRel);
        assert_eq!(p.drain(&mut tail).0, [1]);
        p.commit(1, 7, 2);
        assert_eq!(p.drain(&mut tail).0, [2]);
    }
}
