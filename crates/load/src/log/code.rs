// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers as few bytes (LEB128, zigzag for signed differences) and CRC-32C.

/// Appends seven bits a byte, the lowest first; up to ten bytes.
#[inline]
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a number off the front; none where the bytes end before it does or
/// it has more than 64 bits.
#[inline]
pub(super) fn take(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// The difference of two words (which wraps) with the sign in the lowest bit.
#[inline]
pub(super) fn zigzag(now: u64, before: u64) -> u64 {
    let delta = now.wrapping_sub(before) as i64;
    ((delta << 1) ^ (delta >> 63)) as u64
}

/// The word that `zigzag` was given as `now`.
#[inline]
pub(super) fn unzigzag(code: u64, before: u64) -> u64 {
    before.wrapping_add((code >> 1) ^ (code & 1).wrapping_neg())
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

/// CRC-32C (Castagnoli, as in iSCSI, RFC 3720) over pieces of bytes.
pub(super) fn crc32c<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    !pieces
        .into_iter()
        .flatten()
        .fold(!0, |crc: u32, &byte| (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_castagnolis() {
        assert_eq!(crc32c([&b"123456789"[..]]), 0xe306_9283);
        assert_eq!(crc32c([&b"1234"[..], b"", b"56789"]), 0xe306_9283);
        assert_eq!(crc32c([&[0; 32][..]]), 0x8a91_36aa);
    }

    #[test]
    fn numbers_come_back() {
        let samples = [0, 1, 127, 128, 1 << 35, u64::MAX - 1, u64::MAX];
        for value in samples {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            let mut at = 0;
            assert_eq!(take(&bytes, &mut at), Some(value));
            assert_eq!(at, bytes.len());
            assert_eq!(take(&bytes[..bytes.len() - 1], &mut 0), None, "cut off");
            for before in samples {
                assert_eq!(unzigzag(zigzag(value, before), before), value);
            }
        }
        assert_eq!((zigzag(5, 6), zigzag(6, 5)), (1, 2));
        assert_eq!(take(&[0xff; 11], &mut 0), None, "more than 64 bits");
        assert_eq!(take(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], &mut 0), None);
    }
}
