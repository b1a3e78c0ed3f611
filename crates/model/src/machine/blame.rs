// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a wait was for: cause, call, state and stack decide, and what another
//! thread or a request was at meanwhile is followed.

use super::Model;
use crate::account::Category;
use crate::block::Below;
use crate::connections::Expects;
use crate::history::{Cause, Did, Interval};
use crate::latches::Latch;
use crate::parts::{piece, Part, Piece, Who};
use crate::services::Service;
use crate::thread::{Sleep, State, Thread};
use crate::wait::{may_be_request, passes_on};
use crate::Observer;
use plumb_trace::kernel::task_state;

/// How many threads a wait is followed through.
const FOLLOW: u32 = 6;

/// How a wait is followed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Follow {
    /// Who waits: a thread cannot be the reason of its own wait.
    pub me: u32,
    /// Its service: of the target's threads those of it are its own.
    pub service: Service,
    /// How many threads it came through.
    pub depth: u32,
    /// What a thread of the target did counts as the target's doing, not as another's.
    pub deep: bool,
    /// Disk whose request somebody held back, if that is what is waited for.
    pub held: Option<u32>,
    /// It is of a request that waits for a thread with requests of its own.
    pub behind: bool,
    /// Threads outside of the target are told like its own.
    pub peer: bool,
}

impl Follow {
    /// From a thread's own wait on, as the target's doing.
    pub fn from(me: &Thread) -> Self {
        Self { me: me.tid, service: me.service, depth: 0, deep: true, held: None, behind: false, peer: false }
    }

    fn next(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }
}

/// What became of a sleep.
pub(super) struct Explained {
    /// For those that wait for this thread.
    pub did: Did,
    /// A thread of the target ended it: that one's path is this one's.
    pub handed: bool,
}

