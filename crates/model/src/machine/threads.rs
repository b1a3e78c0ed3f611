// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Threads and the CPUs under them: who runs, who waits, since when.

use super::blame::Follow;
use super::calls::WAITS;
use super::Model;
use crate::account::Category;
use crate::history::{Cause, Did, Interval};
use crate::parts::{Part, Piece};
use crate::sched::{Left, Switch};
use crate::tasks::Step;
use crate::thread::{Counted, Sleep, State, Wait};
use crate::{CpuState, Observer, Slept, ThreadState};
use plumb_trace::kernel::TID_LIMIT;
use plumb_trace::schema::SchedFork;

impl<O: Observer> Model<O> {
    pub(super) fn switch(&mut self, cpu: u32, ts: u64, e: &Switch) {
        if let CpuState::Busy(tid) = self.cpu(cpu).state {
            if tid != e.prev {
                self.left_unseen(tid, cpu, ts);
            }
        }
        if e.prev != 0 {
            let at = self.place(e.prev);
            self.off_cpu(at, cpu, ts, e);
            if e.over_quota {
                let process = self.threads[at].tgid;
                self.cpu(cpu).held(ts, process);
                if self.counting && self.threads[at].target {
                    self.ledger(at).over_quota += 1;
                }
            }
        }
        let next = if e.next == 0 { CpuState::Idle } else { CpuState::Busy(e.next) };
        self.cpu_becomes(cpu, ts, next);
        if next == CpuState::Idle {
            self.strays_sleep(cpu, ts);
        }
        self.cpu(cpu).totals.switches += 1;
        if e.next != 0 && e.next < TID_LIMIT {
            let at = self.place(e.next);
            self.on_cpu(at, cpu, ts);
            let process = self.threads[at].tgid;
            self.cpu(cpu).let_go(ts, process);
        }
    }

    /// Another thread leaves the CPU than the one that was on it: some kernels
    /// do not raise every switch, in perf's record no more than in ours.
    pub(super) fn left_unseen(&mut self, tid: u32, cpu: u32, ts: u64) {
        self.count_impossible("thread left its CPU and the kernel did not tell");
        if let Some(at) = self.known(tid).filter(|at| self.threads[*at].state == State::Running(cpu)) {
            self.settle_lost(at, ts);
            self.becomes(at, State::Unknown);
            self.threads[at].strayed = true;
            self.strays.push((cpu, tid));
        }
    }

    /// Nothing can run on a CPU: who was on it last and left unseen sleeps.
    fn strays_sleep(&mut self, cpu: u32, ts: u64) {
        let mut strays = std::mem::take(&mut self.strays);
        strays.retain(|(on, tid)| {
            let Some(at) = self.known(*tid).filter(|at| self.threads[*at].strayed) else { return false };
            if *on == cpu {
                self.settle_lost(at, ts);
                self.threads[at].rests = true;
            }
            *on != cpu
        });
        self.strays = strays;
    }

    pub(super) fn cpu_becomes(&mut self, cpu: u32, ts: u64, next: CpuState) {
        let (state, since, _) = self.cpu(cpu).become_state(ts, next);
        if ts > since {
            self.observer.cpu(cpu, since, ts, state);
        }
    }

    pub(super) fn off_cpu(&mut self, at: usize, cpu: u32, ts: u64, e: &Switch) {
        match self.threads[at].state {
            State::Running(on) if on == cpu => {}
            State::Unknown => {
                // Seen for the first time as it leaves: it ran since the beginning.
                self.on_cpu_since(at, cpu, ts);
            }
            _ => {
                self.count_impossible("thread leaves a CPU that it was not on");
                self.settle_lost(at, ts);
                self.becomes(at, State::Running(cpu));
            }
        }
        self.charge(at, ts);
        self.ran(at, ts);
        if matches!(e.left, Left::Slept(_) | Left::Ended) {
            self.sleeps_again(at, ts);
        }
        let t = &mut self.threads[at];
        t.queue.left(cpu);
        t.since = ts;
        let state = match e.left {
            Left::Ended => State::Dead,
            Left::Preempted | Left::Yielded => {
                t.switches[1] += 1;
                t.raced = None;
                State::Preempted
            }
            Left::Slept(state) => {
                t.switches[0] += 1;
                State::Sleeping(t.falls_asleep(ts, state))
            }
        };
        self.becomes(at, state);
        match state {
            State::Dead => self.bury(at, ts),
            State::Sleeping(sleep) => self.joins_queue(at, &sleep),
            _ => {}
        }
    }

