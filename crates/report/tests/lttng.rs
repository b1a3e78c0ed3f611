// SPDX-License-Identifier: Apache-2.0 OR MIT
//! babeltrace2 reads what was exported as LTTng's: every record once, at its time, with the fields
//! that Trace Compass asks for.

mod common;

use plumb_report::export::lttng;
use plumb_trace::ctf::Metadata;
use plumb_trace::event_by_name;
use plumb_trace::reader::{Item, Trace};
use plumb_trace::schema::{SchedSwitch, SysEnter, SysExit};
use plumb_trace::writer::{DirectorySink, TraceWriter};
use plumb_trace::Record;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::AtomicBool;

/// plumb's names and LTTng's, of the events that both have.
const NAMES: &[(&str, &str)] = &[
    ("sched_switch", "sched_switch"),
    ("sched_waking", "sched_waking"),
    ("sched_wakeup_new", "sched_wakeup_new"),
    ("sched_migrate", "sched_migrate_task"),
    ("sched_fork", "sched_process_fork"),
    ("sched_exec", "sched_process_exec"),
    ("sched_exit", "sched_process_exit"),
    ("irq_handler_entry", "irq_handler_entry"),
    ("irq_handler_exit", "irq_handler_exit"),
    ("softirq_entry", "irq_softirq_entry"),
    ("softirq_exit", "irq_softirq_exit"),
    ("local_timer_entry", "x86_irq_vectors_local_timer_entry"),
    ("local_timer_exit", "x86_irq_vectors_local_timer_exit"),
    ("call_function_single_entry", "x86_irq_vectors_call_function_single_entry"),
    ("call_function_single_exit", "x86_irq_vectors_call_function_single_exit"),
    ("block_bio_queue", "block_bio_queue"),
    ("block_bio_backmerge", "block_bio_backmerge"),
    ("block_bio_frontmerge", "block_bio_frontmerge"),
    ("block_getrq", "block_getrq"),
    ("block_split", "block_split"),
    ("block_rq_insert", "block_rq_insert"),
    ("block_rq_issue", "block_rq_issue"),
    ("block_rq_complete", "block_rq_complete"),
    ("block_rq_requeue", "block_rq_requeue"),
    ("block_rq_merge", "block_rq_merge"),
    ("block_bio_remap", "block_bio_remap"),
];

/// What Trace Compass's analyses ask for: `class: event fields`. Its layout for LTTng 2.9 and later
/// names them (`LttngEventLayout`, `Lttng29EventLayout`).
const NEEDED: &str = "\
KernelStateProvider: sched_switch prev_comm prev_tid prev_prio prev_state next_comm next_tid next_prio
KernelStateProvider: sched_waking tid target_cpu prio comm
KernelStateProvider: sched_wakeup_new tid target_cpu prio comm
KernelStateProvider: sched_migrate_task tid orig_cpu dest_cpu
KernelStateProvider: sched_process_fork parent_tid parent_pid parent_comm child_tid child_pid child_comm
KernelStateProvider: sched_process_exec filename tid
KernelStateProvider: sched_process_exit tid comm
KernelStateProvider: irq_handler_entry irq name
KernelStateProvider: irq_handler_exit irq
KernelStateProvider: irq_softirq_entry vec
KernelStateProvider: irq_softirq_exit vec
KernelStateProvider: x86_irq_vectors_call_function_single_entry vector
KernelStateProvider: x86_irq_vectors_call_function_single_exit vector
KernelStateProvider: x86_irq_vectors_local_timer_entry vector
KernelStateProvider: syscall_entry_write fd count
KernelStateProvider: syscall_exit_write ret
KernelStateProvider: lttng_statedump_process_state tid pid ppid name type mode submode status
TraceEventHandlerExecutionGraph: sched_switch prev_tid prev_state next_tid next_comm
TraceEventHandlerExecutionGraph: sched_waking tid
TraceEventHandlerExecutionGraph: irq_softirq_entry vec
InputOutputStateProvider: block_rq_insert dev sector nr_sector rwbs
InputOutputStateProvider: block_rq_issue dev sector nr_sector rwbs
InputOutputStateProvider: block_rq_complete dev sector nr_sector rwbs
InputOutputStateProvider: block_bio_frontmerge dev sector nr_sector rwbs
InputOutputStateProvider: block_rq_merge dev rq_sector nextrq_sector
InputOutputStateProvider: lttng_statedump_block_device dev diskname
InputOutputStateProvider: syscall_exit_write ret";

fn export(trace: &Trace, dir: &Path) -> lttng::Written {
    lttng::write(trace, dir, &AtomicBool::new(false)).expect("exported")
}

/// babeltrace2's output for a trace, times as CLOCK_MONOTONIC; `None`, told, where it is not installed.
fn babeltrace(test: &str, dir: &Path) -> Option<Output> {
    match Command::new("babeltrace2").args(["--clock-cycles", "--no-delta"]).arg(dir).output() {
        Ok(output) => Some(output),
        Err(e) => {
            println!("SKIP {test}: babeltrace2 cannot be run: {e}");
            None
        }
    }
}

