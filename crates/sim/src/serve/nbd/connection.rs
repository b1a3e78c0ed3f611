// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The second phase: requests of a client, and their replies.

use super::wire::*;
use crate::device::Operation;
use crate::serve::realtime::{Answer, Front, Job, Realtime};
use std::fs::File;
use std::io::{self, BufReader, IoSlice, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Requests of a client that are under way at once; it waits with more.
const UNDER_WAY: usize = 256;
/// Bytes of these, and of replies that it has not taken yet.
const BYTES: u64 = 64 << 20;
/// Most bytes that are made zero in one request. What was there is kept until a flush.
const ZEROES: u32 = 128 << 20;

/// A request, as it is on the wire before a write's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    flags: u16,
    command: u16,
    cookie: u64,
    offset: u64,
    length: u32,
}

impl Head {
    const BYTES: usize = 28;

    /// None: this is no request, and nobody knows where the next one begins.
    fn parse(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let long = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_be_bytes);
        let word = |at: usize| bytes[at..at + 4].try_into().map_or(0, u32::from_be_bytes);
        let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        (word(0) == REQUEST).then(|| Self {
            flags: half(4),
            command: half(6),
            cookie: long(8),
            offset: long(16),
            length: word(24),
        })
    }

    /// What the disk is asked for; an errno for what it is not.
    fn operation(&self, size: u64) -> Result<Operation, i32> {
        let (operation, flags, most, beyond) = match self.command {
            CMD_READ => (Operation::Read, CMD_FLAG_FUA, PAYLOAD, libc::EINVAL),
            CMD_WRITE => (Operation::Write, CMD_FLAG_FUA, PAYLOAD, libc::ENOSPC),
            CMD_TRIM => (Operation::Discard, CMD_FLAG_FUA, u32::MAX, libc::EINVAL),
            CMD_WRITE_ZEROES => (Operation::Write, CMD_FLAG_FUA | CMD_FLAG_NO_HOLE, ZEROES, libc::ENOSPC),
            CMD_FLUSH if self.offset == 0 && self.length == 0 => {
                (Operation::Flush, CMD_FLAG_FUA, 0, libc::EINVAL)
            }
            _ => return Err(libc::EINVAL),
        };
        if self.flags & !flags != 0 || self.length > most {
            return Err(libc::EINVAL);
        }
        match self.offset.checked_add(self.length.into()) {
            Some(end) if end <= size => Ok(operation),
            _ => Err(beyond),
        }
    }
}

/// A request that is under way.
#[derive(Clone, Copy)]
struct Ticket {
    /// The client's word for it.
    cookie: u64,
    /// Memory that it takes here.
    bytes: u64,
}

#[derive(Default)]
struct Out {
    /// By token. None: the token is free.
    tickets: Vec<Option<Ticket>>,
    free: Vec<u64>,
    bytes: u64,
    /// Replies that the client was too slow for.
    waiting: Vec<u8>,
    /// A request waits for room.
    full: bool,
    /// The writer sends what was waiting.
    sending: bool,
    /// The client is gone: replies have nobody to go to.
    gone: bool,
    /// No request will come any more.
    ending: bool,
}

impl Out {
    fn under_way(&self) -> usize {
        self.tickets.len() - self.free.len()
    }
}

struct Connection {
    socket: Arc<File>,
    out: Mutex<Out>,
    /// There is room for a request. Apart from `work`, so that a reply wakes nobody in vain.
    room: Condvar,
    /// The writer has something to do.
    work: Condvar,
}

impl Connection {
    fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A token for a request that takes so much memory, when there is room for it. None: the
    /// client is gone.
    fn begin(&self, cookie: u64, bytes: u64) -> Option<u64> {
        let full = |out: &Out| {
            let held = out.bytes + out.waiting.len() as u64;
            out.under_way() >= UNDER_WAY || (held > 0 && held + bytes > BYTES)
        };
        let mut out = self.out();
        if !out.gone && full(&out) {
            out.full = true;
            let room = self.room.wait_while(out, |out| !out.gone && full(out));
            out = room.unwrap_or_else(PoisonError::into_inner);
            out.full = false;
        }
        if out.gone {
            return None;
        }
        out.bytes += bytes;
        let token = out.free.pop().unwrap_or_else(|| {
            out.tickets.push(None);
            out.tickets.len() as u64 - 1
        });
        out.tickets[token as usize] = Some(Ticket { cookie, bytes });
        Some(token)
    }

