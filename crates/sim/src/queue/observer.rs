// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who sees what happens in a simulation.

use super::requests::{Bio, Merge, Request};
use super::task::Op;
use crate::device::{Completion, Ns};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sleep {
    /// For an operation that is under way.
    Operation,
    /// For a tag of the queue.
    Slot,
    /// Until the time comes to ask again; nothing of its own is under way.
    Time,
    /// For ever: it is done.
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// The completion that was told last.
    Completion,
    /// The clock.
    Timer,
}

/// Sees everything that happens, in the order in which it happens. `now` never goes back.
///
/// All of a task's doing lies between [`Observer::runs`] and [`Observer::sleeps`].
#[allow(unused_variables, reason = "names are the documentation; an observer takes what it wants")]
pub trait Observer {
    /// A sleeping task is woken; it runs later at the same moment.
    fn wakes(&mut self, now: Ns, task: u32, why: Woken) {}
    fn runs(&mut self, now: Ns, task: u32) {}
    /// A task begins an operation.
    fn operation_begins(&mut self, now: Ns, task: u32, op: &Op) {}
    /// A task queues a piece of an operation (Q).
    fn queued(&mut self, now: Ns, number: u32, bio: &Bio) {}
    /// The piece has got a tag (G).
    fn got(&mut self, now: Ns, number: u32, bio: &Bio) {}
    /// The piece joined a request that waits (M); the request is as it was before.
    fn merged(&mut self, now: Ns, number: u32, bio: &Bio, merge: Merge, request: &Request) {}
    /// A request enters the scheduler (I).
    fn inserted(&mut self, now: Ns, number: u32, request: &Request) {}
    /// A request goes to the device (D).
    fn issued(&mut self, now: Ns, number: u32, request: &Request) {}
    /// The device ended a request (C).
    fn completed(&mut self, now: Ns, number: u32, request: &Request, completion: &Completion) {}
    /// A piece of the request that was completed last ended with it.
    fn piece_ends(&mut self, now: Ns, number: u32, bio: &Bio, request: &Request) {}
    /// The piece that asked for a flush has had it (it comes behind the completion of the flush).
    fn flushed(&mut self, now: Ns, number: u32, bio: &Bio) {}
    /// All pieces of an operation ended.
    fn operation_ends(&mut self, now: Ns, task: u32, op: &Op) {}
    fn sleeps(&mut self, now: Ns, task: u32, why: Sleep) {}
}

impl Observer for () {}

macro_rules! both {
    ($($name:ident($($arg:ident: $type:ty),*)),* $(,)?) => {$(
        fn $name(&mut self, now: Ns, $($arg: $type),*) {
            self.0.$name(now, $($arg),*);
            self.1.$name(now, $($arg),*);
        }
    )*};
}

impl<A: Observer, B: Observer> Observer for (&mut A, &mut B) {
    both! {
        wakes(task: u32, why: Woken),
        runs(task: u32),
        operation_begins(task: u32, op: &Op),
        queued(number: u32, bio: &Bio),
        got(number: u32, bio: &Bio),
        merged(number: u32, bio: &Bio, merge: Merge, request: &Request),
        inserted(number: u32, request: &Request),
        issued(number: u32, request: &Request),
        completed(number: u32, request: &Request, completion: &Completion),
        piece_ends(number: u32, bio: &Bio, request: &Request),
        flushed(number: u32, bio: &Bio),
        operation_ends(task: u32, op: &Op),
        sleeps(task: u32, why: Sleep),
    }
}
