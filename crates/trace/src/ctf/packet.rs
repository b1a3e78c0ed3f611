// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The head of a packet: CTF's packet header and packet context, 64 bytes.

use crate::kernel::KTIME_MAX;

/// CTF's magic number.
const MAGIC: u32 = 0xC1FC_1FC1;
/// Bytes of a packet's head.
pub const HEAD_BYTES: usize = 64;
/// Longest packet, head included. A state event that needs more gets a packet of its own.
pub const MAX_PACKET_BYTES: usize = 64 << 10;
/// Stream class of the per-CPU streams.
pub const STREAM_CPU: u32 = 0;
/// Stream class of what the recorder writes.
pub const STREAM_STATE: u32 = 1;
/// Stream class of what the threads of a workload write.
pub const STREAM_LOAD: u32 = 2;

/// Head of one packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PacketHead {
    /// [`STREAM_CPU`], [`STREAM_STATE`] or [`STREAM_LOAD`].
    pub stream_id: u32,
    /// Time of the first event, ns.
    pub begin: u64,
    /// Time of the last event, ns.
    pub end: u64,
    /// Bytes of the packet that are used, head included.
    pub content: u64,
    /// Bytes of the packet, head included.
    pub size: u64,
    /// Number of the packet in its stream, from 0.
    pub seq: u64,
    /// Events lost in this stream since its beginning.
    pub discarded: u64,
    /// CPU of the stream; of a workload's stream the number of the thread.
    pub cpu: u32,
}

impl PacketHead {
    /// The head as it is written.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut out = [0; HEAD_BYTES];
        out[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        out[4..8].copy_from_slice(&self.stream_id.to_le_bytes());
        let words = [self.begin, self.end, self.content * 8, self.size * 8, self.seq, self.discarded];
        for (i, word) in words.into_iter().enumerate() {
            out[8 + i * 8..16 + i * 8].copy_from_slice(&word.to_le_bytes());
        }
        out[56..60].copy_from_slice(&self.cpu.to_le_bytes());
        out
    }

    /// Reads and checks a head; the error says what is wrong with it.
    ///
    /// # Errors
    /// Too short, not a packet, or sizes and times that contradict each other.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        if bytes.len() < HEAD_BYTES {
            return Err("packet head cut off");
        }
        let u32_at = |i: usize| u32::from_le_bytes(bytes[i..i + 4].try_into().expect("four bytes"));
        let u64_at = |i: usize| u64::from_le_bytes(bytes[i..i + 8].try_into().expect("eight bytes"));
        if u32_at(0) != MAGIC {
            return Err("packet without CTF magic number");
        }
        let head = Self {
            stream_id: u32_at(4),
            begin: u64_at(8),
            end: u64_at(16),
            content: u64_at(24) / 8,
            size: u64_at(32) / 8,
            seq: u64_at(40),
            discarded: u64_at(48),
            cpu: u32_at(56),
        };
        if head.content < HEAD_BYTES as u64 || head.content > head.size || head.size > 1 << 30 {
            return Err("packet sizes contradict each other");
        }
        if head.begin > head.end {
            return Err("packet ends before it begins");
        }
        if head.end > KTIME_MAX {
            return Err("packet of a time that the kernel's clock never has");
        }
        Ok(head)
    }
}
