// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Without a log: does every block hold together? A stamp claims that its whole
//! block was written by its write. A sector there may be of a later write of
//! the same worker, or of another worker's block that lies across; anything
//! else contradicts the claim: the block is torn.

use super::device::Device;
use super::{FaultKind, Finding, Verification, VerifyError};
use crate::data::{read_stamp, Damaged, Stamp, SECTOR};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::Path;

const STEP: u64 = 1 << 20;
/// How far back a block's beginning is remembered: 64 MiB of sectors.
const REMEMBERED: usize = 1 << 17;

/// What stands in a sector.
#[derive(Debug, Clone, Copy)]
enum Sector {
    Stamped(Stamp),
    Bare,
    /// A fault of its own, which is reported and must not count twice.
    Faulty,
}

struct Claim {
    stamp: Stamp,
    begin: u64,
    end: u64,
    torn: bool,
}

impl Claim {
    fn of(stamp: Stamp) -> Self {
        let begin = stamp.block_offset();
        let length = u64::from(stamp.length) / SECTOR as u64 * SECTOR as u64;
        Self { stamp, begin, end: begin.saturating_add(length), torn: false }
    }

    fn is_of(&self, s: &Stamp) -> bool {
        let mine = &self.stamp;
        (s.run, s.worker, s.generation, s.block_offset(), s.length)
            == (mine.run, mine.worker, mine.generation, self.begin, mine.length)
    }

    fn allows(&self, sector: &Sector) -> bool {
        let s = match sector {
            Sector::Stamped(s) => s,
            Sector::Bare => return false,
            Sector::Faulty => return true,
        };
        let mine = &self.stamp;
        if (s.run, s.worker) == (mine.run, mine.worker) {
            return s.generation >= mine.generation;
        }
        (s.block_offset(), s.length) != (self.begin, mine.length)
    }
}

struct Walk<'a> {
    path: &'a Path,
    claims: Vec<Claim>,
    past: VecDeque<Sector>,
    out: Verification,
}

pub(super) fn verify(path: &Path) -> Result<Verification, VerifyError> {
    let failed = |source: io::Error| VerifyError::Io { path: path.to_owned(), source };
    // Seeking tells a block device's length too.
    let length = File::open(path).and_then(|mut f| f.seek(SeekFrom::End(0))).map_err(failed)?;
    let mut device = Device::open(path)?;
    let mut walk = Walk { path, claims: Vec::new(), past: VecDeque::new(), out: Verification::default() };
    for begin in (0..length).step_by(STEP as usize) {
        let end = length.min(begin + STEP);
        for at in (begin..end).step_by(SECTOR) {
            match device.bytes(at, SECTOR as u64, end) {
                Ok(sector) => {
                    let read = read_stamp(sector);
                    walk.sector(at, read);
                }
                Err(e) => {
                    walk.alone(at, FaultKind::Unreadable, None, format!("the device says: {e}"));
                    walk.remember(Sector::Faulty);
                }
            }
        }
    }
    walk.close(u64::MAX);
    if walk.out.blocks == 0 {
        walk.out.notes.push(format!("{} has no stamped block", path.display()));
    }
    if !device.direct() {
        walk.out.notes.push(format!(
            "{} was read through the page cache: its file system has no direct I/O",
            path.display()
        ));
    }
    Ok(walk.out)
}

impl Walk<'_> {
    fn remember(&mut self, sector: Sector) {
        if self.past.len() == REMEMBERED {
            self.past.pop_front();
        }
        self.past.push_back(sector);
    }

    /// A fault of one sector, counted as a block of its own.
    fn alone(&mut self, offset: u64, kind: FaultKind, expected: Option<u64>, found: String) {
        self.out.blocks += 1;
        self.out.fault(Finding {
            kind,
            path: self.path.to_owned(),
            offset,
            length: SECTOR as u64,
            expected,
            found,
        });
    }

    fn sector(&mut self, at: u64, read: Result<Stamp, Damaged>) {
        self.close(at);
        let sector = match read {
            Ok(s) if s.offset == at => Sector::Stamped(s),
            Ok(s) => {
                let found = format!("a sector of file {}, offset {}", s.file, s.offset);
                self.alone(at, FaultKind::Misplaced, Some(s.generation), found);
                Sector::Faulty
            }
            Err(Damaged::Header | Damaged::Contents) => {
                self.alone(at, FaultKind::Corrupt, None, "the sector fails its checksum".into());
                Sector::Faulty
            }
            Err(Damaged::Zeros | Damaged::Foreign) => Sector::Bare,
        };
        for claim in &mut self.claims {
            claim.torn |= !claim.allows(&sector);
        }
        if let Sector::Stamped(s) = sector {
            if !self.claims.iter().any(|c| c.is_of(&s)) {
                let mut claim = Claim::of(s);
                let back = ((at.saturating_sub(claim.begin)) / SECTOR as u64) as usize;
                claim.torn = self.past.iter().rev().take(back).any(|p| !claim.allows(p));
                self.claims.push(claim);
            }
        }
        self.remember(sector);
    }

    /// Counts the claims that end at `at` or before; those on the same block
    /// are one.
    fn close(&mut self, at: u64) {
        if self.claims.iter().all(|c| c.end > at) {
            return;
        }
        let (ended, open): (Vec<_>, Vec<_>) = self.claims.drain(..).partition(|c| c.end <= at);
        self.claims = open;
        for (i, claim) in ended.iter().enumerate() {
            let same = |c: &Claim| (c.begin, c.end) == (claim.begin, claim.end);
            if ended[..i].iter().any(same) {
                continue;
            }
            self.out.blocks += 1;
            let mut of_block: Vec<_> = ended.iter().filter(|c| same(c)).collect();
            if of_block.iter().all(|c| !c.torn) {
                self.out.ok += 1;
                continue;
            }
            of_block.sort_by_key(|c| c.stamp.generation);
            let name = |c: &&Claim| format!("generation {} of worker {}", c.stamp.generation, c.stamp.worker);
            self.out.fault(Finding {
                kind: FaultKind::Torn,
                path: self.path.to_owned(),
                offset: claim.begin,
                length: claim.end - claim.begin,
                expected: of_block.last().map(|c| c.stamp.generation),
                found: format!("a part of {}", of_block.iter().map(name).collect::<Vec<_>>().join(", ")),
            });
        }
    }
}
