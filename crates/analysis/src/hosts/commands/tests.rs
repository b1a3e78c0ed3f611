// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use crate::hosts::segments::Segment;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const PLACES: Places = Places { client: Some(0), server: Some(1), higher: false };

/// A connection that two recordings have; the server's clock is 1,000 ahead, and a segment is 10 on its way.
struct Wire {
    seen: [Seen; 2],
    next: [u64; 2],
}

impl Wire {
    fn new() -> Self {
        let mut seen = [Seen::default(), Seen::default()];
        let end = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), port);
        for s in &mut seen {
            s.flows.entry(16).or_default().ends = Some([end(40_000), end(3260)]);
        }
        Self { seen, next: [100, 100] }
    }

    fn way(&mut self, host: usize, way: usize) -> &mut Way {
        &mut self.seen[host].flows.get_mut(&16).expect("made by new").ways[way]
    }

    /// Sends a message at a moment of the client's clock, 0: from the client; `tap`: which recordings have its header.
    fn send(&mut self, at: u64, from: usize, kind: u8, tag: u64, (place, count): (u64, u32), tap: [bool; 2]) {
        let (begin, end) = (self.next[from], self.next[from] + 48);
        self.next[from] = end;
        let segment = |ts| Segment { ts, begin, end, tid: 1, data: true };
        let (out, came) = if from == 0 { (at, at + 1_010) } else { (at + 1_000, at + 10) };
        self.way(from, from).out.push(segment(out));
        self.way(1 - from, from).came.push(segment(came));
        for host in [0, 1].into_iter().filter(|host| tap[*host]) {
            let m = Message { begin, end, protocol: 1, kind, status: 0, tag, place, count, unit: 0 };
            self.way(host, from).messages.push(m);
        }
    }

    fn commands(&self) -> (Vec<Command>, Vec<Unanswered>) {
        of_flow(&self.seen, 16, PLACES)
    }
}

#[test]
fn a_command_has_its_response_by_its_tag() {
    let mut wire = Wire::new();
    // Two at once; the second is answered first. Each end has lost sight of one header.
    wire.send(100, 0, kind::READ, 1, (4096, 512), [true, false]);
    wire.send(110, 0, kind::WRITE, 2, (0, 1024), [false, true]);
    wire.send(150, 1, kind::RESPONSE, 2, (0, 0), [true, true]);
    wire.send(160, 1, kind::DATA_IN, 1, (0, 512), [true, true]);
    wire.send(170, 1, kind::RESPONSE, 1, (0, 0), [true, true]);
    let (commands, lost) = wire.commands();
    assert_eq!(lost, []);
    let told: Vec<_> = commands.iter().map(|c| (c.kind, c.place, c.begin, c.back)).collect();
    assert_eq!(told, [(Kind::Write, 0, 110, 160), (Kind::Read, 4096, 100, 180)]);
    let t = commands[1].target.expect("both were recorded");
    assert_eq!([t.came, t.data, t.answered, t.done], [1_110, 1_110, 1_160, 1_170]);
}

#[test]
fn data_that_the_target_asked_for_belongs_to_the_command() {
    let mut wire = Wire::new();
    wire.send(100, 0, kind::WRITE, 7, (0, 65_536), [true, true]);
    wire.send(120, 1, 9, 7, (0, 65_536), [true, true]);
    wire.send(140, 0, kind::DATA_OUT, 7, (0, 65_536), [true, true]);
    wire.send(180, 1, kind::RESPONSE, 7, (0, 0), [true, true]);
    let (commands, _) = wire.commands();
    let t = commands[0].target.expect("both were recorded");
    assert_eq!([t.came, t.data, t.answered], [1_110, 1_150, 1_180], "what says ready is no answer");
}

#[test]
fn a_tag_that_is_used_again_is_another_command() {
    let mut wire = Wire::new();
    wire.send(90, 1, kind::RESPONSE, 1, (0, 0), [true, true]);
    wire.send(100, 0, kind::READ, 1, (0, 512), [true, true]);
    wire.send(150, 1, kind::DATA_IN_LAST, 1, (0, 512), [true, true]);
    wire.send(200, 0, kind::READ, 1, (512, 512), [true, true]);
    wire.send(300, 0, kind::READ, 1, (1024, 512), [true, true]);
    wire.send(350, 1, kind::DATA_IN_LAST, 1, (0, 512), [true, true]);
    let (commands, lost) = wire.commands();
    assert_eq!(commands.iter().map(|c| (c.place, c.back)).collect::<Vec<_>>(), [(0, 160), (1024, 360)]);
    assert_eq!(lost, [(Kind::Read, 0)], "the response of the second was not seen");
}

fn request(dev: u32, op: u32, place: u64, count: u32, issued: u64, completed: u64) -> Request {
    Request { dev, op, place, count, queued: issued - 1, issued, completed }
}

