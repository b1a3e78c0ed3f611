// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file keeps the format's rules: what is named was told before, slices nest, bundles are in order.

use super::proto::{self, Data, FtraceEvent, TracePacket, Value};
use super::write;
use plumb_trace::ctf::Metadata;
use plumb_trace::reader::Trace;
use plumb_trace::schema::{SchedSwitch, StateClock, StateCounter};
use plumb_trace::writer::{DirectorySink, TraceWriter};
use plumb_trace::Record;
use prost::Message;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::AtomicBool;

#[derive(Clone, PartialEq, Message)]
struct File {
    #[prost(bytes = "vec", repeated, tag = "1")]
    packets: Vec<Vec<u8>>,
}

/// The packet's field that the writer encodes by itself.
#[derive(Clone, PartialEq, Message)]
struct Ftrace {
    #[prost(message, optional, tag = "1")]
    bundle: Option<Bundle>,
}

#[derive(Clone, PartialEq, Message)]
struct Bundle {
    #[prost(uint32, optional, tag = "1")]
    cpu: Option<u32>,
    #[prost(message, repeated, tag = "2")]
    event: Vec<FtraceEvent>,
    #[prost(bool, tag = "3")]
    lost_events: bool,
}

struct Read {
    packets: Vec<TracePacket>,
    bundles: Vec<Bundle>,
}

fn export(dir: &Path) -> Read {
    let trace = Trace::open(dir).expect("a trace");
    let mut out = Vec::new();
    let stop = AtomicBool::new(false);
    write(&trace, &mut out, &stop).expect("exported");
    let file = File::decode(&out[..]).expect("packets");
    let decode = |p: &Vec<u8>| TracePacket::decode(&p[..]).expect("a packet");
    let bundle = |p: &Vec<u8>| Ftrace::decode(&p[..]).expect("a packet").bundle;
    Read {
        packets: file.packets.iter().map(decode).collect(),
        bundles: file.packets.iter().filter_map(bundle).collect(),
    }
}

fn recorded(name: &str) -> Read {
    export(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/traces").join(name))
}

#[test]
fn what_is_named_was_told_before() {
    for name in ["write-fsync", "hogs", "tcp-peer"] {
        let mut tracks: HashSet<u64> = HashSet::new();
        let mut known: HashMap<(&str, u64), ()> = HashMap::new();
        let mut open: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let mut last: BTreeMap<u64, u64> = BTreeMap::new();
        for packet in recorded(name).packets {
            let new = packet.interned_data.unwrap_or_default();
            let mut tell = |kind, iid| assert_eq!(known.insert((kind, iid), ()), None, "{kind} {iid} twice");
            new.event_names.iter().for_each(|n| tell("name", n.iid));
            new.event_categories.iter().for_each(|n| tell("category", n.iid));
            new.debug_annotation_names.iter().for_each(|n| tell("argument", n.iid));
            new.debug_annotation_string_values.iter().for_each(|n| tell("word", n.iid));
            new.callstacks.iter().for_each(|n| tell("stack", n.iid));
            new.function_names.iter().for_each(|n| tell("function", n.iid));
            new.mappings.iter().for_each(|n| tell("mapping", n.iid));
            new.frames.iter().for_each(|n| tell("frame", n.iid));
            for frame in &new.frames {
                assert!(known.contains_key(&("function", frame.function_name_id)), "{frame:?}");
                assert!(known.contains_key(&("mapping", frame.mapping_id)), "{frame:?}");
            }
            for frame in new.callstacks.iter().flat_map(|s| &s.frame_ids) {
                assert!(known.contains_key(&("frame", *frame)), "{frame}");
            }
            match packet.data {
                Some(Data::TrackDescriptor(track)) => {
                    assert!(track.parent_uuid.is_none_or(|parent| tracks.contains(&parent)), "{track:?}");
                    assert!(tracks.insert(track.uuid.expect("a number")), "{track:?} twice");
                }
                Some(Data::TrackEvent(event)) => {
                    let track = event.track_uuid.expect("a track");
                    let ts = packet.timestamp.expect("a time");
                    assert!(tracks.contains(&track));
                    assert!(event.name_iid.is_none_or(|iid| known.contains_key(&("name", iid))));
                    assert!(event.category_iids.iter().all(|iid| known.contains_key(&("category", *iid))));
                    for argument in &event.debug_annotations {
                        assert!(known.contains_key(&("argument", argument.name_iid)));
                        let Some(Value::Iid(iid)) = argument.value else { continue };
                        assert!(known.contains_key(&("word", iid)));
                    }
                    let before = last.insert(track, ts).unwrap_or(0);
                    let open = open.entry(track).or_default();
                    match event.r#type {
                        Some(proto::SLICE_BEGIN) => {
                            assert!(ts >= before, "{name}: slices of a track overlap");
                            open.push(ts);
                        }
                        Some(proto::SLICE_END) => {
                            assert!(ts >= before && open.pop().is_some_and(|begin| begin <= ts), "{name}");
                        }
                        _ => {}
                    }
                }
                Some(Data::PerfSample(sample)) => {
                    assert!(sample.callstack_iid.is_none_or(|iid| known.contains_key(&("stack", iid))));
                }
                _ => {}
            }
        }
        assert!(open.len() > 3 && open.values().all(Vec::is_empty), "{name}: every slice ends");
    }
}

