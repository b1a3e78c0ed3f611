// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is written: bytes that compress as asked and never repeat, and a stamp
//! in every sector by which a block tells later who wrote it, where and when.

mod memory;
mod stamp;

pub(crate) use memory::Memory;
pub use stamp::{check_block, read_stamp, stamp, Damaged, Fault, Generation, Stamp, SECTOR};

use plumb_stats::random::SplitMix64;
use serde::{Deserialize, Serialize};
use std::io;

/// The unit within which the compressible share lies: what file systems and
/// devices compress is at least this long.
const PAGE: usize = 4096;
const SMALLEST_POOL: usize = 8 << 20;
const BLOCKS_IN_POOL: usize = 16;

/// What the blocks are to contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern {
    /// Percent of each 4 KiB that is zeros (0..=100); the rest is random.
    pub compressible: u8,
    /// Whether each sector gets a [`Stamp`].
    pub stamp: bool,
    /// What the random bytes are grown from.
    pub seed: u64,
}

/// Random bytes in page-aligned memory, from which blocks are taken at changing
/// places, and with [`Pool::fill`] also under changing keys: a compressor or a
/// deduplicating device finds no block twice, however long the run.
#[derive(Debug)]
pub struct Pool {
    memory: Memory,
    random_part: usize,
    places: SplitMix64,
}

impl Pool {
    /// A pool for blocks of up to `block` bytes: 8 MiB or 16 blocks, the larger.
    ///
    /// # Errors
    /// Memory that the kernel does not give, or a block too long for any.
    pub fn new(pattern: &Pattern, block: usize) -> io::Result<Self> {
        let length = block
            .checked_mul(BLOCKS_IN_POOL)
            .and_then(|n| n.max(SMALLEST_POOL).checked_next_multiple_of(PAGE))
            .ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("a block of {block} bytes is too long; ask for smaller blocks"),
                )
            })?;
        let mut memory = Memory::new(length)?;
        let percent = usize::from(pattern.compressible.min(100));
        let random_part = (PAGE * (100 - percent) / 100).next_multiple_of(8);
        let mut random = SplitMix64::new(pattern.seed);
        for page in memory.bytes_mut().chunks_exact_mut(PAGE) {
            for word in page[..random_part].chunks_exact_mut(8) {
                word.copy_from_slice(&random.next_u64().to_le_bytes());
            }
        }
        Ok(Self { memory, random_part, places: random })
    }

    /// How many bytes it holds.
    pub fn len(&self) -> usize {
        self.memory.bytes().len()
    }

    /// Never: a pool holds at least 8 MiB.
    pub fn is_empty(&self) -> bool {
        self.memory.bytes().len() == 0
    }

    /// Page-aligned place of the next block; `length` is within the pool.
    fn place(&mut self, length: usize) -> usize {
        let pages = (self.memory.bytes().len() - length) / PAGE + 1;
        self.places.below(pages as u64) as usize * PAGE
    }

    /// A block without a copy, aligned for direct I/O, from a changing place.
    /// Longer than the pool it is cut to the pool. Contents come back after the
    /// pool's length; where that matters, use [`Pool::fill`].
    pub fn block(&mut self, length: usize) -> &[u8] {
        let length = length.min(self.memory.bytes().len());
        let at = self.place(length);
        &self.memory.bytes()[at..at + length]
    }

    /// New contents for a block: a copy out of the pool under a new key, at
    /// about the price of the copy.
    pub fn fill(&mut self, buf: &mut [u8]) {
        let random_part = self.random_part;
        for piece in buf.chunks_mut(SMALLEST_POOL) {
            let at = self.place(piece.len());
            let key = self.places.next_u64();
            let source = &self.memory.bytes()[at..at + piece.len()];
            for (to, from) in piece.chunks_mut(PAGE).zip(source.chunks(PAGE)) {
                let random = random_part.min(to.len());
                mask(&mut to[..random], &from[..random], key);
                to[random..].fill(0);
            }
        }
    }
}

