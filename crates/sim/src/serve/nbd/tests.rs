// SPDX-License-Identifier: Apache-2.0 OR MIT

mod tools;

use super::wire::*;
use super::*;
use crate::serve::media::Media;
use crate::serve::realtime::testing::Fixed;
use plumb_stats::random::SplitMix64;
use std::io::{Read, Write};
use std::net::TcpStream;

const SIZE: u64 = 8 << 20;

fn disk(size: u64, time: u64) -> Arc<Realtime> {
    let media = Media::memory(size).expect("media");
    Realtime::start(Box::new(Fixed::new(size, time).volatile()), media, None).expect("start")
}

fn export() -> Export {
    Export { name: "disk".into(), about: "a disk of known times".into(), rotational: true }
}

fn server(time: u64) -> Server {
    serve_as("127.0.0.1:0", disk(SIZE, time), export()).expect("serve")
}

/// Connects from another address of this machine.
fn connect_from(server: &Server, from: [u8; 4]) -> TcpStream {
    let to: std::net::SocketAddrV4 = server.address().parse().expect("an address");
    let address = |ip: [u8; 4], port: u16| {
        // SAFETY: zeroes are an address of no family.
        let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
        address.sin_family = libc::AF_INET as _;
        address.sin_addr.s_addr = u32::from_ne_bytes(ip);
        address.sin_port = port.to_be();
        address
    };
    let (own, other) = (address(from, 0), address(to.ip().octets(), to.port()));
    let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: plain calls; the addresses live through them, and the descriptor is new.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        assert!(fd >= 0, "socket");
        let stream: TcpStream = std::os::fd::FromRawFd::from_raw_fd(fd);
        assert_eq!(libc::bind(fd, (&raw const own).cast(), length), 0, "bind");
        assert_eq!(libc::connect(fd, (&raw const other).cast(), length), 0, "connect");
        stream
    }
}

/// A client that believes nothing.
struct Client(TcpStream);

impl Client {
    fn hello(server: &Server) -> Self {
        Self::greeted(TcpStream::connect(server.address()).expect("connect"))
    }

    fn greeted(stream: TcpStream) -> Self {
        let mut client = Self(stream);
        client.0.set_read_timeout(Some(Duration::from_secs(20))).expect("timeout");
        client.0.set_nodelay(true).expect("nodelay");
        assert_eq!(client.get::<18>(), *b"NBDMAGICIHAVEOPT\0\x03");
        client.put(&[0, 0, 0, 3]);
        client
    }

    fn ready(server: &Server) -> Self {
        Self::ready_from(server, [127, 0, 0, 1])
    }

    fn ready_from(server: &Server, from: [u8; 4]) -> Self {
        let mut client = Self::greeted(connect_from(server, from));
        client.option(OPT_EXPORT_NAME, b"disk");
        assert_eq!(u64::from_be_bytes(client.get()), SIZE);
        assert_eq!(u16::from_be_bytes(client.get()), 0b1_0111_1101);
        client
    }

    fn put(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("send");
    }

