// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands of storage protocols, followed from the initiator's block layer over the connection to the target's
//! device and back. What a message is its header says; when it went and came its bytes say; which block request is
//! its own follows from where on the device it goes, and that it lies within that request's time.

use super::segments::{Flow, Message, Seen, Way};
use super::turns::Places;
use plumb_trace::kernel::req;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Kinds of messages, as in the documentation of `tcp_message`.
mod kind {
    pub const READ: u8 = 1;
    pub const WRITE: u8 = 2;
    pub const FLUSH: u8 = 3;
    pub const COMMAND: u8 = 4;
    pub const RESPONSE: u8 = 5;
    pub const DATA_OUT: u8 = 6;
    pub const DATA_IN: u8 = 7;
    pub const DATA_IN_LAST: u8 = 8;
    pub const LOST: u8 = 10;
}

/// Commands from which their devices are learned, and block requests that are looked at for each.
const MOST_VOTES: usize = 4_096;
const MOST_NEAR: usize = 256;
/// Block requests that are open at once with a command, at most: with damaged times all of them would be.
const MOST_OPEN: usize = 4_096;
/// A command without a response until then before the end of its connection has none, ns.
const UNANSWERED: u64 = 1_000_000_000;

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Read,
    Write,
    Flush,
    Other,
}

impl Kind {
    fn of(kind: u8) -> Option<Self> {
        match kind {
            kind::READ => Some(Self::Read),
            kind::WRITE => Some(Self::Write),
            kind::FLUSH => Some(Self::Flush),
            kind::COMMAND => Some(Self::Other),
            _ => None,
        }
    }

    /// The operation of a block request for it.
    fn op(self) -> Option<u32> {
        match self {
            Self::Read => Some(req::READ),
            Self::Write => Some(req::WRITE),
            Self::Flush => Some(req::FLUSH),
            Self::Other => None,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Other => "other",
        }
    }
}

/// A command and its response. Times are ns, each on its host's clock.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    pub kind: Kind,
    pub protocol: u8,
    /// Where on the device, bytes.
    pub place: u64,
    /// Bytes of data.
    pub count: u32,
    /// Logical unit or namespace.
    pub unit: u32,
    /// The target's word; 0: success.
    pub status: u16,
    /// Its first byte went out of TCP.
    pub begin: u64,
    /// Its last one did.
    pub handed: u64,
    /// Its last one went to the network driver.
    pub sent: u64,
    /// The last byte of the response came.
    pub back: u64,
    /// `None`: the target was not recorded, or not all of it was seen there.
    pub target: Option<Target>,
    /// Segments of its connection that were retransmitted meanwhile.
    pub again: u32,
}

/// The target's part of it.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its last byte came.
    pub came: u64,
    /// Its data had come that were sent when the target was ready for them; as `came` where there are none.
    pub data: u64,
    /// The first byte of the answer went out of TCP: of data, or of the response.
    pub handed: u64,
    /// It went to the network driver.
    pub answered: u64,
    /// The last one did.
    pub done: u64,
}

/// Both ends of a connection.
struct Ends<'a> {
    client: &'a Flow,
    server: Option<&'a Flow>,
    there: usize,
    back: usize,
    /// What is added to the server's numbers to make them the client's, of both ways.
    rounds: [i64; 2],
}

/// A message at both ends.
#[derive(Clone, Copy)]
struct Passed {
    message: Message,
    /// At the client: when its first byte, and its last one, were handed down, and the last one went out; or three times
    /// when the last one came.
    at: [u64; 3],
}

impl Ends<'_> {
    /// All messages of one way by number, from either end.
    fn messages(&self, way: usize, round: i64) -> Vec<Message> {
        let mut all: Vec<Message> = self.client.ways[way].messages.clone();
        let shift = |n: u64| n.wrapping_add_signed(round);
        all.extend(self.server.into_iter().flat_map(|s| &s.ways[way].messages).map(|m| Message {
            begin: shift(m.begin),
            end: shift(m.end),
            ..*m
        }));
        // What one end lost sight of the other may have.
        all.sort_by_key(|m| (m.begin, m.kind == kind::LOST));
        // Known messages leave no room for others: what lies within one is none.
        let mut end = 0;
        all.retain(|m| {
            let free = m.begin >= end;
            end = if free { m.end.max(m.begin + 1) } else { end };
            free
        });
        all
    }

    fn went(way: &Way, m: &Message) -> Option<[u64; 3]> {
        let (first, last) = (way.went(m.begin)?, way.went(m.end.checked_sub(1)?)?);
        Some([way.handed(first), way.handed(last), last.ts])
    }

    /// The target's part, with the messages of both ways by their first bytes.
    fn target(
        &self,
        command: &Message,
        data: Option<&Message>,
        first: &Message,
        last: &Message,
    ) -> Option<Target> {
        let server = self.server?;
        let (got, sent) = (&server.ways[self.there], &server.ways[self.back]);
        let on = |n: u64, round: i64| n.wrapping_add_signed(-round);
        let came_at = |m: &Message| got.all_came(on(m.begin, self.rounds[0]), on(m.end, self.rounds[0]));
        let came = came_at(command)?;
        let data = match data {
            Some(data) => came_at(data)?.max(came),
            None => came,
        };
        let answer = sent.went(on(first.begin, self.rounds[1]))?;
        let handed = sent.handed(answer).max(data);
        let answered = answer.ts.max(handed);
        let done = sent.went(on(last.end, self.rounds[1]).checked_sub(1)?)?.ts.max(answered);
        Some(Target { came, data, handed, answered, done })
    }
}

