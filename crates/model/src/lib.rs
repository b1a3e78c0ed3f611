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
mod result;
mod samples;
mod thread;
pub mod views;
mod wait;

pub use account::{Account, Category, CATEGORIES};
pub use machine::{Model, Setup};
pub use result::{
    BlameRow, CpuRow, DeviceRow, FileRow, FunctionRow, HandoffRow, HerdResult, JournalResult, LockRow,
    OperationRow, OtherRow, PathResult, PatternRow, ProcessRow, RunResult, SampleResult, SyscallRow,
    ThirdRow, ThreadRow, UnexplainedRow, Use, WaitRow,
};

/// Sees every interval as it closes; the account is made of these and no others.
pub trait Observer {
    /// A thread was in one state from `start` to `end` (ns), `end > start`.
    fn thread(&mut self, tid: u32, start: u64, end: u64, state: ThreadState);
    /// A CPU was in one state from `start` to `end` (ns), `end > start`.
    fn cpu(&mut self, cpu: u32, start: u64, end: u64, state: CpuState);
}

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
