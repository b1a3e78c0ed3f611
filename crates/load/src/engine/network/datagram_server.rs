// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A server of datagrams (UDP): each one that comes is a request, and gets one as its answer.

use super::http::HEAD;
use super::server::Service;
use super::{is_later, result_of};
use crate::engine::{Engine, EngineError, Operation, Setup};
use std::os::fd::RawFd;

/// One socket for all who ask: as with connections by calls that block, a worker answers one request at a time.
#[derive(Debug)]
pub struct DatagramServer {
    answer: Vec<u8>,
    socket: RawFd,
    received: Vec<u8>,
    /// Who asked, and how long the address is; 0: nobody did.
    from: libc::sockaddr_storage,
    length: libc::socklen_t,
}

impl Engine for DatagramServer {
    const SERVES: bool = true;

    fn open(setup: &Setup<'_>) -> Result<Self, EngineError> {
        Ok(DatagramServer {
            answer: Service::of(setup.job).answer,
            socket: setup.listener,
            received: vec![0; HEAD],
            // SAFETY: zeros are a value of this plain data.
            from: unsafe { std::mem::zeroed() },
            length: 0,
        })
    }

    /// Waits for a turn at most, which the socket was told.
    fn ready(&mut self, _: u64) -> Result<bool, i32> {
        if self.length > 0 {
            return Ok(true);
        }
        let mut length = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        // SAFETY: there is room for as many bytes, and for any address.
        let came = result_of(unsafe {
            let from = std::ptr::from_mut(&mut self.from).cast();
            let into = self.received.as_mut_ptr().cast();
            libc::recvfrom(self.socket, into, self.received.len(), 0, from, &mut length)
        });
        match came {
            0.. => self.length = length,
            error if is_later(error) => {}
            error => return Err((-error) as i32),
        }
        Ok(self.length > 0)
    }

    #[inline]
    fn start(&mut self, _: &Operation, _: u32) -> Option<i64> {
        let length = std::mem::take(&mut self.length);
        // SAFETY: the bytes are there, and the address is as long as the kernel said.
        Some(result_of(unsafe {
            let (to, answer) = (std::ptr::from_ref(&self.from).cast(), &self.answer);
            libc::sendto(self.socket, answer.as_ptr().cast(), answer.len(), libc::MSG_NOSIGNAL, to, length)
        }))
    }
}
