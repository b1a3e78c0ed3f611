// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Spreads time on CPUs over samples, and puts everything into one table.

use super::collect::{Collector, Place, Seen};
use super::pool::{exchange, pools};
use super::resolve::Resolver;
use super::split::{spread, Samples, Split, ALONE};
use super::{Entry, Frame, Profile, Root, Stack, Thread};
use crate::account::Category;
use crate::samples::{at, At};
use plumb_trace::reader::State as TraceState;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A share of the time that is not worth a note.
const LITTLE: f64 = 0.005;

/// What an entry is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    thread: u32,
    cpu: Option<u32>,
    category: Category,
    who: u32,
    stack: u32,
}

/// Shares as they come: nearly each is an entry of its own, so they are added up at the end, and no
/// table of keys is kept.
#[derive(Debug, Default)]
struct Table(Vec<Entry>);

impl Table {
    fn add(&mut self, key: Key, time: u64, count: u64) {
        // What got no time is no part of the account.
        if time > 0 {
            let Key { thread, cpu, category, who, stack } = key;
            self.0.push(Entry { thread, cpu, category, who, stack, time, count });
        }
    }

    /// The entries, largest time first.
    fn entries(self) -> Vec<Entry> {
        let key = |e: &Entry| {
            let Entry { thread, cpu, category, who, stack, .. } = *e;
            Key { thread, cpu, category, who, stack }
        };
        let mut entries = self.0;
        entries.sort_unstable_by_key(key);
        entries.dedup_by(|next, sum| {
            let same = key(next) == key(sum);
            if same {
                (sum.time, sum.count) = (sum.time + next.time, sum.count + next.count);
            }
            same
        });
        entries.sort_unstable_by_key(|e| (std::cmp::Reverse(e.time), key(e)));
        entries
    }
}

/// Whose samples an entry's time is spread over.
enum By {
    Own,
    /// Others': they are counted there.
    Lent,
}

struct Build<'a> {
    resolver: Resolver<'a>,
    table: Table,
}

impl Build<'_> {
    fn on_cpu(&mut self, thread: u32, category: Category, time: u64, samples: &Samples, by: &By) {
        let key = Key { thread, cpu: None, category, who: 0, stack: 0 };
        if samples.is_empty() {
            return self.table.add(key, time, 0);
        }
        let weights: Vec<u64> = samples.iter().map(|(_, n)| *n).collect();
        for ((place, n), time) in samples.iter().zip(spread(time, &weights)) {
            let stack = self.resolver.sample(place.kernel, place.user);
            let (cpu, n) = match by {
                By::Own => (Some(place.cpu), *n),
                By::Lent => (None, 0),
            };
            self.table.add(Key { cpu, stack, ..key }, time, n);
        }
    }

    /// The running time of threads that share their samples.
    fn pool(&mut self, c: &Collector, splits: &[Split], members: &[usize], places: &[u32]) {
        let time: Vec<u64> = members.iter().map(|i| c.threads[*i].on_cpu[0]).collect();
        let samples: Vec<&Samples> = members.iter().map(|i| &splits[*i].running).collect();
        let rows: Vec<u32> = members.iter().map(|i| places[*i]).collect();
        let exchange = exchange(&time, &samples, &rows);
        for ((samples, own), thread) in samples.iter().zip(exchange.own).zip(&rows) {
            if !samples.is_empty() {
                self.on_cpu(*thread, Category::Running, own, samples, &By::Own);
            }
        }
        for (thread, place, time) in exchange.lent {
            self.on_cpu(thread, Category::Running, time, &vec![(place, 1)], &By::Lent);
        }
    }
}

/// A thread's place in the profile, by its place in what was collected.
fn threads(c: &Collector, sampleless: &[bool]) -> (Vec<Thread>, Vec<u32>) {
    let comm = |t: &Seen| c.names.get(&t.name).cloned().unwrap_or_default();
    let process = |t: &Seen| {
        let name = c.processes.get(&t.tgid).filter(|name| !name.is_empty());
        name.cloned().unwrap_or_else(|| comm(t))
    };
    let mut unmet: HashMap<u32, usize> = HashMap::new();
    for (t, _) in c.threads.iter().zip(sampleless).filter(|(_, sampleless)| **sampleless) {
        *unmet.entry(t.name).or_default() += 1;
    }
    // By their numbers; those of several threads last.
    type Id = (bool, u32, u32, String);
    let mut sorted: BTreeMap<Id, (Thread, Vec<usize>)> = BTreeMap::new();
    for (at, t) in c.threads.iter().enumerate().filter(|(_, t)| t.time > 0) {
        let several = t.tid == 0 || (sampleless[at] && unmet.get(&t.name).is_some_and(|n| *n > ALONE));
        let (tid, pid) = if several { (0, 0) } else { (t.tid, t.tgid) };
        let thread = || Thread { tid, pid, comm: comm(t), process: process(t) };
        let name = if several { comm(t) } else { String::new() };
        sorted.entry((several, pid, tid, name)).or_insert_with(|| (thread(), Vec::new())).1.push(at);
    }
    let mut places = vec![0; c.threads.len()];
    let mut threads = Vec::with_capacity(sorted.len());
    for (thread, members) in sorted.into_values() {
        members.into_iter().for_each(|at| places[at] = threads.len() as u32);
        threads.push(thread);
    }
    (threads, places)
}

/// By name, the samples that stand for threads that the clock never met: of all others of
/// that name.
fn lent(c: &Collector, splits: &[Split], names: &HashSet<u32>) -> HashMap<u32, BTreeMap<Place, u64>> {
    let mut all: HashMap<u32, BTreeMap<Place, u64>> = HashMap::new();
    for (t, split) in c.threads.iter().zip(splits).filter(|(t, _)| names.contains(&t.name)) {
        let samples = all.entry(t.name).or_default();
        split.running.iter().for_each(|(place, n)| *samples.entry(*place).or_default() += n);
    }
    all
}

