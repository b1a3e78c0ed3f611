// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A served disk over NBD, on TCP or a Unix socket: for machines and programs that cannot
//! have the block device (QEMU, nbdkit's tools, another host's nbd-client).
//!
//! Data flows: a connection's thread takes requests (`connection`), after it has agreed
//! on the export (`handshake`) -> [`super::realtime`] -> the reply is sent by whoever has
//! it, or put before the connection's writer where the client is slow to take it: a client
//! that does not read delays nobody but itself.
//!
//! Protocol: fixed newstyle, simple replies, no TLS
//! (<https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>).

mod connection;
mod handshake;
#[cfg(test)]
mod tests;
mod wire;

use super::realtime::Realtime;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv6Addr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections at once; more are closed at once.
const CONNECTIONS: usize = 64;
/// Of these, connections of one peer over TCP: it cannot take the room of all others. A Unix socket is its owner's.
const OF_PEER: usize = CONNECTIONS / 2;
/// When a connection must have agreed on the export, however often it sends a byte meanwhile.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// What clients are told of the disk.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Export {
    /// Its name; the empty name means it too.
    pub name: String,
    /// What it is, in a sentence.
    pub about: String,
    /// Whether it turns: clients may order their requests accordingly.
    pub rotational: bool,
}

/// Listens until it is dropped, which closes all connections.
pub struct Server {
    address: String,
    shared: Arc<Shared>,
    listener: OwnedFd,
    thread: Option<JoinHandle<()>>,
    socket: Option<PathBuf>,
}

struct Shared {
    realtime: Arc<Realtime>,
    export: Export,
    handshake: Duration,
    open: Mutex<Open>,
    fewer: Condvar,
}

#[derive(Default)]
struct Open {
    stopping: bool,
    sockets: HashMap<u64, (Arc<File>, Option<IpAddr>)>,
}

/// Whom connections from an address are counted for: of IPv6 a network of 64 bits, of which a host has all addresses.
fn peer(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => IpAddr::V6(Ipv6Addr::from_bits(six.to_bits() >> 64 << 64)),
        four => four,
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Serves `realtime` at `HOST:PORT` (port 0: a free one), or at the path of a Unix socket
/// (it has a `/`, or begins with `unix:`), which is made and removed at the end.
///
/// # Errors
/// The address cannot be had; named.
pub fn serve(address: &str, realtime: Arc<Realtime>) -> io::Result<Server> {
    serve_as(address, realtime, Export::default())
}

/// As [`serve`], with what clients are told of the disk.
///
/// # Errors
/// As [`serve`].
pub fn serve_as(address: &str, realtime: Arc<Realtime>, export: Export) -> io::Result<Server> {
    serve_with(address, realtime, export, HANDSHAKE)
}

fn serve_with(
    address: &str,
    realtime: Arc<Realtime>,
    export: Export,
    handshake: Duration,
) -> io::Result<Server> {
    let named = |e: io::Error| io::Error::new(e.kind(), format!("NBD at {address}: {e}"));
    let (listener, socket, address) = match socket_path(address) {
        Some(path) => {
            let listener = bind(path).map_err(named)?;
            (Listener::Unix(listener), Some(path.to_owned()), path.display().to_string())
        }
        None => {
            let listener = TcpListener::bind(address).map_err(named)?;
            let address = listener.local_addr().map_err(named)?.to_string();
            (Listener::Tcp(listener), None, address)
        }
    };
    let duplicate = match &listener {
        Listener::Tcp(tcp) => OwnedFd::from(tcp.try_clone().map_err(named)?),
        Listener::Unix(unix) => OwnedFd::from(unix.try_clone().map_err(named)?),
    };
    let shared =
        Arc::new(Shared { realtime, export, handshake, open: Mutex::default(), fewer: Condvar::new() });
    let theirs = Arc::clone(&shared);
    let thread = std::thread::Builder::new()
        .name("disk-nbd".into())
        .spawn(move || listen(&listener, &theirs))
        .map_err(named)?;
    Ok(Server { address, shared, listener: duplicate, thread: Some(thread), socket })
}

/// The path of a Unix socket's address.
pub(super) fn socket_path(address: &str) -> Option<&Path> {
    address.strip_prefix("unix:").or_else(|| address.contains('/').then_some(address)).map(Path::new)
}

/// Whether a socket is there that nobody listens on.
pub(super) fn is_dead(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket())
        && UnixStream::connect(path).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused)
}

