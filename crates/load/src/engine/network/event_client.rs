// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests to a server on many connections at once: calls that do not block, and epoll(7).

use super::client::try_address;
use super::http::HEAD;
use super::readiness::{Epoll, Event, Readiness};
use super::reply::{Question, Reply};
use super::{errno, is_later, receive, room_for, send_some, Address, SILENCE};
use crate::engine::{Action, Done, Engine, EngineError, Operation, Setup, Wait};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// An operation that a connection works at, or that waits for it.
#[derive(Debug, Clone, Copy)]
struct Task {
    slot: u32,
    /// What is sent, unless HTTP says it; `sent` bytes of it are on their way.
    message: *mut u8,
    len: usize,
    sent: usize,
}

#[derive(Debug)]
struct Connection {
    fd: Option<OwnedFd>,
    reply: Reply,
    requests: u64,
    now: Option<Task>,
    /// It looks for room for output: it is being made, or a request went out in part.
    output: bool,
    /// Requests that are due on it while it has one.
    waiting: VecDeque<Task>,
}

/// A request goes out on a connection that is free: in a closed loop on the one that is free the longest, with
/// --burst on that of its session.
#[derive(Debug)]
pub struct EventRequests {
    address: Address,
    connections: Vec<Connection>,
    /// Connections without a request, the longest first.
    free: VecDeque<u32>,
    /// Which connection a descriptor is.
    numbers: Vec<u32>,
    sessions: bool,
    /// Requests of a connection; 0: any number.
    each: u64,
    question: Question,
    epoll: Epoll,
    events: Vec<Event>,
    received: Vec<u8>,
    /// Operations that ended and were not told.
    ended: Vec<Done>,
    /// Connections whose request ended and that have one waiting.
    next: Vec<u32>,
    /// Waits without end in a row that ended without anything, a second each.
    silent: u64,
}

impl Engine for EventRequests {
    fn open(setup: &Setup<'_>) -> Result<Self, EngineError> {
        let job = setup.job;
        room_for(u64::from(job.connections) * u64::from(job.threads))?;
        let mut question = Question::of(job);
        let connections = (0..job.connections)
            .map(|_| Connection {
                fd: None,
                reply: question.reply(),
                requests: 0,
                now: None,
                output: false,
                waiting: VecDeque::new(),
            })
            .collect();
        let epoll = Epoll::new().map_err(|e| {
            let error = std::io::Error::from_raw_os_error(e);
            EngineError(format!("epoll_create1: {error}; raise 'ulimit -n', or leave out --multiplex epoll"))
        })?;
        Ok(EventRequests {
            address: try_address(&job.to)?,
            connections,
            free: (0..job.connections).collect(),
            numbers: Vec::new(),
            sessions: job.burst > 0,
            each: job.per_connection,
            question,
            epoll,
            events: Vec::new(),
            received: vec![0; HEAD],
            ended: Vec::new(),
            next: Vec::new(),
            silent: 0,
        })
    }

    #[inline]
    fn start(&mut self, operation: &Operation, slot: u32) -> Option<i64> {
        if operation.action != Action::Request {
            return Some(-i64::from(libc::EOPNOTSUPP));
        }
        let task = Task { slot, message: operation.buffer, len: operation.len as usize, sent: 0 };
        let number = match self.sessions {
            true => operation.offset as usize % self.connections.len(),
            // There is one: no more are under way than there are connections.
            false => self.free.pop_front().unwrap_or_default() as usize,
        };
        let connection = &self.connections[number];
        if connection.now.is_some() || !connection.waiting.is_empty() {
            self.connections[number].waiting.push_back(task);
            return None;
        }
        self.begin(number, task);
        None
    }

    fn finish(&mut self, wait: Wait, done: &mut Vec<Done>) -> Result<(), i32> {
        let wait = if self.ended.is_empty() && self.next.is_empty() { wait } else { Wait::No };
        let mut events = std::mem::take(&mut self.events);
        self.epoll.wait(wait, &mut events)?;
        self.silent = if events.is_empty() && wait == Wait::Yes { self.silent + 1 } else { 0 };
        if self.silent >= SILENCE.as_secs() {
            self.silent = 0;
            for number in 0..self.connections.len() {
                self.over(number, -i64::from(libc::ETIMEDOUT));
            }
        }
        for event in events.drain(..) {
            self.happened(event);
        }
        self.events = events;
        // Not where the one before ended: a server that refuses would make that endlessly deep.
        while let Some(number) = self.next.pop() {
            if let Some(task) = self.connections[number as usize].waiting.pop_front() {
                self.begin(number as usize, task);
            }
        }
        done.append(&mut self.ended);
        Ok(())
    }
}

