// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A thread: on a CPU, waiting for one, or sleeping.

use crate::account::{Account, Category};
use crate::disk::Disk;
use crate::history::{Cause, History};
use crate::parts::{Parts, Piece};
use crate::path::Path;
use crate::services::Service;
use std::collections::VecDeque;

/// Completed requests of a thread that are remembered.
const RECENT: usize = 128;

/// A futex that a thread is about to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Futex {
    pub uaddr: u64,
    /// Thread that holds it, where the lock's memory tells; else 0.
    pub owner: u32,
    /// The expected value says that it is a lock that is taken and waited for.
    pub taken: bool,
}

/// A sleep and what was known when it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sleep {
    /// When, ns.
    pub start: u64,
    /// Scheduler state, see [`plumb_trace::kernel::task_state`].
    pub state: u32,
    /// Kernel lock in whose slow path it is.
    pub lock: Option<u64>,
    /// Futex that it said to wait for.
    pub futex: Option<Futex>,
    pub throttled: bool,
    /// In direct reclaim or compaction.
    pub reclaim: bool,
    /// It queued a bio that has no request (tag) yet.
    pub wants_slot: bool,
    /// It was woken between its decision to sleep and the switch.
    pub raced: Option<Cause>,
    /// What its program said that it waits for, see [`crate::wait_events`]; 0 nothing.
    pub says: u32,
    /// When TCP sent again what it waits for, the last time, ns; 0 never.
    pub again: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Not seen yet, or events are missing that would tell.
    Unknown,
    Running(u32),
    /// Without a CPU because another took it.
    Preempted,
    /// Asleep until `woken`, without a CPU since.
    Woken {
        sleep: Sleep,
        /// When it was woken, ns.
        at: u64,
        cause: Cause,
    },
    /// Born, without a CPU.
    Born,
    Sleeping(Sleep),
    Dead,
}

/// What threads of a service are counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    Ready,
    Running,
}

/// The CPUs on whose queues a thread that does not run has been.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    /// Since when on which; the first since it ran.
    moves: Vec<(u64, u32)>,
}

/// Moves of one wait that are kept; a balancer that moves on and on tells nothing more.
const MOVES: usize = 16;

impl Queue {
    pub fn left(&mut self, cpu: u32) {
        self.moves.clear();
        self.moves.push((0, cpu));
    }

    pub fn moved(&mut self, ts: u64, cpu: u32) {
        if self.moves.len() < MOVES {
            self.moves.push((ts, cpu));
        }
    }

    /// The parts of `from..to` by queue, newest first; on `last` where it is not known.
    pub fn spans(&self, from: u64, to: u64, last: u32) -> Vec<(u64, u64, u32)> {
        let mut out = Vec::with_capacity(self.moves.len().max(1));
        let mut end = to;
        for (ts, cpu) in self.moves.iter().rev() {
            let start = (*ts).clamp(from, end);
            if start < end {
                out.push((start, end, *cpu));
            }
            end = start;
        }
        if end > from {
            out.push((from, end, last));
        }
        out
    }
}

/// A wait that a thread of the target ended.
#[derive(Debug)]
pub struct Wait {
    /// Begin, ns.
    pub from: u64,
    /// When it was woken, ns.
    pub to: u64,
    /// Thread that woke it; 0: a timeout did.
    pub waker: u32,
    /// What that one did meanwhile; only of the command's first thread.
    pub deep: Vec<Piece>,
}

/// A system call that a thread is in.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    pub nr: u32,
    /// Entry, ns.
    pub start: u64,
    /// First argument: the descriptor of most calls that move data.
    pub fd: u32,
    /// Third argument: the flags of openat(2).
    pub arg2: u64,
    /// Requests that the thread got slots for since.
    pub own_requests: u32,
    /// Requests of threads that it waited for.
    pub other_requests: u32,
    /// Bytes of those.
    pub other_bytes: u64,
    /// Others' requests are counted up to here, ns.
    pub counted: u64,
    /// What the program said that it waits for in it, see [`crate::wait_events`]; 0 nothing.
    pub says: u32,
}

