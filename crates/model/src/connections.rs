// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections of a process, by descriptor: on which side of each it is, and whether a request is open on it. Not
//! the protocol decides but who connected, and the direction and order of what was sent and received.

use crate::files::Kind;
use rustc_hash::FxHashMap;

/// Connections that are remembered of one process.
const MOST: usize = 65_536;

/// Rounds of an event loop in which a peer may send, or be sent to, without an answer; beyond, none is expected.
const UNANSWERED: u8 = 32;
/// The same where the peer has never answered yet: many are only told something (syslog, statsd).
const NEVER_ANSWERED: u8 = 4;

/// On which side of a connection a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It accepted the connection, and is sent requests.
    Server,
    /// It connected, and sends requests.
    Client,
    /// Not known, and not to be learnt from what is seen first: an exchange may have been under way.
    Either,
}

/// What may end a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expects {
    /// Anything.
    Unknown,
    /// A request of a client: the thread has none.
    Request,
    /// The reply to a request that the thread sent.
    Reply,
    /// Something that a client's request needs, which the thread has and has not answered.
    Progress,
}

#[derive(Debug, Clone, Copy)]
struct Connection {
    side: Side,
    /// A request was received (server) or sent (client) and is not answered.
    open: bool,
    /// It is one of its thread's, see [`Connections::threads`].
    counted: bool,
    /// Thread that received or sent it.
    holder: u32,
    /// When; while none is open, when the last was answered, ns.
    since: u64,
    /// From when it came until it was received, ns.
    unread: u64,
    /// Round of the process in which that was done last.
    round: u32,
    /// Rounds without an answer.
    unanswered: u8,
    /// Rounds that may go without an answer.
    patience: u8,
}

/// What a call did for a request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    Received,
    /// The first of its answer was sent; it had come at `since`, ns: where that is not known, it was received then.
    Answered {
        since: u64,
    },
}

/// Requests that were answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answered {
    pub requests: u64,
    /// From the arrival of a request to the first that was sent back, ns.
    pub time: u64,
    pub longest: u64,
    /// Of the time, until they were received, ns.
    pub unread: u64,
}

impl Answered {
    pub fn merge(&mut self, other: &Answered) {
        self.requests += other.requests;
        self.time += other.time;
        self.longest = self.longest.max(other.longest);
        self.unread += other.unread;
    }
}

#[derive(Debug, Default)]
pub struct Connections {
    of: FxHashMap<u32, Connection>,
    /// Open requests by thread: received, sent.
    threads: FxHashMap<u32, [u32; 2]>,
    /// It listens, or has accepted a connection.
    pub serves: bool,
    /// Waits for several descriptors that returned.
    round: u32,
    pub answered: Answered,
}

impl Connections {
    /// A descriptor is a connection.
    pub fn insert(&mut self, fd: u32, side: Side) {
        let patience = match side {
            Side::Server => UNANSWERED,
            Side::Client => NEVER_ANSWERED,
            Side::Either => 0,
        };
        self.put(fd, side, patience);
    }

    fn put(&mut self, fd: u32, side: Side, patience: u8) {
        self.remove(fd);
        self.serves |= side == Side::Server && patience > 0;
        let c = Connection {
            side,
            open: false,
            counted: false,
            holder: 0,
            since: 0,
            unread: 0,
            round: 0,
            unanswered: 0,
            patience,
        };
        if self.of.len() < MOST {
            self.of.insert(fd, c);
        }
    }

    /// A descriptor waits for connections.
    pub fn listen(&mut self) {
        self.serves = true;
    }

    fn remove(&mut self, fd: u32) {
        if let Some(c) = self.of.remove(&fd) {
            self.uncount(c);
        }
    }

    fn uncount(&mut self, c: Connection) {
        if !c.counted {
            return;
        }
        if let Some(open) = self.threads.get_mut(&c.holder) {
            open[c.side as usize] -= 1;
            if *open == [0, 0] {
                self.threads.remove(&c.holder);
            }
        }
    }

