// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classes of events as lttng-modules 2.13 declares them, and the metadata that describes them.
//!
//! Names and fields: instrumentation/events/{sched,irq,block,lttng-statedump}.h and
//! instrumentation/events/arch/x86/irq_vectors.h of lttng-modules.

use plumb_trace::calls;
use plumb_trace::ctf::Metadata;
use std::collections::{BTreeMap, BTreeSet};

/// An event that has a counterpart in LTTng. The order of fields is the order on the wire.
#[derive(Debug, Clone, Copy)]
pub struct Class {
    pub id: u16,
    pub name: &'static str,
    pub fields: &'static str,
}

macro_rules! classes {
    ($($constant:ident = $id:literal, $name:literal, $fields:literal;)*) => {
        $(#[doc = concat!("`", $name, "`")] pub const $constant: u16 = $id;)*
        pub const CLASSES: &[Class] = &[$(Class { id: $id, name: $name, fields: $fields }),*];
    };
}

classes! {
    SWITCH = 0, "sched_switch", "char8 prev_comm[16]; s32 prev_tid; s32 prev_prio; s64 prev_state; char8 next_comm[16]; s32 next_tid; s32 next_prio;";
    WAKING = 1, "sched_waking", "char8 comm[16]; s32 tid; s32 prio; s32 target_cpu;";
    WAKEUP_NEW = 2, "sched_wakeup_new", "char8 comm[16]; s32 tid; s32 prio; s32 target_cpu;";
    MIGRATE = 3, "sched_migrate_task", "char8 comm[16]; s32 tid; s32 prio; s32 orig_cpu; s32 dest_cpu;";
    FORK = 4, "sched_process_fork", "char8 parent_comm[16]; s32 parent_tid; s32 parent_pid; char8 child_comm[16]; s32 child_tid; s32 child_pid;";
    EXEC = 5, "sched_process_exec", "string filename; s32 tid; s32 old_tid;";
    EXIT = 6, "sched_process_exit", "char8 comm[16]; s32 tid; s32 prio;";
    IRQ_ENTRY = 7, "irq_handler_entry", "s32 irq; string name;";
    IRQ_EXIT = 8, "irq_handler_exit", "s32 irq; s32 ret;";
    SOFTIRQ_ENTRY = 9, "irq_softirq_entry", "u32 vec;";
    SOFTIRQ_EXIT = 10, "irq_softirq_exit", "u32 vec;";
    TIMER_ENTRY = 11, "x86_irq_vectors_local_timer_entry", "s32 vector;";
    TIMER_EXIT = 12, "x86_irq_vectors_local_timer_exit", "s32 vector;";
    CALL_ENTRY = 13, "x86_irq_vectors_call_function_single_entry", "s32 vector;";
    CALL_EXIT = 14, "x86_irq_vectors_call_function_single_exit", "s32 vector;";
    BIO_QUEUE = 15, "block_bio_queue", "u32 dev; u64 sector; u32 nr_sector; u32 rwbs; s32 tid; char8 comm[16];";
    BIO_BACKMERGE = 16, "block_bio_backmerge", "u32 dev; u64 sector; u32 nr_sector; u32 rwbs; s32 tid; char8 comm[16];";
    BIO_FRONTMERGE = 17, "block_bio_frontmerge", "u32 dev; u64 sector; u32 nr_sector; u32 rwbs; s32 tid; char8 comm[16];";
    GETRQ = 18, "block_getrq", "u32 dev; u64 sector; u32 nr_sector; u32 rwbs; s32 tid; char8 comm[16];";
    SPLIT = 19, "block_split", "u32 dev; u64 sector; u64 new_sector; u32 rwbs; s32 tid; char8 comm[16];";
    RQ_INSERT = 20, "block_rq_insert", "u32 dev; u64 sector; u32 nr_sector; u32 bytes; s32 tid; u32 rwbs; char8 comm[16];";
    RQ_ISSUE = 21, "block_rq_issue", "u32 dev; u64 sector; u32 nr_sector; u32 bytes; s32 tid; u32 rwbs; char8 comm[16];";
    RQ_COMPLETE = 22, "block_rq_complete", "u32 dev; u64 sector; u32 nr_sector; s32 error; u32 rwbs;";
    RQ_REQUEUE = 23, "block_rq_requeue", "u32 dev; u64 sector; u32 nr_sector; u32 rwbs;";
    RQ_MERGE = 24, "block_rq_merge", "u32 dev; u64 rq_sector; u64 nextrq_sector;";
    REMAP = 25, "block_bio_remap", "u32 dev; u64 sector; u32 nr_sector; u32 old_dev; u64 old_sector; u32 rwbs;";
    DUMP_START = 26, "lttng_statedump_start", "";
    DUMP_PROCESS = 27, "lttng_statedump_process_state", "s32 tid; s32 pid; s32 ppid; char8 name[16]; s32 type; s32 mode; s32 submode; s32 status;";
    DUMP_DISK = 28, "lttng_statedump_block_device", "u32 dev; string diskname;";
    DUMP_END = 29, "lttng_statedump_end", "";
    UNKNOWN_ENTRY = 30, "syscall_entry_unknown", "s32 id;";
    UNKNOWN_EXIT = 31, "syscall_exit_unknown", "s32 id; s64 ret;";
}

/// Numbers of system calls' events begin here: two a call.
const CALLS: u16 = 1024;
/// Numbers of the events that LTTng has no counterpart of begin here.
const OWN: u16 = 8192;

/// Number of a call's entry.
pub fn entry_id(nr: u32) -> u16 {
    CALLS + nr as u16 * 2
}

/// Number of a call's exit.
pub fn exit_id(nr: u32) -> u16 {
    entry_id(nr) + 1
}

/// Name of a call that fits into the numbers.
pub fn call_name(nr: u32) -> Option<&'static str> {
    calls::name(nr).filter(|_| nr < u32::from(OWN - CALLS) / 2)
}

