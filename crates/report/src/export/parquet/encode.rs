// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parquet's encodings of values: bit packing, runs, differences.
//!
//! <https://github.com/apache/parquet-format/blob/master/Encodings.md>

use super::thrift::{uleb, zigzag};

/// Packs the lowest `width` bits (0 to 64) of each value, the first into the lowest bits.
pub fn pack(values: &[u64], width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let (mut bits, mut used) = (0u64, 0u32);
    for v in values {
        bits |= v << used;
        let room = 64 - used;
        if width >= room {
            out.extend_from_slice(&bits.to_le_bytes());
            bits = v.checked_shr(room).unwrap_or(0);
            used = width - room;
        } else {
            used += width;
        }
    }
    out.extend_from_slice(&bits.to_le_bytes()[..used.div_ceil(8) as usize]);
}

/// Bits that a value needs.
pub fn width(largest: u64) -> u32 {
    64 - largest.leading_zeros()
}

/// Repeats that are worth a run of their own; groups of packed values have as many.
const GROUP: usize = 8;

/// RLE: runs of one value, and packed groups between them.
pub fn runs(values: &[u32], width: u32, out: &mut Vec<u8>) {
    let (mut at, mut from) = (0, 0);
    while at < values.len() {
        let same = values[at..].iter().take_while(|v| **v == values[at]).count();
        if same >= GROUP {
            packed(&values[from..at], width, out);
            uleb((same as u64) << 1, out);
            out.extend_from_slice(&values[at].to_le_bytes()[..width.div_ceil(8) as usize]);
            at += same;
            from = at;
        } else {
            // A packed group before a run must be full: the run gives it what it lacks.
            at = (at + GROUP).min(values.len());
        }
    }
    packed(&values[from..], width, out);
}

fn packed(values: &[u32], width: u32, out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    let groups = values.len().div_ceil(GROUP);
    uleb((groups as u64) << 1 | 1, out);
    let mut chunk = [0u64; 64 * GROUP];
    for values in values.chunks(chunk.len()) {
        let length = values.len().next_multiple_of(GROUP);
        chunk[values.len()..length].fill(0);
        chunk.iter_mut().zip(values).for_each(|(to, from)| *to = (*from).into());
        pack(&chunk[..length], width, out);
    }
}

pub const BLOCK: usize = 128;
pub const MINIS: usize = 4;

/// DELTA_BINARY_PACKED: differences above the least of their block, packed.
pub fn deltas(values: &[i64], out: &mut Vec<u8>) {
    uleb(BLOCK as u64, out);
    uleb(MINIS as u64, out);
    uleb(values.len() as u64, out);
    uleb(zigzag(values.first().copied().unwrap_or(0)), out);
    let mut last = values.first().copied().unwrap_or(0);
    for block in values.get(1..).unwrap_or_default().chunks(BLOCK) {
        let mut deltas = [0i64; BLOCK];
        for (delta, v) in deltas.iter_mut().zip(block) {
            *delta = v.wrapping_sub(last);
            last = *v;
        }
        let least = deltas[..block.len()].iter().copied().min().unwrap_or(0);
        // Above the least as unsigned, so that a difference that wrapped around fits too.
        let mut above = [0u64; BLOCK];
        for (above, delta) in above.iter_mut().zip(&deltas[..block.len()]) {
            *above = delta.wrapping_sub(least) as u64;
        }
        let minis = above.chunks(BLOCK / MINIS).map(|m| width(m.iter().fold(0, |a, v| a | v)));
        uleb(zigzag(least), out);
        let at = out.len();
        out.extend(minis.map(|w| w as u8));
        for (i, mini) in above.chunks(BLOCK / MINIS).enumerate() {
            pack(mini, out[at + i].into(), out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_packed_as_the_specification_shows() {
        let mut out = Vec::new();
        pack(&[0, 1, 2, 3, 4, 5, 6, 7], 3, &mut out);
        assert_eq!(out, [0b1000_1000, 0b1100_0110, 0b1111_1010]);
        let mut out = Vec::new();
        pack(&[u64::MAX, 1], 64, &mut out);
        assert_eq!(out, [[255; 8], 1u64.to_le_bytes()].concat());
    }

    #[test]
    fn runs_stand_between_full_groups() {
        let mut out = Vec::new();
        let values: Vec<u32> = [1, 2, 3].into_iter().chain([5; 20]).chain([1]).collect();
        runs(&values, 3, &mut out);
        // A group of 1 2 3 5 5 5 5 5, a run of 15 times 5, a group of one.
        assert_eq!(out[0], 1 << 1 | 1);
        assert_eq!(out[4..6], [15 << 1, 5]);
        assert_eq!(out[6..], [1 << 1 | 1, 1, 0, 0]);
    }

    #[test]
    fn differences_take_the_bits_that_they_need() {
        // The specification's first example.
        let mut out = Vec::new();
        deltas(&[1, 2, 3, 4, 5], &mut out);
        assert_eq!(out, [128, 1, 4, 5, 2, 2, 0, 0, 0, 0]);
        let mut out = Vec::new();
        deltas(&[7, 5, 3, 1, 2, 3, 4, 5], &mut out);
        assert_eq!(out[..10], [128, 1, 4, 8, 14, 3, 2, 0, 0, 0]);
        assert_eq!(out[10..], [0b1100_0000, 0b0011_1111, 0, 0, 0, 0, 0, 0]);
    }
}
