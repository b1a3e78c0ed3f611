// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The end of a trace: everything is closed and put into rows.

use super::rows::{counters, sample_rows, Rows};
use super::{Model, Setup, NONE};
use crate::account::CATEGORIES;
use crate::block::Blocks;
use crate::parts::{Names, Who};
use crate::result::{
    CpuRow, DeviceRow, HerdResult, JournalResult, ProcessRow, RunResult, ServiceResult, UnexplainedRow,
};
use crate::wait::call_name;
use crate::{CpuState, Naming, Observer};
use plumb_trace::reader::State as TraceState;
use plumb_trace::schema::StateDisk;
use plumb_trace::units;
use std::collections::{HashMap, HashSet};

impl<O: Observer> Model<O> {
    /// Closes everything at the trace's end and hands out what was found.
    pub fn finish(mut self) -> (RunResult, O) {
        let end = if self.setup.end == u64::MAX { self.now } else { self.setup.end.max(self.now) };
        // While their threads are known.
        self.count_samples(end);
        let alive: Vec<usize> = self.index.iter().filter(|i| **i != NONE).map(|i| *i as usize).collect();
        alive.iter().for_each(|at| self.close(*at, end));
        for (tid, since) in self.processes.unanswered() {
            self.serve(tid, since, end);
        }
        alive.iter().for_each(|at| self.bury(*at, end));
        for cpu in 0..self.cpus.len() as u32 {
            self.cpu_becomes(cpu, end, CpuState::Unseen);
        }
        self.blocks.finish(end);
        let cpus = self.cpus.iter().enumerate().map(|(n, c)| CpuRow {
            cpu: n as u32,
            busy: c.totals.busy,
            idle: c.totals.idle,
            interrupts: c.totals.interrupts,
            unseen: c.totals.unseen,
            lost: c.totals.lost,
            switches: c.totals.switches,
        });
        if self.blocks.unseen > 0 {
            self.impossible.insert("request completes of which nothing was seen", self.blocks.unseen);
        }
        let (processes, others, answered) = std::mem::take(&mut self.processes).finish(end);
        let called = processes.iter().map(|(row, _)| (row.pid, row.comm.as_str())).collect();
        self.observer.end(&Called { names: &self.names, setup: &self.setup, processes: called });
        let rows = Rows { names: &self.names, setup: &self.setup };
        let processes: Vec<ProcessRow> = processes
            .into_iter()
            .map(|(row, blame)| ProcessRow { blame: rows.blame(&blame), ..row })
            .collect();
        let targets: HashSet<u32> = processes.iter().map(|p| p.pid).collect();
        let longest = CATEGORIES.iter().map(|(c, ..)| (*c, rows.waits(self.longest.of(*c))));
        let result = RunResult {
            begin: self.setup.begin,
            end,
            events: self.events,
            lost_events: self.lost_events,
            impossible: self.impossible.iter().map(|(k, v)| (k.to_string(), *v)).collect(),
            processes,
            others,
            cpus: cpus.collect(),
            devices: device_rows(&self.blocks, &self.setup, end),
            unexplained: unexplained_rows(&self.unexplained, &self.setup.state),
            path: rows.path(&self.followed, &self.path, &self.whole, &self.served),
            locks: rows.locks(&self.locks),
            patterns: rows.patterns(&self.patterns, &targets),
            samples: sample_rows(&self.samples, &targets),
            synced_files: rows.files(&self.synced),
            retransmits: self.retransmits,
            service: ServiceResult {
                requests: answered.requests,
                time: answered.time,
                longest: answered.longest,
                meanwhile: rows.blame(&self.meanwhile),
                blockers: self.blockers.rows(&self.names),
            },
            peers: rows.blame(&self.peers),
            herds: HerdResult {
                wakeups: self.herds.wakeups,
                futile: self.herds.futile,
                largest: self.herds.largest,
                time: self.herds.time,
            },
            journal: JournalResult { commits: self.journals.totals.commits, time: self.journals.totals.time },
            longest: longest.filter(|(_, waits)| !waits.is_empty()).collect(),
            counters: counters(&self.setup),
            hot: Vec::new(),
        };
        (result, self.observer)
    }
}

/// What numbers mean at the end.
struct Called<'a> {
    names: &'a Names,
    setup: &'a Setup,
    processes: HashMap<u32, &'a str>,
}

impl Naming for Called<'_> {
    fn name(&self, number: u32) -> String {
        self.names.name(number).into()
    }

    fn who(&self, who: Who) -> String {
        match who {
            Who::Nobody => String::new(),
            Who::Name(n) => self.name(n),
            Who::Disk(dev) => disk_name(self.setup, dev),
        }
    }

    fn process(&self, tgid: u32) -> String {
        self.processes.get(&tgid).map(|name| (*name).to_string()).unwrap_or_default()
    }
}

fn disk(setup: &Setup, dev: u32) -> Option<&StateDisk> {
    setup.state.disks.iter().find(|s| s.dev == dev)
}

fn disk_name(setup: &Setup, dev: u32) -> String {
    disk(setup, dev).map_or_else(|| units::device(dev), |d| d.name.clone())
}

fn device_rows(blocks: &Blocks, setup: &Setup, end: u64) -> Vec<DeviceRow> {
    let elapsed = (end - setup.begin).max(1) as f64;
    let mut rows: Vec<DeviceRow> = blocks
        .devices
        .iter()
        .map(|(dev, d)| {
            let n = (d.requests[0] + d.requests[1]).max(1) as f64;
            DeviceRow {
                name: disk_name(setup, *dev),
                dev: *dev,
                backing: disk(setup, *dev).map_or(String::new(), |d| d.backing.clone()),
                reads: d.requests[0],
                writes: d.requests[1],
                read_bytes: d.bytes[0],
                write_bytes: d.bytes[1],
                discards: d.discards[0],
                discard_bytes: d.discards[1],
                flushes: d.flushes,
                merges: d.merges,
                requeues: d.requeues,
                errors: d.errors,
                busy: d.busy,
                mean_in_flight: d.area as f64 / elapsed,
                max_in_flight: d.max_in_flight,
                q2g: d.layers[0] as f64 / n,
                g2i: d.layers[1] as f64 / n,
                flush: d.layers[2] as f64 / n,
                i2d: d.layers[3] as f64 / n,
                d2c: d.layers[4] as f64 / n,
            }
        })
        .collect();
    rows.sort_by_key(|r| r.dev);
    rows
}

fn unexplained_rows(found: &HashMap<(u32, i64), (u64, u64)>, state: &TraceState) -> Vec<UnexplainedRow> {
    let mut rows: Vec<UnexplainedRow> = found
        .iter()
        .map(|((stack, nr), (waits, time))| UnexplainedRow {
            syscall: u32::try_from(*nr).map_or_else(|_| "-".into(), call_name),
            stack: state
                .stacks
                .iter()
                .find(|s| s.stack == *stack)
                .map(|s| s.text.split(';').map(String::from).collect())
                .unwrap_or_default(),
            waits: *waits,
            time: *time,
        })
        .collect();
    rows.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.syscall.cmp(&b.syscall)));
    rows
}
