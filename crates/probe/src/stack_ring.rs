// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the BPF ring buffer of stacks where it lies (kernel/bpf/ringbuf.c: positions a page each, then
//! the data, mapped twice, so that no record is torn at its end). A record has up to 33 KB, of which
//! the walk of a stack touches a few hundred words: a copy of it was a fifth of the recorder's time.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// BPF_RINGBUF_BUSY_BIT: the record is being written.
const BUSY: u32 = 1 << 31;
/// BPF_RINGBUF_DISCARD_BIT
const DISCARD: u32 = 1 << 30;
/// BPF_RINGBUF_HDR_SZ
const HEAD: usize = 8;

/// A mapping that is undone when it is dropped.
struct Mapped {
    base: *mut u8,
    len: usize,
}

impl Mapped {
    fn new(fd: BorrowedFd<'_>, protection: i32, len: usize, offset: usize) -> io::Result<Self> {
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, fd.as_raw_fd(), offset)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { base: base.cast(), len })
    }

    fn position(&self) -> &AtomicU64 {
        // SAFETY: each mapping begins with a position, aligned to its page, and lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.base.cast()) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, and not used after this.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

/// The reader of a BPF ring buffer.
pub struct StackRing {
    /// How far it is read.
    consumer: Mapped,
    /// How far it is written; behind its page the data.
    producer: Mapped,
    page: usize,
    size: usize,
}

impl std::fmt::Debug for StackRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StackRing({} bytes)", self.size)
    }
}

impl StackRing {
    /// Maps a ring buffer of `size` bytes, a power of two: its max_entries.
    ///
    /// # Errors
    /// No ring buffer, another size, or no memory.
    pub fn open(fd: BorrowedFd<'_>, size: usize) -> io::Result<Self> {
        // SAFETY: sysconf has no preconditions.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        Ok(Self {
            consumer: Mapped::new(fd, libc::PROT_READ | libc::PROT_WRITE, page, 0)?,
            producer: Mapped::new(fd, libc::PROT_READ, page + 2 * size, page)?,
            page,
            size,
        })
    }

    /// Bytes that it holds.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Hands over the records that are there now, and tells how many bytes they took. What comes
    /// meanwhile is left for the next time: by a fast clock this would not end.
    ///
    /// # Errors
    /// Those of `each`, behind the record where it failed.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<u64> {
        let begin = self.consumer.position().load(Ordering::Relaxed);
        let end = self.producer.position().load(Ordering::Acquire);
        let mut at = begin;
        while at < end {
            let place = (at % self.size as u64) as usize;
            // SAFETY: a record's head lies in the data's first copy, aligned to 8.
            let record = unsafe { self.producer.base.add(self.page + place) };
            // SAFETY: the kernel writes this word with one store, the last of the record.
            let head = unsafe { AtomicU32::from_ptr(record.cast()) }.load(Ordering::Acquire);
            let len = (head & !(BUSY | DISCARD)) as usize;
            if head & BUSY != 0 || len > self.size {
                break;
            }
            let mut result = Ok(());
            if head & DISCARD == 0 {
                // SAFETY: `len` is at most the size, so that it lies in the data's two copies; the kernel
                // leaves it alone until the position is moved past it.
                result = each(unsafe { std::slice::from_raw_parts(record.add(HEAD), len) });
            }
            at += (HEAD + len).next_multiple_of(8) as u64;
            self.consumer.position().store(at, Ordering::Release);
            result?;
        }
        Ok(at - begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::{AsFd, FromRawFd};
    use std::os::unix::fs::FileExt;

    const SIZE: usize = 1 << 16;
    const PAGE: usize = 4096;

    /// A file that is laid out as the kernel lays out a ring buffer, and what a producer does to it.
    struct Fake {
        file: File,
        at: usize,
    }

    impl Fake {
        fn new() -> Self {
            // SAFETY: the name is a string that ends; the call returns a descriptor of our own, or -1.
            let file = unsafe { File::from_raw_fd(libc::memfd_create(c"ring".as_ptr(), 0)) };
            file.set_len((2 * PAGE + 2 * SIZE) as u64).expect("memory");
            Self { file, at: 0 }
        }

        fn put(&self, at: usize, bytes: &[u8]) {
            for (i, byte) in bytes.iter().enumerate() {
                let place = 2 * PAGE + (at + i) % SIZE;
                for place in [place, place + SIZE] {
                    self.file.write_all_at(&[*byte], place as u64).expect("memory");
                }
            }
        }

        fn write(&mut self, flags: u32, bytes: &[u8]) {
            self.put(self.at, &(bytes.len() as u32 | flags).to_le_bytes());
            self.put(self.at + HEAD, bytes);
            self.at += (HEAD + bytes.len()).next_multiple_of(8);
            self.file.write_all_at(&(self.at as u64).to_le_bytes(), PAGE as u64).expect("memory");
        }
    }

    fn read(ring: &mut StackRing) -> Vec<Vec<u8>> {
        let mut seen = Vec::new();
        let read = ring.drain(|bytes| {
            seen.push(bytes.to_vec());
            Ok(())
        });
        read.expect("no error");
        seen
    }

    #[test]
    fn records_come_as_they_were_written_across_the_end_too() {
        let mut fake = Fake::new();
        let mut ring = StackRing::open(fake.file.as_fd(), SIZE).expect("a ring");
        assert!(read(&mut ring).is_empty());
        // 30,000 bytes thrice do not fit before the end.
        for i in 0..5u8 {
            let long: Vec<u8> = (0..30_000).map(|n| (n % 251) as u8 ^ i).collect();
            fake.write(0, &[i]);
            fake.write(0, &long);
            assert_eq!(read(&mut ring), [vec![i], long], "{i}");
        }
    }

    #[test]
    fn what_is_discarded_is_left_out_and_what_is_being_written_ends_it() {
        let mut fake = Fake::new();
        let mut ring = StackRing::open(fake.file.as_fd(), SIZE).expect("a ring");
        fake.write(DISCARD, b"no");
        fake.write(0, b"one");
        let busy = fake.at;
        fake.write(BUSY, b"two");
        fake.write(0, b"three");
        assert_eq!(read(&mut ring), [b"one"]);
        assert!(read(&mut ring).is_empty());
        fake.put(busy, &3u32.to_le_bytes());
        assert_eq!(read(&mut ring), [&b"two"[..], b"three"]);
    }

    #[test]
    fn an_error_ends_it_behind_its_record() {
        let mut fake = Fake::new();
        let mut ring = StackRing::open(fake.file.as_fd(), SIZE).expect("a ring");
        fake.write(0, b"one");
        fake.write(0, b"two");
        assert!(ring.drain(|_| Err(io::Error::other("full"))).is_err());
        assert_eq!(read(&mut ring), [b"two"]);
    }

    #[test]
    fn a_length_that_cannot_be_ends_it() {
        let mut fake = Fake::new();
        let mut ring = StackRing::open(fake.file.as_fd(), SIZE).expect("a ring");
        fake.write(0, b"one");
        fake.put(0, &(SIZE as u32 + 1).to_le_bytes());
        assert!(read(&mut ring).is_empty());
    }
}
