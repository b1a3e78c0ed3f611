// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The requests of the FUSE protocol that a disk's file gets (include/uapi/linux/fuse.h), taken apart.
//! Bytes in, a step out; no system call.

use super::MAX;

/// Bytes of `struct fuse_in_header`.
const HEAD: usize = 40;
/// An hour: nothing here changes by itself.
const VALID: u64 = 3600;
const ROOT: u64 = 1;
const FILE: u64 = 2;
/// FOPEN_DIRECT_IO and FOPEN_PARALLEL_DIRECT_WRITES: past the page cache, and no write waits for another.
const OPEN_FLAGS: u32 = 1 | 1 << 6;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tree {
    /// The mount is the file.
    File { size: u64 },
    /// The mount is a directory with the file in it.
    Named { name: Vec<u8>, size: u64 },
}

/// Something that takes the time that a disk takes.
#[derive(Debug, PartialEq, Eq)]
pub enum Ask<'a> {
    Read { offset: u64, length: u32 },
    Write { offset: u64, data: &'a [u8] },
    Flush,
    Discard { offset: u64, length: u32 },
}

/// What is to be done about a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// To be answered so, at once.
    Answer(Vec<u8>),
    /// To be answered with this errno.
    Refuse(i32),
    Nothing,
    /// The file was opened; [`answer_to`] has the answer.
    Opened,
    /// Who opened it has closed it.
    Released,
    Ask(Ask<'a>),
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes)
}

/// `struct fuse_write_out`: how much, and padding.
pub fn written(length: u32) -> [u8; 8] {
    let mut out = [0; 8];
    out[..4].copy_from_slice(&length.to_ne_bytes());
    out
}

/// `struct fuse_open_out`, or nothing.
pub fn answer_to(step: &Step<'_>) -> &'static [u8] {
    const OPENED: [u8; 16] = {
        let mut out = [0; 16];
        let flags = OPEN_FLAGS.to_ne_bytes();
        let mut i = 0;
        while i < 4 {
            out[8 + i] = flags[i];
            i += 1;
        }
        out
    };
    match step {
        Step::Opened => &OPENED,
        _ => &[],
    }
}

/// `struct fuse_attr`.
fn attributes(node: u64, tree: &Tree) -> Vec<u8> {
    let (mode, size) = match tree {
        Tree::Named { .. } if node == ROOT => (libc::S_IFDIR | 0o500, 0),
        Tree::File { size } | Tree::Named { size, .. } => (libc::S_IFREG | 0o600, *size),
    };
    let mut out = Vec::with_capacity(88);
    for long in [node, size, size / 512, 0, 0, 0] {
        out.extend(u64::to_ne_bytes(long));
    }
    for word in [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0] {
        out.extend(u32::to_ne_bytes(word));
    }
    out
}

/// `struct fuse_entry_out`.
fn entry(tree: &Tree) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    for long in [FILE, 0, VALID, VALID, 0] {
        out.extend(u64::to_ne_bytes(long));
    }
    out.extend(attributes(FILE, tree));
    out
}

/// The request's number and what is to be done about it; none of bytes that are no request.
pub fn step<'a>(bytes: &'a [u8], tree: &Tree) -> Option<(u64, Step<'a>)> {
    let (opcode, unique, node) = (word(bytes, 4)?, long(bytes, 8)?, long(bytes, 16)?);
    let body = bytes.get(HEAD..)?;
    Some((unique, of(opcode, node, body, tree).unwrap_or(Step::Refuse(libc::EINVAL))))
}

