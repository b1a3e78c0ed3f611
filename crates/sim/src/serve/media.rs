// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bytes of a served disk: what readers see, and what a power cut leaves.
//!
//! A model says how a request ended; [`Media::write`] and [`Media::flush`] do to the bytes
//! what that means, when the request completes and not when it arrives. Where the model
//! has a volatile cache, the old contents of what was written since the last flush are
//! kept (`unflushed`), so that a power cut can bring them back, sector by sector.
//!
//! Durable means: as the model has it. A file below is not synced by a flush: a crash of
//! this machine is no power cut of the served disk.

mod backing;
#[cfg(test)]
mod tests;
mod unflushed;

use crate::device::Outcome;
use plumb_machine::json::{formats, Format, Output};
use plumb_stats::random::SplitMix64;
use serde::Serialize;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use unflushed::Unflushed;

/// What survives a power cut as a whole or not at all, bytes.
pub const SECTOR: u64 = 512;

/// What a power cut did, in sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Toll {
    /// Acknowledged, not flushed, and again as they were at the last flush.
    pub lost: u64,
    /// Acknowledged, not flushed, and by chance on the medium.
    pub kept: u64,
    /// Of writes that were under way and that nobody was told of: by chance on the medium.
    pub torn: u64,
    /// Flushes since the disk was made.
    pub flushes: u64,
}

impl Output for Toll {
    const FORMAT: &'static Format = &formats::DISK_CUT;
}

/// A write that was under way when the power was cut.
#[derive(Debug, Clone, Copy)]
pub struct Unfinished<'a> {
    /// First byte.
    pub offset: u64,
    /// The bytes.
    pub data: &'a [u8],
}

struct State {
    powered: bool,
    /// None: a write is durable when it completes.
    unflushed: Option<Unflushed>,
}

/// The bytes. All calls may come from many threads at once.
pub struct Media {
    file: File,
    size: u64,
    /// Shared by readers, and by writers where nothing is tracked.
    state: RwLock<State>,
    flushes: AtomicU64,
}

/// A write's end: what has to be done with its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// So many zero bytes.
    Zeroes(u64),
}

impl Contents<'_> {
    fn length(&self) -> u64 {
        match self {
            Contents::Bytes(bytes) => bytes.len() as u64,
            Contents::Zeroes(length) => *length,
        }
    }
}

