// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was written since the last flush, with what was there before: a write keeps the
//! old contents of sectors that it is the first to change, so that a flush has nothing to
//! copy and a power cut can take the writes back. Memory is bounded by what is dirty.

use super::SECTOR;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Sectors whose state is in one word.
const SECTORS: u64 = 64;
/// Bytes of these.
const CHUNK: u64 = SECTORS * SECTOR;
/// Buffers that are kept for the next time, 32 KiB each.
const SPARE: usize = 1024;

/// Neighbouring sectors.
struct Chunk {
    /// A bit for each that was written.
    written: u64,
    /// What these were at the last flush; the others' bytes mean nothing.
    old: Box<[u8]>,
}

/// The unflushed sectors of a disk.
#[derive(Default)]
pub(super) struct Unflushed {
    chunks: BTreeMap<u64, Chunk>,
    spare: Vec<Box<[u8]>>,
}

/// Bits `first..end` of a word; `end` is at most 64.
fn bits(first: u64, end: u64) -> u64 {
    let below = |n: u64| if n >= 64 { u64::MAX } else { (1 << n) - 1 };
    below(end) & !below(first)
}

/// The chunks that bytes lie in, with a bit for each sector that they touch.
fn touched(offset: u64, length: u64) -> impl Iterator<Item = (u64, u64)> {
    let (first, end) = (offset / SECTOR, (offset + length).div_ceil(SECTOR));
    let chunks = if length == 0 { 0..0 } else { first / SECTORS..end.div_ceil(SECTORS) };
    chunks.map(move |chunk| {
        let begin = chunk * SECTORS;
        (chunk, bits(first.saturating_sub(begin), (end - begin).min(SECTORS)))
    })
}

/// Calls with the first sector and the number of each run of ones.
fn runs(mut word: u64, mut each: impl FnMut(u64, u64) -> io::Result<()>) -> io::Result<()> {
    while word != 0 {
        let first = u64::from(word.trailing_zeros());
        let count = u64::from((word >> first).trailing_ones());
        each(first, count)?;
        word &= !bits(first, first + count);
    }
    Ok(())
}

fn within(chunk: u64, first: u64, count: u64) -> (std::ops::Range<usize>, u64) {
    let begin = first * SECTOR;
    (begin as usize..(begin + count * SECTOR) as usize, chunk * CHUNK + begin)
}

impl Unflushed {
    /// These bytes are about to be written.
    ///
    /// # Errors
    /// What is there cannot be read.
    pub(super) fn save(&mut self, file: &File, offset: u64, length: u64) -> io::Result<()> {
        for (number, written) in touched(offset, length) {
            let spare = &mut self.spare;
            let chunk = self.chunks.entry(number).or_insert_with(|| Chunk {
                written: 0,
                old: spare.pop().unwrap_or_else(|| vec![0; CHUNK as usize].into_boxed_slice()),
            });
            runs(written & !chunk.written, |first, count| {
                let (range, at) = within(number, first, count);
                file.read_exact_at(&mut chunk.old[range], at)
            })?;
            chunk.written |= written;
        }
        Ok(())
    }

    /// These bytes are durable as they are now.
    pub(super) fn settle(&mut self, offset: u64, length: u64) {
        let (first, last) = (offset / CHUNK, (offset + length).div_ceil(CHUNK));
        // Not chunk by chunk: a discard may be the whole disk.
        let there: Vec<u64> = self.chunks.range(first..last.max(first)).map(|(&number, _)| number).collect();
        for number in there {
            let begin = offset.max(number * CHUNK);
            let end = (offset + length).min((number + 1) * CHUNK);
            let durable = touched(begin, end - begin).map(|(_, word)| word).next().unwrap_or(0);
            if let Some(chunk) = self.chunks.get_mut(&number) {
                chunk.written &= !durable;
                if chunk.written == 0 {
                    self.forget(number);
                }
            }
        }
    }

    fn forget(&mut self, number: u64) {
        if let Some(chunk) = self.chunks.remove(&number) {
            if self.spare.len() < SPARE {
                self.spare.push(chunk.old);
            }
        }
    }

    /// Everything is durable as it is now.
    pub(super) fn flush(&mut self) {
        let room = SPARE - self.spare.len();
        self.spare.extend(std::mem::take(&mut self.chunks).into_values().take(room).map(|chunk| chunk.old));
    }

    /// Each sector for which `survives` says no is again as it was; the numbers of those
    /// that stay and of those that do not.
    ///
    /// # Errors
    /// The old contents cannot be written.
    pub(super) fn cut(&mut self, file: &File, survives: &mut impl FnMut() -> bool) -> io::Result<(u64, u64)> {
        let (mut kept, mut lost) = (0, 0);
        for (number, chunk) in std::mem::take(&mut self.chunks) {
            let mut back = 0;
            for sector in (0..SECTORS).filter(|sector| chunk.written & (1 << sector) != 0) {
                if survives() {
                    kept += 1;
                } else {
                    lost += 1;
                    back |= 1 << sector;
                }
            }
            runs(back, |first, count| {
                let (range, at) = within(number, first, count);
                file.write_all_at(&chunk.old[range], at)
            })?;
        }
        Ok((kept, lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_touch_the_sectors_that_they_lie_in() {
        let all = |offset, length| touched(offset, length).collect::<Vec<_>>();
        assert_eq!(all(0, 0), []);
        assert_eq!(all(512, 0), []);
        assert_eq!(all(0, 1), [(0, 1)]);
        assert_eq!(all(511, 2), [(0, 3)]);
        assert_eq!(all(63 * SECTOR, 2 * SECTOR), [(0, 1 << 63), (1, 1)]);
        assert_eq!(all(CHUNK, 2 * CHUNK), [(1, u64::MAX), (2, u64::MAX)]);
        assert_eq!(bits(0, 64), u64::MAX);
        assert_eq!(bits(63, 64), 1 << 63);
        assert_eq!(bits(64, 64), 0);
    }

    #[test]
    fn runs_are_runs() {
        for (word, expected) in [
            (0, vec![]),
            (u64::MAX, vec![(0, 64)]),
            (0b1011_0110, vec![(1, 2), (4, 2), (7, 1)]),
            (3 << 62, vec![(62, 2)]),
        ] {
            let mut seen = Vec::new();
            runs(word, |first, count| {
                seen.push((first, count));
                Ok(())
            })
            .expect("runs");
            assert_eq!(seen, expected, "{word:b}");
        }
    }
}
