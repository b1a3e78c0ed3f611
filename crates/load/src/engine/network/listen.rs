// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sockets that servers take connections from. They are there before any worker begins, so that a client of the same
//! step finds them.

use super::super::{errno, EngineError};
use super::{timeout, Address, TURN};
use crate::job::{Job, Multiplex, Sharing, What};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

/// Connections that wait to be accepted; the kernel takes less of it where net.core.somaxconn is lower.
const BACKLOG: i32 = 4096;

/// The sockets of a job: one for all its workers, or one each. A Unix socket's name goes with them.
#[derive(Debug, Default)]
pub struct Listeners {
    sockets: Vec<OwnedFd>,
    name: Option<PathBuf>,
}

impl Listeners {
    /// Those of a job; none of one that serves nobody.
    ///
    /// # Errors
    /// The address is none of this machine's, or somebody has it.
    pub fn open(job: &Job) -> Result<Self, EngineError> {
        if job.what != What::Serve {
            return Ok(Listeners::default());
        }
        let address = Address::of("--listen", &job.listen)?;
        let mut listeners = Listeners::default();
        let count = if job.sharing == Sharing::Each { job.workers() } else { 1 };
        for _ in 0..count {
            let socket = address.listen(count > 1, job.multiplex == Multiplex::None).map_err(|error| {
                let next = match error {
                    libc::EADDRINUSE if job.listen.contains('/') => {
                        "a server has it, or left it: remove the file"
                    }
                    libc::EADDRINUSE => "another server has it ('ss -lntup' names it)",
                    libc::EADDRNOTAVAIL => "give an address of this machine ('ip addr')",
                    libc::EACCES => {
                        "ports below 1024 need root, and a Unix socket a directory that you may write to"
                    }
                    _ => "give HOST:PORT, udp:HOST:PORT, or the path of a Unix socket",
                };
                let error = std::io::Error::from_raw_os_error(error);
                EngineError(format!("--listen {}: {error}; {next}", job.listen))
            })?;
            if let Address::Unix(path) = &address {
                listeners.name = Some(path.clone());
            }
            listeners.sockets.push(socket);
        }
        Ok(listeners)
    }

    /// The socket of a job's worker; -1: it has none.
    pub fn of(&self, worker: u32) -> RawFd {
        let own = self.sockets.get(worker as usize).or(self.sockets.first());
        own.map_or(-1, AsRawFd::as_raw_fd)
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.name.take().map(std::fs::remove_file);
    }
}

impl Address {
    /// A socket that listens there; `several`: others listen there too, and the kernel divides the connections.
    /// `blocks`: accept(2) waits, for a [`TURN`] at most.
    fn listen(&self, several: bool, blocks: bool) -> Result<OwnedFd, i32> {
        let (name, len) = self.name()?;
        let kind = self.kind() | libc::SOCK_CLOEXEC | if blocks { 0 } else { libc::SOCK_NONBLOCK };
        let yes = 1i32;
        let done = |result: i32| if result == 0 { Ok(()) } else { Err(errno()) };
        // SAFETY: the name is as long as is said, the option an int; the descriptor is new and ours.
        unsafe {
            let fd = libc::socket(i32::from(name.ss_family), kind, 0);
            if fd < 0 {
                return Err(errno());
            }
            let socket = OwnedFd::from_raw_fd(fd);
            let set = |option| {
                let value = std::ptr::from_ref(&yes).cast();
                done(libc::setsockopt(fd, libc::SOL_SOCKET, option, value, size_of::<i32>() as u32))
            };
            if matches!(self, Address::Tcp(_)) {
                set(libc::SO_REUSEADDR)?;
            }
            if several && !matches!(self, Address::Unix(_)) {
                set(libc::SO_REUSEPORT)?;
            }
            done(libc::bind(fd, std::ptr::from_ref(&name).cast(), len))?;
            if self.kind() == libc::SOCK_STREAM {
                done(libc::listen(fd, BACKLOG))?;
            }
            if blocks {
                timeout(fd, libc::SO_RCVTIMEO, TURN).map_err(|e| (-e) as i32)?;
            }
            Ok(socket)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(listen: &str) -> Job {
        Job { what: What::Serve, listen: listen.into(), threads: 2, ..Job::default() }
    }

    #[test]
    fn workers_have_a_socket_each_or_one_for_all() {
        let each = Listeners::open(&serve("127.0.0.1:18293")).expect("a free port");
        assert_ne!(each.of(0), each.of(1));
        drop(each);
        let job = Job { sharing: Sharing::Shared, ..serve("127.0.0.1:18293") };
        let shared = Listeners::open(&job).expect("a free port");
        assert_eq!(shared.of(0), shared.of(1));
        let error = Listeners::open(&job).expect_err("it is taken").0;
        assert!(error.contains("127.0.0.1:18293") && error.contains("another server"), "{error}");
        assert_eq!(Listeners::open(&Job::default()).expect("nothing to do").of(0), -1);
    }

    #[test]
    fn the_name_of_a_unix_socket_goes_with_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("s");
        let job = Job { sharing: Sharing::Shared, ..serve(path.to_str().expect("text")) };
        let listeners = Listeners::open(&job).expect("made");
        assert!(path.exists());
        assert!(Listeners::open(&job).expect_err("it is taken").0.contains("remove the file"));
        assert!(path.exists(), "it is the first one's");
        drop(listeners);
        assert!(!path.exists());
    }
}