impl EventRequests {
    /// Begins a request on a connection that has none.
    fn begin(&mut self, number: usize, task: Task) {
        let connection = &mut self.connections[number];
        connection.now = Some(task);
        connection.requests += 1;
        // SAFETY: the slot's buffer has that many bytes, and nobody else uses it until the operation ends.
        connection.reply.begin(unsafe { std::slice::from_raw_parts_mut(task.message, task.len) });
        let made = match &connection.fd {
            Some(_) => true,
            None => match self.connect(number) {
                Ok(made) => made,
                Err(error) => return self.over(number, error),
            },
        };
        if made {
            self.send(number);
        }
    }

    /// Begins a connection; true when it is made already.
    fn connect(&mut self, number: usize) -> Result<bool, i64> {
        let (socket, made) = self.address.connect(false)?;
        let fd = socket.as_raw_fd();
        let connection = &mut self.connections[number];
        connection.reply = self.question.reply();
        if let Some(task) = connection.now {
            // SAFETY: as in `begin`.
            connection.reply.begin(unsafe { std::slice::from_raw_parts_mut(task.message, task.len) });
        }
        connection.output = !made;
        connection.fd = Some(socket);
        if self.numbers.len() <= fd as usize {
            self.numbers.resize(fd as usize + 1, 0);
        }
        self.numbers[fd as usize] = number as u32;
        let mut looks = self.epoll.add(fd, false);
        if !made {
            looks = looks.and_then(|()| self.epoll.output(fd, true));
        }
        looks.map(|()| made).map_err(|e| -i64::from(e))
    }

    fn send(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        let (Some(fd), Some(task)) = (&connection.fd, &mut connection.now) else { return };
        let fd = fd.as_raw_fd();
        // SAFETY: as in `begin`.
        let message = unsafe { std::slice::from_raw_parts(task.message, task.len) };
        let rest = &self.question.http.as_deref().unwrap_or(message)[task.sent..];
        let sent = send_some(fd, rest);
        let whole = sent == rest.len() as i64;
        if sent < 0 && !is_later(sent) {
            return self.over(number, sent);
        }
        task.sent += sent.max(0) as usize;
        if connection.output == whole {
            connection.output = !whole;
            if let Err(error) = self.epoll.output(fd, !whole) {
                self.over(number, -i64::from(error));
            }
        }
    }

    fn happened(&mut self, event: Event) {
        let number = self.numbers[event.fd as usize] as usize;
        let connection = &mut self.connections[number];
        // It may have been closed by an event before this one.
        if connection.fd.as_ref().is_none_or(|fd| fd.as_raw_fd() != event.fd) {
            return;
        }
        if event.output && connection.output {
            match error_of(event.fd) {
                0 => self.send(number),
                error => return self.over(number, -i64::from(error)),
            }
        }
        if event.input {
            self.read(number, event.fd);
        }
    }

    #[inline]
    fn read(&mut self, number: usize, fd: RawFd) {
        let connection = &mut self.connections[number];
        let came = receive(fd, &mut self.received);
        if came < 0 {
            if !is_later(came) {
                self.over(number, came);
            }
            return;
        }
        if connection.now.is_none() && !connection.reply.is_room() {
            // A server closes what it waits on for too long; that is no request's fault.
            self.close(number);
            return;
        }
        if came == 0 {
            let result = match connection.reply.ended() {
                true => connection.reply.bytes(),
                false => -i64::from(libc::ECONNRESET),
            };
            self.close(number);
            return self.over(number, result);
        }
        match connection.reply.take(&self.received[..came as usize]) {
            Ok(true) if connection.now.is_some() => {
                let result = connection.reply.bytes();
                self.over(number, result);
            }
            Ok(_) => {}
            Err(error) => self.over(number, error),
        }
    }

    fn close(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        if let Some(fd) = connection.fd.take() {
            self.epoll.remove(fd.as_raw_fd());
        }
        connection.output = false;
        // A session has its requests, on however many connections.
        if !self.sessions {
            connection.requests = 0;
        }
    }

    /// A connection's request ended, if it has one; the next one that waits for it begins.
    fn over(&mut self, number: usize, result: i64) {
        let connection = &mut self.connections[number];
        let Some(task) = connection.now.take() else { return };
        let full = self.each > 0 && connection.requests >= self.each;
        if result < 0 || full || connection.reply.closes() {
            self.close(number);
        }
        if full {
            self.connections[number].requests = 0;
        }
        self.ended.push(Done { slot: task.slot, result });
        match self.sessions {
            true if self.connections[number].waiting.is_empty() => {}
            true => self.next.push(number as u32),
            false => self.free.push_back(number as u32),
        }
    }
}

/// What went wrong with a connection that was being made; 0: nothing.
fn error_of(fd: RawFd) -> i32 {
    let (mut error, mut len) = (0i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: the option is an int.
    let asked = unsafe {
        let value = std::ptr::from_mut(&mut error).cast();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, value, &mut len)
    };
    if asked == 0 {
        error
    } else {
        errno()
    }
}