impl<O: Observer> Model<O> {
    /// Splits a sleep of a target's thread: `own` gets what it waited for, `deep` of the command's
    /// first thread the same with waits for the target's own threads followed, where that differs.
    #[allow(clippy::too_many_arguments, reason = "a wait is known by all of these")]
    pub(super) fn explain(
        &mut self,
        at: usize,
        sleep: &Sleep,
        start: u64,
        end: u64,
        cause: Cause,
        stack: Option<u32>,
        own: &mut Vec<Piece>,
        deep: &mut Vec<Piece>,
    ) -> Explained {
        let t = &self.threads[at];
        let (tid, kernel) = (t.tid, t.kernel);
        let nr = t.call.map(|c| c.nr).or(u32::try_from(t.first_call).ok());
        let kind = self.calls.kind(nr, sleep);
        let idle = sleep.state & task_state::UNINTERRUPTIBLE == 0 || sleep.state & task_state::NOLOAD != 0;
        let at_site = stack.and_then(|s| self.sites.get(&s).copied().flatten());
        let waker = self.waker(cause, at);
        let tcp_timer = self.tcp_timer;
        let mut whole = |part: Part| {
            piece(own, part, start, end);
            Explained { did: Did::Waited(part), handed: false }
        };
        if stands_still(sleep) {
            // Who let it go on: kill(2), a tracer, a shell, a write to the freezer.
            return whole(Part { category: Category::Stopped, who: waker });
        }
        if kernel && idle && sleep.lock.is_none() && !sleep.wants_slot {
            return whole(Part::of(Category::Idle));
        }
        if sleep.lock.is_some() {
            return whole(Part { category: Category::KernelLock, who: waker });
        }
        if sleep.throttled {
            return whole(Part::of(Category::Throttle));
        }
        if sleep.wants_slot && may_be_request(kind) {
            return whole(Part::of(Category::BlockQueued));
        }
        let follow = Follow { deep: false, ..Follow::from(&self.threads[at]) };
        if let (Cause::Request(number), true) = (cause, may_be_request(kind)) {
            self.follow_request(number, start, end, follow, own);
            return Explained { did: Did::Slept(cause), handed: false };
        }
        if let Some(kind) = kind.or(at_site) {
            let expects = self.expects(at, nr);
            let Some(category) = self.sharpen(at, kind, sleep, cause, expects) else {
                // A thread of the target ended it: that one's doing is the reason.
                let in_request = expects == Expects::Progress;
                let service = self.setup.root == 0 && kind != Category::Child;
                let category = match in_request {
                    true => Category::InRequest,
                    // What that one did counts for itself.
                    false if service => Category::Signalled,
                    false => kind,
                };
                piece(own, Part { category, who: waker }, start, end);
                if cause == Cause::Timer {
                    piece(deep, Part::of(Category::Timer), start, end);
                }
                if let (Cause::Thread(other), true) = (cause, in_request || tid == self.setup.root) {
                    self.follow_thread(other, start, end, Follow { deep: true, ..follow }, deep);
                }
                let did = if let Cause::Thread(other) = cause {
                    self.ended_by(at, other)
                } else {
                    Did::Slept(cause)
                };
                return Explained { did, handed: true };
            };
            let who = match category {
                Category::Network if cause == Cause::TcpTimer => Who::Name(self.tcp_timer),
                Category::UserLock => self.holder(sleep).unwrap_or(waker),
                // A service without a request in progress waits for signals as for requests.
                Category::Signal if self.setup.root != 0 || expects == Expects::Progress => waker,
                Category::Timer | Category::Signal | Category::Network | Category::Idle => Who::Nobody,
                _ => waker,
            };
            if category == Category::Idle && (kind == Category::Timer || cause == Cause::Timer) {
                // Idle for its own account; who waits for it waits for the timer.
                piece(own, Part::of(category), start, end);
                return Explained { did: Did::Waited(Part::of(Category::Timer)), handed: false };
            }
            return whole(Part { category, who });
        }
        if sleep.reclaim {
            return whole(Part::of(Category::Memory));
        }
        match cause {
            Cause::Rcu => whole(Part::of(Category::Rcu)),
            Cause::Thread(waker) if waker != tid && self.is_rcu(waker) => whole(Part::of(Category::Rcu)),
            Cause::Thread(waker) if waker != tid => {
                let from = self.follow_commit(waker, tid, start, end, own);
                self.follow_thread(waker, from, end, follow, own);
                self.count_others(at, waker, end);
                Explained { did: Did::Slept(cause), handed: false }
            }
            Cause::Timer => whole(Part::of(Category::Timer)),
            Cause::Network => whole(Part::of(Category::Network)),
            Cause::TcpTimer => whole(Part { category: Category::Network, who: Who::Name(tcp_timer) }),
            Cause::Unknown => {
                let lost = self.missing_time(start, end);
                piece(own, Part::of(Category::Lost), start, start + lost);
                piece(own, Part::of(Category::Unexplained), start + lost, end);
                Explained { did: Did::Slept(cause), handed: false }
            }
            _ => whole(Part::of(Category::Unexplained)),
        }
    }

    /// TCP sends again what a thread waits for in a call on the socket. In poll or epoll it may wait for another one.
    pub(super) fn sent_again(&mut self, ts: u64, tid: u32) {
        let Some(at) = self.known(tid) else { return };
        let t = &mut self.threads[at];
        let nr = t.call.map(|c| c.nr).or(u32::try_from(t.first_call).ok());
        if let State::Sleeping(sleep) = &mut t.state {
            if matches!(self.calls.kind(nr, sleep), Some(Category::Socket | Category::Pipe)) {
                sleep.again = ts;
            }
        }
    }

    /// A wait for a socket whose data had to be sent again: until then it was for that.
    pub(super) fn prolonged(&self, sleep: &Sleep, explained: Explained, own: &mut Vec<Piece>) -> Explained {
        const FOR_DATA: [Category; 4] =
            [Category::Socket, Category::Network, Category::Pipe, Category::Signalled];
        let Some(last) = own.last_mut().filter(|p| FOR_DATA.contains(&p.part.category)) else {
            return explained;
        };
        if sleep.again <= last.from || sleep.again >= last.to {
            return explained;
        }
        let again = Part { category: Category::Network, who: Who::Name(self.tcp_again) };
        let first = Piece { part: again, to: sleep.again, ..*last };
        last.from = sleep.again;
        let most = first.to - first.from > last.to - last.from;
        own.insert(own.len() - 1, first);
        // Others know a wait by one part.
        match most {
            true => Explained { did: Did::Waited(again), handed: false },
            false => explained,
        }
    }