#[inline]
fn mask(to: &mut [u8], from: &[u8], key: u64) {
    let mut words = to.chunks_exact_mut(8);
    let mut source = from.chunks_exact(8);
    for (t, f) in (&mut words).zip(&mut source) {
        let mut word = [0; 8];
        word.copy_from_slice(f);
        t.copy_from_slice(&(u64::from_ne_bytes(word) ^ key).to_ne_bytes());
    }
    let rest = words.into_remainder();
    let key = key.to_ne_bytes();
    for ((t, f), k) in rest.iter_mut().zip(source.remainder()).zip(key) {
        *t = f ^ k;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    fn pattern(compressible: u8) -> Pattern {
        Pattern { compressible, stamp: false, seed: 7 }
    }

    /// The length that `gzip -1` brings the bytes to; none where there is no gzip.
    fn compressed(bytes: &[u8]) -> Option<usize> {
        let mut child = Command::new("gzip")
            .args(["-1", "-c"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let (mut input, mut output) = (child.stdin.take()?, child.stdout.take()?);
        std::thread::scope(|scope| {
            scope.spawn(move || input.write_all(bytes));
            let mut packed = Vec::new();
            output.read_to_end(&mut packed).ok()?;
            child.wait().ok()?.success().then_some(packed.len())
        })
    }

    #[test]
    fn a_compressor_finds_the_share_that_was_asked_for() {
        for percent in [0_u8, 25, 50, 90, 100] {
            let mut pool = Pool::new(&pattern(percent), 64 << 10).expect("memory");
            let mut bytes = vec![0xff; 4 << 20];
            bytes.chunks_mut(64 << 10).for_each(|block| pool.fill(block));
            let Some(length) = compressed(&bytes) else {
                println!("SKIP a_compressor_finds_the_share_that_was_asked_for: there is no gzip here");
                return;
            };
            let saved = 100.0 - length as f64 * 100.0 / bytes.len() as f64;
            assert!((saved - f64::from(percent)).abs() < 2.0, "{percent} % asked, {saved:.1} % saved");
        }
    }

    #[test]
    fn no_page_comes_twice_from_far_more_than_the_pool() {
        let mut pool = Pool::new(&pattern(50), PAGE).expect("memory");
        let mut page = vec![0; PAGE];
        let mut seen = HashSet::new();
        for _ in 0..3 * SMALLEST_POOL / PAGE {
            pool.fill(&mut page);
            assert!(seen.insert(page[..16].to_vec()), "a page came twice");
            assert!(page[PAGE / 2..].iter().all(|&b| b == 0));
        }
    }

    #[test]
    fn blocks_are_aligned_and_of_any_length() {
        let mut pool = Pool::new(&pattern(0), 3 << 20).expect("memory");
        assert_eq!(pool.len(), 48 << 20);
        let mut places = HashSet::new();
        for length in [1, 511, 4096, 3 << 20, 3 << 20, 3 << 20] {
            let block = pool.block(length);
            assert_eq!((block.len(), block.as_ptr() as usize % PAGE), (length, 0));
            places.insert(block.as_ptr() as usize);
        }
        assert!(places.len() > 3);
        assert_eq!(pool.block(usize::MAX).len(), pool.len());
        for length in [0, 1, 7, 4095, 4097, SMALLEST_POOL + 5] {
            let mut buf = vec![0; length];
            pool.fill(&mut buf);
            let zeros = buf.iter().filter(|&&b| b == 0).count();
            assert!(zeros <= length / 128 + 2, "{zeros} of {length}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let fill = |seed| {
            let mut pool = Pool::new(&Pattern { seed, ..pattern(10) }, PAGE).expect("memory");
            let mut buf = vec![0; 10_000];
            pool.fill(&mut buf);
            buf
        };
        assert!(fill(1) == fill(1));
        assert!(fill(1) != fill(2));
    }

    #[test]
    fn an_absurd_block_is_refused_in_words() {
        let error = Pool::new(&pattern(0), usize::MAX / 2).expect_err("no such memory");
        assert!(error.to_string().contains("smaller blocks"), "{error}");
    }
}
