// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Spans: named intervals of a thread, such as the statements of a database server, and where the time of each went.
//!
//! A span's parts add up to its duration. Its waits come as they close; its time on a CPU is what the
//! thread's account grew by. A span within another is a part of that one too.

use crate::account::{Account, Category};
use crate::histogram::Histogram;
use crate::parts::{Part, Piece, Who};
use crate::result::{CauseRow, SlowSpanRow, SpanRow, TailRow};
use plumb_trace::reader::State as TraceState;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Spans that are told apart by their keys; those of further keys share a row.
const MOST_ROWS: usize = 512;
/// Of each row, the slowest that are kept, and others as a sample of all.
const KEPT: usize = 32;
/// A tail is looked at where a row has so many spans at least.
const TAIL: u64 = 100;
/// Rows with most time that are told whole; of the others, so many causes and no slow spans: results stay small.
const WHOLE: usize = 64;
const BRIEF: usize = 4;
/// Causes of a row that are told, and slow spans.
const MOST_CAUSES: usize = 16;
const MOST_SLOW: usize = 5;
/// The span of requests on sockets, from the first byte that came to the first that was sent back; its keys are the
/// names of the threads that answer.
const TURN: u32 = u32::MAX;
/// Categories whose time the account tells, as no wait does.
const OF_ACCOUNT: [Category; 4] =
    [Category::Running, Category::Spinning, Category::Interrupted, Category::Lost];

/// What a piece of a span went to; `event`: what its program said that it waits for, 0 nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cause {
    pub category: Category,
    pub who: Who,
    pub event: u32,
    /// Number of the name of whose requests the disk served meanwhile, where those were not the target's.
    pub beside: Option<u32>,
}

impl Cause {
    /// One that nobody in particular had.
    fn of(category: Category) -> Self {
        Self { category, who: Who::Nobody, event: 0, beside: None }
    }
}

/// Sums by cause, ns. Few at a time: a list.
#[derive(Debug, Clone, Default)]
struct Causes(Vec<(Cause, u64)>);

impl Causes {
    fn add(&mut self, cause: Cause, ns: u64) {
        if ns == 0 {
            return;
        }
        match self.0.iter_mut().find(|(c, _)| *c == cause) {
            Some((_, sum)) => *sum += ns,
            None => self.0.push((cause, ns)),
        }
    }
}

/// Which span, and what names it: a number, or a text's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Named {
    pub span: u32,
    pub key: u64,
}

/// One that has not ended.
#[derive(Debug)]
struct Begun {
    named: Named,
    /// ns.
    begin: u64,
    /// Calls of itself within it that have not returned.
    within: u32,
    before: [u64; OF_ACCOUNT.len()],
    causes: Causes,
}

/// The spans that one thread has open, outermost first.
#[derive(Debug, Default)]
pub struct Open {
    begun: Vec<Begun>,
    /// The last that ended, while none is open.
    last: Named,
}

#[derive(Debug)]
pub struct Done {
    named: Named,
    begin: u64,
    took: u64,
    causes: Causes,
}

fn of_account(account: &Account) -> [u64; OF_ACCOUNT.len()] {
    OF_ACCOUNT.map(|c| account.get(c))
}

impl Open {
    /// One begins at `ts` (ns); `account` is the thread's. `nests`: it is a call, which may call itself;
    /// otherwise a begin within it says more of it.
    pub fn begin(&mut self, ts: u64, account: &Account, named: Named, nests: bool) {
        if let Some(open) = self.begun.iter_mut().rev().find(|b| b.named.span == named.span) {
            if nests {
                open.within += 1;
            } else if named.key != 0 {
                open.named.key = named.key;
            }
            return;
        }
        let before = of_account(account);
        self.begun.push(Begun { named, begin: ts, within: 0, before, causes: Causes::default() });
    }

    /// A piece of a wait of the thread. What the account tells at the end is not counted twice.
    pub fn waited(&mut self, cause: Cause, ns: u64) {
        if OF_ACCOUNT.contains(&cause.category) {
            return;
        }
        if let Some(open) = self.begun.last_mut() {
            open.causes.add(cause, ns);
        }
    }

