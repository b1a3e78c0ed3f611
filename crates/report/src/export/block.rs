// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a block request does, in the words and bits of other tools.

use plumb_trace::reader::State;

/// include/linux/blk_types.h, the same from 6.1 to 6.18.
mod req {
    pub const WRITE: u32 = 1;
    pub const FLUSH: u32 = 2;
    pub const DISCARD: u32 = 3;
    pub const SECURE_ERASE: u32 = 5;
    pub const WRITE_ZEROES: u32 = 9;
    pub const OP_MASK: u32 = 0xff;
    pub const SYNC: u32 = 1 << 11;
    pub const META: u32 = 1 << 12;
    pub const FUA: u32 = 1 << 17;
    pub const PREFLUSH: u32 = 1 << 18;
    pub const RAHEAD: u32 = 1 << 19;
}

/// Operation of a request in a word.
pub fn operation(opf: u32, bytes: u32) -> String {
    match opf & req::OP_MASK {
        req::FLUSH => "flush".into(),
        req::DISCARD => "discard".into(),
        req::SECURE_ERASE => "secure erase".into(),
        req::WRITE_ZEROES => "write zeroes".into(),
        // Asks for a flush, for which the kernel sends one of its own (block/blk-flush.c) and clears PREFLUSH.
        req::WRITE if bytes == 0 => "empty write".into(),
        req::WRITE => "write".into(),
        0 => "read".into(),
        other => format!("operation {other}"),
    }
}

/// The letters of the kernel's `blk_fill_rwbs()`, kernel/trace/blktrace.c.
pub fn rwbs(opf: u32) -> String {
    let mut out = String::new();
    if opf & req::PREFLUSH != 0 {
        out.push('F');
    }
    out.push_str(match opf & req::OP_MASK {
        0 => "R",
        req::WRITE => "W",
        req::FLUSH => "F",
        req::DISCARD => "D",
        req::SECURE_ERASE => "DE",
        _ => "N",
    });
    for (bit, letter) in [(req::FUA, 'F'), (req::RAHEAD, 'A'), (req::SYNC, 'S'), (req::META, 'M')] {
        if opf & bit != 0 {
            out.push(letter);
        }
    }
    out
}

/// The bits of lttng-modules' `blk_rwbs_ctf_integer`, instrumentation/events/block.h.
pub fn rwbs_bits(opf: u32) -> u32 {
    let op = opf & req::OP_MASK;
    let mut out = match op {
        req::WRITE => 1,
        req::DISCARD => 1 << 1,
        req::SECURE_ERASE => 1 << 1 | 1 << 7,
        req::FLUSH => 1 << 8,
        0 => 1 << 2,
        _ => 0,
    };
    for (bit, flag) in [
        (req::RAHEAD, 1 << 3),
        (req::SYNC, 1 << 5),
        (req::META, 1 << 6),
        (req::PREFLUSH, 1 << 10),
        (req::FUA, 1 << 9),
    ] {
        if opf & bit != 0 {
            out |= flag;
        }
    }
    out
}

/// Name of a disk or partition: the kernel's, or `major:minor`.
pub fn disk(state: &State, dev: u32) -> String {
    match state.disks.iter().find(|d| d.dev == dev) {
        Some(disk) => disk.name.clone(),
        None => format!("{}:{}", dev >> 20, dev & 0xf_ffff),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_words_letters_and_bits() {
        let sync_write = req::WRITE | req::SYNC;
        assert_eq!((operation(sync_write, 4096), rwbs(sync_write)), ("write".into(), "WS".into()));
        assert_eq!(rwbs_bits(sync_write), 1 | 1 << 5);
        let flush = req::WRITE | req::PREFLUSH | req::SYNC;
        assert_eq!((operation(flush, 0), rwbs(flush)), ("empty write".into(), "FWS".into()));
        assert_eq!(rwbs_bits(req::RAHEAD), 1 << 2 | 1 << 3);
        assert_eq!(rwbs(req::DISCARD), "D");
    }
}
