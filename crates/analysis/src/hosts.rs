// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several recordings as one: a clock for all of them, and requests that are followed from host to host.
//!
//! Each recording is read twice: for its TCP segments, from which the clocks and the requests come, and for what its
//! threads did meanwhile. A single recording is a set of one: services on one machine, in containers or not.

mod clock;
mod clocks;
mod parts;
mod segments;
mod turns;

use crate::{setup, Analysis, Pass};
use anyhow::{Context, Result};
use clocks::Clocks;
use parts::{Cause, Window, Windows};
use plumb_model::{Category, Histogram, Who};
use plumb_trace::reader::{Item, Trace};
use segments::Seen;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use turns::{Places, Turn};

pub use clock::{Alignment, Bounds, Point};

/// The parts of a request's time, in their order.
pub const PARTS: [&str; 7] = [
    "sending the request",
    "the request on its way",
    "until the request is read",
    "from reading the request to the answer",
    "sending the answer",
    "the answer on its way",
    "until the answer is read",
];
const N: usize = PARTS.len();
/// Parts of the client, and of the server; the others are between them.
const OF_CLIENT: [usize; 2] = [0, 6];
const OF_SERVER: [usize; 3] = [2, 3, 4];
const ON_THE_WAY: [usize; 2] = [1, 5];
/// The part in which a server works.
const WORK: usize = 3;
/// Causes that are told of a part, and slow requests of a row.
const MOST_CAUSES: usize = 12;
const MOST_SLOW: usize = 5;
const MOST_LEAVES: usize = 24;
/// Rows of requests that are told.
const MOST_ROWS: usize = 64;

/// What is known of the recordings of several hosts together.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Hosts {
    /// How the clocks of each two that talked to each other stand.
    pub clocks: Vec<ClockRow>,
    /// Requests, by who sent them and to which address, most time first.
    pub requests: Vec<RequestRow>,
    /// TCP segments that were looked at.
    pub segments: u64,
}

/// The clock of one recording as another sees it.
#[derive(Debug, Serialize, Deserialize)]
pub struct ClockRow {
    /// Recording.
    pub from: String,
    /// The one whose clock is told.
    pub to: String,
    /// Segments that were matched, both ways.
    pub segments: u64,
    /// At the begin, the middle and the end of `from`.
    pub moments: Vec<ClockMoment>,
    /// How much faster it runs, parts per million.
    pub drift_ppm: f64,
    /// How far `drift_ppm` may be off.
    pub drift_width_ppm: f64,
    /// How far a time of one on the clock of the other may be off in the worst of the recording, ns.
    pub width: u64,
    /// Straight lines that it took: more than one in 10 s where a clock was set or slewed.
    pub pieces: usize,
}

/// How two clocks stand to each other at a moment.
#[derive(Debug, Serialize, Deserialize)]
pub struct ClockMoment {
    /// When, on the clock of `from`, ns.
    pub at: u64,
    /// How far the clock of `to` is ahead, ns.
    pub ahead: i64,
    /// How far `ahead` may be off, ns.
    pub width: u64,
}

/// Requests from one host to one address.
#[derive(Debug, Serialize, Deserialize)]
pub struct RequestRow {
    /// Recording of the client.
    pub client: String,
    /// Who sent them: the name of the thread of the first.
    pub client_name: String,
    /// Recording of the server; `None` where it was not recorded.
    pub server: Option<String>,
    /// Who answered.
    pub server_name: String,
    /// Where to.
    pub address: SocketAddr,
    /// How many.
    pub requests: u64,
    /// From the first byte that was sent until the answer was read, all together, ns.
    pub time: u64,
    /// Half of them took no longer, ns.
    pub p50: u64,
    /// 99 % of them took no longer, ns.
    pub p99: u64,
    /// The longest, ns.
    pub max: u64,
    /// How far a part on the way may be off, ns: that of the other direction is off by as much the other way.
    pub width: u64,
    /// Segments that were sent again.
    pub again: u64,
    /// Requests of which the server's part is not known though it was recorded; they are in no part.
    pub incomplete: u64,
    /// Where the time went; empty where the server was not recorded.
    pub parts: Vec<PartRow>,
    /// The same with requests of the server followed to where their time went, most first.
    pub followed: Vec<LeafRow>,
    /// The slowest, slowest first.
    pub slow: Vec<SlowRow>,
}

