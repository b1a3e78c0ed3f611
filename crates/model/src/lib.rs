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
mod block;
mod course;
mod cpu;
mod disk;
mod files;
mod functions;
mod history;
mod journal;
mod locks;
mod longest;
mod machine;
mod operations;
mod parts;
mod path;
mod pattern;
mod process;
pub mod profile;
mod result;
mod samples;
mod thread;
pub mod views;
mod wait;

pub use account::{Account, Category, CATEGORIES};
pub use machine::{Model, Setup};
pub use parts::Who;
pub use result::{
    BlameRow, CpuRow, DeviceRow, FileRow, FunctionRow, HandoffRow, HerdResult, HotRow, JournalResult,
    LockRow, OperationRow, OtherRow, PathResult, PatternRow, ProcessRow, RunResult, SampleResult, SyscallRow,
    ThirdRow, ThreadRow, UnexplainedRow, Use, WaitRow,
};

/// Sees every interval as it closes; the account is made of these and no others.
pub trait Observer {
    /// A thread was in one state from `start` to `end` (ns), `end > start`.
    fn thread(&mut self, tid: u32, start: u64, end: u64, state: ThreadState);
    /// A CPU was in one state from `start` to `end` (ns), `end > start`.
    fn cpu(&mut self, cpu: u32, start: u64, end: u64, state: CpuState);
    /// Time of a thread of the target, as it enters the account.
    fn spent(&mut self, _: &Spent) {}
    /// The recorder told of a moment, up to 2 s before its time.
    fn told(&mut self, _: &Told) {}
    /// A thread of process `tgid` was sampled; called when the sample's time has come, in the order of time.
    fn sampled(&mut self, _tgid: u32, _target: bool, _: &StateCpuSample) {}
    /// A thread entered a system call.
    fn called(&mut self, _tid: u32) {}
    /// A thread came back from a system call; `ts` is its sys_exit's own time.
    fn returned(&mut self, _tid: u32, _ts: u64) {}
    /// The end: what threads and causes are called.
    fn end(&mut self, _: &dyn Naming) {}
}

/// Time of one thread that goes to one part of its account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    /// Thread.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// Its name, see [`Naming`].
    pub name: u32,
    /// What the time went to.
    pub category: Category,
    /// Whose it was.
    pub who: Who,
    /// Beginning, ns. An interrupt's time on top of a thread lies somewhere in it.
    pub from: u64,
    /// End, ns.
    pub to: u64,
    /// How much of it, ns; less than its length where interrupts were on top.
    pub time: u64,
    /// The wait that this is a part of ended then, and on this kernel stack (0: none was taken).
    /// `None` for time on a CPU or waiting for one.
    pub wait: Option<(u64, u32)>,
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

use plumb_trace::reader::Told;
use plumb_trace::schema::StateCpuSample;

impl Observer for () {
    fn thread(&mut self, _: u32, _: u64, _: u64, _: ThreadState) {}
    fn cpu(&mut self, _: u32, _: u64, _: u64, _: CpuState) {}
}

/// States of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadState {
    /// On a CPU, interrupts on top of it included.
    Running,
    /// Ready, without a CPU.
    Runnable,
    /// Waiting for something.
    Sleeping,
    /// Events are missing that would tell.
    Lost,
}

/// States of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuState {
    /// Runs the idle thread.
    Idle,
    /// Runs a thread.
    Busy(u32),
    /// Nothing has been seen of it yet.
    Unseen,
    /// Events are missing that would tell.
    Lost,
}
