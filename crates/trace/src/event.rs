// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all events have in common; the events themselves are in [`crate::schema`].

use crate::schema::{StateSocket, StateTask};

/// Who writes an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The kernel's programs, into the stream of the CPU.
    Kernel,
    /// The kernel's programs too, at places in programs or of words that those keep.
    Program,
    /// A workload, into the stream of its thread; see [`crate::load`].
    Load,
    /// The recorder itself.
    Recorder,
}

/// Name, place and documentation of one event.
#[derive(Debug)]
pub struct EventInfo {
    /// Number on the wire.
    pub id: u16,
    /// Name on the wire, in options and in reports.
    pub name: &'static str,
    /// Event set that it belongs to; `state` for what the recorder writes.
    pub set: &'static str,
    /// Who writes it.
    pub origin: Origin,
    /// Kernel tracepoint that raises it; without meaning where the kernel does not.
    pub tracepoint: &'static str,
    /// Function and file that raise it.
    pub source: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// Bytes of a record: 32 or 64; 0 for a state event.
    pub size: usize,
    /// Fields that carry meaning, without the common head but for `tid`.
    pub fields: &'static [FieldInfo],
}

/// One field of an event.
#[derive(Debug)]
pub struct FieldInfo {
    /// Name.
    pub name: &'static str,
    /// Unit tag of the schema, empty for text.
    pub unit: &'static str,
    /// One sentence.
    pub doc: &'static str,
}

/// A record of a per-CPU stream.
///
/// # Safety
/// The type is `repr(C)`, made only of integers and byte arrays, without
/// padding, 32 or 64 bytes long: any bytes of that length are a valid value.
pub unsafe trait Record: Copy {
    /// Number on the wire.
    const ID: u16;

    /// The record in `bytes`, which hold at least its size.
    fn read(bytes: &[u8]) -> Self {
        assert!(bytes.len() >= size_of::<Self>());
        // SAFETY: long enough (asserted), and any bytes are a valid value (trait).
        unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() }
    }

    /// The record's bytes, as the kernel writes them.
    fn bytes(&self) -> &[u8] {
        // SAFETY: no padding and no pointers (trait), so every byte is initialised.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }
}

/// What the recorder writes beside the kernel's records.
pub trait StateEvent: Sized {
    /// Number on the wire.
    const ID: u16;
    /// Appends the fields' bytes.
    fn encode(&self, out: &mut Vec<u8>);
    /// Takes the fields from the front; `None` when the bytes end too early.
    fn decode(input: &mut &[u8]) -> Option<Self>;
}

/// A field that can be appended to a state event.
pub trait Encode {
    /// Appends the bytes.
    fn put(&self, out: &mut Vec<u8>);
}

/// A field that can be taken from a state event.
pub trait Decode: Sized {
    /// Takes the bytes from the front; `None` when they end too early.
    fn take(input: &mut &[u8]) -> Option<Self>;
}

macro_rules! integer {
    ($($t:ty),*) => {$(
        impl Encode for $t {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
        impl Decode for $t {
            fn take(input: &mut &[u8]) -> Option<Self> {
                let (head, rest) = input.split_first_chunk()?;
                *input = rest;
                Some(<$t>::from_le_bytes(*head))
            }
        }
    )*};
}
integer!(u8, u16, u32, i32, u64, i64);

impl Encode for String {
    fn put(&self, out: &mut Vec<u8>) {
        // A NUL would end the string early for every reader.
        out.extend(self.bytes().map(|b| if b == 0 { b' ' } else { b }));
        out.push(0);
    }
}

impl Decode for String {
    fn take(input: &mut &[u8]) -> Option<Self> {
        let end = input.iter().position(|b| *b == 0)?;
        let text = String::from_utf8_lossy(&input[..end]).into_owned();
        *input = &input[end + 1..];
        Some(text)
    }
}

impl Encode for Vec<u64> {
    fn put(&self, out: &mut Vec<u8>) {
        let n = self.len().min(usize::from(u16::MAX));
        (n as u16).put(out);
        self[..n].iter().for_each(|v| v.put(out));
    }
}

impl Decode for Vec<u64> {
    fn take(input: &mut &[u8]) -> Option<Self> {
        let n = usize::from(u16::take(input)?);
        // Checked before memory is asked for, and asked for once: long recordings have millions of frames.
        let (words, rest) = input.split_at_checked(n * 8)?;
        *input = rest;
        let word = |w: &[u8]| w.try_into().map_or(0, u64::from_le_bytes);
        Some(words.chunks_exact(8).map(word).collect())
    }
}

/// Text of a NUL-padded name field.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

impl StateSocket {
    /// `side` of a socket that accept(2) returned.
    pub const ACCEPTED: u32 = 1;
    /// `side` of a socket that connected.
    pub const CONNECTED: u32 = 2;
    /// `side` of a socket that waits for connections.
    pub const LISTENS: u32 = 3;
    /// `side` of a socket whose two ends are equal (socketpair), or of which nothing else is known.
    pub const PAIR: u32 = 4;
}

impl crate::schema::StateSpan {
    /// What `place` begins with where a span lies between functions of the kernel.
    pub const KERNEL: &str = "kernel: ";

    /// Whether its places are functions of the kernel.
    pub fn of_kernel(&self) -> bool {
        self.place.starts_with(Self::KERNEL)
    }
}

impl crate::schema::StateWaitEvent {
    /// In the low half of `number`: any other of the same upper half.
    pub const ANY: u32 = 0xffff;
}

impl StateTask {
    /// `syscall` of a task that was in none, or of which it was not known.
    pub const NO_SYSCALL: i32 = -1;
    /// `syscall` of a task that was told of after its exec.
    pub const AFTER_EXEC: i32 = -2;

    /// Whether the recorder told of it after its exec; others existed when the recording began.
    pub fn told_after_exec(&self) -> bool {
        self.syscall == Self::AFTER_EXEC
    }
}
