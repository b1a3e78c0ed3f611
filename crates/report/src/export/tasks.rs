// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names, processes and priorities of threads while a trace is read: its records have numbers only.

use plumb_trace::event::text;
use plumb_trace::reader::{RawRecord, State};
use plumb_trace::schema::{
    SchedExec, SchedFork, SchedRename, SchedSwitch, SchedWakeupNew, SchedWaking, StateTask,
};
use plumb_trace::Record;
use std::collections::{HashMap, VecDeque};

/// `StateTask::syscall` of a process that was told of after its exec.
const AFTER_EXEC: i32 = -2;
/// Priority of a thread of which nothing has told: that of nice 0.
const PRIORITY: u32 = 120;

/// The kernel's task states, include/linux/sched.h (4.14 to 6.18).
pub mod state {
    /// Sleeps, and a signal ends it.
    pub const INTERRUPTIBLE: u32 = 0x1;
    pub const UNINTERRUPTIBLE: u32 = 0x2;
    /// What /proc and tracepoints tell of: S D T t X Z P.
    pub const REPORT: u32 = 0x7f;
    /// Ended, and nobody asks for its exit code.
    pub const EXIT_DEAD: u32 = 0x10;
    pub const DEAD: u32 = 0x80;
    /// Sleeps and does not count for the load average.
    pub const NOLOAD: u32 = 0x400;
    /// Sleeps for a lock of a kernel with real-time locks.
    pub const RTLOCK_WAIT: u32 = 0x1000;
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Task {
    /// Its name, at most 15 bytes.
    pub comm: String,
    /// Its process; 0 where nothing has told.
    pub tgid: u32,
    /// Its kernel priority, 0-139.
    pub prio: u32,
}

/// Threads that live, as far as they are known.
#[derive(Debug)]
pub struct Tasks {
    known: HashMap<u32, Task>,
    /// What was told of processes after each of their execs.
    execs: HashMap<u32, VecDeque<StateTask>>,
    idle: Task,
    unknown: Task,
}

/// Whether a thread that leaves its CPU in this state has ended.
pub fn ended(prev_state: u32) -> bool {
    prev_state & (state::DEAD | state::EXIT_DEAD) != 0
}

impl Tasks {
    /// Those that existed when the recording began.
    pub fn new(state: &State) -> Self {
        let mut known = HashMap::new();
        let mut execs: HashMap<u32, VecDeque<StateTask>> = HashMap::new();
        for task in &state.tasks {
            if task.syscall == AFTER_EXEC {
                execs.entry(task.tgid).or_default().push_back(task.clone());
            } else {
                let comm = task.comm.clone();
                known.entry(task.tid).or_insert(Task { comm, tgid: task.tgid, prio: PRIORITY });
            }
        }
        let named = |comm: &str| Task { comm: comm.into(), tgid: 0, prio: PRIORITY };
        Self { known, execs, idle: named("swapper"), unknown: named("") }
    }

    /// Tasks that existed when the recording began, as the trace tells of them.
    pub fn first(state: &State) -> impl Iterator<Item = &StateTask> {
        state.tasks.iter().filter(|t| t.syscall != AFTER_EXEC)
    }

    /// What is known of a thread; its name is empty where nothing has told.
    pub fn get(&self, tid: u32) -> &Task {
        if tid == 0 {
            return &self.idle;
        }
        self.known.get(&tid).unwrap_or(&self.unknown)
    }

    /// What the recorder told of a process after the exec that it just did.
    pub fn told_of_exec(&mut self, tgid: u32) -> Option<StateTask> {
        self.execs.get_mut(&tgid)?.pop_front()
    }

    fn entry(&mut self, tid: u32) -> &mut Task {
        self.known.entry(tid).or_insert_with(|| Task { comm: String::new(), tgid: 0, prio: PRIORITY })
    }

    fn prio(&mut self, tid: u32, prio: u32) {
        if tid != 0 {
            let task = self.entry(tid);
            task.prio = prio;
        }
    }

    fn rename(&mut self, tid: u32, comm: &[u8]) {
        let comm = text(comm);
        self.entry(tid).comm = comm;
    }

    /// A thread has a process; a record told so.
    pub fn belongs(&mut self, tid: u32, tgid: u32) {
        if tid != 0 && tgid != 0 {
            self.entry(tid).tgid = tgid;
        }
    }

    /// Learns from a record, before anything is written of it.
    pub fn learn(&mut self, r: &RawRecord<'_>) {
        match r.id {
            SchedSwitch::ID => {
                let e = SchedSwitch::read(r.bytes);
                self.prio(e.tid, e.prev_prio.into());
                self.prio(e.next_tid, e.next_prio.into());
            }
            SchedWaking::ID => {
                let e = SchedWaking::read(r.bytes);
                self.prio(e.wakee, e.wakee_prio);
            }
            SchedWakeupNew::ID => {
                let e = SchedWakeupNew::read(r.bytes);
                self.prio(e.wakee, e.wakee_prio);
            }
            SchedFork::ID => {
                let e = SchedFork::read(r.bytes);
                self.belongs(e.tid, e.parent_tgid);
                let parent = self.get(e.tid).clone();
                self.known.insert(e.child_tid, Task { tgid: e.child_tgid, ..parent });
            }
            SchedExec::ID => self.rename(r.tid, &SchedExec::read(r.bytes).comm),
            SchedRename::ID => self.rename(r.tid, &SchedRename::read(r.bytes).comm),
            _ => {}
        }
    }

    /// Forgets a thread that ended, after its last record was written.
    pub fn forget(&mut self, tid: u32) {
        self.known.remove(&tid);
    }
}