    /// The innermost of this span ends at `ts` (ns). Those within it that have not ended are returned too, without
    /// their end. `None` where none is open: it began before the recording, or its begin was not meant.
    pub fn end(&mut self, ts: u64, account: &Account, span: u32) -> Option<(Done, Vec<Named>)> {
        let at = self.begun.iter().rposition(|b| b.named.span == span)?;
        if self.begun[at].within > 0 {
            self.begun[at].within -= 1;
            return None;
        }
        let unfinished: Vec<Begun> = self.begun.drain(at + 1..).collect();
        let mut done = self.begun.pop()?;
        for inner in &unfinished {
            inner.causes.0.iter().for_each(|(cause, ns)| done.causes.add(*cause, *ns));
        }
        let took = ts.saturating_sub(done.begin);
        // What waits explain within an inner span is the outer one's too; the account has the rest of both.
        let waits = done.causes.clone();
        for (i, category) in OF_ACCOUNT.into_iter().enumerate() {
            let ns = of_account(account)[i].saturating_sub(done.before[i]);
            done.causes.add(Cause::of(category), ns);
        }
        if let Some(outer) = self.begun.last_mut() {
            waits.0.iter().for_each(|(cause, ns)| outer.causes.add(*cause, *ns));
        }
        self.last = done.named;
        let named = unfinished.into_iter().map(|b| b.named).collect();
        Some((Done { named: done.named, begin: done.begin, took, causes: done.causes }, named))
    }

    /// Events are missing, or the thread ended: forgets and hands out what is open.
    pub fn lose(&mut self) -> impl Iterator<Item = Named> {
        std::mem::take(&mut self.begun).into_iter().map(|b| b.named)
    }

    /// Forgets and hands out those that are open of some spans; their waits are those of the span around them.
    pub fn lose_those(&mut self, which: impl Fn(u32) -> bool) -> Vec<Named> {
        let mut lost = Vec::new();
        for at in (0..self.begun.len()).rev() {
            if which(self.begun[at].named.span) {
                let inner = self.begun.remove(at);
                if let Some(outer) = at.checked_sub(1).map(|outer| &mut self.begun[outer]) {
                    inner.causes.0.iter().for_each(|(cause, ns)| outer.causes.add(*cause, *ns));
                }
                lost.push(inner.named);
            }
        }
        lost
    }

    /// What the thread is at, or was last.
    pub fn current(&self) -> Named {
        self.begun.first().map_or(self.last, |b| b.named)
    }
}

/// One that ended and is kept.
#[derive(Debug, Clone)]
struct Kept {
    tid: u32,
    begin: u64,
    took: u64,
    causes: Causes,
}

#[derive(Debug, Default)]
struct Sum {
    took: Histogram,
    unfinished: u64,
    /// Time of those of which only the duration is known, ns: their causes are taken to be as those of the others.
    unseen: u64,
    /// Time and number of waits by cause.
    causes: FxHashMap<Cause, (u64, u64)>,
    /// The slowest, slowest first.
    slow: Vec<Kept>,
    /// A sample of all.
    typical: Vec<Kept>,
}

impl Sum {
    fn add(&mut self, tid: u32, done: Done) {
        self.took.add(done.took);
        for (cause, ns) in &done.causes.0 {
            let sum = self.causes.entry(*cause).or_default();
            sum.0 += ns;
            sum.1 += 1;
        }
        let kept = |causes| Kept { tid, begin: done.begin, took: done.took, causes };
        // Every one has the same chance to be in the sample (reservoir sampling); which one is not left to chance,
        // so that a trace has one result.
        let n = self.took.count;
        if self.typical.len() < KEPT {
            self.typical.push(kept(done.causes.clone()));
        } else {
            let place = (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) % n;
            if let Some(old) = self.typical.get_mut(place as usize) {
                *old = kept(done.causes.clone());
            }
        }
        let slower = self.slow.partition_point(|k| k.took >= done.took);
        if slower < KEPT {
            self.slow.truncate(KEPT - 1);
            self.slow.insert(slower, kept(done.causes));
        }
    }

