// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes a trace: records go in as the kernel made them, packets come out,
//! and a sink decides where they stay (a directory, memory, later a network).

use crate::ctf::{Metadata, PacketHead, HEAD_BYTES, MAX_PACKET_BYTES, STREAM_CPU, STREAM_STATE};
use crate::event::{Encode, StateEvent};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Id that marks the second half of a 64-byte record (PLUMB_CONT_ID).
pub const CONT_ID: u16 = 0xffff;

/// One file of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    /// Records of one CPU.
    Cpu(u32),
    /// What holds for the whole trace: tasks, disks, stacks, the end.
    State,
    /// Which stack each long wait had; grows with the trace, so it is read as it goes.
    Waits,
}

impl Stream {
    /// File name inside the trace directory.
    pub fn file_name(self) -> String {
        match self {
            Stream::Cpu(n) => format!("cpu_{n}"),
            Stream::State => "state".into(),
            Stream::Waits => "waits".into(),
        }
    }
}

/// Where packets go.
pub trait Sink {
    /// Takes one finished packet.
    ///
    /// # Errors
    /// The packet could not be kept; what was kept before stays readable.
    fn packet(&mut self, stream: Stream, packet: &[u8]) -> io::Result<()>;

    /// Makes what it kept last.
    ///
    /// # Errors
    /// As [`Sink::packet`].
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps packets in files of a directory.
#[derive(Debug)]
pub struct DirectorySink {
    dir: PathBuf,
    files: BTreeMap<Stream, (File, u64)>,
}

impl DirectorySink {
    /// Makes the directory and writes the metadata file.
    ///
    /// # Errors
    /// The directory holds a trace already, or cannot be written.
    pub fn create(dir: &Path, metadata: &Metadata) -> io::Result<Self> {
        std::fs::create_dir_all(dir).map_err(|e| named(dir, e))?;
        let path = dir.join("metadata");
        let mut file =
            File::options().write(true).create_new(true).open(&path).map_err(|e| named(&path, e))?;
        file.write_all(metadata.encode().as_bytes()).map_err(|e| named(&path, e))?;
        Ok(Self { dir: dir.into(), files: BTreeMap::new() })
    }
}

fn named(path: &Path, e: io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{}: {e}", path.display()))
}

impl Sink for DirectorySink {
    fn packet(&mut self, stream: Stream, packet: &[u8]) -> io::Result<()> {
        let path = self.dir.join(stream.file_name());
        let (file, good) = match self.files.entry(stream) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(new) => new.insert((File::create(&path).map_err(|e| named(&path, e))?, 0)),
        };
        match file.write_all(packet) {
            Ok(()) => {
                *good += packet.len() as u64;
                Ok(())
            }
            Err(e) => {
                // A torn packet would make other readers refuse the whole file.
                let _ = file.set_len(*good);
                Err(named(&path, e))
            }
        }
    }
}

/// Keeps the packets of the last while in memory, for a flight recorder.
#[derive(Debug)]
pub struct KeepSink {
    keep: u64,
    limit: usize,
    held: usize,
    packets: VecDeque<(Stream, PacketHead, Vec<u8>)>,
    newest: u64,
    dropped: u64,
}

impl KeepSink {
    /// Keeps at least `keep` ns, unless that takes more than `limit` bytes.
    pub fn new(keep: u64, limit: usize) -> Self {
        Self { keep, limit, held: 0, packets: VecDeque::new(), newest: 0, dropped: 0 }
    }

    /// Packets that left because memory was full though they were young enough.
    pub fn dropped_early(&self) -> u64 {
        self.dropped
    }

    fn trim(&mut self) {
        loop {
            let Some(i) = self.packets.iter().position(|(s, ..)| *s != Stream::State) else { return };
            let (_, head, bytes) = &self.packets[i];
            let old = head.end + self.keep < self.newest;
            if !old && self.held <= self.limit {
                return;
            }
            self.dropped += u64::from(!old);
            self.held -= bytes.len();
            self.packets.remove(i);
        }
    }

