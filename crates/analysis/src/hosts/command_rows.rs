// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands as they are counted, and as they are told.

use super::clocks::Clocks;
use super::commands::{devices, Command, Devices, Kind, Requests, Unanswered};
use super::segments::Seen;
use super::times::{between, lengths, total, Slow, Times};
use super::turns::{server_address, Places};
use super::{CommandPart, CommandRow, SlowCommand, COMMAND_PARTS};
use plumb_trace::reader::State;
use plumb_trace::units;
use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;

const M: usize = COMMAND_PARTS.len();
/// Slow commands that are told of a row, and rows.
const MOST_SLOW: usize = 20;
const MOST_ROWS: usize = 64;
/// Parts between the two hosts.
const ON_THE_WAY: [usize; 2] = [3, 10];
const OF_CLIENT: [usize; 4] = [0, 1, 2, 11];

/// A connection with its commands.
pub(super) struct Connection {
    pub places: Places,
    pub address: SocketAddr,
    pub commands: Vec<Command>,
    pub unanswered: Vec<Unanswered>,
}

impl Connection {
    /// `None` where it has no commands.
    pub fn of(seen: &[Seen], flow: u64, places: Places) -> Option<Self> {
        let address = server_address(seen, flow, places)?;
        let (commands, unanswered) = super::commands::of_flow(seen, flow, places);
        let some = !commands.is_empty() || !unanswered.is_empty();
        some.then_some(Self { places, address, commands, unanswered })
    }
}

/// What a slow command did.
#[derive(Debug, Clone, Copy)]
struct What {
    place: u64,
    count: u32,
    again: u32,
}

#[derive(Default)]
struct Row {
    times: Times<M, What>,
    bytes: u64,
    width: u64,
    again: u64,
    incomplete: u64,
    unanswered: u64,
    failed: u64,
    /// Commands that the target's device had a part in.
    below: u64,
    protocol: u8,
    target: Option<u32>,
}

/// What makes a row: initiator, its device, target, address, kind.
type Key = (usize, Option<u32>, Option<usize>, SocketAddr, Kind);

/// Whose commands go to the same devices: initiator, target, address, logical unit or namespace.
type Unit = (usize, Option<usize>, SocketAddr, u32);

/// Times of all parts, and how far those on the way may be off, ns.
fn split(
    c: &Command,
    (client, server): (usize, usize),
    own: (u64, u64, u64),
    below: Option<(u64, u64)>,
    clocks: &Clocks,
) -> Option<([u64; M], u64)> {
    let t = c.target?;
    let (issued, completed) = below.unwrap_or((t.data, t.data));
    let theirs = [t.came, t.data, issued, completed, t.handed, t.answered, t.done];
    let (m, width) = between(clocks, (client, server), theirs, (c.sent, c.back))?;
    let (queued, issued, complete) = (own.0 as i64, own.1 as i64, own.2 as i64);
    let before = [queued, issued, c.handed as i64, c.sent as i64];
    let all = [&before[..], &m, &[c.back as i64, complete]].concat();
    Some((lengths(&all), width))
}

