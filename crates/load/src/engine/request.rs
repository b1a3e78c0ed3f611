// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests to a server, one an operation: a message out, the whole answer in.

use super::{result_of, Action, Engine, EngineError, Operation, Setup};
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Longest head of an HTTP answer, bytes.
const HEAD: usize = 64 << 10;
/// A server that says nothing for so long has failed the request: a load must end.
const SILENCE: Duration = Duration::from_secs(60);

/// Where requests go.
#[derive(Debug, Clone)]
enum Address {
    Tcp(std::net::SocketAddr),
    Unix(std::path::PathBuf),
}

/// A connection, and how many requests it had.
#[derive(Debug)]
struct Connection {
    fd: OwnedFd,
    requests: u64,
}

/// Sends on connection `offset` and reads until the answer is whole.
///
/// A connection is opened when its first request is due, so that opening it is in that one's time.
#[derive(Debug)]
pub struct Requests {
    address: Address,
    connections: Vec<Option<Connection>>,
    /// Requests of a connection; 0: any number.
    each: u64,
    /// Of HTTP the request; else the operation's buffer is sent.
    http: Option<Vec<u8>>,
    /// Bytes of an answer that is not HTTP's.
    reply: u64,
    received: Vec<u8>,
}

impl Engine for Requests {
    fn open(setup: &Setup<'_>) -> Result<Self, EngineError> {
        let job = setup.job;
        let next = "name the server with --to HOST:PORT, or a Unix socket by its path";
        let address = match job.to.contains('/') {
            true => Address::Unix(job.to.clone().into()),
            false => {
                let found = job.to.to_socket_addrs().map(|mut all| all.next());
                let found = found.map_err(|e| EngineError(format!("--to {}: {e}; {next}", job.to)))?;
                Address::Tcp(
                    found.ok_or_else(|| EngineError(format!("--to {}: has no address; {next}", job.to)))?,
                )
            }
        };
        let host = if job.to.contains('/') { "localhost" } else { &job.to };
        let http = (!job.http.is_empty()).then(|| {
            format!("GET {} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: plumb\r\n\r\n", job.http).into_bytes()
        });
        let mut connections = Vec::new();
        connections.resize_with(job.connections as usize, || None);
        let received = vec![0; HEAD.max(job.reply.0.min(1 << 20) as usize)];
        let requests =
            Requests { address, connections, each: job.per_connection, http, reply: job.reply.0, received };
        // A server that is not there is no measurement.
        requests.connect().map_err(|e| EngineError(format!("--to {}: {e}; is the server up?", job.to)))?;
        Ok(requests)
    }

    fn start(&mut self, operation: &Operation, _: u32) -> Option<i64> {
        if operation.action != Action::Request {
            return Some(-i64::from(libc::EOPNOTSUPP));
        }
        let number = operation.offset as usize % self.connections.len();
        let result = self.ask(number, operation);
        let over = result < 0
            || self.connections[number].as_ref().is_some_and(|c| self.each > 0 && c.requests >= self.each);
        if over {
            self.connections[number] = None;
        }
        Some(result)
    }
}

fn code(error: &io::Error) -> i64 {
    -i64::from(error.raw_os_error().unwrap_or(libc::EIO))
}

impl Requests {
    fn connect(&self) -> io::Result<Connection> {
        let fd: OwnedFd = match &self.address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                // Without, a request in two segments waits for an acknowledgement (Nagle).
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(SILENCE))?;
                stream.set_write_timeout(Some(SILENCE))?;
                stream.into()
            }
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(SILENCE))?;
                stream.set_write_timeout(Some(SILENCE))?;
                stream.into()
            }
        };
        Ok(Connection { fd, requests: 0 })
    }

    /// Bytes of the answer, or the negative error number.
    fn ask(&mut self, number: usize, operation: &Operation) -> i64 {
        if self.connections[number].is_none() {
            match self.connect() {
                Ok(connection) => self.connections[number] = Some(connection),
                Err(e) => return code(&e),
            }
        }
        let Some(connection) = &mut self.connections[number] else { return -i64::from(libc::ENOTCONN) };
        connection.requests += 1;
        let fd = connection.fd.as_raw_fd();
        let sent = match &self.http {
            Some(request) => send(fd, request),
            // SAFETY: the slot's buffer has that many bytes.
            None => send(fd, unsafe { std::slice::from_raw_parts(operation.buffer, operation.len as usize) }),
        };
        if sent < 0 {
            return sent;
        }
        match &self.http {
            None => exactly(fd, &mut self.received, self.reply),
            Some(_) => match answer(fd, &mut self.received) {
                Ok((bytes, closes)) => {
                    if closes {
                        self.connections[number] = None;
                    }
                    bytes as i64
                }
                Err(error) => error,
            },
        }
    }
}

fn send(fd: RawFd, mut bytes: &[u8]) -> i64 {
    while !bytes.is_empty() {
        // SAFETY: the bytes are there; a server that is gone is an error, and no signal.
        let sent =
            result_of(unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) });
        if sent < 0 {
            return sent;
        }
        bytes = &bytes[sent as usize..];
    }
    0
}

/// Bytes that came; 0 never: a connection that the server closes is an error.
fn some(fd: RawFd, into: &mut [u8]) -> i64 {
    // SAFETY: there is room for as many.
    match result_of(unsafe { libc::recv(fd, into.as_mut_ptr().cast(), into.len(), 0) }) {
        0 => -i64::from(libc::ECONNRESET),
        result => result,
    }
}