#[test]
fn devices_are_what_most_commands_agree_with() {
    let mut wire = Wire::new();
    let (mut above, mut below) = (Vec::new(), Vec::new());
    for n in 0..20u64 {
        let (at, place) = (100 + n * 100, n * 8192);
        wire.send(at, 0, kind::READ, n, (place, 4096), [true, true]);
        wire.send(at + 60, 1, kind::DATA_IN_LAST, n, (0, 4096), [true, true]);
        above.push(request(8, req::READ, place, 4096, at - 5, at + 80));
        // Another disk of the initiator has a like request meanwhile, now and then; so has the target.
        if n % 3 == 0 {
            above.push(request(9, req::READ, place, 4096, at - 7, at + 90));
            below.push(request(30, req::READ, n * 777 * 512, 4096, at + 1_020, at + 1_050));
        }
        // The target's disk has it 1 MiB further on, in two halves now and then.
        let halves = if n == 7 { 2 } else { 1 };
        for half in 0..halves {
            let place = place + (1 << 20) + half * 4096 / halves;
            let at = at + 1_015 + half * 5;
            below.push(request(31, req::READ, place, (4096 / halves) as u32, at, at + 20));
        }
    }
    let (commands, _) = wire.commands();
    let (above, below) = (Requests::of(above), Requests::of(below));
    let all: Vec<&Command> = commands.iter().collect();
    let found = devices(&all, &above, Some(&below));
    assert_eq!(found, Devices { initiator: Some(8), target: Some((31, 1 << 20)) });
    let mut used = HashSet::new();
    for (n, c) in commands.iter().enumerate() {
        let own = above.own(c, 8, &mut used).expect("each has one");
        assert_eq!((own.place, own.issued), (c.place, c.begin - 5));
        let t = c.target.expect("both were recorded");
        let (from, to) = below.below(c, &t, (31, 1 << 20)).expect("each has one");
        assert_eq!((from - t.came, to - from), (5, if n == 7 { 25 } else { 20 }));
    }
    assert!(above.own(&commands[3], 8, &mut used).is_none(), "a request is one command's");
}

#[test]
fn behind_lost_step_no_response_belongs_to_an_older_command() {
    let mut wire = Wire::new();
    wire.send(100, 0, kind::READ, 1, (0, 512), [true, true]);
    wire.send(150, 1, kind::LOST, 0, (0, 0), [true, true]);
    wire.send(900, 1, kind::DATA_IN_LAST, 1, (0, 512), [true, true]);
    let (commands, lost) = wire.commands();
    assert_eq!((commands.len(), lost), (0, vec![(Kind::Read, 0)]));
    // The other end was in step all the time.
    let mut wire = Wire::new();
    wire.send(100, 0, kind::READ, 1, (0, 512), [true, true]);
    wire.send(150, 1, kind::DATA_IN, 1, (0, 512), [false, true]);
    let begin = wire.next[1] - 48;
    let lost = Message {
        begin,
        end: begin,
        protocol: 1,
        kind: kind::LOST,
        status: 0,
        tag: 0,
        place: 0,
        count: 0,
        unit: 0,
    };
    wire.way(0, 1).messages.push(lost);
    wire.send(900, 1, kind::DATA_IN_LAST, 1, (0, 512), [true, true]);
    assert_eq!(wire.commands().0.len(), 1);
}

#[test]
fn an_accident_is_no_device() {
    let mut wire = Wire::new();
    for n in 0..20u64 {
        wire.send(100 + n * 100, 0, kind::READ, n, (n * 4096, 4096), [true, true]);
        wire.send(160 + n * 100, 1, kind::DATA_IN_LAST, n, (0, 4096), [true, true]);
    }
    let commands = wire.commands().0;
    let all: Vec<&Command> = commands.iter().collect();
    // A disk of each side has one like request.
    let above = Requests::of(vec![request(8, req::READ, 4096, 4096, 195, 290)]);
    let below = Requests::of(vec![request(31, req::READ, 4096, 4096, 1_215, 1_240)]);
    assert_eq!(devices(&all, &above, Some(&below)), Devices::default());
    // Of requests in a row the next one's is as good by number, and further away.
    let row =
        (0..21).map(|n| request(31, req::READ, n * 4096, 4096, 1_111 + n * 50, 1_130 + n * 50)).collect();
    let mut far: Vec<Request> = row;
    far.extend(
        (0..20).map(|n| request(31, req::READ, (n + 1) * 4096, 4096, 1_112 + n * 100, 1_140 + n * 100)),
    );
    far.extend((0..20).map(|n| request(31, req::READ, n * 4096, 4096, 1_113 + n * 100, 1_140 + n * 100)));
    assert_eq!(devices(&all, &above, Some(&Requests::of(far))).target, Some((31, 0)));
}

#[test]
fn flushes_have_no_place() {
    let mut wire = Wire::new();
    wire.send(100, 0, kind::FLUSH, 1, (0, 0), [true, true]);
    wire.send(105, 0, kind::FLUSH, 2, (0, 0), [true, true]);
    wire.send(150, 1, kind::RESPONSE, 1, (0, 0), [true, true]);
    wire.send(170, 1, kind::RESPONSE, 2, (0, 0), [true, true]);
    let above = Requests::of(vec![
        request(8, req::FLUSH, u64::MAX / 2, 0, 95, 165),
        request(8, req::FLUSH, 0, 0, 96, 185),
    ]);
    let mut used = HashSet::new();
    let own: Vec<_> =
        wire.commands().0.iter().map(|c| above.own(c, 8, &mut used).map(|r| r.issued)).collect();
    assert_eq!(own, [Some(95), Some(96)]);
}
