// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets as they go into the file: what is interned, which tracks there are.

use super::proto::{
    self, CounterDescriptor, Data, DebugAnnotation, InternedData, InternedString, Named, ThreadDescriptor,
    TracePacket, TrackDescriptor, Value,
};
use prost::encoding::{encode_key, encode_varint, message, WireType};
use std::collections::HashMap;
use std::io::{self, Write};

/// Texts that are kept interned; beyond, each comes as it is. It bounds memory where every value differs.
const MOST_TEXTS: usize = 1 << 16;

/// Who wrote a packet. Interned numbers are a sequence's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sequence {
    /// Clocks, machine, processes, ftrace's events.
    System = 1,
    /// Tracks and what is on them.
    Tracks = 2,
    Samples = 3,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Key {
    Named(String),
    /// A thread's: process and thread.
    Thread(u32, u32),
    /// Below another: its name, and which of those of one name. The page shows them as one.
    Below(u64, String, u32),
}

/// Numbers of tracks begin here.
const TRACKS: u64 = 0x706c_756d_0000_0001;

/// Numbers of texts, from 1.
#[derive(Debug, Default)]
struct Numbers(HashMap<String, u64>);

impl Numbers {
    /// The text's number, and whether it is new; none where there are too many.
    fn of(&mut self, text: &str) -> Option<(u64, bool)> {
        if let Some(iid) = self.0.get(text) {
            return Some((*iid, false));
        }
        if self.0.len() >= MOST_TEXTS {
            return None;
        }
        let iid = self.0.len() as u64 + 1;
        self.0.insert(text.into(), iid);
        Some((iid, true))
    }
}

