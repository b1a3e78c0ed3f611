// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a plan changes on the system, and how it is put back.
//!
//! Every change stands in `changes.jsonl`, on the disk, before it is made; a mark follows when
//! it is undone. So whoever finds the journal can put back what stands open in it, in reverse
//! order: the run itself after every repetition, its guardian when it was killed, the next run,
//! or `plumb plan restore`. To undo twice does no harm.

use crate::change::{Change, Held, Open};
use crate::devices::Devices;
use crate::limit::Limit;
use crate::undo::undo;
use crate::undone::Undone;
use anyhow::{bail, Context, Result};
use plumb_machine::process::start_of;
use plumb_machine::{process, utc, Root};
use serde::{Deserialize, Serialize};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The journal's name in a plan's directory.
pub const JOURNAL: &str = "changes.jsonl";

/// Changes are counted below this; a journal with a greater number is no journal of plumb's.
const MOST: u32 = 1 << 30;

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    /// A change, before it is made.
    Will {
        /// Counted from 1.
        number: u32,
        #[serde(flatten)]
        change: Change,
    },
    /// What a file read after it was written.
    Took {
        took: u32,
        value: String,
    },
    Done {
        done: u32,
    },
}

/// The journal of a plan's directory, open to be continued.
#[derive(Debug)]
pub struct Journal {
    file: File,
    open: Vec<Open>,
    next: u32,
    held: Held,
    devices: &'static dyn Devices,
}

impl Journal {
    /// Opens it, or makes an empty one. A last line that was cut off is removed: what it would have
    /// said was not done.
    ///
    /// # Errors
    /// It cannot be read or written, or a line other than the last makes no sense; named.
    pub fn open(dir: &Path, devices: &'static dyn Devices) -> Result<Journal> {
        let path = dir.join(JOURNAL);
        let name = || path.display().to_string();
        // Before anything is made in it.
        is_our_own("the directory", &dir.metadata().with_context(name)?).with_context(name)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .with_context(name)?;
        is_our_own("the journal", &file.metadata().with_context(name)?).with_context(name)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).with_context(name)?;
        let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        if whole < bytes.len() {
            file.set_len(whole as u64).with_context(name)?;
        }
        file.seek(SeekFrom::Start(whole as u64)).with_context(name)?;
        let text = String::from_utf8_lossy(&bytes[..whole]).into_owned();
        let (open, next) = replay(&text, &boot()).with_context(name)?;
        Ok(Journal { file, open, next, held: Held::Ever, devices })
    }

    /// A run begins.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn begin(&mut self) -> Result<()> {
        let began = Change::Began { boot: boot(), pid: std::process::id() as i32, utc: utc() };
        let number = self.will(began)?;
        self.open.retain(|o| o.number != number);
        Ok(())
    }

    /// Says what will be done next. It may be done when this has returned.
    ///
    /// # Errors
    /// The journal cannot be written: then it must not be done.
    pub fn will(&mut self, change: Change) -> Result<u32> {
        let number = self.next;
        self.write(&Line::Will { number, change: change.clone() })?;
        self.file.sync_data().context(JOURNAL)?;
        self.next += 1;
        self.open.push(Open { number, change, took: None, before_boot: false });
        Ok(number)
    }

    /// Says that a cgroup's limit will be changed; what was said of it before counts no more.
    ///
    /// # Errors
    /// As [`Journal::will`].
    pub fn will_limit(&mut self, limit: &Limit) -> Result<()> {
        let same = |o: &&Open| matches!(&o.change, Change::Limit(l) if l.path == limit.path && l.device == limit.device);
        let older: Vec<u32> = self.open.iter().filter(same).map(|o| o.number).collect();
        self.will(Change::Limit(limit.clone()))?;
        older.into_iter().try_for_each(|number| self.done(number))
    }

    /// Says what a file read after it was written.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn took(&mut self, number: u32, value: &str) -> Result<()> {
        if let Some(open) = self.open.iter_mut().find(|o| o.number == number) {
            open.took = Some(value.into());
        }
        self.write(&Line::Took { took: number, value: value.into() })
    }

    /// Says that a change is no more, or was not made.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn done(&mut self, number: u32) -> Result<()> {
        self.open.retain(|o| o.number != number);
        self.write(&Line::Done { done: number })
    }

    /// A place in it, for [`Journal::undo_since`].
    pub fn mark(&self) -> u32 {
        self.next
    }

    pub fn devices(&self) -> &'static dyn Devices {
        self.devices
    }

    /// The changes that are pending.
    pub fn open_changes(&self) -> &[Open] {
        &self.open
    }

    /// Undoes what stands open since a mark, the last first, and tells what came of each.
    pub fn undo_since(&mut self, mark: u32) -> Vec<Undone> {
        let mut told = Vec::new();
        let open: Vec<Open> = self.open.iter().filter(|o| o.number >= mark).cloned().collect();
        for one in open.iter().rev() {
            let undone = match one.change.is_foreign(self.devices) {
                Some(why) => Undone::Failed(format!("{why}: no plumb wrote that, and it is refused")),
                None => undo(one, self.held, self.devices),
            };
            // What cannot be marked is undone again, which does no harm.
            if !matches!(undone, Undone::Failed(_)) && self.done(one.number).is_err() {
                self.open.retain(|o| o.number != one.number);
            }
            told.push(undone);
        }
        told
    }

    fn write(&mut self, line: &Line) -> Result<()> {
        let mut text = serde_json::to_string(line).context(JOURNAL)?;
        text.push('\n');
        let at = self.file.stream_position().context(JOURNAL)?;
        self.file
            .write_all(text.as_bytes())
            .or_else(|error| {
                // No room: half a line would hide the next one.
                self.file.set_len(at)?;
                self.file.seek(SeekFrom::Start(at))?;
                Err(error)
            })
            .with_context(|| format!("{JOURNAL} cannot be written, so nothing is changed"))
    }
}

