// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What probes in programs tell of a thread's spans. As with operations, it changes no state of a thread or CPU.

use super::Model;
use crate::account::Account;
use crate::parts::{Part, Piece, Who};
use crate::result::{SpanRow, WaitEventRow};
use crate::spans::{Cause, Named, Names};
use crate::Observer;
use plumb_trace::schema::{SpanBegin, SpanEnd, SpanWait};

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
    pub(super) fn span_waited(&mut self, at: usize, part: Part, event: u32, ns: u64) {
        if let Some(open) = &mut self.threads[at].spans {
            open.waited(Cause { category: part.category, who: part.who, event }, ns);
        }
    }

    /// A whole wait during which a thread said `event`, how long until it ran again, and who ended it (0: no thread).
    pub(super) fn said(&mut self, at: usize, event: u32, wait: &[Piece], elapsed: u64, waker: u32) {
        if event == 0 {
            return;
        }
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