fn errno(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

impl Media {
    fn new(file: File, size: u64) -> Self {
        let state = RwLock::new(State { powered: true, unflushed: None });
        Self { file, size, state, flushes: AtomicU64::new(0) }
    }

    /// `size` zero bytes in memory, rounded up to whole sectors; gone at the end. Memory
    /// is taken as it is written to.
    ///
    /// # Errors
    /// No memory, or no descriptor left.
    pub fn memory(size: u64) -> io::Result<Self> {
        let size = size
            .checked_next_multiple_of(SECTOR)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("{size} bytes: too many")))?;
        Ok(Self::new(backing::memory(size)?, size))
    }

    /// The file `path`, which is made, sparse, or is there and exactly `size` bytes long.
    /// It is locked: another server cannot have it too.
    ///
    /// # Errors
    /// The length is another one or no multiple of 512, it is no regular file, it is in use
    /// by a loop device or another server, or it cannot be opened; named.
    pub fn file(path: &Path, size: u64) -> io::Result<Self> {
        Ok(Self::new(backing::file(path, size)?, size))
    }

    /// `size` zero bytes in memory with a volatile cache before them: what
    /// [`Media::memory`] and [`Media::track`] give.
    ///
    /// # Errors
    /// As [`Media::memory`].
    pub fn volatile(size: u64) -> io::Result<Self> {
        let media = Self::memory(size)?;
        media.track();
        Ok(media)
    }

    /// From now on a write is durable only after a flush. [`super::realtime::Realtime::start`]
    /// calls it where the model has a volatile cache.
    pub fn track(&self) {
        self.alone().unflushed.get_or_insert_with(Unflushed::default);
    }

    /// Its length, bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Flushes since the disk was made that were not lied about.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Relaxed)
    }

    fn shared(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn alone(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn within(&self, offset: u64, length: u64, otherwise: i32) -> io::Result<()> {
        match offset.checked_add(length) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(errno(otherwise)),
        }
    }

    /// Reads all of `buffer` at `offset`.
    ///
    /// # Errors
    /// EIO without power or beyond the end, and what the backing says.
    pub fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.within(offset, buffer.len() as u64, libc::EIO)?;
        let state = self.shared();
        if !state.powered {
            return Err(errno(libc::EIO));
        }
        self.file.read_exact_at(buffer, offset)
    }

    /// A write has ended with `outcome`. With `fua` it is durable now.
    ///
    /// # Errors
    /// The outcome's errno, EIO without power, ENOSPC beyond the end, and what the backing says.
    pub fn write(&self, contents: Contents<'_>, offset: u64, fua: bool, outcome: Outcome) -> io::Result<()> {
        self.within(offset, contents.length(), libc::ENOSPC)?;
        let contents = match (outcome, contents) {
            (Outcome::Done, contents) => contents,
            (Outcome::Failed(errno), _) => return Err(self::errno(errno)),
            (Outcome::Lied, _) => Contents::Zeroes(0),
            (Outcome::Torn(first), Contents::Bytes(bytes)) => {
                Contents::Bytes(&bytes[..bytes.len().min(first as usize)])
            }
            (Outcome::Torn(first), Contents::Zeroes(length)) => Contents::Zeroes(length.min(first.into())),
        };
        let length = contents.length();
        let tracked = self.shared().unflushed.is_some();
        if !tracked {
            let state = self.shared();
            return if state.powered { self.put(contents, offset) } else { Err(errno(libc::EIO)) };
        }
        let mut state = self.alone();
        if !state.powered {
            return Err(errno(libc::EIO));
        }
        let Some(unflushed) = &mut state.unflushed else { return self.put(contents, offset) };
        if !fua {
            unflushed.save(&self.file, offset, length)?;
        }
        self.put(contents, offset)?;
        if fua {
            unflushed.settle(offset, length);
        }
        Ok(())
    }

    fn put(&self, contents: Contents<'_>, offset: u64) -> io::Result<()> {
        match contents {
            Contents::Bytes(bytes) => self.file.write_all_at(bytes, offset),
            Contents::Zeroes(length) => backing::zero(&self.file, offset, length),
        }
    }

    /// A discard has ended: the bytes read as zeroes, in a power cut too. (A disk may do
    /// with them what it likes; this keeps no copy of what nobody needs.)
    ///
    /// # Errors
    /// As [`Media::write`].
    pub fn discard(&self, offset: u64, length: u64, outcome: Outcome) -> io::Result<()> {
        self.within(offset, length, libc::ENOSPC)?;
        let length = match outcome {
            Outcome::Done => length,
            Outcome::Failed(errno) => return Err(self::errno(errno)),
            Outcome::Lied => 0,
            Outcome::Torn(first) => length.min(first.into()),
        };
        let mut state = self.alone();
        if !state.powered {
            return Err(errno(libc::EIO));
        }
        backing::zero(&self.file, offset, length)?;
        if let Some(unflushed) = &mut state.unflushed {
            unflushed.settle(offset, length);
        }
        Ok(())
    }

    /// A flush has ended: what was written before is durable, if that is no lie.
    ///
    /// # Errors
    /// The outcome's errno, EIO without power.
    pub fn flush(&self, outcome: Outcome) -> io::Result<()> {
        match outcome {
            Outcome::Done | Outcome::Torn(_) => {}
            Outcome::Failed(errno) => return Err(self::errno(errno)),
            Outcome::Lied => return if self.shared().powered { Ok(()) } else { Err(errno(libc::EIO)) },
        }
        let mut state = self.alone();
        if !state.powered {
            return Err(errno(libc::EIO));
        }
        self.flushes.fetch_add(1, Relaxed);
        if let Some(unflushed) = &mut state.unflushed {
            unflushed.flush();
        }
        Ok(())
    }

    /// Power is cut: each sector that was not flushed survives with a chance of `percent`
    /// (0: all are lost), drawn from `seed`; so does each of `under_way`, in which nobody
    /// trusts. Until [`Media::power_on`] every request fails with EIO.
    ///
    /// # Errors
    /// The backing cannot be read or written.
    pub fn cut<'a>(
        &self,
        percent: u64,
        seed: u64,
        under_way: impl IntoIterator<Item = Unfinished<'a>>,
    ) -> io::Result<Toll> {
        let mut state = self.alone();
        let was_on = std::mem::replace(&mut state.powered, false);
        let mut random = SplitMix64::new(seed);
        let mut survives = || random.below(100) < percent;
        let (mut kept, mut lost, mut torn) = (0, 0, 0);
        if let Some(unflushed) = &mut state.unflushed {
            (kept, lost) = unflushed.cut(&self.file, &mut survives)?;
        }
        for write in under_way.into_iter().filter(|_| was_on) {
            if self.within(write.offset, write.data.len() as u64, libc::ENOSPC).is_err() {
                continue;
            }
            let first = write.offset.next_multiple_of(SECTOR);
            let whole = write.data.get((first - write.offset) as usize..).unwrap_or_default();
            for (sector, number) in whole.chunks_exact(SECTOR as usize).zip(0..) {
                if survives() {
                    self.file.write_all_at(sector, first + number * SECTOR)?;
                    torn += 1;
                }
            }
        }
        Ok(Toll { lost, kept, torn, flushes: self.flushes() })
    }

    /// Power is back: requests are served again, with what survived.
    pub fn power_on(&self) {
        self.alone().powered = true;
    }
}
