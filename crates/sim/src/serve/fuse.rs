// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One file served over /dev/fuse: what a loop device needs below it to be a disk of our making.
//!
//! Data flows: the kernel's request -> [`protocol`] (what it asks for) -> either [`serve`], which
//! answers it from a [`Backing`] before it takes the next one, or a [`Connection`], which hands it to a
//! [`Realtime`] and passes the answer on when it comes, from whichever thread. Speaks the protocol
//! itself (version 7.31 of it), because no library is needed for a dozen requests.

mod mount;
mod protocol;

pub use mount::{detached, mount, open};
use protocol::{Ask, Step, Tree};

use super::realtime::{Answer, Front, Job, Realtime};
use crate::device::Operation;
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

/// Largest request, bytes.
pub const MAX: usize = 1 << 20;

/// What a served file does. Called by many threads at once.
pub trait Backing: Send + Sync {
    /// Bytes; never changes.
    fn size(&self) -> u64;
    /// Reads up to `buffer.len()` bytes at `offset`; how many.
    ///
    /// # Errors
    /// Its errno is what the reader gets.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `data` at `offset`.
    ///
    /// # Errors
    /// Its errno is what the writer gets.
    fn write(&self, data: &[u8], offset: u64) -> io::Result<()>;
    /// fsync: what a loop device makes of a flush of its cache. It has no FUA; the block layer
    /// makes a write and a flush of one (drivers/block/loop.c, block/blk-flush.c).
    ///
    /// # Errors
    /// Its errno is what who flushes gets.
    fn flush(&self) -> io::Result<()>;
}

/// The next request, into `buffer`; none when the connection has ended: unmounted, or aborted by
/// hand or by the kernel.
fn next<'b>(mut device: &File, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    loop {
        match device.read(buffer).map_err(|e| e.raw_os_error()) {
            Ok(len) => return Some(&buffer[..len]),
            Err(Some(libc::ENODEV | libc::ECONNABORTED)) => return None,
            // Not mounted yet.
            Err(Some(libc::EPERM)) => std::thread::sleep(Duration::from_millis(5)),
            // ENOENT: the request was taken back; EINTR, EAGAIN: none was taken.
            Err(_) => {}
        }
    }
}

fn send(mut device: &File, unique: u64, error: i32, data: &[u8]) {
    let mut head = [0; 16];
    head[..4].copy_from_slice(&u32::to_ne_bytes(16 + data.len() as u32));
    head[4..8].copy_from_slice(&i32::to_ne_bytes(error));
    head[8..].copy_from_slice(&u64::to_ne_bytes(unique));
    // ENOENT here: whoever asked was interrupted and waits no more.
    let _ = device.write_vectored(&[IoSlice::new(&head), IoSlice::new(data)]);
}

fn errno(e: &io::Error) -> i32 {
    e.raw_os_error().unwrap_or(libc::EIO)
}

/// Lets sleeps of the calling thread end on time instead of up to 50 us late.
fn sharp_timers() {
    // SAFETY: a call with plain numbers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize) };
}

/// Answers requests until the file is unmounted; as many threads as want to.
pub fn serve(device: &File, backing: &dyn Backing) {
    sharp_timers();
    let mut request = vec![0; MAX + 4096];
    let mut reply = vec![0; MAX];
    let tree = Tree::File { size: backing.size() };
    while let Some(bytes) = next(device, &mut request) {
        let Some((unique, step)) = protocol::step(bytes, &tree) else { continue };
        let done = match step {
            Step::Answer(answer) => {
                send(device, unique, 0, &answer);
                continue;
            }
            Step::Refuse(errno) => Err(errno),
            Step::Nothing => continue,
            Step::Opened | Step::Released => {
                send(device, unique, 0, protocol::answer_to(&step));
                continue;
            }
            Step::Ask(Ask::Read { offset, length }) => {
                backing.read(&mut reply[..length as usize], offset).map_err(|e| errno(&e))
            }
            Step::Ask(Ask::Write { offset, data }) => {
                let done = backing.write(data, offset).map_err(|e| errno(&e));
                reply[..8].copy_from_slice(&protocol::written(data.len() as u32));
                done.map(|()| 8)
            }
            Step::Ask(Ask::Flush) => backing.flush().map(|()| 0).map_err(|e| errno(&e)),
            Step::Ask(Ask::Discard { .. }) => Err(libc::EOPNOTSUPP),
        };
        match done {
            Ok(len) => send(device, unique, 0, &reply[..len]),
            Err(errno) => send(device, unique, -errno, &[]),
        }
    }
}

/// What has come over a connection since its beginning.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    pub reads: u64,
    /// Bytes that they asked for.
    pub bytes_read: u64,
    pub writes: u64,
    /// Bytes that they brought.
    pub bytes_written: u64,
    pub flushes: u64,
    pub discards: u64,
}

#[derive(Default)]
struct Counters {
    reads: AtomicU64,
    bytes_read: AtomicU64,
    writes: AtomicU64,
    bytes_written: AtomicU64,
    flushes: AtomicU64,
    discards: AtomicU64,
}

/// What becomes of a connection, told by its readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The last who had the file open has closed it.
    Released,
    /// It has ended; nothing is served any more.
    Ended,
}

/// A connection whose requests a model answers when it is time.
pub struct Connection {
    device: File,
    tree: Tree,
    opened: AtomicU32,
    counters: Counters,
}

/// Of a token: the length of a write in units of 512 bytes is in its lowest bits, because the answer
/// to a write tells it; the request's own number is above. The kernel counts that by 2 from 2 on,
/// so that it would take a hundred years of 700,000 requests a second until it is too large.
const LENGTH_BITS: u32 = 12;