/// A Unix socket for root and its owner alone. One that a server left behind when it was
/// killed is taken over.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let bound = UnixListener::bind(path).or_else(|e| {
        if e.kind() != io::ErrorKind::AddrInUse || !is_dead(path) {
            return Err(e);
        }
        std::fs::remove_file(path)?;
        UnixListener::bind(path)
    })?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))?;
    Ok(bound)
}

fn listen(listener: &Listener, shared: &Arc<Shared>) {
    for number in 0.. {
        let accepted = match listener {
            Listener::Tcp(tcp) => tcp.accept().map(|(stream, from)| {
                // A reply is one write: nothing is won by waiting for more.
                let _ = stream.set_nodelay(true);
                (OwnedFd::from(stream), Some(peer(from.ip())))
            }),
            Listener::Unix(unix) => unix.accept().map(|(stream, _)| (OwnedFd::from(stream), None)),
        };
        if shared.open().stopping {
            return;
        }
        match accepted {
            Ok((socket, peer)) => shared.connected(number, socket, peer),
            // No descriptors left, or the client is gone again: not for ever.
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connected(self: &Arc<Self>, number: u64, socket: OwnedFd, peer: Option<IpAddr>) {
        let socket = Arc::new(File::from(socket));
        {
            let mut open = self.open();
            let of_peer = open.sockets.values().filter(|(_, other)| peer.is_some() && *other == peer).count();
            if open.stopping || open.sockets.len() >= CONNECTIONS || of_peer >= OF_PEER {
                return;
            }
            open.sockets.insert(number, (Arc::clone(&socket), peer));
        }
        let shared = Arc::clone(self);
        let thread = std::thread::Builder::new().name("disk-nbd-client".into());
        let spawned = thread.spawn(move || {
            // It is closed below, whatever the client did.
            let _ = shared.converse(&socket);
            wire::shutdown(&*socket);
            shared.closed(number);
        });
        if spawned.is_err() {
            self.closed(number);
        }
    }

    fn closed(&self, number: u64) {
        self.open().sockets.remove(&number);
        self.fewer.notify_all();
    }

    fn converse(&self, socket: &Arc<File>) -> io::Result<()> {
        let mut flags = wire::HAS_FLAGS
            | wire::SEND_FLUSH
            | wire::SEND_FUA
            | wire::SEND_TRIM
            | wire::SEND_WRITE_ZEROES
            | wire::CAN_MULTI_CONN;
        if self.export.rotational {
            flags |= wire::ROTATIONAL;
        }
        let mut timed = wire::Until { socket, end: Instant::now() + self.handshake };
        if handshake::negotiate(&mut timed, &self.export, self.realtime.size(), flags)? {
            wire::set_timeout(socket, Duration::ZERO)?;
            connection::serve(socket, &self.realtime)?;
        }
        Ok(())
    }
}

impl Server {
    /// `HOST:PORT` with the port that was taken, or the socket's path.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What tools take, as `nbd://HOST:PORT` or `nbd+unix:///?socket=PATH`.
    pub fn uri(&self) -> String {
        match &self.socket {
            Some(path) => format!("nbd+unix:///?socket={}", path.display()),
            None => format!("nbd://{}", self.address),
        }
    }

    pub fn connections(&self) -> usize {
        self.shared.open().sockets.len()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut open = self.shared.open();
        open.stopping = true;
        // accept(2) and everything that waits for a client ends.
        wire::shutdown(&self.listener);
        open.sockets.values().for_each(|(socket, _)| wire::shutdown(&**socket));
        let patience = Duration::from_secs(5);
        let waited = self.shared.fewer.wait_timeout_while(open, patience, |open| !open.sockets.is_empty());
        drop(waited.unwrap_or_else(PoisonError::into_inner).0);
        if let Some(thread) = self.thread.take() {
            // It has no panic to tell of.
            let _ = thread.join();
        }
        if let Some(path) = &self.socket {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .field("descriptor", &self.listener.as_raw_fd())
            .finish_non_exhaustive()
    }
}
