// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much flash is erased, which bytes hold data, and which writes are sequential.

/// The unit in which is known what holds data.
const UNIT: u64 = 4096;
/// Streams of sequential writes that are told apart.
const STREAMS: usize = 8;

/// The flash behind a device.
#[derive(Debug)]
pub(super) struct Spare {
    /// Bytes that can be programmed without collecting.
    erased: u64,
    all: u64,
    fresh: bool,
    /// A bit a unit: it is not as it was at first (all data; fresh: none).
    turned: Vec<u64>,
    /// Where the last writes ended.
    ends: [u64; STREAMS],
    last: usize,
}

impl Spare {
    pub fn new(size: u64, over_provisioning: f64, fresh: bool) -> Self {
        let beyond = (size as f64 * over_provisioning) as u64;
        let words = size.div_ceil(UNIT).div_ceil(64) as usize;
        let all = size.saturating_add(beyond);
        let erased = if fresh { all } else { beyond };
        Spare { erased, all, fresh, turned: vec![0; words], ends: [u64::MAX; STREAMS], last: 0 }
    }

    /// So many bytes are programmed: whether others have to be collected for them.
    pub fn program(&mut self, bytes: u64) -> bool {
        let collect = self.erased < bytes;
        self.erased = self.erased.saturating_sub(bytes);
        collect
    }

    /// These bytes hold data; whether they go on where another write ended.
    pub fn write(&mut self, offset: u64, length: u64) -> bool {
        let end = offset.saturating_add(length);
        for unit in offset / UNIT..end.div_ceil(UNIT) {
            self.set(unit, true);
        }
        let before = self.ends.iter().position(|e| *e == offset);
        let at = before.unwrap_or_else(|| {
            self.last = (self.last + 1) % STREAMS;
            self.last
        });
        self.ends[at] = end;
        before.is_some()
    }

    /// These bytes hold nothing any more, which makes spare area.
    pub fn discard(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length);
        let units = (offset.div_ceil(UNIT)..end / UNIT).filter(|unit| self.set(*unit, false)).count();
        self.erased = (self.erased + units as u64 * UNIT).min(self.all);
    }

    /// Whether this changed the unit.
    fn set(&mut self, unit: u64, data: bool) -> bool {
        let (word, bit) = ((unit / 64) as usize, 1 << (unit % 64));
        let turned = data == self.fresh;
        let Some(word) = self.turned.get_mut(word) else { return false };
        let changed = (*word & bit != 0) != turned;
        *word ^= if changed { bit } else { 0 };
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_up_is_collected_for_and_a_discard_makes_spare_once() {
        let mut spare = Spare::new(1 << 20, 0.0625, false);
        let programs = |spare: &mut Spare| (0..1000).take_while(|_| !spare.program(16 << 10)).count();
        assert_eq!(programs(&mut spare), 4, "64 KiB are over");
        for _ in 0..3 {
            spare.discard(100, 160 << 10);
        }
        assert_eq!(programs(&mut spare), 9, "40 units less the two that are not whole, once");
        spare.write(4096, 128 << 10);
        spare.discard(4096, 128 << 10);
        assert_eq!(programs(&mut spare), 8);
        let mut fresh = Spare::new(1 << 20, 0.0625, true);
        fresh.discard(0, 1 << 20);
        assert_eq!(programs(&mut fresh), 68, "nothing was there to discard");
    }

    #[test]
    fn eight_sequential_streams_are_known() {
        let mut spare = Spare::new(1 << 30, 0.0, false);
        let mut round = |nth: u64| (0..8).filter(|s| spare.write(*s * 10_000_000 + nth * 4096, 4096)).count();
        assert_eq!((round(0), round(1), round(2), round(4), round(5)), (0, 8, 8, 0, 8));
    }
}
