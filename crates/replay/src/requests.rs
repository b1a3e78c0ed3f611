// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recorded trace's requests, as tasks of a simulation.
//!
//! Data flows: trace -> the model's requests (Q, I, D, C with their bios) -> what each thread queued and when
//! that ended -> plumb_sim's scripts.

use anyhow::{bail, Context, Result};
use plumb_model::requests::{Bio, Request, Requests, Step};
use plumb_sim::device::Operation;
use plumb_sim::queue::task::{scripts, Recorded};
use plumb_sim::queue::{Class, Hints};
use plumb_sim::replay::Replay;
use plumb_trace::kernel::{ioprio, req};
use plumb_trace::reader::Trace;
use plumb_trace::units;
use std::collections::BTreeMap;
use std::path::Path;

/// Reads a trace; `disk` chooses one where requests went to several; `max_request` is the longest that is simulated.
///
/// # Errors
/// No trace, no requests in it, several disks, or a disk that had none; named.
pub fn read(dir: &Path, disk: Option<&str>, max_request: u64) -> Result<Replay> {
    let trace = Trace::open(dir).with_context(|| format!("--from {}: no run and no trace", dir.display()))?;
    let recorded = trace.metadata.env.get("events").map_or("", String::as_str);
    let needs = ["block_bio_queue", "block_rq_issue", "block_rq_complete"];
    if let Some(lacks) = needs.iter().find(|n| !recorded.split(',').any(|r| r == **n)) {
        bail!("--from {}: the trace lacks {lacks}: record with -e block", dir.display());
    }
    let mut all = Found::default();
    let mut requests = Requests::default();
    let summary = trace.for_each(|item| {
        if let Step::Completed(request, ..) = requests.feed(&item) {
            all.take(request);
        }
    })?;
    let name = |dev: u32| {
        let known = trace.state.disks.iter().find(|d| d.dev == dev);
        known.map_or_else(|| units::device(dev), |d| d.name.clone())
    };
    let Some(dev) = choose(&all, disk.map(|d| d.trim_start_matches("/dev/")), &name)
        .with_context(|| format!("--from {}", dir.display()))?
    else {
        bail!("--from {}: no request of any disk was recorded from its beginning to its end", dir.display());
    };
    let begin = summary.begin;
    let mut own = all.of.remove(&dev).unwrap_or_default();
    for r in &mut own {
        (r.queued, r.ended) = (r.queued.saturating_sub(begin), r.ended.saturating_sub(begin));
    }
    let scheduler = trace.state.disks.iter().find(|d| d.dev == dev).map(|d| d.scheduler.clone());
    let threads = scripts(own.clone()).len();
    Ok(Replay {
        dir: dir.display().to_string(),
        disk: name(dev),
        scheduler: scheduler.unwrap_or_default(),
        operations: own.len(),
        split: own.iter().filter(|r| u64::from(r.length) > max_request).count(),
        threads,
        left_out: all.left_out,
        unknown: all.unknown,
        lost: summary.lost(),
        recorded: own,
    })
}

fn choose(all: &Found, wanted: Option<&str>, name: &dyn Fn(u32) -> String) -> Result<Option<u32>> {
    let names = || all.of.keys().map(|dev| name(*dev)).collect::<Vec<_>>().join(", ");
    match wanted {
        Some(wanted) => match all.of.keys().find(|dev| name(**dev) == wanted) {
            Some(dev) => Ok(Some(*dev)),
            None if all.of.is_empty() => Ok(None),
            None => bail!("no request went to {wanted}; requests went to {}", names()),
        },
        None if all.of.len() > 1 => {
            bail!("requests went to several disks; choose one with --from-disk: {}", names())
        }
        None => Ok(all.of.keys().next().copied()),
    }
}

/// What a pass over the trace found, by disk.
#[derive(Default)]
struct Found {
    of: BTreeMap<u32, Vec<Recorded>>,
    left_out: u64,
    unknown: u64,
}

