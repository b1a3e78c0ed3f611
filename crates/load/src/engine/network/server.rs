// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A server that answers each request with the same bytes: one connection at a time by calls that block, or many by
//! select, poll or epoll.
//!
//! An operation is an answer: it begins when its request has been read, and ends when its last byte has been handed
//! to the kernel, or waits for room there.

use super::http::{Heads, HEAD};
use super::readiness::{self, Event, Readiness};
use super::rooms::{self, Place};
use super::{is_later, no_delay, receive, room_for, send_all, send_some, timeout, SILENCE, TURN};
use crate::engine::{errno, Engine, EngineError, Operation, Setup, Wait};
use crate::job::Job;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Connections that a server has descriptors for, where the limit can be raised.
const MOST: u64 = 65_536;
/// Events without a whole request, after which a server looks whether it should end.
pub(super) const STEPS: u32 = 256;
/// Bytes of answers that wait for room in the kernel; a connection with more is closed.
const BACKLOG: usize = 16 << 20;

/// What a server is told of requests and answers.
#[derive(Debug)]
pub struct Service {
    http: bool,
    /// Bytes of a request that is not HTTP's.
    request: usize,
    pub answer: Vec<u8>,
    /// Connections of a room; 0: there are none.
    room: usize,
    listen: String,
}

impl Service {
    pub fn of(job: &Job) -> Self {
        let length = job.reply.0 as usize;
        let mut answer = match job.http.is_empty() {
            true => Vec::new(),
            false => {
                format!("HTTP/1.1 200 OK\r\nServer: plumb\r\nContent-Length: {length}\r\n\r\n").into_bytes()
            }
        };
        answer.resize(answer.len() + length, b'x');
        Service {
            http: !job.http.is_empty(),
            request: job.block.0 as usize,
            answer,
            room: job.room as usize,
            listen: job.listen.clone(),
        }
    }

    /// Of a new connection.
    pub fn asked(&self) -> Asked {
        match (self.http, self.room) {
            (true, _) => Asked::Http(Heads::default()),
            (false, 0) => Asked::Bytes { each: self.request, have: 0 },
            (false, _) => Asked::Message { each: self.request, have: Vec::new() },
        }
    }

    /// Sends a connection's first message to its room; None: there are no rooms. A room is entered with the first
    /// message, so that who only looks whether there is a server has no place.
    fn tell(&self, connection: &mut Connection) -> Option<i64> {
        let Connection { fd, asked: Asked::Message { each, have }, place, .. } = connection else {
            return None;
        };
        let told = place.get_or_insert_with(|| Place::take(&self.listen, self.room, fd)).tell(&have[..*each]);
        have.drain(..*each);
        Some(told)
    }
}

/// The requests of a connection, as far as they have come.
#[derive(Debug)]
pub enum Asked {
    Bytes { each: usize, have: usize },
    Http(Heads),
    Message { each: usize, have: Vec<u8> },
}

impl Asked {
    /// Requests that are whole by these bytes; None: they are none.
    pub fn take(&mut self, bytes: &[u8]) -> Option<u32> {
        match self {
            Asked::Bytes { each, have } => {
                *have += bytes.len();
                let whole = *have / *each;
                *have %= *each;
                Some(whole as u32)
            }
            Asked::Http(heads) => heads.take(bytes),
            Asked::Message { each, have } => {
                have.extend_from_slice(bytes);
                Some((have.len() / *each) as u32)
            }
        }
    }
}

/// The next connection of a socket that listens; None: there is none now.
fn accept(listener: RawFd, flags: i32) -> Result<Option<OwnedFd>, i32> {
    let null = std::ptr::null_mut();
    // SAFETY: nobody asks for the peer's name; the descriptor is new and ours.
    unsafe {
        let fd = libc::accept4(listener, null, null.cast(), libc::SOCK_CLOEXEC | flags);
        if fd >= 0 {
            no_delay(fd);
            return Ok(Some(OwnedFd::from_raw_fd(fd)));
        }
    }
    match errno() {
        // The peer is gone again, or there are too many: the others go on.
        libc::EAGAIN | libc::EINTR | libc::ECONNABORTED | libc::EMFILE | libc::ENFILE => Ok(None),
        error => Err(error),
    }
}