    /// What the slowest percent has more of than the others.
    fn tail(&self) -> Option<(TailRow, Vec<Tail>)> {
        let n = self.took.count;
        let limit = self.took.quantile(0.99);
        let looked = ((n / 100).max(3) as usize).min(self.slow.len());
        let slow = &self.slow[..looked];
        let typical: Vec<&Kept> = self.typical.iter().filter(|k| k.took < limit).collect();
        if n < TAIL || typical.is_empty() {
            return None;
        }
        let mean = |sum: u64, of: usize| sum / of.max(1) as u64;
        let mut causes: BTreeMap<Cause, (u64, u64)> = BTreeMap::new();
        for (cause, ns) in slow.iter().flat_map(|k| &k.causes.0) {
            causes.entry(*cause).or_default().0 += ns;
        }
        for (cause, ns) in typical.iter().flat_map(|k| &k.causes.0) {
            causes.entry(*cause).or_default().1 += ns;
        }
        let mut rows: Vec<Tail> = causes
            .into_iter()
            .map(|(cause, (a, b))| (cause, mean(a, slow.len()), mean(b, typical.len())))
            .collect();
        rows.sort_by_key(|(_, slow, typical)| std::cmp::Reverse(*slow as i64 - *typical as i64));
        let row = TailRow {
            spans: slow.len() as u64,
            least: slow.last().map_or(0, |k| k.took),
            mean: mean(slow.iter().map(|k| k.took).sum(), slow.len()),
            typical: mean(typical.iter().map(|k| k.took).sum(), typical.len()),
            causes: Vec::new(),
        };
        Some((row, rows))
    }
}

/// What is called how in a result.
pub struct Names<'a> {
    pub state: &'a TraceState,
    /// Thread's name or disk.
    pub who: &'a dyn Fn(Who) -> String,
    /// What a program's number of a wait means.
    pub event: &'a dyn Fn(u32) -> String,
    /// First moment that is accounted, ns.
    pub begin: u64,
}

impl Names<'_> {
    /// What names a span.
    pub fn key(&self, named: Named) -> String {
        if named.span == TURN {
            return (self.who)(Who::Name(named.key as u32));
        }
        let span = self.state.spans.iter().find(|s| s.span == named.span);
        if span.is_some_and(|s| s.numbered == 1) {
            return named.key.to_string();
        }
        let text = self.state.texts.iter().find(|t| u64::from(t.text) == named.key);
        text.map(|t| t.value.clone()).unwrap_or_default()
    }

    fn cause(&self, cause: Cause, time: u64, spans: u64) -> CauseRow {
        let Cause { category, who, event, beside } = cause;
        let beside = beside.map_or(String::new(), |name| (self.who)(Who::Name(name)));
        CauseRow {
            category,
            who: (self.who)(who),
            beside,
            event: (self.event)(event),
            time,
            spans,
            typical: 0,
        }
    }

    fn causes(&self, causes: &Causes) -> Vec<CauseRow> {
        let mut rows: Vec<CauseRow> = causes.0.iter().map(|(c, ns)| self.cause(*c, *ns, 1)).collect();
        rows.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.category.cmp(&b.category)));
        rows.truncate(MOST_CAUSES);
        rows
    }
}

/// Of a tail: a cause, its mean time in the slowest and in the others, ns.
type Tail = (Cause, u64, u64);

/// All spans, by what names them.
#[derive(Debug, Default)]
pub struct Spans {
    rows: FxHashMap<Named, Sum>,
    /// Spans of keys that found no row of their own, by span.
    others: FxHashMap<u32, Sum>,
}

impl Spans {
    fn sum(&mut self, named: Named) -> &mut Sum {
        if self.rows.len() >= MOST_ROWS && !self.rows.contains_key(&named) {
            return self.others.entry(named.span).or_default();
        }
        self.rows.entry(named).or_default()
    }

    pub fn add(&mut self, tid: u32, done: Done) {
        self.sum(done.named).add(tid, done);
    }

    /// A request on a socket, answered by a thread of the given name. `pieces`: its path, or nothing where that was
    /// not looked at.
    pub fn turn(
        &mut self,
        (tid, name): (u32, u32),
        begin: u64,
        took: u64,
        pieces: Option<&[(Piece, Option<u32>)]>,
    ) {
        let named = Named { span: TURN, key: name.into() };
        let Some(pieces) = pieces else {
            let sum = self.sum(named);
            sum.took.add(took);
            sum.unseen += took;
            return;
        };
        let mut causes = Causes::default();
        for (p, beside) in pieces {
            let Part { category, who } = p.part;
            // What it waited for in another thread of the target is that one's doing.
            let category = match category {
                Category::Running if p.tid != tid => Category::OtherRunning,
                category => category,
            };
            causes.add(Cause { category, who, event: 0, beside: *beside }, p.to - p.from);
        }
        let seen: u64 = causes.0.iter().map(|(_, ns)| ns).sum();
        causes.add(Cause::of(Category::Lost), took.saturating_sub(seen));
        self.add(tid, Done { named, begin, took, causes });
    }

    /// Counts one whose end was not seen.
    pub fn unfinished(&mut self, named: Named) {
        self.sum(named).unfinished += 1;
    }