    fn get<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes).expect("receive");
        bytes
    }

    fn closed(&mut self) -> bool {
        // A reset says it too: what was sent was not all read.
        self.0.read(&mut [0]).map_or_else(|e| e.kind() == io::ErrorKind::ConnectionReset, |n| n == 0)
    }

    fn option(&mut self, option: u32, data: &[u8]) {
        let head = [&IHAVEOPT.to_be_bytes()[..], &option.to_be_bytes(), &(data.len() as u32).to_be_bytes()];
        self.put(&[&head.concat(), data].concat());
    }

    fn replied(&mut self, option: u32) -> (u32, Vec<u8>) {
        assert_eq!(u64::from_be_bytes(self.get()), OPTION_REPLY);
        assert_eq!(u32::from_be_bytes(self.get()), option);
        let kind = u32::from_be_bytes(self.get());
        let mut data = vec![0; u32::from_be_bytes(self.get()) as usize];
        self.0.read_exact(&mut data).expect("data");
        (kind, data)
    }

    fn request(&mut self, command: u16, flags: u16, cookie: u64, offset: u64, length: u32, data: &[u8]) {
        let head = [
            &REQUEST.to_be_bytes()[..],
            &flags.to_be_bytes(),
            &command.to_be_bytes(),
            &cookie.to_be_bytes(),
            &offset.to_be_bytes(),
            &length.to_be_bytes(),
        ];
        self.put(&[&head.concat(), data].concat());
    }

    fn answer(&mut self) -> (u64, u32) {
        assert_eq!(u32::from_be_bytes(self.get()), SIMPLE_REPLY);
        let error = u32::from_be_bytes(self.get());
        (u64::from_be_bytes(self.get()), error)
    }

    fn does(&mut self, command: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> u32 {
        self.request(command, flags, 77, offset, length, data);
        let (cookie, error) = self.answer();
        assert_eq!(cookie, 77);
        error
    }

    fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        assert_eq!(self.does(CMD_READ, 0, offset, length, &[]), 0);
        let mut data = vec![0; length as usize];
        self.0.read_exact(&mut data).expect("data");
        data
    }
}

#[test]
fn the_handshake_tells_of_the_disk() {
    let server = server(0);
    let mut client = Client::hello(&server);
    client.option(OPT_LIST, &[]);
    assert_eq!(client.replied(OPT_LIST), (REP_SERVER, b"\0\0\0\x04disk".to_vec()));
    assert_eq!(client.replied(OPT_LIST), (REP_ACK, vec![]));
    client.option(OPT_LIST, &[1]);
    assert_eq!(client.replied(OPT_LIST).0, REP_ERR_INVALID);
    for unknown in [5, 8, 10, 4711] {
        client.option(unknown, b"what");
        assert_eq!(client.replied(unknown).0, REP_ERR_UNSUP);
    }
    client.option(OPT_INFO, b"\0\0\0\x04disc\0\0");
    let (kind, why) = client.replied(OPT_INFO);
    assert_eq!((kind, String::from_utf8_lossy(&why).contains("'disk'")), (REP_ERR_UNKNOWN, true));
    for damaged in [
        &b""[..],
        b"\0\0\0\x05disk\0\0",
        b"\xff\xff\xff\xffdisk\0\0",
        b"\0\0\0\0\0\x02\0\0",
        b"\0\0\0\0\0\0\0",
    ] {
        client.option(OPT_GO, damaged);
        assert_eq!(client.replied(OPT_GO).0, REP_ERR_INVALID, "{damaged:?}");
    }
    for option in [OPT_INFO, OPT_GO] {
        client.option(option, b"\0\0\0\0\0\x02\0\x01\0\x02");
        let size = [&b"\0\0"[..], &SIZE.to_be_bytes(), &0b1_0111_1101_u16.to_be_bytes()].concat();
        assert_eq!(client.replied(option), (REP_INFO, size));
        assert_eq!(client.replied(option), (REP_INFO, b"\0\x03\0\0\x02\0\0\0\x10\0\x02\0\0\0".to_vec()));
        assert_eq!(client.replied(option), (REP_INFO, b"\0\x01disk".to_vec()));
        assert_eq!(client.replied(option), (REP_INFO, b"\0\x02a disk of known times".to_vec()));
        assert_eq!(client.replied(option), (REP_ACK, vec![]));
    }
    assert_eq!(client.read(0, 512), vec![0; 512]);
}

