// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names, processes and priorities of threads while a trace is read: its records have numbers only.

use crate::sched::Switch;
use plumb_trace::event::text;
use plumb_trace::kernel::DEFAULT_PRIO;
use plumb_trace::reader::{RawRecord, State};
use plumb_trace::schema::*;
use plumb_trace::Record;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Number of the name of a thread of which nothing has told.
const UNNAMED: u32 = u32::MAX;

/// What a record tells of threads.
#[derive(Debug, Clone)]
pub enum Step {
    Forked(SchedFork),
    /// A thread has a new name, by an exec or by itself.
    Named {
        tid: u32,
        comm: String,
        exec: bool,
    },
}

impl Step {
    /// The step that a record is, if it is one.
    pub fn read(r: &RawRecord<'_>) -> Option<Self> {
        Some(match r.id {
            SchedFork::ID => Step::Forked(SchedFork { tid: r.tid, ..SchedFork::read(r.bytes) }),
            SchedExec::ID => {
                Step::Named { tid: r.tid, comm: text(&SchedExec::read(r.bytes).comm), exec: true }
            }
            SchedRename::ID => {
                Step::Named { tid: r.tid, comm: text(&SchedRename::read(r.bytes).comm), exec: false }
            }
            _ => return None,
        })
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Task {
    /// Number of its name, for [`Tasks::name`].
    pub(crate) comm: u32,
    /// Its process; 0 where nothing has told.
    pub tgid: u32,
    /// Its kernel priority, 0-139.
    pub prio: u32,
    /// System call that it is in, where somebody keeps it; negative outside of any.
    pub(crate) call: i32,
}

impl Default for Task {
    fn default() -> Self {
        Self { comm: UNNAMED, tgid: 0, prio: DEFAULT_PRIO.into(), call: StateTask::NO_SYSCALL }
    }
}

/// What a process that the recorder told of again after its exec is called at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// As it was when the recording began; the exec renames it. For exports, which tell names as they change.
    Begin,
    /// As it was told of last, since a flight recorder forgets the exec itself. For sums by name.
    End,
}

/// Threads that live, as far as they are known, and the names that threads ever had.
#[derive(Debug, Default)]
pub struct Tasks {
    known: FxHashMap<u32, Task>,
    comms: Vec<String>,
    numbers: FxHashMap<String, u32>,
    /// What was told of processes after each of their execs.
    execs: FxHashMap<u32, VecDeque<StateTask>>,
}

impl Tasks {
    /// Those that the recorder told of.
    pub fn new(state: &State, at: At) -> Self {
        let mut tasks = Self::default();
        for task in &state.tasks {
            let told = Task {
                comm: tasks.intern(&task.comm),
                tgid: task.tgid,
                call: task.syscall,
                ..Task::default()
            };
            match at {
                At::End => drop(tasks.known.insert(task.tid, told)),
                At::Begin if task.told_after_exec() => {
                    tasks.execs.entry(task.tgid).or_default().push_back(task.clone());
                }
                At::Begin => drop(tasks.known.entry(task.tid).or_insert(told)),
            }
        }
        tasks
    }

    /// Tasks that existed when the recording began, as the trace tells of them.
    pub fn first(state: &State) -> impl Iterator<Item = &StateTask> {
        state.tasks.iter().filter(|t| !t.told_after_exec())
    }

    fn intern(&mut self, comm: &str) -> u32 {
        if let Some(number) = self.numbers.get(comm) {
            return *number;
        }
        let number = self.comms.len() as u32;
        self.comms.push(comm.into());
        self.numbers.insert(comm.into(), number);
        number
    }

    /// What is known of a thread.
    pub fn get(&self, tid: u32) -> Option<&Task> {
        self.known.get(&tid)
    }

    pub(crate) fn entry(&mut self, tid: u32) -> &mut Task {
        self.known.entry(tid).or_default()
    }

    /// A thread's process; 0 where nothing has told.
    pub fn tgid(&self, tid: u32) -> u32 {
        self.get(tid).map_or(0, |t| t.tgid)
    }

    /// A thread's kernel priority; that of nice 0 where nothing has told.
    pub fn prio(&self, tid: u32) -> u32 {
        self.get(tid).map_or(DEFAULT_PRIO.into(), |t| t.prio)
    }

    /// A thread's name, at most 15 bytes; empty where nothing has told.
    pub fn comm(&self, tid: u32) -> &str {
        if tid == 0 {
            return "swapper";
        }
        self.get(tid).and_then(|t| self.name(t.comm)).unwrap_or("")
    }

    /// A name by its number.
    pub fn name(&self, number: u32) -> Option<&str> {
        self.comms.get(number as usize).map(String::as_str)
    }

    /// Number of a thread's name; `None` where nothing has told.
    pub fn number(&self, tid: u32) -> Option<u32> {
        self.get(tid).map(|t| t.comm).filter(|c| *c != UNNAMED)
    }

    /// Names that threads had so far.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.comms.iter().map(String::as_str)
    }

    /// What the recorder told of a process after the exec that it just did.
    pub fn told_of_exec(&mut self, tgid: u32) -> Option<StateTask> {
        self.execs.get_mut(&tgid)?.pop_front()
    }

    /// A thread has a process; a record told so.
    fn belongs(&mut self, tid: u32, tgid: u32) {
        if tid != 0 && tgid != 0 {
            self.entry(tid).tgid = tgid;
        }
    }

    /// Learns from a step.
    pub fn learn(&mut self, step: &Step) {
        match step {
            Step::Forked(e) => {
                self.belongs(e.tid, e.parent_tgid);
                let parent = self.get(e.tid).copied().unwrap_or_default();
                let child = Task { tgid: e.child_tgid, call: StateTask::NO_SYSCALL, ..parent };
                self.known.insert(e.child_tid, child);
            }
            Step::Named { tid, comm, exec } => {
                let comm = self.intern(comm);
                let task = self.entry(*tid);
                task.comm = comm;
                if *exec {
                    task.call = StateTask::NO_SYSCALL;
                }
            }
        }
    }

    /// Learns the priorities that a record tells.
    pub fn learn_priorities(&mut self, r: &RawRecord<'_>) {
        let mut learn = |tid: u32, prio: u32| {
            if tid != 0 {
                self.entry(tid).prio = prio;
            }
        };
        match r.id {
            SchedSwitch::ID => {
                let switch = Switch::read(r);
                learn(switch.prev, switch.prev_prio.into());
                learn(switch.next, switch.next_prio.into());
            }
            SchedWaking::ID => {
                let e = SchedWaking::read(r.bytes);
                learn(e.wakee, e.wakee_prio);
            }
            SchedWakeupNew::ID => {
                let e = SchedWakeupNew::read(r.bytes);
                learn(e.wakee, e.wakee_prio);
            }
            _ => {}
        }
    }

    /// Forgets a thread that ended, after its last record was written.
    pub fn forget(&mut self, tid: u32) {
        self.known.remove(&tid);
    }
}
