// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The TCP segments of one recording, by connection and direction: when each byte went out, came, and was read.

use plumb_trace::reader::RawRecord;
use plumb_trace::schema::{TcpFlow, TcpMessage, TcpRead, TcpSegmentIn, TcpSegmentOut, TcpSegmentQueued};
use plumb_trace::Record;
use std::collections::HashMap;
use std::net::{Ipv6Addr, SocketAddr};

/// Bits of a segment's connection, see `tcp_segment_out` in include/plumb/event.h.
const HIGHER: u64 = 1;
const SYN: u64 = 2;
const FIN: u64 = 4;
const RST: u64 = 8;
const BITS: u64 = 15;
/// Bytes that go out once more within that time do so at another device of the host: a bridge, a bond, ns.
const STACKED: u64 = 1_000_000;
/// Segments that one may have overtaken. Further back nothing is inserted: each costs as many moves.
const OVERTAKEN: usize = 4_096;
/// No clock shows more, ns: 73 years. Below it differences of differences do not overflow.
const LATEST: u64 = 1 << 61;

/// Bytes that went or came together. A SYN or FIN counts as a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// ns.
    pub ts: u64,
    /// First byte: a sequence number that does not wrap.
    pub begin: u64,
    pub end: u64,
    /// Thread on the CPU.
    pub tid: u32,
    /// There is data in it.
    pub data: bool,
}

/// A thread took what had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// ns.
    pub ts: u64,
    /// First byte that was left.
    pub end: u64,
    pub tid: u32,
}

/// A message of a storage protocol, see `tcp_message` in include/plumb/event.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// First byte.
    pub begin: u64,
    pub end: u64,
    pub protocol: u8,
    pub kind: u8,
    /// 0: success.
    pub status: u16,
    /// Which command.
    pub tag: u64,
    /// Where on the device, bytes.
    pub place: u64,
    /// Bytes of data.
    pub count: u32,
    /// Of a command: logical unit or namespace.
    pub unit: u32,
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub struct Way {
    /// Each byte when it went to a driver first, in the order of bytes.
    pub out: Vec<Segment>,
    /// Each byte when it came first, in the order of bytes.
    pub came: Vec<Segment>,
    pub reads: Vec<Read>,
    /// When bytes were sent again, ns.
    pub again: Vec<u64>,
    /// When the SYN was seen that opened the connection, ns.
    pub syn: Option<u64>,
    /// In the order in which they were seen: a machine that has both ends sees each twice.
    pub messages: Vec<Message>,
    /// When TCP handed segments down that waited for the driver, by their first bytes, ns.
    handed: HashMap<u64, u64>,
    /// The last sequence number, unwrapped.
    last: Option<u64>,
}

/// A connection.
#[derive(Debug, Default)]
pub struct Flow {
    /// Its lower and its higher end; `None` where the event that tells them was lost.
    pub ends: Option<[SocketAddr; 2]>,
    /// From the lower end, from the higher one.
    pub ways: [Way; 2],
}

/// All of a recording.
#[derive(Debug, Default)]
pub struct Seen {
    /// By their numbers, which are the same on every host.
    pub flows: HashMap<u64, Flow>,
    pub segments: u64,
    /// Where events are missing, ns.
    pub gaps: Vec<(u64, u64)>,
    /// Last moment of a segment, ns.
    pub last: u64,
}

/// A place of the list for a segment. Where all of its bytes are there already: when they went or came.
fn insert(list: &mut Vec<Segment>, mut s: Segment) -> Option<u64> {
    if list.last().is_none_or(|last| last.end <= s.begin) {
        list.push(s);
        return None;
    }
    // It was sent again, or overtaken by later ones: only what is new of it counts.
    let at = list.partition_point(|other| other.end <= s.begin);
    if list.len() - at > OVERTAKEN {
        return Some(list[at].ts);
    }
    if list[at].begin <= s.begin {
        s.begin = list[at].end;
        let next = list.get(at + 1).map_or(u64::MAX, |next| next.begin);
        s.end = s.end.min(next);
        if s.begin >= s.end {
            return Some(list[at].ts);
        }
        list.insert(at + 1, s);
    } else {
        s.end = s.end.min(list[at].begin);
        list.insert(at, s);
    }
    None
}

