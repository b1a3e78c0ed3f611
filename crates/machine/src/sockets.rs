// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which side of a connection a process is on: it accepted it, or it connected (proc_net(5), unix(7), sock_diag(7)).

use crate::Root;
use plumb_trace::schema::StateSocket;
use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// States of a TCP socket in /proc/net (include/net/tcp_states.h).
const ESTABLISHED: &str = "01";
const LISTEN: &str = "0A";
/// Flag of a listening socket in /proc/net/unix (__SO_ACCEPTCON, include/uapi/linux/net.h).
const ACCEPTS: u64 = 0x0001_0000;
/// State of a connected one (SS_CONNECTED).
const CONNECTED: &str = "03";

/// Sockets of one network namespace by inode: side, and the address of the other end.
type Table = HashMap<u64, (u32, String)>;

/// The sockets of processes; tables of a network namespace are read once.
#[derive(Debug, Default)]
pub struct Sockets {
    tables: HashMap<String, Table>,
}

impl Sockets {
    /// The sockets of a process whose side is known; none where it is gone.
    pub fn of(&mut self, pid: u32, root: &Root) -> Vec<StateSocket> {
        let link = |path: String| {
            let link = std::fs::read_link(root.path(path)).ok()?;
            Some(link.to_string_lossy().into_owned())
        };
        let inode = |fd: &u32| {
            let link = link(format!("/proc/{pid}/fd/{fd}"))?;
            link.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u64>().ok()
        };
        let fds = root.names(format!("/proc/{pid}/fd")).into_iter().filter_map(|n| n.parse::<u32>().ok());
        let mut found: Vec<(u32, u64)> = fds.filter_map(|fd| Some((fd, inode(&fd)?))).collect();
        if found.is_empty() {
            return Vec::new();
        }
        found.sort_unstable();
        let space = link(format!("/proc/{pid}/ns/net")).unwrap_or_default();
        let table = self.tables.entry(space).or_insert_with(|| table(pid, root));
        let socket = |(fd, inode)| {
            let (side, peer) = table.get(&inode)?;
            Some(StateSocket { pid, fd, side: *side, peer: peer.clone() })
        };
        found.into_iter().filter_map(socket).collect()
    }
}

/// Every socket of the network namespace of a process.
fn table(pid: u32, root: &Root) -> Table {
    let text = |name: &str| root.text(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
    let mut out = Table::new();
    for name in ["tcp", "tcp6"] {
        tcp(&text(name), &mut out);
    }
    for name in ["udp", "udp6"] {
        udp(&text(name), &mut out);
    }
    unix(&text("unix"), &if root.is_real() { unix_peers() } else { HashMap::new() }, &mut out);
    out
}

/// A line of /proc/net/tcp or udp: local and remote address, state, inode.
fn inet(line: &str) -> Option<(SocketAddr, SocketAddr, &str, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    Some((address(words.get(1)?)?, address(words.get(2)?)?, words.get(3)?, words.get(9)?.parse().ok()?))
}

/// An address as /proc/net has it: words of the network's bytes, each printed as a number of this machine.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |i: usize| Some(u32::from_str_radix(ip.get(i * 8..i * 8 + 8)?, 16).ok()?.to_ne_bytes());
    if ip.len() == 8 {
        return Some((Ipv4Addr::from(word(0)?), port).into());
    }
    let mut bytes = [0; 16];
    for i in 0..4 {
        bytes[i * 4..i * 4 + 4].copy_from_slice(&word(i)?);
    }
    Some((Ipv6Addr::from(bytes).to_canonical(), port).into())
}

fn tcp(text: &str, out: &mut Table) {
    let rows: Vec<_> = text.lines().skip(1).filter_map(inet).collect();
    // A server's connections have the port that it listens on.
    let ports: HashSet<u16> = rows.iter().filter(|r| r.2 == LISTEN).map(|r| r.0.port()).collect();
    for (local, remote, state, inode) in rows {
        let socket = match state {
            LISTEN => (StateSocket::LISTENS, local.to_string()),
            ESTABLISHED if ports.contains(&local.port()) => (StateSocket::ACCEPTED, remote.to_string()),
            ESTABLISHED => (StateSocket::CONNECTED, remote.to_string()),
            _ => continue,
        };
        out.insert(inode, socket);
    }
}

fn udp(text: &str, out: &mut Table) {
    for (_, remote, _, inode) in text.lines().skip(1).filter_map(inet).filter(|r| r.2 == ESTABLISHED) {
        out.insert(inode, (StateSocket::CONNECTED, remote.to_string()));
    }
}

/// `peers`: the other end of each connected socket. An accepted socket has the path of the listening one; where
/// neither end has a path, it is a pair.
fn unix(text: &str, peers: &HashMap<u64, u64>, out: &mut Table) {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let flags = u64::from_str_radix(words.get(3)?, 16).ok()?;
        let path = words.get(7).map(ToString::to_string).unwrap_or_default();
        Some((words.get(6)?.parse::<u64>().ok()?, flags, words.get(5)?.to_string(), path))
    };
    let rows: Vec<(u64, u64, String, String)> = text.lines().skip(1).filter_map(row).collect();
    let paths: HashMap<u64, &str> = rows.iter().map(|r| (r.0, r.3.as_str())).collect();
    for (inode, flags, state, path) in &rows {
        let peer = peers.get(inode).and_then(|peer| paths.get(peer)).filter(|path| !path.is_empty());
        let socket = match peer {
            _ if flags & ACCEPTS != 0 => (StateSocket::LISTENS, path.clone()),
            _ if state != CONNECTED => continue,
            _ if !path.is_empty() => (StateSocket::ACCEPTED, String::new()),
            Some(path) => (StateSocket::CONNECTED, (*path).to_string()),
            None => (StateSocket::PAIR, String::new()),
        };
        out.insert(*inode, socket);
    }
}