    /// Nothing is recorded for a while: which requests are open is not known any more.
    pub fn pause(&mut self) {
        self.of.values_mut().for_each(|c| (c.open, c.counted) = (false, false));
        self.threads.clear();
    }

    /// What is known of them, without what was counted.
    pub fn carried(&self) -> Self {
        Self {
            of: self.of.clone(),
            threads: self.threads.clone(),
            round: self.round,
            serves: self.serves,
            ..Self::default()
        }
    }

    /// Those of a child process at its birth.
    pub fn inherited(&self) -> Self {
        let fresh = |(fd, c): (&u32, &Connection)| (*fd, Connection { open: false, counted: false, ..*c });
        Self { of: self.of.iter().map(fresh).collect(), serves: self.serves, ..Self::default() }
    }

    /// A thread's call returned `ret` at `ts`; `arrived`: when what woke it came, 0 where that is not known.
    pub fn call(
        &mut self,
        kind: Option<Kind>,
        fd: u32,
        ret: i64,
        tid: u32,
        (ts, arrived): (u64, u64),
    ) -> Option<Exchange> {
        // Before the first moment that is accounted all arrives at that moment.
        let came = if arrived == 0 { ts } else { arrived.min(ts) };
        const EINPROGRESS: i64 = -115;
        match kind? {
            Kind::Accept if ret >= 0 => self.insert(ret as u32, Side::Server),
            Kind::Connect if ret == 0 || ret == EINPROGRESS => self.insert(fd, Side::Client),
            Kind::Poll => self.round = self.round.wrapping_add(1),
            Kind::Receive if ret > 0 => return self.received(fd, tid, (ts, came), true),
            Kind::Send if ret > 0 => return self.sent(fd, tid, ts, true),
            _ if self.of.is_empty() => {}
            Kind::Read if ret > 0 => return self.received(fd, tid, (ts, came), false),
            Kind::Write if ret > 0 => return self.sent(fd, tid, ts, false),
            // The other end was closed: no answer comes any more.
            Kind::Receive | Kind::Read if ret == 0 => {
                self.end(fd, Side::Client, ts);
            }
            Kind::Close => self.remove(fd),
            Kind::Open if ret >= 0 => self.remove(ret as u32),
            Kind::Duplicate if ret >= 0 && ret as u32 != fd => {
                self.remove(ret as u32);
                if let Some(c) = self.of.get(&fd).copied().filter(|_| self.of.len() < MOST) {
                    self.of.insert(ret as u32, Connection { open: false, counted: false, ..c });
                }
            }
            _ => {}
        }
        None
    }

    /// `socket`: only a socket can be received from so.
    fn received(&mut self, fd: u32, tid: u32, (ts, came): (u64, u64), socket: bool) -> Option<Exchange> {
        match self.of.get(&fd).map(|c| c.side) {
            Some(Side::Server) => self.begin(fd, tid, (ts, came)),
            Some(Side::Client) => {
                self.end(fd, Side::Client, ts);
                return None;
            }
            // The first that is known of it: somebody sends it requests.
            None if socket => {
                self.put(fd, Side::Server, 0);
                self.begin(fd, tid, (ts, came));
            }
            Some(Side::Either) | None => return None,
        }
        Some(Exchange::Received)
    }

    fn sent(&mut self, fd: u32, tid: u32, ts: u64, socket: bool) -> Option<Exchange> {
        match self.of.get(&fd).map(|c| c.side) {
            Some(Side::Server) => return self.end(fd, Side::Server, ts),
            Some(Side::Client) => self.begin(fd, tid, (ts, ts)),
            None if socket => {
                self.put(fd, Side::Client, 0);
                self.begin(fd, tid, (ts, ts));
            }
            Some(Side::Either) | None => {}
        }
        None
    }

    /// Requests that are not answered: thread that received each, and when, ns.
    pub fn open(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let open = self.of.values().filter(|c| c.counted && c.side == Side::Server);
        open.map(|c| (c.holder, c.since))
    }

