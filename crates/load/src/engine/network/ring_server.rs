// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A server by io_uring: connections and requests come by themselves once they were asked for (multishot accept and
//! recv, into buffers that the kernel takes from a ring), and answers go out with the next wait (Linux 6.0).

use super::server::{Asked, Service, STEPS};
use super::{no_delay, room_for};
use crate::engine::ring::{Completion, Ring, Submission};
use crate::engine::{errno, Engine, EngineError, Operation, Setup};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU16, Ordering};

const OP_ACCEPT: u8 = 13;
const OP_SEND: u8 = 26;
const OP_RECV: u8 = 27;
const ACCEPT_MULTISHOT: u16 = 1 << 0;
const RECV_MULTISHOT: u16 = 1 << 1;
const BUFFER_SELECT: u8 = 1 << 5;
const REGISTER_BUFFER_RING: u32 = 22;
/// Of a completion: its upper half is the buffer's number; more will come.
const HAS_BUFFER: u32 = 1 << 0;
const MORE: u32 = 1 << 1;

const ENTRIES: u32 = 4096;
const BUFFERS: u16 = 1024;
const EACH: usize = 4096;

/// What an operation was, in the upper half of its `user_data`; the lower one is the descriptor.
const ACCEPTS: u64 = 0;
const RECEIVES: u64 = 1 << 32;
const SENDS: u64 = 2 << 32;

/// `struct io_uring_buf`; the ring's tail lies in `rest` of the first.
#[repr(C)]
struct Buffer {
    address: u64,
    length: u32,
    number: u16,
    rest: AtomicU16,
}

/// `struct io_uring_buf_reg`.
#[repr(C)]
struct Registered {
    address: u64,
    entries: u32,
    group: u16,
    flags: u16,
    reserved: [u64; 3],
}

/// Memory for what comes in, which the kernel takes buffer by buffer.
#[derive(Debug)]
struct Buffers {
    start: *mut u8,
    tail: u16,
}

const RING_BYTES: usize = BUFFERS as usize * size_of::<Buffer>();
const ALL_BYTES: usize = RING_BYTES + BUFFERS as usize * EACH;

impl Buffers {
    fn new(ring: &Ring) -> Result<Self, i32> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, zeroed, which is a valid value of all that lies in it.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), ALL_BYTES, protection, how, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(errno());
        }
        let mut buffers = Buffers { start: start.cast(), tail: 0 };
        let registered = Registered {
            address: start as u64,
            entries: u32::from(BUFFERS),
            group: 0,
            flags: 0,
            reserved: [0; 3],
        };
        // SAFETY: one registration; the memory is unmapped after the ring is gone.
        unsafe { ring.register(REGISTER_BUFFER_RING, std::ptr::from_ref(&registered).cast(), 1)? };
        (0..BUFFERS).for_each(|number| buffers.give(number));
        Ok(buffers)
    }

    fn at(&self, number: u16) -> *mut u8 {
        self.start.wrapping_add(RING_BYTES + usize::from(number) * EACH)
    }

    /// Gives a buffer to the kernel.
    fn give(&mut self, number: u16) {
        let ring = self.start.cast::<Buffer>();
        let place = usize::from(self.tail & (BUFFERS - 1));
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: both places are in the mapping; the kernel reads this one after the tail has passed it.
        unsafe {
            let buffer = ring.add(place);
            (*buffer).address = self.at(number) as u64;
            (*buffer).length = EACH as u32;
            (*buffer).number = number;
            (*ring).rest.store(self.tail, Ordering::Release);
        }
    }

    fn bytes(&self, number: u16, length: usize) -> &[u8] {
        // SAFETY: the buffer is ours until it is given back, and as long.
        unsafe { std::slice::from_raw_parts(self.at(number), length.min(EACH)) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped.
        unsafe { libc::munmap(self.start.cast(), ALL_BYTES) };
    }
}

#[derive(Debug)]
struct Connection {
    fd: OwnedFd,
    asked: Asked,
}

/// Many connections by one ring.
#[derive(Debug)]
pub struct RingServer {
    listener: RawFd,
    connections: Vec<Option<Connection>>,
    completions: VecDeque<Completion>,
    /// Whose requests are whole, and how many.
    whole: (RawFd, u32),
    // In this order: the ring goes before the memory that it writes to.
    ring: Ring,
    buffers: Buffers,
    service: Service,
}

impl Engine for RingServer {
    const SERVES: bool = true;

    fn open(setup: &Setup<'_>) -> Result<Self, EngineError> {
        // With fewer it serves fewer.
        let _ = room_for(65_536);
        let failed = |e| {
            let error = std::io::Error::from_raw_os_error(e);
            EngineError(format!(
                "--multiplex io-uring: {error}; it needs Linux 6.0 or later, not forbidden by sysctl kernel.io_uring_disabled; choose --multiplex epoll"
            ))
        };
        let ring = Ring::new(ENTRIES, false).map_err(failed)?;
        let buffers = Buffers::new(&ring).map_err(failed)?;
        let mut server = RingServer {
            service: Service::of(setup.job),
            listener: setup.listener,
            connections: Vec::new(),
            completions: VecDeque::new(),
            whole: (-1, 0),
            ring,
            buffers,
        };
        server.accepts();
        Ok(server)
    }

