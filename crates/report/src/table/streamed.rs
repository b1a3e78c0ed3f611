// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables whose rows pass by while the model reads the trace.

use super::{table, Context, Sink};
use crate::stream::{CpuInterval, Interval, OperationRow, RequestRow, SampleRow, Take, Wait};
use plumb_model::{Below, CpuState, Who};
use plumb_trace::kernel::req;

table!(INTERVALS, Intervals, Account, "intervals",
"What each thread of the target was at, interval by interval. By category, time_ns adds up to the account, but for `interrupted`: interrupts on top of running lie inside an interval",
interval(r: &Interval, c) {
    tid: Integer = r.tid, "Thread";
    pid: Integer = r.pid, "Its process";
    thread: Text = c.name(r.name), "Its name then";
    category: Text = r.category.name(), "What the time went to, see categories";
    who: Text = c.who(r.who), "Thread's name or disk that had it; none: nobody in particular";
    from_ns: Integer = r.from, "Begin";
    to_ns: Integer = r.to, "End";
    time_ns: Integer = r.time, "What of it entered the account";
    wait: Integer = some(r.wait), "Wait that it is a part of, see waits; none: running or runnable";
    request: Integer = some(r.request), "Block request that it went to, see requests; a part of a request has a number and no row";
});

table!(CPU_INTERVALS, CpuIntervals, Trace, "cpu_intervals", "What each CPU was at, interval by interval",
cpu_interval(r: &CpuInterval, c) {
    cpu: Integer = r.cpu, "CPU";
    state: Text = state(r.state), "idle, busy, unseen (nothing was seen of it yet), lost (events are missing)";
    tid: Integer = on(r.state), "Thread that it ran, none where it is not busy";
    from_ns: Integer = r.from, "Begin";
    to_ns: Integer = r.to, "End";
});

table!(WAITS, Waits, Account, "waits", "Times that a thread of the target slept",
wait(r: &Wait, c) {
    wait: Integer = r.number, "Number, in the order of ends; intervals name it";
    tid: Integer = r.tid, "Thread";
    pid: Integer = r.pid, "Its process";
    from_ns: Integer = r.from, "Begin";
    to_ns: Integer = r.to, "When it ran again";
    stack: Integer = some(r.stack.into()), "Kernel stack on which it slept, see stacks; none: none was taken";
    waker: Integer = some(r.waker.into()), "Thread that woke it; none: an interrupt did, or nothing tells";
});

table!(REQUESTS, Requests, Block, "requests",
"Block requests that were issued and completed. The layers add up to q2c_ns; a step that was not seen has the next one's time",
request(r: &RequestRow, c) {
    request: Integer = r.number, "Number, in the order of completions; intervals name it";
    device: Text = c.disk(r.request.dev), "Disk";
    operation: Text = req::word_of(r.request.opf, r.request.len), "read, write, flush, discard ...; empty write: asks for a flush, and the kernel sends one of its own";
    flags: Integer = r.request.opf, "The kernel's operation and flags (REQ_)";
    bytes: Integer = r.request.len, "Bytes; 0 for a flush";
    sector: Integer = r.request.sector, "First sector of 512 bytes; none: it has no place";
    owner: Integer = some(r.request.owner.into()), "Thread that queued its first bio";
    depth: Integer = r.request.depth, "Requests in flight at issue, this one included";
    queued_ns: Integer = r.steps[0], "When it was queued";
    complete_ns: Integer = r.steps[5], "When it completed";
    q2g_ns: Integer = r.steps[1] - r.steps[0], "Waiting for a request (tag)";
    g2f_ns: Integer = r.steps[2] - r.steps[1], "From the slot to its insertion, or to the flush that had to come first";
    f2i_ns: Integer = r.steps[3] - r.steps[2], "While the device flushed what it was sent before";
    i2d_ns: Integer = r.steps[4] - r.steps[3], "In the scheduler's queue until it was issued";
    d2c_ns: Integer = r.steps[5] - r.steps[4], "In flight: device service time";
    q2c_ns: Integer = r.steps[5] - r.steps[0], "From queueing to completion";
    below: Integer = below(r.request.below), "Of a device that stands on another: the request below whose completion was its own";
    server: Integer = server(r.request.below), "Of a device that a thread serves: that thread";
});