    /// A request, or more of it, is received at `ts` and came at `came`: the first of it no earlier than the last answer went.
    fn begin(&mut self, fd: u32, tid: u32, (ts, came): (u64, u64)) {
        let round = self.round;
        let Some(c) = self.of.get_mut(&fd) else { return };
        let was = *c;
        if !c.open {
            (c.open, c.since, c.unanswered) = (true, came.max(c.since), 0);
            c.unread = ts.saturating_sub(c.since);
        } else if c.round != round {
            c.unanswered = c.unanswered.saturating_add(1);
        }
        (c.round, c.holder) = (round, tid);
        c.counted = c.unanswered < c.patience;
        let now = *c;
        if (was.counted, was.holder) != (now.counted, now.holder) {
            self.uncount(was);
            if now.counted {
                self.threads.entry(tid).or_default()[now.side as usize] += 1;
            }
        }
    }

    /// The answer to a request, or more of it.
    fn end(&mut self, fd: u32, side: Side, ts: u64) -> Option<Exchange> {
        let c = self.of.get_mut(&fd).filter(|c| c.side == side && c.open)?;
        let was = *c;
        (c.open, c.counted, c.patience, c.since) = (false, false, UNANSWERED, ts);
        self.uncount(was);
        if side == Side::Server {
            self.serves = true;
            let time = ts.saturating_sub(was.since);
            self.answered.merge(&Answered { requests: 1, time, longest: time, unread: was.unread });
        }
        (side == Side::Server).then_some(Exchange::Answered { since: was.since })
    }