fn of<'a>(opcode: u32, node: u64, body: &'a [u8], tree: &Tree) -> Option<Step<'a>> {
    Some(match opcode {
        // LOOKUP: the name ends in NUL.
        1 => match tree {
            Tree::Named { name, .. } if body.strip_suffix(&[0]) == Some(name) => Step::Answer(entry(tree)),
            _ => Step::Refuse(libc::ENOENT),
        },
        // FORGET, INTERRUPT, BATCH_FORGET are not answered.
        2 | 36 | 42 => Step::Nothing,
        // GETATTR, SETATTR: 16 bytes of validity, then the attributes.
        3 | 4 => {
            let mut out = VALID.to_ne_bytes().to_vec();
            out.extend([0; 8]);
            out.extend(attributes(node, tree));
            Step::Answer(out)
        }
        // OPEN
        14 => Step::Opened,
        // READ
        15 => {
            let length = word(body, 16)?.min(MAX as u32);
            Step::Ask(Ask::Read { offset: long(body, 8)?, length })
        }
        // WRITE
        16 => {
            let data = body.get(40..40 + word(body, 16)? as usize)?;
            Step::Ask(Ask::Write { offset: long(body, 8)?, data })
        }
        // STATFS: a loop device takes the block size for the granularity of its discards.
        17 => {
            let mut out = vec![0; 40];
            for word in [4096_u32, 255, 4096, 0] {
                out.extend(word.to_ne_bytes());
            }
            out.resize(80, 0);
            Step::Answer(out)
        }
        // RELEASE
        18 => Step::Released,
        // FSYNC
        20 => Step::Ask(Ask::Flush),
        // FLUSH, which is a close and no fsync.
        25 => Step::Answer(Vec::new()),
        // INIT: version, no read-ahead, ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES, then how
        // much may be outstanding (256, congested at 192) and the largest write.
        26 => {
            let flags = (1 << 0) | (1 << 5) | (1 << 15) | (1 << 22);
            let mut out = Vec::new();
            for word in [7_u32, 31, 0, flags, 256 | (192 << 16), MAX as u32, 1, (MAX / 4096) as u32] {
                out.extend(word.to_ne_bytes());
            }
            out.resize(64, 0);
            Step::Answer(out)
        }
        // FALLOCATE: a hole is what a loop device makes of a discard, and of zeroes that need no
        // room; it reads as zeroes. Other zeroes are refused: the block layer writes them itself.
        43 => {
            let hole = (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE) as u32;
            let (offset, length) = (long(body, 8)?, long(body, 16)?);
            match u32::try_from(length) {
                Ok(length) if word(body, 24)? == hole => Step::Ask(Ask::Discard { offset, length }),
                _ => Step::Refuse(libc::EOPNOTSUPP),
            }
        }
        _ => Step::Refuse(libc::ENOSYS),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(opcode: u32, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for word in [(HEAD + body.len()) as u32, opcode] {
            out.extend(word.to_ne_bytes());
        }
        for long in [8_u64, 1, 0, 0] {
            out.extend(long.to_ne_bytes());
        }
        out.extend(body);
        out
    }

    fn body(longs: &[u64]) -> Vec<u8> {
        longs.iter().flat_map(|l| l.to_ne_bytes()).collect()
    }

    fn tree() -> Tree {
        Tree::Named { name: b"disk".to_vec(), size: 1 << 20 }
    }

    #[test]
    fn the_disks_work_is_told_with_its_place() {
        let read = request(15, &body(&[0, 8192, 4096, 0, 0]));
        assert_eq!(step(&read, &tree()), Some((8, Step::Ask(Ask::Read { offset: 8192, length: 4096 }))));
        let mut bytes = body(&[0, 512, 3, 0, 0]);
        bytes.extend(b"abc");
        let write = request(16, &bytes);
        assert_eq!(step(&write, &tree()), Some((8, Step::Ask(Ask::Write { offset: 512, data: b"abc" }))));
        let hole = request(43, &body(&[0, 4096, 1 << 20, 3]));
        assert_eq!(
            step(&hole, &tree()),
            Some((8, Step::Ask(Ask::Discard { offset: 4096, length: 1 << 20 })))
        );
        let zeroes = request(43, &body(&[0, 4096, 4096, 0x10]));
        assert_eq!(step(&zeroes, &tree()), Some((8, Step::Refuse(libc::EOPNOTSUPP))));
        assert_eq!(step(&request(20, &body(&[0, 1])), &tree()), Some((8, Step::Ask(Ask::Flush))));
    }

    #[test]
    fn only_the_name_is_found() {
        let Some((_, Step::Answer(entry))) = step(&request(1, b"disk\0"), &tree()) else { panic!("found") };
        assert_eq!((entry.len(), long(&entry, 0), long(&entry, 48)), (128, Some(FILE), Some(1 << 20)));
        for (name, tree) in [(&b"dis\0"[..], tree()), (b"disk", tree()), (b"disk\0", Tree::File { size: 1 })]
        {
            assert_eq!(step(&request(1, name), &tree), Some((8, Step::Refuse(libc::ENOENT))), "{name:?}");
        }
    }

    #[test]
    fn a_write_that_is_shorter_than_it_says_and_half_a_request_are_refused() {
        let short = request(16, &body(&[0, 0, 4096, 0, 0]));
        assert_eq!(step(&short, &tree()), Some((8, Step::Refuse(libc::EINVAL))));
        for opcode in [15, 16, 43] {
            for len in 0..20 {
                let asked = request(opcode, &vec![0xff; len]);
                assert_eq!(step(&asked, &tree()), Some((8, Step::Refuse(libc::EINVAL))), "{opcode} {len}");
            }
        }
        let whole = request(15, &body(&[0, 0, 4096, 0, 0]));
        for len in 0..HEAD {
            assert_eq!(step(&whole[..len], &tree()), None, "{len} bytes");
        }
    }

    #[test]
    fn the_answers_are_as_long_as_the_kernel_wants() {
        for (opcode, len) in [(3, 104), (17, 80), (26, 64), (25, 0)] {
            let Some((_, Step::Answer(answer))) =
                step(&request(opcode, &[0; 64]), &tree()).map(|s| (s.0, s.1))
            else {
                panic!("{opcode} has an answer")
            };
            assert_eq!(answer.len(), len, "{opcode}");
        }
        assert_eq!(answer_to(&Step::Opened)[8..12], OPEN_FLAGS.to_ne_bytes());
        assert_eq!(written(4096)[..4], 4096_u32.to_ne_bytes());
    }
}
