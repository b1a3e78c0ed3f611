// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a pass over a trace sees of threads, requests and wakeups: [`crate::graph`] makes of it what threads do again.

use plumb_model::{Below, Cause, CpuState, Observer, Request, ThreadState};
use plumb_trace::calls::Call;
use plumb_trace::kernel::task_state;
use plumb_trace::reader::Item;
use plumb_trace::schema::{SchedFork, SchedSwitch, SysEnter, SysExit};
use plumb_trace::Record;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Calls that return when what was written is on the medium.
const SYNC_CALLS: [u32; 5] =
    [Call::fsync as u32, Call::fdatasync as u32, Call::sync as u32, Call::syncfs as u32, Call::msync as u32];

/// What a thread was at, ns.
#[derive(Debug, Clone, Copy)]
pub struct Interval {
    pub start: u64,
    pub end: u64,
    pub state: ThreadState,
    /// What ended a sleep, and whether it was for dirty pages.
    pub cause: Cause,
    pub throttled: bool,
}

/// What the records alone tell.
#[derive(Debug, Default)]
pub struct Records {
    /// Child, parent, and when.
    pub forks: Vec<(u32, u32, u64)>,
    /// The process of each thread that is known.
    pub processes: HashMap<u32, u32>,
    /// When a thread of the kernel went to sleep with nothing to do.
    pub idle: HashSet<(u32, u64)>,
    /// When a thread made a call of [`SYNC_CALLS`], and when it came back.
    pub synced: Vec<(u32, u64, u64)>,
    /// Of threads in such a call, since when.
    pub(crate) syncing: HashMap<u32, u64>,
}

impl Records {
    /// With the processes of the threads that the recorder found.
    pub fn of(processes: HashMap<u32, u32>) -> Self {
        Self { processes, ..Self::default() }
    }

    /// Takes what one record tells.
    pub fn take(&mut self, item: &Item<'_>) {
        let Item::Record(r) = item else { return };
        match r.id {
            SchedFork::ID => {
                let e = SchedFork::read(r.bytes);
                self.forks.push((e.child_tid, r.tid, r.ts));
                self.processes.insert(e.child_tid, e.child_tgid);
            }
            SchedSwitch::ID if SchedSwitch::read(r.bytes).prev_state & task_state::NOLOAD != 0 => {
                self.idle.insert((r.tid, r.ts));
            }
            SysEnter::ID if SYNC_CALLS.contains(&SysEnter::read(r.bytes).nr) => {
                self.syncing.insert(r.tid, r.ts);
            }
            SysExit::ID if SYNC_CALLS.contains(&SysExit::read(r.bytes).nr) => {
                if let Some(since) = self.syncing.remove(&r.tid).filter(|_| SysExit::read(r.bytes).ret >= 0) {
                    self.synced.push((r.tid, since, r.ts));
                }
            }
            _ => {}
        }
    }
}

/// A request, and when the last of it had completed, ns.
#[derive(Debug, Clone, Copy)]
pub struct Done {
    pub request: Request,
    pub end: u64,
}

#[derive(Debug, Default)]
pub struct Seen {
    pub threads: BTreeMap<u32, Vec<Interval>>,
    /// Moments at which a CPU becomes idle (+1) or busy (-1).
    pub idle: Vec<(u64, i64)>,
    pub done: Vec<Done>,
    /// Place in `done` by the model's number.
    pub numbers: HashMap<u64, usize>,
    /// By device, owner, when it was queued, and sector: one with a flush behind it completes twice.
    places: HashMap<(u32, u32, u64, u64), usize>,
    /// What ended the sleep whose interval comes next.
    woken: Option<(u32, u64, Cause, bool)>,
    begin: Option<u64>,
    pub end: u64,
}

impl Observer for Seen {
    fn woken(&mut self, tid: u32, end: u64, cause: Cause, throttled: bool) {
        self.woken = Some((tid, end, cause, throttled));
    }

    fn thread(&mut self, tid: u32, start: u64, end: u64, state: ThreadState) {
        self.begin = Some(self.begin.map_or(start, |begin| begin.min(start)));
        self.end = self.end.max(end);
        let woken = self.woken.take().filter(|w| (w.0, w.1) == (tid, end) && state == ThreadState::Sleeping);
        let (cause, throttled) = woken.map_or((Cause::Unknown, false), |w| (w.2, w.3));
        self.threads.entry(tid).or_default().push(Interval { start, end, state, cause, throttled });
    }

    fn cpu(&mut self, _: u32, start: u64, end: u64, state: CpuState) {
        if state == CpuState::Idle {
            self.idle.extend([(start, 1), (end, -1)]);
        }
    }

    fn request(&mut self, number: u64, request: &Request, _: bool) {
        // A flush of the kernel's own has no bio: those that asked for it are told on their own.
        if request.q == 0 {
            return;
        }
        let key = (request.dev, request.owner, request.q, request.sector);
        let place = *self.places.entry(key).or_insert_with(|| {
            self.done.push(Done { request: *request, end: request.c });
            self.done.len() - 1
        });
        let done = &mut self.done[place];
        done.end = done.end.max(request.c);
        if request.below != Below::Nothing {
            done.request.below = request.below;
        }
        self.numbers.insert(number, place);
    }
}

impl Seen {
    /// When the first interval begins, ns.
    pub fn begin(&self) -> u64 {
        self.begin.unwrap_or(0)
    }

    /// Requests with data by disk, of the threads that `whose` says yes to.
    pub fn disks(&self, whose: impl Fn(u32) -> bool) -> BTreeMap<u32, u64> {
        let mut disks = BTreeMap::new();
        for d in self.done.iter().filter(|d| d.request.moves_data() && whose(d.request.owner)) {
            *disks.entry(d.request.dev).or_default() += 1;
        }
        disks
    }

    /// Threads that completed requests of disks that lie on others.
    pub fn servers(&self) -> HashSet<u32> {
        let server = |d: &Done| if let Below::Thread(tid) = d.request.below { Some(tid) } else { None };
        self.done.iter().filter_map(server).collect()
    }
}