    /// Closes an interval of running; its time is in the account already.
    pub(super) fn ran(&mut self, at: usize, ts: u64) {
        let t = &mut self.threads[at];
        let (tid, start) = (t.tid, t.since);
        if ts > start {
            self.remember(at, Interval { start, end: ts, did: Did::Ran });
            self.observer.thread(tid, start, ts, ThreadState::Running);
        }
    }

    pub(super) fn remember(&mut self, at: usize, interval: Interval) {
        if interval.start < interval.end {
            self.refer(interval.did);
        }
        if let Some(old) = self.threads[at].history.push(interval) {
            self.add_up(at, old);
        }
    }

    /// Something is known again of a thread that strayed: what was until now is lost.
    fn astray(&mut self, at: usize, ts: u64) {
        self.threads[at].rests = false;
        if std::mem::take(&mut self.threads[at].strayed) {
            self.settle_lost(at, ts);
        }
    }

    /// A thread of unknown state turns out to have run since `since`; one that strayed, to run now.
    pub(super) fn on_cpu_since(&mut self, at: usize, cpu: u32, ts: u64) {
        self.cpu(cpu);
        self.astray(at, ts);
        self.becomes(at, State::Running(cpu));
        let t = &mut self.threads[at];
        t.charged = t.since;
        t.charged_interrupts = 0;
    }

    pub(super) fn on_cpu(&mut self, at: usize, cpu: u32, ts: u64) {
        let stack = self.stacks.take(self.threads[at].tid, ts);
        self.astray(at, ts);
        match self.threads[at].state {
            State::Preempted => self.settle_runnable(at, ts, Category::Preempted, Some(cpu)),
            State::Born | State::Unknown => self.settle_runnable(at, ts, Category::Woken, Some(cpu)),
            State::Woken { sleep, at: woken, cause } => {
                self.settle_sleep(at, &sleep, woken, cause, (ts, stack));
                self.settle_runnable(at, ts, Category::Woken, Some(cpu));
            }
            State::Sleeping(sleep) => match sleep.raced {
                Some(_) => self.settle_runnable(at, ts, Category::Woken, Some(cpu)),
                None => {
                    if !self.missing(sleep.start, ts) {
                        self.count_impossible("thread runs that nobody woke");
                    }
                    self.settle_sleep(at, &sleep, ts, Cause::Unknown, (ts, stack));
                }
            },
            State::Running(_) | State::Dead => {
                self.count_impossible("thread runs that already ran");
                self.settle_lost(at, ts);
            }
        }
        self.becomes(at, State::Running(cpu));
        let t = &mut self.threads[at];
        (t.since, t.charged, t.charged_interrupts) = (ts, ts, 0);
    }

    pub(super) fn waking(&mut self, cpu: u32, ts: u64, waker: u32, wakee: u32) {
        if wakee == 0 || wakee >= TID_LIMIT {
            return;
        }
        let cause = self.cpu(cpu).cause(waker);
        let at = self.place(wakee);
        if self.threads[at].rests {
            (self.threads[at].strayed, self.threads[at].rests) = (false, false);
        }
        self.astray(at, ts);
        let t = &mut self.threads[at];
        t.woken_by = if let Cause::Thread(tid) = cause { tid } else { 0 };
        let by = self.known(self.threads[at].woken_by);
        let by = by.map_or((0, false), |by| (self.threads[by].called, self.together(at, by)));
        let t = &mut self.threads[at];
        t.waker = by;
        match t.state {
            State::Sleeping(sleep) => {
                self.becomes(at, State::Woken { sleep, at: ts, cause });
                self.herd(cause, at, ts);
                self.offer_path(cause, at, ts);
            }
            State::Running(_) => t.raced = Some(cause),
            State::Unknown => {
                // It slept since the beginning.
                let sleep = t.falls_asleep(t.since, 1);
                self.becomes(at, State::Woken { sleep, at: ts, cause });
            }
            State::Woken { .. } | State::Preempted | State::Born | State::Dead => {}
        }
    }

