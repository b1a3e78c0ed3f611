// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes what happens in a simulation as an ordinary trace, as a recording of a machine with one CPU
//! would have it: system calls, switches, interrupts, wakeups, bios and requests.
//!
//! One CPU is enough since simulated tasks take no CPU time; and in one stream events of the same moment
//! keep their order. The clock begins at [`BEGIN`], and nothing of this machine or this moment is told:
//! the same simulation is the same bytes.

mod observe;
mod words;

use super::observer::Sleep;
use super::task::Task;
use crate::device::Ns;
use plumb_load::job::Job;
use plumb_trace::ctf::Metadata;
use plumb_trace::kernel::{dev, DEFAULT_PRIO as PRIORITY};
use plumb_trace::schema::*;
use plumb_trace::writer::{DirectorySink, TraceWriter};
use plumb_trace::Record;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use words::{events, Calls};

/// What the trace's clock says when the simulation begins, ns.
pub const BEGIN: Ns = 1_000_000_000;
/// Device number: major 240 (for local use), minor 0.
const DEV: u32 = dev::new(240, 0);
const IRQ: u32 = 24;
/// x86's vector of the local timer.
const TIMER: u32 = 236;
const FIRST_PID: u32 = 1001;

/// What the trace says of the simulation.
#[derive(Debug, Clone, Default)]
pub struct About {
    pub model: String,
    pub rotational: bool,
    pub scheduler: String,
    pub nr_requests: u32,
    /// What else stands in the environment: seed, sizes, knobs.
    pub environment: BTreeMap<String, String>,
}

/// An interrupt that lies over the idle CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frame {
    None,
    Device,
    Timer,
}

/// A task as a thread.
#[derive(Debug)]
struct Thread {
    tid: u32,
    tgid: u32,
    /// Through a queue of the kernel, not call by call.
    queues: bool,
    calls: Calls,
    /// The call that it is in.
    call: Option<u32>,
    /// What that returns, when it is known.
    result: Option<i64>,
    slept: Sleep,
}

pub struct Tracer {
    writer: TraceWriter<DirectorySink>,
    threads: Vec<Thread>,
    frame: Frame,
    /// Thread on the CPU, 0 when idle.
    on_cpu: u32,
    end: Ns,
    error: Option<io::Error>,
}

impl Tracer {
    /// Makes the directory, and writes what holds for the whole trace.
    ///
    /// # Errors
    /// The directory holds a trace already, or cannot be written; named.
    pub fn create(dir: &Path, about: &About, jobs: &[Job], tasks: &[Task]) -> io::Result<Tracer> {
        let mut env = about.environment.clone();
        let mut put = |key: &str, value: String| drop(env.insert(key.into(), value));
        put("origin", "simulated".into());
        put("model", about.model.clone());
        put("scheduler", about.scheduler.clone());
        put("hostname", "simulated".into());
        put("sysname", "simulated".into());
        put("kernel_release", "simulated".into());
        put("machine", "simulated".into());
        put("cpus_online", "0".into());
        put("everyone", "0".into());
        put("only_target", "1".into());
        put("target_kind", "simulation".into());
        put("events", events());
        put("events_lacking", String::new());
        if tasks.len() == 1 {
            put("command_pid", FIRST_PID.to_string());
        }
        let metadata = Metadata { host: [0; 16], clock_offset: 0, env };
        let mut writer = TraceWriter::new(DirectorySink::create(dir, &metadata)?, 1, BEGIN);
        let clock = StateClock { monotonic: BEGIN, boottime: BEGIN, realtime: BEGIN };
        writer.state(BEGIN, &clock)?;
        let disk = StateDisk {
            dev: DEV,
            disk: DEV,
            rotational: u8::from(about.rotational),
            nr_requests: about.nr_requests,
            name: "sim0".into(),
            scheduler: about.scheduler.clone(),
            backing: String::new(),
        };
        writer.state(BEGIN, &disk)?;
        let mut threads: Vec<Thread> = Vec::new();
        for (number, task) in tasks.iter().enumerate() {
            let job = &jobs[task.job];
            let tid = FIRST_PID + number as u32;
            // Threads of a process stand together.
            let tgid = tid - task.worker % job.threads.max(1);
            let comm: String = format!("{}-{}", job.what, task.job + 1).chars().take(15).collect();
            let cmdline = format!("{} {} of {}", job.what, job.places(), job.block);
            let state = StateTask {
                tid,
                tgid,
                ppid: 1,
                kernel: 0,
                target: 1,
                syscall: StateTask::NO_SYSCALL,
                comm,
                cmdline,
            };
            writer.state(BEGIN, &state)?;
            let calls = Calls::of(job);
            let queues = task.queues;
            threads.push(Thread { tid, tgid, queues, calls, call: None, result: None, slept: Sleep::Time });
        }
        Ok(Tracer { writer, threads, frame: Frame::None, on_cpu: 0, end: 0, error: None })
    }

