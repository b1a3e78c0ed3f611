// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a collector listens: a TCP port, a Unix socket, or a port of a virtual machine's host (vsock).

use anyhow::{bail, Context, Result};
use std::fmt;
use std::io;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// A connected socket of any family; read, write and their time limits are the same for all.
pub type Socket = UnixStream;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);

/// An address, written `HOST:PORT`, `unix:PATH` or `vsock:CID:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A host's name or number, and a port.
    Tcp(String),
    /// A Unix socket.
    Unix(PathBuf),
    /// Context id and port of a virtual machine's socket, vsock(7); 2 is the host.
    Vsock(u32, u32),
}

impl FromStr for Address {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Some(path) = text.strip_prefix("unix:").filter(|p| !p.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        if let Some(address) = text.strip_prefix("vsock:") {
            if let Some((Ok(cid), Ok(port))) =
                address.split_once(':').map(|(cid, port)| (cid.parse(), port.parse()))
            {
                return Ok(Self::Vsock(cid, port));
            }
        } else if let Some((host, port)) = text.rsplit_once(':') {
            if !host.is_empty() && port.parse::<u16>().is_ok() {
                return Ok(Self::Tcp(text.into()));
            }
        }
        bail!("'{text}' is no address; examples: collector.example:7007, [::1]:7007, unix:/run/plumb.sock, vsock:2:7007")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Vsock(cid, port) => write!(f, "vsock:{cid}:{port}"),
        }
    }
}

impl Address {
    /// Connects.
    ///
    /// # Errors
    /// As connect(2), named; of each TCP address within five seconds.
    pub fn connect(&self) -> Result<Socket> {
        let socket = match self {
            Self::Tcp(address) => tcp(address),
            Self::Unix(path) => UnixStream::connect(path),
            Self::Vsock(cid, port) => vsock(*cid, *port, libc::connect),
        };
        socket.with_context(|| format!("connect to {self}; does 'plumb collect' listen there?"))
    }

    /// Listens.
    ///
    /// # Errors
    /// As bind(2), named.
    pub fn listen(&self) -> Result<Listener> {
        let fd = match self {
            Self::Tcp(address) => TcpListener::bind(address.as_str()).map(OwnedFd::from),
            Self::Unix(path) => unix_listener(path),
            Self::Vsock(cid, port) => vsock(*cid, *port, libc::bind).and_then(|socket| {
                // SAFETY: a call on a descriptor of ours.
                match unsafe { libc::listen(socket.as_raw_fd(), 64) } {
                    0 => Ok(socket.into()),
                    _ => Err(io::Error::last_os_error()),
                }
            }),
        };
        let path = match self {
            Self::Unix(path) => Some(path.clone()),
            _ => None,
        };
        Ok(Listener {
            fd: fd.with_context(|| format!("listen on {self}"))?,
            tcp: matches!(self, Self::Tcp(_)),
            path,
        })
    }
}

/// All addresses of a name, in turn.
fn tcp(address: &str) -> io::Result<Socket> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(OwnedFd::from(stream).into());
            }
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// A socket that an ended collector left behind is removed; what is no socket, or is listened on, stays.
fn unix_listener(path: &Path) -> io::Result<OwnedFd> {
    let stale = path.symlink_metadata().is_ok_and(|m| m.file_type().is_socket())
        && UnixStream::connect(path).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
    if stale {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    // Keys decide who may send, not who may connect: a sender has given up its privileges when it comes again.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
    Ok(listener.into())
}

type Call = unsafe extern "C" fn(libc::c_int, *const libc::sockaddr, libc::socklen_t) -> libc::c_int;

/// A socket of a virtual machine, connected or bound.
fn vsock(cid: u32, port: u32, call: Call) -> io::Result<Socket> {
    // SAFETY: a call without memory.
    let fd = unsafe { libc::socket(libc::AF_VSOCK, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was just opened and is nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: plain data.
    let mut address: libc::sockaddr_vm = unsafe { std::mem::zeroed() };
    address.svm_family = libc::AF_VSOCK as libc::sa_family_t;
    (address.svm_cid, address.svm_port) = (cid, port);
    let size = size_of::<libc::sockaddr_vm>() as libc::socklen_t;
    // SAFETY: the address is valid for its size.
    match unsafe { call(fd, (&raw const address).cast(), size) } {
        0 => Ok(socket.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What listens; a Unix socket is removed with it.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    tcp: bool,
    path: Option<PathBuf>,
}

impl Listener {
    /// The port, of TCP.
    pub fn port(&self) -> Option<u16> {
        let listener = TcpListener::from(self.fd.try_clone().ok()?);
        listener.local_addr().ok().map(|a| a.port())
    }

    /// Waits so long for a connection; none came: `None`.
    ///
    /// # Errors
    /// As accept(2).
    pub fn accept(&self, wait: Duration) -> io::Result<Option<Socket>> {
        if !readable(self.fd.as_raw_fd(), wait)? {
            return Ok(None);
        }
        // SAFETY: a call on a descriptor of ours; the peer's address is not asked for.
        let fd = unsafe {
            libc::accept4(self.fd.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), libc::SOCK_CLOEXEC)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that was just opened and is nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        if self.tcp {
            let stream = TcpStream::from(socket);
            stream.set_nodelay(true)?;
            return Ok(Some(OwnedFd::from(stream).into()));
        }
        Ok(Some(socket.into()))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Whether there is something to read, within `wait`.
pub fn readable(fd: libc::c_int, wait: Duration) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let wait = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: one pollfd that lives through the call.
    match unsafe { libc::poll(&raw mut poll, 1, wait) } {
        0 => Ok(false),
        n if n > 0 => Ok(true),
        _ => match io::Error::last_os_error() {
            e if e.kind() == io::ErrorKind::Interrupted => Ok(false),
            e => Err(e),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in ["collector:7007", "127.0.0.1:1", "[::1]:7007", "unix:/run/p.sock", "vsock:2:7007"] {
            assert_eq!(text.parse::<Address>().expect(text).to_string(), text);
        }
        for text in ["", "host", "host:", ":7", "host:70000", "unix:", "vsock:2", "vsock:x:1", "vsock:2:"] {
            let error = text.parse::<Address>().expect_err(text).to_string();
            assert!(error.contains("examples: collector.example:7007"), "{text}: {error}");
        }
    }

    #[test]
    fn only_a_socket_that_nobody_listens_on_is_replaced() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("s");
        let address = Address::Unix(path.clone());
        let first = address.listen().expect("a new one");
        assert!(address.listen().is_err(), "somebody listens");
        let _open = address.connect().expect("connected");
        assert!(first.accept(CONNECT).expect("accepted").is_some());
        drop(first);
        assert!(!path.exists());
        // What a killed one leaves.
        drop(UnixListener::bind(&path).expect("bound"));
        assert!(path.exists());
        drop(address.listen().expect("in its place"));
        std::fs::write(&path, "a file").expect("written");
        assert!(address.listen().is_err());
        assert_eq!(std::fs::read_to_string(&path).expect("it is still there"), "a file");
    }
}
