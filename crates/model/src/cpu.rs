// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A CPU: which thread it runs, and which interrupts lie on top.

use crate::history::Cause;
use crate::CpuState;
use std::collections::VecDeque;

/// Past states that are remembered, to tell who had the CPU.
const KEPT: usize = 64;
/// A soft interrupt that begins this soon after a hard one was raised by it, ns.
const RAISED_BY: u64 = 5_000;
/// What is received so soon after timers ran, and long after a device's interrupt, was sent by a timer of this host, ns.
const SENT_BY_TIMER: u64 = 20_000;

/// A quota is filled up again after its period: at most a second (max_cfs_quota_period, kernel/sched/core.c), ns.
const LONGEST_HELD: u64 = 1_000_000_000;

/// Deepest nesting that is followed: hard over soft over hard.
const DEPTH: usize = 8;

/// What an interrupt is, as far as a wait's cause depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// A device's handler, or a call from another CPU.
    Device,
    /// Timers: the local timer's interrupt, soft timer and hrtimer.
    Timer,
    NetReceive,
    Rcu,
    Soft,
}

/// An interrupt that lies on top.
#[derive(Debug, Clone, Copy)]
struct Open {
    frame: Frame,
    /// Request that it completed last.
    completed: Option<u64>,
    /// No hard interrupt raised it: the thread below did, as a send over loopback does.
    by_thread: bool,
    /// Timers of this host ran just before: what is received, one of them sent.
    by_timer: bool,
}

/// Totals of one CPU, ns.
#[derive(Debug, Default, Clone, Copy)]
pub struct CpuTotals {
    /// Running threads, interrupts not counted.
    pub busy: u64,
    /// Idle, interrupts not counted.
    pub idle: u64,
    /// Interrupts over a thread or over idle.
    pub interrupts: u64,
    /// Events missing.
    pub lost: u64,
    /// Before its first event.
    pub unseen: u64,
    pub switches: u64,
}

/// State machine of one CPU.
#[derive(Debug)]
pub struct Cpu {
    /// State since `since`.
    pub state: CpuState,
    /// When the state began, ns.
    pub since: u64,
    frames: Vec<Open>,
    last_hard: u64,
    /// End of the last device's interrupt, and of the last run of the softirq's timers, ns.
    last_device: u64,
    last_timers: u64,
    recent: VecDeque<(u64, u64, CpuState)>,
    /// Request completed last by what runs below all interrupts.
    base_completion: Option<u64>,
    interrupted_since: u64,
    /// Interrupt time within the present state, ns.
    pub interrupted: u64,
    /// Of it, in softirqs that a call of the thread began: what it sent to its own host, it receives there.
    own: u64,
    /// The lowest of the open frames is such a one.
    began: bool,
    /// Until when, since when and whose threads it may not run because their quota is used up; the last may go on.
    held: VecDeque<(u64, u64, u32)>,
    pub totals: CpuTotals,
}

impl Cpu {
    /// A CPU of which nothing has been seen.
    pub fn new(since: u64) -> Self {
        Self {
            state: CpuState::Unseen,
            since,
            frames: Vec::with_capacity(DEPTH),
            last_hard: 0,
            last_device: 0,
            last_timers: 0,
            recent: VecDeque::with_capacity(KEPT),
            base_completion: None,
            interrupted_since: 0,
            interrupted: 0,
            own: 0,
            began: false,
            held: VecDeque::new(),
            totals: CpuTotals::default(),
        }
    }

    /// Closes the present state at `ts` and begins another; returns the closed
    /// one with its beginning and the interrupt time inside.
    pub fn become_state(&mut self, ts: u64, next: CpuState) -> (CpuState, u64, u64) {
        if !self.frames.is_empty() {
            // A switch inside an interrupt cannot be: exits are missing.
            self.settle_interrupts(ts);
            self.frames.clear();
        }
        self.base_completion = None;
        let was = (self.state, self.since, self.interrupted);
        if ts > self.since {
            if self.recent.len() == KEPT {
                self.recent.pop_front();
            }
            self.recent.push_back((self.since, ts, self.state));
        }
        let length = ts - self.since;
        match self.state {
            CpuState::Idle => self.totals.idle += length - self.interrupted,
            CpuState::Busy(_) => self.totals.busy += length - self.interrupted,
            CpuState::Unseen => self.totals.unseen += length - self.interrupted,
            CpuState::Lost => self.totals.lost += length - self.interrupted,
        }
        self.totals.interrupts += self.interrupted;
        (self.state, self.since, self.interrupted, self.own) = (next, ts, 0, 0);
        was
    }

