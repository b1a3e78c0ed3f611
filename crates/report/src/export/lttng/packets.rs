// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A stream a CPU, in packets.

use plumb_trace::ctf::{PacketHead, HEAD_BYTES, MAX_PACKET_BYTES, STREAM_CPU};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[derive(Debug)]
struct Stream {
    path: PathBuf,
    file: File,
    buf: Vec<u8>,
    head: PacketHead,
    /// Events lost that no packet has told yet.
    untold: bool,
}

impl Stream {
    fn flush(&mut self) -> io::Result<()> {
        if self.buf.len() == HEAD_BYTES {
            return Ok(());
        }
        self.packet()
    }

    fn packet(&mut self) -> io::Result<()> {
        let len = self.buf.len() as u64;
        let head = PacketHead { content: len, size: len, ..self.head };
        self.buf[..HEAD_BYTES].copy_from_slice(&head.encode());
        self.file
            .write_all(&self.buf)
            .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", self.path.display())))?;
        self.buf.truncate(HEAD_BYTES);
        self.head.seq += 1;
        self.head.begin = self.head.end;
        self.untold = false;
        Ok(())
    }
}

#[derive(Debug)]
pub struct Streams {
    dir: PathBuf,
    cpus: BTreeMap<u32, Stream>,
    /// The first error; nothing is written behind it.
    failed: Option<io::Error>,
}

impl Streams {
    /// None yet, in a directory that exists.
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.into(), cpus: BTreeMap::new(), failed: None }
    }

    /// Whether a file had an error, so that going on is of no use.
    pub fn failed(&self) -> bool {
        self.failed.is_some()
    }

    fn stream(&mut self, cpu: u32) -> io::Result<&mut Stream> {
        use std::collections::btree_map::Entry;
        match self.cpus.entry(cpu) {
            Entry::Occupied(open) => Ok(open.into_mut()),
            Entry::Vacant(new) => {
                let path = self.dir.join(format!("channel0_{cpu}"));
                let file = File::create(&path)
                    .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
                let head = PacketHead { stream_id: STREAM_CPU, cpu, ..PacketHead::default() };
                Ok(new.insert(Stream { path, file, buf: vec![0; HEAD_BYTES], head, untold: false }))
            }
        }
    }

    fn keep(&mut self, done: io::Result<()>) {
        if let Err(e) = done {
            self.failed.get_or_insert(e);
        }
    }

    /// Appends an event: its number and the bytes of its fields.
    pub fn event(&mut self, cpu: u32, ts: u64, id: u16, fields: &[u8]) {
        if self.failed() {
            return;
        }
        let done = self.stream(cpu).and_then(|s| {
            if s.buf.len() + 10 + fields.len() > MAX_PACKET_BYTES {
                s.flush()?;
            }
            if s.buf.len() == HEAD_BYTES {
                s.head.begin = ts;
            }
            s.head.end = ts;
            s.buf.extend_from_slice(&ts.to_le_bytes());
            s.buf.extend_from_slice(&id.to_le_bytes());
            s.buf.extend_from_slice(fields);
            Ok(())
        });
        self.keep(done);
    }

    /// Events are missing between what came before and what comes: the packet ends, so that the
    /// interval is exact. How many is not known where it is 0: then a packet is missing.
    pub fn lost(&mut self, cpu: u32, begin: u64, events: u64) {
        if self.failed() {
            return;
        }
        let done = self.stream(cpu).and_then(|s| {
            s.flush()?;
            if s.head.seq == 0 {
                // Without a packet before it the loss would have no beginning.
                (s.head.begin, s.head.end) = (begin, begin);
                s.packet()?;
            }
            s.head.discarded += events;
            s.head.seq += u64::from(events == 0);
            s.untold = true;
            Ok(())
        });
        self.keep(done);
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The first that a file had.
    pub fn finish(mut self) -> io::Result<()> {
        if let Some(e) = self.failed.take() {
            return Err(e);
        }
        for stream in self.cpus.values_mut() {
            stream.flush()?;
            if stream.untold {
                stream.packet()?;
            }
        }
        Ok(())
    }
}