/// What of a call's arguments is known and has a name in LTTng.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arguments {
    /// A descriptor and a length.
    FdCount,
    Fd,
    Nothing,
}

/// Arguments of a call: records have the first and the third.
pub fn arguments(name: &str) -> Arguments {
    match name {
        "read" | "write" | "pread64" | "pwrite64" => Arguments::FdCount,
        "readv" | "writev" | "preadv" | "pwritev" | "preadv2" | "pwritev2" | "fsync" | "fdatasync"
        | "close" | "fallocate" | "ftruncate" | "lseek" | "sync_file_range" | "fadvise64" => Arguments::Fd,
        _ => Arguments::Nothing,
    }
}

/// Number of an event that LTTng has no counterpart of.
pub fn own_id(id: u16) -> u16 {
    OWN + id
}

/// The blocks of plumb's own metadata: by id what stands between the brackets of `fields`.
fn own_fields() -> BTreeMap<u16, (String, String)> {
    let text = Metadata::default().encode();
    let mut out = BTreeMap::new();
    for block in text.split("\nevent {\n").skip(1) {
        let between = |a: &str, b: &str| {
            let from = block.find(a)? + a.len();
            Some(&block[from..from + block[from..].find(b)?])
        };
        let parts = (between("name = \"", "\""), between("id = ", ";"), between("fields := struct {", "}"));
        let (Some(name), Some(id), Some(fields)) = parts else { continue };
        if let Ok(id) = id.parse() {
            out.insert(id, (name.to_string(), fields.trim().to_string()));
        }
    }
    out
}

/// What of the classes was written, besides [`CLASSES`].
#[derive(Debug, Default)]
pub struct Used {
    pub calls: BTreeSet<u32>,
    /// Events that LTTng has no counterpart of, by plumb's number.
    pub own: BTreeSet<u16>,
}

/// The metadata file of a trace whose own is `meta`.
pub fn metadata(meta: &Metadata, used: &Used) -> String {
    let host = Metadata { host: meta.host, clock_offset: meta.clock_offset, env: BTreeMap::new() }.encode();
    // The clock with its offset and the trace block are plumb's own, word for word.
    let block = |name: &str| {
        let from = host.find(&format!("\n{name} {{\n")).unwrap_or(0);
        let to = host[from..].find("\n};").map_or(host.len(), |n| from + n + 3);
        host[from..to].to_string()
    };
    let word = |key: &str| meta.env.get(key).cloned().unwrap_or_default().replace(['"', '\\'], " ");
    let mut out = String::from("/* CTF 1.8 */\n");
    out += &block("trace");
    out += "\n\nenv {\n\tdomain = \"kernel\";\n\ttracer_name = \"lttng-modules\";\n\ttracer_major = 2;\n\
            \ttracer_minor = 13;\n\ttracer_patchlevel = 0;\n";
    for key in ["hostname", "sysname", "kernel_release", "kernel_version"] {
        out += &format!("\t{key} = \"{}\";\n", word(key));
    }
    out += &format!("\texported_by = \"plumb {}\";\n}};\n", env!("CARGO_PKG_VERSION"));
    out += &block("clock");
    out += "\n\n";
    for line in host.lines().filter(|l| l.starts_with("typealias")) {
        out += line;
        out.push('\n');
    }
    out += "\nstream {\n\tid = 0;\n\tpacket.context := struct {\n\
            \t\tts_t timestamp_begin; ts_t timestamp_end;\n\
            \t\tu64 content_size; u64 packet_size; u64 packet_seq_num; u64 events_discarded;\n\
            \t\tu32 cpu_id; u32 reserved;\n\t};\n\
            \tevent.header := struct { ts_t timestamp; u16 id; };\n};\n";
    let mut event = |id: u16, name: &str, fields: &str| {
        out += &format!(
            "event {{\n\tname = \"{name}\"; id = {id}; stream_id = 0;\n\tfields := struct {{ {} }};\n}};\n",
            named(fields)
        );
    };
    for class in CLASSES {
        event(class.id, class.name, class.fields);
    }
    for nr in &used.calls {
        let Some(name) = call_name(*nr) else { continue };
        let fields = match arguments(name) {
            Arguments::FdCount => "s32 fd; u64 count;",
            Arguments::Fd => "s32 fd;",
            Arguments::Nothing => "",
        };
        event(entry_id(*nr), &format!("syscall_entry_{name}"), fields);
        event(exit_id(*nr), &format!("syscall_exit_{name}"), "s64 ret;");
    }
    let own = own_fields();
    for id in &used.own {
        if let Some((name, fields)) = own.get(id) {
            event(own_id(*id), &format!("plumb_{name}"), &format!("s32 tid; {fields}"));
        }
    }
    out
}

/// Fields as they are declared: with the underscore that LTTng puts before a name, so that none is
/// a keyword of the metadata's language; readers take it off.
fn named(fields: &str) -> String {
    let field = |field: &str| {
        let (kind, name) = field.trim().split_once(' ')?;
        Some(format!("{kind} _{name};"))
    };
    fields.split(';').filter_map(field).collect::<Vec<_>>().join(" ")
}
