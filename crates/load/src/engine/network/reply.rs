// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a client sends, and where the answer to it ends.

use super::http::Answer;
use crate::job::Job;

/// Bytes in front of a room's message that say whose it is.
pub(super) const NAME: usize = 8;

/// What the requests of a job are.
#[derive(Debug)]
pub(super) struct Question {
    /// The request of HTTP; else the operation's buffer is sent.
    pub http: Option<Vec<u8>>,
    /// Bytes of an answer that is not HTTP's.
    reply: u64,
    /// Bytes of a message to a room; 0: there are no rooms.
    message: usize,
    /// The name of the connection that is made next.
    next: u64,
}

impl Question {
    pub fn of(job: &Job) -> Self {
        let host = if job.to.contains('/') { "localhost" } else { &job.to };
        let http = (!job.http.is_empty()).then(|| {
            format!("GET {} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: plumb\r\n\r\n", job.http).into_bytes()
        });
        let message = if job.room > 0 { job.block.0 as usize } else { 0 };
        // SAFETY: plain call. Threads and processes have names apart.
        let thread = unsafe { libc::syscall(libc::SYS_gettid) } as u64;
        let next = thread << 32;
        Question { http, reply: job.reply.0, message, next }
    }

    /// Of a new connection.
    pub fn reply(&mut self) -> Reply {
        self.next += 1;
        let kind = match (&self.http, self.message) {
            (Some(_), _) => Kind::Http(Answer::new()),
            (None, 0) => Kind::Bytes { all: self.reply, have: 0 },
            (None, length) => {
                Kind::Room { name: self.next.to_le_bytes(), length, at: 0, mine: true, have: 0, whole: 0 }
            }
        };
        Reply(kind)
    }
}

/// The answer that a connection reads, in whatever pieces it comes.
#[derive(Debug)]
pub(super) struct Reply(Kind);

#[derive(Debug)]
enum Kind {
    Bytes {
        all: u64,
        have: u64,
    },
    Http(Answer),
    /// Messages of everybody in the room; the answer is that one's own came back.
    Room {
        name: [u8; NAME],
        length: usize,
        /// Bytes of the message that is being read.
        at: usize,
        /// It has begun as one's own.
        mine: bool,
        have: u64,
        /// One's own messages that came whole.
        whole: u64,
    },
}

impl Reply {
    /// A request goes out: what is read from here on is its answer. A message to a room gets its sender's name.
    pub fn begin(&mut self, message: &mut [u8]) {
        match &mut self.0 {
            Kind::Bytes { have, .. } => *have = 0,
            Kind::Http(answer) => answer.begin(),
            Kind::Room { name, have, whole, .. } => {
                message[..NAME].copy_from_slice(name);
                (*have, *whole) = (0, 0);
            }
        }
    }

    /// Takes bytes that came; true when the answer is whole.
    ///
    /// # Errors
    /// The negative error number: EPROTO of more than the answer has; of HTTP see [`Answer::take`].
    #[inline]
    pub fn take(&mut self, bytes: &[u8]) -> Result<bool, i64> {
        match &mut self.0 {
            Kind::Bytes { all, have } => {
                *have += bytes.len() as u64;
                if *have > *all {
                    return Err(-i64::from(libc::EPROTO));
                }
                Ok(have == all)
            }
            Kind::Http(answer) => answer.take(bytes),
            Kind::Room { name, length, at, mine, have, whole } => {
                *have += bytes.len() as u64;
                for byte in bytes {
                    *mine = (*at == 0 || *mine) && (*at >= NAME || *byte == name[*at]);
                    *at += 1;
                    if at == length {
                        *whole += u64::from(*mine);
                        *at = 0;
                    }
                }
                Ok(*whole > 0)
            }
        }
    }

    /// Whether bytes may come that nobody asked for: messages of others.
    pub fn is_room(&self) -> bool {
        matches!(self.0, Kind::Room { .. })
    }

    /// The connection ended; whether the answer is whole by that.
    pub fn ended(&self) -> bool {
        matches!(&self.0, Kind::Http(answer) if answer.ended())
    }

    /// Bytes of it.
    pub fn bytes(&self) -> i64 {
        match &self.0 {
            Kind::Bytes { have, .. } | Kind::Room { have, .. } => *have as i64,
            Kind::Http(answer) => answer.bytes() as i64,
        }
    }

    /// Whether the server closes the connection behind it.
    pub fn closes(&self) -> bool {
        matches!(&self.0, Kind::Http(answer) if answer.closes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Bytes;

    #[test]
    fn in_a_room_the_answer_is_ones_own_message() {
        let job = Job { room: 3, block: Bytes(20), ..Job::default() };
        let mut question = Question::of(&job);
        let (mut mine, mut other) = (question.reply(), question.reply());
        let (mut message, mut theirs) = ([b'x'; 20], [b'y'; 20]);
        mine.begin(&mut message);
        other.begin(&mut theirs);
        let all: Vec<u8> = theirs.iter().chain(&theirs).chain(&message).chain(&theirs).copied().collect();
        for piece in 1..all.len() {
            mine.begin(&mut message);
            let whole: Vec<_> = all.chunks(piece).map(|bytes| mine.take(bytes).expect("messages")).collect();
            assert_eq!(whole.iter().position(|w| *w), Some((60 - 1) / piece), "in pieces of {piece}");
            assert_eq!(mine.bytes(), 80);
        }
    }

    #[test]
    fn more_than_the_answer_is_an_error() {
        let mut reply = Question::of(&Job { reply: Bytes(10), ..Job::default() }).reply();
        reply.begin(&mut []);
        assert_eq!(reply.take(b"12345"), Ok(false));
        assert_eq!(reply.take(b"67890"), Ok(true));
        reply.begin(&mut []);
        assert_eq!(reply.take(b"12345678901"), Err(-i64::from(libc::EPROTO)));
    }
}
