// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What probes in programs tell of a thread's spans. As with operations, it changes no state of a thread or CPU.

use super::Model;
use crate::account::Account;
use crate::parts::{Part, Piece, Who};
use crate::result::{SpanRow, WaitEventRow};
use crate::spans::{Cause, Named, Names};
use crate::Observer;
use plumb_trace::schema::{SpanBegin, SpanEnd, SpanWait};

/// Waits for a disk that are looked at for whom it served meanwhile, ns at least; and of how many requests.
const LONG: u64 = 300_000;
const MOST_BESIDE: usize = 256;

impl<O: Observer> Model<O> {
    /// The place of a thread that runs there, and its account up to now.
    fn account_of(&mut self, cpu: u32, ts: u64, tid: u32) -> (usize, Account) {
        let at = self.place(tid);
        self.seen_running(at, cpu, ts);
        self.charge(at, ts);
        (at, self.threads[at].account)
    }

    pub(super) fn span_begins(&mut self, cpu: u32, ts: u64, e: &SpanBegin) {
        let (at, account) = self.account_of(cpu, ts, e.tid);
        let text = self.texts.take(e.tid, e.ts);
        let key = text.map_or(e.key, u64::from);
        let nests = self.setup.state.spans.iter().any(|s| s.span == e.span && s.nests == 1);
        let open = self.threads[at].spans.get_or_insert_with(Box::default);
        open.begin(ts, &account, Named { span: e.span, key }, nests);
    }

    pub(super) fn span_ends(&mut self, cpu: u32, ts: u64, e: &SpanEnd) {
        let (at, account) = self.account_of(cpu, ts, e.tid);
        let Some(open) = &mut self.threads[at].spans else { return };
        if let Some((done, unfinished)) = open.end(ts, &account, e.span) {
            unfinished.into_iter().for_each(|named| self.spans.unfinished(named));
            self.spans.add(e.tid, done);
        }
    }

    /// What the thread says that it is about to wait for.
    pub(super) fn says(&mut self, e: &SpanWait) {
        let at = self.place(e.tid);
        self.threads[at].says = self.wait_events.number(e.program, e.number);
    }

    /// A piece of a wait of a thread of the target, during which it said `event`.
    pub(super) fn span_waited(&mut self, at: usize, p: &Piece, event: u32) {
        if self.threads[at].spans.is_none() {
            return;
        }
        let beside = self.beside(p);
        if let Some(open) = &mut self.threads[at].spans {
            let Part { category, who } = p.part;
            open.waited(Cause { category, who, event, beside }, p.to - p.from);
        }
    }

    /// Whose requests a disk served while one of the target waited long: the name of who had most of the bytes, where
    /// most were of others.
    pub(super) fn beside(&self, p: &Piece) -> Option<u32> {
        let Who::Disk(dev) = p.part.who else { return None };
        if p.request == 0 || p.to - p.from < LONG {
            return None;
        }
        let (mut ours, mut theirs) = (0u64, Vec::<(u32, u64)>::new());
        for stamp in self.blocks.before(p.request - 1).take(MOST_BESIDE).take_while(|s| s.c > p.from) {
            let owner = self.remembered(stamp.owner).filter(|_| stamp.dev == dev);
            let Some(t) = owner.map(|at| &self.threads[at]) else { continue };
            // What the kernel writes may be the target's own.
            if t.target || t.kernel {
                ours += u64::from(stamp.len);
                continue;
            }
            match theirs.iter_mut().find(|(name, _)| *name == t.name) {
                Some((_, bytes)) => *bytes += u64::from(stamp.len),
                None => theirs.push((t.name, stamp.len.into())),
            }
        }
        let all: u64 = theirs.iter().map(|(_, bytes)| bytes).sum();
        theirs.into_iter().max_by_key(|(_, bytes)| *bytes).filter(|_| all > ours).map(|(name, _)| name)
    }

    /// A whole wait during which a thread said `event`, how long until it ran again, and who ended it (0: no thread).
    /// In a call, the call is what the program counts.
    pub(super) fn said(&mut self, at: usize, event: u32, wait: &[Piece], elapsed: u64, waker: u32) {
        if event == 0 {
            return;
        }
        let elapsed = match &mut self.threads[at].call {
            Some(call) => {
                call.says = event;
                0
            }
            None => elapsed,
        };
        let ender = self.remembered(waker).filter(|w| *w != at && self.threads[*w].target);
        let ender = ender.map(|w| {
            let t = &self.threads[w];
            (t.tid, t.name, t.spans.as_ref().map(|s| s.current()).unwrap_or_default())
        });
        self.wait_events.add(event, wait, elapsed, ender);
    }

    /// Events are missing, or the thread ends: what it has open is not known, or has no end.
    pub(super) fn lose_spans(&mut self, at: usize) {
        if let Some(open) = &mut self.threads[at].spans {
            open.lose().for_each(|named| self.spans.unfinished(named));
        }
    }

    /// The thread returns to its program: functions of the kernel whose return was missed have ended too.
    pub(super) fn leave_kernel(&mut self, at: usize) {
        let Some(open) = &mut self.threads[at].spans else { return };
        let kinds = &self.setup.state.spans;
        let call = |span| kinds.iter().any(|s| s.span == span && s.nests == 1 && s.of_kernel());
        open.lose_those(call).into_iter().for_each(|named| self.spans.unfinished(named));
    }

    /// Spans, and what programs said that they wait for.
    pub(super) fn span_rows(&self, disk: &dyn Fn(u32) -> String) -> (Vec<SpanRow>, Vec<WaitEventRow>) {
        let state = &self.setup.state;
        let who = |who: Who| match who {
            Who::Nobody => String::new(),
            Who::Name(n) => self.names.name(n).to_string(),
            Who::Disk(dev) => disk(dev),
        };
        let event = |n: u32| self.wait_events.name(n, state);
        let names = Names { state, who: &who, event: &event, begin: self.setup.begin };
        let thread = |n: u32| self.names.name(n).to_string();
        (self.spans.rows(&names), self.wait_events.rows(&names, &thread))
    }
}
