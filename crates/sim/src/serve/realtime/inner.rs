// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What becomes of a request: refused, told to the model, ended, replied to.

use super::clock::{Bell, Waiter};
use super::state::{Due, State, Under};
use super::{Answer, Front, Job};
use crate::device::{Ns, Operation, Outcome, Parts};
use crate::serve::log::{Line, Log};
use crate::serve::media::{Contents, Media};
use plumb_machine::clock::now as monotonic;
use std::cell::RefCell;
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Buffers of writes that are kept for the next ones.
const BUFFERS: usize = 64;
/// Larger ones are given back, bytes.
const BUFFER_MOST: usize = 1 << 20;

/// What the API's handle and the clock thread share.
pub(super) struct Inner {
    pub(super) size: u64,
    pub(super) state: Mutex<State>,
    pub(super) bell: Bell,
    pub(super) media: Media,
    pub(super) log: Option<Log>,
    /// Requests that came before are not logged, CLOCK_MONOTONIC ns.
    pub(super) logged_from: AtomicU64,
    pub(super) buffers: Mutex<Vec<Vec<u8>>>,
}

/// What becomes of a request that was submitted.
enum Way {
    /// The model has it. `sooner`: the clock thread has to be called.
    Model {
        sooner: bool,
    },
    Broken,
    /// It is answered without the model.
    AtOnce,
    /// No power, or everything fails.
    Fails,
}

