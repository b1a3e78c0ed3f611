// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Places in the files of a trace: packets checked one by one, records in order.

use super::{Damage, Gap, Operation, RawRecord};
use crate::calls::Translation;
use crate::ctf::{PacketHead, HEAD_BYTES, MAX_PACKET_BYTES, STREAM_CPU, STREAM_LOAD};
use crate::event::{Origin, Record};
use crate::schema::{LoadBegin, LoadEnd, EVENTS};
use crate::writer::{Stream, CONT_ID};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The packets of one file, one after the other.
pub(super) struct Packets {
    pub(super) file: File,
    pub(super) name: String,
    pub(super) offset: u64,
    /// How far the file may be read; its writer may be at what follows.
    pub(super) limit: u64,
    pub(super) buf: Vec<u8>,
    pub(super) damage: Vec<Damage>,
}

impl Packets {
    pub(super) fn open(dir: &Path, stream: Stream) -> io::Result<Self> {
        let name = stream.file_name();
        Ok(Self {
            file: File::open(dir.join(&name))?,
            name,
            offset: 0,
            limit: u64::MAX,
            buf: vec![0; MAX_PACKET_BYTES],
            damage: Vec::new(),
        })
    }

    pub(super) fn damaged(&mut self, what: &str) {
        self.damage.push(Damage { file: self.name.clone(), offset: self.offset, what: what.into() });
    }

    /// Reads the next packet into `buf`; `None` at the end or where the file is damaged, and from then on.
    pub(super) fn next(&mut self) -> Option<PacketHead> {
        if self.offset >= self.limit {
            return None;
        }
        let head = self.read();
        if head.is_none() {
            // Asked again before each run of records, it would read, and tell of the damage, each time.
            self.limit = self.offset;
        }
        head
    }

    fn read(&mut self) -> Option<PacketHead> {
        let got = match read_at_most(&self.file, &mut self.buf[..MAX_PACKET_BYTES], self.offset) {
            Ok(0) => return None,
            Ok(n) => n,
            Err(e) => {
                self.damaged(&e.to_string());
                return None;
            }
        };
        let head = match PacketHead::decode(&self.buf[..got]) {
            Ok(head) => head,
            Err(what) => {
                self.damaged(what);
                return None;
            }
        };
        let size = head.size as usize;
        if got < size {
            // Asked before memory is: a head of 64 bytes may say that 1 GiB follows.
            let whole = self.offset + head.size <= self.file.metadata().map_or(0, |m| m.len());
            if !whole {
                self.damaged("packet cut off");
                return None;
            }
            // Only a state event may need more than a packet's usual length.
            self.buf.resize(size.max(MAX_PACKET_BYTES), 0);
            if !matches!(read_at_most(&self.file, &mut self.buf[..size], self.offset), Ok(n) if n == size) {
                self.buf.resize(MAX_PACKET_BYTES, 0);
                self.damaged("packet cut off");
                return None;
            }
        }
        self.offset += head.size;
        Some(head)
    }
}