    /// A wait that a thread of the target ended.
    pub(super) fn ended_by(&self, me: usize, other: u32) -> Did {
        let serves = self.setup.root == 0
            && self.remembered(other).is_some_and(|at| self.threads[at].serves && self.together(me, at));
        if serves {
            Did::Behind(other)
        } else {
            Did::Slept(Cause::Thread(other))
        }
    }

    /// What may end the wait of a thread in a call, see [`Expects`].
    fn expects(&self, at: usize, nr: Option<u32>) -> Expects {
        let t = &self.threads[at];
        self.processes.expects(t, nr)
    }

    /// What a kind of wait turns out to be when its end is known; `None` when
    /// a thread of the target ended it and what that one did is the reason.
    fn sharpen(
        &self,
        at: usize,
        kind: Category,
        sleep: &Sleep,
        cause: Cause,
        expects: Expects,
    ) -> Option<Category> {
        let me = self.threads[at].tid;
        if kind == Category::Signalled && self.is_lock(sleep, at) {
            return Some(Category::UserLock);
        }
        let rests = expects == Expects::Request;
        if !passes_on(kind) {
            // A thread of a server that pauses without a request keeps nobody waiting.
            return Some(if kind == Category::Timer && rests { Category::Idle } else { kind });
        }
        let stream = matches!(kind, Category::Poll | Category::Pipe | Category::Socket);
        Some(match cause {
            Cause::Thread(other) if other != me && self.threads[at].waker.1 => return None,
            Cause::Timer if kind == Category::Child => kind,
            Cause::Timer if rests => Category::Idle,
            // It gave up for now what threads end: whoever ends the next wait for it is followed.
            Cause::Timer if self.is_latch(sleep, at) => return None,
            _ if rests && stream => Category::Idle,
            Cause::Network | Cause::TcpTimer => Category::Network,
            _ if expects == Expects::Reply && stream => Category::Socket,
            Cause::Timer => Category::Timer,
            // Not a request, as far as is known: another process had it wait.
            Cause::Thread(other) if kind == Category::Poll && other != me && !self.is_kernel(other) => {
                if expects == Expects::Progress {
                    Category::Socket
                } else {
                    Category::Pipe
                }
            }
            _ => kind,
        })
    }

    fn is_kernel(&self, tid: u32) -> bool {
        self.remembered(tid).is_some_and(|at| self.threads[at].kernel)
    }

    /// Whether a thread of the kernel serves RCU: rcu_preempt, rcuop/0, rcu_tasks_kthread.
    fn is_rcu(&self, tid: u32) -> bool {
        let at = self.remembered(tid).filter(|at| self.threads[*at].kernel);
        at.is_some_and(|at| self.names.name(self.threads[at].name).starts_with("rcu"))
    }

    /// Whether a futex is a lock: glibc keeps the holder behind the word; a value
    /// of 2 means taken and waited for in glibc and in Rust's library. An interpreter's lock has neither.
    pub(super) fn is_lock(&self, sleep: &Sleep, at: usize) -> bool {
        let Some(futex) = sleep.futex else { return false };
        let t = &self.threads[at];
        futex.taken
            || (futex.owner != t.tid && self.holder(sleep).is_some())
            || matches!(self.latches.get(t.tgid, futex.uaddr), Some(Latch::Interpreter(_)))
    }

    /// Whether threads have ended waits for a futex.
    fn is_latch(&self, sleep: &Sleep, at: usize) -> bool {
        sleep.futex.is_some_and(|f| self.latches.get(self.threads[at].tgid, f.uaddr).is_some())
    }

