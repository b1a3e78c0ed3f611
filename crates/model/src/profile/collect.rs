// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sees the account grow and keeps it by stack.

use crate::account::Category;
use crate::ahead::Ahead;
use crate::parts::Who;
use crate::{CpuState, Naming, Observer, Slept, Spent, ThreadState};
use plumb_trace::reader::Told;
use plumb_trace::schema::StateCpuSample;
use rustc_hash::FxHashMap;

/// Threads that are kept apart; above, the half with least time is added up by name. Where
/// that does not make them fewer, each has a name of its own, and twice as many are kept.
const MOST_THREADS: usize = 1 << 15;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    pub cpu: u32,
    /// Number of the kernel stack; 0 in user mode.
    pub kernel: u32,
    /// Number of the user stack; 0 where there is none.
    pub user: u32,
}

/// A thread, or several of one name.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// 0 for several.
    pub tid: u32,
    /// Its process; of several the first one's.
    pub tgid: u32,
    pub name: u32,
    /// ns running, spinning, interrupted.
    pub on_cpu: [u64; 3],
    /// All time, ns.
    pub time: u64,
    pub samples: FxHashMap<Place, u64>,
}

/// What waits are added up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Wait {
    pub thread: u32,
    pub category: Category,
    pub who: Who,
    pub kernel: u32,
    pub user: u32,
}

/// The piece that came last.
#[derive(Debug, Default)]
struct Last {
    tid: u32,
    /// End of the wait, 0 for time that is no sleep.
    end: u64,
    user: u32,
    span: (u64, u64),
    /// Causes at which the wait was counted.
    counted: Vec<(Category, Who)>,
}

/// Collects a profile while a model reads a trace: `Model::new(setup, Collector::new(..))`,
/// then `finish` gives it back, and [`Collector::profile`] makes the profile.
#[derive(Debug, Default)]
pub struct Collector {
    /// The window, ns.
    from: u64,
    to: u64,
    pub(super) clock: String,
    /// What was seen of the window, ns.
    pub(super) span: Option<(u64, u64)>,
    pub(super) threads: Vec<Seen>,
    most: usize,
    index: FxHashMap<(u32, u32), u32>,
    /// Thread and process that were looked up last, and their place.
    lately: Option<((u32, u32), usize)>,
    pools: FxHashMap<u32, u32>,
    /// ns, and how many.
    pub(super) waits: FxHashMap<Wait, (u64, u64)>,
    /// Stacks by thread and moment: a wait's end, or a call's. Kernel and user stacks come as
    /// one kind of number; the model tells which is the kernel's.
    stacks: Ahead<[u32; 2]>,
    /// Waits whose user stack comes when the thread's call returns.
    open: FxHashMap<u32, Vec<(Wait, u64, u64)>>,
    /// Memory of such waits.
    spare: Vec<Vec<(Wait, u64, u64)>>,
    last: Last,
    pub(super) samples: u64,
    pub(super) names: FxHashMap<u32, String>,
    pub(super) whos: FxHashMap<Who, String>,
    pub(super) processes: FxHashMap<u32, String>,
}

impl Collector {
    /// Only what lies between two moments (ns, CLOCK_MONOTONIC).
    pub fn new(from: u64, to: u64) -> Self {
        Self { from, to, most: MOST_THREADS, ..Self::default() }
    }

    /// What the sampling clock was, see [`super::Profile::clock`]; the trace's environment has it.
    #[must_use]
    pub fn clock(self, clock: &str) -> Self {
        Self { clock: clock.into(), ..self }
    }

    /// The window's part of a piece, ns.
    fn clip(&self, s: &Spent) -> u64 {
        let (from, to) = (s.from.max(self.from), s.to.min(self.to));
        if to <= from {
            return 0;
        }
        if to - from == s.to - s.from {
            return s.time;
        }
        // Where in it an interrupt lay is not known: its time counts as spread evenly.
        let part = u128::from(s.time) * u128::from(to - from) / u128::from(s.to - s.from);
        u64::try_from(part).unwrap_or(s.time)
    }

    fn saw(&mut self, from: u64, to: u64) {
        let (from, to) = (from.max(self.from), to.min(self.to));
        if from < to {
            let (a, b) = self.span.unwrap_or((from, to));
            self.span = Some((a.min(from), b.max(to)));
        }
    }

