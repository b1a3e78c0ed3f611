// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages of Perfetto's trace format, with the fields that are written, by their numbers in
//! `protos/perfetto/trace/` of <https://github.com/google/perfetto>: `trace_packet.proto`,
//! `track_event/*.proto`, `ftrace/*.proto`, `profiling/profile_{packet,common}.proto`,
//! `interned_data/interned_data.proto`, `clock_snapshot.proto`, `ps/process_tree.proto`.

use prost::{Message, Oneof};

/// `ClockSnapshot.BuiltinClocks` and `TracePacket.timestamp_clock_id`: CLOCK_REALTIME.
pub const REALTIME: u32 = 1;
/// CLOCK_MONOTONIC.
pub const MONOTONIC: u32 = 3;
/// CLOCK_BOOTTIME: that of ftrace's events where their bundle says nothing else.
pub const BOOTTIME: u32 = 6;

/// `TracePacket.SequenceFlags`: what was interned before is forgotten.
pub const INCREMENTAL_STATE_CLEARED: u32 = 1;
/// It names what was interned before.
pub const NEEDS_INCREMENTAL_STATE: u32 = 2;

/// `TrackEvent.Type`.
pub const SLICE_BEGIN: i32 = 1;
/// The innermost slice of the track ends.
pub const SLICE_END: i32 = 2;
pub const INSTANT: i32 = 3;
pub const COUNTER: i32 = 4;

/// One packet of the file, which is these in field 1, and nothing else.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    /// When, ns of the clock.
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    /// Clock of `timestamp`; the sequence's where it is absent.
    #[prost(uint32, optional, tag = "58")]
    pub timestamp_clock_id: Option<u32>,
    /// Who wrote it: interned things are those of a sequence.
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    /// Things that get a number.
    #[prost(message, optional, boxed, tag = "12")]
    pub interned_data: Option<Box<InternedData>>,
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    /// What holds for the packets of the sequence that follow.
    #[prost(message, optional, boxed, tag = "59")]
    pub trace_packet_defaults: Option<Box<TracePacketDefaults>>,
    /// Something before it is missing.
    #[prost(bool, optional, tag = "42")]
    pub previous_packet_dropped: Option<bool>,
    #[prost(oneof = "Data", tags = "2, 6, 11, 45, 60, 66")]
    pub data: Option<Data>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Data {
    #[prost(message, tag = "2")]
    ProcessTree(ProcessTree),
    /// Clocks read together.
    #[prost(message, tag = "6")]
    ClockSnapshot(ClockSnapshot),
    #[prost(message, tag = "11")]
    TrackEvent(TrackEvent),
    #[prost(message, tag = "45")]
    SystemInfo(SystemInfo),
    #[prost(message, tag = "60")]
    TrackDescriptor(TrackDescriptor),
    /// A sample of a CPU.
    #[prost(message, tag = "66")]
    PerfSample(PerfSample),
}