    /// Keeps the waker's path for the thread that it wakes, should that turn out to have waited for it.
    fn offer_path(&mut self, cause: Cause, wakee: usize, ts: u64) {
        let Cause::Thread(waker) = cause else { return };
        let Some(waker) = self.known(waker).filter(|w| *w != wakee) else { return };
        if !self.together(waker, wakee) {
            return;
        }
        self.charge(waker, ts);
        let mut offered = self.threads[wakee].offered.take().unwrap_or_default();
        offered.copy(&self.threads[waker].path);
        self.threads[wakee].offered = Some(offered);
    }

    pub(super) fn wakeup_new(&mut self, ts: u64, wakee: u32, cpu: u32) {
        if wakee == 0 || wakee >= TID_LIMIT {
            return;
        }
        let at = self.place(wakee);
        let t = &mut self.threads[at];
        t.queue.moved(ts, cpu);
        if t.state == State::Unknown {
            if t.account.total() == 0 && t.since == ts {
                t.born = ts;
            }
            self.becomes(at, State::Born);
        }
    }

    pub(super) fn task_step(&mut self, ts: u64, step: &Step) {
        match step {
            Step::Forked(e) => self.fork(ts, e),
            Step::Named { tid, comm, exec } => {
                self.renamed(*tid, comm);
                let at = self.place(*tid);
                if self.threads[at].tgid == *tid {
                    self.services.renamed(*tid, comm, exec.then_some(ts));
                    self.belongs(at);
                }
            }
        }
    }

    fn fork(&mut self, ts: u64, e: &SchedFork) {
        if e.child_tid == 0 || e.child_tid >= TID_LIMIT {
            return;
        }
        if let Some(at) = self.known(e.child_tid) {
            // The id is used again and the end of its last holder was not seen.
            self.close(at, ts);
            self.bury(at, ts);
        }
        let parent = self.place(e.tid);
        let name = self.threads[parent].name;
        self.charge(parent, ts);
        let path = self.threads[parent].path.clone();
        let kernel = self.threads[parent].kernel && e.parent_tgid != e.child_tgid;
        let at = self.place(e.child_tid);
        self.observer.known_as(e.child_tid, name);
        let everyone = self.setup.everyone;
        let told = (self.threads[parent].ran_on, self.threads[parent].pinned);
        let t = &mut self.threads[at];
        (t.ran_on, t.pinned) = told;
        t.tgid = e.child_tgid;
        t.kernel = kernel;
        t.name = name;
        t.path = path;
        (t.born, t.since, t.charged) = (ts, ts, ts);
        t.parent = e.tid;
        let target = e.target == 1 || (everyone && !kernel && e.child_tgid != self.setup.recorder);
        self.processes.inherit(e.child_tgid, e.parent_tgid);
        self.threads[at].target = self.processes.join(e.child_tgid, ts, target);
        self.services.forked(e.child_tgid, e.parent_tgid);
        self.belongs(at);
        self.becomes(at, State::Born);
    }

    fn renamed(&mut self, tid: u32, comm: &str) {
        // The call that it was in when the recording began is over.
        let at = self.place(tid);
        self.threads[at].first_call = -1;
        self.threads[at].name = self.name_number(comm);
        self.observer.known_as(tid, self.threads[at].name);
        self.call_by_script(at);
        let tgid = self.tgid(tid);
        self.processes.rename(tgid, tid, comm);
    }

    /// Whether events are missing between two moments.
    pub(super) fn missing(&self, from: u64, to: u64) -> bool {
        self.gaps.iter().rev().take(64).any(|(a, b)| *a < to && *b > from)
    }

    /// Time in which events are missing between two moments, ns.
    pub(super) fn missing_time(&self, from: u64, to: u64) -> u64 {
        // Gaps of different CPUs may overlap; the union counts.
        let mut spans: Vec<(u64, u64)> = self
            .gaps
            .iter()
            .rev()
            .take(64)
            .filter(|(a, b)| *a < to && *b > from)
            .map(|(a, b)| ((*a).max(from), (*b).min(to)))
            .collect();
        spans.sort_unstable();
        let (mut sum, mut upto) = (0, from);
        for (a, b) in spans {
            if b > upto {
                sum += b - a.max(upto);
                upto = b;
            }
        }
        sum
    }