    /// Writes what is kept into `sink`, numbered from its own beginning.
    ///
    /// # Errors
    /// As the sink.
    pub fn dump(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        let mut first: BTreeMap<Stream, (u64, u64)> = BTreeMap::new();
        for (stream, head, mut bytes) in std::mem::take(&mut self.packets) {
            let (seq, base) = first.entry(stream).or_insert((0, head.discarded));
            let head = PacketHead { seq: *seq, discarded: head.discarded - *base, ..head };
            *seq += 1;
            bytes[..HEAD_BYTES].copy_from_slice(&head.encode());
            sink.packet(stream, &bytes)?;
        }
        sink.finish()
    }
}

impl Sink for KeepSink {
    fn packet(&mut self, stream: Stream, packet: &[u8]) -> io::Result<()> {
        let head = PacketHead::decode(packet).map_err(io::Error::other)?;
        self.newest = self.newest.max(head.end);
        self.held += packet.len();
        self.packets.push_back((stream, head, packet.to_vec()));
        self.trim();
        Ok(())
    }
}

/// Collects the events of one stream into packets.
#[derive(Debug)]
struct Packer {
    stream: Stream,
    buf: Vec<u8>,
    begin: u64,
    end: u64,
    /// End of the packet before; time may not go back behind it.
    floor: u64,
    seq: u64,
    discarded: u64,
    clamped: u64,
}

impl Packer {
    fn new(stream: Stream) -> Self {
        let mut buf = Vec::with_capacity(MAX_PACKET_BYTES);
        buf.resize(HEAD_BYTES, 0);
        Self { stream, buf, begin: 0, end: 0, floor: 0, seq: 0, discarded: 0, clamped: 0 }
    }

    fn is_empty(&self) -> bool {
        self.buf.len() == HEAD_BYTES
    }

    fn note(&mut self, ts: u64) {
        self.begin = if self.is_empty() { ts } else { self.begin.min(ts) };
        self.end = if self.is_empty() { ts } else { self.end.max(ts) };
    }

    /// Appends a record, or sets it where its time belongs: an interrupt may
    /// take its slot before the record that it interrupted.
    fn record(&mut self, record: &[u8]) {
        let mut ts = ts_of(record);
        let mut at = self.buf.len();
        if ts < self.end && !self.is_empty() {
            while at > HEAD_BYTES {
                let mut before = at - 32;
                if u16::from_le_bytes([self.buf[before + 8], self.buf[before + 9]]) == CONT_ID {
                    before -= 32;
                }
                if ts_of(&self.buf[before..]) <= ts {
                    break;
                }
                at = before;
            }
        }
        self.clamped += u64::from(ts < self.floor);
        ts = ts.max(self.floor);
        self.note(ts);
        if at == self.buf.len() {
            self.buf.extend_from_slice(record);
        } else {
            self.buf.splice(at..at, record.iter().copied());
        }
        self.buf[at..at + 8].copy_from_slice(&ts.to_le_bytes());
    }

    fn flush(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        self.packet(sink)
    }

    /// A packet without events: where a stream begins with a loss, it gives the
    /// loss a beginning.
    fn open_at(&mut self, ts: u64, sink: &mut dyn Sink) -> io::Result<()> {
        (self.begin, self.end) = (ts, ts);
        self.packet(sink)
    }

    fn packet(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        let len = self.buf.len() as u64;
        let (stream_id, cpu) = match self.stream {
            Stream::Cpu(n) => (STREAM_CPU, n),
            _ => (STREAM_STATE, 0),
        };
        let head = PacketHead {
            stream_id,
            begin: self.begin,
            end: self.end,
            content: len,
            size: len,
            seq: self.seq,
            discarded: self.discarded,
            cpu,
        };
        self.buf[..HEAD_BYTES].copy_from_slice(&head.encode());
        let result = sink.packet(self.stream, &self.buf);
        self.buf.truncate(HEAD_BYTES);
        self.floor = self.end;
        self.seq += 1;
        result
    }
}

