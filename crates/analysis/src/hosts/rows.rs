// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests as they are counted, and as they are told.

use super::clocks::Clocks;
use super::parts::{Cause, Windows};
use super::times::{between, lengths, total, Slow, Times};
use super::turns::Turn;
use super::{
    ClockMoment, ClockRow, LeafRow, PartCause, PartRow, PeerRow, RequestRow, SlowRow, N, OF_CLIENT,
    OF_SERVER, PARTS,
};
use plumb_model::{Category, Who};
use std::collections::HashMap;
use std::net::SocketAddr;

/// Causes that are told of a part, and slow requests of a row.
const MOST_CAUSES: usize = 12;
const MOST_SLOW: usize = 5;
const MOST_LEAVES: usize = 24;
/// Of the time that is followed, what is not followed further: it would take as long as there are ways.
const LITTLE: f64 = 0.001;
/// Rows of requests that are told.
const MOST_ROWS: usize = 64;
/// Parts between the two.
const ON_THE_WAY: [usize; 2] = [1, 5];

/// Row of requests while they are counted.
pub(super) struct Row {
    client: usize,
    server: Option<usize>,
    address: SocketAddr,
    threads: (u32, u32),
    /// With the segments that were sent again.
    times: Times<N, u32>,
    width: u64,
    again: u64,
    /// Time on the way, there and back, of requests of which something was sent again, ns.
    again_time: [u64; 2],
    incomplete: u64,
    /// Of a server that was not recorded.
    peer: PeerRow,
}

/// The parts of a turn, and how far those on the way may be off, ns.
pub(super) fn split(turn: &Turn, client: usize, server: usize, clocks: &Clocks) -> Option<([u64; N], u64)> {
    let s = turn.server?;
    let theirs = [s.came, s.read, s.answered, s.done];
    let ([came, read, answered, done], width) =
        between(clocks, (client, server), theirs, (turn.sent, turn.back))?;
    let all =
        [turn.begin as i64, turn.sent as i64, came, read, answered, done, turn.back as i64, turn.end as i64];
    Some((lengths(&all), width))
}

impl Row {
    pub(super) fn new(client: usize, server: Option<usize>, address: SocketAddr, first: &Turn) -> Self {
        Self {
            client,
            server,
            address,
            threads: (first.client, first.server.map_or(0, |s| s.thread)),
            times: Times::default(),
            width: 0,
            again: 0,
            again_time: [0; 2],
            incomplete: 0,
            peer: PeerRow::default(),
        }
    }

    /// A connection to its server was opened, and answered after so long, ns.
    pub(super) fn opened(&mut self, round_trip: u64) {
        let peer = &mut self.peer;
        peer.connections += 1;
        peer.round_trip = Some(peer.round_trip.map_or(round_trip, |known| known.min(round_trip)));
    }

    pub(super) fn add(&mut self, turn: &Turn, parts: Option<([u64; N], u64)>) {
        self.again += u64::from(turn.again);
        match parts {
            Some((parts, width)) => {
                self.width = self.width.max(width);
                if turn.again > 0 {
                    let those = self.again_time.iter_mut().zip(ON_THE_WAY);
                    those.for_each(|(sum, i)| *sum = sum.saturating_add(parts[i]));
                }
            }
            None if self.server.is_some() => self.incomplete += 1,
            None => self.peer.add(turn),
        }
        let took = turn.end.saturating_sub(turn.begin);
        self.times.add(Slow { took, begin: turn.begin, parts: parts.map(|p| p.0), what: turn.again });
    }
}

impl PeerRow {
    fn add(&mut self, turn: &Turn) {
        self.sending = self.sending.saturating_add(turn.sent.saturating_sub(turn.begin));
        self.waiting = self.waiting.saturating_add(turn.back.saturating_sub(turn.sent));
        self.reading = self.reading.saturating_add(turn.end.saturating_sub(turn.back));
    }
}

