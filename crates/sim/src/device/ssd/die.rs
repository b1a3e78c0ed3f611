// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A die: one thing at a time, reads first, its own housekeeping before new pages.

use super::super::chance::Chance;
use super::super::Ns;
use super::cache::Batch;
use super::Ssd;
use std::collections::VecDeque;

/// Reads that go before something else that waits, at most.
const READS_FIRST: u32 = 8;

/// A page of a command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page {
    pub command: u32,
    pub bytes: u64,
    /// What it took itself so far, without waits behind others.
    pub own: Ns,
    /// Of a write: part of it that is random.
    pub random: f64,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Work {
    /// Reads a page for a command.
    Read(Page),
    /// Programs a page that a command waits for.
    Program(Page),
    /// Programs a page of the cache.
    Drain(Batch),
    /// Copies a page that is in the way of erasing.
    Copy,
    Erase,
}

/// A die and what waits for it.
#[derive(Debug, Default)]
pub(super) struct Die {
    running: Option<Work>,
    /// With the time of housekeeping when it came.
    reads: VecDeque<(Page, Ns)>,
    programs: VecDeque<(Work, Ns)>,
    copies: u32,
    erases: u32,
    /// Copies that are owed, below one.
    owed: f64,
    /// Bytes that were programmed since a block was erased for them.
    programmed: u64,
    /// Reads one after the other while something else waited.
    in_row: u32,
    /// Time of housekeeping that is over, and since when it goes on.
    kept: Ns,
    keeping_since: Option<Ns>,
    /// A page of the cache is on its way here, or being programmed.
    pub draining: bool,
}

impl Die {
    /// Takes work into its queues.
    pub fn take(&mut self, now: Ns, work: Work) {
        let kept = self.kept(now);
        match work {
            Work::Read(page) => self.reads.push_back((page, kept)),
            Work::Program(_) | Work::Drain(_) => self.programs.push_back((work, kept)),
            Work::Copy => self.copies += 1,
            Work::Erase => self.erases += 1,
        }
    }

    /// Begins what is next, if it is free: how long that takes.
    pub fn begin(&mut self, now: Ns, ssd: &Ssd, chance: &mut Chance) -> Option<Ns> {
        if self.running.is_some() {
            return None;
        }
        let kept = self.kept(now);
        let mut work = self.next(kept)?;
        let time = match work {
            Work::Read(_) => ssd.read.0,
            Work::Program(_) | Work::Drain(_) => ssd.program.0,
            Work::Copy => ssd.read.0 + ssd.program.0,
            Work::Erase => ssd.erase.0,
        };
        let time = chance.spread(time, ssd.spread);
        match &mut work {
            Work::Read(page) | Work::Program(page) => page.own += time,
            Work::Copy | Work::Erase => self.keeping_since = Some(now),
            Work::Drain(_) => {}
        }
        self.running = Some(work);
        Some(time)
    }

    /// What is next. What it waited for housekeeping counts as its own time: that is the medium's.
    fn next(&mut self, kept: Ns) -> Option<Work> {
        let others = self.erases + self.copies > 0 || !self.programs.is_empty();
        if !others || self.in_row < READS_FIRST {
            if let Some((mut page, before)) = self.reads.pop_front() {
                self.in_row = if others { self.in_row + 1 } else { 0 };
                page.own += kept - before;
                return Some(Work::Read(page));
            }
        }
        self.in_row = 0;
        if self.erases > 0 {
            self.erases -= 1;
            return Some(Work::Erase);
        }
        if self.copies > 0 {
            self.copies -= 1;
            return Some(Work::Copy);
        }
        let (mut work, before) = self.programs.pop_front()?;
        if let Work::Program(page) = &mut work {
            page.own += kept - before;
        }
        Some(work)
    }

    /// What it did is done.
    pub fn end(&mut self, now: Ns) -> Option<Work> {
        self.kept = self.kept(now);
        self.keeping_since = None;
        self.running.take()
    }

    /// A page was programmed for which others are collected: `random` of it takes copies.
    pub fn collect(&mut self, ssd: &Ssd, random: f64) {
        self.owed += (ssd.write_amplification - 1.0) * random;
        self.copies += self.owed as u32;
        self.owed = self.owed.fract();
        self.programmed(ssd);
    }

    /// A page was programmed that needed erased space.
    pub fn programmed(&mut self, ssd: &Ssd) {
        self.programmed += ssd.page_size.0;
        if self.programmed >= ssd.block_size.0 {
            self.programmed -= ssd.block_size.0;
            self.erases += 1;
        }
    }

    /// Time of housekeeping until now.
    fn kept(&self, now: Ns) -> Ns {
        self.kept + self.keeping_since.map_or(0, |since| now - since)
    }
}