fn read_at_most(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut got = 0;
    while got < buf.len() {
        match file.read_at(&mut buf[got..], offset + got as u64) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}

/// Sizes of records by id; 0 where there is no such event.
pub(super) type Sizes = [u8; 512];

/// Sizes of the records that one origin writes.
pub(super) fn sizes(load: bool) -> Box<Sizes> {
    let mut sizes = Box::new([0; 512]);
    for e in EVENTS.iter().filter(|e| e.origin != Origin::Recorder && (e.origin == Origin::Load) == load) {
        sizes[usize::from(e.id)] = e.size as u8;
    }
    sizes
}

/// A place in a stream of records: a CPU's, or that of a workload's thread.
pub(super) struct Cursor {
    pub(super) packets: Packets,
    sizes: Box<Sizes>,
    /// Class of the stream.
    class: u32,
    /// CPU, or number of the thread in its workload.
    pub(super) number: u32,
    pub(super) pos: usize,
    pub(super) content: usize,
    last_end: u64,
    discarded: u64,
    /// Missing events before the next record; `cpu` is [`Cursor::number`].
    pub(super) gap: Option<Gap>,
    /// Set where the file's rest is unreadable, so that the silence has an interval.
    broken: bool,
    /// Thread of the last record; a workload's stream has only one. 0 before.
    pub(super) tid: u32,
    /// Of a machine whose system calls have other numbers.
    calls: Option<Translation>,
}

impl Cursor {
    /// Whether every item that may be read was handed out.
    pub(super) fn is_done(&self) -> bool {
        self.gap.is_none() && self.pos >= self.content
    }

    /// A place in a stream of records, of the machine that uname(2) names so.
    pub(super) fn of(packets: Packets, stream: Stream, machine: &str) -> Self {
        let (class, number, load) = match stream {
            Stream::Load { worker, .. } => (STREAM_LOAD, worker, true),
            Stream::Cpu(n) => (STREAM_CPU, n, false),
            // Not a stream of records: each of its packets is of another.
            Stream::State | Stream::Waits => (u32::MAX, 0, false),
        };
        Self {
            packets,
            sizes: sizes(load),
            class,
            number,
            pos: 0,
            content: 0,
            last_end: 0,
            discarded: 0,
            gap: None,
            broken: false,
            tid: 0,
            calls: Translation::of(machine),
        }
    }

    /// Whether a workload's thread wrote it.
    pub(super) fn is_load(&self) -> bool {
        self.class == STREAM_LOAD
    }

    pub(super) fn advance_packet(&mut self) {
        (self.pos, self.content) = (0, 0);
        // Where the first packet that is left out since the last good one begins.
        let mut left_out = None;
        loop {
            let Some(head) = self.packets.next() else {
                if !self.packets.damage.is_empty() && !self.broken {
                    self.broken = true;
                    let begin = left_out.unwrap_or(self.last_end);
                    self.gap = Some(Gap { cpu: self.number, begin, end: u64::MAX, lost: 0 });
                }
                return;
            };
            if head.stream_id != self.class || head.cpu != self.number || head.begin < self.last_end {
                self.packets.damaged("packet of another stream, or time goes back");
                continue;
            }
            let content = head.content as usize;
            if !self.check(content, head) {
                self.packets.damaged("packet with an unknown or damaged record; left out");
                let begin = *left_out.get_or_insert(self.last_end);
                self.gap = Some(Gap { cpu: self.number, begin, end: head.end, lost: 0 });
                self.discarded = self.discarded.max(head.discarded);
                self.last_end = head.end;
                continue;
            }
            if head.discarded > self.discarded {
                let lost = head.discarded - self.discarded;
                let begin = left_out.unwrap_or(self.last_end.min(head.begin));
                self.gap = Some(Gap { cpu: self.number, begin, end: head.begin, lost });
            }
            self.discarded = head.discarded;
            self.last_end = head.end;
            (self.pos, self.content) = (HEAD_BYTES, content);
            self.translate();
            if content > HEAD_BYTES {
                return;
            }
        }
    }

    /// Whether every record of the packet is one of the schema, in the order of time.
    fn check(&self, content: usize, head: PacketHead) -> bool {
        let buf = &self.packets.buf;
        let (mut pos, mut last) = (HEAD_BYTES, head.begin);
        while pos < content {
            if pos + 32 > content {
                return false;
            }
            let ts = u64_at(buf, pos);
            let id = u16::from_le_bytes([buf[pos + 8], buf[pos + 9]]);
            let size = usize::from(*self.sizes.get(usize::from(id)).unwrap_or(&0));
            if size == 0 || pos + size > content || ts < last || ts > head.end {
                return false;
            }
            if size == 64 && u16::from_le_bytes([buf[pos + 40], buf[pos + 41]]) != CONT_ID {
                return false;
            }
            (pos, last) = (pos + size, ts);
        }
        true
    }

    /// Gives the packet's system calls the numbers that readers know.
    fn translate(&mut self) {
        let Some(calls) = &self.calls else { return };
        let mut rest = &mut self.packets.buf[self.pos..self.content];
        while rest.len() > 8 {
            let id = u16::from_le_bytes([rest[8], rest[9]]);
            let (record, behind) = rest.split_at_mut(usize::from(self.sizes[usize::from(id)]));
            calls.apply(id, record);
            rest = behind;
        }
    }

    pub(super) fn next_ts(&self) -> Option<u64> {
        if let Some(gap) = self.gap {
            return Some(gap.begin);
        }
        (self.pos < self.content).then(|| u64_at(&self.packets.buf, self.pos))
    }

    pub(super) fn peek(&self) -> Option<RawRecord<'_>> {
        let bytes = self.packets.buf.get(self.pos..self.content).filter(|b| !b.is_empty())?;
        Some(RawRecord::at(bytes, self.number, &self.sizes))
    }

    /// Goes over the packet's records up to a moment.
    pub(super) fn run(&mut self, limit: u64) -> Run {
        let mut run = Run { from: self.pos, to: self.pos, records: 0, last: 0 };
        while run.to < self.content {
            let ts = u64_at(&self.packets.buf, run.to);
            if ts > limit {
                break;
            }
            let id = u16::from_le_bytes([self.packets.buf[run.to + 8], self.packets.buf[run.to + 9]]);
            run.to += usize::from(self.sizes[usize::from(id)]);
            (run.records, run.last) = (run.records + 1, ts);
        }
        self.pos = run.to;
        run
    }

    /// The records of a run.
    pub(super) fn bytes(&self, run: &Run) -> &[u8] {
        &self.packets.buf[run.from..run.to]
    }
}

/// Records of a packet, one behind the other.
pub(super) struct Run {
    from: usize,
    to: usize,
    pub(super) records: u64,
    /// Time of the last one, ns.
    pub(super) last: u64,
}

impl<'a> RawRecord<'a> {
    /// The record at the beginning of `bytes`, which were checked.
    #[inline]
    pub(super) fn at(bytes: &'a [u8], cpu: u32, sizes: &Sizes) -> Self {
        let id = u16::from_le_bytes([bytes[8], bytes[9]]);
        Self {
            ts: u64_at(bytes, 0),
            id,
            cpu,
            tid: u32::from_le_bytes(bytes[12..16].try_into().expect("four bytes")),
            bytes: &bytes[..usize::from(sizes[usize::from(id)])],
        }
    }
}

impl RawRecord<'_> {
    /// The record as what a workload's thread told; `None` for another's.
    pub(super) fn operation(&self) -> Option<Operation> {
        match self.id {
            LoadBegin::ID => Some(Operation::Begin(LoadBegin::read(self.bytes))),
            LoadEnd::ID => Some(Operation::End(LoadEnd::read(self.bytes))),
            _ => None,
        }
    }
}

fn u64_at(buf: &[u8], pos: usize) -> u64 {
    u64::from_le_bytes(buf[pos..pos + 8].try_into().expect("eight bytes"))
}
