// SPDX-License-Identifier: Apache-2.0 OR MIT
//! State machines that turn a trace into an account of time.
//!
//! After T. Horikawa, "A software event tracer for Linux": CPU, disk and
//! process are objects, every interaction of two of them is an event, and the
//! state diagrams decide what is measured. Here each object is an enum and a
//! match; time is conserved: the intervals of a thread and of a CPU follow
//! each other without gap and without overlap, and what is not understood is
//! an interval called unexplained.
//!
//! Pure: no files, no clock, no opinion. Memory is bounded by what is open
//! (threads that live, requests that are pending), not by the trace's length.

mod account;
mod ahead;
mod block;
mod blockers;
mod connections;
mod cpu;
mod disk;
mod disk_trend;
mod files;
mod functions;
mod herds;
mod histogram;
mod history;
mod index;
mod journal;
mod latches;
mod ledger;
mod locks;
mod longest;
mod machine;
mod operations;
mod parts;
mod path;
mod pattern;
mod process;
pub mod profile;
pub mod requests;
mod result;
mod samples;
pub mod sched;
mod services;
mod setup;
mod slow;
mod spans;
mod sum;
pub mod tasks;
mod thread;
mod triggered;
pub mod views;
mod wait;
mod wait_events;
mod wait_frames;

pub use account::{Account, Category, CATEGORIES};
pub use block::{Below, Stamp as Request};
pub use histogram::Histogram;
pub use history::Cause;
pub use latches::has_interpreter;
pub use machine::{Carried, Model};
pub use parts::{Who, TCP_AGAIN, TCP_TIMER};
pub use process::{add_process, add_thread};
pub use result::{
    BlameRow, BlockerRow, CauseRow, CpuRow, DeviceRow, EndedByRow, FileRow, FunctionRow, HandoffRow,
    HerdResult, HotRow, JournalResult, LockRow, OperationRow, OtherRow, PathResult, PatternRow, ProcessRow,
    RunResult, SampleResult, ServiceResult, ServiceRun, SlowSpanRow, SpanRow, SyscallRow, TailRow, ThirdRow,
    ThreadRow, TriggerRow, UnexplainedRow, Use, WaitEventRow, WaitRow,
};
pub use samples::At;
pub use setup::Setup;
pub use slow::SlowRequest;
pub use sum::sum;
pub use wait::waits_on;
pub use wait_frames::is_scheduler;

/// Sees every interval as it closes; the account is made of these and no others.
pub trait Observer {
    /// A thread was in one state from `start` to `end` (ns), `end > start`.
    fn thread(&mut self, tid: u32, start: u64, end: u64, state: ThreadState);
    /// A thread's sleep that ends at `end` (ns) ends by this, and nothing else is known of it; comes before its interval. With `throttled` it
    /// waited until dirty pages were written.
    fn woken(&mut self, _tid: u32, _end: u64, _: Cause, _throttled: bool) {}
    /// A CPU was in one state from `start` to `end` (ns), `end > start`.
    fn cpu(&mut self, cpu: u32, start: u64, end: u64, state: CpuState);
    /// Time of a thread of the target, as it enters the account.
    fn spent(&mut self, _: &Spent) {}
    /// What a thread of its service did meanwhile, for which a thread waits with a request in progress: the pieces of one
    /// wait, before the wait itself is `spent`.
    fn followed(&mut self, _: &Spent) {}
    /// The recorder told of a moment, up to 2 s before its time.
    fn told(&mut self, _: &Told) {}
    /// A thread of process `tgid` was sampled; called when the sample's time has come, in the order of time.
    fn sampled(&mut self, _tgid: u32, _target: bool, _: &StateCpuSample) {}
    /// A thread entered a system call.
    fn called(&mut self, _tid: u32) {}
    /// A thread came back from a system call; `ts` is its sys_exit's own time.
    fn returned(&mut self, _tid: u32, _ts: u64) {}
    /// A block request completed. `number` is its own, and rises; what nobody issued (a part of a
    /// request, the second completion of one with a flush behind it) comes with `counted` false.
    fn request(&mut self, _number: u64, _: &Request, _counted: bool) {}
    /// An operation of a workload ended.
    fn operation(&mut self, _: &Operation) {}
    /// A thread's name got its number; comes before the number is used.
    fn named(&mut self, _number: u32, _name: &str) {}
    /// A thread, of the target or not, has this name from now on.
    fn known_as(&mut self, _tid: u32, _name: u32) {}
    /// The end: what threads and causes are called.
    fn end(&mut self, _: &dyn Naming) {}
}

/// Time of one thread that goes to one part of its account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    pub tid: u32,
    pub tgid: u32,
    /// Its name, see [`Naming`].
    pub name: u32,
    /// What the time went to.
    pub category: Category,
    pub who: Who,
    /// Beginning, ns. An interrupt's time on top of a thread lies somewhere in it.
    pub from: u64,
    /// End, ns.
    pub to: u64,
    /// How much of it, ns; less than its length where interrupts were on top.
    pub time: u64,
    /// The block request that it went to: its number and one, see [`Observer::request`]; 0 is none.
    pub request: u64,
    /// The wait that this is a part of; `None` for time on a CPU or waiting for one.
    pub wait: Option<Slept>,
}

/// A wait, of which a piece of time is a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slept {
    /// When the thread slept, ns.
    pub start: u64,
    /// When it ran again, ns.
    pub end: u64,
    /// Kernel stack on which it slept; 0: none was taken.
    pub stack: u32,
    /// Thread that woke it; 0: an interrupt did, or nothing tells.
    pub waker: u32,
}