    /// Who holds the user lock, where its memory told and the thread is one of the process.
    fn holder(&self, sleep: &Sleep) -> Option<Who> {
        let owner = sleep.futex?.owner;
        let at = self.known(owner).filter(|_| owner > 1)?;
        self.threads[at].target.then_some(Who::Name(self.threads[at].called))
    }

    /// Who ended the last wait of a thread.
    pub(super) fn waker(&self, cause: Cause, at: usize) -> Who {
        let t = &self.threads[at];
        match cause {
            Cause::Thread(tid) if tid != t.tid && tid == t.woken_by => Who::Name(t.waker.0),
            _ => Who::Nobody,
        }
    }

    /// What a sleep of a thread outside the target is for those that wait for it.
    pub(super) fn outsider(&self, at: usize, sleep: &Sleep, cause: Cause) -> Did {
        let who = self.waker(cause, at);
        if stands_still(sleep) {
            Did::Waited(Part { category: Category::Stopped, who })
        } else if sleep.lock.is_some() {
            Did::Waited(Part { category: Category::KernelLock, who })
        } else if sleep.throttled {
            Did::Waited(Part::of(Category::Throttle))
        } else if sleep.reclaim && !matches!(cause, Cause::Request(_)) {
            Did::Waited(Part::of(Category::Memory))
        } else {
            Did::Slept(cause)
        }
    }

    /// Requests of a thread that woke a call's thread: the call waited for them.
    pub(super) fn count_others(&mut self, at: usize, waker: u32, end: u64) {
        let Some(waker) = self.known(waker) else { return };
        let Some(call) = self.threads[at].call else { return };
        let (requests, bytes) = self.threads[waker]
            .recent
            .iter()
            .filter(|(q, _)| *q >= call.start.max(call.counted) && *q < end)
            .fold((0, 0), |(n, sum), (_, len)| (n + 1, sum + u64::from(*len)));
        if let Some(call) = &mut self.threads[at].call {
            call.other_requests += requests;
            call.other_bytes += bytes;
            call.counted = end;
        }
    }

    /// Where the journal was still at a transaction that had begun before the
    /// wait did: told as such; returns where the rest begins.
    fn follow_commit(&self, journal: u32, me: u32, from: u64, to: u64, out: &mut Vec<Piece>) -> u64 {
        let Some(commit) = self.journals.earlier(journal, from, me) else { return from };
        let until = commit.end.unwrap_or(to).clamp(from, to);
        let who = commit.asked_by.map_or(Who::Nobody, |(_, name)| Who::Name(name));
        piece(out, Part { category: Category::Journal, who }, from, until);
        until
    }

    /// Splits `from..to` into the layers of the request that ended it.
    pub(super) fn follow_request(
        &self,
        number: u64,
        from: u64,
        to: u64,
        follow: Follow,
        out: &mut Vec<Piece>,
    ) {
        let Some(stamp) = self.blocks.stamp(number) else {
            return piece(out, Part::of(Category::Unexplained), from, to);
        };
        let steps = stamp.steps();
        let before = steps[0].clamp(from, to);
        let first = out.len();
        if before > from {
            // The request did not exist yet: its owner was the one to wait for.
            if stamp.owner != 0 && stamp.owner != follow.me && follow.depth < FOLLOW {
                let next = Follow { held: Some(stamp.dev), ..follow.next() };
                self.follow_thread(stamp.owner, from, before, next, out);
            } else {
                piece(out, Part::of(Category::Unexplained), from, before);
            }
        }
        let layers = [
            Category::BlockQueued,
            Category::BlockPlugged,
            Category::BlockFlush,
            Category::BlockInserted,
            Category::BlockIssued,
        ];
        let who = Who::Disk(stamp.dev);
        let mut at = before;
        for (category, step) in layers.into_iter().zip(&steps[1..]) {
            let step = (*step).clamp(at, to);
            if category == Category::BlockIssued && stamp.below != Below::Nothing && follow.depth < FOLLOW {
                self.follow_below(stamp.dev, stamp.below, at, step, follow.next(), out);
            } else {
                piece(out, Part { category, who }, at, step);
            }
            at = step;
        }
        piece(out, Part { category: Category::BlockDone, who }, at, to);
        // What went to a request below has that one's already.
        for p in out[first..].iter_mut().filter(|p| p.part.who == who && p.request == 0) {
            p.request = number + 1;
        }
    }

