// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several recordings as one: a clock for all of them, and requests that are followed from host to host.
//!
//! Each recording is read twice: for its TCP segments, from which the clocks and the requests come, and for what its
//! threads did meanwhile. A single recording is a set of one: services on one machine, in containers or not.

mod clock;
mod clocks;
mod command_rows;
mod commands;
mod parts;
mod rows;
mod segments;
mod set;
mod times;
mod turns;

use crate::{setup, Analysis, Pass};
use anyhow::Result;
use clocks::Clocks;
use command_rows::{command_rows, Connection};
use commands::Requests;
use parts::{Window, Windows};
use plumb_model::Category;
use plumb_trace::reader::{Item, State, Trace};
use plumb_trace::schema::StateTimex;
use rows::{clock_rows, request_rows, split, Row};
use segments::Seen;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use turns::{Places, Turn};

pub use set::{alone, Member, Set};

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
/// The part in which a server works.
const WORK: usize = 3;
/// The one in which its answer leaves it.
const ANSWERING: usize = 4;

/// What is known of the recordings of several hosts together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Hosts {
    /// How the clocks of each two that talked to each other stand.
    pub clocks: Vec<ClockRow>,
    /// How each recording's own clock was steered.
    pub steering: Vec<SteeringRow>,
    /// Requests, by who sent them and to which address, most time first.
    pub requests: Vec<RequestRow>,
    /// Commands of storage protocols, most time first.
    pub commands: Vec<CommandRow>,
    /// TCP segments that were looked at.
    pub segments: u64,
}

/// The clock of one recording as another sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// How the clock of a recording's host was steered, by NTP or PTP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SteeringRow {
    /// Recording.
    pub host: String,
    /// Somebody steered it.
    pub steered: bool,
    /// By how much its rate was corrected at the begin, parts per million.
    pub rate_ppm: f64,
    /// The most that was still to be slewed, ns: meanwhile the rate is another, whatever `rate_ppm` is.
    pub slewed_ns: u64,
    /// The most that it was corrected by otherwise later, parts per million: no line fits where that is large.
    pub changed_ppm: f64,
    /// How far the time may have been off at the begin by who steered it, us.
    pub max_error_us: u64,
}

/// How two clocks stand to each other at a moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClockMoment {
    /// When, on the clock of `from`, ns.
    pub at: u64,
    /// How far the clock of `to` is ahead, ns.
    pub ahead: i64,
    /// How far `ahead` may be off, ns.
    pub width: u64,
}

/// The parts of a storage command's time, in their order.
pub const COMMAND_PARTS: [&str; 12] = [
    "block layer, until the request is issued",
    "driver and TCP, until the command is sent",
    "command in the queue of the network device",
    "command on its way",
    "data to write, until they have come",
    "target, until its device has the request",
    "device service time (D2C)",
    "target, until TCP sends the answer",
    "answer in the queue of the network device",
    "answer, until its last byte is sent",
    "answer on its way",
    "driver, until the request is complete",
];

/// Commands of one kind from an initiator's device to a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandRow {
    /// Recording of the initiator.
    pub client: String,
    /// Its block device; `None` where no request of one was found for the commands.
    pub device: Option<String>,
    /// Recording of the target; `None` where it was not recorded.
    pub server: Option<String>,
    /// The target's block device; `None` where no request of one was found.
    pub server_device: Option<String>,
    /// The target's address.
    pub address: SocketAddr,
    /// `iSCSI`, `NVMe/TCP`, `NBD`, `NFS`.
    pub protocol: String,
    /// `read`, `write`, `flush`, `other`.
    pub kind: String,
    /// How many.
    pub commands: u64,
    /// Of data, all together.
    pub bytes: u64,
    /// From the block layer's queue until each was complete, all together, ns.
    pub time: u64,
    /// Half of them took no longer, ns.
    pub p50: u64,
    /// 99 % of them took no longer, ns.
    pub p99: u64,
    /// The longest, ns.
    pub max: u64,
    /// How far a part on the way may be off, ns: that of the other direction is off by as much the other way.
    pub width: u64,
    /// Commands during which segments of their connection were retransmitted.
    pub again: u64,
    /// Commands that the target answered with an error; of NFS that is not known.
    pub failed: u64,
    /// Commands of which a part is not known though both sides were recorded; they are in no part.
    pub incomplete: u64,
    /// Commands of which no response was seen; they are not among `commands`.
    pub unanswered: u64,
    /// Commands that are in all parts.
    pub complete: u64,
    /// Commands for which the target's device had a request; the others it answered from memory.
    pub on_device: u64,
    /// Where the time went; empty where the target was not recorded.
    pub parts: Vec<CommandPart>,
    /// The slowest, slowest first.
    pub slow: Vec<SlowCommand>,
}