/// What holds for packets that follow.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacketDefaults {
    /// Their clock.
    #[prost(uint32, optional, tag = "58")]
    pub timestamp_clock_id: Option<u32>,
    #[prost(message, optional, tag = "12")]
    pub perf_sample_defaults: Option<PerfSampleDefaults>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PerfSampleDefaults {
    #[prost(message, optional, tag = "1")]
    pub timebase: Option<Timebase>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Timebase {
    /// Times a second.
    #[prost(uint64, optional, tag = "2")]
    pub frequency: Option<u64>,
    #[prost(uint64, optional, tag = "1")]
    pub period: Option<u64>,
    /// `PerfEvents.Counter`: 1 the CPU's clock, 10 its cycles.
    #[prost(int32, optional, tag = "4")]
    pub counter: Option<i32>,
    #[prost(string, optional, tag = "10")]
    pub name: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct PerfSample {
    #[prost(uint32, optional, tag = "1")]
    pub cpu: Option<u32>,
    #[prost(uint32, tag = "2")]
    pub pid: u32,
    #[prost(uint32, tag = "3")]
    pub tid: u32,
    /// `Profiling.CpuMode`: 1 kernel, 2 user.
    #[prost(int32, tag = "5")]
    pub cpu_mode: i32,
    /// Stack; absent where none was taken.
    #[prost(uint64, optional, tag = "4")]
    pub callstack_iid: Option<u64>,
}

/// Things that get a number.
#[derive(Clone, PartialEq, Message)]
pub struct InternedData {
    #[prost(message, repeated, tag = "1")]
    pub event_categories: Vec<Named>,
    #[prost(message, repeated, tag = "2")]
    pub event_names: Vec<Named>,
    #[prost(message, repeated, tag = "3")]
    pub debug_annotation_names: Vec<Named>,
    #[prost(message, repeated, tag = "29")]
    pub debug_annotation_string_values: Vec<InternedString>,
    #[prost(message, repeated, tag = "16")]
    pub build_ids: Vec<InternedString>,
    #[prost(message, repeated, tag = "17")]
    pub mapping_paths: Vec<InternedString>,
    #[prost(message, repeated, tag = "18")]
    pub source_paths: Vec<InternedString>,
    #[prost(message, repeated, tag = "5")]
    pub function_names: Vec<InternedString>,
    #[prost(message, repeated, tag = "19")]
    pub mappings: Vec<Mapping>,
    #[prost(message, repeated, tag = "6")]
    pub frames: Vec<Frame>,
    #[prost(message, repeated, tag = "7")]
    pub callstacks: Vec<Callstack>,
}

/// `EventName`, `EventCategory`, `DebugAnnotationName`.
#[derive(Clone, PartialEq, Message)]
pub struct Named {
    /// Number, from 1.
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    #[prost(string, tag = "2")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct InternedString {
    /// Number, from 1.
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    /// Its bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub str: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Mapping {
    /// Number, from 1.
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    /// Build id; 0 none.
    #[prost(uint64, tag = "2")]
    pub build_id: u64,
    #[prost(uint64, repeated, packed = "false", tag = "7")]
    pub path_string_ids: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Frame {
    /// Number, from 1.
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    #[prost(uint64, tag = "2")]
    pub function_name_id: u64,
    #[prost(uint64, tag = "3")]
    pub mapping_id: u64,
    #[prost(uint64, tag = "4")]
    pub rel_pc: u64,
    /// Source file; 0 not known.
    #[prost(uint64, tag = "5")]
    pub source_path_iid: u64,
    #[prost(uint32, tag = "6")]
    pub line_number: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Callstack {
    /// Number, from 1.
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    /// Frames, the outermost first.
    #[prost(uint64, repeated, packed = "false", tag = "2")]
    pub frame_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    #[prost(uint64, repeated, packed = "false", tag = "3")]
    pub category_iids: Vec<u64>,
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    pub r#type: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    pub name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    #[prost(int64, optional, tag = "30")]
    pub counter_value: Option<i64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub flow_ids: Vec<u64>,
    /// Arrows that end in it.
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub terminating_flow_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DebugAnnotation {
    #[prost(uint64, tag = "1")]
    pub name_iid: u64,
    #[prost(oneof = "Value", tags = "3, 4, 5, 6, 17")]
    pub value: Option<Value>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Value {
    #[prost(uint64, tag = "3")]
    Uint(u64),
    /// A number that may be below 0.
    #[prost(int64, tag = "4")]
    Int(i64),
    /// A share or factor.
    #[prost(double, tag = "5")]
    Double(f64),
    /// A text that comes once.
    #[prost(string, tag = "6")]
    Text(String),
    /// A text that comes again.
    #[prost(uint64, tag = "17")]
    Iid(u64),
}

#[derive(Clone, PartialEq, Message)]
pub struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    /// Track below which it lies.
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub thread: Option<ThreadDescriptor>,
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    #[prost(int64, optional, tag = "2")]
    pub tid: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CounterDescriptor {
    #[prost(string, optional, tag = "6")]
    pub unit_name: Option<String>,
}

/// Clocks read together.
#[derive(Clone, PartialEq, Message)]
pub struct ClockSnapshot {
    /// The clocks.
    #[prost(message, repeated, tag = "1")]
    pub clocks: Vec<Clock>,
    /// Clock that all times are shown in.
    #[prost(uint32, optional, tag = "2")]
    pub primary_trace_clock: Option<u32>,
}

/// A clock.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Clock {
    #[prost(uint32, tag = "1")]
    pub clock_id: u32,
    /// What it showed, ns.
    #[prost(uint64, tag = "2")]
    pub timestamp: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct ProcessTree {
    #[prost(message, repeated, tag = "1")]
    pub processes: Vec<Process>,
    /// Threads that are not their process's first.
    #[prost(message, repeated, tag = "2")]
    pub threads: Vec<Thread>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Process {
    #[prost(int32, tag = "1")]
    pub pid: i32,
    #[prost(int32, tag = "2")]
    pub ppid: i32,
    #[prost(string, repeated, tag = "3")]
    pub cmdline: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Thread {
    #[prost(int32, tag = "1")]
    pub tid: i32,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(int32, tag = "3")]
    pub tgid: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct SystemInfo {
    /// What uname(2) says.
    #[prost(message, optional, tag = "1")]
    pub utsname: Option<Utsname>,
}

/// What uname(2) says.
#[derive(Clone, PartialEq, Message)]
pub struct Utsname {
    #[prost(string, tag = "1")]
    pub sysname: String,
    #[prost(string, tag = "2")]
    pub version: String,
    #[prost(string, tag = "3")]
    pub release: String,
    /// Architecture: system calls have their names by it.
    #[prost(string, tag = "4")]
    pub machine: String,
}

/// An event of ftrace.
#[derive(Clone, PartialEq, Message)]
pub struct FtraceEvent {
    /// When, ns CLOCK_BOOTTIME.
    #[prost(uint64, tag = "1")]
    pub timestamp: u64,
    /// Thread on the CPU; an event without it is not read, so 0 is written.
    #[prost(uint32, optional, tag = "2")]
    pub pid: Option<u32>,
    /// Which event.
    #[prost(oneof = "Ftrace", tags = "4, 20, 24, 25, 36, 37, 114, 235, 236, 238, 329, 330, 491, 559, 560")]
    pub event: Option<Ftrace>,
}

/// The events.
#[derive(Clone, PartialEq, Oneof)]
pub enum Ftrace {
    #[prost(message, tag = "4")]
    SchedSwitch(SchedSwitch),
    #[prost(message, tag = "20")]
    SchedWaking(SchedWaking),
    #[prost(message, tag = "24")]
    SoftirqEntry(Softirq),
    #[prost(message, tag = "25")]
    SoftirqExit(Softirq),
    #[prost(message, tag = "36")]
    IrqEntry(IrqEntry),
    #[prost(message, tag = "37")]
    IrqExit(IrqExit),
    /// A new thread is put on a run queue.
    #[prost(message, tag = "114")]
    SchedWakeupNew(SchedWaking),
    #[prost(message, tag = "235")]
    TaskNewtask(TaskNewtask),
    /// A thread has another name.
    #[prost(message, tag = "236")]
    TaskRename(TaskRename),
    #[prost(message, tag = "238")]
    SchedProcessExit(SchedProcessExit),
    #[prost(message, tag = "329")]
    SysEnter(SysEnter),
    #[prost(message, tag = "330")]
    SysExit(SysExit),
    /// A thread goes to another CPU's run queue.
    #[prost(message, tag = "491")]
    SchedMigrateTask(SchedMigrateTask),
    /// The local timer's interrupt begins.
    #[prost(message, tag = "559")]
    LocalTimerEntry(LocalTimer),
    /// The local timer's interrupt ends.
    #[prost(message, tag = "560")]
    LocalTimerExit(LocalTimer),
}

/// Fields of `sched_switch`.
#[derive(Clone, PartialEq, Message)]
pub struct SchedSwitch {
    #[prost(string, tag = "1")]
    pub prev_comm: String,
    #[prost(int32, tag = "2")]
    pub prev_pid: i32,
    #[prost(int32, tag = "3")]
    pub prev_prio: i32,
    /// As the tracepoint reports it: 0 R, 1 S, 2 D, 4 T, 8 t, 16 X, 32 Z, 64 P, 128 I, 256 R+.
    #[prost(int64, tag = "4")]
    pub prev_state: i64,
    #[prost(string, tag = "5")]
    pub next_comm: String,
    #[prost(int32, tag = "6")]
    pub next_pid: i32,
    #[prost(int32, tag = "7")]
    pub next_prio: i32,
}

/// Fields of `sched_waking` and `sched_wakeup_new`.
#[derive(Clone, PartialEq, Message)]
pub struct SchedWaking {
    #[prost(string, tag = "1")]
    pub comm: String,
    #[prost(int32, tag = "2")]
    pub pid: i32,
    #[prost(int32, tag = "3")]
    pub prio: i32,
    /// 1.
    #[prost(int32, tag = "4")]
    pub success: i32,
    #[prost(int32, tag = "5")]
    pub target_cpu: i32,
}

/// Fields of `sched_migrate_task`.
#[derive(Clone, PartialEq, Message)]
pub struct SchedMigrateTask {
    #[prost(string, tag = "1")]
    pub comm: String,
    #[prost(int32, tag = "2")]
    pub pid: i32,
    #[prost(int32, tag = "3")]
    pub prio: i32,
    #[prost(int32, tag = "4")]
    pub orig_cpu: i32,
    #[prost(int32, tag = "5")]
    pub dest_cpu: i32,
}

/// Fields of `softirq_entry` and `softirq_exit`.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Softirq {
    #[prost(uint32, optional, tag = "1")]
    pub vec: Option<u32>,
}

/// Fields of `irq_handler_entry`.
#[derive(Clone, PartialEq, Message)]
pub struct IrqEntry {
    #[prost(int32, optional, tag = "1")]
    pub irq: Option<i32>,
    #[prost(string, tag = "2")]
    pub name: String,
}

/// Fields of `irq_handler_exit`.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct IrqExit {
    #[prost(int32, optional, tag = "1")]
    pub irq: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub ret: Option<i32>,
}

/// Fields of `local_timer_entry` and `local_timer_exit`.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct LocalTimer {
    #[prost(int32, optional, tag = "1")]
    pub vector: Option<i32>,
}

/// Fields of `task_newtask`.
#[derive(Clone, PartialEq, Message)]
pub struct TaskNewtask {
    #[prost(int32, tag = "1")]
    pub pid: i32,
    #[prost(string, tag = "2")]
    pub comm: String,
    #[prost(uint64, tag = "3")]
    pub clone_flags: u64,
}

/// Fields of `task_rename`.
#[derive(Clone, PartialEq, Message)]
pub struct TaskRename {
    #[prost(int32, tag = "1")]
    pub pid: i32,
    #[prost(string, tag = "2")]
    pub oldcomm: String,
    #[prost(string, tag = "3")]
    pub newcomm: String,
}

/// Fields of `sched_process_exit`.
#[derive(Clone, PartialEq, Message)]
pub struct SchedProcessExit {
    #[prost(string, tag = "1")]
    pub comm: String,
    #[prost(int32, tag = "2")]
    pub pid: i32,
    #[prost(int32, tag = "3")]
    pub tgid: i32,
}

/// Fields of `sys_enter`.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct SysEnter {
    #[prost(int64, optional, tag = "1")]
    pub id: Option<i64>,
}

/// Fields of `sys_exit`.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct SysExit {
    #[prost(int64, optional, tag = "1")]
    pub id: Option<i64>,
    #[prost(int64, optional, tag = "2")]
    pub ret: Option<i64>,
}