#[test]
fn who_breaks_the_handshake_is_let_go() {
    let server = server(0);
    let mut client = Client::hello(&server);
    client.option(OPT_ABORT, &[]);
    assert_eq!(client.replied(OPT_ABORT).0, REP_ACK);
    assert!(client.closed());
    let mut client = Client::hello(&server);
    client.option(OPT_EXPORT_NAME, b"another");
    assert!(client.closed());
    let mut client = Client::hello(&server);
    client.put(&[&IHAVEOPT.to_be_bytes()[..], &[0, 0, 0, 3], &[0xff; 4]].concat());
    assert!(client.closed());
    let mut client = Client(TcpStream::connect(server.address()).expect("connect"));
    assert_eq!(client.get::<18>()[..8], *b"NBDMAGIC");
    client.put(&[0, 0, 0, 4]);
    assert!(client.closed(), "flags that the server did not offer");
    // A client of before the flags gets its zeroes.
    let mut client = Client(TcpStream::connect(server.address()).expect("connect"));
    client.get::<18>();
    client.put(&[0; 4]);
    client.option(OPT_EXPORT_NAME, b"");
    assert_eq!(client.get::<134>()[10..], [0; 124]);
}

#[test]
fn requests_are_done() {
    let server = server(0);
    let mut client = Client::ready(&server);
    let data: Vec<u8> = (0..4096).map(|i| i as u8).collect();
    assert_eq!(client.does(CMD_WRITE, 0, 8192, 4096, &data), 0);
    assert_eq!(client.does(CMD_WRITE, CMD_FLAG_FUA, 12288, 4096, &data), 0);
    assert_eq!(client.does(CMD_FLUSH, 0, 0, 0, &[]), 0);
    // Another connection sees it.
    let mut other = Client::ready(&server);
    assert_eq!(other.read(8192, 8192), [&data[..], &data].concat());
    assert_eq!(other.does(CMD_TRIM, CMD_FLAG_FUA, 8192, 512, &[]), 0);
    assert_eq!(other.does(CMD_WRITE_ZEROES, CMD_FLAG_NO_HOLE, 9216, 512, &[]), 0);
    let read = client.read(8192, 2048);
    assert_eq!([&read[..512], &read[1024..1536]], [[0; 512]; 2]);
    assert_eq!([&read[512..1024], &read[1536..]], [&data[512..1024], &data[1536..2048]]);
    client.request(CMD_DISC, 0, 0, 0, 0, &[]);
    assert!(client.closed());
    assert_eq!(other.read(0, 1), [0]);
}

#[test]
fn what_cannot_be_is_refused_and_the_next_is_served() {
    const INVALID: u32 = 22;
    const NO_SPACE: u32 = 28;
    let server = server(0);
    let mut client = Client::ready(&server);
    let block = [1; 1024];
    assert_eq!(client.does(CMD_READ, 0, SIZE, 1, &[]), INVALID);
    assert_eq!(client.does(CMD_READ, 0, u64::MAX, u32::MAX, &[]), INVALID);
    assert_eq!(client.does(CMD_READ, 0, 0, PAYLOAD + 1, &[]), INVALID);
    assert_eq!(client.does(CMD_READ, 1 << 2, 0, 512, &[]), INVALID, "a flag of structured replies");
    assert_eq!(client.does(CMD_WRITE, 0, SIZE - 512, 1024, &block), NO_SPACE);
    assert_eq!(client.does(CMD_WRITE, 0, u64::MAX - 1, 1024, &block), NO_SPACE);
    assert_eq!(client.does(CMD_WRITE, 1 << 15, 0, 1024, &block), INVALID);
    assert_eq!(client.does(CMD_TRIM, 0, 1, u32::MAX, &[]), INVALID);
    assert_eq!(client.does(CMD_WRITE_ZEROES, 0, SIZE, 512, &[]), NO_SPACE);
    assert_eq!(client.does(CMD_WRITE_ZEROES, 0, 0, u32::MAX, &[]), INVALID);
    assert_eq!(client.does(CMD_FLUSH, 0, 512, 0, &[]), INVALID);
    assert_eq!(client.does(CMD_FLUSH, 0, 0, 512, &[]), INVALID);
    assert_eq!(client.does(99, 0, 0, 0, &[]), INVALID);
    assert_eq!(client.does(CMD_READ, 0, 0, 0, &[]), 0);
    assert!(client.read(0, SIZE as u32).iter().all(|&b| b == 0), "nothing was written");
    client.request(CMD_WRITE, 0, 1, 0, PAYLOAD + 1, &[]);
    assert!(client.closed(), "data that nobody takes: where the next request begins is not known");
}