    /// Ends the trace at `end`, the simulation's time.
    ///
    /// # Errors
    /// The first that met it; the trace is not whole then.
    pub fn finish(mut self, end: Ns) -> io::Result<u64> {
        let end = end.max(self.end);
        self.frame(end, Frame::None);
        if let Some(error) = self.error {
            return Err(error);
        }
        let events = self.writer.records();
        let state = StateEnd {
            events,
            lost: 0,
            missed: 0,
            stacks_lost: 0,
            begin: BEGIN,
            end: BEGIN + end,
            exit_code: -1,
            reason: "the simulated tasks ended".into(),
        };
        self.writer.state(BEGIN + end, &state)?;
        self.writer.finish()?;
        Ok(events)
    }

    fn put<R: Record>(&mut self, record: &R) {
        if self.error.is_none() {
            self.error = self.writer.record(0, record.bytes()).err();
        }
    }

    /// Ends the interrupt that lies on top unless it is this one, and begins this one.
    fn frame(&mut self, now: Ns, frame: Frame) {
        if self.frame == frame {
            return;
        }
        let (ts, lap, tid) = (BEGIN + now, 1, self.on_cpu);
        match std::mem::replace(&mut self.frame, frame) {
            Frame::None => {}
            Frame::Device => {
                let id = IrqHandlerExit::ID;
                self.put(&IrqHandlerExit { ts, id, lap, tid, irq: IRQ, ret: 1, unused: 0 });
            }
            Frame::Timer => {
                let id = LocalTimerExit::ID;
                self.put(&LocalTimerExit { ts, id, lap, tid, vec: TIMER, unused: 0, unused2: 0 });
            }
        }
        match frame {
            Frame::None => {}
            Frame::Device => {
                let id = IrqHandlerEntry::ID;
                self.put(&IrqHandlerEntry { ts, id, lap, tid, irq: IRQ, unused: 0, unused2: 0 });
            }
            Frame::Timer => {
                let id = LocalTimerEntry::ID;
                self.put(&LocalTimerEntry { ts, id, lap, tid, vec: TIMER, unused: 0, unused2: 0 });
            }
        }
    }

    fn switch(&mut self, now: Ns, next: u32, prev_state: u32) {
        self.put(&SchedSwitch {
            ts: BEGIN + now,
            id: SchedSwitch::ID,
            lap: 1,
            tid: self.on_cpu,
            next_tid: next,
            prev_state,
            prev_prio: PRIORITY,
            next_prio: PRIORITY,
            preempt: 0,
        });
        self.on_cpu = next;
    }

    fn enter(&mut self, now: Ns, task: u32, nr: u32, arg0: u32, arg2: u64) {
        let t = &mut self.threads[task as usize];
        t.call = Some(nr);
        let tid = t.tid;
        self.put(&SysEnter { ts: BEGIN + now, id: SysEnter::ID, lap: 1, tid, nr, arg0, arg2 });
    }

    /// Leaves the call that the task is in, if it is in one.
    fn leave(&mut self, now: Ns, task: u32) {
        let t = &mut self.threads[task as usize];
        let (ret, tid) = (t.result.take().unwrap_or(0), t.tid);
        if let Some(nr) = t.call.take() {
            self.put(&SysExit { ts: BEGIN + now, id: SysExit::ID, lap: 1, tid, nr, unused: 0, ret });
        }
    }
}