pub(super) fn clock_rows(clocks: &Clocks, names: &[&str], spans: &[(u64, u64)]) -> Vec<ClockRow> {
    let mut rows = Vec::new();
    for from in 0..names.len() {
        for to in from + 1..names.len() {
            let Some(alignment) = clocks.between(from, to) else { continue };
            let (begin, end) = (spans[from].0, spans[from].1.max(spans[from].0));
            let time = |i: u64| begin + (end - begin) / 50 * i;
            let at = |i: u64| alignment.at(time(i) as i64);
            let moment = |i: u64| ClockMoment {
                at: time(i),
                ahead: at(i).middle().saturating_sub(time(i) as i64),
                width: at(i).width(),
            };
            let (slow, fast) = alignment.drift();
            let count = |a, b| clocks.matched.get(&(a, b)).copied().unwrap_or(0);
            rows.push(ClockRow {
                from: names[from].into(),
                to: names[to].into(),
                segments: count(from, to) + count(to, from),
                moments: [0, 25, 50].map(moment).into(),
                drift_ppm: f64::midpoint(slow, fast) * 1e6,
                drift_width_ppm: (fast - slow) / 2.0 * 1e6,
                width: (0..=50).map(|i| at(i).width()).max().unwrap_or(0),
                pieces: alignment.pieces(),
            });
        }
    }
    rows
}

/// What requests went to, by row and part.
type Causes = HashMap<(usize, usize), Vec<(Cause, u64)>>;

/// How rows become results.
struct Telling<'a> {
    rows: &'a [Row],
    windows: &'a [Windows],
    names: &'a [&'a str],
    spans: &'a [(u64, u64)],
    causes: Causes,
}

impl Telling<'_> {
    /// What a thread is called; empty where that is not known.
    fn name(&self, host: usize, tid: u32) -> String {
        self.windows[host].named.get(&tid).cloned().unwrap_or_default()
    }

    /// Whose time a part is: recording and thread. `None`: between two.
    fn of(&self, row: &Row, part: usize) -> Option<(usize, u32)> {
        match part {
            part if OF_CLIENT.contains(&part) => Some((row.client, row.threads.0)),
            part if OF_SERVER.contains(&part) => row.server.map(|s| (s, row.threads.1)),
            _ => None,
        }
    }

    fn who(&self, host: usize, who: Who) -> String {
        self.windows[host].who.get(&who).cloned().unwrap_or_default()
    }

    /// Follows the time of a row, `share` of it, to where it went; `within`: rows on the way here.
    fn follow(&self, n: usize, share: f64, within: &mut Vec<usize>, leaves: &mut Vec<LeafRow>) {
        let row = &self.rows[n];
        let scaled = |ns: u64| (ns as f64 * share) as u64;
        within.push(n);
        for part in 0..N {
            let time = total(&row.times.parts[part]);
            let Some((host, tid)) = self.of(row, part) else {
                let (to, back) = (part == ON_THE_WAY[0], part == ON_THE_WAY[1]);
                let again = row.again_time[usize::from(back)].min(time);
                let end = if to { row.server.unwrap_or(row.client) } else { row.client };
                for (again, time) in [(false, time - again), (true, again)] {
                    let (host, who) = (self.names[end].to_string(), row.address.to_string());
                    let (name, time) = (String::new(), scaled(time));
                    put(leaves, LeafRow { host, name, category: None, who, followed: false, again, time });
                }
                continue;
            };
            let (mut left, name) = (time, self.name(host, tid));
            let leaf = |category, who, followed, again, time| LeafRow {
                host: self.names[host].into(),
                name: name.clone(),
                category,
                who,
                followed,
                again,
                time: scaled(time),
            };
            for (cause, ns) in self.causes.get(&(n, part)).into_iter().flatten() {
                left = left.saturating_sub(*ns);
                let (category, who, followed, again) = match *cause {
                    Cause::Request(to)
                        if !within.contains(&to)
                            && self.rows[to].times.known() > 0
                            && *ns as f64 * share > LITTLE * self.rows[within[0]].times.whole() as f64 =>
                    {
                        let inner = share * *ns as f64 / self.rows[to].times.whole().max(1) as f64;
                        self.follow(to, inner, within, leaves);
                        continue;
                    }
                    Cause::Request(to) => {
                        (Some(Category::Network), self.rows[to].address.to_string(), false, false)
                    }
                    Cause::Account(category, who) => (Some(category), self.who(host, who), false, false),
                    Cause::Followed(category, who) => (Some(category), self.who(host, who), true, false),
                    Cause::Sending(again) => (None, row.address.to_string(), false, again),
                };
                put(leaves, leaf(category, who, followed, again, *ns));
            }
            // What no account tells: the thread is none of the target.
            put(leaves, leaf(Some(Category::Unexplained), String::new(), false, false, left));
        }
        within.pop();
    }

    fn parts(&self, n: usize) -> Vec<PartRow> {
        let (row, tail) = (&self.rows[n], self.rows[n].times.tail());
        let part = |i: usize| {
            let of = self.of(row, i);
            let causes = self.causes.get(&(n, i)).into_iter().flatten().take(MOST_CAUSES);
            let cause = |(cause, time): &(Cause, u64)| {
                let of_host = |who| of.map(|(host, _)| self.who(host, who)).unwrap_or_default();
                let (category, who, followed) = match *cause {
                    Cause::Account(category, who) => (Some(category), of_host(who), false),
                    Cause::Followed(category, who) => (Some(category), of_host(who), true),
                    Cause::Request(to) => (None, self.rows[to].address.to_string(), false),
                    Cause::Sending(_) => (None, String::new(), false),
                };
                PartCause { category, who, followed, time: *time }
            };
            PartRow {
                part: PARTS[i].into(),
                host: of.map(|(host, _)| self.names[host].into()),
                time: total(&row.times.parts[i]),
                p99: row.times.parts[i].quantile(0.99),
                slow: tail[i],
                causes: causes.map(cause).collect(),
            }
        };
        (0..N).map(part).collect()
    }

    fn row(&self, n: usize) -> RequestRow {
        let row = &self.rows[n];
        let known = row.times.known() > 0;
        let mut followed = Vec::new();
        if known {
            self.follow(n, 1.0, &mut Vec::new(), &mut followed);
            followed.retain(|leaf| leaf.time > 0);
            followed.sort_by_key(|leaf| std::cmp::Reverse(leaf.time));
            followed.truncate(MOST_LEAVES);
        }
        let slow = row.times.slowest(MOST_SLOW).map(|s| SlowRow {
            begin: s.begin.saturating_sub(self.spans[row.client].0),
            took: s.took,
            parts: s.parts.map(Vec::from).unwrap_or_default(),
            again: s.what,
        });
        RequestRow {
            client: self.names[row.client].into(),
            client_name: self.name(row.client, row.threads.0),
            server: row.server.map(|s| self.names[s].into()),
            server_name: row.server.map(|s| self.name(s, row.threads.1)).unwrap_or_default(),
            address: row.address,
            requests: row.times.took.count,
            time: total(&row.times.took),
            p50: row.times.took.quantile(0.5),
            p99: row.times.took.quantile(0.99),
            max: row.times.took.max,
            width: row.width,
            again: row.again,
            incomplete: row.incomplete,
            peer: row.server.is_none().then(|| row.peer.clone()),
            parts: if known { self.parts(n) } else { Vec::new() },
            followed,
            slow: slow.collect(),
        }
    }
}