    /// Splits the time that a request spent with a device that lies on others.
    fn follow_below(&self, dev: u32, below: Below, from: u64, to: u64, follow: Follow, out: &mut Vec<Piece>) {
        let own = Part { category: Category::BlockIssued, who: Who::Disk(dev) };
        let first = out.len();
        match below {
            Below::Nothing => return piece(out, own, from, to),
            Below::Request(number) => self.follow_request(number, from, to, follow, out),
            Below::Thread(tid) => self.follow_thread(tid, from, to, follow, out),
        }
        // What is not a request below is the upper device's own time.
        for p in &mut out[first..] {
            let lower = matches!(p.part.who, Who::Disk(_)) && p.part.category != Category::BlockLimit;
            if !lower {
                p.part = own;
            }
        }
    }

    /// Splits `from..to` into what thread `waker` did then.
    pub(super) fn follow_thread(&self, waker: u32, from: u64, to: u64, follow: Follow, out: &mut Vec<Piece>) {
        let first = out.len();
        self.follow_intervals(waker, from, to, follow, out);
        // Those that came through further threads are theirs.
        out[first..].iter_mut().filter(|p| p.tid == 0).for_each(|p| p.tid = waker);
    }

    fn follow_intervals(&self, waker: u32, from: u64, to: u64, follow: Follow, out: &mut Vec<Piece>) {
        let Some(at) = self.remembered(waker) else {
            return piece(out, Part::of(Category::Unexplained), from, to);
        };
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
            piece(out, Part::of(Category::Unexplained), b, covered);
            covered = a;
            self.follow_interval(at, i.did, a, b, follow, out);
        }
        for sum in w.history.sums(from, covered) {
            let (a, b) = (sum.start.max(from), sum.end.min(covered));
            if a >= b {
                continue;
            }
            piece(out, Part::of(Category::Unexplained), b, covered);
            covered = a;
            // The order inside is not known any more.
            let mut end = b;
            for (part, ns) in sum.within(a, b) {
                let start = end.saturating_sub(ns).max(a);
                let own = follow.behind && (part.who == Who::Name(w.called) || part.who == Who::Nobody);
                let part = match (own, follow.deep) {
                    (true, _) => behind(part, w.called),
                    (false, true) => part,
                    (false, false) => others(part),
                };
                piece(out, part, start, end);
                end = start;
            }
            piece(out, Part::of(Category::Unexplained), a, end);
        }
        let Some(dev) = follow.held else {
            // Before it was there, its parent was the one to wait for.
            let born = w.born.clamp(from, covered);
            piece(out, Part::of(Category::Unexplained), born, covered);
            let known = w.parent != 0 && w.parent != follow.me && follow.depth < FOLLOW;
            return match known && born > from {
                true => self.follow_thread(w.parent, from, born, follow.next(), out),
                false => piece(out, Part::of(Category::Unexplained), from, born),
            };
        };
        // The worker that sent it was born later: until then nobody had the bio but the limit.
        let born = if w.kernel { w.born.clamp(from, covered) } else { from };
        piece(out, Part { category: Category::BlockLimit, who: Who::Disk(dev) }, from, born);
        piece(out, Part::of(Category::Unexplained), born, covered);
    }

    /// Splits what thread number `at` did from `a` to `b`.
    fn follow_interval(&self, at: usize, did: Did, a: u64, b: u64, follow: Follow, out: &mut Vec<Piece>) {
        let w = &self.threads[at];
        let who = Who::Name(w.called);
        let ours = follow.deep && ((w.target && w.service == follow.service) || follow.peer);
        if let (Did::Waited(part), true) = (did, follow.behind && ours) {
            return piece(out, behind(part, w.called), a, b);
        }
        let mut tell = |category| piece(out, Part { category, who }, a, b);
        match did {
            Did::Ran | Did::Slept(Cause::Timer | Cause::Network | Cause::TcpTimer)
                if follow.behind && ours =>
            {
                tell(Category::InRequest);
            }
            Did::Ran if ours => tell(Category::Running),
            Did::WaitedForCpu if ours => tell(Category::Woken),
            Did::Slept(Cause::Timer) if ours => tell(Category::Timer),
            Did::Waited(part) if part.category == Category::Timer && ours => tell(Category::Timer),
            Did::Ran => tell(Category::OtherRunning),
            Did::WaitedForCpu => tell(Category::OtherRunnable),
            Did::Waited(part) if part.category == Category::Idle && !ours => tell(Category::OtherWaiting),
            Did::Waited(part) if ready(part.category) && !ours => tell(Category::OtherRunnable),
            Did::Waited(part) => piece(out, part, a, b),
            Did::Slept(Cause::Request(number)) => self.follow_request(number, a, b, follow, out),
            Did::Slept(Cause::Thread(other))
                if other != follow.me && other != w.tid && follow.depth < FOLLOW =>
            {
                self.follow_thread(other, a, b, Follow { behind: false, ..follow.next() }, out);
            }
            Did::Behind(other) if other != follow.me && other != w.tid && follow.depth < FOLLOW => {
                self.follow_thread(other, a, b, Follow { behind: ours, ..follow.next() }, out);
            }
            // A limit's timer lets the bios go, a worker of the kernel sends them.
            Did::Slept(Cause::Timer) if follow.held.is_some() && w.kernel => {
                let who = Who::Disk(follow.held.unwrap_or(0));
                piece(out, Part { category: Category::BlockLimit, who }, a, b);
            }
            Did::Slept(Cause::Network) => piece(out, Part::of(Category::Network), a, b),
            Did::Slept(Cause::TcpTimer) => {
                piece(out, Part { category: Category::Network, who: Who::Name(self.tcp_timer) }, a, b);
            }
            Did::Slept(_) | Did::Behind(_) if follow.behind && ours => tell(Category::InRequest),
            Did::Slept(_) | Did::Behind(_) => tell(Category::OtherWaiting),
        }
    }

    /// The parts of an interval that is no longer kept as it was.
    pub(super) fn add_up(&mut self, at: usize, old: Interval) {
        let mut pieces = std::mem::take(&mut self.scratch);
        pieces.clear();
        let follow = Follow { depth: 1, ..Follow::from(&self.threads[at]) };
        self.follow_interval(at, old.did, old.start, old.end, follow, &mut pieces);
        self.threads[at].history.add_up(old, &pieces);
        self.scratch = pieces;
        self.release(old.did);
    }
}