/// One line of babeltrace2: time, name, CPU, fields.
fn line(line: &str) -> (u64, String, u32, String) {
    let (time, rest) = line.strip_prefix('[').and_then(|l| l.split_once("] ")).expect(line);
    let (name, rest) = rest.split_once(": { cpu_id = ").expect(line);
    let (cpu, fields) =
        rest.split_once(", reserved = 0 }, { ").or(rest.split_once(", reserved = 0 }, {")).expect(line);
    let name = name.rsplit(' ').next().expect(line).to_string();
    let fields = fields.trim_end_matches('}').trim().to_string();
    (time.trim_start_matches('0').parse().expect(line), name, cpu.parse().expect(line), fields)
}

/// Value of a field in babeltrace2's text.
fn field<'a>(fields: &'a str, name: &str) -> Option<&'a str> {
    fields.split(", ").find_map(|f| f.trim().strip_prefix(name)?.strip_prefix(" = "))
}

/// By CPU, records in their order: time and the name that they have in the export.
fn recorded(trace: &Trace) -> BTreeMap<u32, Vec<(u64, String)>> {
    let names: BTreeMap<u16, &str> =
        NAMES.iter().map(|(own, theirs)| (event_by_name(own).expect("an event").id, *theirs)).collect();
    let mut out: BTreeMap<u32, Vec<(u64, String)>> = BTreeMap::new();
    trace
        .for_each(|item| {
            let Item::Record(r) = item else { return };
            let call = |nr: u32| plumb_trace::calls::name(nr).unwrap_or("unknown");
            let name = match r.id {
                SysEnter::ID => format!("syscall_entry_{}", call(SysEnter::read(r.bytes).nr)),
                SysExit::ID => format!("syscall_exit_{}", call(SysExit::read(r.bytes).nr)),
                id => names.get(&id).map_or_else(
                    || {
                        let own = plumb_trace::EVENTS.iter().find(|e| e.id == id).expect("of the schema");
                        format!("plumb_{}", own.name)
                    },
                    ToString::to_string,
                ),
            };
            out.entry(r.cpu).or_default().push((r.ts, name));
        })
        .expect("readable");
    out
}

#[test]
fn every_record_is_there_once_at_its_time() {
    for name in common::TRACES {
        let trace = common::open(name);
        let dir = tempfile::tempdir().expect("a directory");
        let written = export(&trace, dir.path());
        let Some(output) = babeltrace("every_record_is_there_once_at_its_time", dir.path()) else { return };
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stderr.is_empty(), "{name}: {stderr}");
        let mut seen: BTreeMap<u32, Vec<(u64, String)>> = BTreeMap::new();
        let (mut before, mut statedump) = (0, 0);
        for text in String::from_utf8_lossy(&output.stdout).lines() {
            let (ts, event, cpu, _) = line(text);
            assert!(ts >= before, "{name}: time goes back: {text}");
            before = ts;
            if event.starts_with("lttng_statedump_") {
                statedump += 1;
            } else {
                seen.entry(cpu).or_default().push((ts, event));
            }
        }
        let told = recorded(&trace);
        assert_eq!(statedump, written.statedump, "{name}");
        assert_eq!(told.values().map(|v| v.len() as u64).sum::<u64>(), written.events, "{name}");
        assert_eq!(seen.keys().collect::<Vec<_>>(), told.keys().collect::<Vec<_>>(), "{name}: CPUs");
        for (cpu, told) in &told {
            // What begins before the trace has no sector: then plumb's own name is kept.
            let same = |(a, b): (&(u64, String), &(u64, String))| {
                a.0 == b.0 && (a.1 == b.1 || a.1 == format!("plumb_{}", b.1))
            };
            let differs = seen[cpu].iter().zip(told).find(|pair| !same(*pair));
            assert_eq!((differs, seen[cpu].len()), (None, told.len()), "{name}: CPU {cpu}");
        }
    }
}

#[test]
fn the_metadata_has_what_trace_compass_needs() {
    // A trace with writes and requests; the classes of LTTng are always declared.
    let trace = common::open("write-fsync");
    let dir = tempfile::tempdir().expect("a directory");
    export(&trace, dir.path());
    let text = std::fs::read_to_string(dir.path().join("metadata")).expect("metadata");
    for part in [
        "domain = \"kernel\";",
        "tracer_name = \"lttng-modules\";",
        "tracer_major = 2;",
        "tracer_minor = 13;",
        "u32 cpu_id;",
        "u64 events_discarded;",
        "u64 packet_seq_num;",
    ] {
        assert!(text.contains(part), "{part}");
    }
    let own = std::fs::read_to_string(common::path("write-fsync").join("metadata")).expect("metadata");
    let uuid = |text: &str| text.lines().find(|l| l.trim().starts_with("uuid = ")).map(str::to_string);
    assert!(uuid(&own).is_some() && uuid(&own) == uuid(&text), "the clock's uuid is the host's");
    for need in NEEDED.lines() {
        let mut words = need.split_whitespace();
        let (class, event) = (words.next().expect(need), words.next().expect(need));
        let block = text.find(&format!("name = \"{event}\";")).map(|at| &text[at..]);
        let block = block.unwrap_or_else(|| panic!("{class} needs the event {event}"));
        let fields = &block[..block.find("\n};").expect(event)];
        for field in words {
            assert!(
                fields.contains(&format!(" _{field};")) || fields.contains(&format!(" _{field}[")),
                "{class} needs {event}'s field {field}: {fields}"
            );
        }
    }
}

