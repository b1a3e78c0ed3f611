// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests over sockets: who asks ([`client`], one at a time; [`event_client`], many), who answers ([`server`],
//! [`ring_server`]), and what both agree on.

mod client;
mod datagram_server;
mod event_client;
mod http;
mod listen;
mod readiness;
mod reply;
mod ring_server;
mod rooms;
mod server;

pub use client::Requests;
pub use datagram_server::DatagramServer;
pub use event_client::EventRequests;
pub use listen::Listeners;
pub use ring_server::RingServer;
pub use server::{
    BlockingServer, EpollEdgeServer, EpollExclusiveServer, EpollServer, PollServer, SelectServer,
};

use super::{errno, raise_limit, result_of, EngineError};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

/// A peer that says nothing for so long has failed the request: a load must end.
const SILENCE: Duration = Duration::from_secs(60);
/// A server that waits looks so often whether it should end.
const TURN: Duration = Duration::from_millis(100);

/// Where a server is.
#[derive(Debug, Clone)]
enum Address {
    Tcp(SocketAddr),
    Udp(SocketAddr),
    Unix(PathBuf),
}

/// How the address of a server of datagrams begins.
pub const UDP: &str = "udp:";
/// A datagram of which there is no answer for so long is lost, or its answer is.
const LOST: Duration = Duration::from_secs(1);

impl Address {
    /// HOST:PORT, the same behind `udp:`, or the path of a Unix socket, which has a '/'.
    fn of(option: &str, text: &str) -> Result<Self, EngineError> {
        if text.contains('/') {
            return Ok(Address::Unix(text.into()));
        }
        let next = "give HOST:PORT, udp:HOST:PORT, or the path of a Unix socket";
        let datagrams = text.strip_prefix(UDP);
        let found = datagrams.unwrap_or(text).to_socket_addrs().map(|mut all| all.next());
        let found = found.map_err(|e| EngineError(format!("{option} {text}: {e}; {next}")))?;
        let kind = if datagrams.is_some() { Address::Udp } else { Address::Tcp };
        found.map(kind).ok_or_else(|| EngineError(format!("{option} {text}: has no address; {next}")))
    }

    /// What sockets there are of.
    fn kind(&self) -> i32 {
        match self {
            Address::Udp(_) => libc::SOCK_DGRAM,
            Address::Tcp(_) | Address::Unix(_) => libc::SOCK_STREAM,
        }
    }