#[derive(Debug)]
struct Connection {
    fd: Arc<OwnedFd>,
    asked: Asked,
    place: Option<Place>,
    /// What the kernel had no room for.
    left: Vec<u8>,
}

/// Many connections; `R` tells which of them there is something to read on.
#[derive(Debug)]
pub struct EventServer<R> {
    service: Service,
    ready: R,
    listener: RawFd,
    /// By descriptor.
    connections: Vec<Option<Connection>>,
    events: VecDeque<Event>,
    said: Vec<Event>,
    received: Vec<u8>,
    /// Whose requests are whole, and how many.
    whole: (RawFd, u32),
}

pub type SelectServer = EventServer<readiness::Select>;
pub type PollServer = EventServer<readiness::Poll>;
pub type EpollServer = EventServer<readiness::Epoll>;
pub type EpollEdgeServer = EventServer<readiness::EpollEdge>;
pub type EpollExclusiveServer = EventServer<readiness::EpollExclusive>;

impl<R: Readiness> Engine for EventServer<R> {
    const SERVES: bool = true;

    fn open(setup: &Setup<'_>) -> Result<Self, EngineError> {
        // With fewer it serves fewer.
        let _ = room_for(MOST);
        let failed = |e| {
            let error = std::io::Error::from_raw_os_error(e);
            EngineError(format!("--multiplex {}: {error}; raise 'ulimit -n'", setup.job.multiplex))
        };
        let mut ready = R::new().map_err(failed)?;
        ready.add(setup.listener, true).map_err(failed)?;
        Ok(EventServer {
            service: Service::of(setup.job),
            ready,
            listener: setup.listener,
            connections: Vec::new(),
            events: VecDeque::new(),
            said: Vec::new(),
            received: vec![0; HEAD],
            whole: (-1, 0),
        })
    }

    fn ready(&mut self, ns: u64) -> Result<bool, i32> {
        for _ in 0..STEPS {
            if self.whole.1 > 0 {
                return Ok(true);
            }
            let Some(event) = self.events.pop_front() else {
                self.ready.wait(Wait::For(ns), &mut self.said)?;
                if self.said.is_empty() {
                    return Ok(false);
                }
                self.events.extend(self.said.drain(..));
                continue;
            };
            if event.fd == self.listener {
                self.accept()?;
            } else {
                self.happened(event);
            }
        }
        Ok(self.whole.1 > 0)
    }

    #[inline]
    fn start(&mut self, _: &Operation, _: u32) -> Option<i64> {
        let fd = self.whole.0;
        self.whole.1 -= 1;
        let result = self.answer(fd);
        if result < 0 {
            self.drop_connection(fd);
        }
        Some(result)
    }

    /// Sends what the kernel had no room for.
    fn close(&mut self) -> i64 {
        let left = self.connections.iter().flatten().filter(|c| !c.left.is_empty());
        left.for_each(|connection| _ = rooms::whole(&connection.fd, &connection.left));
        0
    }
}

impl<R: Readiness> EventServer<R> {
    /// All connections that wait; where several look at the socket, each takes one, so that all have some.
    fn accept(&mut self) -> Result<(), i32> {
        while let Some(socket) = accept(self.listener, libc::SOCK_NONBLOCK)? {
            let fd = socket.as_raw_fd();
            let socket = Arc::new(socket);
            if self.connections.len() <= fd as usize {
                self.connections.resize_with(fd as usize + 1, || None);
            }
            if self.ready.add(fd, false).is_err() {
                continue;
            }
            let asked = self.service.asked();
            self.connections[fd as usize] =
                Some(Connection { fd: socket, asked, place: None, left: Vec::new() });
            if !R::EDGE {
                break;
            }
        }
        Ok(())
    }