#[test]
fn fields_say_what_the_records_say() {
    let trace = common::open("write-fsync");
    let dir = tempfile::tempdir().expect("a directory");
    export(&trace, dir.path());
    let Some(output) = babeltrace("fields_say_what_the_records_say", dir.path()) else { return };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<_> = text.lines().map(line).collect();
    let number = |fields: &str, name: &str| -> i64 {
        field(fields, name).and_then(|v| v.parse().ok()).unwrap_or_else(|| panic!("{name} in {fields}"))
    };
    let mut switches = lines.iter().filter(|l| l.1 == "sched_switch");
    let mut writes = 0;
    trace
        .for_each(|item| {
            let Item::Record(r) = item else { return };
            if r.id != SchedSwitch::ID {
                return;
            }
            let e = SchedSwitch::read(r.bytes);
            // In the order of time both are sorted alike, CPUs by their number.
            let (ts, _, cpu, fields) = switches.next().expect("a switch");
            assert_eq!((*ts, *cpu), (r.ts, r.cpu));
            assert_eq!(number(fields, "prev_tid"), i64::from(e.tid));
            assert_eq!(number(fields, "next_tid"), i64::from(e.next_tid));
            assert_eq!(number(fields, "next_prio"), i64::from(e.next_prio));
            let ready = e.preempt == 1 || e.prev_state == 0;
            assert_eq!(number(fields, "prev_state") == 0, ready, "{fields}");
            writes += 1;
        })
        .expect("readable");
    assert!(writes > 0 && switches.next().is_none());
    // The kernel's own numbers of a request: what is issued is completed, sector by sector.
    let of = |event: &str| -> Vec<(i64, i64, i64)> {
        let mut all: Vec<_> = lines
            .iter()
            .filter(|l| l.1 == event && number(&l.3, "nr_sector") > 0)
            .map(|l| (number(&l.3, "dev"), number(&l.3, "sector"), number(&l.3, "rwbs")))
            .collect();
        all.sort_unstable();
        all
    };
    let (issued, completed) = (of("block_rq_issue"), of("block_rq_complete"));
    assert!(!issued.is_empty());
    assert!(issued.iter().filter(|i| completed.contains(i)).count() * 10 > issued.len() * 9, "{issued:?}");
    assert!(issued.iter().any(|(_, _, rwbs)| rwbs & 1 == 1), "there are writes among them");
    let named = lines.iter().filter(|l| l.1 == "sched_switch").filter_map(|l| field(&l.3, "next_comm"));
    assert!(named.clone().all(|n| n.len() > 2), "every thread has a name");
    let call = lines.iter().find(|l| l.1 == "syscall_exit_fsync").expect("an fsync");
    assert_eq!(number(&call.3, "ret"), 0);
}

#[test]
fn lost_events_are_told_where_they_were_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    let (own, out) = (dir.path().join("own"), dir.path().join("out"));
    let mut meta = Metadata::default();
    meta.env.insert("events".into(), "sched_switch".into());
    let sink = DirectorySink::create(&own, &meta).expect("a trace");
    let mut writer = TraceWriter::new(sink, 2, 1000);
    let switch = |ts: u64| SchedSwitch { ts, id: SchedSwitch::ID, lap: 1, next_tid: 7, ..Default::default() };
    for ts in [2000, 3000] {
        writer.record(0, switch(ts).bytes()).expect("written");
    }
    writer.lost(0, 5).expect("written");
    writer.record(0, switch(9000).bytes()).expect("written");
    writer.lost(1, 3).expect("written");
    writer.record(1, switch(5000).bytes()).expect("written");
    writer.finish().expect("written");
    let trace = Trace::open(&own).expect("a trace");
    std::fs::create_dir(&out).expect("made");
    let written = export(&trace, &out);
    assert_eq!((written.events, written.lost, written.gaps), (4, 8, 2));
    let Some(output) = babeltrace("lost_events_are_told_where_they_were_lost", &out) else { return };
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    for words in ["discarded 5 events", "discarded 3 events"] {
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let times: Vec<u64> = text.lines().map(line).filter(|l| l.1 == "sched_switch").map(|l| l.0).collect();
    assert_eq!(times, [2000, 3000, 5000, 9000]);
}