/// A slice, moment or counter value before its words have numbers.
#[derive(Debug, Default)]
pub struct Event<'a> {
    pub track: u64,
    /// Type of [`proto`]'s constants.
    pub kind: i32,
    /// Name; empty for the end of a slice and for counters.
    pub name: &'a str,
    /// Category; empty as the name.
    pub category: &'static str,
    pub args: Vec<(&'static str, Arg)>,
    pub flow: Option<u64>,
    /// Arrow that ends in it.
    pub ends: Option<u64>,
    pub value: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Arg {
    Uint(u64),
    /// A number that may be below 0.
    Int(i64),
    /// A share or factor.
    Double(f64),
    /// A text that many events may have.
    Word(String),
    /// A text that comes once.
    Text(String),
}

#[derive(Debug)]
pub struct Packets<W> {
    out: W,
    buf: Vec<u8>,
    /// The first error; nothing is written behind it.
    failed: Option<io::Error>,
    names: Numbers,
    categories: Numbers,
    arg_names: Numbers,
    words: Numbers,
    tracks: HashMap<Key, u64>,
    pub packets: u64,
}

impl<W: Write> Packets<W> {
    pub fn new(out: W) -> Self {
        Self {
            out,
            buf: Vec::new(),
            failed: None,
            names: Numbers::default(),
            categories: Numbers::default(),
            arg_names: Numbers::default(),
            words: Numbers::default(),
            tracks: HashMap::new(),
            packets: 0,
        }
    }

    /// Everything is with the writer.
    ///
    /// # Errors
    /// The first that the writer had.
    pub fn finish(mut self) -> io::Result<W> {
        match self.failed.take() {
            Some(e) => Err(e),
            None => self.out.flush().map(|()| self.out),
        }
    }

    /// Whether the writer had an error, so that going on is of no use.
    pub fn failed(&self) -> bool {
        self.failed.is_some()
    }

    fn write_out(&mut self) {
        self.packets += 1;
        if self.failed.is_none() {
            self.failed = self.out.write_all(&self.buf).err();
        }
        self.buf.clear();
    }

    pub fn packet(&mut self, sequence: Sequence, timestamp: Option<u64>, data: Data) {
        self.whole(TracePacket {
            timestamp,
            trusted_packet_sequence_id: Some(sequence as u32),
            sequence_flags: (sequence != Sequence::System).then_some(proto::NEEDS_INCREMENTAL_STATE),
            data: Some(data),
            ..TracePacket::default()
        });
    }

    /// Writes a packet that is complete.
    pub fn whole(&mut self, packet: TracePacket) {
        message::encode(1, &packet, &mut self.buf);
        self.write_out();
    }

    /// Writes a packet with a bundle of ftrace's events that are encoded already.
    pub fn bundle(&mut self, bundle: &[u8]) {
        let mut packet = Vec::with_capacity(16);
        encode_key(10, WireType::Varint, &mut packet);
        encode_varint(Sequence::System as u64, &mut packet);
        encode_key(1, WireType::LengthDelimited, &mut packet);
        encode_varint(bundle.len() as u64, &mut packet);
        encode_key(1, WireType::LengthDelimited, &mut self.buf);
        encode_varint((packet.len() + bundle.len()) as u64, &mut self.buf);
        self.buf.extend_from_slice(&packet);
        self.buf.extend_from_slice(bundle);
        self.write_out();
    }

    /// Number of a track; its descriptor is written the first time that it is asked for, with the time
    /// of what is on it: a thread's number means who has it then.
    fn track(&mut self, ts: u64, key: Key, descriptor: impl FnOnce(&mut Self) -> TrackDescriptor) -> u64 {
        if let Some(uuid) = self.tracks.get(&key) {
            return *uuid;
        }
        let described = descriptor(self);
        // Not 0, which is everybody's own track; and far from what others count up from.
        let uuid = TRACKS + self.tracks.len() as u64;
        self.tracks.insert(key, uuid);
        let track = TrackDescriptor { uuid: Some(uuid), ..described };
        self.packet(Sequence::Tracks, Some(ts), Data::TrackDescriptor(track));
        uuid
    }

    /// A track at the top.
    pub fn top(&mut self, ts: u64, name: &str) -> u64 {
        self.track(ts, Key::Named(name.into()), |_| TrackDescriptor {
            name: Some(name.into()),
            ..Default::default()
        })
    }

    /// The track of a thread, on which others lie.
    pub fn thread(&mut self, ts: u64, pid: u32, tid: u32) -> u64 {
        let thread = ThreadDescriptor { pid: Some(pid as i32), tid: Some(tid.into()) };
        self.track(ts, Key::Thread(pid, tid), |_| TrackDescriptor {
            thread: Some(thread),
            ..Default::default()
        })
    }

    pub fn below(&mut self, ts: u64, parent: u64, name: &str, lane: u32) -> u64 {
        self.track(ts, Key::Below(parent, name.into(), lane), |_| TrackDescriptor {
            parent_uuid: Some(parent),
            name: Some(name.into()),
            ..Default::default()
        })
    }

    /// A counter's track below another.
    pub fn counter(&mut self, ts: u64, parent: u64, name: &str, unit: &str) -> u64 {
        self.track(ts, Key::Below(parent, name.into(), 0), |_| TrackDescriptor {
            parent_uuid: Some(parent),
            name: Some(name.into()),
            counter: Some(CounterDescriptor { unit_name: Some(unit.into()) }),
            ..Default::default()
        })
    }

    /// Writes something on a track, at `ts` (ns, CLOCK_MONOTONIC).
    pub fn event(&mut self, ts: u64, event: Event<'_>) {
        let mut new = InternedData::default();
        let named = |iid, name: &str| Named { iid, name: name.into() };
        let mut name_iid = None;
        if !event.name.is_empty() {
            // Names of slices are few: categories, operations, layers, findings.
            if let Some((iid, fresh)) = self.names.of(event.name) {
                name_iid = Some(iid);
                if fresh {
                    new.event_names.push(named(iid, event.name));
                }
            }
        }
        let mut category_iids = Vec::new();
        if !event.category.is_empty() {
            if let Some((iid, fresh)) = self.categories.of(event.category) {
                category_iids.push(iid);
                if fresh {
                    new.event_categories.push(named(iid, event.category));
                }
            }
        }
        let mut debug_annotations = Vec::with_capacity(event.args.len());
        for (name, value) in event.args {
            let Some((iid, fresh)) = self.arg_names.of(name) else { continue };
            if fresh {
                new.debug_annotation_names.push(named(iid, name));
            }
            let value = match value {
                Arg::Uint(n) => Value::Uint(n),
                Arg::Int(n) => Value::Int(n),
                Arg::Double(x) => Value::Double(x),
                Arg::Text(text) => Value::Text(text),
                Arg::Word(text) => match self.words.of(&text) {
                    None => Value::Text(text),
                    Some((iid, fresh)) => {
                        if fresh {
                            let str = text.into_bytes();
                            new.debug_annotation_string_values.push(InternedString { iid, str });
                        }
                        Value::Iid(iid)
                    }
                },
            };
            debug_annotations.push(DebugAnnotation { name_iid: iid, value: Some(value) });
        }
        let some_new = new != InternedData::default();
        let data = proto::TrackEvent {
            category_iids,
            debug_annotations,
            r#type: Some(event.kind),
            name_iid,
            track_uuid: Some(event.track),
            counter_value: event.value,
            flow_ids: event.flow.into_iter().collect(),
            terminating_flow_ids: event.ends.into_iter().collect(),
        };
        self.whole(TracePacket {
            timestamp: Some(ts),
            trusted_packet_sequence_id: Some(Sequence::Tracks as u32),
            sequence_flags: Some(proto::NEEDS_INCREMENTAL_STATE),
            interned_data: some_new.then(|| Box::new(new)),
            data: Some(Data::TrackEvent(data)),
            ..TracePacket::default()
        });
    }

    /// Writes a slice from `from` to `to`; those of one track must nest and come in the order of time.
    pub fn slice(&mut self, from: u64, to: u64, event: Event<'_>) {
        let track = event.track;
        self.event(from, Event { kind: proto::SLICE_BEGIN, ..event });
        self.end(to, track);
    }

    /// Ends the innermost slice of a track.
    pub fn end(&mut self, ts: u64, track: u64) {
        self.event(ts, Event { track, kind: proto::SLICE_END, ..Event::default() });
    }
}