/// One part of the requests' time.
#[derive(Debug, Serialize, Deserialize)]
pub struct PartRow {
    /// Which, see [`PARTS`].
    pub part: String,
    /// Recording on whose host it passes; `None` between them.
    pub host: Option<String>,
    /// All together, ns.
    pub time: u64,
    /// 99 % of the requests had no more, ns.
    pub p99: u64,
    /// Mean of the slowest percent, ns.
    pub slow: u64,
    /// What it went to, most first.
    pub causes: Vec<PartCause>,
}

/// What a part of the time went to.
#[derive(Debug, Serialize, Deserialize)]
pub struct PartCause {
    /// As in the account; `None`: requests of its own.
    pub category: Option<Category>,
    /// Thread's name or disk; of requests the address that they were sent to.
    pub who: String,
    /// ns.
    pub time: u64,
}

/// What the time of requests went to in the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeafRow {
    /// Recording on whose host that was; of the way between two the one where it ends.
    pub host: String,
    /// Name of the thread whose time it was; of the way between two empty.
    pub name: String,
    /// As in the account; `None`: on its way.
    pub category: Option<Category>,
    /// Thread's name or disk that had it; of what was on its way the address of the server.
    pub who: String,
    /// On its way while segments were sent again.
    pub again: bool,
    /// ns.
    pub time: u64,
}

/// A slow request.
#[derive(Debug, Serialize, Deserialize)]
pub struct SlowRow {
    /// When it began, since the begin of the client's recording, ns.
    pub begin: u64,
    /// How long it took, ns.
    pub took: u64,
    /// Time of each of [`PARTS`], ns; empty where the server's part is not known.
    pub parts: Vec<u64>,
    /// Segments that were sent again.
    pub again: u32,
}

/// Whether a recording has what this needs.
pub fn has_segments(trace: &Trace) -> bool {
    setup::has_event(&trace.metadata.env, "tcp_segment_in")
}

/// One recording of a set.
#[derive(Debug)]
pub struct Recording<'a> {
    /// What it is called.
    pub name: String,
    pub trace: &'a Trace,
}

/// Row of requests while they are counted.
struct Row {
    client: usize,
    server: Option<usize>,
    address: SocketAddr,
    threads: (u32, u32),
    took: Histogram,
    parts: [Histogram; N],
    slow: Vec<(u64, Option<[u64; N]>, u64, u32)>,
    width: u64,
    again: u64,
    /// Time on the way, there and back, of requests of which something was sent again, ns.
    again_time: [u64; 2],
    incomplete: u64,
}

/// Moments in their order, though the clocks of two hosts say otherwise within their width.
fn ordered<const M: usize>(mut times: [i64; M], begin: i64, end: i64) -> [i64; M] {
    let mut least = begin;
    for t in &mut times {
        *t = (*t).clamp(least, end.max(least));
        least = *t;
    }
    times
}

/// The parts of a turn, and how far those on the way may be off, ns.
fn split(turn: &Turn, client: usize, server: usize, clocks: &Clocks) -> Option<([u64; N], u64)> {
    let s = turn.server?;
    let on = |t| clocks.convert(server, client, t);
    let (came, done) = (on(s.came)?, on(s.done)?);
    let width = came.width().max(done.width());
    // Its length is the server's own; where it lies is not known better than the width.
    let length = (s.done - s.came) as i64;
    let middle = i64::midpoint(came.middle(), done.middle() - length);
    let (first, last) = (turn.sent as i64, turn.back as i64);
    let at = middle.min(last - length).max(first);
    let from = |t: u64| at + (t - s.came) as i64;
    let [came, read, answered, done] =
        ordered([from(s.came), from(s.read), from(s.answered), from(s.done)], first, last);
    let all = [turn.begin as i64, first, came, read, answered, done, last, turn.end as i64];
    let mut parts = [0; N];
    for (part, pair) in parts.iter_mut().zip(all.windows(2)) {
        *part = (pair[1] - pair[0]).max(0) as u64;
    }
    Some((parts, width))
}

