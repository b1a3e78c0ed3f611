// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A model that real requests run against, in real time.
//!
//! A connection ([`Front`]) submits a [`Job`]; the model is told of it at the time of its
//! arrival and says when it ends. The reply goes out so much earlier as the way from the
//! user to the server and back takes ([`Realtime::set_path`]), so that the user sees the
//! model's time. One thread waits for the next such moment (`clock`); what is due when a
//! request is submitted is answered by the thread that submits.
//!
//! The model and what is under way are under one lock (`state`). Bytes are moved and
//! replies written outside of it, when a request ends: that is when a write can be seen
//! and when a flush makes durable what was acknowledged before. Requests under way at the
//! same time on the same bytes have no order.

mod clock;
mod inner;
mod state;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;

use super::log::Log;
use super::media::{Media, Toll, Unfinished};
use crate::device::{Device, Ns, Operation};
use clock::Bell;
use inner::Inner;
use state::State;
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Who gets replies: the FUSE or NBD connection.
pub trait Front: Send + Sync {
    /// The end of the request that was submitted with this token. Called once for each, by any
    /// thread, also by the one that submits it and before `submit` returns. It should not wait:
    /// others' replies come after it. It must not submit.
    fn reply(&self, token: u64, answer: Answer<'_>);
}

/// How a request ended, as its user is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<'a> {
    /// What a read was for, all of it.
    Data(&'a [u8]),
    /// Done, or so the model says.
    Done,
    Failed(i32),
}

/// A request of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    pub operation: Operation,
    /// First byte. The model is told of the whole sectors around it.
    pub offset: u64,
    /// Bytes; 0 of a flush.
    pub length: u32,
    /// A write that is durable when it completes.
    pub fua: bool,
    /// Told again in [`Front::reply`].
    pub token: u64,
}

/// The model's time for a request, see [`Realtime::last_service`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    pub operation: Operation,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
    /// From its arrival to its end, ns, as the model has it.
    pub service: Ns,
}

/// A served model. [`Realtime::stop`] or dropping it ends its thread.
pub struct Realtime {
    inner: Arc<Inner>,
    clock: Mutex<Option<JoinHandle<()>>>,
}

impl Realtime {
    /// Starts the model's time and the thread that waits for its moments.
    ///
    /// # Errors
    /// The media's length is not the device's, or no thread can be made.
    pub fn start(device: Box<dyn Device>, media: Media, log: Option<Log>) -> io::Result<Arc<Realtime>> {
        let size = device.size();
        if media.size() != size {
            let why = format!("the model is {size} bytes long and what stores its data {}", media.size());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        if device.volatile_cache() {
            media.track();
        }
        let state = Mutex::new(State::new(device));
        let inner = Arc::new(Inner {
            size,
            state,
            bell: Bell::default(),
            media,
            log,
            logged_from: AtomicU64::new(0),
            buffers: Mutex::default(),
        });
        let theirs = Arc::clone(&inner);
        let clock = std::thread::Builder::new().name("disk-clock".into()).spawn(move || {
            if catch_unwind(AssertUnwindSafe(|| theirs.wait_and_reply())).is_err() {
                theirs.fail_everything();
            }
        })?;
        Ok(Arc::new(Realtime { inner, clock: Mutex::new(Some(clock)) }))
    }

    /// The device's length, bytes.
    pub fn size(&self) -> u64 {
        self.inner.size
    }

    /// Takes a request; it arrives now. `data` are a write's bytes, which are copied; a
    /// write without any is of `length` zero bytes. The reply may have gone out when this
    /// returns.
    pub fn submit(&self, job: Job, data: &[u8], front: &Arc<dyn Front>) {
        self.inner.submit(job, data, front);
    }

    /// From now on replies go out so much before the model's completion, ns: what the way to
    /// the server and back takes; never before the request's arrival.
    pub fn set_path(&self, ns: u64) {
        self.inner.lock().path = ns;
        self.inner.bell.ring();
    }

    /// For calibration: while on, replies go out at once; the model and the log do not know.
    pub fn without_model(&self, on: bool) {
        self.inner.lock().without_model = on;
    }

    /// For calibration: the model's times of the requests that ended since the last call
    /// (the last 4096 of them), in the order of their arrival.
    pub fn last_service(&self) -> Vec<Served> {
        self.inner.lock().take_served()
    }

    /// A fresh model of the same kind and length, whose time begins now. For a moment when nothing
    /// is under way: what is fails with EIO.
    pub fn reset(&self, device: Box<dyn Device>) {
        if device.volatile_cache() {
            self.inner.media.track();
        }
        let given_up = {
            let mut state = self.inner.lock();
            let start = state.renew(device);
            // What it was told to wait for is over.
            if self.inner.logged_from.load(Relaxed) == u64::MAX {
                self.inner.logged_from.store(start, Relaxed);
            }
            state.give_up()
        };
        self.inner.bell.ring();
        self.inner.fail(given_up);
    }

    /// The power is cut: what was not flushed survives sector by sector with a chance of
    /// `percent`, drawn from `seed`; so do writes that are under way, which fail with EIO
    /// like everything until [`Realtime::power_on`]. The model is not told: its cache stays
    /// as full as it was, unless it is [`Realtime::reset`].
    ///
    /// # Errors
    /// The backing cannot be read or written.
    pub fn cut_power(&self, percent: u64, seed: u64) -> io::Result<Toll> {
        let given_up = {
            let mut state = self.inner.lock();
            state.off = true;
            state.give_up()
        };
        let writes = given_up.iter().filter(|under| under.job.operation == Operation::Write);
        let unfinished = writes.map(|under| Unfinished { offset: under.job.offset, data: &under.data });
        let toll = self.inner.media.cut(percent, seed, unfinished);
        self.inner.fail(given_up);
        toll
    }

    /// Power is back: requests are served again, with what survived.
    pub fn power_on(&self) {
        self.inner.media.power_on();
        self.inner.lock().off = false;
    }

    /// Whether there is power, see [`Realtime::cut_power`].
    pub fn powered(&self) -> bool {
        !self.inner.lock().off
    }

    /// For calibration: nothing is logged before [`Realtime::reset`], nor is then what came before it.
    pub fn hold_log(&self) {
        self.inner.logged_from.store(u64::MAX, Relaxed);
    }

    /// From now on everything fails with EIO, what is under way too: nobody waits for ever.
    pub fn fail_everything(&self) {
        self.inner.fail_everything();
    }

    /// Lines of the log that were lost.
    pub fn lines_lost(&self) -> u64 {
        self.inner.log.as_ref().map_or(0, Log::lost)
    }

    /// Ends it: as [`Realtime::fail_everything`], then the clock thread and the log end.
    pub fn stop(&self) {
        self.inner.fail_everything();
        self.inner.lock().stopping = true;
        self.inner.bell.ring();
        let clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A front may drop the last handle in the clock thread itself.
        if let Some(clock) = clock.filter(|clock| clock.thread().id() != std::thread::current().id()) {
            // It fails everything when it panics; there is nothing more to do about it.
            let _ = clock.join();
        }
        if let Some(log) = &self.inner.log {
            log.end();
        }
    }
}

impl Drop for Realtime {
    fn drop(&mut self) {
        self.stop();
    }
}