/// Counts the commands of all connections; `requests` and `states` by recording.
pub(super) fn command_rows(
    connections: &[Connection],
    requests: &[Requests],
    states: &[&State],
    clocks: &Clocks,
    names: &[&str],
    spans: &[(u64, u64)],
) -> Vec<CommandRow> {
    // All connections to one unit of one target go to the same devices.
    let mut units: BTreeMap<Unit, (Vec<&Command>, Vec<Kind>)> = BTreeMap::new();
    for connection in connections {
        let Places { client: Some(client), server, .. } = connection.places else { continue };
        let unit = |unit| (client, server, connection.address, unit);
        for c in &connection.commands {
            units.entry(unit(c.unit)).or_default().0.push(c);
        }
        for (kind, of) in &connection.unanswered {
            units.entry(unit(*of)).or_default().1.push(*kind);
        }
    }
    let mut rows: BTreeMap<Key, Row> = BTreeMap::new();
    let mut used = HashSet::new();
    for ((client, server, address, _), (mut commands, unanswered)) in units {
        commands.sort_by_key(|c| c.begin);
        let found = devices(&commands, &requests[client], server.map(|s| &requests[s]));
        let key = |kind| (client, found.initiator, server, address, kind);
        for kind in unanswered {
            rows.entry(key(kind)).or_default().unanswered += 1;
        }
        for c in commands {
            let own = found.initiator.and_then(|dev| requests[client].own(c, dev, &mut used));
            let row = rows.entry(key(c.kind)).or_default();
            row.count(c, &found);
            // Without a request of its own it begins and ends on the connection.
            let whole = own.map_or((c.begin, c.begin, c.back), |r| (r.queued, r.issued, r.completed));
            let below = c.target.zip(server).zip(found.target);
            let below = below.and_then(|((t, s), target)| requests[s].below(c, &t, target));
            row.below += u64::from(below.is_some());
            let parts = server.and_then(|s| split(c, (client, s), whole, below, clocks));
            // Of a device that is known each of its commands is.
            let known = own.is_some() || found.initiator.is_none() || c.kind == Kind::Other;
            row.incomplete += u64::from(!known || (server.is_some() && parts.is_none()));
            if let Some((_, width)) = parts {
                row.width = row.width.max(width);
            }
            row.times.add(Slow {
                took: whole.2.saturating_sub(whole.0),
                begin: whole.0,
                parts: parts.map(|p| p.0).filter(|_| known),
                what: What { place: c.place, count: c.count, again: c.again },
            });
        }
    }
    let mut told: Vec<(&Key, &Row)> = rows.iter().collect();
    told.sort_by_key(|(key, row)| (std::cmp::Reverse(row.times.took.sum), **key));
    told.truncate(MOST_ROWS);
    let name = |host: usize, dev: u32| {
        let disk = states[host].disks.iter().find(|d| d.dev == dev);
        disk.map_or_else(|| units::device(dev), |d| d.name.clone())
    };
    let row = |(key, row): (&Key, &Row)| {
        let (client, device, server, address, kind) = *key;
        let tail = row.times.tail();
        let target_device = server.zip(row.target).map(|(s, dev)| name(s, dev));
        let part = |i: usize| CommandPart {
            part: COMMAND_PARTS[i].into(),
            host: match i {
                i if ON_THE_WAY.contains(&i) => None,
                i if OF_CLIENT.contains(&i) => Some(names[client].into()),
                _ => server.map(|s| names[s].into()),
            },
            time: total(&row.times.parts[i]),
            p50: row.times.parts[i].quantile(0.5),
            p99: row.times.parts[i].quantile(0.99),
            slow: tail[i],
        };
        let slow = row.times.slowest(MOST_SLOW).map(|s| SlowCommand {
            begin: s.begin.saturating_sub(spans[client].0),
            took: s.took,
            place: s.what.place,
            bytes: s.what.count,
            parts: s.parts.map(Vec::from).unwrap_or_default(),
            again: s.what.again,
        });
        CommandRow {
            client: names[client].into(),
            device: device.map(|dev| name(client, dev)),
            server: server.map(|s| names[s].into()),
            server_device: target_device,
            address,
            protocol: protocol(row.protocol).into(),
            kind: kind.word().into(),
            commands: row.times.took.count,
            bytes: row.bytes,
            time: total(&row.times.took),
            p50: row.times.took.quantile(0.5),
            p99: row.times.took.quantile(0.99),
            max: row.times.took.max,
            width: row.width,
            again: row.again,
            failed: row.failed,
            incomplete: row.incomplete,
            unanswered: row.unanswered,
            complete: row.times.known(),
            on_device: row.below,
            parts: if row.times.known() > 0 { (0..M).map(part).collect() } else { Vec::new() },
            slow: slow.collect(),
        }
    };
    told.into_iter().map(row).collect()
}

impl Row {
    fn count(&mut self, c: &Command, found: &Devices) {
        self.bytes = self.bytes.saturating_add(u64::from(c.count));
        self.again += u64::from(c.again > 0);
        self.failed += u64::from(c.status != 0);
        self.protocol = c.protocol;
        self.target = found.target.map(|(dev, _)| dev).or(self.target);
    }
}

fn protocol(number: u8) -> &'static str {
    match number {
        1 => "iSCSI",
        2 => "NVMe/TCP",
        3 => "NBD",
        4 => "NFS",
        _ => "unknown protocol",
    }
}
