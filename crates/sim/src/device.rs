// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Device models. A [`Device`] is told of requests and of time, and tells what ended when.
//!
//! One file a kind of medium ([`hdd`], [`ssd`], [`volume`], [`channels`], [`instant`]); [`network`] and
//! [`faulty`] stand before another device and change what it does. [`server`] is none, but what
//! queueing theory knows.

mod agenda;
mod chance;
pub mod channels;
mod check;
pub mod faulty;
pub mod hdd;
pub mod instant;
pub mod network;
pub mod server;
pub mod ssd;
#[cfg(test)]
pub(crate) mod testing;
pub mod volume;

use serde::Serialize;
use std::ops::AddAssign;

/// Time, ns from the device's beginning.
pub type Ns = u64;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Bytes from the device.
    Read,
    /// Bytes to the device.
    Write,
    /// Everything that was written and acknowledged before becomes durable.
    Flush,
    /// The contents of these bytes are not needed any more.
    Discard,
}

/// A request as it arrives at the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Told again in its [`Completion`]; unique among those under way.
    pub id: u64,
    pub operation: Operation,
    /// First byte; a multiple of 512.
    pub offset: u64,
    /// Bytes; a multiple of 512; 0 of a flush.
    pub length: u32,
    /// A write that is durable when it completes (forced unit access).
    pub fua: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// It failed; the errno. Nothing was read or written.
    Failed(i32),
    /// It says that it was done, and was not: the write is dropped, the flush made nothing durable.
    Lied,
    /// It says that it was done, and only the first so many bytes were written.
    Torn(u32),
}

/// Whose time a request's time was, ns; the parts add up to it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Parts {
    /// Behind other requests, in the device.
    pub queued: Ns,
    /// Commands, controller, cache, the wire.
    pub overhead: Ns,
    /// The arm moved, or a head was switched.
    pub seek: Ns,
    /// The sector was not under the head yet.
    pub rotation: Ns,
    /// Bytes went from or to the medium: transfer, flash read, program, erase.
    pub medium: Ns,
    /// Held back on purpose: a volume's limit.
    pub throttled: Ns,
    pub fault: Ns,
}

impl Parts {
    pub fn total(&self) -> Ns {
        self.queued + self.overhead + self.seek + self.rotation + self.medium + self.throttled + self.fault
    }
}

impl AddAssign for Parts {
    fn add_assign(&mut self, other: Parts) {
        self.queued += other.queued;
        self.overhead += other.overhead;
        self.seek += other.seek;
        self.rotation += other.rotation;
        self.medium += other.medium;
        self.throttled += other.throttled;
        self.fault += other.fault;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    pub id: u64,
    pub at: Ns,
    pub outcome: Outcome,
    /// Why then: adds up to `at` less the time of its submission.
    pub parts: Parts,
}

/// A device that takes time.
///
/// The caller owns the clock. Times never go back: before [`Device::submit`] at a time it
/// calls [`Device::advance`] to that time. Nothing happens in the device between calls
/// but what [`Device::next_event`] announced.
pub trait Device: Send {
    /// Its length, bytes.
    fn size(&self) -> u64;

    /// Takes a request. However many are under way, it takes one more; one beyond the
    /// end of the device fails with ENOSPC (a write) or EIO.
    fn submit(&mut self, now: Ns, request: Request);

    /// The next moment at which something happens in it by itself. None when nothing
    /// is under way that time alone would change.
    fn next_event(&self) -> Option<Ns>;

    /// Lets time pass up to and including `now`; what ended until then is appended in the
    /// order of its end.
    fn advance(&mut self, now: Ns, ended: &mut Vec<Completion>);

    /// Requests that were submitted and have not ended.
    fn under_way(&self) -> usize;

    /// Whether acknowledged writes can be lost in a power cut until a flush.
    fn volatile_cache(&self) -> bool;
}

/// Lets everything that is under way end; for tests and loads without a clock.
pub fn drain(device: &mut dyn Device, ended: &mut Vec<Completion>) {
    while let Some(next) = device.next_event() {
        device.advance(next, ended);
    }
}