impl Way {
    /// A sequence number that does not wrap; the first is behind one round, so that earlier ones have room.
    fn unwrap(&mut self, seq: u32) -> u64 {
        let last = self.last.unwrap_or(1 << 32 | u64::from(seq));
        let now = last.wrapping_add_signed(i64::from(seq.wrapping_sub(last as u32) as i32));
        self.last = Some(now.max(last));
        now
    }

    /// When a byte was there and all before it from `from` on, ns.
    pub fn all_came(&self, from: u64, end: u64) -> Option<u64> {
        let first = self.came.partition_point(|s| s.end <= from);
        let those = self.came[first..].iter().take_while(|s| s.begin < end);
        let last = those.clone().last().is_some_and(|s| s.end >= end);
        those.map(|s| s.ts).max().filter(|_| last)
    }

    /// When a byte went out, and on whose CPU time.
    pub fn went(&self, byte: u64) -> Option<&Segment> {
        let at = self.out.partition_point(|s| s.end <= byte);
        self.out.get(at).filter(|s| s.begin <= byte)
    }

    /// When TCP handed a byte down that went out then.
    pub fn handed(&self, went: &Segment) -> u64 {
        self.handed.get(&went.begin).map_or(went.ts, |ts| went.ts.min(*ts))
    }

    /// Who took a byte's predecessor, and when.
    pub fn read(&self, end: u64) -> Option<&Read> {
        self.reads.get(self.reads.partition_point(|r| r.end < end))
    }

    /// What must be added to another recording's numbers to make them this one's: recordings that begin on two
    /// sides of a wrap of the sequence number differ by a round.
    pub fn round(&self, other: &Self) -> i64 {
        let range = |way: &Self| {
            let all = || way.out.iter().chain(&way.came);
            Some((all().map(|s| s.begin).min()?, all().map(|s| s.end).max()?))
        };
        let (Some(mine), Some(theirs)) = (range(self), range(other)) else { return 0 };
        let shared = |round: i64| {
            let shift = |n: u64| n as i64 + round;
            (mine.1 as i64).min(shift(theirs.1)) - (mine.0 as i64).max(shift(theirs.0))
        };
        [0, 1 << 32, -1 << 32].into_iter().max_by_key(|round| (shared(*round), *round == 0)).unwrap_or(0)
    }
}

/// An address of the schema's two halves.
fn address(upper: u64, lower: u64, port: u32) -> SocketAddr {
    let ip = Ipv6Addr::from_bits(u128::from(upper) << 64 | u128::from(lower));
    SocketAddr::new(ip.to_canonical(), port as u16)
}

impl Seen {
    /// Takes an event; others than of TCP are passed over.
    pub fn record(&mut self, r: &RawRecord<'_>) {
        match r.id {
            TcpFlow::ID => {
                let f = TcpFlow::read(r.bytes);
                let ends =
                    [address(f.low0, f.low1, f.ports >> 16), address(f.high0, f.high1, f.ports & 0xffff)];
                self.flows.entry(f.flow & !BITS).or_default().ends = Some(ends);
            }
            TcpSegmentOut::ID => {
                let s = TcpSegmentOut::read(r.bytes);
                self.segment(r, true, s.flow, s.seq, s.len);
            }
            TcpSegmentIn::ID => {
                let s = TcpSegmentIn::read(r.bytes);
                self.segment(r, false, s.flow, s.seq, s.len);
            }
            TcpSegmentQueued::ID => {
                let q = TcpSegmentQueued::read(r.bytes);
                let way = self.way(q.flow);
                let begin = way.unwrap(q.seq);
                // By this event's own time: the one of the segment is another program's.
                way.handed.entry(begin).or_insert(r.ts.saturating_sub(u64::from(q.waited) * 1_000));
            }
            TcpMessage::ID => {
                let m = TcpMessage::read(r.bytes);
                let way = self.way(m.flow);
                let begin = way.unwrap(m.seq);
                way.messages.push(Message {
                    begin,
                    end: begin + u64::from(m.len),
                    protocol: m.protocol,
                    kind: m.kind,
                    status: m.status,
                    tag: m.tag,
                    place: m.place,
                    count: m.count,
                    unit: m.unit,
                });
            }
            TcpRead::ID => {
                let read = TcpRead::read(r.bytes);
                if r.ts > LATEST {
                    return;
                }
                let way = self.way(read.flow);
                let end = way.unwrap(read.seq);
                if way.reads.last().is_none_or(|last| last.end < end) {
                    way.reads.push(Read { ts: r.ts, end, tid: r.tid });
                }
            }
            _ => {}
        }
    }