/// A journal is obeyed where nobody else can have written it.
fn is_our_own(what: &str, meta: &Metadata) -> Result<()> {
    // SAFETY: a call without arguments.
    let me = unsafe { libc::geteuid() };
    if meta.uid() != me && meta.uid() != 0 {
        bail!(
            "{what} belongs to user {}: it is not obeyed. Read it, and undo by hand what is right; or have its user call this",
            meta.uid()
        );
    }
    if meta.mode() & 0o002 != 0 {
        bail!("everybody may write to {what}: it is not obeyed. Read it, and undo by hand what is right");
    }
    Ok(())
}

/// What stands open in the journal of a directory, which is only read; nothing where there is none.
///
/// # Errors
/// It cannot be read, or a line other than the last makes no sense; named.
pub fn open_in(dir: &Path) -> Result<Vec<Open>> {
    let path = dir.join(JOURNAL);
    let bytes = match std::fs::read(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.with_context(|| path.display().to_string())?,
    };
    // What a line that was cut off would have said was not done.
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let text = String::from_utf8_lossy(&bytes[..whole]);
    Ok(replay(&text, &boot()).with_context(|| path.display().to_string())?.0)
}

/// What stands open after these lines, and the number of the next change.
fn replay(text: &str, boot: &str) -> Result<(Vec<Open>, u32)> {
    let mut open: Vec<Open> = Vec::new();
    let (mut next, mut before_boot) = (1, false);
    for (i, line) in text.lines().enumerate() {
        let line: Line = serde_json::from_str(line).with_context(|| format!("line {}", i + 1))?;
        match line {
            Line::Will { number, .. } if number >= MOST => {
                bail!("line {}: no journal has {number} changes", i + 1);
            }
            Line::Will { number, change: Change::Began { boot: then, .. } } => {
                before_boot = then != boot;
                next = number + 1;
            }
            Line::Will { number, change } => {
                open.push(Open { number, change, took: None, before_boot });
                next = number + 1;
            }
            Line::Took { took, value } => {
                if let Some(one) = open.iter_mut().find(|o| o.number == took) {
                    one.took = Some(value);
                }
            }
            Line::Done { done } => open.retain(|o| o.number != done),
        }
    }
    Ok((open, next))
}

fn boot() -> String {
    process::boot(&Root::real())
}

/// A group of processes, as the journal knows it.
pub fn processes(group: i32) -> Change {
    Change::Processes { group, start: start_of(group).unwrap_or(0) }
}

/// Puts back whatever stands open in the journal of a directory, and says each thing. True when
/// nothing is left.
///
/// # Errors
/// The journal cannot be read.
pub fn restore(
    dir: &Path,
    held: Held,
    devices: &'static dyn Devices,
    say: &mut dyn FnMut(&str),
) -> Result<bool> {
    if !dir.join(JOURNAL).exists() {
        return Ok(true);
    }
    let mut journal = Journal::open(dir, devices)?;
    journal.held = held;
    let mut whole = true;
    for undone in journal.undo_since(0) {
        match undone {
            Undone::Nothing => {}
            Undone::Did(what) | Undone::Forced(what) => say(&what),
            Undone::LeftAlone(what) => say(&format!("left alone: {what}")),
            Undone::Failed(what) => {
                whole = false;
                say(&format!("CANNOT be put back: {what}"));
            }
        }
    }
    Ok(whole)
}

#[cfg(test)]
mod tests;
