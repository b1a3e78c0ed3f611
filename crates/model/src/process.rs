// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes: what their threads' accounts and requests add up to.

mod folded_rows;

pub use folded_rows::{add_process, add_thread};

use crate::account::{Account, Category};
use crate::connections::{Answered, Connections, Exchange, Expects, Side};
use crate::disk::Disk;
use crate::files::{Files, Kind, Kinds};
use crate::operations::Operations;
use crate::parts::Parts;
use crate::result::{OtherRow, ProcessRow, SyscallRow, ThreadRow, Use};
use crate::services::Service;
use crate::thread::{Call, Thread};
use crate::wait::call_name;
use folded_rows::{push_thread, Rows};
use plumb_trace::kernel::MAX_RW_COUNT;
use plumb_trace::schema::{StateOpen, StateSocket};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default)]
struct CallSum {
    calls: u64,
    total: u64,
    max: u64,
    account: Account,
    bytes: u64,
    own_requests: u64,
    other_requests: u64,
    other_bytes: u64,
}

/// What a process did with files in ways that make it wait.
#[derive(Debug, Default)]
struct Special {
    direct: Account,
    synced: Account,
    syncs: u64,
    advised: u64,
}

#[derive(Debug, Default)]
struct Process {
    files: Files,
    connections: Connections,
    special: Special,
    operations: Operations,
    comm: String,
    cmdline: String,
    /// Process id of its parent, 0 not known.
    parent: u32,
    begin: u64,
    target: bool,
    alive: u32,
    threads: u64,
    disk: Disk,
    account: Account,
    blame: Parts,
    thread_time: u64,
    kernel_cpu: u64,
    uncounted: bool,
    switches: [u64; 2],
    rows: Vec<ThreadRow>,
    calls: FxHashMap<u32, CallSum>,
    /// CPUs below 64 on which its threads ran that may run anywhere: a bit each.
    ran_on: u64,
}

/// All processes of a service.
#[derive(Debug, Default)]
pub struct Sum {
    pub row: ProcessRow,
    pub processes: u64,
    pub answered: Answered,
}

#[derive(Debug, Default)]
pub struct Processes {
    kinds: Kinds,
    open: FxHashMap<u32, Process>,
    rows: Rows,
    others: BTreeMap<(String, bool), OtherRow>,
    /// By service, where the target has several.
    services: FxHashMap<Service, Sum>,
    /// Requests that the target's processes answered.
    answered: Answered,
    /// The target is what one of its processes is: a service. Not so where a command's end is waited for.
    service: bool,
    /// Services of which some process serves.
    serving: FxHashSet<Service>,
}

impl Processes {
    /// The processes of a service, or of a command.
    pub fn new(service: bool) -> Self {
        Self { service, ..Self::default() }
    }

    /// What is known of those that live, without what they did.
    pub fn carried(&self) -> Self {
        let alive = self.open.iter().filter(|(_, p)| p.alive > 0);
        let fresh = |(tgid, p): (&u32, &Process)| {
            let (files, connections) = (p.files.clone(), p.connections.carried());
            let (comm, cmdline, target, ran_on) = (p.comm.clone(), p.cmdline.clone(), p.target, p.ran_on);
            let known = Process { files, connections, comm, cmdline, target, ran_on, ..Process::default() };
            (*tgid, Process { parent: p.parent, ..known })
        };
        Self {
            open: alive.map(fresh).collect(),
            service: self.service,
            serving: self.serving.clone(),
            ..Self::default()
        }
    }

    /// Forgets what was counted; what is open and known stays.
    pub fn count_from_here(&mut self) {
        for p in self.open.values_mut() {
            p.connections.answered = Answered::default();
            (p.special, p.switches, p.threads) = (Special::default(), [0; 2], 0);
            p.calls.clear();
            p.rows.clear();
        }
        self.rows = Rows::default();
        self.others.clear();
        self.services.clear();
        self.answered = Answered::default();
    }

