// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a wait was for: cause, call, state and stack decide, and what another
//! thread or a request was at meanwhile is followed.

use super::Model;
use crate::account::{Account, Category};
use crate::history::{Cause, Did, Interval};
use crate::thread::{task_state, Sleep, State};
use crate::wait::may_be_request;
use crate::Observer;

/// How many threads a wait is followed through.
const FOLLOW: u32 = 6;

impl<O: Observer> Model<O> {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn explain(
        &mut self,
        at: usize,
        sleep: &Sleep,
        start: u64,
        end: u64,
        cause: Cause,
        stack: Option<u32>,
        out: &mut Account,
    ) {
        let t = &self.threads[at];
        let (tid, kernel) = (t.tid, t.kernel);
        let nr = t.call.map(|c| c.nr).or(u32::try_from(t.first_call).ok());
        let length = end - start;
        let kind = self.calls.kind(nr, sleep);
        let idle = sleep.state & task_state::UNINTERRUPTIBLE == 0 || sleep.state & task_state::NOLOAD != 0;
        let at_site = stack.and_then(|s| self.sites.get(&s).copied().flatten());
        if sleep.state & task_state::STOPPED != 0 {
            out.add(Category::Signal, length);
        } else if kernel && idle && !sleep.lock && !sleep.wants_slot {
            out.add(Category::Idle, length);
        } else if sleep.lock {
            out.add(Category::KernelLock, length);
        } else if sleep.throttled {
            out.add(Category::Throttle, length);
        } else if sleep.wants_slot && may_be_request(kind) {
            out.add(Category::BlockQueued, length);
        } else if let (Cause::Request(number), true) = (cause, may_be_request(kind)) {
            self.follow_request(number, start, end, tid, 0, out);
        } else if let Some(kind) = kind.or(at_site) {
            out.add(kind, length);
        } else if sleep.reclaim {
            out.add(Category::Memory, length);
        } else {
            match cause {
                Cause::Thread(waker) if waker != tid => {
                    self.follow_thread(waker, start, end, tid, 0, out);
                    self.count_others(at, waker, end);
                }
                Cause::Timer => out.add(Category::Timer, length),
                Cause::Network => out.add(Category::Network, length),
                Cause::Unknown => {
                    let lost = self.missing_time(start, end);
                    out.add(Category::Lost, lost);
                    out.add(Category::Unexplained, length - lost);
                }
                _ => out.add(Category::Unexplained, length),
            }
        }
        let unexplained = out.get(Category::Unexplained);
        if unexplained > 0 {
            let key = (stack.unwrap_or(0), nr.map_or(-1, i64::from));
            if self.unexplained.len() < 10_000 || self.unexplained.contains_key(&key) {
                let entry = self.unexplained.entry(key).or_default();
                entry.0 += 1;
                entry.1 += unexplained;
            }
        }
    }

    /// Requests of a thread that woke a call's thread: the call waited for them.
    pub(super) fn count_others(&mut self, at: usize, waker: u32, end: u64) {
        let Some(waker) = self.known(waker) else { return };
        let Some(call) = self.threads[at].call else { return };
        let mine = self.threads[waker].recent.iter().filter(|(q, _)| *q > call.counted && *q <= end);
        let (n, bytes) = mine.fold((0, 0), |(n, b), (_, len)| (n + 1, b + u64::from(*len)));
        if let Some(call) = &mut self.threads[at].call {
            call.other_requests += n;
            call.other_bytes += bytes;
            call.counted = end;
        }
    }

    /// Splits `from..to` into the layers of the request that ended it.
    pub(super) fn follow_request(
        &self,
        number: u64,
        from: u64,
        to: u64,
        me: u32,
        depth: u32,
        out: &mut Account,
    ) {
        let Some(stamp) = self.blocks.stamp(number) else { return out.add(Category::Unexplained, to - from) };
        let steps = stamp.steps();
        let before = steps[0].clamp(from, to);
        if before > from {
            // The request did not exist yet: its owner was the one to wait for.
            if stamp.owner != 0 && stamp.owner != me && depth < FOLLOW {
                self.follow_thread(stamp.owner, from, before, me, depth + 1, out);
            } else {
                out.add(Category::Unexplained, before - from);
            }
        }
        let layers = [
            Category::BlockQueued,
            Category::BlockPlugged,
            Category::BlockFlush,
            Category::BlockInserted,
            Category::BlockIssued,
        ];
        let mut at = before;
        for (category, step) in layers.into_iter().zip(&steps[1..]) {
            let step = (*step).clamp(at, to);
            out.add(category, step - at);
            at = step;
        }
        out.add(Category::BlockDone, to - at);
    }

    /// Splits `from..to` into what thread `waker` did then.
    pub(super) fn follow_thread(
        &self,
        waker: u32,
        from: u64,
        to: u64,
        me: u32,
        depth: u32,
        out: &mut Account,
    ) {
        let Some(at) = self.known(waker) else { return out.add(Category::Unexplained, to - from) };
        let w = &self.threads[at];
        let mut covered = to;
        // What it is at now is not history yet.
        let open = match w.state {
            State::Running(_) => Some(Did::Ran),
            State::Preempted | State::Born => Some(Did::WaitedForCpu),
            _ => None,
        };
        let open = open.filter(|_| w.since < to).map(|did| Interval { start: w.since, end: to, did });
        for i in open.into_iter().chain(w.history.overlapping(from, to)) {
            let (a, b) = (i.start.max(from), i.end.min(covered));
            if a >= b {
                continue;
            }
            out.add(Category::Unexplained, covered - b);
            covered = a;
            match i.did {
                Did::Ran => out.add(Category::OtherRunning, b - a),
                Did::WaitedForCpu => out.add(Category::OtherRunnable, b - a),
                Did::Locked(_) => out.add(Category::KernelLock, b - a),
                Did::Slept(Cause::Request(number)) => self.follow_request(number, a, b, me, depth, out),
                Did::Slept(Cause::Thread(other)) if other != me && other != waker && depth < FOLLOW => {
                    self.follow_thread(other, a, b, me, depth + 1, out);
                }
                Did::Slept(Cause::Timer) => out.add(Category::Timer, b - a),
                Did::Slept(Cause::Network) => out.add(Category::Network, b - a),
                Did::Slept(_) => out.add(Category::Unexplained, b - a),
            }
        }
        out.add(Category::Unexplained, covered - from);
    }
}
