// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What sender and collector tell each other: frames of a length (u32), a kind (u8) and a body, little-endian.
//!
//! What a sender tells of its trace is numbered from 0 on, the metadata first; the collector answers how many it has,
//! so that a new connection goes on where the one before ended.

use plumb_trace::writer::Stream;

/// Longest frame, bytes without its length: a packet has 64 KiB, but for a state event that is longer.
const LONGEST: usize = 1 << 20;
/// Of this protocol.
const VERSION: u8 = 1;

const HELLO: u8 = 1;
const METADATA: u8 = 2;
const PACKET: u8 = 3;
const DONE: u8 = 4;
const HAVE: u8 = 16;
const REFUSED: u8 = 17;

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A connection begins; `session` is of one recording.
    Hello { session: [u8; 16] },
    /// A trace begins.
    Metadata { number: u64, text: &'a str },
    /// A packet of a stream of it.
    Packet { number: u64, stream: Stream, bytes: &'a [u8] },
    /// It ends.
    Done { number: u64 },
    /// The collector has so many of the numbered ones.
    Have { received: u64 },
    /// The collector takes no more, and why.
    Refused { why: &'a str },
}

fn stream_words(stream: Stream) -> (u8, u32, u32) {
    match stream {
        Stream::Cpu(n) => (0, n, 0),
        Stream::State => (1, 0, 0),
        Stream::Waits => (2, 0, 0),
        Stream::Load { pid, worker } => (3, pid, worker),
    }
}

fn stream_of(words: (u8, u32, u32)) -> Option<Stream> {
    Some(match words {
        (0, n, 0) => Stream::Cpu(n),
        (1, 0, 0) => Stream::State,
        (2, 0, 0) => Stream::Waits,
        (3, pid, worker) => Stream::Load { pid, worker },
        _ => return None,
    })
}

/// Takes the front of a body apart.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*front)
    }

    fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn u8(&mut self) -> Option<u8> {
        self.bytes().map(|[byte]| byte)
    }

    fn text(self) -> Option<&'a str> {
        std::str::from_utf8(self.0).ok()
    }

    fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

impl<'a> Frame<'a> {
    /// The frame as it is sent, its length first.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 4];
        match self {
            Self::Hello { session } => {
                out.extend([HELLO, VERSION]);
                out.extend(session);
            }
            Self::Metadata { number, text } => {
                out.push(METADATA);
                out.extend(number.to_le_bytes());
                out.extend(text.as_bytes());
            }
            Self::Packet { number, stream, bytes } => {
                let (kind, first, second) = stream_words(*stream);
                out.push(PACKET);
                out.extend(number.to_le_bytes());
                out.push(kind);
                out.extend(first.to_le_bytes());
                out.extend(second.to_le_bytes());
                out.extend(*bytes);
            }
            Self::Done { number } => {
                out.push(DONE);
                out.extend(number.to_le_bytes());
            }
            Self::Have { received } => {
                out.push(HAVE);
                out.extend(received.to_le_bytes());
            }
            Self::Refused { why } => {
                out.push(REFUSED);
                out.extend(why.as_bytes());
            }
        }
        let length = (out.len() - 4) as u32;
        out[..4].copy_from_slice(&length.to_le_bytes());
        out
    }

    fn decode(frame: &'a [u8]) -> Option<Self> {
        let mut body = Body(frame);
        Some(match body.u8()? {
            HELLO if body.u8()? == VERSION => {
                let session = body.bytes()?;
                body.end()?;
                Self::Hello { session }
            }
            METADATA => Self::Metadata { number: body.u64()?, text: body.text()? },
            PACKET => {
                let number = body.u64()?;
                let stream = stream_of((body.u8()?, body.u32()?, body.u32()?))?;
                Self::Packet { number, stream, bytes: body.0 }
            }
            DONE => {
                let number = body.u64()?;
                body.end()?;
                Self::Done { number }
            }
            HAVE => {
                let received = body.u64()?;
                body.end()?;
                Self::Have { received }
            }
            REFUSED => Self::Refused { why: body.text()? },
            _ => return None,
        })
    }
}

/// Hands out the whole frames at the front of what came in, and removes them. `each` returns false where it wants no
/// more.
///
/// # Errors
/// What came in is of another protocol or version.
pub fn frames(inbox: &mut Vec<u8>, mut each: impl FnMut(Frame<'_>) -> bool) -> Result<(), &'static str> {
    let mut at = 0;
    while let Some((length, rest)) = inbox[at..].split_first_chunk() {
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 || length > LONGEST {
            return Err("what came is no frame of this protocol");
        }
        let Some(frame) = rest.get(..length) else { break };
        let frame = Frame::decode(frame).ok_or("what came is no frame of this version of the protocol")?;
        at += 4 + length;
        if !each(frame) {
            break;
        }
    }
    inbox.drain(..at);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_are_written_wherever_they_are_cut() {
        let stream = Stream::Load { pid: 7, worker: 2 };
        let all = [
            Frame::Hello { session: [9; 16] },
            Frame::Metadata { number: 0, text: "/* CTF 1.8 */" },
            Frame::Packet { number: 1, stream: Stream::Cpu(511), bytes: b"packet" },
            Frame::Packet { number: 2, stream: Stream::State, bytes: b"" },
            Frame::Packet { number: 3, stream: Stream::Waits, bytes: b"w" },
            Frame::Packet { number: 4, stream, bytes: b"l" },
            Frame::Done { number: 5 },
            Frame::Have { received: u64::MAX },
            Frame::Refused { why: "no room" },
        ];
        let bytes: Vec<u8> = all.iter().flat_map(Frame::encode).collect();
        for cut in 0..=bytes.len() {
            let (mut inbox, mut seen) = (bytes[..cut].to_vec(), 0);
            let mut same = |frame: Frame<'_>| {
                assert_eq!(frame, all[seen]);
                seen += 1;
                true
            };
            frames(&mut inbox, &mut same).expect("our own");
            inbox.extend(&bytes[cut..]);
            frames(&mut inbox, &mut same).expect("our own");
            assert_eq!((seen, inbox.len()), (all.len(), 0));
        }
    }

    #[test]
    fn what_is_no_frame_is_refused_before_it_is_held() {
        for bytes in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            &[0, 0, 0, 0, 1],
            &[0xff, 0xff, 0xff, 0xff, PACKET],
            &[2, 0, 0, 0, HELLO, VERSION],
            &[1, 0, 0, 0, 99],
            &[4, 0, 0, 0, METADATA, 0, 0, 0],
        ] {
            assert!(frames(&mut bytes.to_vec(), |_| true).is_err(), "{bytes:?}");
        }
    }
}