    /// Name, command line and parent (0 not known) that the recorder read.
    pub fn name(&mut self, tgid: u32, comm: &str, cmdline: &str, parent: u32) {
        let p = self.open.entry(tgid).or_default();
        if p.parent == 0 {
            p.parent = parent;
        }
        if p.comm.is_empty() {
            p.comm = comm.into();
        }
        if !cmdline.is_empty() {
            p.cmdline = cmdline.into();
        }
    }

    /// A new program or a new name; only that of the first thread names the process.
    pub fn rename(&mut self, tgid: u32, tid: u32, comm: &str) {
        if tgid == tid {
            self.open.entry(tgid).or_default().comm = comm.into();
        }
    }

    /// A new process is called as its parent until it says otherwise.
    pub fn inherit(&mut self, child: u32, parent: u32) {
        if child != parent {
            let of = self.open.get(&parent);
            let comm = of.map(|p| p.comm.clone()).unwrap_or_default();
            let files = of.map(|p| p.files.clone()).unwrap_or_default();
            let connections = of.map(|p| p.connections.inherited()).unwrap_or_default();
            let ran_on = of.map_or(0, |p| p.ran_on);
            let p = self.open.entry(child).or_default();
            if p.alive == 0 {
                // Its command line may have been told ahead.
                let cmdline = std::mem::take(&mut p.cmdline);
                *p = Process { files, connections, cmdline, comm, ran_on, parent, ..Process::default() };
            }
        }
    }

    /// A thread begins. Whether it belongs to the target: a process does with all of its threads, so its first one decides.
    pub fn join(&mut self, tgid: u32, ts: u64, target: bool) -> bool {
        let p = self.open.entry(tgid).or_default();
        if p.alive == 0 {
            p.begin = ts;
            p.target |= target;
        }
        p.alive += 1;
        p.target
    }

    /// Whether it is known and does not belong to the target.
    pub fn is_other(&self, tgid: u32) -> bool {
        self.open.get(&tgid).is_some_and(|p| p.alive > 0 && !p.target)
    }

    /// Use of disks by a process.
    pub fn disk(&mut self, tgid: u32) -> &mut Disk {
        &mut self.open.entry(tgid).or_default().disk
    }

    /// Nothing is recorded from `ts` on.
    pub fn pause(&mut self, ts: u64) {
        for p in self.open.values_mut() {
            p.connections.pause();
            p.disk.pause(ts);
        }
    }

    /// A thread of a process, which may run anywhere, runs on these CPUs.
    pub fn runs_on(&mut self, tgid: u32, cpus: u64) {
        self.open.get_mut(&tgid).into_iter().for_each(|p| p.ran_on |= cpus);
    }

    /// Where threads of a process or of its parents ran that may run anywhere, see [`Thread::ran_on`].
    pub fn ran_on(&self, tgid: u32) -> u64 {
        self.open.get(&tgid).map_or(0, |p| p.ran_on)
    }

    pub fn operations(&mut self, tgid: u32) -> &mut Operations {
        &mut self.open.entry(tgid).or_default().operations
    }

    /// A file that was open when the recording began.
    pub fn opened(&mut self, file: &StateOpen) {
        self.open.entry(file.pid).or_default().files.open(file.fd, file.flags);
    }

    /// A socket that was open when the recording began.
    pub fn socket(&mut self, service: Service, socket: &StateSocket) {
        let connections = &mut self.open.entry(socket.pid).or_default().connections;
        match socket.side {
            StateSocket::ACCEPTED => connections.insert(socket.fd, Side::Server),
            StateSocket::CONNECTED => connections.insert(socket.fd, Side::Client),
            StateSocket::LISTENS => connections.listen(),
            _ => connections.insert(socket.fd, Side::Either),
        }
        if self.service && connections.serves {
            self.serving.insert(service);
        }
    }

    /// What may end the wait of a thread in a call with that descriptor.
    pub fn expects(&self, t: &Thread, nr: Option<u32>) -> Expects {
        let kind = nr.and_then(|nr| self.kinds.of(nr));
        let (serves, fd) = (self.serving.contains(&t.service), t.call.map(|c| c.fd));
        self.open.get(&t.tgid).map_or(Expects::Unknown, |p| p.connections.expects(t.tid, kind, fd, serves))
    }

