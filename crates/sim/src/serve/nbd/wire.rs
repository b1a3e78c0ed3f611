// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The protocol's numbers, and calls on sockets that the standard library does not have.
//! Everything on the wire is big-endian.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

pub(super) const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
pub(super) const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
pub(super) const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
pub(super) const REQUEST: u32 = 0x2560_9513;
pub(super) const SIMPLE_REPLY: u32 = 0x6744_6698;

// Handshake flags; the client's have the same bits.
pub(super) const FIXED_NEWSTYLE: u16 = 1 << 0;
pub(super) const NO_ZEROES: u16 = 1 << 1;

// Transmission flags.
pub(super) const HAS_FLAGS: u16 = 1 << 0;
pub(super) const SEND_FLUSH: u16 = 1 << 2;
pub(super) const SEND_FUA: u16 = 1 << 3;
pub(super) const ROTATIONAL: u16 = 1 << 4;
pub(super) const SEND_TRIM: u16 = 1 << 5;
pub(super) const SEND_WRITE_ZEROES: u16 = 1 << 6;
pub(super) const CAN_MULTI_CONN: u16 = 1 << 8;

// Options.
pub(super) const OPT_EXPORT_NAME: u32 = 1;
pub(super) const OPT_ABORT: u32 = 2;
pub(super) const OPT_LIST: u32 = 3;
pub(super) const OPT_INFO: u32 = 6;
pub(super) const OPT_GO: u32 = 7;

// Replies to options.
pub(super) const REP_ACK: u32 = 1;
pub(super) const REP_SERVER: u32 = 2;
pub(super) const REP_INFO: u32 = 3;
pub(super) const REP_ERR_UNSUP: u32 = 1 << 31 | 1;
pub(super) const REP_ERR_INVALID: u32 = 1 << 31 | 3;
pub(super) const REP_ERR_UNKNOWN: u32 = 1 << 31 | 6;

// What is told of an export.
pub(super) const INFO_EXPORT: u16 = 0;
pub(super) const INFO_NAME: u16 = 1;
pub(super) const INFO_DESCRIPTION: u16 = 2;
pub(super) const INFO_BLOCK_SIZE: u16 = 3;

// Commands.
pub(super) const CMD_READ: u16 = 0;
pub(super) const CMD_WRITE: u16 = 1;
pub(super) const CMD_DISC: u16 = 2;
pub(super) const CMD_FLUSH: u16 = 3;
pub(super) const CMD_TRIM: u16 = 4;
pub(super) const CMD_WRITE_ZEROES: u16 = 6;

// Their flags.
pub(super) const CMD_FLAG_FUA: u16 = 1 << 0;
pub(super) const CMD_FLAG_NO_HOLE: u16 = 1 << 1;

/// Most bytes of a read or a write: what the protocol lets every client count on.
pub(super) const PAYLOAD: u32 = 32 << 20;

/// The protocol's number of an errno ("Error values" there); EIO for those that it has not.
pub(super) fn error(errno: i32) -> u32 {
    match errno {
        libc::EPERM | libc::EROFS => 1,
        libc::ENOMEM => 12,
        libc::EINVAL => 22,
        libc::ENOSPC | libc::EFBIG | libc::EDQUOT => 28,
        libc::EOVERFLOW => 75,
        libc::ENOTSUP => 95,
        libc::ESHUTDOWN => 108,
        _ => 5,
    }
}

/// Ends both directions: who waits on the socket, waits no more.
pub(super) fn shutdown(socket: &impl AsFd) {
    // SAFETY: the descriptor is open. Where it is not connected any more nothing is left to do.
    unsafe { libc::shutdown(socket.as_fd().as_raw_fd(), libc::SHUT_RDWR) };
}

/// How long a read or a write may wait; zero: for ever.
///
/// # Errors
/// The kernel's.
pub(super) fn set_timeout(socket: &File, time: Duration) -> io::Result<()> {
    let micros = time.subsec_micros() as libc::suseconds_t;
    let time = libc::timeval { tv_sec: time.as_secs() as libc::time_t, tv_usec: micros };
    for direction in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        // SAFETY: the descriptor is open, pointer and length are of one live value.
        let done = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                direction,
                std::ptr::from_ref(&time).cast(),
                size_of::<libc::timeval>() as libc::socklen_t,
            )
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// A socket that is read and written until a time comes, whatever comes before.
pub(super) struct Until<'a> {
    pub socket: &'a File,
    pub end: Instant,
}

impl Until<'_> {
    fn left(&self) -> io::Result<()> {
        match self.end.saturating_duration_since(Instant::now()) {
            // Less would be no limit at all.
            left if left < Duration::from_millis(1) => Err(io::ErrorKind::TimedOut.into()),
            left => set_timeout(self.socket, left),
        }
    }
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.left()?;
        self.socket.read(buffer)
    }
}

impl Write for Until<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left()?;
        send(self.socket, &[IoSlice::new(bytes)], true)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends, or (`wait` is false) as much as goes without waiting; how many bytes.
///
/// # Errors
/// The kernel's; `WouldBlock` where nothing goes without waiting.
pub(super) fn send(socket: &File, parts: &[IoSlice<'_>], wait: bool) -> io::Result<usize> {
    let flags = if wait { libc::MSG_NOSIGNAL } else { libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT };
    // SAFETY: msghdr is plain data, for which zeroes are "nothing".
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // An IoSlice is an iovec (its documentation says so), which sendmsg only reads.
    message.msg_iov = parts.as_ptr().cast_mut().cast();
    message.msg_iovlen = parts.len() as _;
    // SAFETY: the message and what it points to outlive the call.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &message, flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}
