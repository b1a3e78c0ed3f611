// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes a trace: records go in as the kernel made them, packets come out,
//! and a sink decides where they stay (a directory, memory, later a network).

use crate::ctf::{Metadata, PacketHead, HEAD_BYTES, MAX_PACKET_BYTES};
use crate::event::StateEvent;
use crate::packer::Packer;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
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
    /// Operations of one thread of a workload, see [`crate::load`].
    Load {
        /// Its process.
        pid: u32,
        /// Its number in the workload.
        worker: u32,
    },
}

impl Stream {
    /// File name inside the trace directory.
    pub fn file_name(self) -> String {
        match self {
            Stream::Cpu(n) => format!("cpu_{n}"),
            Stream::State => "state".into(),
            Stream::Waits => "waits".into(),
            Stream::Load { pid, worker } => format!("load_{pid}_{worker}"),
        }
    }

    /// The stream of a workload's thread that has this file name.
    pub fn load_of_file(name: &str) -> Option<Stream> {
        let (pid, worker) = name.strip_prefix("load_")?.split_once('_')?;
        Some(Stream::Load { pid: pid.parse().ok()?, worker: worker.parse().ok()? })
    }
}

/// Where packets go.
pub trait Sink {
    /// Takes one finished packet.
    ///
    /// # Errors
    /// The packet could not be kept; what was kept before stays readable.
    fn packet(&mut self, stream: Stream, packet: &[u8]) -> io::Result<()>;

    /// Bytes of each stream that are in a file, for who reads it as it grows.
    fn sizes(&self) -> Vec<(Stream, u64)> {
        Vec::new()
    }

    /// Events of packets that it could not keep, though it took them.
    fn lost(&self) -> u64 {
        0
    }

    /// Stacks and samples of such packets.
    fn stacks_lost(&self) -> u64 {
        0
    }

    /// What it could not keep, a sentence each.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Makes what it kept last.
    ///
    /// # Errors
    /// As [`Sink::packet`].
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Box<dyn Sink> {
    fn packet(&mut self, stream: Stream, packet: &[u8]) -> io::Result<()> {
        (**self).packet(stream, packet)
    }

    fn sizes(&self) -> Vec<(Stream, u64)> {
        (**self).sizes()
    }

    fn lost(&self) -> u64 {
        (**self).lost()
    }

    fn stacks_lost(&self) -> u64 {
        (**self).stacks_lost()
    }

    fn notes(&self) -> Vec<String> {
        (**self).notes()
    }

    fn finish(&mut self) -> io::Result<()> {
        (**self).finish()
    }
}

/// One file that only ever grows by whole packets.
#[derive(Debug)]
pub struct PacketFile {
    path: PathBuf,
    file: File,
    good: u64,
}

/// The whole packets at the front of a file.
#[derive(Debug, Default)]
pub struct Whole {
    /// Bytes that they take.
    pub bytes: u64,
    /// How many they are.
    pub packets: u64,
    /// Head of the last.
    pub(crate) last: PacketHead,
    /// Head of a packet behind them that is not whole, where that can be read.
    pub(crate) torn: Option<PacketHead>,
}

impl Whole {
    /// Looks through a file.
    ///
    /// # Errors
    /// Its length cannot be asked for.
    pub fn of(file: &File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let mut whole = Self::default();
        while whole.bytes < length {
            let mut head = [0; HEAD_BYTES];
            let read = file.read_exact_at(&mut head, whole.bytes);
            match read.ok().and_then(|()| PacketHead::decode(&head).ok()) {
                Some(head) if whole.bytes + head.size <= length => {
                    whole.bytes += head.size;
                    whole.packets += 1;
                    whole.last = head;
                }
                torn => {
                    whole.torn = torn;
                    break;
                }
            }
        }
        Ok(whole)
    }
}

impl PacketFile {
    /// An empty file; `path` is for errors.
    pub fn new(path: PathBuf, file: File) -> Self {
        Self { path, file, good: 0 }
    }

    /// A file that somebody wrote to who may have been killed meanwhile: it is cut back to its whole packets.
    ///
    /// # Errors
    /// It cannot be read or cut; named.
    pub fn resume(path: PathBuf, mut file: File) -> io::Result<(Self, Whole)> {
        let mut cut = || {
            let whole = Whole::of(&file)?;
            file.set_len(whole.bytes)?;
            file.seek(SeekFrom::Start(whole.bytes))?;
            Ok(whole)
        };
        let whole = cut().map_err(|e| named(&path, e))?;
        Ok((Self { path, file, good: whole.bytes }, whole))
    }

    /// Appends a packet. A torn one is cut off again: it would make other
    /// readers refuse the whole file.
    ///
    /// # Errors
    /// As write(2); named.
    pub fn append(&mut self, packet: &[u8]) -> io::Result<()> {
        match self.file.write_all(packet) {
            Ok(()) => {
                self.good += packet.len() as u64;
                Ok(())
            }
            Err(e) => {
                let _ =
                    self.file.set_len(self.good).and_then(|()| self.file.seek(SeekFrom::Start(self.good)));
                Err(named(&self.path, e))
            }
        }
    }
}

/// Keeps packets in files of a directory.
#[derive(Debug)]
pub struct DirectorySink {
    dir: PathBuf,
    files: BTreeMap<Stream, PacketFile>,
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

/// The error with the path that it is about.
pub(crate) fn named(path: &Path, e: io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{}: {e}", path.display()))
}

impl Sink for DirectorySink {
    fn sizes(&self) -> Vec<(Stream, u64)> {
        self.files.iter().map(|(stream, file)| (*stream, file.good)).collect()
    }

    fn packet(&mut self, stream: Stream, packet: &[u8]) -> io::Result<()> {
        match self.files.entry(stream) {
            Entry::Occupied(open) => open.into_mut().append(packet),
            Entry::Vacant(new) => {
                let path = self.dir.join(stream.file_name());
                let file = File::options().write(true).create_new(true).open(&path);
                let file = file.map_err(|e| named(&path, e))?;
                new.insert(PacketFile::new(path, file)).append(packet)
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
            let old = head.end.saturating_add(self.keep) < self.newest;
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
        if packer.len() + record.len() > MAX_PACKET_BYTES {
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
        if packer.is_new() {
            packer.open_at(self.begin, &mut self.sink)?;
        }
        packer.lose(events);
        Ok(())
    }

    /// Appends what holds for the whole trace, at time `ts` (ns).
    ///
    /// # Errors
    /// The sink's.
    pub fn state<E: StateEvent>(&mut self, ts: u64, event: &E) -> io::Result<()> {
        self.state_events += 1;
        self.state.state(&mut self.sink, ts, event)
    }

    /// Appends what belongs to one wait, at time `ts` (ns).
    ///
    /// # Errors
    /// The sink's.
    pub fn wait<E: StateEvent>(&mut self, ts: u64, event: &E) -> io::Result<()> {
        self.state_events += 1;
        self.waits.state(&mut self.sink, ts, event)
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
        self.cpus.iter().map(Packer::clamped).sum()
    }
}
