// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests and answers on TCP connections, followed from the client to the server and back. The order of
//! what was sent decides, not the protocol: a request ends where the answer begins.

use super::segments::{Flow, Seen, Way};
use std::net::SocketAddr;

/// A request and its answer. Times are ns, each on its host's clock.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    /// Thread that read the answer.
    pub client: u32,
    /// First byte of the request went out of TCP.
    pub begin: u64,
    /// Its last byte went out.
    pub sent: u64,
    /// The last byte of the answer came.
    pub back: u64,
    /// It was read.
    pub end: u64,
    /// `None`: the server was not recorded, or not all of it was seen there.
    pub server: Option<Served>,
    /// Segments of it, or of its answer, that were sent again.
    pub again: u32,
}

/// The server's part of it.
#[derive(Debug, Clone, Copy)]
pub struct Served {
    /// Thread that read the request.
    pub thread: u32,
    /// Its last byte came.
    pub came: u64,
    /// It was read.
    pub read: u64,
    /// The first byte of the answer went out of TCP.
    pub answered: u64,
    /// Its last byte went out.
    pub done: u64,
}

/// Which recordings have the ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    pub client: Option<usize>,
    pub server: Option<usize>,
    /// The client is the connection's higher end.
    pub higher: bool,
}

/// Who has received what was sent one way: who has read it; where nobody did, who got it and did not send it on.
fn receiver(seen: &[Seen], flow: u64, way: usize) -> Option<usize> {
    let of = |n: &usize| seen[*n].flows.get(&flow).map(|f| &f.ways[way]);
    let all = || 0..seen.len();
    all()
        .find(|n| of(n).is_some_and(|w| !w.reads.is_empty()))
        .or_else(|| all().find(|n| of(n).is_some_and(|w| !w.came.is_empty() && w.out.is_empty())))
}

/// Both ends of a connection, where each recording's listening ports are known.
pub fn places(seen: &[Seen], flow: u64, listens: &dyn Fn(u16) -> bool) -> Option<Places> {
    let of = || seen.iter().filter_map(|s| s.flows.get(&flow));
    let [low, high] = of().find_map(|f| f.ends)?.map(|end| end.port());
    // Who sent the first SYN; else who does not listen; else the higher port.
    let syn = of().find_map(|f| match f.ways.each_ref().map(|w| w.syn) {
        [None, None] => None,
        [Some(low), Some(high)] => Some(high < low),
        [low, _] => Some(low.is_none()),
    });
    let higher = syn.unwrap_or_else(|| match [low, high].map(listens) {
        [true, false] => true,
        [false, true] => false,
        _ => high > low,
    });
    let [from_low, from_high] = [0, 1].map(|way| receiver(seen, flow, way));
    let (client, server) = if higher { (from_low, from_high) } else { (from_high, from_low) };
    Some(Places { client, server, higher })
}

/// The server's address.
pub fn server_address(seen: &[Seen], flow: u64, places: Places) -> Option<SocketAddr> {
    let ends = seen.iter().filter_map(|s| s.flows.get(&flow)).find_map(|f| f.ends)?;
    Some(ends[usize::from(!places.higher)])
}

/// The turns of a connection whose client was recorded.
pub fn of_flow(seen: &[Seen], flow: u64, places: Places, turns: &mut Vec<Turn>) {
    let Some(client) = places.client.and_then(|n| seen[n].flows.get(&flow)) else { return };
    let server = places.server.and_then(|n| seen[n].flows.get(&flow));
    let (there, back) = (usize::from(places.higher), usize::from(!places.higher));
    let (sent, got) = (&client.ways[there], &client.ways[back]);
    let rounds = server.map(|s| [there, back].map(|way| client.ways[way].round(&s.ways[way])));
    let (mut out, mut came) = (data(&sent.out).peekable(), data(&got.came).peekable());
    while let Some(first) = out.next() {
        let (mut last, begin, mut latest) = (first, sent.handed(&first), first.ts);
        // The answer to an earlier request.
        while came.next_if(|c| c.ts < begin).is_some() {}
        let Some(answer) = came.peek().copied() else { return };
        while let Some(more) = out.next_if(|o| o.ts < answer.ts) {
            last = more;
            latest = latest.max(more.ts);
        }
        let next = out.peek().map_or(u64::MAX, |o| o.ts);
        let mut whole = answer;
        while let Some(more) = came.next_if(|c| c.ts < next) {
            whole = more;
        }
        let back_at = got.all_came(answer.begin, whole.end).unwrap_or(whole.ts);
        let read = got.read(whole.end);
        let served = server.zip(rounds).and_then(|(server, [to, from])| {
            let on = |n: u64, round: i64| n.wrapping_add_signed(-round);
            let request = (on(first.begin, to), on(last.end, to));
            let reply = (on(answer.begin, from), on(whole.end, from));
            served(server, (there, back), request, reply)
        });
        // The answer's are counted on the server's clock, from its begin on as long as it took.
        let took = back_at.saturating_sub(begin);
        let again = |way: &Way, from: u64| {
            let before = |t: u64| way.again.partition_point(|ts| *ts < t);
            (before(from.saturating_add(took)) - before(from)) as u32
        };
        let back_again = served.zip(server).map_or(0, |(s, flow)| again(&flow.ways[back], s.answered));
        turns.push(Turn {
            client: read.map_or(first.tid, |r| r.tid),
            begin,
            sent: latest,
            back: back_at,
            end: read.map_or(back_at, |r| r.ts.max(back_at)),
            server: served,
            again: again(sent, begin) + back_again,
        });
    }
}

/// How long the answer to the client's SYN took: the shortest way there and back that the connection shows, since the
/// server's kernel answers it at once. Where the SYN was sent again, too long.
pub fn round_trip(client: &Flow, places: Places) -> Option<u64> {
    let (there, back) = (usize::from(places.higher), usize::from(!places.higher));
    let sent = client.ways[there].syn?;
    let answer = client.ways[back].came.first().filter(|s| !s.data && s.end == s.begin + 1)?;
    answer.ts.checked_sub(sent)
}

fn data(list: &[super::segments::Segment]) -> impl Iterator<Item = super::segments::Segment> + '_ {
    list.iter().copied().filter(|s| s.data)
}

fn served(
    server: &Flow,
    (there, back): (usize, usize),
    request: (u64, u64),
    reply: (u64, u64),
) -> Option<Served> {
    let (got, sent) = (&server.ways[there], &server.ways[back]);
    let came = got.all_came(request.0, request.1)?;
    let answered = sent.went(reply.0)?;
    let done = sent.went(reply.1 - 1)?.ts;
    let read = got.read(request.1);
    // A server may answer before it has read everything, or be the kernel.
    let at = read.map_or(came, |r| r.ts).clamp(came, sent.handed(answered).max(came));
    let thread = read.map_or(answered.tid, |r| r.tid);
    Some(Served {
        thread,
        came,
        read: at,
        answered: sent.handed(answered).max(at),
        done: done.max(answered.ts).max(at),
    })
}

#[cfg(test)]
mod tests;