fn token(unique: u64, length: u32) -> u64 {
    unique << LENGTH_BITS | u64::from(length / 512)
}

impl Connection {
    /// Of an open /dev/fuse that [`detached`] has mounted with this name and size.
    pub fn new(device: File, name: &str, size: u64) -> Arc<Self> {
        let tree = Tree::Named { name: name.as_bytes().to_vec(), size };
        Arc::new(Self { device, tree, opened: AtomicU32::new(0), counters: Counters::default() })
    }

    /// What has come so far.
    pub fn counts(&self) -> Counts {
        let c = &self.counters;
        Counts {
            reads: c.reads.load(Relaxed),
            bytes_read: c.bytes_read.load(Relaxed),
            writes: c.writes.load(Relaxed),
            bytes_written: c.bytes_written.load(Relaxed),
            flushes: c.flushes.load(Relaxed),
            discards: c.discards.load(Relaxed),
        }
    }

    /// How many have the file open.
    pub fn opened(&self) -> u32 {
        self.opened.load(Relaxed)
    }

    /// Takes requests until the connection ends; as many threads as want to. `told` hears of changes.
    pub fn serve(self: &Arc<Self>, realtime: &Realtime, told: &dyn Fn(Change)) {
        sharp_timers();
        let front: Arc<dyn Front> = Arc::clone(self) as _;
        let mut request = vec![0; MAX + 4096];
        while let Some(bytes) = next(&self.device, &mut request) {
            let Some((unique, step)) = protocol::step(bytes, &self.tree) else { continue };
            match step {
                Step::Answer(answer) => send(&self.device, unique, 0, &answer),
                Step::Refuse(errno) => send(&self.device, unique, -errno, &[]),
                Step::Nothing => {}
                Step::Opened => {
                    self.opened.fetch_add(1, Relaxed);
                    send(&self.device, unique, 0, protocol::answer_to(&step));
                }
                Step::Released => {
                    send(&self.device, unique, 0, protocol::answer_to(&step));
                    if self.opened.fetch_sub(1, Relaxed) == 1 {
                        told(Change::Released);
                    }
                }
                Step::Ask(ask) => self.submit(unique, &ask, realtime, &front),
            }
        }
        told(Change::Ended);
    }

    fn submit(&self, unique: u64, ask: &Ask<'_>, realtime: &Realtime, front: &Arc<dyn Front>) {
        let c = &self.counters;
        let (operation, offset, length, data): (_, _, _, &[u8]) = match *ask {
            Ask::Read { offset, length } => {
                c.reads.fetch_add(1, Relaxed);
                c.bytes_read.fetch_add(length.into(), Relaxed);
                (Operation::Read, offset, length, &[])
            }
            Ask::Write { offset, data } => {
                c.writes.fetch_add(1, Relaxed);
                c.bytes_written.fetch_add(data.len() as u64, Relaxed);
                (Operation::Write, offset, data.len() as u32, data)
            }
            Ask::Flush => {
                c.flushes.fetch_add(1, Relaxed);
                (Operation::Flush, 0, 0, &[])
            }
            Ask::Discard { offset, length } => {
                c.discards.fetch_add(1, Relaxed);
                (Operation::Discard, offset, length, &[])
            }
        };
        // Models count in sectors, and so do loop devices.
        if offset % 512 != 0 || length % 512 != 0 {
            return send(&self.device, unique, -libc::EINVAL, &[]);
        }
        let token = token(unique, data.len() as u32);
        realtime.submit(Job { operation, offset, length, fua: false, token }, data, front);
    }
}

impl Front for Connection {
    fn reply(&self, token: u64, answer: Answer<'_>) {
        let unique = token >> LENGTH_BITS;
        let length = (token & ((1 << LENGTH_BITS) - 1)) as u32 * 512;
        match answer {
            Answer::Data(data) => send(&self.device, unique, 0, data),
            Answer::Done if length > 0 => send(&self.device, unique, 0, &protocol::written(length)),
            Answer::Done => send(&self.device, unique, 0, &[]),
            Answer::Failed(errno) => send(&self.device, unique, -errno, &[]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_keeps_the_number_and_the_largest_length() {
        for (unique, length) in [(2, 512), (u64::from(u32::MAX) << 10, MAX as u32), (4, 0)] {
            let token = token(unique, length);
            assert_eq!(token >> LENGTH_BITS, unique);
            assert_eq!((token & ((1 << LENGTH_BITS) - 1)) as u32 * 512, length);
        }
    }

    #[test]
    fn an_answer_has_its_length_its_errno_and_its_number() {
        use std::os::unix::net::UnixStream;
        let (mut here, there) = UnixStream::pair().expect("socket");
        let device = File::from(std::os::fd::OwnedFd::from(there));
        let connection = Connection::new(device, "disk", 4096);
        let mut said = [0; 24];
        connection.reply(token(6, 1024), Answer::Done);
        here.read_exact(&mut said).expect("an answer");
        assert_eq!(said[..4], 24_u32.to_ne_bytes());
        assert_eq!(said[8..16], 6_u64.to_ne_bytes());
        assert_eq!(said[16..20], 1024_u32.to_ne_bytes(), "a write's answer tells how much");
        connection.reply(token(8, 0), Answer::Failed(libc::EIO));
        here.read_exact(&mut said[..16]).expect("an answer");
        assert_eq!((&said[..4], &said[4..8]), (&16_u32.to_ne_bytes()[..], &(-libc::EIO).to_ne_bytes()[..]));
        connection.reply(token(10, 0), Answer::Data(&[7; 8]));
        here.read_exact(&mut said).expect("an answer");
        assert_eq!(said[16..], [7; 8]);
    }
}