/// The other end of each connected unix socket of this network namespace, by inode; empty where the kernel has no
/// unix_diag.
fn unix_peers() -> HashMap<u64, u64> {
    /// include/uapi/linux/sock_diag.h, unix_diag.h
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const UDIAG_SHOW_PEER: u32 = 4;
    const UNIX_DIAG_PEER: u16 = 2;
    const HEADER: usize = 16;
    const MESSAGE: usize = 16;
    let mut out = HashMap::new();
    // SAFETY: a call with plain numbers.
    let fd = unsafe {
        libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_SOCK_DIAG)
    };
    if fd < 0 {
        return out;
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // struct nlmsghdr, struct unix_diag_req: family, states (established), what to show.
    let mut request = [0u8; HEADER + 24];
    request[0..4].copy_from_slice(&((HEADER + 24) as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    request[16] = libc::AF_UNIX as u8;
    request[20..24].copy_from_slice(&(1u32 << 1).to_ne_bytes());
    request[28..32].copy_from_slice(&UDIAG_SHOW_PEER.to_ne_bytes());
    let (mut buffer, raw) = (vec![0u8; 1 << 16], socket.as_raw_fd());
    // SAFETY: a buffer and its length.
    if unsafe { libc::send(raw, request.as_ptr().cast(), request.len(), 0) } < 0 {
        return out;
    }
    let half = |b: &[u8], at: usize| b.get(at..at + 2).map_or(0, |b| u16::from_ne_bytes([b[0], b[1]]));
    let word =
        |b: &[u8], at: usize| b.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
    loop {
        // SAFETY: a buffer and its length. The kernel makes the answer as it is read: this does not wait.
        let got = unsafe { libc::recv(raw, buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT) };
        let Some(mut rest) = usize::try_from(got).ok().filter(|n| *n > 0).map(|n| &buffer[..n]) else {
            return out;
        };
        while rest.len() >= HEADER {
            let length = (word(rest, 0) as usize).clamp(HEADER, rest.len());
            if half(rest, 4) != SOCK_DIAG_BY_FAMILY {
                // The end, or an error.
                return out;
            }
            let body = &rest[HEADER..length];
            let mut at = MESSAGE;
            while at + 8 <= body.len() {
                let size = usize::from(half(body, at)).max(4);
                if half(body, at + 2) == UNIX_DIAG_PEER {
                    out.insert(u64::from(word(body, 4)), u64::from(word(body, at + 4)));
                }
                at += size.next_multiple_of(4);
            }
            rest = &rest[length.next_multiple_of(4).min(rest.len())..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn an_address_is_in_the_order_of_the_network() {
        let ip = format!("{:08X}", u32::from_ne_bytes([10, 0, 0, 5]));
        assert_eq!(address(&format!("{ip}:1538")).unwrap().to_string(), "10.0.0.5:5432");
        let mapped = format!("{:08X}{:08X}{:08X}{ip}", 0, 0, u32::from_ne_bytes([0, 0, 0xff, 0xff]));
        assert_eq!(address(&format!("{mapped}:0050")).unwrap().to_string(), "10.0.0.5:80");
        assert_eq!(address("zz"), None);
    }

    #[test]
    fn own_sockets_have_their_sides() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("socket");
        let (tcp, unix) = (TcpListener::bind("127.0.0.1:0").unwrap(), UnixListener::bind(&path).unwrap());
        let clients =
            (TcpStream::connect(tcp.local_addr().unwrap()).unwrap(), UnixStream::connect(&path).unwrap());
        let servers = (tcp.accept().unwrap().0, unix.accept().unwrap().0);
        let pair = UnixStream::pair().unwrap();
        let udp = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        udp.0.connect(udp.1.local_addr().unwrap()).unwrap();
        (&clients.0).write_all(b"x").unwrap();
        let found = Sockets::default().of(std::process::id(), &Root::real());
        let of = |fd: i32| found.iter().find(|s| s.fd == fd as u32).map(|s| (s.side, s.peer.clone()));
        let text = path.to_string_lossy().into_owned();
        let at = |a: std::io::Result<SocketAddr>| a.unwrap().to_string();
        assert_eq!(of(tcp.as_raw_fd()), Some((StateSocket::LISTENS, at(tcp.local_addr()))));
        assert_eq!(of(servers.0.as_raw_fd()), Some((StateSocket::ACCEPTED, at(clients.0.local_addr()))));
        assert_eq!(of(clients.0.as_raw_fd()), Some((StateSocket::CONNECTED, at(tcp.local_addr()))));
        assert_eq!(of(unix.as_raw_fd()), Some((StateSocket::LISTENS, text.clone())));
        assert_eq!(of(servers.1.as_raw_fd()), Some((StateSocket::ACCEPTED, String::new())));
        assert_eq!(of(clients.1.as_raw_fd()), Some((StateSocket::CONNECTED, text)));
        assert_eq!(of(udp.0.as_raw_fd()), Some((StateSocket::CONNECTED, at(udp.1.local_addr()))));
        assert_eq!(of(pair.0.as_raw_fd()), Some((StateSocket::PAIR, String::new())));
        assert_eq!(of(udp.1.as_raw_fd()), None);
    }
}