/// Stopped by a signal, traced, or frozen.
fn stands_still(sleep: &Sleep) -> bool {
    sleep.state & (task_state::STOPPED | task_state::FROZEN) != 0
}

/// Ready to run, without a CPU.
fn ready(category: Category) -> bool {
    matches!(
        category,
        Category::Woken
            | Category::Preempted
            | Category::Crowded
            | Category::WokenIdle
            | Category::Held
            | Category::Overhead
    )
}

/// What a thread with requests of its own did, to a request that waits for it: what it did on its own is that it
/// held the other up; a resource that it waited for, both waited for.
fn behind(part: Part, name: u32) -> Part {
    use Category::{
        Child, Idle, InRequest, Network, OtherWaiting, Pipe, Poll, Running, Signal, Signalled, Socket, Timer,
    };
    match part.category {
        Running | Timer | Idle | Signal | Signalled | Poll | Pipe | Socket | Network | Child
        | OtherWaiting => Part { category: InRequest, who: Who::Name(name) },
        _ => part,
    }
}

/// The target's doing, told to one that counts it as another's.
fn others(part: Part) -> Part {
    let category = match part.category {
        Category::Running => Category::OtherRunning,
        c if ready(c) => Category::OtherRunnable,
        Category::Timer => Category::OtherWaiting,
        other => other,
    };
    Part { category, ..part }
}
