// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table against the blocks. A block that holds another write than the
//! promised one is judged at the end, when the log was asked for that write:
//! only its time tells whether it may be there.

use super::device::Device;
use super::expect::{self, Block, FileFacts, Table};
use super::{FaultKind, Finding, Verification, VerifyError};
use crate::data::{check_block, read_stamp, Fault, Generation, Stamp, SECTOR};
use crate::log::LogReader;
use std::path::{Path, PathBuf};

/// Blocks that are this far apart are not read in one piece.
const GAP: u64 = 64 << 10;

/// A write that was found in place of the promised one.
#[derive(Debug, Clone, Copy)]
struct Suspect {
    file: u32,
    worker: u32,
    generation: Generation,
    block: usize,
    /// Whether the block holds other writes besides.
    torn: bool,
    stale: bool,
}

impl Suspect {
    fn key(&self) -> (u32, u32, Generation) {
        (self.file, self.worker, self.generation)
    }
}

struct Judge<'a> {
    paths: &'a [PathBuf],
    run: u64,
    table: Table,
    suspects: Vec<Suspect>,
    stamps_of_run: bool,
    /// The file that is being looked at is not there.
    absent: bool,
    out: Verification,
}

pub(super) fn judge(
    log: &mut LogReader,
    paths: &[PathBuf],
    table: Table,
) -> Result<Verification, VerifyError> {
    let run = log.head().run;
    let mut judge = Judge {
        paths,
        run,
        table,
        suspects: Vec::new(),
        stamps_of_run: false,
        absent: false,
        out: Verification::default(),
    };
    judge.read()?;
    judge.ask_the_log(log)?;
    judge.settle();
    let mut out = judge.out;
    out.notes.extend(judge.table.notes);
    if !judge.stamps_of_run {
        out.notes.push("no block has a stamp of this run: are these the files that it wrote?".into());
    }
    out.faults.sort_by(|a, b| (&a.path, a.offset).cmp(&(&b.path, b.offset)));
    Ok(out)
}

