// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings that leave their host: a sender in the place of the trace directory, and the collector that keeps
//! the traces of many hosts in one set. Nothing is written on the measured host.
//!
//! Both ends know each other by their public keys, which an invitation carries (TLS 1.3, RFC 8446, with raw public
//! keys, RFC 7250): there are no names, authorities or dates to check.
#![warn(missing_docs)]

mod address;
mod collect;
mod frame;
mod invitation;
mod send;
mod session;
mod tls;

pub use address::Address;
pub use collect::{Collector, News};
pub use invitation::{invite, Invitation};
pub use send::{Limits, RemoteSink};
pub use session::recordings;

/// For the fuzzer: what reads bytes that others sent.
#[doc(hidden)]
pub mod parsers {
    use crate::frame::{frames, Frame};
    use plumb_trace::writer::Stream;

    /// Frames of each kind, one behind the other.
    pub fn sent() -> Vec<u8> {
        let all = [
            Frame::Hello { session: [7; 16] },
            Frame::Metadata { number: 0, text: "/* CTF 1.8 */" },
            Frame::Packet { number: 1, stream: Stream::Cpu(1), bytes: &[0xc1; 70] },
            Frame::Packet { number: 2, stream: Stream::Load { pid: 7, worker: 1 }, bytes: b"" },
            Frame::Done { number: 3 },
            Frame::Have { received: 4 },
            Frame::Refused { why: "no room" },
        ];
        all.iter().flat_map(Frame::encode).collect()
    }

    /// Reads what came in; how many frames, and whether the rest is refused.
    pub fn received(input: &[u8]) -> u64 {
        let (mut inbox, mut number) = (input.to_vec(), 0);
        let refused = frames(&mut inbox, |_| {
            number += 1;
            true
        });
        number << 1 | u64::from(refused.is_err())
    }
}