impl Collector {
    /// The profile; names come from the trace's state.
    pub fn profile(mut self, state: &TraceState) -> Profile {
        self.give_up_stacks();
        profile(self, state)
    }
}

fn profile(mut c: Collector, state: &TraceState) -> Profile {
    let kinds: FxHashMap<u32, At> =
        state.stacks.iter().filter(|s| s.user == 0).map(|s| (s.stack, at(&s.text))).collect();
    let splits: Vec<Split> = c.threads.iter_mut().map(|t| Split::of(t, &kinds)).collect();
    let c = &c;
    let sampleless: Vec<bool> = splits.iter().map(Split::is_empty).collect();
    let (threads, places) = threads(c, &sampleless);
    let pools = pools(c, &splits);
    let pooled: HashSet<usize> = pools.iter().flatten().copied().collect();
    let mut b = Build { resolver: Resolver::new(state), table: Table::default() };
    // One that the clock never met ran what others of its name ran; all of a name together,
    // so that no part is too small to be spread.
    let mut unmet: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for (i, (t, split)) in c.threads.iter().zip(&splits).enumerate() {
        let (thread, [running, spinning, interrupted]) = (places[i], t.on_cpu);
        b.on_cpu(thread, Category::Spinning, spinning, &split.spinning, &By::Own);
        b.on_cpu(thread, Category::Interrupted, interrupted, &split.interrupted, &By::Own);
        if pooled.contains(&i) {
            continue;
        } else if sampleless[i] {
            *unmet.entry((thread, t.name)).or_default() += running;
        } else if split.running.is_empty() {
            b.on_cpu(thread, Category::Running, running, &split.all(), &By::Lent);
        } else {
            b.on_cpu(thread, Category::Running, running, &split.running, &By::Own);
        }
    }
    pools.iter().for_each(|members| b.pool(c, &splits, members, &places));
    let lent = lent(c, &splits, &unmet.keys().map(|(_, name)| *name).collect());
    for ((thread, name), running) in unmet {
        let samples = lent.get(&name).into_iter().flatten().map(|(place, n)| (*place, *n)).collect();
        b.on_cpu(thread, Category::Running, running, &samples, &By::Lent);
    }
    let mut whos = vec![String::new()];
    let mut numbers: HashMap<&str, u32> = HashMap::from([("", 0)]);
    let mut waits: Vec<_> = c.waits.iter().collect();
    waits.sort_unstable();
    for (w, (time, count)) in waits {
        let name = c.whos.get(&w.who).map_or("", String::as_str);
        let who = *numbers.entry(name).or_insert_with(|| {
            whos.push(name.into());
            whos.len() as u32 - 1
        });
        let stack = b.resolver.wait(w.kernel, w.user);
        let thread = places[w.thread as usize];
        b.table.add(Key { thread, cpu: None, category: w.category, who, stack }, *time, *count);
    }
    let (begin, end) = c.span.unwrap_or((0, 0));
    let mut profile = Profile {
        begin,
        end,
        threads,
        whos,
        entries: b.table.entries(),
        samples: c.samples,
        clock: c.clock.clone(),
        ..Profile::default()
    };
    b.resolver.give(&mut profile);
    profile.notes = notes(&profile, state);
    profile
}

/// What the reader must know.
fn notes(p: &Profile, state: &TraceState) -> Vec<String> {
    let mut notes = Vec::new();
    let all = p.time().max(1) as f64;
    let ran = p.entries.iter().any(|e| e.category == Category::Running);
    if p.samples == 0 && ran {
        notes.push(if p.clock.is_empty() {
            "No samples: recorded with --sample 0, so time on a CPU has no functions.".into()
        } else {
            "No samples: the sampling clock never met the target, so time on a CPU has no functions.".into()
        });
    }
    if let Some(lost) = state.end.as_ref().map(|e| e.stacks_lost).filter(|n| *n > 0) {
        notes.push(format!("{lost} stacks of samples and waits were lost: the recorder's buffer was full."));
    }
    let mut times = vec![0u64; p.stacks.len()];
    p.entries.iter().for_each(|e| times[e.stack as usize] += e.time);
    let module = |frame: &Frame| {
        let function = &p.functions[frame.function as usize];
        (!function.named).then_some(function.module as usize)
    };
    let modules: Vec<Option<usize>> = p.frames.iter().map(module).collect();
    // Time, and the stack that was added last: a module's counts once a stack.
    let mut nameless = vec![(0u64, usize::MAX); p.modules.len()];
    for (at, (stack, time)) in p.stacks.iter().zip(&times).enumerate() {
        for module in stack.frames.iter().filter_map(|f| modules[*f as usize]) {
            let (sum, last) = &mut nameless[module];
            if *last != at {
                (*sum, *last) = (*sum + time, at);
            }
        }
    }
    for (module, (time, _)) in p.modules.iter().zip(nameless) {
        let share = time as f64 / all;
        if share >= LITTLE {
            let why = if module.lacking.is_empty() { String::new() } else { format!(": {}", module.lacking) };
            notes.push(format!(
                "{:.1} % of the time has places in {} that have no name{why}.",
                share * 100.0,
                module.name()
            ));
        }
    }
    let cut = |(stack, _): &(&Stack, &u64)| stack.root == Root::Cut;
    let cut: u64 = p.stacks.iter().zip(&times).filter(cut).map(|(_, time)| time).sum();
    let share = cut as f64 / all;
    if share >= LITTLE {
        notes.push(format!("{:.1} % of the time has a stack whose outer frames are missing.", share * 100.0));
    }
    notes
}