    /// The place of a thread. An id that is used again has another process, or is the same
    /// process's and cannot be told apart.
    fn thread(&mut self, tid: u32, tgid: u32) -> usize {
        if let Some((_, at)) = self.lately.filter(|(who, _)| *who == (tid, tgid)) {
            return at;
        }
        if let Some(at) = self.index.get(&(tid, tgid)) {
            self.lately = Some(((tid, tgid), *at as usize));
            return *at as usize;
        }
        if self.threads.len() >= self.most {
            self.pool();
            self.most = self.most.max(self.threads.len() * 2);
        }
        let at = self.threads.len();
        self.threads.push(Seen { tid, tgid, ..Seen::default() });
        self.index.insert((tid, tgid), at as u32);
        at
    }

    /// Adds up the threads with least time by name.
    fn pool(&mut self) {
        let mut times: Vec<u64> = self.threads.iter().filter(|t| t.tid != 0).map(|t| t.time).collect();
        let middle = times.len() / 2;
        let limit = if times.is_empty() { 0 } else { *times.select_nth_unstable(middle).1 };
        let mut moved = vec![0; self.threads.len()];
        let mut kept: Vec<Seen> = Vec::new();
        self.index.clear();
        self.lately = None;
        self.pools.clear();
        for (at, t) in std::mem::take(&mut self.threads).into_iter().enumerate() {
            let (pooled, next) = (t.tid == 0 || t.time <= limit, kept.len() as u32);
            let to = if pooled { *self.pools.entry(t.name).or_insert(next) } else { next };
            moved[at] = to;
            if to == next {
                if !pooled {
                    self.index.insert((t.tid, t.tgid), to);
                }
                kept.push(Seen { tid: if pooled { 0 } else { t.tid }, ..t });
                continue;
            }
            let pool = &mut kept[to as usize];
            pool.time += t.time;
            pool.on_cpu.iter_mut().zip(t.on_cpu).for_each(|(a, b)| *a += b);
            t.samples.into_iter().for_each(|(place, n)| *pool.samples.entry(place).or_default() += n);
        }
        self.threads = kept;
        let place = |wait: Wait| Wait { thread: moved[wait.thread as usize], ..wait };
        for (wait, (time, count)) in std::mem::take(&mut self.waits) {
            self.add(place(wait), time, count);
        }
        self.open.values_mut().flatten().for_each(|w| w.0 = place(w.0));
    }

    fn add(&mut self, wait: Wait, time: u64, count: u64) {
        let sum = self.waits.entry(wait).or_default();
        *sum = (sum.0 + time, sum.1 + count);
    }

    /// The call of these waits returned, with this user stack; or there will be none.
    fn settle(&mut self, tid: u32, user: u32) {
        if self.open.is_empty() {
            return;
        }
        let Some(mut waits) = self.open.remove(&tid) else { return };
        for (wait, time, count) in waits.drain(..) {
            self.add(Wait { user, ..wait }, time, count);
        }
        self.spare.push(waits);
    }

    pub(super) fn give_up_stacks(&mut self) {
        let open: Vec<u32> = self.open.keys().copied().collect();
        open.into_iter().for_each(|tid| self.settle(tid, 0));
    }

    /// Whether a piece is the first of its wait at its cause within the window; takes the
    /// wait's own user stack.
    fn begins(&mut self, s: &Spent, within: bool) -> bool {
        let end = s.wait.map_or(0, |w| w.end);
        let last = &self.last;
        // Pieces of a wait for a CPU have no name for their wait, but they touch.
        let touches = s.from == last.span.1 || s.to == last.span.0;
        if s.tid != last.tid || end != last.end || (end == 0 && !touches) {
            let told = s.wait.and_then(|Slept { end, stack: kernel, .. }| {
                let told = self.stacks.take(s.tid, end)?;
                told.into_iter().find(|stack| *stack != kernel && *stack != 0)
            });
            self.last = Last { tid: s.tid, end, user: told.unwrap_or(0), ..Last::default() };
        }
        self.last.span = (s.from, s.to);
        let new = within && !self.last.counted.contains(&(s.category, s.who));
        if new {
            self.last.counted.push((s.category, s.who));
        }
        new
    }
}