/// One part of the commands' time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandPart {
    /// Which, see [`COMMAND_PARTS`].
    pub part: String,
    /// Recording on whose host it passes; `None` between them.
    pub host: Option<String>,
    /// All together, ns.
    pub time: u64,
    /// Half of the commands had no more, ns.
    pub p50: u64,
    /// 99 % of the commands had no more, ns.
    pub p99: u64,
    /// Mean of the slowest percent, ns.
    pub slow: u64,
}

/// A slow command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlowCommand {
    /// When it was queued, since the begin of the initiator's recording, ns.
    pub begin: u64,
    /// How long it took, ns.
    pub took: u64,
    /// Where on the device, bytes.
    pub place: u64,
    /// Of data.
    pub bytes: u32,
    /// Time of each of [`COMMAND_PARTS`], ns; empty where the target's part is not known.
    pub parts: Vec<u64>,
    /// Segments of its connection that were retransmitted meanwhile.
    pub again: u32,
}

/// Requests from one host to one address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// What the client's side tells of a server that was not recorded.
    pub peer: Option<PeerRow>,
    /// Where the time went; empty where the server was not recorded.
    pub parts: Vec<PartRow>,
    /// The same with requests of the server followed to where their time went, most first.
    pub followed: Vec<LeafRow>,
    /// The slowest, slowest first.
    pub slow: Vec<SlowRow>,
}

/// The time of requests to a server that was not recorded. The three add up to it.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerRow {
    /// Until their last bytes went to the network driver, all together, ns.
    pub sending: u64,
    /// From then until the last bytes of the answers came: the network and the server, ns.
    pub waiting: u64,
    /// From then until the answers were read, ns.
    pub reading: u64,
    /// The shortest answer to a SYN, ns: what of `waiting` the network takes of each request at least, without queues.
    /// `None` where no connection was opened meanwhile.
    pub round_trip: Option<u64>,
    /// Connections that were opened, and answered.
    pub connections: u64,
}

/// One part of the requests' time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartCause {
    /// As in the account; `None`: requests of its own, or what is being sent.
    pub category: Option<Category>,
    /// Thread's name or disk; of requests the address that they were sent to; empty of what is being sent.
    pub who: String,
    /// Of a thread that it waited for.
    pub followed: bool,
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
    /// As in the account; `None`: on its way, or being sent.
    pub category: Option<Category>,
    /// Thread's name or disk that had it; of what was on its way or sent the address of the server.
    pub who: String,
    /// Of a thread that it waited for.
    pub followed: bool,
    /// On its way, or being sent, of requests of which segments were sent again.
    pub again: bool,
    /// ns.
    pub time: u64,
}

/// A slow request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// The event that this needs.
pub const SEGMENT: &str = "tcp_segment_in";

/// Whether a recording has what this needs.
pub fn has_segments(trace: &Trace) -> bool {
    setup::has_event(&trace.metadata.env, SEGMENT)
}

/// One recording of a set.
#[derive(Debug)]
pub struct Recording<'a> {
    /// What it is called.
    pub name: String,
    pub trace: &'a Trace,
}