    fn happened(&mut self, event: Event) {
        let Some(Some(connection)) = self.connections.get_mut(event.fd as usize) else { return };
        if event.output && !connection.left.is_empty() {
            let sent = send_some(event.fd, &connection.left);
            if sent < 0 && !is_later(sent) {
                return self.drop_connection(event.fd);
            }
            connection.left.drain(..sent.max(0) as usize);
            if connection.left.is_empty() && self.ready.output(event.fd, false).is_err() {
                return self.drop_connection(event.fd);
            }
        }
        let Some(Some(connection)) = self.connections.get_mut(event.fd as usize) else { return };
        if !event.input {
            return;
        }
        let came = receive(event.fd, &mut self.received);
        if came <= 0 {
            if !is_later(came) {
                self.drop_connection(event.fd);
            }
            return;
        }
        if R::EDGE {
            // It is told once: reads until nothing is left.
            self.events.push_front(Event { output: false, ..event });
        }
        match connection.asked.take(&self.received[..came as usize]) {
            Some(whole) => self.whole = (event.fd, whole),
            None => self.drop_connection(event.fd),
        }
    }

    fn answer(&mut self, fd: RawFd) -> i64 {
        let Some(Some(connection)) = self.connections.get_mut(fd as usize) else {
            return -i64::from(libc::ECONNRESET);
        };
        if let Some(told) = self.service.tell(connection) {
            return told;
        }
        let answer = &self.service.answer;
        let mut sent = 0;
        if connection.left.is_empty() {
            match send_some(fd, answer) {
                error if error < 0 && !is_later(error) => return error,
                taken => sent = taken.max(0) as usize,
            }
            if sent == answer.len() {
                return sent as i64;
            }
            if let Err(error) = self.ready.output(fd, true) {
                return -i64::from(error);
            }
        }
        // Of those before: one answer alone may be longer.
        if connection.left.len() > BACKLOG {
            return -i64::from(libc::ENOBUFS);
        }
        connection.left.extend_from_slice(&answer[sent..]);
        answer.len() as i64
    }

    fn drop_connection(&mut self, fd: RawFd) {
        if self.whole.0 == fd {
            self.whole = (-1, 0);
        }
        if let Some(connection) = self.connections.get_mut(fd as usize).and_then(Option::take) {
            self.ready.remove(connection.fd.as_raw_fd());
        }
    }
}

/// One connection at a time, from its begin to its end: as many at once as there are workers.
#[derive(Debug)]
pub struct BlockingServer {
    service: Service,
    listener: RawFd,
    connection: Option<Connection>,
    received: Vec<u8>,
    whole: u32,
}

impl Engine for BlockingServer {
    const SERVES: bool = true;

    fn open(setup: &Setup<'_>) -> Result<Self, EngineError> {
        let _ = room_for(MOST);
        Ok(BlockingServer {
            service: Service::of(setup.job),
            listener: setup.listener,
            connection: None,
            received: vec![0; HEAD],
            whole: 0,
        })
    }

    /// Waits for a [`TURN`] at most, which its sockets were told.
    fn ready(&mut self, _: u64) -> Result<bool, i32> {
        while self.whole == 0 {
            let Some(connection) = &mut self.connection else {
                let Some(socket) = accept(self.listener, 0)? else { return Ok(false) };
                let fd = socket.as_raw_fd();
                let limits = timeout(fd, libc::SO_RCVTIMEO, TURN)
                    .and_then(|()| timeout(fd, libc::SO_SNDTIMEO, SILENCE));
                let fd = Arc::new(socket);
                let asked = self.service.asked();
                self.connection =
                    limits.is_ok().then(|| Connection { fd, asked, place: None, left: Vec::new() });
                continue;
            };
            let came = receive(connection.fd.as_raw_fd(), &mut self.received);
            if is_later(came) {
                return Ok(false);
            }
            let whole = match came {
                1.. => connection.asked.take(&self.received[..came as usize]),
                _ => None,
            };
            match whole {
                Some(whole) => self.whole = whole,
                None => self.connection = None,
            }
        }
        Ok(true)
    }

    #[inline]
    fn start(&mut self, _: &Operation, _: u32) -> Option<i64> {
        self.whole -= 1;
        let Some(connection) = &mut self.connection else { return Some(-i64::from(libc::ECONNRESET)) };
        let answer = &self.service.answer;
        let result = match self.service.tell(connection) {
            Some(told) => told,
            None => match send_all(connection.fd.as_raw_fd(), answer) {
                0 => answer.len() as i64,
                error => error,
            },
        };
        if result < 0 {
            (self.connection, self.whole) = (None, 0);
        }
        Some(result)
    }
}