/// A command of which no response was seen: its kind and its unit.
pub type Unanswered = (Kind, u32);

/// A command that has no response yet.
struct Open {
    passed: Passed,
    data: Option<Message>,
    first: Option<Message>,
    /// The first error that was told.
    status: u16,
}

impl Open {
    fn unanswered(&self) -> Option<Unanswered> {
        let m = &self.passed.message;
        Some((Kind::of(m.kind)?, m.unit))
    }
}

/// The commands of a connection whose initiator was recorded, in the order of their responses, and those of which no
/// response was seen.
pub fn of_flow(seen: &[Seen], flow: u64, places: Places) -> (Vec<Command>, Vec<Unanswered>) {
    let (mut commands, mut lost) = (Vec::new(), Vec::new());
    let Some(client) = places.client.and_then(|n| seen[n].flows.get(&flow)) else { return (commands, lost) };
    let server = places.server.and_then(|n| seen[n].flows.get(&flow));
    let (there, back) = (usize::from(places.higher), usize::from(!places.higher));
    let round = |way: usize| server.map_or(0, |s| client.ways[way].round(&s.ways[way]));
    let ends = Ends { client, server, there, back, rounds: [round(there), round(back)] };
    let (sent, got) = (&client.ways[there], &client.ways[back]);
    let mut passed: Vec<Passed> = Vec::new();
    // Where no header is, a byte stands for what comes.
    let shown = |m: Message| if m.kind == kind::LOST { Message { end: m.begin + 1, ..m } } else { m };
    for message in ends.messages(there, ends.rounds[0]).into_iter().map(shown) {
        passed.extend(Ends::went(sent, &message).map(|at| Passed { message, at }));
    }
    for message in ends.messages(back, ends.rounds[1]).into_iter().map(shown) {
        let at = got.all_came(message.begin, message.end);
        passed.extend(at.map(|at| Passed { message, at: [at; 3] }));
    }
    // What came is there before what goes out at the same moment.
    passed.sort_by_key(|p| (p.at[2], p.message.kind < kind::RESPONSE));
    let end = passed.last().map_or(0, |p| p.at[2]);
    let mut open: BTreeMap<u64, Open> = BTreeMap::new();
    for p in passed {
        let m = p.message;
        match m.kind {
            kind::READ | kind::WRITE | kind::FLUSH | kind::COMMAND => {
                let new = Open { passed: p, data: None, first: None, status: 0 };
                lost.extend(open.insert(m.tag, new).and_then(|old| old.unanswered()));
            }
            kind::DATA_OUT => {
                if let Some(o) = open.get_mut(&m.tag) {
                    o.data = Some(m);
                }
            }
            kind::DATA_IN => {
                if let Some(o) = open.get_mut(&m.tag) {
                    o.first.get_or_insert(m);
                    o.status = if o.status == 0 { m.status } else { o.status };
                }
            }
            kind::RESPONSE | kind::DATA_IN_LAST => {
                let Some(o) = open.remove(&m.tag) else { continue };
                let command = o.passed.message;
                let Some(kind) = Kind::of(command.kind) else { continue };
                let [begin, handed, sent_at] = o.passed.at;
                // Damaged times are in any order.
                let handed = handed.max(begin);
                let sent_at = sent_at.max(handed);
                let first = o.first.unwrap_or(m);
                let again = |way: &Way, from: u64, to: u64| {
                    way.again
                        .partition_point(|t| *t <= to)
                        .saturating_sub(way.again.partition_point(|t| *t < from))
                };
                let target = ends.target(&command, o.data.as_ref(), &first, &m);
                let theirs = server.zip(target).map_or(0, |(s, t)| again(&s.ways[back], t.came, t.done));
                commands.push(Command {
                    kind,
                    protocol: command.protocol,
                    place: command.place,
                    count: command.count,
                    unit: command.unit,
                    status: if o.status == 0 { m.status } else { o.status },
                    begin,
                    handed,
                    sent: sent_at,
                    back: p.at[2].max(sent_at),
                    target,
                    again: (again(sent, begin, p.at[2]) + theirs) as u32,
                });
            }
            // Which response is whose is not known behind it: tags are used again.
            kind::LOST => lost.extend(std::mem::take(&mut open).values().filter_map(Open::unanswered)),
            _ => {}
        }
    }
    let old = open.values().filter(|o| o.passed.at[2].saturating_add(UNANSWERED) < end);
    lost.extend(old.filter_map(Open::unanswered));
    (commands, lost)
}

/// A block request, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub dev: u32,
    /// Operation; a flush is one whatever it came as.
    pub op: u32,
    /// First byte on the device.
    pub place: u64,
    pub count: u32,
    /// Queued, issued, completed.
    pub queued: u64,
    pub issued: u64,
    pub completed: u64,
}