    /// As the kernel takes it, and its length.
    fn name(&self) -> Result<(libc::sockaddr_storage, libc::socklen_t), i32> {
        // SAFETY: zeros are a value of this plain data.
        let mut name: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let place = std::ptr::from_mut(&mut name);
        let length = match self {
            Address::Tcp(SocketAddr::V4(at)) | Address::Udp(SocketAddr::V4(at)) => {
                let v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as u16,
                    sin_port: at.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from(*at.ip()).to_be() },
                    sin_zero: [0; 8],
                };
                // SAFETY: any address fits into the storage.
                unsafe { place.cast::<libc::sockaddr_in>().write(v4) };
                size_of::<libc::sockaddr_in>()
            }
            Address::Tcp(SocketAddr::V6(at)) | Address::Udp(SocketAddr::V6(at)) => {
                let v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as u16,
                    sin6_port: at.port().to_be(),
                    sin6_flowinfo: at.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: at.ip().octets() },
                    sin6_scope_id: at.scope_id(),
                };
                // SAFETY: as above.
                unsafe { place.cast::<libc::sockaddr_in6>().write(v6) };
                size_of::<libc::sockaddr_in6>()
            }
            Address::Unix(path) => {
                let bytes = path.as_os_str().as_bytes();
                let mut unix = libc::sockaddr_un { sun_family: libc::AF_UNIX as u16, sun_path: [0; 108] };
                if bytes.len() >= unix.sun_path.len() {
                    return Err(libc::ENAMETOOLONG);
                }
                for (to, from) in unix.sun_path.iter_mut().zip(bytes) {
                    *to = *from as libc::c_char;
                }
                // SAFETY: as above.
                unsafe { place.cast::<libc::sockaddr_un>().write(unix) };
                size_of::<libc::sockaddr_un>()
            }
        };
        Ok((name, length as libc::socklen_t))
    }

    /// A connection to there; with `blocks` it is made when this returns, else it may be on its way.
    ///
    /// # Errors
    /// The negative error number.
    fn connect(&self, blocks: bool) -> Result<(OwnedFd, bool), i64> {
        let (name, len) = self.name().map_err(|e| -i64::from(e))?;
        let how = libc::SOCK_CLOEXEC | if blocks { 0 } else { libc::SOCK_NONBLOCK };
        // SAFETY: the name is as long as is said; the descriptor is new and ours.
        unsafe {
            let fd = libc::socket(i32::from(name.ss_family), self.kind() | how, 0);
            if fd < 0 {
                return Err(-i64::from(errno()));
            }
            let socket = OwnedFd::from_raw_fd(fd);
            no_delay(fd);
            if blocks {
                let silence = if self.kind() == libc::SOCK_DGRAM { LOST } else { SILENCE };
                timeout(fd, libc::SO_RCVTIMEO, silence)?;
                timeout(fd, libc::SO_SNDTIMEO, SILENCE)?;
            }
            match result_of(libc::connect(fd, std::ptr::from_ref(&name).cast(), len) as isize) {
                0 => Ok((socket, true)),
                error if error == -i64::from(libc::EINPROGRESS) => Ok((socket, false)),
                error => Err(error),
            }
        }
    }
}

/// Without, a message in two segments waits for an acknowledgement (Nagle). Other sockets have none of it.
fn no_delay(fd: RawFd) {
    let yes = 1i32;
    // SAFETY: the option is an int.
    unsafe {
        let value = std::ptr::from_ref(&yes).cast();
        libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, value, size_of::<i32>() as u32);
    }
}

/// How long a call on a socket that blocks may take.
fn timeout(fd: RawFd, option: i32, time: Duration) -> Result<(), i64> {
    let time = libc::timeval {
        tv_sec: time.as_secs() as libc::time_t,
        tv_usec: libc::suseconds_t::from(time.subsec_micros()),
    };
    // SAFETY: the option is a timeval.
    let set = unsafe {
        let value = std::ptr::from_ref(&time).cast();
        libc::setsockopt(fd, libc::SOL_SOCKET, option, value, size_of::<libc::timeval>() as u32)
    };
    match result_of(set as isize) {
        0 => Ok(()),
        error => Err(error),
    }
}

/// Bytes that were taken, or the negative error number; a peer that is gone is an error, and no signal.
#[inline]
fn send_some(fd: RawFd, bytes: &[u8]) -> i64 {
    // SAFETY: the bytes are there.
    result_of(unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) })
}

/// Bytes that came, 0: the peer closed, or the negative error number.
#[inline]
fn receive(fd: RawFd, into: &mut [u8]) -> i64 {
    // SAFETY: there is room for as many.
    result_of(unsafe { libc::recv(fd, into.as_mut_ptr().cast(), into.len(), 0) })
}

/// Sends all of it on a socket that blocks; 0, or the negative error number.
fn send_all(fd: RawFd, mut bytes: &[u8]) -> i64 {
    while !bytes.is_empty() {
        match send_some(fd, bytes) {
            sent @ 0.. => bytes = &bytes[sent as usize..],
            error => return error,
        }
    }
    0
}

/// Nothing is there now; not an error.
fn is_later(result: i64) -> bool {
    result == -i64::from(libc::EAGAIN) || result == -i64::from(libc::EINTR)
}

/// Descriptors for so many connections, or what to do.
fn room_for(connections: u64) -> Result<(), EngineError> {
    raise_limit(connections + 64, "--connections")
}

fn text_of(error: i64) -> io::Error {
    io::Error::from_raw_os_error((-error) as i32)
}