    /// Everything since the present state began is lost: evidence contradicts it.
    pub(super) fn settle_lost(&mut self, at: usize, ts: u64) {
        self.charge_partial(at);
        let t = &mut self.threads[at];
        let from = t.since;
        let paid = if matches!(t.state, State::Running(_)) { t.charged - from } else { 0 };
        t.spend(Category::Lost, ts - from - paid);
        t.queued = None;
        if t.target {
            t.path.ran(Part::of(Category::Lost), ts - from - paid);
            self.spent(at, Part::of(Category::Lost), (from + paid, ts), ts - from - paid);
        }
        if ts > from {
            self.observer.thread(self.threads[at].tid, from, ts, ThreadState::Lost);
            let did = Did::Waited(Part::of(Category::Lost));
            self.remember(at, Interval { start: from + paid, end: ts, did });
        }
        let t = &mut self.threads[at];
        t.since = ts;
        t.charged = ts;
        t.charged_interrupts = 0;
    }

    pub(super) fn charge_partial(&mut self, at: usize) {
        // What a call's entry already charged stays; nothing else is known to have run.
        let t = &mut self.threads[at];
        if !matches!(t.state, State::Running(_)) {
            t.charged = t.since;
        }
    }

    /// A thread goes over into a state; those of a service that are ready to run and those that run are counted.
    pub(super) fn becomes(&mut self, at: usize, state: State) {
        let t = &mut self.threads[at];
        t.state = state;
        t.unsure &= state == State::Unknown;
        let counted = match state {
            State::Woken { .. } | State::Preempted | State::Born => Some(Counted::Ready),
            State::Running(_) => Some(Counted::Running),
            _ => None,
        };
        let was = std::mem::replace(&mut t.counted, counted.filter(|_| t.target).map(|c| (t.service, c)));
        let is = t.counted;
        if let State::Running(cpu) = state {
            let bit = 1_u64.checked_shl(cpu).unwrap_or(0);
            if t.ran_on & bit != bit {
                t.ran_on |= bit;
                if !t.pinned {
                    self.processes.runs_on(t.tgid, bit);
                }
            }
        }
        if was != is {
            was.into_iter().for_each(|(s, c)| self.ledgers[s as usize].threads[c as usize] -= 1);
            is.into_iter().for_each(|(s, c)| self.ledgers[s as usize].threads[c as usize] += 1);
        }
    }

    /// Closes a sleep: its time goes where the cause, the call and the stack say.
    /// `ran`: when the thread ran again, and the stack that was taken of it then.
    pub(super) fn settle_sleep(
        &mut self,
        at: usize,
        sleep: &Sleep,
        end: u64,
        cause: Cause,
        ran: (u64, Option<u32>),
    ) {
        let (ran, stack) = ran;
        let start = self.threads[at].since;
        let mut own = std::mem::take(&mut self.own);
        let mut deep = std::mem::take(&mut self.deep);
        own.clear();
        deep.clear();
        let mut handed = false;
        let did = if self.threads[at].target {
            self.learn(at, sleep, cause, end);
            let explained = self.explain(at, sleep, start, end, cause, stack, &mut own, &mut deep);
            let explained = self.prolonged(sleep, explained, &mut own);
            self.note_unexplained(at, &own, stack);
            self.note_lock(at, sleep, start, end, cause, &own, stack);
            let waker = match cause {
                Cause::Thread(waker) => waker,
                _ => 0,
            };
            let wait = Some(Slept { start, end: ran, stack: stack.unwrap_or(0), waker });
            if explained.handed {
                deep.iter().for_each(|p| self.followed(at, p, wait));
            }
            self.charge_wait(at, &own, explained.handed, wait, sleep.says);
            self.said(at, sleep.says, &own, ran - start, waker);
            let idle = own.last().is_some_and(|p| p.part.category == Category::Idle);
            self.threads[at].arrived = if idle && cause != Cause::Timer { end } else { 0 };
            if let Some(client) = self.known(waker).filter(|_| idle) {
                self.threads[client].asks = true;
            }
            if !explained.handed && matches!(explained.did, Did::Waited(_) | Did::Slept(Cause::Thread(_))) {
                self.note_peer(at, waker, &own);
            }
            handed = explained.handed;
            if handed && waker != 0 && own.first().is_some_and(|p| p.part.category == Category::InRequest) {
                let of = |at: usize| (self.threads[at].tgid, self.threads[at].name);
                let (pid, name) = self.remembered(waker).map_or((0, self.threads[at].waker.0), of);
                let ledger = self.ledger(at);
                deep.iter().for_each(|p| ledger.meanwhile.add(p.part, p.to - p.from));
                ledger.blockers.add((pid, waker), name, end - start);
            }
            if handed {
                self.threads[at].waits.push(Wait { from: start, to: end, waker, deep: deep.clone() });
            }
            explained.did
        } else {
            self.threads[at].spend(Category::Idle, end - start);
            self.outsider(at, sleep, cause)
        };
        (self.own, self.deep) = (own, deep);
        if end > start {
            self.remember(at, Interval { start, end, did });
            let tid = self.threads[at].tid;
            self.observer.woken(tid, end, cause, sleep.throttled);
            self.observer.thread(tid, start, end, ThreadState::Sleeping);
        }
        self.threads[at].since = end;
        let t = &self.threads[at];
        // Something else ended this wait, so no thread ended the call.
        if t.call.is_none() || !handed || t.waits.len() > WAITS {
            self.settle_call(at, false);
        }
    }