/// The block requests of a recording, in the order in which they were issued.
#[derive(Debug, Default)]
pub struct Requests {
    all: Vec<Request>,
    /// Places in `all`, by operation and place.
    at: HashMap<(u32, u64), Vec<usize>>,
}

/// Where the commands of a connection go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Devices {
    /// The initiator's.
    pub initiator: Option<u32>,
    /// The target's, and how far behind the command's place there.
    pub target: Option<(u32, i64)>,
}

impl Requests {
    pub fn of(mut all: Vec<Request>) -> Self {
        all.sort_by_key(|r| (r.issued, r.dev, r.place));
        let mut at: HashMap<_, Vec<usize>> = HashMap::new();
        for (n, r) in all.iter().enumerate() {
            at.entry((r.op, if r.op == req::FLUSH { 0 } else { r.place })).or_default().push(n);
        }
        Self { all, at }
    }

    /// Of the initiator: those that a command may be for, the last issued first.
    fn around(&self, c: &Command) -> impl Iterator<Item = &Request> {
        let place = if c.kind == Kind::Flush { 0 } else { c.place };
        let those = c.kind.op().and_then(|op| self.at.get(&(op, place))).map_or(&[][..], Vec::as_slice);
        let before = those.partition_point(|n| self.all[*n].issued <= c.begin);
        let near = those[..before].iter().rev().take(MOST_NEAR).map(|n| &self.all[*n]);
        let (length, back) = (if c.kind == Kind::Flush { 0 } else { c.count }, c.back);
        near.filter(move |r| r.count == length && r.completed >= back)
    }

    /// Of the target: those that were issued between two moments.
    fn within(&self, from: u64, to: u64) -> impl Iterator<Item = &Request> {
        let first = self.all.partition_point(|r| r.issued < from);
        self.all[first..].iter().take_while(move |r| r.issued <= to).take(MOST_OPEN)
    }

    /// The initiator's request of a command on its device; each is one command's, so the earliest command has the first.
    pub fn own(&self, c: &Command, dev: u32, used: &mut HashSet<(u32, u64, u64)>) -> Option<Request> {
        let key = |r: &Request| (r.dev, r.issued, r.place);
        let free = |r: &&Request| r.dev == dev && !used.contains(&key(r));
        let found = *self.around(c).filter(free).last()?;
        used.insert(key(&found));
        Some(found)
    }

    /// When the target's device had a command first, and when it was done with it.
    pub fn below(&self, c: &Command, t: &Target, (dev, shift): (u32, i64)) -> Option<(u64, u64)> {
        let from = c.place.wrapping_add_signed(shift);
        let to = from.saturating_add(u64::from(c.count));
        let op = c.kind.op()?;
        let of = |r: &&Request| {
            let shares = r.place < to && from < r.place.saturating_add(u64::from(r.count));
            r.dev == dev && r.op == op && (op == req::FLUSH || shares) && r.completed <= t.done
        };
        let mut those = self.within(t.came, t.done).filter(of);
        let first = those.next()?;
        Some(those.fold((first.issued, first.completed), |(i, c), r| (i.min(r.issued), c.max(r.completed))))
    }
}

/// Learns the devices of commands that go to one unit of one target: what most of them agree with.
pub fn devices(commands: &[&Command], client: &Requests, server: Option<&Requests>) -> Devices {
    let (mut initiator, mut target) = (BTreeMap::<u32, usize>::new(), BTreeMap::<(u32, i64), usize>::new());
    let (mut asked, mut told) = (0, 0);
    let moving = |c: &&&Command| matches!(c.kind, Kind::Read | Kind::Write) && c.count > 0;
    for c in commands.iter().filter(moving).take(MOST_VOTES) {
        let mut own: Vec<u32> = client.around(c).map(|r| r.dev).collect();
        own.sort_unstable();
        own.dedup();
        asked += 1;
        for dev in own {
            *initiator.entry(dev).or_default() += 1;
        }
        let (Some(t), Some(server)) = (c.target, server) else { continue };
        let like = |r: &&Request| Some(r.op) == c.kind.op() && r.count == c.count && r.completed <= t.done;
        let near = server.within(t.came, t.done).filter(like).take(MOST_NEAR);
        let mut those: Vec<_> = near.map(|r| (r.dev, r.place.wrapping_sub(c.place) as i64)).collect();
        those.sort_unstable();
        those.dedup();
        told += usize::from(!those.is_empty());
        for one in those {
            *target.entry(one).or_default() += 1;
        }
    }
    // What the target has in memory has no request; a tenth of the commands is no accident.
    let found =
        target.into_iter().max_by_key(|((_, shift), n)| (*n, std::cmp::Reverse(shift.unsigned_abs())));
    Devices {
        initiator: initiator
            .into_iter()
            .max_by_key(|(_, n)| *n)
            .filter(|(_, n)| n * 2 > asked)
            .map(|(dev, _)| dev),
        target: found.filter(|(_, n)| n * 2 > told && n * 10 > asked).map(|(place, _)| place),
    }
}

#[cfg(test)]
mod tests;