impl Judge<'_> {
    fn path(&self, file: u32) -> &Path {
        // The table's making refused indices beyond the head's files.
        self.paths.get(file as usize).map_or(Path::new(""), PathBuf::as_path)
    }

    fn facts(&self, file: u32) -> FileFacts {
        self.table.files.get(&file).copied().unwrap_or_default()
    }

    fn read(&mut self) -> Result<(), VerifyError> {
        let mut device: Option<(u32, Device)> = None;
        let mut until = 0;
        for i in 0..self.table.blocks.len() {
            let block = self.table.blocks[i];
            let length = self.facts(block.file).block;
            let changed = device.as_ref().is_none_or(|(file, _)| *file != block.file);
            if changed {
                device = Some((block.file, self.open(block.file)?));
            }
            if changed || block.offset.saturating_add(length) > until {
                until = self.reach(i, length);
            }
            let Some((_, device)) = &mut device else { continue };
            self.out.blocks += 1;
            self.out.promised += u64::from(block.generation > 0);
            match device.bytes(block.offset, length, until) {
                Ok(bytes) => self.look(i, bytes, length),
                Err(e) => self.fault(&block, FaultKind::Unreadable, format!("the device says: {e}")),
            }
        }
        Ok(())
    }

    fn open(&mut self, file: u32) -> Result<Device, VerifyError> {
        let path = self.path(file).to_owned();
        let device = Device::open(&path)?;
        self.absent = device.gone();
        if self.absent {
            let note =
                format!("{} does not exist; if it was moved, give the new path as TARGET", path.display());
            self.out.notes.push(note);
        } else if !device.direct() {
            self.out.notes.push(format!(
                "{} was read through the page cache: its file system has no direct I/O",
                path.display()
            ));
        }
        Ok(device)
    }

    /// The end of the neighbours that are worth reading in one piece with
    /// block i.
    fn reach(&self, i: usize, length: u64) -> u64 {
        let first = self.table.blocks[i];
        let mut end = first.offset.saturating_add(length);
        for next in &self.table.blocks[i + 1..] {
            if next.file != first.file || next.offset > end + GAP || next.offset - first.offset > 1 << 20 {
                break;
            }
            end = next.offset.saturating_add(length);
        }
        end
    }

    fn look(&mut self, i: usize, bytes: &[u8], length: u64) {
        let block = self.table.blocks[i];
        let expected = Stamp {
            run: self.run,
            file: block.file,
            worker: 0,
            offset: block.offset,
            generation: 0,
            sector: 0,
            length: length as u32,
        };
        match check_block(bytes, &expected) {
            Ok(_) | Err(Fault::Torn { .. }) => self.whose(i, bytes),
            Err(Fault::Missing { zeros }) => {
                let discarded = self.facts(block.file).discarded_ns > block.begin_ns;
                if block.generation == 0 || (zeros && discarded) {
                    self.out.ok += 1;
                } else {
                    let found = match zeros {
                        _ if self.absent => "the file does not exist",
                        true => "zeros",
                        false => "nothing of this run",
                    };
                    self.fault(&block, FaultKind::Missing, found.into());
                }
            }
            Err(Fault::Misplaced { stamp }) => {
                let found = format!(
                    "a sector of file {}, offset {}, generation {}",
                    stamp.file, stamp.offset, stamp.generation
                );
                self.stamps_of_run = true;
                self.fault(&block, FaultKind::Misplaced, found);
            }
            Err(Fault::Corrupt { sector }) => {
                self.fault(&block, FaultKind::Corrupt, format!("sector {sector} fails its checksum"));
            }
        }
    }

    /// A block of whole stamps: whose are they? Generation 0 stands for
    /// sectors that the run did not write.
    fn whose(&mut self, i: usize, bytes: &[u8]) {
        self.stamps_of_run = true;
        let block = self.table.blocks[i];
        let mut writes: Vec<(u32, Generation)> = bytes
            .chunks_exact(SECTOR)
            .map(|s| {
                read_stamp(s).ok().filter(|s| s.run == self.run).map_or((0, 0), |s| (s.worker, s.generation))
            })
            .collect();
        writes.sort_unstable();
        writes.dedup();
        if writes[..] == [(block.worker, block.generation)] || (block.generation == 0 && writes.len() == 1) {
            self.out.ok += 1;
            return;
        }
        let torn = writes.len() > 1;
        self.suspects.extend(writes.into_iter().map(|(worker, generation)| Suspect {
            file: block.file,
            worker,
            generation,
            block: i,
            torn,
            // Until the log says otherwise: of the promised write's worker
            // the smaller generation is the older; of others it is unknown.
            stale: block.generation > 0
                && (generation == 0 || (worker == block.worker && generation < block.generation)),
        }));
    }

    fn ask_the_log(&mut self, log: &mut LogReader) -> Result<(), VerifyError> {
        if self.suspects.is_empty() {
            return Ok(());
        }
        self.suspects.sort_unstable_by_key(Suspect::key);
        let (suspects, blocks) = (&mut self.suspects, &self.table.blocks);
        expect::rows(log, |row| {
            if !expect::is_write(row) {
                return;
            }
            let key = (row.file, row.worker, row.generation);
            let first = suspects.partition_point(|s| s.key() < key);
            for suspect in suspects[first..].iter_mut().take_while(|s| s.key() == key) {
                let block: &Block = &blocks[suspect.block];
                if (suspect.worker, suspect.generation) == (block.worker, block.generation) {
                    continue;
                }
                // A failed write has no length to tell whether it is the one.
                let end = row.offset.saturating_add(expect::written(row));
                if row.offset <= block.offset && (row.result < 0 || block.offset < end) {
                    suspect.stale = row.end_ns <= block.begin_ns;
                }
            }
        })?;
        Ok(())
    }

    fn settle(&mut self) {
        let mut suspects = std::mem::take(&mut self.suspects);
        suspects.sort_unstable_by_key(|s| (s.block, s.generation, s.worker));
        for of_block in suspects.chunk_by(|a, b| a.block == b.block) {
            let block = self.table.blocks[of_block[0].block];
            let (torn, stale) = (of_block[0].torn, of_block.iter().any(|s| s.stale));
            if !stale {
                *(if torn { &mut self.out.torn_under_way } else { &mut self.out.ok }) += 1;
                continue;
            }
            let name = |s: &Suspect| match s.generation {
                0 => "nothing of this run".to_owned(),
                g => format!("generation {g} of worker {}", s.worker),
            };
            let found = of_block.iter().map(name).collect::<Vec<_>>().join(", ");
            self.fault(&block, if torn { FaultKind::Torn } else { FaultKind::Missing }, found);
        }
    }

    fn fault(&mut self, block: &Block, kind: FaultKind, found: String) {
        let finding = Finding {
            kind,
            path: self.path(block.file).to_owned(),
            offset: block.offset,
            length: self.facts(block.file).block,
            expected: (block.generation > 0).then_some(block.generation),
            found,
        };
        self.out.fault(finding);
    }
}