#[derive(Debug)]
pub struct Thread {
    pub tid: u32,
    pub tgid: u32,
    pub target: bool,
    /// Part of the target.
    pub service: Service,
    pub kernel: bool,
    /// First moment that is accounted, ns.
    pub born: u64,
    /// Thread that forked it; 0: not seen.
    pub parent: u32,
    /// State since `since`.
    pub state: State,
    /// When the state began, ns.
    pub since: u64,
    /// Since a pause of the recording nothing is known of it, not even whether it slept.
    pub unsure: bool,
    /// It left its CPU and the kernel did not tell; since then nothing is known of it.
    pub strayed: bool,
    /// Its CPU has been idle since: it sleeps, unless it comes to another one that nobody woke it on.
    pub rests: bool,
    /// Running time is in the account up to here, ns.
    pub charged: u64,
    /// Interrupt time of its CPU's present state that is in the account, ns.
    pub charged_interrupts: u64,
    pub account: Account,
    pub history: History,
    /// Kept intervals that refer to it: of threads that slept until this one woke them.
    pub references: u32,
    /// The call that it is in.
    pub call: Option<Call>,
    /// What went into the account since that began.
    pub in_call: Account,
    /// The waits of that call, until it returns.
    pub waits: Vec<Wait>,
    /// The call that it was in when the recording began.
    pub first_call: i32,
    /// Kernel lock that it waits for.
    pub lock: Option<u64>,
    /// It wants that lock for reading.
    pub lock_read: bool,
    /// Futex that it waits for.
    pub futex: Option<Futex>,
    /// User lock in whose queue it sleeps.
    pub queued: Option<crate::locks::Key>,
    /// Its name, see [`crate::parts::Names`].
    pub name: u32,
    /// What those that wait for it call it: its name, or the script that an interpreter of that name runs.
    pub called: u32,
    /// CPU on whose queue it is or was last, and where it was moved to since it last ran.
    pub queue: Queue,
    /// Thread that woke it last; 0 for an interrupt.
    pub woken_by: u32,
    /// That one's name, and whether both are of one service of the target: it may be gone when this one runs.
    pub waker: (u32, bool),
    /// When it was woken last among many, ns: see herds.
    pub herded: Option<u64>,
    /// Where its waiting went, and to whom.
    pub blame: Parts,
    /// The same, with waits for threads of the target followed to what those did.
    pub followed: Parts,
    /// What leads to its present moment.
    pub path: Path,
    /// The path of the thread of the target that woke it, as it was then.
    pub offered: Option<Box<Path>>,
    /// Paused for dirtying pages.
    pub throttled: bool,
    /// In direct reclaim or compaction.
    pub reclaim: bool,
    /// Bio that it queued and that has no request (tag) yet.
    pub queued_bio: u64,
    pub raced: Option<Cause>,
    pub disk: Disk,
    /// The operations that it told of; most threads tell nothing.
    pub operations: Option<Box<crate::operations::Open>>,
    /// The spans that it is in; most threads have none.
    pub spans: Option<Box<crate::spans::Open>>,
    /// What its program says that it is about to wait for; 0 nothing.
    pub says: u32,
    /// Requests of its own that completed: when queued, bytes.
    pub recent: VecDeque<(u64, u32)>,
    /// Times that it left a CPU: by its own will, and not.
    pub switches: [u64; 2],
    /// It received requests of clients.
    pub serves: bool,
    /// It ended a wait of the target for requests.
    pub asks: bool,
    /// CPUs below 64 that it or its parent has run on since it was last told which it may: a bit each.
    pub ran_on: u64,
    /// It or its parent was told which CPUs it may run on.
    pub pinned: bool,
    /// The service among whose threads it is counted, and as what, see [`crate::ledger::Ledger::threads`].
    pub counted: Option<(Service, Counted)>,
    /// When what ended its last idle wait arrived, ns: a request that it receives then came no later. 0: it has looked again.
    pub arrived: u64,
    /// When the data came that it takes in its call, ns; 0: that was not told.
    pub taken: u64,
    /// CPU time that the kernel counted, at exit, ns.
    pub kernel_run: Option<u64>,
}

impl Thread {
    /// A thread of which nothing is known but its id.
    pub fn new(tid: u32, tgid: u32, born: u64) -> Self {
        Self {
            tid,
            tgid,
            target: false,
            service: 0,
            kernel: false,
            born,
            parent: 0,
            waits: Vec::new(),
            state: State::Unknown,
            since: born,
            unsure: false,
            strayed: false,
            rests: false,
            charged: born,
            charged_interrupts: 0,
            account: Account::default(),
            history: History::default(),
            references: 0,
            call: None,
            in_call: Account::default(),
            first_call: -1,
            lock: None,
            lock_read: false,
            futex: None,
            queued: None,
            name: 0,
            called: 0,
            queue: Queue::default(),
            woken_by: 0,
            waker: (0, false),
            herded: None,
            blame: Parts::default(),
            followed: Parts::default(),
            path: Path::default(),
            offered: None,
            throttled: false,
            reclaim: false,
            queued_bio: 0,
            raced: None,
            disk: Disk::default(),
            operations: None,
            spans: None,
            says: 0,
            recent: VecDeque::new(),
            switches: [0; 2],
            serves: false,
            asks: false,
            ran_on: 0,
            pinned: false,
            counted: None,
            arrived: 0,
            taken: 0,
            kernel_run: None,
        }
    }

    /// Puts time into the account, ns.
    pub fn spend(&mut self, category: Category, ns: u64) {
        self.account.add(category, ns);
        if self.call.is_some() {
            self.in_call.add(category, ns);
        }
    }

    /// The sleep that begins now with scheduler state `state`.
    pub fn falls_asleep(&mut self, start: u64, state: u32) -> Sleep {
        Sleep {
            start,
            state,
            lock: self.lock,
            futex: self.futex,
            throttled: std::mem::take(&mut self.throttled),
            reclaim: self.reclaim,
            wants_slot: self.queued_bio != 0,
            raced: self.raced.take(),
            says: std::mem::take(&mut self.says),
            again: 0,
        }
    }

    /// Remembers a request of its own that completed.
    pub fn remember_request(&mut self, q: u64, len: u32) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((q, len));
    }
}