    /// What may end a thread's wait in a call of that kind; `fd`: where it is known. `serves`: another process
    /// serves for it.
    pub fn expects(&self, tid: u32, kind: Option<Kind>, fd: Option<u32>, serves: bool) -> Expects {
        let [received, sent] = self.threads.get(&tid).copied().unwrap_or_default();
        let in_progress = if received > 0 { Expects::Progress } else { Expects::Unknown };
        match kind {
            Some(Kind::Accept) => return Expects::Request,
            Some(Kind::Connect) => return Expects::Reply,
            Some(Kind::Receive | Kind::Read | Kind::Send | Kind::Write) => {
                let Some(fd) = fd else { return in_progress };
                let sends = matches!(kind, Some(Kind::Send | Kind::Write));
                return match self.of.get(&fd) {
                    Some(Connection { side: Side::Client, .. }) => Expects::Reply,
                    Some(c) if c.side == Side::Server && (c.open || sends) => Expects::Progress,
                    Some(Connection { side: Side::Server, .. }) => Expects::Request,
                    Some(_) | None => in_progress,
                };
            }
            _ => {}
        }
        match (sent, received) {
            (1.., _) if kind == Some(Kind::Poll) => Expects::Reply,
            (_, 1..) => Expects::Progress,
            (0, 0) if serves || self.serves => Expects::Request,
            _ => Expects::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: u32 = 7;

    fn call(c: &mut Connections, kind: Kind, fd: u32, ret: i64, ts: u64) {
        c.call(Some(kind), fd, ret, ME, (ts, 0));
    }

    fn polls(c: &Connections) -> Expects {
        c.expects(ME, Some(Kind::Poll), None, false)
    }

    #[test]
    fn a_server_is_idle_between_requests() {
        let mut c = Connections::default();
        assert_eq!(polls(&c), Expects::Unknown, "nothing is known of it");
        call(&mut c, Kind::Accept, 3, 5, 10);
        assert_eq!(polls(&c), Expects::Request);
        assert_eq!(c.expects(ME, Some(Kind::Receive), Some(5), false), Expects::Request);
        call(&mut c, Kind::Read, 5, 100, 20);
        assert_eq!((polls(&c), c.expects(ME, None, None, false)), (Expects::Progress, Expects::Progress));
        assert_eq!(c.expects(ME + 1, None, None, false), Expects::Request, "another thread has none");
        // A worker answers it.
        c.call(Some(Kind::Write), 5, 100, ME + 1, (120, 0));
        assert_eq!(polls(&c), Expects::Request);
        assert_eq!(c.answered, Answered { requests: 1, time: 100, longest: 100, unread: 0 });
        call(&mut c, Kind::Receive, 5, 1, 130);
        call(&mut c, Kind::Close, 5, 0, 140);
        assert_eq!((polls(&c), c.threads.len()), (Expects::Request, 0));
    }

    #[test]
    fn a_request_comes_before_it_is_received_and_after_the_last_answer() {
        let mut c = Connections::default();
        call(&mut c, Kind::Accept, 3, 5, 10);
        c.call(Some(Kind::Receive), 5, 100, ME, (50, 20));
        call(&mut c, Kind::Send, 5, 100, 60);
        c.call(Some(Kind::Receive), 5, 100, ME, (80, 20));
        call(&mut c, Kind::Send, 5, 100, 90);
        assert_eq!(c.answered, Answered { requests: 2, time: 40 + 30, longest: 40, unread: 30 + 20 });
    }

    #[test]
    fn a_proxy_waits_for_its_upstream() {
        let mut c = Connections::default();
        call(&mut c, Kind::Accept, 3, 5, 10);
        call(&mut c, Kind::Receive, 5, 100, 20);
        call(&mut c, Kind::Connect, 6, -115, 30);
        call(&mut c, Kind::Send, 6, 100, 40);
        assert_eq!(polls(&c), Expects::Reply);
        assert_eq!(c.expects(ME, Some(Kind::Receive), Some(6), false), Expects::Reply);
        call(&mut c, Kind::Receive, 6, -11, 50);
        assert_eq!(polls(&c), Expects::Reply, "nothing came");
        call(&mut c, Kind::Receive, 6, 10, 60);
        assert_eq!(polls(&c), Expects::Progress);
        call(&mut c, Kind::Send, 5, 10, 70);
        assert_eq!(polls(&c), Expects::Request);
    }

    #[test]
    fn who_is_only_told_something_is_not_waited_for() {
        let mut c = Connections::default();
        c.insert(6, Side::Client);
        for round in 0..10u8 {
            call(&mut c, Kind::Send, 6, 10, 10);
            call(&mut c, Kind::Send, 6, 10, 10);
            let expected = if round < NEVER_ANSWERED { Expects::Reply } else { Expects::Unknown };
            assert_eq!(polls(&c), expected, "{round}");
            call(&mut c, Kind::Poll, 0, 1, 20);
        }
        c.insert(9, Side::Either);
        call(&mut c, Kind::Receive, 9, 10, 30);
        assert_eq!(polls(&c), Expects::Unknown);
        // Whose side is known from the order alone must answer once before it is waited for.
        call(&mut c, Kind::Send, 8, 10, 30);
        assert_eq!(polls(&c), Expects::Unknown);
        call(&mut c, Kind::Receive, 8, 10, 40);
        call(&mut c, Kind::Send, 8, 10, 50);
        assert_eq!(polls(&c), Expects::Reply);
        assert_eq!(c.answered, Answered::default(), "it serves nobody");
    }

    #[test]
    fn a_child_has_its_parents_connections() {
        let mut parent = Connections::default();
        call(&mut parent, Kind::Accept, 3, 5, 10);
        call(&mut parent, Kind::Receive, 5, 10, 20);
        let mut child = parent.inherited();
        assert_eq!(polls(&child), Expects::Request);
        call(&mut child, Kind::Receive, 5, 10, 30);
        assert_eq!(polls(&child), Expects::Progress);
        call(&mut child, Kind::Duplicate, 5, 9, 40);
        call(&mut child, Kind::Send, 9, 10, 50);
        assert_eq!(polls(&child), Expects::Progress, "the number, not the socket, is known");
    }
}