/// Adds time to its like.
fn put(leaves: &mut Vec<LeafRow>, leaf: LeafRow) {
    let like = |l: &&mut LeafRow| LeafRow { time: leaf.time, ..(**l).clone() } == leaf;
    match leaves.iter_mut().find(like) {
        Some(known) => known.time = known.time.saturating_add(leaf.time),
        None => leaves.push(leaf),
    }
}

pub(super) fn request_rows(
    rows: &[Row],
    windows: &[Windows],
    names: &[&str],
    spans: &[(u64, u64)],
) -> Vec<RequestRow> {
    let mut causes: Causes = HashMap::new();
    for own in windows {
        for ((row, part, cause), time) in &own.sums {
            causes.entry((*row, *part)).or_default().push((*cause, *time));
        }
    }
    // In an order that a trace always has.
    causes
        .values_mut()
        .for_each(|those| those.sort_by_key(|(cause, time)| (std::cmp::Reverse(*time), *cause)));
    let telling = Telling { rows, windows, names, spans, causes };
    let mut told: Vec<usize> = (0..rows.len()).collect();
    told.sort_by_key(|n| (std::cmp::Reverse(rows[*n].times.took.sum), rows[*n].address));
    told.truncate(MOST_ROWS);
    told.into_iter().map(|n| telling.row(n)).collect()
}
