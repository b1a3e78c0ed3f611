// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbered blocks, written in generations: what is read later tells when it was written.

use crate::sys::Aligned;
use anyhow::{Context, Result};
use plumb_sim::serve::media::SECTOR;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

pub const BLOCKS: u64 = 64;
/// Bytes in each.
const BLOCK: usize = 4096;
/// Sectors in all of them.
pub const SECTORS: u64 = BLOCKS * BLOCK as u64 / SECTOR;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Sectors of the old generation.
    pub old: u64,
    /// Sectors of the new generation.
    pub new: u64,
    /// Sectors of neither.
    pub other: u64,
    /// Blocks with sectors of both.
    pub torn: u64,
}

fn fill(buffer: &mut [u8], generation: u64, block: u64) {
    for (place, bytes) in (0..).zip(buffer.chunks_exact_mut(8)) {
        let word: u64 = generation << 48 | block << 16 | place;
        bytes.copy_from_slice(&word.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_ne_bytes());
    }
}

/// Opens a file (which need not be there) or device past the page cache: a write has reached the
/// disk when it returns, flushed or not.
///
/// # Errors
/// As open(2).
pub fn open(path: &Path, flags: libc::c_int) -> Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).custom_flags(libc::O_DIRECT | flags);
    options.open(path).with_context(|| path.display().to_string())
}

/// Writes all blocks.
///
/// # Errors
/// As write(2).
pub fn write(file: &File, generation: u64) -> Result<()> {
    let mut buffer = Aligned::new(BLOCK);
    for block in 0..BLOCKS {
        fill(buffer.bytes(), generation, block);
        file.write_all_at(buffer.bytes(), block * BLOCK as u64)
            .with_context(|| format!("writing block {block}"))?;
    }
    Ok(())
}

/// Reads all blocks and tells which of two generations they are of.
///
/// # Errors
/// As read(2); the file is shorter.
pub fn look(path: &Path, old: u64, new: u64) -> Result<Found> {
    let file = open(path, 0)?;
    let mut found = Found::default();
    let mut read = Aligned::new(BLOCK);
    let (mut as_old, mut as_new) = ([0; BLOCK], [0; BLOCK]);
    for block in 0..BLOCKS {
        file.read_exact_at(read.bytes(), block * BLOCK as u64)
            .with_context(|| format!("{}: reading block {block}", path.display()))?;
        fill(&mut as_old, old, block);
        fill(&mut as_new, new, block);
        let before = (found.old, found.new);
        let sectors = |bytes| <[u8]>::chunks(bytes, SECTOR as usize);
        for ((sector, old), new) in sectors(read.bytes()).zip(sectors(&as_old)).zip(sectors(&as_new)) {
            match sector {
                s if s == old => found.old += 1,
                s if s == new => found.new += 1,
                _ => found.other += 1,
            }
        }
        found.torn += u64::from(found.old > before.0 && found.new > before.1);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_and_torn_blocks_are_told_apart() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("blocks");
        let Ok(file) = open(&path, 0) else {
            println!(
                "SKIP generations_and_torn_blocks_are_told_apart: no O_DIRECT in {}",
                dir.path().display()
            );
            return;
        };
        write(&file, 1).expect("write");
        drop(file);
        let plain = File::options().write(true).open(&path).expect("open");
        let mut block = [0; BLOCK];
        fill(&mut block, 2, 3);
        plain.write_all_at(&block[..1024], 3 * BLOCK as u64).expect("half of block 3");
        plain.write_all_at(&[0; 512], 5 * BLOCK as u64).expect("zeroes in block 5");
        plain.sync_all().expect("fsync");
        let found = look(&path, 1, 2).expect("look");
        assert_eq!(found, Found { old: SECTORS - 3, new: 2, other: 1, torn: 1 });
    }
}
