// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What holds before the first event: clocks, machine, processes, defaults of the sequences.

use super::packets::{Packets, Sequence};
use super::proto::{
    self, Clock, ClockSnapshot, Data, PerfSampleDefaults, Process, ProcessTree, SystemInfo, Thread, Timebase,
    TracePacket, TracePacketDefaults, Utsname,
};
use plumb_analysis::setup;
use plumb_model::tasks::Tasks;
use plumb_trace::reader::{State, Trace};
use plumb_trace::schema::StateTask;
use std::collections::BTreeMap;
use std::io::Write;

/// Two readings of the clocks that lie this far from each other, ns, are one that went on: the rest
/// is the time between their reads. Beyond, the machine slept meanwhile.
const SAME: u64 = 1_000_000;

/// CLOCK_BOOTTIME minus CLOCK_MONOTONIC, from which moment on (ns, CLOCK_MONOTONIC); empty where
/// nothing tells.
pub fn boot_offsets(state: &State) -> Vec<(u64, u64)> {
    let mut out: Vec<(u64, u64)> = Vec::new();
    for clock in &state.clocks {
        let offset = clock.boottime.saturating_sub(clock.monotonic);
        if out.last().is_none_or(|(_, last)| last.abs_diff(offset) > SAME) {
            out.push((clock.monotonic, offset));
        }
    }
    out
}

/// Clock readings. Times are shown in CLOCK_MONOTONIC, as plumb tells them.
fn clocks<W: Write>(trace: &Trace, boot: &[(u64, u64)], begin: u64, out: &mut Packets<W>) {
    let snapshot = |monotonic: u64, boottime: u64, realtime: u64| {
        let clock = |clock_id, timestamp| Clock { clock_id, timestamp };
        let clocks = vec![
            clock(proto::MONOTONIC, monotonic),
            clock(proto::BOOTTIME, boottime),
            clock(proto::REALTIME, realtime),
        ];
        Data::ClockSnapshot(ClockSnapshot { clocks, primary_trace_clock: Some(proto::MONOTONIC) })
    };
    let realtime = |monotonic: u64| setup::realtime(trace, monotonic);
    for (monotonic, offset) in boot {
        out.packet(
            Sequence::System,
            None,
            snapshot(*monotonic, monotonic.saturating_add(*offset), realtime(*monotonic)),
        );
    }
    if boot.is_empty() {
        // ftrace's events come in CLOCK_BOOTTIME; without a reading both clocks count as one.
        out.packet(Sequence::System, None, snapshot(begin, begin, realtime(begin)));
    }
}

fn process(task: &StateTask) -> Process {
    let words: Vec<String> = task.cmdline.split(' ').filter(|w| !w.is_empty()).map(String::from).collect();
    // A kernel thread has no command line; without one the process would have no name.
    let cmdline = if words.is_empty() { vec![task.comm.clone()] } else { words };
    Process { pid: task.tgid as i32, ppid: task.ppid as i32, cmdline }
}

fn processes<W: Write>(state: &State, begin: u64, out: &mut Packets<W>) {
    let mut tree = ProcessTree::default();
    for task in Tasks::first(state) {
        if task.tid == task.tgid {
            tree.processes.push(process(task));
        }
        tree.threads.push(Thread { tid: task.tid as i32, name: task.comm.clone(), tgid: task.tgid as i32 });
    }
    tell(tree, begin, out);
}

fn tell<W: Write>(tree: ProcessTree, ts: u64, out: &mut Packets<W>) {
    out.whole(TracePacket {
        timestamp: Some(ts),
        timestamp_clock_id: Some(proto::MONOTONIC),
        trusted_packet_sequence_id: Some(Sequence::System as u32),
        data: Some(Data::ProcessTree(tree)),
        ..TracePacket::default()
    });
}

/// A thread has another name, and its process another command line where its exec was told. Names
/// that come with processes are held above those of ftrace's events, so they must follow.
pub fn renamed<W: Write>(
    tid: u32,
    tgid: u32,
    comm: &str,
    executed: Option<&StateTask>,
    ts: u64,
    out: &mut Packets<W>,
) {
    if tgid == 0 {
        return;
    }
    let thread = Thread { tid: tid as i32, name: comm.into(), tgid: tgid as i32 };
    let processes = executed.map(process).into_iter().collect();
    tell(ProcessTree { processes, threads: vec![thread] }, ts, out);
}

fn defaults<W: Write>(sequence: Sequence, timebase: Option<Timebase>, out: &mut Packets<W>) {
    let defaults = TracePacketDefaults {
        timestamp_clock_id: Some(proto::MONOTONIC),
        perf_sample_defaults: timebase.map(|t| PerfSampleDefaults { timebase: Some(t) }),
    };
    out.whole(TracePacket {
        trusted_packet_sequence_id: Some(sequence as u32),
        sequence_flags: Some(proto::INCREMENTAL_STATE_CLEARED | proto::NEEDS_INCREMENTAL_STATE),
        trace_packet_defaults: Some(Box::new(defaults)),
        ..TracePacket::default()
    });
}

/// The sampling clock, from the trace's environment.
fn timebase(env: &BTreeMap<String, String>) -> Timebase {
    const SW_CPU_CLOCK: i32 = 1;
    const HW_CPU_CYCLES: i32 = 10;
    let name = env.get("sample_clock").cloned().unwrap_or_else(|| "cpu-clock".into());
    let cycles = name.contains("cycles");
    let number = env.get("sample_hz").and_then(|hz| hz.parse().ok());
    Timebase {
        frequency: number.filter(|hz| !cycles && *hz > 0),
        period: None,
        counter: Some(if cycles { HW_CPU_CYCLES } else { SW_CPU_CLOCK }),
        name: Some(name),
    }
}

pub fn write<W: Write>(trace: &Trace, boot: &[(u64, u64)], begin: u64, out: &mut Packets<W>) {
    clocks(trace, boot, begin, out);
    let env = &trace.metadata.env;
    let word = |key: &str| env.get(key).cloned().unwrap_or_default();
    let utsname = Utsname {
        sysname: word("sysname"),
        version: word("kernel_version"),
        release: word("kernel_release"),
        machine: word("machine"),
    };
    out.packet(Sequence::System, None, Data::SystemInfo(SystemInfo { utsname: Some(utsname) }));
    // The first record may be older than the run's begin; nobody's name may come after it.
    let first = trace.first_events().into_iter().fold(begin, u64::min);
    processes(&trace.state, first, out);
    defaults(Sequence::Tracks, None, out);
    defaults(Sequence::Samples, Some(timebase(env)), out);
}