    /// Whether a thread looks in that call for what has come.
    pub fn looks(&self, nr: u32) -> bool {
        matches!(self.kinds.of(nr), Some(Kind::Poll | Kind::Accept))
    }

    /// A call of a thread (service, process, thread) returned `ret`, and what woke it from being idle came then. True where it made its file's data durable: fsync(2) and the like, or a
    /// write of a file that was opened so; and what it did for a request of a client.
    pub fn call(
        &mut self,
        (service, tgid, tid): (Service, u32, u32),
        call: &Call,
        (ts, seen, arrived): (u64, u64, u64),
        ret: i64,
        spent: &Account,
    ) -> (bool, Option<Exchange>) {
        let kind = self.kinds.of(call.nr);
        let p = self.open.entry(tgid).or_default();
        let exchange = p.connections.call(kind, call.fd, ret, tid, (seen, arrived));
        if self.service && p.connections.serves && !self.serving.contains(&service) {
            self.serving.insert(service);
        }
        let mode = p.files.mode(call.fd);
        match kind {
            Some(Kind::Open) if ret >= 0 => p.files.open(ret as u32, call.arg2),
            Some(Kind::Duplicate) if ret >= 0 => p.files.duplicate(call.fd, ret as u32),
            Some(Kind::Close) => p.files.close(call.fd),
            Some(Kind::Advise) => p.special.advised += 1,
            Some(Kind::Read | Kind::Write) if mode.direct && !(mode.sync && kind == Some(Kind::Write)) => {
                p.special.direct.merge(spent);
            }
            _ => {}
        }
        // Names change synchronously where the file system is mounted so: the call waits for the journal.
        let names = kind == Some(Kind::Names) && call.other_requests > 0;
        let synced = kind == Some(Kind::Sync) || (kind == Some(Kind::Write) && mode.sync);
        if synced || names {
            p.special.synced.merge(spent);
            p.special.syncs += 1;
        }
        let sum = p.calls.entry(call.nr).or_default();
        if matches!(kind, Some(Kind::Read | Kind::Write)) {
            sum.bytes += u64::try_from(ret).map_or(0, |n| n.min(MAX_RW_COUNT));
        }
        let took = ts - call.start;
        sum.calls += 1;
        sum.total += took;
        sum.max = sum.max.max(took);
        sum.account.merge(spent);
        sum.own_requests += u64::from(call.own_requests);
        sum.other_requests += u64::from(call.other_requests);
        sum.other_bytes += call.other_bytes;
        (synced, exchange)
    }

    /// Requests of the target that are not answered: thread that received each, and when, ns.
    pub fn unanswered(&self) -> Vec<(u32, u64)> {
        let targets = self.open.values().filter(|p| p.target);
        targets.flat_map(|p| p.connections.open()).collect()
    }

    /// A thread ends, or the trace does.
    pub fn leave(&mut self, t: &Thread, ts: u64, recorder: u32) {
        let known = self.open.remove(&t.tgid).unwrap_or_default();
        // A thread of the target in a process that is not, or the other way round: a damaged trace's. Each has its own row.
        let (mut p, other) = if known.alive > 0 && known.target != t.target {
            (Process { comm: known.comm.clone(), ..Process::default() }, Some(known))
        } else {
            (known, None)
        };
        let life = ts.saturating_sub(t.born);
        p.account.merge(&t.account);
        p.blame.merge(&t.blame);
        p.threads += 1;
        p.thread_time += life;
        p.target |= t.target;
        if p.begin == 0 {
            p.begin = t.born;
        }
        match t.kernel_run {
            Some(ns) => p.kernel_cpu = p.kernel_cpu.saturating_add(ns),
            None => p.uncounted = true,
        }
        for kind in t.operations.iter().flat_map(|o| o.kinds()) {
            p.operations.unfinished(kind);
        }
        p.switches[0] += t.switches[0];
        p.switches[1] += t.switches[1];
        if p.target {
            let row = ThreadRow {
                tid: t.tid,
                begin: t.born,
                elapsed: life,
                usage: usage(&t.account, &t.disk.until(ts)),
                account: t.account.parts(),
            };
            push_thread(&mut p.rows, row);
        }
        p.alive = p.alive.saturating_sub(1);
        let stays = if p.alive == 0 {
            self.close((t.tgid, t.service), p, ts, recorder);
            other
        } else {
            Some(p)
        };
        self.open.extend(stays.map(|p| (t.tgid, p)));
    }

