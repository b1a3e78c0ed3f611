// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces as a list of elements: records, events of the recorder, losses, lines of the environment. Mutants of
//! it become packets with good heads, so that they reach the model and do not end in the reader.

use crate::mutate::{number, pick, Random, EDGES};
use plumb_trace::ctf::{
    Metadata, PacketHead, HEAD_BYTES, MAX_PACKET_BYTES, STREAM_CPU, STREAM_LOAD, STREAM_STATE,
};
use plumb_trace::event::{Decode, Origin, StateEvent};
use plumb_trace::reader::Trace;
use plumb_trace::schema::{self, EVENTS};
use plumb_trace::Record;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// What an element is: below `STATE` a record of the CPU of that number.
pub type Tag = u8;
pub const STATE: Tag = 16;
pub const WAIT: Tag = 17;
pub const LOAD: Tag = 18;
pub const ENVIRONMENT: Tag = 19;
/// Above: a loss of the CPU of the rest.
pub const LOSS: Tag = 32;
const CPUS: u8 = 4;

pub type Element = (Tag, Vec<u8>);

/// Reads a list; what is cut off is shorter.
pub fn parse(mut input: &[u8]) -> Vec<Element> {
    let mut out = Vec::new();
    while let Some((head, rest)) = input.split_first_chunk::<5>() {
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let (payload, rest) = rest.split_at(length.min(rest.len()));
        out.push((head[0], payload.to_vec()));
        input = rest;
    }
    out
}

pub fn one(tag: Tag, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    out.extend((payload.len() as u32).to_le_bytes());
    out.extend(payload);
    out
}

pub fn concat(all: &[Element]) -> Vec<u8> {
    all.iter().flat_map(|(tag, payload)| one(*tag, payload)).collect()
}

/// For the minimizer.
pub fn parts(input: &[u8]) -> Vec<Vec<u8>> {
    parse(input).iter().map(|(tag, payload)| one(*tag, payload)).collect()
}

/// A directory in memory that traces are written to, one over the other.
pub struct Scratch(TempDir);

