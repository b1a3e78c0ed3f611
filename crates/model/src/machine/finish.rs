// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The end of a trace: everything is closed and put into rows.

use super::rows::{counters, sample_rows, Rows};
use super::Model;
use crate::account::CATEGORIES;
use crate::block::Blocks;
use crate::connections::Answered;
use crate::ledger::Ledger;
use crate::parts::{Names, Who};
use crate::process::Sum;
use crate::result::{
    CpuRow, DeviceRow, JournalResult, ProcessRow, RunResult, ServiceResult, ServiceRun, TriggerRow,
    UnexplainedRow,
};
use crate::services::Service;
use crate::setup::Setup;
use crate::wait::call_name;
use crate::{CpuState, Naming, Observer};
use plumb_trace::reader::State as TraceState;
use plumb_trace::schema::StateDisk;
use plumb_trace::units;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Services in a result, those with most CPU time.
const MOST_SERVICES: usize = 16;

impl<O: Observer> Model<O> {
    /// Closes everything at the trace's end and hands out what was found.
    pub fn finish(mut self) -> (RunResult, O) {
        if !self.begun {
            self.begin();
        }
        if !self.counting {
            self.count_from_here();
        }
        let end = if self.refusal().is_some() { self.now } else { self.end() };
        // Of a recording that was cut off it may be the last that is known.
        let end = end.max(self.pauses.now.map_or(0, |(_, paused)| paused));
        // While their threads are known.
        self.count_samples(end);
        self.resume(u64::MAX);
        let alive = self.index.places();
        alive.iter().for_each(|at| self.close(*at, end));
        for (tid, since) in self.processes.unanswered() {
            if let Some(at) = self.known(tid) {
                self.serve(at, since, end);
            }
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
        let finished = std::mem::take(&mut self.processes).finish(end);
        let called = finished.rows.iter().map(|(row, _)| (row.pid, row.comm.as_str())).collect();
        self.observer.end(&Called { names: &self.names, setup: &self.setup, processes: called });
        let rows = Rows { names: &self.names, setup: &self.setup };
        let processes: Vec<ProcessRow> = finished
            .rows
            .into_iter()
            .map(|(row, blame)| ProcessRow { blame: rows.blame(&blame), ..row })
            .collect();
        let common = RunResult {
            begin: self.setup.begin,
            end,
            everyone: self.setup.everyone,
            events: self.events,
            lost_events: self.lost_events,
            paused: self.pauses.time,
            impossible: self.impossible.iter().map(|(k, v)| (k.to_string(), *v)).collect(),
            cpus: cpus.collect(),
            devices: device_rows(&self.blocks, &self.setup, end.saturating_sub(self.pauses.time)),
            retransmits: self.retransmits,
            retransmit_waiters: self.setup.retransmit_waiters,
            journal: JournalResult { commits: self.journals.totals.commits, time: self.journals.totals.time },
            counters: counters(&self.setup),
            ..RunResult::default()
        };
        let services = self.services(&rows, &common, finished.services);
        let mut all = Ledger::default();
        self.ledgers.iter().for_each(|l| all.merge(l));
        let targets: HashSet<u32> = processes.iter().map(|p| p.pid).collect();
        let (spans, wait_events) = self.span_rows(&|dev| disk_name(&self.setup, dev));
        let trigger = self.setup.trigger().map(|t| TriggerRow {
            condition: t.condition.clone(),
            at: t.begin.saturating_sub(self.setup.begin),
            time: t.end.saturating_sub(t.begin),
            before: self.setup.begin.min(t.end).saturating_sub(t.begin),
            tid: t.thread,
            comm: self.called(t.thread),
            parts: rows.blame(&self.triggered.parts),
        });
        let result = RunResult {
            trigger,
            spans,
            wait_events,
            others: finished.others,
            unexplained: unexplained_rows(&self.unexplained, &self.setup.state),
            services,
            ..self.part(&rows, &common, &all, None, &targets, (processes, finished.answered))
        };
        (result, self.observer)
    }

    /// The name of who fired a trigger; empty of the idle thread, and where it was not seen.
    fn called(&self, tid: u32) -> String {
        let seen = self.remembered(tid).map(|at| self.threads[at].called).filter(|_| tid != 0);
        self.triggered.name.or(seen).map_or_else(String::new, |name| self.names.name(name).into())
    }

    /// What threads of the target did, of a service or of all.
    fn part(
        &self,
        rows: &Rows<'_>,
        common: &RunResult,
        ledger: &Ledger,
        service: Option<Service>,
        targets: &HashSet<u32>,
        (processes, answered): (Vec<ProcessRow>, Answered),
    ) -> RunResult {
        let longest = CATEGORIES.iter().map(|(c, ..)| (*c, rows.waits(ledger.longest.of(*c))));
        let command = service.is_none().then_some((&self.followed, &self.path));
        RunResult {
            processes,
            path: rows.path(command, &ledger.whole, &ledger.served),
            locks: rows.locks(&self.locks, service),
            patterns: rows.patterns(&self.patterns, targets),
            samples: sample_rows(&self.samples, targets),
            synced_files: rows.files(&self.synced, service),
            service: ServiceResult {
                requests: answered.requests,
                time: answered.time,
                longest: answered.longest,
                unread: self.setup.reads.then_some(answered.unread),
                meanwhile: rows.blame(&ledger.meanwhile),
                blockers: ledger.blockers.rows(&self.names),
            },
            peers: rows.blame(&ledger.peers),
            herds: ledger.herds.found.clone(),
            over_quota: ledger.over_quota,
            longest: longest.filter(|(_, waits)| !waits.is_empty()).collect(),
            ..common.clone()
        }
    }

    /// Each service that was busy, as a run of its own.
    fn services(
        &self,
        rows: &Rows<'_>,
        common: &RunResult,
        sums: FxHashMap<Service, Sum>,
    ) -> Vec<ServiceRun> {
        let mut sums: Vec<(Service, Sum)> = sums.into_iter().collect();
        let busy =
            |sum: &Sum| -> u64 { sum.row.account.iter().filter(|(c, _)| !c.rests()).map(|(_, ns)| ns).sum() };
        sums.sort_by_key(|(service, sum)| (Reverse(sum.row.usage.cpu_used), *service));
        let names: FxHashMap<Service, &str> = self.services.names().collect();
        let run = |(service, sum): (Service, Sum)| {
            let name = (*names.get(&service)?).to_string();
            let pids: BTreeSet<u32> = self.services.processes(service).collect();
            let targets: HashSet<u32> = pids.iter().copied().collect();
            let row = ProcessRow { comm: name.clone(), ..sum.row };
            let ledger = self.ledgers.get(service as usize)?;
            let result = self.part(rows, common, ledger, Some(service), &targets, (vec![row], sum.answered));
            Some(ServiceRun { name, pids, processes: sum.processes, result })
        };
        let shown = |sum: &Sum| busy(sum) > 0 || !self.setup.comms.is_empty();
        sums.into_iter().filter(|(_, sum)| shown(sum)).take(MOST_SERVICES).filter_map(run).collect()
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
    let elapsed = end.saturating_sub(setup.begin).max(1) as f64;
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

fn unexplained_rows(found: &FxHashMap<(u32, i64), (u64, u64)>, state: &TraceState) -> Vec<UnexplainedRow> {
    // A stack may have been told several times.
    let mut sums: BTreeMap<(String, &str), (u64, u64)> = BTreeMap::new();
    for ((stack, nr), (waits, time)) in found {
        let syscall = u32::try_from(*nr).map_or_else(|_| "-".into(), call_name);
        let text = state.stacks.iter().find(|s| s.stack == *stack).map_or("", |s| &s.text);
        let sum = sums.entry((syscall, text)).or_default();
        *sum = (sum.0 + waits, sum.1 + time);
    }
    let row = |((syscall, text), (waits, time)): ((String, &str), (u64, u64))| {
        let stack = text.split(';').filter(|f| !f.is_empty()).map(String::from).collect();
        UnexplainedRow { syscall, stack, waits, time }
    };
    let mut rows: Vec<UnexplainedRow> = sums.into_iter().map(row).collect();
    rows.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.syscall.cmp(&b.syscall)));
    rows
}