impl Observer for Collector {
    fn thread(&mut self, _: u32, _: u64, _: u64, _: ThreadState) {}

    fn cpu(&mut self, _: u32, start: u64, end: u64, _: CpuState) {
        self.saw(start, end);
    }

    fn spent(&mut self, s: &Spent) {
        self.saw(s.from, s.to);
        let on_cpu = match s.category {
            Category::Running => Some(0),
            Category::Spinning => Some(1),
            Category::Interrupted => Some(2),
            _ => None,
        };
        let time = self.clip(s);
        let new = on_cpu.is_none() && self.begins(s, time > 0);
        if time == 0 {
            return;
        }
        let at = self.thread(s.tid, s.tgid);
        let thread = &mut self.threads[at];
        thread.name = s.name;
        thread.time += time;
        if let Some(kind) = on_cpu {
            thread.on_cpu[kind] += time;
            return;
        }
        let kernel = s.wait.map_or(0, |w| w.stack);
        let user = self.last.user;
        let wait = Wait { thread: at as u32, category: s.category, who: s.who, kernel, user };
        let count = u64::from(new);
        if s.wait.is_none() || user != 0 {
            return self.add(wait, time, count);
        }
        let open = self.open.entry(s.tid).or_insert_with(|| self.spare.pop().unwrap_or_default());
        match open.iter_mut().rev().find(|(w, ..)| *w == wait) {
            Some((_, t, n)) => (*t, *n) = (*t + time, *n + count),
            None => open.push((wait, time, count)),
        }
    }

    fn told(&mut self, told: &Told) {
        let Told::Wait(w) = told else { return };
        let stacks = self.stacks.of(w.waiter, w.end);
        let free = usize::from(stacks[0] != 0);
        stacks[free] = w.stack;
    }

    fn sampled(&mut self, tgid: u32, target: bool, s: &StateCpuSample) {
        if !target || s.at < self.from || s.at > self.to {
            return;
        }
        let at = self.thread(s.thread, tgid);
        let place = Place { cpu: s.cpu, kernel: s.kernel, user: s.user };
        *self.threads[at].samples.entry(place).or_default() += 1;
        self.samples += 1;
    }

    fn called(&mut self, tid: u32) {
        self.settle(tid, 0);
    }

    fn returned(&mut self, tid: u32, ts: u64) {
        let told = self.stacks.take(tid, ts).unwrap_or_default();
        self.settle(tid, told[0]);
    }

    fn end(&mut self, naming: &dyn Naming) {
        self.give_up_stacks();
        for t in &self.threads {
            self.names.entry(t.name).or_insert_with(|| naming.name(t.name));
            self.processes.entry(t.tgid).or_insert_with(|| naming.process(t.tgid));
        }
        for wait in self.waits.keys() {
            self.whos.entry(wait.who).or_insert_with(|| naming.who(wait.who));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_trace::reader::State as TraceState;

    #[test]
    fn tens_of_thousands_of_threads_are_added_up_by_name() {
        let mut c = Collector::new(0, u64::MAX);
        let mut told = 0;
        for i in 0..100_000u32 {
            let from = u64::from(i) * 100;
            // One in ten thousand has much.
            let to = from + if i % 10_000 == 7 { 90 } else { 10 + u64::from(i % 3) };
            let piece = Spent {
                tid: i + 1,
                tgid: i + 1,
                name: i % 2,
                category: if i % 5 == 0 { Category::Timer } else { Category::Running },
                who: Who::Nobody,
                from,
                to,
                time: to - from,
                request: 0,
                wait: (i % 5 == 0).then_some(Slept { start: from, end: to, stack: 0, waker: 0 }),
            };
            c.spent(&piece);
            told += piece.time;
            if i == 7 {
                c.sampled(i + 1, true, &StateCpuSample { at: from, thread: i + 1, ..Default::default() });
            }
        }
        assert!(c.threads.len() <= MOST_THREADS, "{}", c.threads.len());
        let p = c.profile(&TraceState::default());
        assert_eq!(p.time(), told);
        assert!(p.threads.iter().any(|t| t.tid == 8), "that with much is itself");
        let waits = p.entries.iter().filter(|e| e.category == Category::Timer);
        assert_eq!(waits.map(|e| e.count).sum::<u64>(), 20_000);
    }
}