    fn ready(&mut self, ns: u64) -> Result<bool, i32> {
        for _ in 0..STEPS {
            if self.whole.1 > 0 {
                return Ok(true);
            }
            if let Some(completion) = self.completions.pop_front() {
                self.completed(completion)?;
                continue;
            }
            self.ring.publish();
            if self.reap() == 0 {
                match self.ring.enter(self.ring.queued(), 1, false, Some(ns)) {
                    Ok(()) | Err(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN) => {}
                    Err(error) => return Err(error),
                }
                if self.reap() == 0 {
                    return Ok(false);
                }
            }
        }
        Ok(self.whole.1 > 0)
    }

    #[inline]
    fn start(&mut self, _: &Operation, _: u32) -> Option<i64> {
        self.whole.1 -= 1;
        let fd = self.whole.0;
        let (address, length) = (self.service.answer.as_ptr() as u64, self.service.answer.len());
        // Without MSG_WAITALL it may send a part.
        let how = (libc::MSG_NOSIGNAL | libc::MSG_WAITALL) as u32;
        let user_data = SENDS | fd as u64;
        self.push(Submission {
            opcode: OP_SEND,
            fd,
            address,
            len: length as u32,
            rw_flags: how,
            user_data,
            ..Submission::default()
        });
        Some(length as i64)
    }

    fn close(&mut self) -> i64 {
        self.hand_over();
        0
    }
}

impl RingServer {
    /// Hands the answers over that would go with the next wait.
    fn hand_over(&mut self) {
        self.ring.publish();
        let _ = self.ring.enter(self.ring.queued(), 0, false, None);
    }

    fn push(&mut self, submission: Submission) {
        if self.ring.queued() >= ENTRIES - 1 {
            self.hand_over();
        }
        self.ring.push(submission);
    }

    fn reap(&mut self) -> u32 {
        let completions = &mut self.completions;
        self.ring.each(|completion| completions.push_back(completion))
    }

    fn accepts(&mut self) {
        let (fd, how) = (self.listener, libc::SOCK_CLOEXEC as u32);
        self.push(Submission {
            opcode: OP_ACCEPT,
            ioprio: ACCEPT_MULTISHOT,
            fd,
            rw_flags: how,
            user_data: ACCEPTS,
            ..Submission::default()
        });
    }

    fn receives(&mut self, fd: RawFd) {
        let user_data = RECEIVES | fd as u64;
        self.push(Submission {
            opcode: OP_RECV,
            flags: BUFFER_SELECT,
            ioprio: RECV_MULTISHOT,
            fd,
            user_data,
            ..Submission::default()
        });
    }

    fn completed(&mut self, completion: Completion) -> Result<(), i32> {
        let Completion { user_data, result, flags } = completion;
        let fd = user_data as u32 as RawFd;
        let more = flags & MORE != 0;
        match user_data >> 32 << 32 {
            ACCEPTS => {
                if result >= 0 {
                    // SAFETY: the descriptor is new and ours.
                    let socket = unsafe { OwnedFd::from_raw_fd(result) };
                    no_delay(result);
                    if self.connections.len() <= result as usize {
                        self.connections.resize_with(result as usize + 1, || None);
                    }
                    self.connections[result as usize] =
                        Some(Connection { fd: socket, asked: self.service.asked() });
                    self.receives(result);
                } else if result == -libc::EINVAL {
                    return Err(libc::EINVAL);
                }
                if !more {
                    self.accepts();
                }
            }
            RECEIVES => {
                let whole = self.came(fd, result, flags);
                self.whole = (fd, whole.unwrap_or_default());
                match (whole, more) {
                    (Some(_), true) => {}
                    (Some(_), false) => self.receives(fd),
                    // What was asked for ends with the connection; its number must not be another's before that.
                    // SAFETY: plain call.
                    (None, true) => drop(unsafe { libc::shutdown(fd, libc::SHUT_RDWR) }),
                    (None, false) => {
                        // An answer that is not handed over yet must not go to whoever has the number next.
                        self.hand_over();
                        drop(self.connections.get_mut(fd as usize).and_then(Option::take));
                    }
                }
            }
            // An answer that could not be sent: the connection's end comes as a request's.
            _ => {}
        }
        Ok(())
    }

    /// Requests that are whole by what came; None: the connection is over.
    fn came(&mut self, fd: RawFd, result: i32, flags: u32) -> Option<u32> {
        let connection = self.connections.get_mut(fd as usize).and_then(Option::as_mut);
        let mut whole = (result == -libc::ENOBUFS).then_some(0);
        if flags & HAS_BUFFER != 0 {
            let number = (flags >> 16) as u16;
            if let (1.., Some(connection)) = (result, connection) {
                debug_assert_eq!(connection.fd.as_raw_fd(), fd);
                whole = connection.asked.take(self.buffers.bytes(number, result as usize));
            }
            self.buffers.give(number);
        }
        whole
    }
}