#[test]
fn replies_come_when_they_are_due_and_bear_their_cookies() {
    let server = server(2_000_000);
    let mut client = Client::ready(&server);
    let begin = plumb_machine::clock::now();
    for cookie in 0..300 {
        client.request(CMD_WRITE, 0, cookie << 40 | 5, cookie * 512, 512, &[cookie as u8; 512]);
    }
    let mut seen: Vec<_> = (0..300).map(|_| client.answer()).collect();
    assert!(plumb_machine::clock::now() - begin >= 2_000_000);
    seen.sort_unstable();
    assert!(seen.iter().zip(0..).all(|(&answer, cookie)| answer == (cookie << 40 | 5, 0)), "{seen:?}");
    for cookie in 0..300 {
        assert_eq!(client.read(cookie * 512, 512), [cookie as u8; 512]);
    }
    // What is under way at the goodbye is answered.
    client.request(CMD_READ, 0, 1, 0, 512, &[]);
    client.request(CMD_DISC, 0, 0, 0, 0, &[]);
    assert_eq!(client.answer(), (1, 0));
    client.get::<512>();
    assert!(client.closed());
}

#[test]
fn a_client_that_does_not_read_holds_up_nobody() {
    let server = server(0);
    let mut lazy = Client::ready(&server);
    for cookie in 0..40 {
        // Far more than a socket holds; the server stops taking requests at some point.
        lazy.request(CMD_READ, 0, cookie, 0, SIZE as u32, &[]);
    }
    let mut other = Client::ready(&server);
    for i in 0..100 {
        assert_eq!(other.does(CMD_WRITE, 0, i * 4096, 4096, &[9; 4096]), 0);
    }
    for cookie in 0..40 {
        assert_eq!(lazy.answer(), (cookie, 0));
        let mut data = vec![0; SIZE as usize];
        lazy.0.read_exact(&mut data).expect("data");
    }
    assert_eq!(lazy.read(4096, 4096), [9; 4096]);
    // And one that goes without a word.
    for cookie in 0..10 {
        lazy.request(CMD_READ, 0, cookie, 0, SIZE as u32, &[]);
    }
    drop(lazy);
    assert_eq!(other.read(0, 4096), [9; 4096]);
}

#[test]
fn garbage_never_panics() {
    let server = server(0);
    let mut random = SplitMix64::new(5);
    for round in 0..200_u64 {
        let mut client = match round % 2 {
            0 => Client(TcpStream::connect(server.address()).expect("connect")),
            _ => Client::ready(&server),
        };
        let mut bytes: Vec<u8> = (0..random.below(300)).map(|_| random.next_u64() as u8).collect();
        if round % 4 >= 2 && bytes.len() > 28 {
            // Nearly right: the magic is, and small numbers are.
            bytes[..4].copy_from_slice(&REQUEST.to_be_bytes());
            bytes[4..8].copy_from_slice(&[0, random.below(4) as u8, 0, random.below(8) as u8]);
            bytes[16..22].fill(0);
            bytes[24..27].fill(0);
        }
        // It may be closed before all of it is sent.
        let _ = client.0.write_all(&bytes);
        let _ = client.0.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _ = client.0.read_to_end(&mut rest);
    }
    assert_eq!(Client::ready(&server).read(0, 512).len(), 512);
}