/// An operation that a workload told of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    pub tid: u32,
    pub tgid: u32,
    pub kind: OperationKind,
    /// Begin, ns.
    pub begin: u64,
    /// End, ns.
    pub end: u64,
    /// Bytes moved; minus the error number where it failed.
    pub result: i64,
    /// How long after its intended time it began, us.
    pub late: u32,
}

/// What numbers mean, when everything was seen.
pub trait Naming {
    /// Name of a thread's name number.
    fn name(&self, number: u32) -> String;
    /// Thread's name or disk; empty for nobody.
    fn who(&self, who: Who) -> String;
    /// Name of a process of the target; empty where its number is not known.
    fn process(&self, tgid: u32) -> String;
}

use plumb_trace::load::OperationKind;
use plumb_trace::reader::Told;
use plumb_trace::schema::StateCpuSample;

/// Two that see the same.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn thread(&mut self, tid: u32, start: u64, end: u64, state: ThreadState) {
        self.0.thread(tid, start, end, state);
        self.1.thread(tid, start, end, state);
    }
    fn woken(&mut self, tid: u32, end: u64, cause: Cause, throttled: bool) {
        self.0.woken(tid, end, cause, throttled);
        self.1.woken(tid, end, cause, throttled);
    }
    fn cpu(&mut self, cpu: u32, start: u64, end: u64, state: CpuState) {
        self.0.cpu(cpu, start, end, state);
        self.1.cpu(cpu, start, end, state);
    }
    fn spent(&mut self, s: &Spent) {
        self.0.spent(s);
        self.1.spent(s);
    }
    fn followed(&mut self, s: &Spent) {
        self.0.followed(s);
        self.1.followed(s);
    }
    fn told(&mut self, told: &Told) {
        self.0.told(told);
        self.1.told(told);
    }
    fn sampled(&mut self, tgid: u32, target: bool, s: &StateCpuSample) {
        self.0.sampled(tgid, target, s);
        self.1.sampled(tgid, target, s);
    }
    fn called(&mut self, tid: u32) {
        self.0.called(tid);
        self.1.called(tid);
    }
    fn returned(&mut self, tid: u32, ts: u64) {
        self.0.returned(tid, ts);
        self.1.returned(tid, ts);
    }
    fn request(&mut self, number: u64, request: &Request, counted: bool) {
        self.0.request(number, request, counted);
        self.1.request(number, request, counted);
    }
    fn operation(&mut self, operation: &Operation) {
        self.0.operation(operation);
        self.1.operation(operation);
    }
    fn named(&mut self, number: u32, name: &str) {
        self.0.named(number, name);
        self.1.named(number, name);
    }
    fn known_as(&mut self, tid: u32, name: u32) {
        self.0.known_as(tid, name);
        self.1.known_as(tid, name);
    }
    fn end(&mut self, naming: &dyn Naming) {
        self.0.end(naming);
        self.1.end(naming);
    }
}

/// One that may be left out.
impl<O: Observer> Observer for Option<O> {
    fn thread(&mut self, tid: u32, start: u64, end: u64, state: ThreadState) {
        self.iter_mut().for_each(|o| o.thread(tid, start, end, state));
    }
    fn woken(&mut self, tid: u32, end: u64, cause: Cause, throttled: bool) {
        self.iter_mut().for_each(|o| o.woken(tid, end, cause, throttled));
    }
    fn cpu(&mut self, cpu: u32, start: u64, end: u64, state: CpuState) {
        self.iter_mut().for_each(|o| o.cpu(cpu, start, end, state));
    }
    fn spent(&mut self, s: &Spent) {
        self.iter_mut().for_each(|o| o.spent(s));
    }
    fn followed(&mut self, s: &Spent) {
        self.iter_mut().for_each(|o| o.followed(s));
    }
    fn told(&mut self, told: &Told) {
        self.iter_mut().for_each(|o| o.told(told));
    }
    fn sampled(&mut self, tgid: u32, target: bool, s: &StateCpuSample) {
        self.iter_mut().for_each(|o| o.sampled(tgid, target, s));
    }
    fn called(&mut self, tid: u32) {
        self.iter_mut().for_each(|o| o.called(tid));
    }
    fn returned(&mut self, tid: u32, ts: u64) {
        self.iter_mut().for_each(|o| o.returned(tid, ts));
    }
    fn request(&mut self, number: u64, request: &Request, counted: bool) {
        self.iter_mut().for_each(|o| o.request(number, request, counted));
    }
    fn operation(&mut self, operation: &Operation) {
        self.iter_mut().for_each(|o| o.operation(operation));
    }
    fn named(&mut self, number: u32, name: &str) {
        self.iter_mut().for_each(|o| o.named(number, name));
    }
    fn known_as(&mut self, tid: u32, name: u32) {
        self.iter_mut().for_each(|o| o.known_as(tid, name));
    }
    fn end(&mut self, naming: &dyn Naming) {
        self.iter_mut().for_each(|o| o.end(naming));
    }
}

impl Observer for () {
    fn thread(&mut self, _: u32, _: u64, _: u64, _: ThreadState) {}
    fn cpu(&mut self, _: u32, _: u64, _: u64, _: CpuState) {}
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadState {
    /// On a CPU, interrupts on top of it included.
    Running,
    /// Ready, without a CPU.
    Runnable,
    Sleeping,
    /// Events are missing that would tell.
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuState {
    Idle,
    Busy(u32),
    /// Nothing has been seen of it yet.
    Unseen,
    /// Events are missing that would tell.
    Lost,
}