/// All recordings together, and each by itself, in their order, of the processes of some names where those are given.
/// One that cannot be read is an error of its own.
pub fn read(recordings: &[Recording<'_>], comms: &[String]) -> (Vec<Result<Analysis>>, Hosts) {
    let mut seen = Vec::new();
    for r in recordings {
        let mut own = Seen::default();
        if has_segments(r.trace) {
            // One that cannot be read says so in the second pass.
            let _ = r.trace.for_each(|item| match item {
                Item::Record(record) => own.record(&record),
                Item::Gap(gap) => own.gaps.push((gap.begin, gap.end)),
                _ => {}
            });
            own.gaps.sort_unstable();
        }
        seen.push(own);
    }
    let span = |(r, own): (&Recording<'_>, &Seen)| {
        let (begin, end) = setup::span(r.trace);
        // One that was cut off ends with its last segment.
        (begin, if end == u64::MAX { own.last.max(begin) } else { end })
    };
    let spans: Vec<(u64, u64)> = recordings.iter().zip(&seen).map(span).collect();
    let listening = listening(recordings);
    let numbers: HashSet<u64> = seen.iter().flat_map(|s| s.flows.keys().copied()).collect();
    let place = |flow: u64| Some((flow, turns::places(&seen, flow, &|port| listening.contains(&port))?));
    // In an order that a trace always has.
    let flows: BTreeMap<u64, Places> = numbers.into_iter().filter_map(place).collect();
    let clocks = Clocks::of(&seen, flows.iter());
    let (mut rows, mut windows) = (Vec::new(), Vec::new());
    windows.resize_with(recordings.len(), Windows::default);
    let mut turns = Vec::new();
    // Rows by client and its name: two programs that ask one server have their own.
    let mut numbers: HashMap<(usize, &str, Option<usize>, SocketAddr), usize> = HashMap::new();
    let threads: Vec<HashMap<u32, &str>> = recordings
        .iter()
        .map(|r| r.trace.state.tasks.iter().map(|t| (t.tid, t.comm.as_str())).collect())
        .collect();
    let mut connections = Vec::new();
    // What is recorded before all programs are attached, or behind the end, is in no account.
    // Where events are missing in it, the requests of a while look like one.
    let accounted = |host: Option<usize>, from: u64, to: u64| {
        let lost = |h: usize| {
            let gaps = &seen[h].gaps;
            gaps.get(gaps.partition_point(|gap| gap.1 <= from)).is_some_and(|gap| gap.0 < to)
        };
        host.is_none_or(|h| spans[h].0 <= from && to <= spans[h].1 && !lost(h))
    };
    for (flow, places) in &flows {
        if let Some(mut connection) = Connection::of(&seen, *flow, *places) {
            connection.commands.retain(|c| {
                let there = c.target.is_none_or(|t| accounted(places.server, t.came, t.done));
                accounted(places.client, c.begin, c.back) && there
            });
            for host in [places.client, places.server].into_iter().flatten() {
                windows[host].requests.get_or_insert_default();
            }
            connections.push(connection);
            continue;
        }
        let (Some(client), Some(address)) = (places.client, turns::server_address(&seen, *flow, *places))
        else {
            continue;
        };
        turns.clear();
        turns::of_flow(&seen, *flow, *places, &mut turns);
        turns.retain(|t| {
            let there = t.server.is_none_or(|s| accounted(places.server, s.came, s.done));
            accounted(places.client, t.begin, t.end) && there
        });
        let unrecorded = seen[client].flows.get(flow).filter(|_| places.server.is_none());
        let mut round_trip = unrecorded.and_then(|flow| turns::round_trip(flow, *places));
        for turn in &turns {
            let name = threads[client].get(&turn.client).copied().unwrap_or_default();
            let row = *numbers.entry((client, name, places.server, address)).or_insert_with(|| {
                rows.push(Row::new(client, places.server, address, turn));
                rows.len() - 1
            });
            let parts = places.server.and_then(|server| split(turn, client, server, &clocks));
            rows[row].add(turn, parts);
            if let Some(round_trip) = round_trip.take() {
                rows[row].opened(round_trip);
            }
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
    let requests: Vec<Requests> =
        windows.iter_mut().map(|w| Requests::of(w.requests.take().unwrap_or_default())).collect();
    let states: Vec<_> = recordings.iter().map(|r| &r.trace.state).collect();
    let hosts = Hosts {
        commands: command_rows(&connections, &requests, &states, &clocks, &names, &spans),
        clocks: clock_rows(&clocks, &names, &spans),
        steering: names.iter().zip(&states).filter_map(|(name, state)| steering(name, state)).collect(),
        requests: request_rows(&rows, &windows, &names, &spans),
        segments,
    };
    (analyses, hosts)
}

/// How a host's clock was steered, by what its kernel said each time; nothing in old traces.
fn steering(host: &str, state: &State) -> Option<SteeringRow> {
    const UNSYNC: u32 = 0x40;
    let first = state.timex.first()?;
    // What a tick differs by from the first is a correction, too.
    let rate = |t: &StateTimex| {
        let tick = (f64::from(t.tick) - f64::from(first.tick)) / f64::from(first.tick.max(1));
        t.frequency as f64 / 65_536.0 + tick * 1e6
    };
    let changed = state.timex.iter().map(|t| (rate(t) - rate(first)).abs()).fold(0.0, f64::max);
    Some(SteeringRow {
        host: host.into(),
        steered: state.timex.iter().any(|t| t.status & UNSYNC == 0),
        rate_ppm: rate(first),
        changed_ppm: changed,
        slewed_ns: state.timex.iter().map(|t| t.offset.unsigned_abs()).max().unwrap_or(0),
        max_error_us: first.max_error,
    })
}

/// Ports on which somebody listened when a recording began.
fn listening(recordings: &[Recording<'_>]) -> HashSet<u16> {
    let sockets = recordings.iter().flat_map(|r| &r.trace.state.sockets);
    sockets.filter(|s| s.side == 3).filter_map(|s| s.peer.rsplit(':').next()?.parse().ok()).collect()
}

/// Where the threads of a turn are looked at.
fn place_windows(windows: &mut [Windows], row: usize, turn: &Turn, places: Places) {
    let (Some(client), Some(server), Some(s)) = (places.client, places.server, turn.server) else { return };
    let again = turn.again > 0;
    let mut put = |host: usize, tid: u32, (from, to): (u64, u64), part: usize| {
        if to > from {
            let works = if part == WORK || part == ANSWERING { s.read } else { u64::MAX };
            let sends = (part == OF_CLIENT[0] || part == ANSWERING).then_some(again);
            let thread = windows[host].threads.entry(tid).or_default();
            thread.windows.push(Window { from, to, row, part, works, sends });
        }
    };
    put(client, turn.client, (turn.begin, turn.sent), OF_CLIENT[0]);
    put(client, turn.client, (turn.back, turn.end), OF_CLIENT[1]);
    put(server, s.thread, (s.came, s.read), OF_SERVER[0]);
    put(server, s.thread, (s.read, s.answered), WORK);
    put(server, s.thread, (s.answered, s.done), ANSWERING);
    let waiting = windows[client].threads.entry(turn.client).or_default();
    if turn.back > turn.sent {
        waiting.waits.push((turn.sent, turn.back, row));
    }
    windows[server].threads.entry(s.thread).or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_steered_otherwise_later_is_told() {
        let timex =
            |frequency, tick, offset, status| StateTimex { frequency, tick, offset, status, max_error: 7 };
        let state = |timex| State { timex, ..State::default() };
        assert!(steering("old", &state(Vec::new())).is_none());
        let all = vec![timex(2 << 16, 10_000, 0, 0x40), timex(3 << 16, 10_001, -500, 0)];
        let s = steering("web", &state(all)).expect("told");
        assert_eq!((s.rate_ppm, s.changed_ppm, s.slewed_ns, s.max_error_us), (2.0, 101.0, 500, 7));
        assert!(s.steered, "somebody came later");
    }
}