#[test]
fn what_has_no_data_has_no_sector() {
    let mut names: HashMap<u64, String> = HashMap::new();
    let mut seen = [0, 0];
    for packet in recorded("write-fsync").packets {
        let new = packet.interned_data.unwrap_or_default();
        names.extend(new.debug_annotation_names.iter().map(|n| (n.iid, n.name.clone())));
        let Some(Data::TrackEvent(event)) = packet.data else { continue };
        let value = |name: &str| event.debug_annotations.iter().find(|a| names[&a.name_iid] == name);
        if value("rwbs").is_some() {
            let empty = matches!(value("bytes").and_then(|a| a.value.clone()), Some(Value::Uint(0)));
            assert_eq!(value("sector").is_none(), empty, "{event:?}");
            seen[usize::from(empty)] += 1;
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0, "requests with data and without: {seen:?}");
}

#[test]
fn bundles_hold_the_events_of_a_cpu_in_order() {
    let read = recorded("write-fsync");
    let mut last: BTreeMap<u32, u64> = BTreeMap::new();
    let mut events = 0;
    for bundle in &read.bundles {
        let before = last.entry(bundle.cpu.expect("a CPU")).or_default();
        for event in &bundle.event {
            // A birth is told 1 ns early.
            assert!(event.timestamp + 1 >= *before && event.pid.is_some());
            *before = event.timestamp;
            events += 1;
        }
        assert!(!bundle.lost_events);
    }
    assert_eq!((events, last.len()), (989, 2));
    let clock = read.packets.iter().find_map(|p| match &p.data {
        Some(Data::ClockSnapshot(clock)) => Some(clock.clone()),
        _ => None,
    });
    let clock = clock.expect("clocks");
    assert_eq!(clock.primary_trace_clock, Some(proto::MONOTONIC));
    assert_eq!(clock.clocks.iter().map(|c| c.clock_id).collect::<Vec<_>>(), [3, 6, 1]);
}

/// Two CPUs; events of the first are lost, and the clocks move apart in the middle.
fn made(dir: &Path) {
    let mut meta = Metadata::default();
    meta.env.insert("everyone".into(), "1".into());
    meta.env.insert("events".into(), "sched_switch,sched_waking".into());
    let sink = DirectorySink::create(dir, &meta).expect("a trace");
    let mut writer = TraceWriter::new(sink, 2, 1000);
    let clock = |monotonic: u64, boottime: u64| StateClock { monotonic, boottime, realtime: 1 << 60 };
    writer.state(1000, &clock(1000, 1500)).expect("written");
    // 300 ns between two reads of the clocks are none; 5 s are a suspend.
    writer.state(4000, &clock(4000, 4800)).expect("written");
    writer.state(8000, &clock(8000, 5_000_008_500)).expect("written");
    for (at, value) in [(1000, 7), (4000, 7), (8000, 7)] {
        let counter = |name: &str, value| StateCounter { at, value, name: name.into() };
        writer.state(at, &counter("vmstat.nr_still", value)).expect("written");
        writer.state(at, &counter("vmstat.nr_dirty", at)).expect("written");
    }
    let switch = |ts, tid, next_tid| SchedSwitch {
        ts,
        id: SchedSwitch::ID,
        lap: 1,
        tid,
        next_tid,
        ..SchedSwitch::default()
    };
    writer.record(0, switch(2000, 0, 7).bytes()).expect("written");
    writer.lost(0, 5).expect("written");
    writer.record(0, switch(9000, 7, 0).bytes()).expect("written");
    writer.record(1, switch(3000, 0, 8).bytes()).expect("written");
    writer.finish().expect("written");
}

#[test]
fn lost_events_and_a_suspend_are_told() {
    let dir = tempfile::tempdir().expect("a directory");
    made(dir.path());
    let read = export(dir.path());
    let mut seen: Vec<(u32, u64, bool)> = Vec::new();
    for bundle in &read.bundles {
        for event in &bundle.event {
            seen.push((bundle.cpu.expect("a CPU"), event.timestamp, bundle.lost_events));
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, [(0, 2500, false), (0, 5_000_009_500, true), (1, 3500, false)]);
    let names: Vec<String> = read
        .packets
        .iter()
        .filter_map(|p| match &p.data {
            Some(Data::TrackDescriptor(track)) => track.name.clone(),
            _ => None,
        })
        .collect();
    for name in ["plumb: lost events", "CPU 0", "vmstat.nr_dirty", "plumb: findings"] {
        assert!(names.iter().any(|n| n == name), "{name} in {names:?}");
    }
    assert!(!names.iter().any(|n| n == "vmstat.nr_still"), "it never moved");
    let clocks = read.packets.iter().filter(|p| matches!(p.data, Some(Data::ClockSnapshot(_)))).count();
    assert_eq!(clocks, 2);
}

#[test]
fn without_an_account_there_are_no_states() {
    let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/traces/pipe");
    let states = |dir: &Path| {
        let named = |p: &TracePacket| match &p.data {
            Some(Data::TrackDescriptor(track)) => track.name.as_deref() == Some("plumb: state"),
            _ => false,
        };
        export(dir).packets.iter().filter(|p| named(p)).count()
    };
    assert!(states(&whole) > 0);
    let dir = tempfile::tempdir().expect("a directory");
    for file in std::fs::read_dir(&whole).expect("a trace").flatten() {
        std::fs::copy(file.path(), dir.path().join(file.file_name())).expect("copied");
    }
    let metadata = dir.path().join("metadata");
    let text = std::fs::read_to_string(&metadata).expect("a trace");
    let without = text.replacen(",sched_waking", "", 1);
    assert!(without.len() < text.len());
    std::fs::write(metadata, without).expect("written");
    assert_eq!(states(dir.path()), 0);
}