fn exactly(fd: RawFd, into: &mut [u8], bytes: u64) -> i64 {
    let mut left = bytes;
    while left > 0 {
        let room = into.len().min(left as usize);
        let came = some(fd, &mut into[..room]);
        if came < 0 {
            return came;
        }
        left -= came as u64;
    }
    bytes as i64
}

/// Reads an HTTP/1.1 answer (RFC 9112): its bytes, and whether the server closes the connection behind it. An answer
/// that is none, or says that it failed (status 400 and above), is an error.
fn answer(fd: RawFd, into: &mut [u8]) -> Result<(u64, bool), i64> {
    let bad = -i64::from(libc::EPROTO);
    let (mut have, mut end) = (0, None);
    while end.is_none() {
        if have == into.len() {
            return Err(bad);
        }
        let came = some(fd, &mut into[have..]);
        if came < 0 {
            return Err(came);
        }
        have += came as usize;
        end = into[..have].windows(4).position(|w| w == b"\r\n\r\n").map(|at| at + 4);
    }
    let Some(end) = end else { return Err(bad) };
    let head = head(&into[..end]).ok_or(bad)?;
    if head.status >= 400 {
        return Err(-i64::from(libc::EREMOTEIO));
    }
    let mut body = (have - end) as u64;
    match head.length {
        Some(length) if length >= body => {
            let rest = exactly(fd, into, length - body);
            if rest < 0 {
                return Err(rest);
            }
            Ok((end as u64 + length, head.closes))
        }
        Some(_) => Err(bad),
        None if head.chunked => {
            into.copy_within(end..have, 0);
            chunks(fd, into, have - end).map(|body| (end as u64 + body, head.closes))
        }
        // Its end is the connection's.
        None => loop {
            match some(fd, into) {
                e if e == -i64::from(libc::ECONNRESET) => return Ok((end as u64 + body, true)),
                e if e < 0 => return Err(e),
                came => body += came as u64,
            }
        },
    }
}

/// What counts in the head of an answer.
struct Head {
    status: u32,
    length: Option<u64>,
    chunked: bool,
    closes: bool,
}

fn head(bytes: &[u8]) -> Option<Head> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    let mut head = Head { status, length: None, chunked: false, closes: false };
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => head.length = Some(value.parse().ok()?),
            "transfer-encoding" => head.chunked = value.to_ascii_lowercase().ends_with("chunked"),
            "connection" => head.closes = value.eq_ignore_ascii_case("close"),
            _ => {}
        }
    }
    if status == 204 || status == 304 {
        head.length = Some(0);
    }
    Some(head)
}

/// Reads chunks until the last one; `have` bytes of them are there. Their bytes with their heads.
fn chunks(fd: RawFd, into: &mut [u8], mut have: usize) -> Result<u64, i64> {
    let bad = -i64::from(libc::EPROTO);
    let mut all = 0;
    loop {
        let line = loop {
            if let Some(at) = into[..have].windows(2).position(|w| w == b"\r\n") {
                break at;
            }
            if have > 1024 {
                return Err(bad);
            }
            let came = some(fd, &mut into[have..]);
            if came < 0 {
                return Err(came);
            }
            have += came as usize;
        };
        let text = std::str::from_utf8(&into[..line]).map_err(|_| bad)?;
        let size = text.split(';').next().map_or("", str::trim);
        let size = u64::from_str_radix(size, 16).ok().filter(|n| *n < 1 << 40).ok_or(bad)?;
        // With the line's end before and behind it; the last chunk has no trailers here.
        let whole = line as u64 + 2 + size + 2;
        all += whole;
        if whole <= have as u64 {
            into.copy_within(whole as usize..have, 0);
            have -= whole as usize;
        } else {
            let rest = exactly(fd, into, whole - have as u64);
            if rest < 0 {
                return Err(rest);
            }
            have = 0;
        }
        if size == 0 {
            return if have == 0 { Ok(all) } else { Err(bad) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// A server that says each of these, one a connection, when it was asked; its address.
    fn says(answers: Vec<Vec<u8>>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().expect("a connection");
                if stream.read(&mut [0; 4096]).unwrap_or(0) > 0 {
                    // In two pieces, as segments may come.
                    let (a, b) = answer.split_at(answer.len() / 2);
                    stream.write_all(a).expect("sent");
                    std::thread::sleep(std::time::Duration::from_millis(2));
                    stream.write_all(b).expect("sent");
                }
            }
        });
        address
    }

    fn ask(answer: &str) -> i64 {
        let stream = TcpStream::connect(says(vec![answer.as_bytes().to_vec()])).expect("connected");
        assert_eq!(send(stream.as_raw_fd(), b"x"), 0);
        let mut into = vec![0; HEAD];
        super::answer(stream.as_raw_fd(), &mut into).map_or_else(|e| e, |(bytes, _)| bytes as i64)
    }

    #[test]
    fn an_answer_ends_where_it_says() {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nb;x=y\r\nhello world\r\n0\r\n\r\n",
            "HTTP/1.0 200 OK\r\n\r\nuntil it closes",
        ] {
            assert_eq!(ask(answer), answer.len() as i64, "{answer}");
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for (answer, code) in [
            ("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", libc::EREMOTEIO),
            ("SMTP\r\n\r\n", libc::EPROTO),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nhello", libc::EPROTO),
            ("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", libc::ECONNRESET),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", libc::EPROTO),
        ] {
            assert_eq!(ask(answer), -i64::from(code), "{answer}");
        }
    }
}
