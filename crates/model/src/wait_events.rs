// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What programs say that their threads wait for: PostgreSQL's wait events. Who ended the waits is the kernel's word.

use crate::account::Account;
use crate::parts::Piece;
use crate::result::{EndedByRow, WaitEventRow};
use crate::spans::{Named, Names};
use plumb_trace::reader::State as TraceState;
use plumb_trace::schema::StateWaitEvent;
use rustc_hash::FxHashMap;

/// Threads and their spans that are told apart as those who ended the waits of one event.
const MOST_ENDERS: usize = 256;
/// Of these, those that are told.
const TOLD: usize = 3;

/// Who ended a wait: thread, its name's number, and the span that it was in or that it ended last.
pub type Ender = (u32, u32, Named);

#[derive(Debug, Default)]
struct Sum {
    waits: u64,
    time: u64,
    max: u64,
    elapsed: u64,
    account: Account,
    enders: FxHashMap<Ender, u64>,
}

/// The events that were seen, numbered from 1 on.
#[derive(Debug, Default)]
pub struct WaitEvents {
    numbers: FxHashMap<(u32, u32), u32>,
    seen: Vec<((u32, u32), Sum)>,
}

impl WaitEvents {
    /// Number of a program's event.
    pub fn number(&mut self, program: u32, event: u32) -> u32 {
        let next = self.seen.len() as u32 + 1;
        let number = *self.numbers.entry((program, event)).or_insert(next);
        if number == next {
            self.seen.push(((program, event), Sum::default()));
        }
        number
    }

    /// Forgets what was counted.
    pub fn count_from_here(&mut self) {
        self.seen.iter_mut().for_each(|(_, sum)| *sum = Sum::default());
    }

    /// A wait by its pieces, `elapsed` ns by the program's clock, ended by a thread of the target where one did.
    pub fn add(&mut self, number: u32, wait: &[Piece], elapsed: u64, ender: Option<Ender>) {
        let Some((_, sum)) = (number as usize).checked_sub(1).and_then(|n| self.seen.get_mut(n)) else {
            return;
        };
        let ns = wait.iter().map(|p| p.to - p.from).sum();
        wait.iter().for_each(|p| sum.account.add(p.part.category, p.to - p.from));
        sum.waits += 1;
        sum.elapsed += elapsed;
        sum.time += ns;
        sum.max = sum.max.max(ns);
        if let Some(ender) = ender {
            if sum.enders.len() < MOST_ENDERS || sum.enders.contains_key(&ender) {
                *sum.enders.entry(ender).or_default() += ns;
            }
        }
    }

    /// A wait's time by the program's own clock, ns: it says so before the call in which it waits, and takes it back
    /// behind that.
    pub fn elapse(&mut self, number: u32, ns: u64) {
        if let Some((_, sum)) = (number as usize).checked_sub(1).and_then(|n| self.seen.get_mut(n)) {
            sum.elapsed += ns;
        }
    }

    /// Class and name of an event; empty of none.
    pub fn name(&self, number: u32, state: &TraceState) -> String {
        let Some(((program, event), _)) = (number as usize).checked_sub(1).and_then(|n| self.seen.get(n))
        else {
            return String::new();
        };
        let find = |event: u32| state.wait_events.iter().find(|e| (e.program, e.number) == (*program, event));
        let known = find(*event).or_else(|| find(*event | StateWaitEvent::ANY));
        known.map_or_else(|| format!("event {event:#010x}"), |e| e.name.clone())
    }

    /// Most time first.
    pub fn rows(&self, names: &Names<'_>, thread: &dyn Fn(u32) -> String) -> Vec<WaitEventRow> {
        let mut rows: Vec<WaitEventRow> = (1..)
            .zip(&self.seen)
            .filter(|(_, (_, sum))| sum.waits > 0)
            .map(|(number, (_, sum))| {
                let mut enders: Vec<EndedByRow> = sum
                    .enders
                    .iter()
                    .map(|((tid, name, named), time)| EndedByRow {
                        thread: *tid,
                        comm: thread(*name),
                        span: names.key(*named),
                        time: *time,
                    })
                    .collect();
                enders.sort_by(|a, b| {
                    b.time.cmp(&a.time).then_with(|| (a.thread, &a.span).cmp(&(b.thread, &b.span)))
                });
                enders.truncate(TOLD);
                WaitEventRow {
                    name: (names.event)(number),
                    waits: sum.waits,
                    time: sum.time,
                    max: sum.max,
                    elapsed: sum.elapsed,
                    account: sum.account.parts(),
                    ended_by: enders,
                }
            })
            .collect();
        rows.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.name.cmp(&b.name)));
        rows
    }
}
