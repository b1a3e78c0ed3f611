// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests to a server, one at a time: a message out, the whole answer in, by calls that block.

use super::http::HEAD;
use super::reply::{Question, Reply};
use super::{receive, room_for, send_all, text_of, Address};
use crate::engine::{Action, Engine, EngineError, Operation, Setup};
use std::os::fd::{AsRawFd, OwnedFd};

/// A connection, and how many requests it had.
#[derive(Debug)]
struct Connection {
    fd: OwnedFd,
    requests: u64,
    reply: Reply,
}

/// Sends on connection `offset` and reads until the answer is whole.
///
/// A connection is opened when its first request is due, so that opening it is in that one's time.
#[derive(Debug)]
pub struct Requests {
    address: Address,
    connections: Vec<Option<Connection>>,
    /// Requests of a connection; 0: any number.
    each: u64,
    question: Question,
    received: Vec<u8>,
}

/// A server that is not there is no measurement.
pub(super) fn try_address(to: &str) -> Result<Address, EngineError> {
    let address = Address::of("--to", to)?;
    address
        .connect(true)
        .map_err(|e| EngineError(format!("--to {to}: {}; is the server up?", text_of(e))))?;
    Ok(address)
}

impl Engine for Requests {
    fn open(setup: &Setup<'_>) -> Result<Self, EngineError> {
        let job = setup.job;
        room_for(u64::from(job.connections) * u64::from(job.threads))?;
        let mut connections = Vec::new();
        connections.resize_with(job.connections as usize, || None);
        Ok(Requests {
            address: try_address(&job.to)?,
            connections,
            each: job.per_connection,
            question: Question::of(job),
            received: vec![0; HEAD],
        })
    }

    fn start(&mut self, operation: &Operation, _: u32) -> Option<i64> {
        if operation.action != Action::Request {
            return Some(-i64::from(libc::EOPNOTSUPP));
        }
        let number = operation.offset as usize % self.connections.len();
        let result = self.ask(number, operation);
        let over = |c: &Connection| c.reply.closes() || self.each > 0 && c.requests >= self.each;
        if result < 0 || self.connections[number].as_ref().is_some_and(over) {
            self.connections[number] = None;
        }
        Some(result)
    }
}

impl Requests {
    /// Bytes of the answer, or the negative error number.
    fn ask(&mut self, number: usize, operation: &Operation) -> i64 {
        let connection = match &mut self.connections[number] {
            Some(connection) => connection,
            none => match self.address.connect(true) {
                Ok((fd, _)) => none.insert(Connection { fd, requests: 0, reply: self.question.reply() }),
                Err(error) => return error,
            },
        };
        connection.requests += 1;
        let fd = connection.fd.as_raw_fd();
        // SAFETY: the slot's buffer has that many bytes, and nobody else uses it now.
        let message = unsafe { std::slice::from_raw_parts_mut(operation.buffer, operation.len as usize) };
        connection.reply.begin(message);
        let sent = send_all(fd, self.question.http.as_deref().unwrap_or(message));
        if sent < 0 {
            return sent;
        }
        loop {
            match receive(fd, &mut self.received) {
                0 if connection.reply.ended() => return connection.reply.bytes(),
                0 => return -i64::from(libc::ECONNRESET),
                // SO_RCVTIMEO says it so.
                error if error == -i64::from(libc::EAGAIN) => return -i64::from(libc::ETIMEDOUT),
                error if error < 0 => return error,
                came => match connection.reply.take(&self.received[..came as usize]) {
                    Ok(true) => return connection.reply.bytes(),
                    Ok(false) => {}
                    Err(error) => return error,
                },
            }
        }
    }
}