    /// Sends what waits, as long as requests come or replies are left.
    fn write(&self) {
        let mut bytes = Vec::new();
        loop {
            let idle =
                |out: &Out| out.waiting.is_empty() && !out.gone && !(out.ending && out.under_way() == 0);
            let work = self.work.wait_while(self.out(), |out| idle(out));
            let mut out = work.unwrap_or_else(PoisonError::into_inner);
            if out.waiting.is_empty() || out.gone {
                return;
            }
            bytes.clear();
            std::mem::swap(&mut bytes, &mut out.waiting);
            out.sending = true;
            drop(out);
            let mut left = &bytes[..];
            let mut gone = false;
            while !left.is_empty() && !gone {
                match send(&self.socket, &[IoSlice::new(left)], true) {
                    Ok(sent) => left = &left[sent..],
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => gone = true,
                }
            }
            if bytes.capacity() > 1 << 20 {
                bytes = Vec::new();
            }
            let mut out = self.out();
            out.sending = false;
            out.gone |= gone;
            self.room.notify_all();
        }
    }
}

impl Front for Connection {
    fn reply(&self, token: u64, answer: Answer<'_>) {
        let mut out = self.out();
        let Some(ticket) = out.tickets.get_mut(token as usize).and_then(Option::take) else { return };
        out.free.push(token);
        out.bytes -= ticket.bytes;
        let (error, data): (u32, &[u8]) = match answer {
            Answer::Data(data) => (0, data),
            Answer::Done => (0, &[]),
            Answer::Failed(errno) => (error(errno), &[]),
        };
        let mut head = [0; 16];
        head[..4].copy_from_slice(&SIMPLE_REPLY.to_be_bytes());
        head[4..8].copy_from_slice(&error.to_be_bytes());
        head[8..].copy_from_slice(&ticket.cookie.to_be_bytes());
        if !out.gone {
            let mut sent = 0;
            if out.waiting.is_empty() && !out.sending {
                // Nobody waits here for a client. An error is met again by the writer.
                let parts = [IoSlice::new(&head), IoSlice::new(data)];
                sent = send(&self.socket, &parts, false).unwrap_or(0);
            }
            out.waiting.extend_from_slice(head.get(sent..).unwrap_or_default());
            out.waiting.extend_from_slice(data.get(sent.saturating_sub(head.len())..).unwrap_or_default());
        }
        if out.full {
            self.room.notify_all();
        }
        if !out.waiting.is_empty() || out.ending {
            self.work.notify_all();
        }
    }
}

/// Serves a client until it says goodbye or is gone.
///
/// # Errors
/// The socket's, or what the client sends is not the protocol.
pub(super) fn serve(socket: &Arc<File>, realtime: &Realtime) -> io::Result<()> {
    let connection = Arc::new(Connection {
        socket: Arc::clone(socket),
        out: Mutex::default(),
        room: Condvar::new(),
        work: Condvar::new(),
    });
    let theirs = Arc::clone(&connection);
    let writer = std::thread::Builder::new().name("disk-nbd-write".into()).spawn(move || theirs.write())?;
    let result = take_requests(&connection, realtime);
    {
        let mut out = connection.out();
        out.ending = true;
        // After a goodbye what is under way is still answered.
        out.gone |= result.is_err();
        if out.gone {
            shutdown(&**socket);
        }
        connection.work.notify_all();
    }
    // It has no panic to tell of.
    let _ = writer.join();
    result
}

/// Ends with a goodbye, or with the error for which no request can come any more.
fn take_requests(connection: &Arc<Connection>, realtime: &Realtime) -> io::Result<()> {
    let front: Arc<dyn Front> = Arc::clone(connection) as _;
    let invalid = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
    let mut from = BufReader::with_capacity(1 << 16, &*connection.socket);
    let mut bytes = [0; Head::BYTES];
    let mut data = Vec::new();
    loop {
        from.read_exact(&mut bytes)?;
        let head = Head::parse(&bytes).ok_or_else(|| invalid("no request"))?;
        if head.command == CMD_DISC {
            return Ok(());
        }
        let operation = head.operation(realtime.size());
        data.clear();
        if head.command == CMD_WRITE {
            if head.length > PAYLOAD {
                return Err(invalid("more data than a request may have"));
            }
            // Room is taken as the data come, not as they are announced.
            let length = u64::from(head.length);
            if (&mut from).take(length).read_to_end(&mut data)? as u64 != length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let held =
            if matches!(head.command, CMD_READ | CMD_WRITE) && operation.is_ok() { head.length } else { 0 };
        let token = connection.begin(head.cookie, held.into()).ok_or_else(gone)?;
        match operation {
            Ok(operation) => {
                let fua = head.flags & CMD_FLAG_FUA != 0 && operation == Operation::Write;
                let job = Job { operation, offset: head.offset, length: head.length, fua, token };
                realtime.submit(job, &data, &front);
            }
            Err(errno) => front.reply(token, Answer::Failed(errno)),
        }
        if data.capacity() > 4 << 20 {
            data = Vec::new();
        }
    }
}