impl Scratch {
    pub fn new() -> Self {
        let shared = Path::new("/dev/shm");
        let dir = tempfile::tempdir_in(shared).or_else(|_| tempfile::tempdir());
        Self(dir.expect("a temporary directory"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path().join(name), bytes).expect("a file of the temporary directory");
    }

    /// Writes the trace that a list says, and opens it.
    pub fn open(&self, all: &[Element]) -> Option<Trace> {
        let mut metadata = Metadata::default();
        for (_, line) in all.iter().filter(|(tag, _)| *tag == ENVIRONMENT) {
            if let Some((key, value)) = String::from_utf8_lossy(line).split_once('=') {
                metadata.env.insert(key.into(), value.into());
            }
        }
        self.write("metadata", metadata.encode().as_bytes());
        for cpu in 0..CPUS {
            self.write(&format!("cpu_{cpu}"), &records(all, cpu));
        }
        self.write("load_1_0", &records(all, LOAD));
        self.write("state", &told(all, STATE));
        self.write("waits", &told(all, WAIT));
        Trace::open(self.path()).ok()
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn id(record: &[u8]) -> u16 {
    record.get(8..10).and_then(|b| b.try_into().ok()).map_or(0, u16::from_le_bytes)
}

fn packet(head: PacketHead, content: &[u8], out: &mut Vec<u8>) {
    let size = (HEAD_BYTES + content.len()) as u64;
    out.extend(PacketHead { content: size, size, ..head }.encode());
    out.extend(content);
}

/// Packets of a stream of records: in the order of time, a new one behind each loss.
fn records(all: &[Element], tag: Tag) -> Vec<u8> {
    let origin = if tag == LOAD { Origin::Load } else { Origin::Kernel };
    // A loss has the time of the record before it.
    let (mut last, mut list) = (0, Vec::new());
    for (t, payload) in all {
        if *t == LOSS + tag && tag != LOAD {
            list.push((last, Err(u64_at(payload, 0))));
        } else if let Some(e) = EVENTS.iter().find(|e| *t == tag && e.origin == origin && e.id == id(payload))
        {
            let mut record = payload.clone();
            record.resize(e.size, 0);
            if e.size == 64 {
                record[40..42].copy_from_slice(&0xffff_u16.to_le_bytes());
            }
            last = u64_at(&record, 0);
            list.push((last, Ok(record)));
        }
    }
    list.sort_by_key(|(ts, _)| *ts);
    let (class, cpu) = if tag == LOAD { (STREAM_LOAD, 0) } else { (STREAM_CPU, u32::from(tag)) };
    let mut head = PacketHead { stream_id: class, cpu, ..PacketHead::default() };
    let (mut out, mut content) = (Vec::new(), Vec::new());
    for (ts, what) in list {
        if content.len() + HEAD_BYTES + 64 > MAX_PACKET_BYTES || (what.is_err() && !content.is_empty()) {
            packet(head, &content, &mut out);
            content.clear();
        }
        match what {
            Err(lost) => head.discarded = head.discarded.saturating_add(lost),
            Ok(record) => {
                if content.is_empty() {
                    head.begin = ts;
                }
                head.end = ts;
                content.extend(record);
            }
        }
    }
    if !content.is_empty() {
        packet(head, &content, &mut out);
    }
    out
}

/// Packets of what the recorder tells, one for each event: one that cannot be read hides no other.
fn told(all: &[Element], tag: Tag) -> Vec<u8> {
    let mut out = Vec::new();
    for (_, payload) in all.iter().filter(|(t, _)| *t == tag) {
        let ts = u64_at(payload, 0);
        packet(
            PacketHead { stream_id: STREAM_STATE, begin: ts, end: ts, ..PacketHead::default() },
            payload,
            &mut out,
        );
    }
    out
}

/// Contents of the packets of a file.
fn contents(path: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(path).unwrap_or_default();
    let (mut rest, mut out) = (&bytes[..], Vec::new());
    while let Ok(head) = PacketHead::decode(rest) {
        out.push(rest[HEAD_BYTES..head.content as usize].to_vec());
        rest = &rest[head.size as usize..];
    }
    out
}

macro_rules! skip {
    ($id:expr, $input:expr, $($event:ident),*) => {
        match $id {
            $(schema::$event::ID => schema::$event::decode($input).is_some(),)*
            _ => false,
        }
    };
}

/// The events of one packet of the recorder, one by one.
fn events(content: &[u8]) -> Vec<Vec<u8>> {
    let (mut rest, mut out) = (content, Vec::new());
    while !rest.is_empty() {
        let before = rest;
        let Some(id) = u64::take(&mut rest).and_then(|_| u16::take(&mut rest)) else { break };
        let known = skip!(
            id,
            &mut rest,
            StateTask,
            StateDisk,
            StateMount,
            StateClock,
            StateStack,
            StateWaitStack,
            StateProbe,
            StateEnd,
            StateWakerStack,
            StateSample,
            StateCounter,
            StateSymbol,
            StateFile,
            StateModule,
            StateUserStack,
            StateCpuSample,
            StateFunction,
            StateSymbols,
            StateCode,
            StateSocket,
            StateOpen
        );
        if !known {
            break;
        }
        out.push(before[..before.len() - rest.len()].to_vec());
    }
    out
}

/// The traces of `tests/traces`.
pub fn traces() -> Vec<PathBuf> {
    let dir = crate::root().join("tests/traces");
    let mut all: Vec<PathBuf> = fs::read_dir(&dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.join("metadata").is_file())
        .collect();
    all.sort();
    all
}

/// A trace as a list: everything but records, and the records of each CPU in the order of time.
pub fn list(dir: &Path) -> (Vec<Element>, Vec<Element>) {
    let (mut rest, mut records) = (Vec::new(), Vec::new());
    let text = fs::read_to_string(dir.join("metadata")).unwrap_or_default();
    for (key, value) in Metadata::decode(&text).unwrap_or_default().env {
        // What the encoder writes itself. The rest decides what is diagnosed: `events`, for one.
        if !["plumb_schema", "domain"].contains(&key.as_str()) && !key.starts_with("tracer_") {
            rest.push((ENVIRONMENT, format!("{key}={value}").into_bytes()));
        }
    }
    for (tag, name) in [(STATE, "state"), (WAIT, "waits")] {
        let all = contents(&dir.join(name));
        rest.extend(all.iter().flat_map(|c| events(c)).map(|e| (tag, e)));
    }
    for cpu in 0..CPUS {
        for content in contents(&dir.join(format!("cpu_{cpu}"))) {
            let mut at = &content[..];
            while let Some(e) =
                EVENTS.iter().find(|e| e.origin == Origin::Kernel && at.len() >= 32 && e.id == id(at))
            {
                records.push((cpu, at[..e.size].to_vec()));
                at = &at[e.size..];
            }
        }
    }
    records.sort_by_key(|(_, record)| u64_at(record, 0));
    (rest, records)
}

/// What the thread of a record would tell of operations: recorded traces have none.
fn operations(records: &[Element]) -> Vec<Element> {
    let told = |(at, (_, record)): (usize, &Element)| {
        let (ts, tid) = (u64_at(record, 0), record.get(12..16)?.try_into().map(u32::from_le_bytes).ok()?);
        let begin = schema::LoadBegin { ts, id: schema::LoadBegin::ID, tid, ..Default::default() };
        let end = schema::LoadEnd { ts, id: schema::LoadEnd::ID, tid, result: 4096, ..Default::default() };
        Some((LOAD, if at % 2 == 0 { begin.bytes() } else { end.bytes() }.to_vec()))
    };
    // A stream is one thread's.
    let tid = records.iter().map(|(_, r)| &r[12..16]).find(|tid| **tid != [0; 4]).map(<[u8]>::to_vec);
    let own = records.iter().filter(|(_, r)| tid.as_deref() == Some(&r[12..16]));
    own.enumerate().filter_map(told).collect()
}

/// Seeds: parts of every trace, of `most` records.
pub fn windows(most: usize) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for dir in traces() {
        let (rest, records) = list(&dir);
        let last = records.len().saturating_sub(most);
        let mut from = vec![0, last / 2, last];
        from.dedup();
        for at in from {
            let mut all = rest.clone();
            let part = &records[at..records.len().min(at + most)];
            all.extend_from_slice(part);
            all.extend(operations(part));
            out.push(concat(&all));
        }
    }
    out
}

fn known(origin: Origin, random: &mut Random) -> u16 {
    let ids: Vec<u16> = EVENTS.iter().filter(|e| e.origin == origin).map(|e| e.id).collect();
    *pick(&ids, random)
}

/// A time: another element's, near the old one, or hostile.
fn time(old: u64, other: u64, random: &mut Random) -> u64 {
    match random.below(8) {
        0..=2 => other,
        3 => old.saturating_add(random.below(1_000_000)),
        4 => old.saturating_sub(random.below(1_000_000)),
        5 => old.saturating_add(random.below(5_000_000_000)),
        6 => other.saturating_add(random.below(3)).saturating_sub(1),
        _ => *pick(&EDGES, random),
    }
}

/// A few changes of a list.
pub fn mutate(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let (mut all, more) = (parse(input), parse(other));
    for _ in 0..=random.below(6) {
        if all.is_empty() {
            break;
        }
        let at = random.below(all.len() as u64) as usize;
        let from = pick(if random.below(4) == 0 { &more } else { &all }, random).clone();
        match random.below(16) {
            0 => drop(all.drain(at..(at + 1 + random.below(40) as usize).min(all.len()))),
            1 => {
                let to = random.below(all.len() as u64 + 1) as usize;
                all.insert(to, all[at].clone());
            }
            2 | 3 => {
                // An event with another one's fields.
                let mut new = from.1;
                new.resize(64, 0);
                let load = random.below(8) == 0;
                let origin = if load { Origin::Load } else { Origin::Kernel };
                new[8..10].copy_from_slice(&known(origin, random).to_le_bytes());
                let ts = u64_at(&all[at].1, 0);
                new[..8].copy_from_slice(&ts.to_le_bytes());
                all.insert(at, (if load { LOAD } else { random.below(2) as u8 }, new));
            }
            4 | 5 => {
                let new = time(u64_at(&all[at].1, 0), u64_at(&from.1, 0), random);
                if let Some(ts) = all[at].1.first_chunk_mut::<8>() {
                    *ts = new.to_le_bytes();
                }
            }
            6 => all.insert(at, (LOSS + random.below(2) as u8, pick(&EDGES, random).to_le_bytes().to_vec())),
            7 => {
                // A part of another trace.
                let begin = random.below(more.len() as u64 + 1) as usize;
                let end = (begin + random.below(100) as usize).min(more.len());
                all.splice(at..at, more[begin..end].iter().cloned());
            }
            8 => {
                let lines = ["everyone=1", "everyone=0", "keep_ns=1000", "recorder_pid=1", "sample_hz=199"];
                let mut line = pick(&lines, random).as_bytes().to_vec();
                if random.below(3) == 0 {
                    line = format!("command_pid={}", id(&from.1)).into_bytes();
                }
                all.push((ENVIRONMENT, line));
            }
            9..=11 => {
                // Fields of events of the recorder are few among the records, and matter for all of them.
                let told: Vec<usize> =
                    (0..all.len()).filter(|i| (STATE..=WAIT).contains(&all[*i].0)).collect();
                if !told.is_empty() {
                    let at = *pick(&told, random);
                    number(all[at].1.get_mut(10..).unwrap_or_default(), random);
                }
            }
            12 | 13 => {
                // The same thread, disk or lock as another event's.
                let place = 12 + 4 * random.below(13) as usize;
                let from = from.1.get(place..place + 4);
                if let (Some(to), Some(from)) = (all[at].1.get_mut(place..place + 4), from) {
                    to.copy_from_slice(from);
                }
            }
            _ => number(all[at].1.get_mut(12..).unwrap_or_default(), random),
        }
    }
    all.truncate(20_000);
    *input = concat(&all);
}