table!(SAMPLES, Samples, Samples, "samples", "What the target was at when the sampling clock ticked",
sample(r: &SampleRow, c) {
    at_ns: Integer = r.at, "When";
    tid: Integer = r.tid, "Thread";
    pid: Integer = r.pid, "Its process";
    cpu: Integer = r.cpu, "CPU";
    kernel_stack: Integer = some(r.kernel.into()), "Kernel stack, see stacks; none in user mode";
    user_stack: Integer = some(r.user.into()), "User stack, see stacks; none where there is none";
});

table!(OPERATIONS, Operations, Operations, "operations", "Operations that workloads told of themselves",
operation_row(r: &OperationRow, c) {
    tid: Integer = r.tid, "Thread";
    pid: Integer = r.pid, "Its process";
    kind: Text = r.kind.word(), "write, rewrite, read, reread, sync, create ...";
    from_ns: Integer = r.from, "Begin";
    to_ns: Integer = r.to, "End";
    time_ns: Integer = r.to.saturating_sub(r.from), "How long it took";
    bytes: Integer = (r.result >= 0).then_some(r.result), "Bytes moved, none where it failed";
    error: Integer = (r.result < 0).then_some(r.result.saturating_neg()), "Error number, none where it succeeded";
    late_us: Integer = r.late, "How long after its intended time it began";
});

/// Numbers begin with 1.
fn some(number: u64) -> Option<u64> {
    (number > 0).then_some(number)
}

fn state(state: CpuState) -> &'static str {
    match state {
        CpuState::Idle => "idle",
        CpuState::Busy(_) => "busy",
        CpuState::Unseen => "unseen",
        CpuState::Lost => "lost",
    }
}

fn on(state: CpuState) -> Option<u32> {
    match state {
        CpuState::Busy(tid) => Some(tid),
        _ => None,
    }
}

/// The model's numbers begin with 0, the rows' with 1.
fn below(below: Below) -> Option<u64> {
    match below {
        Below::Request(number) => Some(number + 1),
        _ => None,
    }
}

fn server(below: Below) -> Option<u32> {
    match below {
        Below::Thread(tid) => Some(tid),
        _ => None,
    }
}

/// Hands the rows that pass by to a sink.
#[derive(Debug)]
pub struct Filler<'a, S: ?Sized> {
    /// Names; the tables that come after the trace need them too.
    pub context: Context,
    pub sink: &'a mut S,
    wants: [bool; 6],
    last: (u32, u32),
}

impl<'a, S: Sink + ?Sized> Filler<'a, S> {
    /// Only the tables that the sink wants.
    pub fn new(context: Context, sink: &'a mut S) -> Self {
        let tables = [&INTERVALS, &CPU_INTERVALS, &WAITS, &REQUESTS, &SAMPLES, &OPERATIONS];
        let wants = tables.map(|t| sink.wants(t));
        Self { context, sink, wants, last: (0, 0) }
    }
}

impl<S: Sink + ?Sized> Take for Filler<'_, S> {
    fn name(&mut self, number: u32, name: &str) {
        self.context.named(number, name);
    }

    fn interval(&mut self, r: &Interval) {
        if self.last != (r.tid, r.name) {
            self.last = (r.tid, r.name);
            self.context.thread_is(r.tid, r.name);
        }
        if self.wants[0] {
            if let Who::Disk(dev) = r.who {
                self.context.disk_comes(dev);
            }
            interval(self.sink, &self.context, r);
        }
    }

    fn cpu(&mut self, r: &CpuInterval) {
        if self.wants[1] {
            cpu_interval(self.sink, &self.context, r);
        }
    }

    fn wait(&mut self, r: &Wait) {
        if self.wants[2] {
            wait(self.sink, &self.context, r);
        }
    }

    fn request(&mut self, r: &RequestRow) {
        if self.wants[3] {
            self.context.disk_comes(r.request.dev);
            request(self.sink, &self.context, r);
        }
    }

    fn sample(&mut self, r: &SampleRow) {
        if self.wants[4] {
            sample(self.sink, &self.context, r);
        }
    }

    fn operation(&mut self, r: &OperationRow) {
        if self.wants[5] {
            operation_row(self.sink, &self.context, r);
        }
    }
}