    /// Keeps what a process outside of the target did while the target waited for it.
    fn note_peer(&mut self, at: usize, waker: u32, own: &[Piece]) {
        use Category as C;
        let outside = |w: usize| w != at && !self.together(at, w) && !self.threads[w].kernel;
        if !self.remembered(waker).is_some_and(outside) {
            return;
        }
        let mut did = std::mem::take(&mut self.scratch);
        did.clear();
        let follow = Follow { peer: true, ..Follow::from(&self.threads[at]) };
        for wait in own {
            let of_call =
                matches!(wait.part.category, C::Pipe | C::Socket | C::FileLock | C::Signalled | C::Signal);
            if of_call || matches!(wait.part.category, C::OtherRunning | C::OtherRunnable | C::OtherWaiting) {
                self.follow_thread(waker, wait.from, wait.to, follow, &mut did);
            }
        }
        let peers = &mut self.ledger(at).peers;
        did.iter().for_each(|p| peers.add(p.part, p.to - p.from));
        self.scratch = did;
    }

    /// Keeps where unexplained time was spent.
    fn note_unexplained(&mut self, at: usize, own: &[Piece], stack: Option<u32>) {
        let pieces = own.iter().filter(|p| p.part.category == Category::Unexplained);
        let unexplained: u64 = pieces.map(|p| p.to - p.from).sum();
        if unexplained == 0 {
            return;
        }
        let t = &self.threads[at];
        let nr = t.call.map(|c| c.nr).or(u32::try_from(t.first_call).ok());
        let key = (stack.unwrap_or(0), nr.map_or(-1, i64::from));
        if self.unexplained.len() < 10_000 || self.unexplained.contains_key(&key) {
            let entry = self.unexplained.entry(key).or_default();
            entry.0 += 1;
            entry.1 += unexplained;
        }
    }

    /// Puts the pieces of a wait into the thread's sums. `handed`: a thread of the target ended it;
    /// what that one did meanwhile comes when the call ends, and the path goes on where that one came from.
    /// `wait`: see [`crate::Spent::wait`]; `says`: see [`crate::thread::Sleep::says`].
    pub(super) fn charge_wait(
        &mut self,
        at: usize,
        own: &[Piece],
        handed: bool,
        wait: Option<Slept>,
        says: u32,
    ) {
        let t = &mut self.threads[at];
        own.iter().for_each(|p| t.spend(p.part.category, p.to - p.from));
        if !t.target {
            return;
        }
        let (tid, name) = (t.tid, t.name);
        for p in own {
            self.threads[at].blame.add(p.part, p.to - p.from);
            self.ledger(at).longest.wait(tid, name, p);
            self.slept(at, p, wait);
            self.span_waited(at, p, says);
        }
        let t = &mut self.threads[at];
        if !handed {
            own.iter().for_each(|p| t.followed.add(p.part, p.to - p.from));
        }
        match t.offered.take().filter(|_| handed) {
            Some(other) => t.path = *other,
            None => own.iter().for_each(|p| t.path.waited(tid, name, p)),
        }
    }
}
