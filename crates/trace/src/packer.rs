// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From events to packets, one stream at a time.

use crate::ctf::{PacketHead, HEAD_BYTES, MAX_PACKET_BYTES, STREAM_CPU, STREAM_LOAD, STREAM_STATE};
use crate::event::{Encode, StateEvent};
use crate::writer::{Sink, Stream, CONT_ID};
use std::io;

/// Collects the events of one stream into packets.
#[derive(Debug)]
pub(crate) struct Packer {
    stream: Stream,
    buf: Vec<u8>,
    begin: u64,
    end: u64,
    /// End of the packet before; time may not go back behind it.
    floor: u64,
    seq: u64,
    discarded: u64,
    /// Of those, told in packets that are with the sink.
    told: u64,
    clamped: u64,
}

impl Packer {
    /// Nothing collected yet.
    pub(crate) fn new(stream: Stream) -> Self {
        let mut buf = Vec::with_capacity(MAX_PACKET_BYTES);
        buf.resize(HEAD_BYTES, 0);
        Self { stream, buf, begin: 0, end: 0, floor: 0, seq: 0, discarded: 0, told: 0, clamped: 0 }
    }

    /// Bytes of the packet so far, its head included.
    pub(crate) fn len(&self) -> usize {
        self.buf.len()
    }

    /// Time of the packet's first event, ns.
    pub(crate) fn begin(&self) -> u64 {
        self.begin
    }

    /// Whether no packet was made yet.
    pub(crate) fn is_new(&self) -> bool {
        self.seq == 0
    }

    /// Events lost since the stream's begin.
    pub(crate) fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Records whose time was moved forward to the end of the packet before.
    pub(crate) fn clamped(&self) -> u64 {
        self.clamped
    }

    /// Events were lost behind the last packet.
    pub(crate) fn lose(&mut self, events: u64) {
        self.discarded += events;
    }

    /// The packet with so many events, made last, did not reach its sink.
    pub(crate) fn was_lost(&mut self, events: u64) {
        self.seq -= 1;
        self.discarded += events;
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
    pub(crate) fn record(&mut self, record: &[u8]) {
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

    /// Appends a state event; it gets a packet of its own where it is too long for this one.
    pub(crate) fn state<E: StateEvent>(&mut self, sink: &mut dyn Sink, ts: u64, event: &E) -> io::Result<()> {
        let ts = ts.max(self.end).max(self.floor);
        let mut bytes = Vec::new();
        ts.put(&mut bytes);
        E::ID.put(&mut bytes);
        event.encode(&mut bytes);
        if self.buf.len() + bytes.len() > MAX_PACKET_BYTES {
            self.flush(sink)?;
        }
        self.note(ts);
        self.buf.extend_from_slice(&bytes);
        Ok(())
    }

    /// Closes the packet, unless it is empty.
    pub(crate) fn flush(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        self.packet(sink)
    }

    /// A packet without events: where a stream begins with a loss, it gives the
    /// loss a beginning.
    pub(crate) fn open_at(&mut self, ts: u64, sink: &mut dyn Sink) -> io::Result<()> {
        (self.begin, self.end) = (ts, ts);
        self.packet(sink)
    }

    /// A packet without events behind a loss that no packet has told yet.
    pub(crate) fn tell_loss(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        if self.discarded == self.told {
            return Ok(());
        }
        self.open_at(self.floor, sink)
    }

    fn packet(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        let len = self.buf.len() as u64;
        let (stream_id, cpu) = match self.stream {
            Stream::Cpu(n) => (STREAM_CPU, n),
            Stream::Load { worker, .. } => (STREAM_LOAD, worker),
            Stream::State | Stream::Waits => (STREAM_STATE, 0),
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
        if result.is_ok() {
            self.told = self.discarded;
        }
        result
    }
}

fn ts_of(record: &[u8]) -> u64 {
    u64::from_le_bytes(record[..8].try_into().expect("eight bytes"))
}
