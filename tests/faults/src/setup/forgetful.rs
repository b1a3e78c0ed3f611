// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A disk that forgets: what was written since the last flush is lost in a power cut, all of it or
//! a part, as with the volatile cache of a real disk, which keeps no order between two flushes and
//! does not write a request in one go.

use crate::sys;
use anyhow::Result;
use plumb_sim::serve::fuse::Backing;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What survives a power cut as a whole or not at all, bytes: the sector that a loop device tells
/// the file systems of.
pub const SECTOR: u64 = 512;

/// The disk.
pub struct Forgetful {
    size: u64,
    state: Mutex<State>,
}

struct State {
    /// What readers see.
    present: File,
    /// What a power cut leaves.
    durable: File,
    /// Numbers of the sectors in which the two may differ.
    unflushed: BTreeSet<u64>,
    powered: bool,
    flushes: u64,
}

/// What a power cut did, in sectors that were not flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Toll {
    /// Sectors that are again as they were at the last flush.
    pub lost: u64,
    /// Sectors that reached the medium by chance.
    pub kept: u64,
    /// Flushes since the disk was made.
    pub flushes: u64,
}

impl State {
    /// Copies runs of neighbouring sectors.
    fn copy(from: &File, to: &File, sectors: impl IntoIterator<Item = u64>) -> io::Result<()> {
        const MOST: u64 = 2048;
        let mut buffer = vec![0; (MOST * SECTOR) as usize];
        let mut run = |first: u64, count: u64| -> io::Result<()> {
            let bytes = &mut buffer[..(count * SECTOR) as usize];
            from.read_exact_at(bytes, first * SECTOR)?;
            to.write_all_at(bytes, first * SECTOR)
        };
        let mut open: Option<(u64, u64)> = None;
        for sector in sectors {
            open = match open {
                Some((first, count)) if sector == first + count && count < MOST => Some((first, count + 1)),
                Some((first, count)) => {
                    run(first, count)?;
                    Some((sector, 1))
                }
                None => Some((sector, 1)),
            };
        }
        open.map_or(Ok(()), |(first, count)| run(first, count))
    }

    fn powered(&self) -> io::Result<()> {
        if self.powered {
            return Ok(());
        }
        Err(io::Error::from_raw_os_error(libc::EIO))
    }
}

impl Forgetful {
    /// A powered disk of `size` zero bytes, rounded up to whole sectors.
    ///
    /// # Errors
    /// No memory.
    pub fn new(size: u64) -> Result<Self> {
        let size = size.next_multiple_of(SECTOR);
        let state = State {
            present: sys::memory_file(size)?,
            durable: sys::memory_file(size)?,
            unflushed: BTreeSet::new(),
            powered: true,
            flushes: 0,
        };
        Ok(Self { size, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Power is cut: each sector that was not flushed survives with a chance of `percent` (0: all
    /// are lost), drawn from `seed`. Until [`Forgetful::power_on`] every request fails with EIO.
    ///
    /// # Errors
    /// The memory behind the disk cannot be read or written.
    pub fn cut(&self, percent: u64, seed: u64) -> io::Result<Toll> {
        let mut state = self.state();
        state.powered = false;
        let mut random = sys::Random(seed);
        let (kept, lost): (Vec<_>, Vec<_>) =
            std::mem::take(&mut state.unflushed).into_iter().partition(|_| random.below(100) < percent);
        let toll = Toll { lost: lost.len() as u64, kept: kept.len() as u64, flushes: state.flushes };
        State::copy(&state.present, &state.durable, kept)?;
        State::copy(&state.durable, &state.present, lost)?;
        Ok(toll)
    }

    /// Power is back: requests are served again, with what survived.
    pub fn power_on(&self) {
        self.state().powered = true;
    }

    /// Flushes since the disk was made.
    pub fn flushes(&self) -> u64 {
        self.state().flushes
    }
}

impl Backing for Forgetful {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.state();
        state.powered()?;
        state.present.read_at(buffer, offset)
    }

    fn write(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.state();
        state.powered()?;
        let end = offset.checked_add(data.len() as u64).filter(|&end| end <= self.size);
        let end = end.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOSPC))?;
        state.present.write_all_at(data, offset)?;
        state.unflushed.extend(offset / SECTOR..end.div_ceil(SECTOR));
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let mut state = self.state();
        state.powered()?;
        state.flushes += 1;
        let sectors = std::mem::take(&mut state.unflushed);
        State::copy(&state.present, &state.durable, sectors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sectors(disk: &Forgetful) -> Vec<u8> {
        let mut all = vec![0; disk.size() as usize];
        assert_eq!(disk.read(&mut all, 0).expect("read"), all.len());
        all.chunks(SECTOR as usize)
            .map(|s| {
                assert!(s.iter().all(|b| b == &s[0]), "a sector is never torn");
                s[0]
            })
            .collect()
    }

    fn disk() -> Forgetful {
        let disk = Forgetful::new(5000 * SECTOR).expect("disk");
        disk.write(&vec![1; disk.size() as usize], 0).expect("write");
        disk.flush().expect("flush");
        disk.write(&[2; 3000 * SECTOR as usize], 1000 * SECTOR).expect("write");
        disk
    }

    #[test]
    fn without_a_flush_a_write_is_read_but_does_not_survive() {
        let disk = disk();
        assert_eq!(sectors(&disk).iter().filter(|&&s| s == 2).count(), 3000);
        assert_eq!(disk.cut(0, 1).expect("cut"), Toll { lost: 3000, kept: 0, flushes: 1 });
        disk.power_on();
        assert!(sectors(&disk).iter().all(|&s| s == 1));
    }

    #[test]
    fn with_a_flush_it_survives() {
        let disk = disk();
        disk.flush().expect("flush");
        assert_eq!(disk.cut(0, 1).expect("cut"), Toll { lost: 0, kept: 0, flushes: 2 });
        disk.power_on();
        assert_eq!(sectors(&disk).iter().filter(|&&s| s == 2).count(), 3000);
    }

    #[test]
    fn a_part_survives_and_the_seed_says_which() {
        let after = |seed| {
            let disk = disk();
            let toll = disk.cut(50, seed).expect("cut");
            disk.power_on();
            let all = sectors(&disk);
            assert_eq!(all.iter().filter(|&&s| s == 2).count() as u64, toll.kept);
            assert!((1000..2000).contains(&toll.kept), "half of 3000, nearly: {toll:?}");
            assert_eq!(toll.kept + toll.lost, 3000);
            // A second cut finds nothing more to lose: what is read now is durable.
            assert_eq!(disk.cut(0, 0).expect("cut").lost, 0);
            all
        };
        assert_eq!(after(7), after(7));
        assert_ne!(after(7), after(8));
    }

    #[test]
    fn without_power_every_request_fails() {
        let disk = disk();
        disk.cut(0, 1).expect("cut");
        let errors = [disk.read(&mut [0; 512], 0).err(), disk.write(&[0; 512], 0).err(), disk.flush().err()];
        for error in errors {
            assert_eq!(error.and_then(|e| e.raw_os_error()), Some(libc::EIO));
        }
    }

    #[test]
    fn a_write_beyond_the_end_is_refused() {
        let disk = Forgetful::new(1).expect("disk");
        assert_eq!(disk.size(), SECTOR);
        assert!(disk.write(&[1; 513], 0).is_err());
        assert!(disk.write(&[1; 1], u64::MAX).is_err());
    }
}