impl Row {
    fn add(&mut self, turn: &Turn, parts: Option<([u64; N], u64)>) {
        let took = turn.end.saturating_sub(turn.begin);
        self.took.add(took);
        self.again += u64::from(turn.again);
        match parts {
            Some((parts, width)) => {
                self.width = self.width.max(width);
                self.parts.iter_mut().zip(parts).for_each(|(sum, ns)| sum.add(ns));
                if turn.again > 0 {
                    self.again_time.iter_mut().zip(ON_THE_WAY).for_each(|(sum, i)| *sum += parts[i]);
                }
            }
            None => self.incomplete += u64::from(self.server.is_some()),
        }
        // A percent of them, of which the mean of each part is told.
        self.slow.push((took, parts.map(|p| p.0), turn.begin, turn.again));
        if self.slow.len() >= 1_024 && self.slow.len() as u64 * 25 > self.took.count {
            self.slow.sort_unstable_by_key(|s| std::cmp::Reverse(s.0));
            self.slow.truncate((self.took.count as usize / 50).max(512));
        }
    }
}

/// All recordings together, and each by itself, in their order, of the processes of some names where those are given.
/// One of which no account can be made is an error of its own.
///
/// # Errors
/// A stream cannot be opened.
pub fn read(recordings: &[Recording<'_>], comms: &[String]) -> Result<(Vec<Result<Analysis>>, Hosts)> {
    let mut seen = Vec::new();
    for r in recordings {
        let mut own = Seen::default();
        if has_segments(r.trace) {
            let fed = r.trace.for_each(|item| {
                if let Item::Record(record) = item {
                    own.record(&record);
                }
            });
            fed.with_context(|| r.name.clone())?;
        }
        seen.push(own);
    }
    let spans: Vec<(u64, u64)> = recordings.iter().map(|r| setup::span(r.trace)).collect();
    let listening = listening(recordings);
    let numbers: HashSet<u64> = seen.iter().flat_map(|s| s.flows.keys().copied()).collect();
    let place = |flow: u64| Some((flow, turns::places(&seen, flow, &|port| listening.contains(&port))?));
    // In an order that a trace always has.
    let flows: BTreeMap<u64, Places> = numbers.into_iter().filter_map(place).collect();
    let clocks = Clocks::of(&seen, flows.iter());
    let (mut rows, mut windows) = (Vec::new(), Vec::new());
    windows.resize_with(recordings.len(), Windows::default);
    let mut turns = Vec::new();
    let mut numbers: HashMap<(usize, Option<usize>, SocketAddr), usize> = HashMap::new();
    for (flow, places) in &flows {
        let (Some(client), Some(address)) = (places.client, turns::server_address(&seen, *flow, *places))
        else {
            continue;
        };
        turns.clear();
        turns::of_flow(&seen, *flow, *places, &mut turns);
        // What is recorded before all programs are attached, or behind the end, is in no account.
        let accounted = |host: Option<usize>, from: u64, to: u64| {
            host.is_none_or(|h| spans[h].0 <= from && to <= spans[h].1)
        };
        turns.retain(|t| {
            let there = t.server.is_none_or(|s| accounted(places.server, s.came, s.done));
            accounted(places.client, t.begin, t.end) && there
        });
        if turns.is_empty() {
            continue;
        }
        let row = *numbers.entry((client, places.server, address)).or_insert_with(|| {
            rows.push(Row::new(client, places.server, address, &turns[0]));
            rows.len() - 1
        });
        for turn in &turns {
            let parts = places.server.and_then(|server| split(turn, client, server, &clocks));
            rows[row].add(turn, parts);
            if parts.is_some() {
                place_windows(&mut windows, row, turn, *places);
            }
        }
    }
    let segments = seen.iter().map(|s| s.segments).sum();
    drop(seen);
    let mut analyses = Vec::new();
    for (r, own) in recordings.iter().zip(&mut windows) {
        own.threads.values_mut().for_each(parts::Thread::sort);
        analyses.push(match Pass::over(r.trace).only(comms).read(std::mem::take(own)) {
            Ok((analysis, read)) => {
                *own = read;
                Ok(analysis)
            }
            Err(e) => Err(e),
        });
    }
    let names: Vec<&str> = recordings.iter().map(|r| r.name.as_str()).collect();
    let moment = |of: fn(&Analysis) -> u64| analyses.iter().map(|a| a.as_ref().map_or(0, of)).collect();
    let (begins, ends): (Vec<u64>, Vec<u64>) = (moment(|a| a.result.begin), moment(|a| a.result.end));
    let hosts = Hosts {
        clocks: clock_rows(&clocks, &names, &begins, &ends),
        requests: request_rows(&rows, &windows, &names, &begins),
        segments,
    };
    Ok((analyses, hosts))
}

/// Ports on which somebody listened when a recording began.
fn listening(recordings: &[Recording<'_>]) -> HashSet<u16> {
    let sockets = recordings.iter().flat_map(|r| &r.trace.state.sockets);
    sockets.filter(|s| s.side == 3).filter_map(|s| s.peer.rsplit(':').next()?.parse().ok()).collect()
}

/// Where the threads of a turn are looked at.
fn place_windows(windows: &mut [Windows], row: usize, turn: &Turn, places: Places) {
    let (Some(client), Some(server), Some(s)) = (places.client, places.server, turn.server) else { return };
    let mut put = |host: usize, tid: u32, from: u64, to: u64, part: usize| {
        if to > from {
            let thread = windows[host].threads.entry(tid).or_default();
            thread.windows.push(Window { from, to, row, part, works: part == WORK });
        }
    };
    put(client, turn.client, turn.begin, turn.sent, OF_CLIENT[0]);
    put(client, turn.client, turn.back, turn.end, OF_CLIENT[1]);
    put(server, s.thread, s.came, s.read, OF_SERVER[0]);
    put(server, s.thread, s.read, s.answered, OF_SERVER[1]);
    put(server, s.thread, s.answered, s.done, OF_SERVER[2]);
    let waiting = windows[client].threads.entry(turn.client).or_default();
    if turn.back > turn.sent {
        waiting.waits.push((turn.sent, turn.back, row));
    }
    windows[server].threads.entry(s.thread).or_default();
}

fn clock_rows(clocks: &Clocks, names: &[&str], begins: &[u64], ends: &[u64]) -> Vec<ClockRow> {
    let mut rows = Vec::new();
    for from in 0..names.len() {
        for to in from + 1..names.len() {
            let Some(alignment) = clocks.between(from, to) else { continue };
            let (begin, end) = (begins[from], ends[from].max(begins[from]));
            let time = |i: u64| begin + (end - begin) / 50 * i;
            let at = |i: u64| alignment.at(time(i) as i64);
            let moment = |i: u64| ClockMoment {
                at: time(i),
                ahead: at(i).middle() - time(i) as i64,
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

impl Row {
    fn new(client: usize, server: Option<usize>, address: SocketAddr, first: &Turn) -> Self {
        Self {
            client,
            server,
            address,
            threads: (first.client, first.server.map_or(0, |s| s.thread)),
            took: Histogram::default(),
            parts: Default::default(),
            slow: Vec::new(),
            width: 0,
            again: 0,
            again_time: [0; 2],
            incomplete: 0,
        }
    }

    /// Mean of each part in the slowest percent, ns.
    fn tail(&self) -> [u64; N] {
        let limit = self.took.quantile(0.99);
        let mut sums = [0u128; N];
        let mut count = 0;
        for parts in self.slow.iter().filter(|s| s.0 >= limit).filter_map(|s| s.1) {
            count += 1;
            sums.iter_mut().zip(parts).for_each(|(sum, ns)| *sum += u128::from(ns));
        }
        sums.map(|sum| (sum / count.max(1)) as u64)
    }
}

/// What requests went to, by row and part.
type Causes = HashMap<(usize, usize), Vec<(Cause, u64)>>;

/// How rows become results.
struct Telling<'a> {
    rows: &'a [Row],
    windows: &'a [Windows],
    names: &'a [&'a str],
    begins: &'a [u64],
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
            let time = row.parts[part].sum as u64;
            let Some((host, tid)) = self.of(row, part) else {
                let (to, back) = (part == ON_THE_WAY[0], part == ON_THE_WAY[1]);
                let again = row.again_time[usize::from(back)].min(time);
                let end = if to { row.server.unwrap_or(row.client) } else { row.client };
                for (again, time) in [(false, time - again), (true, again)] {
                    let who = row.address.to_string();
                    let host = self.names[end].to_string();
                    let leaf =
                        LeafRow { host, name: String::new(), category: None, who, again, time: scaled(time) };
                    put(leaves, leaf);
                }
                continue;
            };
            let (mut left, name) = (time, self.name(host, tid));
            let leaf = |category, who, time| LeafRow {
                host: self.names[host].into(),
                name: name.clone(),
                category: Some(category),
                who,
                again: false,
                time: scaled(time),
            };
            for (cause, ns) in self.causes.get(&(n, part)).into_iter().flatten() {
                left = left.saturating_sub(*ns);
                match cause {
                    Cause::Request(to) if !within.contains(to) && self.rows[*to].parts[WORK].count > 0 => {
                        let whole: u64 = self.rows[*to].parts.iter().map(|p| p.sum as u64).sum();
                        self.follow(*to, share * *ns as f64 / whole.max(1) as f64, within, leaves);
                    }
                    Cause::Request(to) => {
                        put(leaves, leaf(Category::Network, self.rows[*to].address.to_string(), *ns))
                    }
                    Cause::Account(category, who) => put(leaves, leaf(*category, self.who(host, *who), *ns)),
                }
            }
            // What no account tells: the thread is none of the target.
            put(leaves, leaf(Category::Unexplained, String::new(), left));
        }
        within.pop();
    }

    fn parts(&self, n: usize) -> Vec<PartRow> {
        let (row, tail) = (&self.rows[n], self.rows[n].tail());
        let part = |i: usize| {
            let of = self.of(row, i);
            let causes = self.causes.get(&(n, i)).into_iter().flatten().take(MOST_CAUSES);
            let cause = |(cause, time): &(Cause, u64)| {
                let (category, who) = match cause {
                    Cause::Account(category, who) => {
                        (Some(*category), of.map(|(host, _)| self.who(host, *who)))
                    }
                    Cause::Request(to) => (None, Some(self.rows[*to].address.to_string())),
                };
                PartCause { category, who: who.unwrap_or_default(), time: *time }
            };
            PartRow {
                part: PARTS[i].into(),
                host: of.map(|(host, _)| self.names[host].into()),
                time: row.parts[i].sum as u64,
                p99: row.parts[i].quantile(0.99),
                slow: tail[i],
                causes: causes.map(cause).collect(),
            }
        };
        (0..N).map(part).collect()
    }

    fn row(&self, n: usize) -> RequestRow {
        let row = &self.rows[n];
        let known = row.parts[WORK].count > 0;
        let mut followed = Vec::new();
        if known {
            self.follow(n, 1.0, &mut Vec::new(), &mut followed);
            followed.retain(|leaf| leaf.time > 0);
            followed.sort_by_key(|leaf| std::cmp::Reverse(leaf.time));
            followed.truncate(MOST_LEAVES);
        }
        let mut slow: Vec<_> = row.slow.iter().collect();
        slow.sort_by_key(|s| (std::cmp::Reverse(s.0), s.2));
        let slow = slow.into_iter().take(MOST_SLOW).map(|(took, parts, begin, again)| SlowRow {
            begin: begin.saturating_sub(self.begins[row.client]),
            took: *took,
            parts: parts.map(Vec::from).unwrap_or_default(),
            again: *again,
        });
        RequestRow {
            client: self.names[row.client].into(),
            client_name: self.name(row.client, row.threads.0),
            server: row.server.map(|s| self.names[s].into()),
            server_name: row.server.map(|s| self.name(s, row.threads.1)).unwrap_or_default(),
            address: row.address,
            requests: row.took.count,
            time: row.took.sum as u64,
            p50: row.took.quantile(0.5),
            p99: row.took.quantile(0.99),
            max: row.took.max,
            width: row.width,
            again: row.again,
            incomplete: row.incomplete,
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
        Some(known) => known.time += leaf.time,
        None => leaves.push(leaf),
    }
}

fn request_rows(rows: &[Row], windows: &[Windows], names: &[&str], begins: &[u64]) -> Vec<RequestRow> {
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
    let telling = Telling { rows, windows, names, begins, causes };
    let mut out: Vec<RequestRow> = (0..rows.len()).map(|n| telling.row(n)).collect();
    out.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.address.cmp(&b.address)));
    out.truncate(MOST_ROWS);
    out
}