    /// Most time first.
    pub fn rows(&self, names: &Names<'_>) -> Vec<SpanRow> {
        let all = self.rows.iter().map(|(named, sum)| (named.span, names.key(*named), sum));
        let others = self.others.iter().map(|(span, sum)| (*span, "all others".to_string(), sum));
        let mut rows: Vec<SpanRow> =
            all.chain(others).map(|(span, key, sum)| row(span, key, sum, names)).collect();
        rows.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| (&a.name, &a.key).cmp(&(&b.name, &b.key))));
        for row in rows.iter_mut().skip(WHOLE) {
            row.causes.truncate(BRIEF);
            row.slowest.clear();
        }
        rows
    }
}

impl SpanRow {
    /// Place of the requests that sockets alone tell of.
    pub const SOCKETS: &str = "sockets: from the first byte that came to the first that was sent";
}

fn row(span: u32, key: String, sum: &Sum, names: &Names<'_>) -> SpanRow {
    let kind = names.state.spans.iter().find(|s| s.span == span);
    let mut account: BTreeMap<Category, u64> = BTreeMap::new();
    let total = u64::try_from(sum.took.sum).unwrap_or(u64::MAX);
    let stands_for = total as f64 / total.saturating_sub(sum.unseen).max(1) as f64;
    let scaled = |ns: u64| if sum.unseen == 0 { ns } else { (ns as f64 * stands_for).round() as u64 };
    let mut causes: Vec<(Cause, (u64, u64))> =
        sum.causes.iter().map(|(c, (ns, n))| (*c, (scaled(*ns), *n))).collect();
    causes.sort_by(|(a, (ns, _)), (b, (other, _))| other.cmp(ns).then_with(|| a.cmp(b)));
    for (cause, (ns, _)) in &causes {
        *account.entry(cause.category).or_default() += ns;
    }
    causes.truncate(MOST_CAUSES);
    let tail = sum.tail().map(|(mut tail, causes)| {
        let told = causes.into_iter().take_while(|(_, slow, typical)| slow > typical).take(4);
        tail.causes = told
            .map(|(cause, slow, typical)| {
                let row = names.cause(cause, slow, 0);
                CauseRow { typical, ..row }
            })
            .collect();
        tail
    });
    let slow = sum.slow.iter().take(MOST_SLOW).map(|k| SlowSpanRow {
        at: k.begin.saturating_sub(names.begin),
        time: k.took,
        thread: k.tid,
        causes: names.causes(&k.causes),
    });
    SpanRow {
        name: match kind {
            Some(kind) => kind.name.clone(),
            None if span == TURN => "request".into(),
            None => format!("span {span}"),
        },
        key,
        place: match kind {
            Some(kind) => kind.place.clone(),
            None if span == TURN => SpanRow::SOCKETS.into(),
            None => String::new(),
        },
        count: sum.took.count,
        unfinished: sum.unfinished,
        total,
        p50: sum.took.quantile(0.5),
        p90: sum.took.quantile(0.9),
        p99: sum.took.quantile(0.99),
        p999: sum.took.quantile(0.999),
        max: sum.took.max,
        account,
        causes: causes.into_iter().map(|(c, (ns, n))| names.cause(c, ns, n)).collect(),
        tail,
        slowest: slow.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_account_tells_is_counted_once() {
        let (mut open, mut account) = (Open::default(), Account::default());
        open.begin(100, &account, Named::default(), true);
        open.waited(Cause::of(Category::Lost), 30);
        open.waited(Cause::of(Category::Timer), 50);
        account.add(Category::Lost, 30);
        account.add(Category::Running, 20);
        let (done, _) = open.end(200, &account, 0).expect("open");
        assert_eq!((done.took, done.causes.0.iter().map(|(_, ns)| ns).sum::<u64>()), (100, 100));
    }

    #[test]
    fn a_call_whose_return_was_missed_is_lost_and_its_wait_is_not() {
        let (mut open, account) = (Open::default(), Account::default());
        let named = |span| Named { span, key: 0 };
        open.begin(100, &account, named(1), true);
        open.begin(110, &account, named(2), true);
        open.waited(Cause::of(Category::Timer), 50);
        assert_eq!(open.lose_those(|span| span == 2), [named(2)]);
        assert!(open.end(170, &account, 2).is_none());
        let (done, unfinished) = open.end(200, &account, 1).expect("open");
        assert!(unfinished.is_empty());
        assert_eq!(done.causes.0.iter().map(|(_, ns)| ns).sum::<u64>(), 50);
    }
}
