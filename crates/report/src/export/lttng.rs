// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A CTF 1.8 trace as LTTng's kernel tracer writes it, for Trace Compass and what else reads those.
//!
//! Records get the names and fields of lttng-modules; what it has no counterpart of keeps plumb's
//! fields under the name `plumb_NAME`. One pass; memory is bounded by the threads that live and the
//! requests that are pending.

mod blocks;
mod classes;
mod events;
mod packets;

use anyhow::{bail, Context, Result};
use events::{Fields, Maker};
use packets::Streams;
use plumb_model::sched::Switch;
use plumb_model::tasks::{At, Step, Tasks};
use plumb_trace::reader::{Item, State, Trace};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Events: a record is one.
    pub events: u64,
    /// Events that tell the state at the beginning.
    pub statedump: u64,
    /// Of the events, those that LTTng has no counterpart of.
    pub own: u64,
    /// Of those, events of bios and requests whose begin was not seen.
    pub without_sector: u64,
    /// Events that the recording lost, as the packets tell.
    pub lost: u64,
    /// Intervals in which they were lost.
    pub gaps: u64,
}

/// What lttng-statedump-impl.c calls a thread's kind, mode and status; a status that it has no word
/// for stands for one that is not known.
mod dump {
    pub const SYSCALL: i32 = 1;
    pub const MODE_UNKNOWN: i32 = 5;
    pub const SUBMODE_UNKNOWN: i32 = 1;
    pub const UNNAMED: i32 = 0;
}

/// Tells the state at the beginning, at `ts` in the stream of `cpu`.
fn statedump(state: &State, cpu: u32, ts: u64, out: &mut Streams) -> u64 {
    let mut count = 0;
    let mut event = |id: u16, fields: &Fields| {
        out.event(cpu, ts, id, &fields.0);
        count += 1;
    };
    event(classes::DUMP_START, &Fields::default());
    for task in Tasks::first(state) {
        let mut f = Fields::default();
        f.s32(task.tid as i32).s32(task.tgid as i32).s32(task.ppid as i32).comm(&task.comm);
        let mode = if task.syscall >= 0 { dump::SYSCALL } else { dump::MODE_UNKNOWN };
        f.s32(task.kernel.into()).s32(mode).s32(dump::SUBMODE_UNKNOWN).s32(dump::UNNAMED);
        event(classes::DUMP_PROCESS, &f);
    }
    for disk in &state.disks {
        let mut f = Fields::default();
        f.u32(disk.dev).text(&disk.name);
        event(classes::DUMP_DISK, &f);
    }
    event(classes::DUMP_END, &Fields::default());
    count
}

/// Writes a trace into `dir`, a directory that exists and is empty.
///
/// # Errors
/// A stream of the trace cannot be opened; a file cannot be written, named; `stop` was set meanwhile.
pub fn write(trace: &Trace, dir: &Path, stop: &AtomicBool) -> Result<Written> {
    let mut out = Streams::new(dir);
    let mut maker = Maker::new(Tasks::new(&trace.state, At::Begin));
    let mut written = Written::default();
    // Before every event, or a reader would have two threads of one number.
    let first = trace.first_events().into_iter().min().unwrap_or(0);
    let cpu = trace.cpus().first().copied().unwrap_or(0);
    written.statedump = statedump(&trace.state, cpu, first, &mut out);
    let summary = trace.for_each(|item| {
        if out.failed() || stop.load(Ordering::Relaxed) {
            return;
        }
        match item {
            Item::Record(r) => {
                maker.tasks.learn_priorities(&r);
                if let Some(step) = Step::read(&r) {
                    maker.tasks.learn(&step);
                }
                let (id, fields) = maker.event(&r);
                out.event(r.cpu, r.ts, id, fields);
                written.events += 1;
                written.own += u64::from(id >= classes::own_id(0));
                if let Some(tid) = Switch::ended(&r) {
                    maker.tasks.forget(tid);
                }
            }
            Item::Gap(gap) => out.lost(gap.cpu, gap.begin, gap.lost),
            Item::Told(_) | Item::Operation(_) => {}
        }
    })?;
    if stop.load(Ordering::Relaxed) {
        bail!("stopped before all of it was written");
    }
    out.finish()?;
    written.lost = summary.lost();
    written.gaps = summary.gaps.len() as u64;
    written.without_sector = maker.without_sector;
    let path = dir.join("metadata");
    std::fs::write(&path, classes::metadata(&trace.metadata, &maker.used))
        .with_context(|| format!("{}: cannot be written", path.display()))?;
    Ok(written)
}
