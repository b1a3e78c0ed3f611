// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A command under way, and what can happen in the device.

use super::super::{Completion, Ns, Parts, Request};
use super::die::{Page, Work};

/// What happens at a time.
#[derive(Debug)]
pub(super) enum Event {
    /// The controller has looked at a command.
    Ready(u32),
    /// A command's bytes went over the interface.
    Sent(u32),
    /// A page that was read is in the controller.
    Here(Page),
    /// A page that is to be programmed is at the die.
    There(usize, Work),
    Die(usize),
    Refused(Completion),
}

#[derive(Debug)]
pub(super) struct Command {
    pub request: Request,
    pub parts: Parts,
    pub submitted: Ns,
    /// Its time is accounted for until here.
    pub mark: Ns,
    /// Pages that it waits for.
    pub pages: u32,
    /// Of a write: part of it that is random.
    pub random: f64,
}

impl Command {
    pub fn new(now: Ns, request: Request) -> Self {
        Command { request, parts: Parts::default(), submitted: now, mark: now, pages: 0, random: 0.0 }
    }

    /// Accounts for its time until `until`: `own` of it for `part`, the rest was waiting.
    pub fn account(&mut self, until: Ns, own: Ns, part: fn(&mut Parts) -> &mut Ns) {
        let all = until - self.mark;
        let own = own.min(all);
        *part(&mut self.parts) += own;
        self.parts.queued += all - own;
        self.mark = until;
    }
}
