// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use plumb_trace::reader::RawRecord;
use plumb_trace::schema::{TcpFlow, TcpRead, TcpSegmentIn, TcpSegmentOut};
use plumb_trace::Record;

const FLOW: u64 = 0x1230;
const SYN: u64 = 2;
const FIN: u64 = 4;
const SYN_ACK: u64 = 10;
/// The higher end, 10.0.0.2:7000, is the server.
const TO_SERVER: u64 = 0;
const TO_CLIENT: u64 = 1;

/// What a host saw of one connection; thread 7 is on its CPU.
#[derive(Default)]
struct Host(Seen);

impl Host {
    fn new() -> Self {
        let mut host = Self::default();
        let mut bytes = [0; 64];
        let mapped = |last: u64| 0xffff_0a00_0000 + last;
        for (at, value) in [(24, mapped(1)), (48, mapped(2)), (56, FLOW)] {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        bytes[44..48].copy_from_slice(&(50_000u32 << 16 | 7_000).to_le_bytes());
        host.0.record(&RawRecord { ts: 0, id: TcpFlow::ID, cpu: 0, tid: 7, bytes: &bytes });
        host
    }

    fn event(mut self, id: u16, ts: u64, flow: u64, seq: u32, len: u32) -> Self {
        let mut bytes = [0; 32];
        bytes[16..24].copy_from_slice(&(FLOW | flow).to_le_bytes());
        bytes[24..28].copy_from_slice(&seq.to_le_bytes());
        bytes[28..32].copy_from_slice(&len.to_le_bytes());
        self.0.record(&RawRecord { ts, id, cpu: 0, tid: 7, bytes: &bytes });
        self
    }

    fn out(self, ts: u64, flow: u64, seq: u32, len: u32) -> Self {
        self.event(TcpSegmentOut::ID, ts, flow, seq, len)
    }

    fn came(self, ts: u64, flow: u64, seq: u32, len: u32) -> Self {
        self.event(TcpSegmentIn::ID, ts, flow, seq, len)
    }

    fn read(self, ts: u64, flow: u64, seq: u32) -> Self {
        self.event(TcpRead::ID, ts, flow, seq, 0)
    }
}

fn turns(client: Host, server: Host) -> (Places, Vec<Turn>) {
    let seen = [client.0, server.0];
    let places = places(&seen, FLOW, &|_| false).expect("its ends are known");
    let mut turns = Vec::new();
    of_flow(&seen, FLOW, places, &mut turns);
    (places, turns)
}

const MS: u64 = 1_000_000;

#[test]
fn a_request_is_cut_where_it_passes_from_one_to_the_other() {
    // Over the wrap of the sequence numbers.
    let begin = u32::MAX - 20;
    let client = Host::new()
        .out(100, TO_SERVER, begin, 30)
        .out(110, TO_SERVER, begin.wrapping_add(30), 20)
        .came(500, TO_CLIENT, 1_000, 10)
        .came(520, TO_CLIENT, 1_010, 90)
        .read(550, TO_CLIENT, 1_100)
        .out(600, TO_SERVER, begin.wrapping_add(50), 50);
    let server = Host::new()
        .came(9_200, TO_SERVER, begin, 30)
        .came(9_210, TO_SERVER, begin.wrapping_add(30), 20)
        .read(9_250, TO_SERVER, begin.wrapping_add(50))
        .out(9_400, TO_CLIENT, 1_000, 10)
        .out(9_410, TO_CLIENT, 1_010, 90);
    let (places, turns) = turns(client, server);
    assert_eq!(places, Places { client: Some(0), server: Some(1), higher: false });
    assert_eq!(turns.len(), 1, "the second has no answer");
    let t = turns[0];
    assert_eq!((t.begin, t.sent, t.back, t.end, t.client, t.again), (100, 110, 520, 550, 7, 0));
    let s = t.server.expect("it was recorded");
    assert_eq!((s.came, s.read, s.answered, s.done, s.thread), (9_210, 9_250, 9_400, 9_410, 7));
}

#[test]
fn a_connection_that_is_opened_tells_the_shortest_way() {
    let opened = || Host::new().out(100, TO_SERVER | SYN, 10, 0).came(185, TO_CLIENT | SYN_ACK, 1_000, 0);
    let of = |client: Host| {
        let seen = [client.0];
        let places = places(&seen, FLOW, &|_| false).expect("its ends are known");
        (places.server, round_trip(&seen[0].flows[&FLOW], places))
    };
    let client =
        opened().out(200, TO_SERVER, 11, 50).came(900, TO_CLIENT, 1_001, 10).read(950, TO_CLIENT, 1_011);
    assert_eq!(of(client), (None, Some(85)));
    // One that was there before, and one that nobody answered.
    let before = Host::new().out(200, TO_SERVER, 11, 50).came(900, TO_CLIENT, 1_001, 10);
    assert_eq!(of(before.read(950, TO_CLIENT, 1_011)).1, None);
    assert_eq!(of(Host::new().out(100, TO_SERVER | SYN, 10, 0)).1, None);
}

#[test]
fn an_answer_that_ends_the_connection_is_read_before_its_end() {
    let client = Host::new()
        .out(100, TO_SERVER, 10, 50)
        .came(500, TO_CLIENT | FIN, 1_000, 100)
        .read(550, TO_CLIENT, 1_100);
    let server = Host::new().came(200, TO_SERVER, 10, 50).read(250, TO_SERVER, 60).out(
        400,
        TO_CLIENT | FIN,
        1_000,
        100,
    );
    let (_, turns) = turns(client, server);
    assert_eq!((turns[0].back, turns[0].end), (500, 550));
    assert!(turns[0].server.is_some());
}

#[test]
fn what_is_retransmitted_counts_when_it_went_and_came_first() {
    let client = Host::new()
        .out(100, TO_SERVER, 10, 50)
        // Another device of the host, and 30 ms later the segment again.
        .out(110, TO_SERVER, 10, 50)
        .out(30 * MS, TO_SERVER, 10, 50)
        .came(40 * MS, TO_CLIENT, 1_000, 100)
        .read(41 * MS, TO_CLIENT, 1_100);
    let server = Host::new()
        .came(31 * MS, TO_SERVER, 10, 50)
        .read(32 * MS, TO_SERVER, 60)
        .out(33 * MS, TO_CLIENT, 1_000, 100)
        .out(36 * MS, TO_CLIENT, 1_000, 100);
    let (_, turns) = turns(client, server);
    assert_eq!((turns[0].begin, turns[0].sent, turns[0].again), (100, 100, 2));
    let s = turns[0].server.expect("it was recorded");
    assert_eq!((s.came, s.done), (31 * MS, 33 * MS));
}

#[test]
fn who_opened_the_connection_is_the_client() {
    // The server's answer to a SYN that was not seen says nothing; then the ports decide.
    let lone = || Host::new().out(1, TO_CLIENT | SYN_ACK, 5, 0).read(9, TO_SERVER, 20);
    let other = || Host::new().read(8, TO_CLIENT, 20);
    assert!(!turns(other(), lone()).0.higher);
    // An active opener with the lower port, as of an FTP server, is believed.
    let opener = Host::new().out(1, TO_CLIENT | SYN, 5, 0).read(9, TO_SERVER, 20);
    assert!(turns(other(), opener).0.higher);
}