    /// What it was at between two moments, newest first, as far as it is remembered.
    pub fn was(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64, CpuState)> + '_ {
        let now = (self.since, to, self.state);
        std::iter::once(now)
            .chain(self.recent.iter().rev().copied())
            .take_while(move |(_, end, _)| *end > from)
            .filter(move |(start, ..)| *start < to)
            .map(move |(start, end, state)| (start.max(from), end.min(to), state))
    }

    /// A thread of a process leaves it with its quota used up, ns.
    pub fn held(&mut self, ts: u64, process: u32) {
        if self.held.back().is_some_and(|(to, _, of)| *to == u64::MAX && *of == process) {
            return;
        }
        if self.held.len() == KEPT {
            self.held.pop_front();
        }
        self.held.push_back((u64::MAX, ts, process));
    }

    /// A thread of a process runs here, ns: it may.
    pub fn let_go(&mut self, ts: u64, process: u32) {
        if let Some((to, ..)) =
            self.held.iter_mut().rev().find(|(to, _, of)| *to == u64::MAX && *of == process)
        {
            *to = ts;
        }
    }

    /// When a process's threads might not run here, last first, ns.
    pub fn when_held(&self, process: u32, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let of = self.held.iter().rev().filter(move |(.., of)| *of == process);
        let until = |end: u64, start: u64| end.min(start.saturating_add(LONGEST_HELD));
        of.map(move |(end, start, _)| ((*start).max(from), until(*end, *start).min(to)))
            .filter(|(a, b)| a < b)
    }

    fn settle_interrupts(&mut self, ts: u64) {
        let time = ts.saturating_sub(self.interrupted_since.max(self.since));
        self.interrupted += time;
        self.own += if self.began { time } else { 0 };
    }

    /// Time within the present state up to `ts` that interrupts took from the thread, ns.
    pub fn interrupted_until(&self, ts: u64) -> u64 {
        let open = if self.frames.is_empty() || self.began {
            0
        } else {
            ts.saturating_sub(self.interrupted_since.max(self.since))
        };
        self.interrupted - self.own + open
    }

    pub fn enter(&mut self, ts: u64, frame: Frame) {
        if self.frames.len() == DEPTH {
            self.settle_interrupts(ts);
            self.frames.clear();
        }
        let lowest = self.frames.is_empty();
        if lowest {
            self.interrupted_since = ts;
        }
        let hard = matches!(frame, Frame::Device) || self.frames.iter().any(|f| f.frame == Frame::Device);
        let by_thread = !hard && self.frames.is_empty() && ts.saturating_sub(self.last_hard) > RAISED_BY;
        if lowest {
            self.began = by_thread && frame == Frame::NetReceive;
        }
        let recent = |t: u64| t != 0 && ts.saturating_sub(t) < SENT_BY_TIMER;
        let by_timer = recent(self.last_timers) && !recent(self.last_device) && !hard;
        self.frames.push(Open { frame, completed: None, by_thread, by_timer });
    }

    /// The softirq that runs timers ends.
    pub fn timers_ran(&mut self, ts: u64) {
        self.last_timers = ts;
    }

    /// An interrupt ends; false when none of the kind was open.
    pub fn exit(&mut self, ts: u64, frame: Frame) -> bool {
        let Some(at) = self.frames.iter().rposition(|f| f.frame == frame) else { return false };
        self.frames.truncate(at);
        if matches!(frame, Frame::Device | Frame::Timer) {
            self.last_hard = ts;
        }
        if frame == Frame::Device {
            self.last_device = ts;
        }
        if self.frames.is_empty() {
            self.settle_interrupts(ts);
        }
        true
    }

    /// A request completed here; what is woken next was waiting for it. Returns
    /// the one that completed just before, and whether no interrupt lies on top.
    pub fn completed(&mut self, request: u64) -> (Option<u64>, bool) {
        match self.frames.last_mut() {
            Some(open) => (open.completed.replace(request), false),
            None => (self.base_completion.replace(request), true),
        }
    }

    /// Something else began here than to finish a request.
    pub fn other_work(&mut self) {
        match self.frames.last_mut() {
            Some(open) => open.completed = None,
            None => self.base_completion = None,
        }
    }

    /// Why a thread that is woken here now is woken; `tid` is the thread on the CPU.
    pub fn cause(&self, tid: u32) -> Cause {
        match self.frames.last() {
            Some(Open { completed: Some(request), .. }) => Cause::Request(*request),
            Some(Open { frame: Frame::Timer, .. }) => Cause::Timer,
            Some(Open { frame: Frame::NetReceive, by_timer: true, .. }) => Cause::TcpTimer,
            Some(Open { frame: Frame::NetReceive, by_thread: true, .. }) if tid != 0 => Cause::Thread(tid),
            Some(Open { frame: Frame::NetReceive, .. }) => Cause::Network,
            Some(Open { frame: Frame::Rcu, .. }) => Cause::Rcu,
            Some(Open { frame: Frame::Device | Frame::Soft, .. }) => Cause::Interrupt,
            None => match self.base_completion {
                Some(request) => Cause::Request(request),
                None if tid != 0 => Cause::Thread(tid),
                None => Cause::Interrupt,
            },
        }
    }
}