    fn way(&mut self, flow: u64) -> &mut Way {
        &mut self.flows.entry(flow & !BITS).or_default().ways[(flow & HIGHER) as usize]
    }

    fn segment(&mut self, r: &RawRecord<'_>, out: bool, flow: u64, seq: u32, len: u32) {
        let resets = flow & RST != 0;
        let (syn, fin) = (flow & SYN != 0, flow & FIN != 0);
        if r.ts > LATEST || (len == 0 && !syn && !fin) {
            return;
        }
        self.segments += 1;
        self.last = self.last.max(r.ts);
        let way = self.way(flow);
        if syn && !resets {
            way.syn.get_or_insert(r.ts);
        }
        let begin = way.unwrap(seq);
        let end = begin + u64::from(len) + u64::from(syn);
        // What a FIN closes is read before the FIN itself is taken note of.
        let all = [(begin, end, len > 0), (end, end + u64::from(fin), false)];
        for (begin, end, data) in all.into_iter().filter(|(begin, end, _)| begin < end) {
            let segment = Segment { ts: r.ts, begin, end, tid: r.tid, data };
            let first = insert(if out { &mut way.out } else { &mut way.came }, segment);
            if out && first.is_some_and(|first| r.ts.saturating_sub(first) > STACKED) {
                way.again.push(r.ts);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(ts: u64, begin: u64, end: u64) -> Segment {
        Segment { ts, begin, end, tid: 0, data: true }
    }

    fn list(all: &[Segment]) -> (Vec<(u64, u64, u64)>, usize) {
        let (mut list, mut old) = (Vec::new(), 0);
        for s in all {
            old += usize::from(insert(&mut list, *s).is_some());
        }
        (list.iter().map(|s| (s.begin, s.end, s.ts)).collect(), old)
    }

    #[test]
    fn a_byte_counts_when_it_comes_first() {
        let again = [segment(1, 0, 10), segment(2, 10, 20), segment(3, 10, 20), segment(4, 5, 15)];
        assert_eq!(list(&again), (vec![(0, 10, 1), (10, 20, 2)], 2));
        let overtaken = [segment(1, 0, 10), segment(2, 20, 30), segment(3, 10, 20), segment(4, 25, 40)];
        assert_eq!(list(&overtaken), (vec![(0, 10, 1), (10, 20, 3), (20, 30, 2), (30, 40, 4)], 0));
        // With more of it than the first time.
        assert_eq!(list(&[segment(1, 0, 10), segment(2, 0, 15)]), (vec![(0, 10, 1), (10, 15, 2)], 0));
        assert_eq!(list(&[segment(1, 10, 20), segment(2, 0, 15)]), (vec![(0, 10, 2), (10, 20, 1)], 0));
    }

    #[test]
    fn bytes_are_found_when_all_before_them_came() {
        let mut way = Way::default();
        for s in [segment(1, 0, 10), segment(2, 20, 30), segment(7, 10, 20)] {
            insert(&mut way.came, s);
        }
        assert_eq!(way.all_came(0, 10), Some(1));
        assert_eq!(way.all_came(10, 30), Some(7));
        assert_eq!(way.all_came(20, 31), None, "it has not come");
        way.reads = vec![Read { ts: 5, end: 10, tid: 1 }, Read { ts: 9, end: 30, tid: 2 }];
        assert_eq!(way.read(10).map(|r| r.tid), Some(1));
        assert_eq!(way.read(11).map(|r| r.tid), Some(2));
        assert_eq!(way.read(31), None);
    }

    #[test]
    fn sequence_numbers_wrap() {
        let mut way = Way::default();
        let all: Vec<u64> = [u32::MAX - 4, 5, u32::MAX - 4, 100].into_iter().map(|n| way.unwrap(n)).collect();
        assert_eq!([all[1] - all[0], all[2].abs_diff(all[0]), all[3] - all[0]], [10, 0, 105]);
        // A recording that begins behind the wrap.
        let mut late = Way::default();
        let begin = late.unwrap(5);
        insert(&mut late.out, segment(0, begin, begin + 200));
        insert(&mut way.out, segment(0, all[0], all[0] + 400));
        assert_eq!(begin as i64 + way.round(&late), all[1] as i64);
        assert_eq!(late.round(&way), -way.round(&late));
    }
}