fn ts_of(record: &[u8]) -> u64 {
    u64::from_le_bytes(record[..8].try_into().expect("eight bytes"))
}

/// Writes the streams of one trace.
pub struct TraceWriter<S: Sink> {
    sink: S,
    cpus: Vec<Packer>,
    state: Packer,
    waits: Packer,
    records: u64,
    state_events: u64,
    begin: u64,
}

impl<S: Sink> TraceWriter<S> {
    /// A writer for CPUs `0..cpus`; no event is older than `begin`, ns.
    pub fn new(sink: S, cpus: u32, begin: u64) -> Self {
        Self {
            begin,
            sink,
            cpus: (0..cpus).map(|n| Packer::new(Stream::Cpu(n))).collect(),
            state: Packer::new(Stream::State),
            waits: Packer::new(Stream::Waits),
            records: 0,
            state_events: 0,
        }
    }

    /// Appends one 32- or 64-byte record of a CPU.
    ///
    /// # Errors
    /// The sink's.
    pub fn record(&mut self, cpu: u32, record: &[u8]) -> io::Result<()> {
        let packer = &mut self.cpus[cpu as usize];
        if packer.buf.len() + record.len() > MAX_PACKET_BYTES {
            packer.flush(&mut self.sink)?;
        }
        packer.record(record);
        self.records += 1;
        Ok(())
    }

    /// Notes that `events` of a CPU were lost between what was appended before
    /// and what comes next. The packet ends here, so that the interval is exact.
    ///
    /// # Errors
    /// The sink's.
    pub fn lost(&mut self, cpu: u32, events: u64) -> io::Result<()> {
        let packer = &mut self.cpus[cpu as usize];
        packer.flush(&mut self.sink)?;
        if packer.seq == 0 {
            packer.open_at(self.begin, &mut self.sink)?;
        }
        packer.discarded += events;
        Ok(())
    }

    /// Appends what holds for the whole trace, at time `ts` (ns).
    ///
    /// # Errors
    /// The sink's.
    pub fn state<E: StateEvent>(&mut self, ts: u64, event: &E) -> io::Result<()> {
        self.state_events += 1;
        append(&mut self.state, &mut self.sink, ts, event)
    }

    /// Appends what belongs to one wait, at time `ts` (ns).
    ///
    /// # Errors
    /// The sink's.
    pub fn wait<E: StateEvent>(&mut self, ts: u64, event: &E) -> io::Result<()> {
        self.state_events += 1;
        append(&mut self.waits, &mut self.sink, ts, event)
    }

    /// Closes every open packet, so that what was appended is with the sink.
    ///
    /// # Errors
    /// The sink's.
    pub fn flush(&mut self) -> io::Result<()> {
        for packer in self.cpus.iter_mut().chain([&mut self.state, &mut self.waits]) {
            packer.flush(&mut self.sink)?;
        }
        Ok(())
    }

    /// Closes the trace and hands the sink back.
    ///
    /// # Errors
    /// The sink's.
    pub fn finish(mut self) -> io::Result<S> {
        self.flush()?;
        self.sink.finish()?;
        Ok(self.sink)
    }

    /// The sink.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// Records appended so far, without state events.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// State events appended so far.
    pub fn state_events(&self) -> u64 {
        self.state_events
    }

    /// Records whose time had to be moved forward to the end of a packet that was closed already.
    pub fn clamped(&self) -> u64 {
        self.cpus.iter().map(|p| p.clamped).sum()
    }
}

fn append<E: StateEvent>(packer: &mut Packer, sink: &mut dyn Sink, ts: u64, event: &E) -> io::Result<()> {
    let ts = ts.max(packer.end).max(packer.floor);
    let mut bytes = Vec::new();
    ts.put(&mut bytes);
    E::ID.put(&mut bytes);
    event.encode(&mut bytes);
    if packer.buf.len() + bytes.len() > MAX_PACKET_BYTES {
        packer.flush(sink)?;
    }
    packer.note(ts);
    packer.buf.extend_from_slice(&bytes);
    Ok(())
}