impl Found {
    fn take(&mut self, request: &Request) {
        // A flush of the kernel's own has no bios: those that asked for it are told on their own.
        if request.bios.is_empty() {
            self.unknown += u64::from(request.len > 0);
            return;
        }
        for bio in &request.bios {
            match recorded(request, bio) {
                Some(r) => self.of.entry(request.dev).or_default().push(r),
                None => self.left_out += 1,
            }
        }
    }
}

fn recorded(request: &Request, bio: &Bio) -> Option<Recorded> {
    let asked = Asked { opf: bio.opf, sector: bio.sector, len: bio.len, ioprio: request.ioprio };
    asked.recorded(bio.owner, bio.q, request.c)
}

/// What a bio or a request asks for, in the kernel's words.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    pub opf: u32,
    /// First sector.
    pub sector: u64,
    /// Bytes.
    pub len: u32,
    pub ioprio: u32,
}

impl Asked {
    /// Of a thread, queued and ended at these moments, ns; `None` of what a simulation cannot do.
    pub fn recorded(&self, owner: u32, queued: u64, ended: u64) -> Option<Recorded> {
        let flush_before = self.opf & req::PREFLUSH != 0;
        let operation = match req::op(self.opf) {
            req::WRITE if self.len == 0 && flush_before => Operation::Flush,
            // A damaged record: what has no bytes never ends.
            req::READ | req::WRITE | req::DISCARD if self.len == 0 => return None,
            req::READ => Operation::Read,
            req::WRITE => Operation::Write,
            req::FLUSH => Operation::Flush,
            req::DISCARD => Operation::Discard,
            _ => return None,
        };
        let class = match ioprio::class(self.ioprio) {
            ioprio::REALTIME => Class::RealTime,
            ioprio::IDLE => Class::Idle,
            _ => Class::BestEffort,
        };
        let has = |flags: u32| self.opf & flags == flags;
        Some(Recorded {
            owner,
            operation,
            offset: if operation == Operation::Flush { 0 } else { self.sector << 9 },
            length: if operation == Operation::Flush { 0 } else { self.len },
            fua: has(req::FUA),
            flush_before: flush_before && operation == Operation::Write,
            class,
            hints: Hints {
                direct: operation == Operation::Read || has(req::SYNC | req::IDLE),
                sync: operation == Operation::Read || has(req::SYNC),
                meta: self.opf & (req::META | req::PRIO) != 0,
            },
            queued,
            ended,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(opf: u32, ioprio: u32, len: u32) -> Request {
        let mut bio = Bio::default();
        (bio.opf, bio.len, bio.sector, bio.owner, bio.q) = (opf, len, 8, 5, 10);
        let mut request = Request::default();
        (request.ioprio, request.c, request.len) = (ioprio, 30, len);
        request.bios = vec![bio];
        request
    }

    #[test]
    fn flags_and_classes_are_those_of_the_kernel() {
        let of = |opf, ioprio, len| {
            let request = request(opf, ioprio, len);
            recorded(&request, &request.bios[0])
        };
        let direct = of(1 | req::SYNC | req::IDLE, 3 << 13, 4096).expect("a write");
        assert_eq!((direct.class, direct.hints.direct, direct.offset), (Class::Idle, true, 4096));
        assert_eq!((direct.queued, direct.ended, direct.owner), (10, 30, 5));
        let back = of(1, 2 << 13 | 4, 4096).expect("a write");
        assert_eq!((back.class, back.hints.sync, back.hints.direct), (Class::BestEffort, false, false));
        let journal = of(1 | req::SYNC | req::META | req::FUA | req::PREFLUSH, 0, 4096).expect("a write");
        assert!(journal.fua && journal.flush_before && journal.hints.meta);
        let flush = of(1 | req::SYNC | req::PREFLUSH, 0, 0).expect("a flush");
        assert_eq!((flush.operation, flush.flush_before, flush.length), (Operation::Flush, false, 0));
        assert_eq!(of(9, 0, 4096), None);
        assert!(of(0, 1 << 13, 512).is_some_and(|r| r.class == Class::RealTime && !r.hints.meta));
    }
}
