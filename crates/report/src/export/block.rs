// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a block request does, in the words and bits of other tools.

use plumb_trace::kernel::req;
use plumb_trace::reader::State;
use plumb_trace::units;

/// The letters of the kernel's `blk_fill_rwbs()`, kernel/trace/blktrace.c.
pub fn rwbs(opf: u32) -> String {
    let mut out = String::new();
    if opf & req::PREFLUSH != 0 {
        out.push('F');
    }
    out.push_str(match req::op(opf) {
        req::READ => "R",
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
    let op = req::op(opf);
    let mut out = match op {
        req::WRITE => 1,
        req::DISCARD => 1 << 1,
        req::SECURE_ERASE => 1 << 1 | 1 << 7,
        req::FLUSH => 1 << 8,
        req::READ => 1 << 2,
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
        None => units::device(dev),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_words_letters_and_bits() {
        let sync_write = req::WRITE | req::SYNC;
        assert_eq!((req::word_of(sync_write, 4096), rwbs(sync_write).as_str()), ("write", "WS"));
        assert_eq!(rwbs_bits(sync_write), 1 | 1 << 5);
        let flush = req::WRITE | req::PREFLUSH | req::SYNC;
        assert_eq!((req::word_of(flush, 0), rwbs(flush).as_str()), ("empty write", "FWS"));
        assert_eq!(rwbs_bits(req::RAHEAD), 1 << 2 | 1 << 3);
        assert_eq!(rwbs(req::DISCARD), "D");
    }
}