    fn close(&mut self, (tgid, service): (u32, Service), p: Process, ts: u64, recorder: u32) {
        let usage = usage(&p.account, &p.disk.until(ts));
        if p.target {
            self.answered.merge(&p.connections.answered);
        } else {
            let key = (p.comm.clone(), tgid == recorder);
            let row = self.others.entry(key).or_insert_with(|| OtherRow {
                comm: p.comm.clone(),
                recorder: tgid == recorder,
                ..Default::default()
            });
            row.threads += p.threads;
            row.cpu_used += usage.cpu_used;
            row.cpu_wait += usage.cpu_wait;
            row.accesses += usage.accesses;
            row.bytes += usage.bytes;
            return;
        }
        let answered = p.connections.answered;
        let mut calls: Vec<(u32, CallSum)> = p.calls.into_iter().collect();
        calls.sort_unstable_by_key(|(nr, _)| *nr);
        let syscalls = calls.iter().map(|(nr, s)| SyscallRow {
            name: call_name(*nr),
            calls: s.calls,
            total: s.total,
            max: s.max,
            account: s.account.parts(),
            own_requests: s.own_requests,
            other_requests: s.other_requests,
            other_bytes: s.other_bytes,
            bytes: s.bytes,
        });
        let row = ProcessRow {
            pid: tgid,
            comm: p.comm,
            cmdline: p.cmdline,
            parent: (p.parent != 0).then_some(p.parent),
            begin: p.begin,
            elapsed: ts - p.begin.min(ts),
            usage,
            thread_time: p.thread_time,
            account: p.account.parts(),
            blame: Vec::new(),
            direct: p.special.direct.parts(),
            synced: p.special.synced.parts(),
            syncs: p.special.syncs,
            advised: p.special.advised,
            kernel_cpu: (!p.uncounted).then_some(p.kernel_cpu),
            switches: p.switches,
            syscalls: syscalls.collect(),
            operations: p.operations.rows(),
            threads: p.rows,
        };
        if service != 0 {
            let sum = self.services.entry(service).or_default();
            sum.processes += 1;
            sum.answered.merge(&answered);
            add_process(&mut sum.row, &row, sum.processes == 1);
        }
        self.rows.push(row, p.blame);
    }

    /// Closes what is open and hands out the rows.
    pub fn finish(mut self, ts: u64) -> Finished {
        let open: Vec<(u32, Process)> = self.open.drain().collect();
        for (tgid, p) in open.into_iter().filter(|(_, p)| p.disk.accesses() > 0) {
            self.close((tgid, 0), p, ts, 0);
        }
        let mut others: Vec<OtherRow> = self.others.into_values().collect();
        others.retain(|o| o.cpu_used + o.accesses > 0);
        others.sort_by(|a, b| b.cpu_used.cmp(&a.cpu_used).then_with(|| a.comm.cmp(&b.comm)));
        Finished { rows: self.rows.finish(), others, services: self.services, answered: self.answered }
    }
}

/// What processes added up to.
#[derive(Debug)]
pub struct Finished {
    pub rows: Vec<(ProcessRow, Parts)>,
    pub others: Vec<OtherRow>,
    pub services: FxHashMap<Service, Sum>,
    pub answered: Answered,
}

/// The columns of Horikawa's table.
fn usage(account: &Account, disk: &Use) -> Use {
    Use {
        cpu_used: account.get(Category::Running)
            + account.get(Category::Spinning)
            + account.get(Category::Interrupted),
        cpu_wait: [
            Category::Woken,
            Category::Preempted,
            Category::Crowded,
            Category::WokenIdle,
            Category::Held,
            Category::Overhead,
        ]
        .iter()
        .map(|c| account.get(*c))
        .sum(),
        ..disk.clone()
    }
}