#[test]
fn no_more_clients_than_there_is_room_for() {
    let server = server(0);
    let mut clients: Vec<_> = (0..OF_PEER).map(|_| Client::ready(&server)).collect();
    // One peer leaves room for others.
    let mut more = Client(TcpStream::connect(server.address()).expect("connect"));
    assert!(more.closed(), "more than {OF_PEER} of one peer");
    clients.extend((OF_PEER..CONNECTIONS).map(|_| Client::ready_from(&server, [127, 0, 0, 2])));
    for other in [2, 3] {
        let mut late = Client(connect_from(&server, [127, 0, 0, other]));
        assert!(late.closed(), "127.0.0.{other}");
    }
    assert_eq!(server.connections(), CONNECTIONS);
    drop(clients);
    let begin = std::time::Instant::now();
    while server.connections() > 0 && begin.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
    Client::ready(&server);
}

#[test]
fn a_peer_is_a_host() {
    let of = |text: &str| peer(text.parse().expect("an address"));
    assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    assert_eq!(of("2001:db8:0:1::1"), of("2001:db8:0:1:ffff::2"));
    assert_ne!(of("2001:db8:0:1::1"), of("2001:db8:0:2::1"));
}

#[test]
fn who_sends_a_byte_now_and_then_or_reads_nothing_is_closed_in_time() {
    let limit = Duration::from_millis(700);
    let server = serve_with("127.0.0.1:0", disk(SIZE, 0), export(), limit).expect("serve");
    let begun = Instant::now();
    let mut slow = Client::hello(&server);
    let option = [&IHAVEOPT.to_be_bytes()[..], &OPT_LIST.to_be_bytes(), &[0; 4]].concat();
    let mut lists = Client::hello(&server);
    // Answers that nobody takes: more than the buffers hold.
    let flood = std::thread::spawn(move || {
        while lists.0.write_all(&option).is_ok() {}
        lists
    });
    let taken = b"IHAVEOPT\0\0\0\x03".iter().take_while(|byte| {
        std::thread::sleep(limit / 3);
        slow.0.write_all(&[**byte]).is_ok()
    });
    let taken = taken.count();
    assert!(slow.closed() && taken < 10, "{taken} bytes were taken, one each {:?}", limit / 3);
    drop(flood.join().expect("no panic"));
    while server.connections() > 0 && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(server.connections(), 0);
    // Who has agreed may be silent as long as it likes.
    let mut quiet = Client::ready(&server);
    std::thread::sleep(limit * 2);
    assert_eq!(quiet.read(0, 512).len(), 512);
}

#[test]
fn the_end_closes_connections_and_lets_go_of_the_disk() {
    let realtime = disk(SIZE, 60_000_000_000);
    let server = serve_as("127.0.0.1:0", Arc::clone(&realtime), export()).expect("serve");
    let mut client = Client::ready(&server);
    client.request(CMD_READ, 0, 1, 0, 512, &[]);
    let begin = std::time::Instant::now();
    drop(server);
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
    assert!(client.closed());
    // The connection's thread may be about to end.
    while Arc::strong_count(&realtime) > 1 {
        assert!(begin.elapsed() < Duration::from_secs(20), "nobody has the disk any more");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_unix_socket_is_removed_and_a_dead_ones_place_is_taken() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("socket");
    let address = path.to_str().expect("text").to_owned();
    let realtime = disk(SIZE, 0);
    // What a killed server leaves.
    drop(UnixListener::bind(&path).expect("bind"));
    assert!(path.exists());
    let server = serve(&address, Arc::clone(&realtime)).expect("serve");
    assert_eq!(server.uri(), format!("nbd+unix:///?socket={address}"));
    let mode = std::fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let taken = serve(&format!("unix:{address}"), Arc::clone(&realtime)).expect_err("taken");
    assert!(taken.to_string().contains(&address), "{taken}");
    let mut hello = [0; 18];
    UnixStream::connect(&path).expect("connect").read_exact(&mut hello).expect("hello");
    drop(server);
    assert!(!path.exists());
    std::fs::write(&path, "a file of somebody's").expect("write");
    assert!(serve(&address, realtime).is_err());
    assert!(path.exists(), "what is no socket is not removed");
}
