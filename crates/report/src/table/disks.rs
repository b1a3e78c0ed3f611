// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices and how they were used.

use super::account::filled;
use super::{table, Context, Sink};
use plumb_model::{DeviceRow, FileRow, PatternRow, RunResult};

table!(DEVICES, Devices, Block, "devices", "Queues of the devices that were used",
device(d: &DeviceRow, c) {
    device: Text = &d.name, "Kernel name, or major:minor";
    backing: Text = filled(&d.backing), "File behind a loop device";
    reads: Integer = d.reads, "Reads with data";
    writes: Integer = d.writes, "Writes with data";
    read_bytes: Integer = d.read_bytes, "Bytes read";
    write_bytes: Integer = d.write_bytes, "Bytes written";
    discards: Integer = d.discards, "Discards, secure erases and zeroes that the device writes by itself";
    discard_bytes: Integer = d.discard_bytes, "Bytes that those concern";
    flushes: Integer = d.flushes, "Flushes that the kernel sent";
    merges: Integer = d.merges, "Bios that joined a request";
    requeues: Integer = d.requeues, "Requests that came back from the driver";
    errors: Integer = d.errors, "Requests that failed";
    busy_ns: Integer = d.busy, "Time with at least one request at the driver";
    mean_in_flight: Real = d.mean_in_flight, "Mean number of requests at the driver over the whole time";
    max_in_flight: Integer = d.max_in_flight, "Most requests at the driver at once";
    q2g_mean_ns: Real = d.q2g, "Mean from queueing to a slot";
    g2i_mean_ns: Real = d.g2i, "Mean from the slot to insertion, a flush left out";
    flush_mean_ns: Real = d.flush, "Mean of the wait for a flush that had to come first";
    i2d_mean_ns: Real = d.i2d, "Mean from insertion to issue";
    d2c_mean_ns: Real = d.d2c, "Mean from issue to completion";
});

table!(PATTERNS, Patterns, Block, "patterns", "How each process used each disk, in each direction",
pattern(p: &PatternRow, c) {
    pid: Integer = p.pid, "Process";
    process: Text = &p.comm, "Name of one of its threads";
    target: Integer = p.target, "1: it belongs to the target";
    device: Text = &p.device, "Disk";
    write: Integer = p.write, "1: writes; 0: reads";
    requests: Integer = p.requests, "Requests with data";
    bytes: Integer = p.bytes, "Their bytes";
    sequential: Integer = p.sequential, "Those that began where the last one ended";
    near: Integer = p.near, "Those that began less than 1 MiB behind it";
    ahead: Integer = p.ahead, "Read-ahead of the kernel";
    sync: Integer = p.sync, "Requests with waiters (REQ_SYNC)";
    barrier: Integer = p.barrier, "Those with FUA or a flush first";
    depth_mean: Real = p.depth, "Mean number of requests in flight at issue";
    service_ns: Integer = p.service, "Device service time: sum";
    service_median_ns: Integer = p.service_median, "Median";
    service_p99_ns: Integer = p.service_p99, "99th percentile";
    service_max_ns: Integer = p.service_max, "Longest";
    service_stalled_ns: Integer = p.service_stalled, "Time of those that took over ten times the median";
});

table!(SYNCED_FILES, SyncedFiles, Syscalls, "synced_files", "Files that were synced, most time first",
file(f: &FileRow, c) {
    path: Text = &f.path, "Path, as /proc told it";
    calls: Integer = f.calls, "Calls of fsync(2) and the like";
    time_ns: Integer = f.time, "Their time";
});

/// Hands all of them to a sink.
pub(super) fn tell<S: Sink + ?Sized>(result: &RunResult, c: &Context, sink: &mut S) {
    result.devices.iter().for_each(|d| device(sink, c, d));
    result.patterns.iter().for_each(|p| pattern(sink, c, p));
    result.synced_files.iter().for_each(|f| file(sink, c, f));
}
