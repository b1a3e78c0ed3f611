// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Code that a process made itself: `/tmp/perf-PID.map`, lines of `START SIZE NAME`, the
//! numbers in hex (tools/perf/Documentation/jit-interface.txt in the kernel's sources).
//!
//! The maps of long runs are larger than memory should be: only what a place needs is kept.

use super::{Answer, Found, Module, Place};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// A line's bytes; a longer one is a bad one.
const LONGEST_LINE: u64 = 16_384;
/// Bytes of a map that are read.
const LARGEST: u64 = 4 << 30;

/// Names a process's places, addresses.
pub(super) fn name(module: &Module, places: &[Place], maps: &Path) -> Answer {
    let path = maps.join(format!("perf-{}.map", module.pid));
    // Java writes its map when it ends, others go on writing; and a process in a container has its own
    // /tmp, of which only the file that was opened in time is left. The later file has the last word.
    let kept = module.file.as_ref().and_then(|f| f.try_clone().ok());
    let now = open(&path).filter(|now| !kept.as_ref().is_some_and(|kept| same(kept, now)));
    let mut lines = Lines::new(places);
    let mut seen = false;
    for mut file in kept.into_iter().chain(now) {
        seen = true;
        // The kept file's descriptor may have been read before.
        if file.seek(SeekFrom::Start(0)).is_err()
            || lines.read(BufReader::with_capacity(1 << 16, file)).is_err()
        {
            lines.bad += 1;
        }
    }
    if !seen {
        let n = module.pid;
        return Answer::nothing(
            places,
            format!(
                "process {n} made code itself and wrote no {} (java -XX:+UnlockDiagnosticVMOptions \
                 -XX:+DumpPerfMapAtExit, python -X perf, node --perf-basic-prof)",
                path.display()
            ),
        );
    }
    let missing = lines.found.iter().filter(|f| f.is_none()).count();
    let mut lacking = Vec::new();
    if missing > 0 {
        lacking.push(format!("{missing} places are in none of the map's {} entries", lines.entries));
    }
    if lines.bad > 0 {
        lacking.push(format!("{} lines of the map cannot be read", lines.bad));
    }
    Answer { found: lines.found, source: path.display().to_string(), lacking: lacking.join("; ") }
}

/// Opens a map; anything but a plain file is none: anybody may write to /tmp.
fn open(path: &Path) -> Option<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

fn same(a: &File, b: &File) -> bool {
    let id = |f: &File| f.metadata().ok().map(|m| (m.dev(), m.ino()));
    id(a) == id(b)
}

/// Places, and the last entry that was read for each.
struct Lines {
    /// Where each place's instruction lies, and which place it is; by address.
    looked: Vec<(u64, usize)>,
    found: Vec<Option<Found>>,
    entries: u64,
    bad: u64,
}

impl Lines {
    fn new(places: &[Place]) -> Self {
        let mut looked: Vec<_> = places.iter().enumerate().map(|(i, p)| (p.instruction(), i)).collect();
        looked.sort_unstable();
        Self { looked, found: vec![None; places.len()], entries: 0, bad: 0 }
    }

    fn read(&mut self, mut map: impl BufRead) -> std::io::Result<()> {
        let mut line = Vec::new();
        let mut total = 0;
        while total < LARGEST {
            line.clear();
            let len = map.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? as u64;
            total += len;
            if len == 0 {
                return Ok(());
            }
            if len == LONGEST_LINE && line.last() != Some(&b'\n') {
                self.bad += 1;
                total += skip_line(&mut map)?;
            } else if self.line(&line).is_none() {
                self.bad += 1;
            }
        }
        Ok(())
    }

    /// Takes a line in; `None` when it is none.
    fn line(&mut self, line: &[u8]) -> Option<()> {
        let line = String::from_utf8_lossy(line);
        let mut words = line.trim_end_matches(['\n', '\r']).splitn(3, ' ');
        let mut hex = || {
            let word = words.next()?;
            u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
        };
        let (start, size) = (hex()?, hex()?);
        let end = start.checked_add(size)?;
        let name = words.next().map(str::trim).filter(|n| !n.is_empty())?;
        self.entries += 1;
        let from = self.looked.partition_point(|(at, _)| *at < start);
        for (_, place) in self.looked[from..].iter().take_while(|(at, _)| *at < end) {
            // A JIT uses freed memory again: the last entry is what was there at the end.
            let frames = vec![(name.to_string(), String::new())];
            self.found[*place] = Some(Found { start, size, frames });
        }
        Some(())
    }
}

/// How many of the places a map's text names.
pub(super) fn read(places: &[Place], text: &[u8]) -> usize {
    let mut lines = Lines::new(places);
    // Memory can always be read.
    let _ = lines.read(text);
    lines.found.iter().flatten().count()
}

fn skip_line(map: &mut impl BufRead) -> std::io::Result<u64> {
    let mut skipped = 0;
    loop {
        let chunk = map.fill_buf()?;
        if chunk.is_empty() {
            return Ok(skipped);
        }
        let end = chunk.iter().position(|b| *b == b'\n');
        let n = end.map_or(chunk.len(), |i| i + 1);
        map.consume(n);
        skipped += n as u64;
        if end.is_some() {
            return Ok(skipped);
        }
    }
}