thread_local! {
    /// What is due; taken while it is used, so that it is not allocated for each request.
    static DUE: RefCell<Vec<Due>> = const { RefCell::new(Vec::new()) };
    /// The bytes of a read; likewise.
    static BYTES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Inner {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| {
            // A model that panicked is in no state that can be served.
            let mut state = poisoned.into_inner();
            state.failing = true;
            state
        })
    }

    fn buffers(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of these bytes.
    fn copy(&self, data: &[u8]) -> Vec<u8> {
        if data.is_empty() {
            return Vec::new();
        }
        let mut buffer = self.buffers().pop().unwrap_or_default();
        buffer.extend_from_slice(data);
        buffer
    }

    fn give_back(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() == 0 || buffer.capacity() > BUFFER_MOST {
            return;
        }
        buffer.clear();
        let mut buffers = self.buffers();
        if buffers.len() < BUFFERS {
            buffers.push(buffer);
        }
    }

    pub(super) fn submit(&self, job: Job, data: &[u8], front: &Arc<dyn Front>) {
        let arrival = monotonic();
        if let Some(errno) = malformed(&job, data) {
            return front.reply(job.token, Answer::Failed(errno));
        }
        let copy = if job.operation == Operation::Write { self.copy(data) } else { Vec::new() };
        let mut due = DUE.take();
        match self.tell(job, copy, arrival, front, &mut due) {
            Way::Model { sooner } => {
                if sooner {
                    self.bell.ring();
                }
                due.drain(..).for_each(|one| self.finish(one));
            }
            Way::Broken => {
                self.fail_everything();
                due.drain(..).for_each(|one| self.finish(one));
            }
            Way::AtOnce => drop(self.answer(&**front, &job, data, Outcome::Done)),
            Way::Fails => self.fail_one(&**front, &job, arrival),
        }
        DUE.set(due);
    }

    /// Tells the model of a request; what is due now is added to `due`.
    fn tell(&self, job: Job, data: Vec<u8>, arrival: u64, front: &Arc<dyn Front>, due: &mut Vec<Due>) -> Way {
        let mut state = self.lock();
        if state.failing || state.off {
            return Way::Fails;
        }
        if state.without_model || (job.length == 0 && job.operation != Operation::Flush) {
            return Way::AtOnce;
        }
        // A model that panics must not take a thread of the connection with it.
        let next = catch_unwind(AssertUnwindSafe(|| {
            state.submit(front, job, data, arrival, due);
            state.pass(due);
            state.next()
        }));
        let Ok(next) = next else {
            state.failing = true;
            return Way::Broken;
        };
        let sooner = next.filter(|&next| next < state.armed);
        state.armed = sooner.unwrap_or(state.armed);
        Way::Model { sooner: sooner.is_some() }
    }

    /// What the clock thread does.
    pub(super) fn wait_and_reply(&self) {
        let mut waiter = Waiter::new();
        let mut due = Vec::new();
        loop {
            let (seen, next) = {
                let mut state = self.lock();
                if state.stopping {
                    return;
                }
                state.pass(&mut due);
                let next = state.next();
                // Who submits need not ring while this thread is going to look again anyway.
                state.armed = if due.is_empty() { next.unwrap_or(u64::MAX) } else { 0 };
                (self.bell.seen(), next)
            };
            if due.is_empty() {
                waiter.until(&self.bell, seen, next);
            }
            due.drain(..).for_each(|one| self.finish(one));
        }
    }

    /// Does to the bytes what the request's end means, and replies.
    fn finish(&self, one: Due) {
        let model = one.service();
        let Due { under, completion } = one;
        let (outcome, sent) = self.answer(&*under.front, &under.job, &under.data, completion.outcome);
        self.log(&under.job, under.arrival, model, completion.parts, outcome, sent);
        self.give_back(under.data);
    }

    /// Moves the bytes and replies: how it ended after all, and when the reply went out.
    fn answer(&self, front: &dyn Front, job: &Job, data: &[u8], outcome: Outcome) -> (Outcome, u64) {
        let length = u64::from(job.length);
        let mut bytes = Vec::new();
        let done = match (job.operation, outcome) {
            (Operation::Read, Outcome::Failed(errno)) => Err(io::Error::from_raw_os_error(errno)),
            (Operation::Read, _) => {
                bytes = BYTES.take();
                if bytes.len() < job.length as usize {
                    bytes.resize(job.length as usize, 0);
                }
                self.media.read(&mut bytes[..job.length as usize], job.offset)
            }
            (Operation::Write, _) => {
                let contents = if data.is_empty() { Contents::Zeroes(length) } else { Contents::Bytes(data) };
                self.media.write(contents, job.offset, job.fua, outcome)
            }
            (Operation::Flush, _) => self.media.flush(outcome),
            (Operation::Discard, _) => self.media.discard(job.offset, length, outcome),
        };
        let sent = monotonic();
        let outcome = match done {
            Ok(()) if job.operation == Operation::Read => {
                front.reply(job.token, Answer::Data(&bytes[..job.length as usize]));
                outcome
            }
            Ok(()) => {
                front.reply(job.token, Answer::Done);
                outcome
            }
            Err(e) => {
                let errno = e.raw_os_error().unwrap_or(libc::EIO);
                front.reply(job.token, Answer::Failed(errno));
                Outcome::Failed(errno)
            }
        };
        if !bytes.is_empty() && bytes.len() <= BUFFER_MOST {
            BYTES.set(bytes);
        }
        (outcome, sent)
    }

    fn log(&self, job: &Job, arrival: u64, model: Ns, parts: Parts, outcome: Outcome, sent: u64) {
        if let Some(log) = self.log.as_ref().filter(|_| arrival >= self.logged_from.load(Relaxed)) {
            let Job { operation, offset, length, fua, .. } = *job;
            log.add(Line { arrival, operation, offset, length, fua, model, parts, outcome, sent });
        }
    }

    fn fail_one(&self, front: &dyn Front, job: &Job, arrival: u64) {
        let sent = monotonic();
        front.reply(job.token, Answer::Failed(libc::EIO));
        self.log(job, arrival, 0, Parts::default(), Outcome::Failed(libc::EIO), sent);
    }

    pub(super) fn fail(&self, given_up: Vec<Under>) {
        for under in given_up {
            self.fail_one(&*under.front, &under.job, under.arrival);
        }
    }

    pub(super) fn fail_everything(&self) {
        let given_up = {
            let mut state = self.lock();
            state.failing = true;
            state.give_up()
        };
        self.fail(given_up);
    }
}

/// Why a request can be no one's.
fn malformed(job: &Job, data: &[u8]) -> Option<i32> {
    // Room to round up to a sector, too.
    if job.offset.checked_add(u64::from(job.length) + 511).is_none() {
        return Some(if job.operation == Operation::Read { libc::EIO } else { libc::ENOSPC });
    }
    let odd = job.operation == Operation::Write && !data.is_empty() && data.len() != job.length as usize;
    odd.then_some(libc::EINVAL)
}
