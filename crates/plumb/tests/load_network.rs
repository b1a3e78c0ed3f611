// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads that ask servers. The servers are Python's, which count for themselves.

mod common;
use common::can;
use common::scratch::{job, kind, number, result, until, Scratch};
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Answers 50 bytes with 200, one connection a thread; says its port, and of each connection at its end how many it was asked.
const BYTES: &str = r#"
import os, socket, threading
def serve(s):
    n = 0
    while len(s.recv(50, socket.MSG_WAITALL)) == 50:
        n += 1
        s.sendall(b"x" * 200)
    os.write(1, b"asked %d\n" % n)  # whole lines, whoever else writes
listener = socket.create_server(("127.0.0.1", 0), backlog=64)
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=[listener.accept()[0]], daemon=True).start()
"#;

/// HTTP/1.1 of Python's own, one line a request.
const HTTP: &str = r#"
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        os.write(1, b"asked %s\n" % self.path.encode())
        body = b"x" * 1000
        self.send_response(200 if self.path == "/page" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.handle_error = lambda *_: None  # connections that are closed meanwhile
print(server.server_address[1], flush=True)
server.serve_forever()
"#;

struct Server {
    child: Child,
    log: std::path::PathBuf,
    address: String,
}

impl Server {
    fn of(script: &str, scratch: &Scratch) -> Self {
        let log = scratch.path().join("server");
        let out = std::fs::File::create(&log).expect("a log");
        let mut command = Command::new("python3");
        let child =
            command.args(["-u", "-c", script]).stdin(Stdio::null()).stdout(out).spawn().expect("python3");
        let port = || std::fs::read_to_string(&log).unwrap_or_default().lines().next().map(String::from);
        until("the server is up", || port().is_some());
        let address = format!("127.0.0.1:{}", port().expect("its port"));
        Self { child, log, address }
    }

    fn signal(&self, signal: i32) {
        // SAFETY: our own child, which is not waited for yet.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    /// What it said, one line each.
    fn said(&self) -> Vec<String> {
        std::fs::read_to_string(&self.log).unwrap_or_default().lines().skip(1).map(String::from).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn request(all: &Value) -> &Value {
    kind(job(all), "request")
}

#[test]
fn a_server_is_asked_as_often_as_the_result_says() {
    if !can("a_server_is_asked_as_often_as_the_result_says", &["python3"]) {
        return;
    }
    let scratch = Scratch::new();
    let server = Server::of(BYTES, &scratch);
    let words = [
        "--what",
        "request",
        "--to",
        &server.address,
        "--block",
        "50",
        "--reply",
        "200",
        "--threads",
        "3",
        "--connections",
        "2",
        "--per-connection",
        "25",
        "--operations",
        "100",
        ".",
    ];
    let all = scratch.json(&words);
    let request = request(&all);
    assert_eq!((number(request, "count"), number(request, "errors")), (300, 0), "{request:#}");
    // Each worker has 4 connections of 25; one more is made to see whether the server is there.
    until("all connections are closed", || server.said().len() == 15);
    let mut asked = server.said();
    asked.sort();
    let expected: Vec<String> = (0..15).map(|i| format!("asked {}", if i < 3 { 0 } else { 25 })).collect();
    assert_eq!(asked, expected);
}

/// Answers datagrams of 50 bytes with 200, but for every tenth; says its port, and at its end nothing.
const DATAGRAMS: &str = r#"
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
n = 0
while True:
    message, who = s.recvfrom(1000)
    n += 1
    print("asked %d" % len(message), flush=True)
    if n % 10:
        s.sendto(b"x" * 200, who)
"#;

#[test]
fn a_datagram_that_is_lost_is_an_error_and_those_behind_it_are_not() {
    if !can("a_datagram_that_is_lost_is_an_error_and_those_behind_it_are_not", &["python3"]) {
        return;
    }
    let scratch = Scratch::new();
    let server = Server::of(DATAGRAMS, &scratch);
    let to = format!("udp:{}", server.address);
    let words =
        ["--what", "request", "--to", &to, "--block", "50", "--reply", "200", "--operations", "25", "."];
    let all = result(&scratch.load(&[&words[..], &["--json"]].concat())).1;
    let request = request(&all);
    assert_eq!((number(request, "count"), number(request, "errors")), (25, 2), "{request:#}");
    assert_eq!(server.said(), vec!["asked 50"; 25]);
}

#[test]
fn http_is_asked_and_what_failed_is_an_error() {
    if !can("http_is_asked_and_what_failed_is_an_error", &["python3"]) {
        return;
    }
    let scratch = Scratch::new();
    let server = Server::of(HTTP, &scratch);
    let ask = |path: &str| {
        let words = ["--what", "request", "--to", &server.address, "--http", path, "--operations", "20", "."];
        result(&scratch.load(&[&words[..], &["--json"]].concat())).1
    };
    let (good, bad) = (ask("/page"), ask("/none"));
    let of = |all: &Value| (number(request(all), "count"), number(request(all), "errors"));
    assert_eq!((of(&good), of(&bad)), ((20, 0), (20, 20)));
    let asked = |path: &str| server.said().iter().filter(|line| line.ends_with(path)).count();
    assert_eq!((asked("/page"), asked("/none")), (20, 20));
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let scratch = Scratch::new();
    scratch.refused(
        &["--what", "request", "--to", "127.0.0.1:1", "."],
        &["--to 127.0.0.1:1", "is the server up?"],
    );
    scratch.refused(&["--what", "request", "."], &["--to HOST:PORT"]);
}

#[test]
fn a_server_that_stops_is_in_the_times_of_all_who_would_have_asked() {
    if !can("a_server_that_stops_is_in_the_times_of_all_who_would_have_asked", &["python3"]) {
        return;
    }
    let scratch = Scratch::new();
    let server = Server::of(BYTES, &scratch);
    let running = scratch.start(&[
        "--what",
        "request",
        "--to",
        &server.address,
        "--block",
        "50",
        "--reply",
        "200",
        "--rate",
        "200",
        "--time",
        "6s",
        "--log",
        "log",
        "--json",
        "--quiet",
        ".",
    ]);
    let log = scratch.path().join("log");
    until("the log is there", || log.exists());
    std::thread::sleep(Duration::from_secs(2));
    server.signal(libc::SIGSTOP);
    let stopped = Instant::now();
    std::thread::sleep(Duration::from_secs(2));
    let at_least = stopped.elapsed().as_secs_f64();
    server.signal(libc::SIGCONT);
    let (_, all) = result(&running.end());
    let request = request(&all);
    let seconds = |of: &str, figure: &str| request[of][figure].as_f64().expect("a figure") / 1e9;
    assert_eq!(
        (number(request, "count"), number(request, "errors")),
        (1200, 0),
        "all that were due were done"
    );
    // 400 of 1200 were due while it stood: of a stop of T the longest waits are T, T - 5 ms, ...: the slowest
    // hundredth, 12 of them, begins at T - 60 ms, the slowest tenth at T - 600 ms.
    let stood = seconds("service", "max");
    assert!(stood >= 0.95 * at_least, "{stood} of {at_least} s");
    for (figure, computed) in [("p99", stood - 0.06), ("p90", stood - 0.6)] {
        let told = seconds("response", figure);
        assert!((told - computed).abs() < 0.1, "{figure}: {told} s, computed {computed} s");
    }
    // Who counts from when it came to send finds one slow request.
    assert!(seconds("service", "p99") < 0.1, "{request:#}");
}

/// A server by `multiplex` with `workers` words, and a client of it, as a job file.
fn both(multiplex: &str, server: &str, client: &str) -> String {
    let listen = format!("127.0.0.1:{}", free_port());
    format!(
        "[[step]]\nwhat = 'serve'\nlisten = '{listen}'\nmultiplex = '{multiplex}'\n{server}\n\
         [[step.also]]\nwhat = 'request'\nto = '{listen}'\n{client}\n"
    )
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}

/// Of the jobs of a run's only step: the kind's figures.
fn of<'a>(all: &'a Value, at: usize, word: &str) -> &'a Value {
    kind(&all["cells"][0]["rounds"][0][0]["jobs"][at], word)
}

#[test]
fn each_way_of_waiting_answers_all_and_is_its_own_call() {
    if !can("each_way_of_waiting_answers_all_and_is_its_own_call", &["strace"]) {
        return;
    }
    for (multiplex, call, server) in [
        ("none", "accept4", "threads = 8\nsharing = 'shared'"),
        ("select", "pselect6", ""),
        ("poll", "ppoll", "processes = 2"),
        ("epoll", "EPOLLIN,", "processes = 2\nsharing = 'shared'"),
        ("epoll-edge", "EPOLLET", ""),
        ("epoll-exclusive", "EPOLLEXCLUSIVE", "processes = 2\nsharing = 'shared'"),
        ("io-uring", "io_uring_enter", ""),
    ] {
        let scratch = Scratch::new();
        let client = "block = '700'\nreply = '90K'\nmultiplex = 'epoll'\nconnections = 6\ndepth = 5\noperations = 200\nper-connection = 9";
        let job = both(multiplex, &format!("block = '700'\nreply = '90K'\n{server}"), client);
        std::fs::write(scratch.path().join("j.toml"), job).expect("a job file");
        let trace = scratch.path().join("calls");
        let out = Command::new("strace")
            .args(["-f", "-qq", "-e", "trace=accept4,pselect6,ppoll,epoll_ctl,io_uring_enter", "-o"])
            .arg(&trace)
            .arg(env!("CARGO_BIN_EXE_plumb"))
            .args(["load", "--job", "j.toml", "--json", "--quiet", "."])
            .current_dir(scratch.path())
            .output()
            .expect("strace");
        let (_, all) = result(&out);
        let figures = |at, word| {
            let of = of(&all, at, word);
            (number(of, "count"), number(of, "errors"), number(of, "bytes"))
        };
        assert_eq!(figures(1, "request"), (200, 0, 200 * 90 * 1024), "{multiplex}");
        assert_eq!(figures(0, "serve"), (200, 0, 200 * 90 * 1024), "{multiplex}");
        let calls = std::fs::read_to_string(&trace).expect("a trace");
        assert!(calls.contains(call), "{multiplex}: {call} is not called");
        for (flag, ours) in [("EPOLLET", "epoll-edge"), ("EPOLLEXCLUSIVE", "epoll-exclusive")] {
            assert!(!calls.contains(flag) || multiplex == ours, "{multiplex}: {flag} is given");
        }
        for (other, ours) in [("pselect6(", "select"), ("ppoll(", "poll"), ("io_uring_enter(", "io-uring")] {
            // A poll of a single descriptor may be anybody's.
            let called = calls.lines().filter(|l| l.contains(other)).count() > 20;
            assert!(!called || multiplex == ours, "{multiplex}: {other} is called");
        }
    }
}

#[test]
fn datagrams_are_answered_by_workers_with_one_socket_and_with_one_each() {
    for server in ["threads = 2\nsharing = 'shared'", "processes = 2"] {
        let scratch = Scratch::new();
        let job = both(
            "none",
            &format!("block = '64'\nreply = '1000'\n{server}"),
            "block = '64'\nreply = '1000'\nthreads = 4\noperations = 100",
        );
        std::fs::write(scratch.path().join("j.toml"), job.replace("'127.0.0.1:", "'udp:127.0.0.1:"))
            .expect("a job file");
        let all = scratch.json(&["--job", "j.toml", "."]);
        for (at, word) in [(1, "request"), (0, "serve")] {
            let of = of(&all, at, word);
            assert_eq!(
                (number(of, "count"), number(of, "errors"), number(of, "bytes")),
                (400, 0, 400_000),
                "{of:#}"
            );
        }
    }
}

/// Users of other runtimes in rooms of our server: all of their messages come back, and the server has told as many.
#[test]
fn users_of_other_runtimes_meet_in_our_rooms() {
    const TEST: &str = "users_of_other_runtimes_meet_in_our_rooms";
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let mut tried = 0;
    for (program, words, file) in [("go", &["run"][..], "chat.go"), ("java", &[][..], "Chat.java")] {
        if !can(&format!("{TEST} ({program})"), &[program]) {
            continue;
        }
        let scratch = Scratch::new();
        let (users, messages, bytes) = (12u64, 40u64, 64);
        let port = free_port();
        let listen = format!("127.0.0.1:{port}");
        let server = scratch.start(&[
            "--what",
            "serve",
            "--listen",
            &listen,
            "--room",
            "4",
            "--block",
            "64",
            "--multiplex",
            "epoll",
            "--operations",
            &(users * messages).to_string(),
            "--json",
            "--quiet",
            ".",
        ]);
        until("the server is up", || std::net::TcpStream::connect(&listen).is_ok());
        let numbers = [u64::from(port), users, messages, bytes].map(|n| n.to_string());
        let mut client = Command::new(program);
        client.args(words).arg(dir.join(file)).args(numbers);
        let out = client.env("GOCACHE", scratch.path().join("go")).output().expect(program);
        let said = String::from_utf8_lossy(&out.stdout).trim().to_owned();
        assert_eq!(
            said,
            (users * messages).to_string(),
            "{program}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
        let all = result(&server.end()).1;
        let told = kind(job(&all), "serve");
        assert_eq!(
            (number(told, "count"), number(told, "errors")),
            (users * messages, 0),
            "{program}: {told:#}"
        );
        tried += 1;
    }
    println!("{tried} of 2 runtimes");
}

#[test]
fn other_peoples_clients_are_answered() {
    if !can("other_peoples_clients_are_answered", &["python3"]) {
        return;
    }
    let ask = r#"
import http.client, sys, time
until = time.time() + 20
while True:
    try:
        c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=10)
        c.connect()
        break
    except ConnectionRefusedError:
        if time.time() > until: raise
        time.sleep(0.05)
for n in range(50):
    c.request("GET", "/%d" % n, headers={"X-Long": "y" * 900 * n})
    r = c.getresponse()
    assert (r.status, r.read()) == (200, b"x" * 1234), r.status
c.close()
"#;
    for multiplex in ["none", "select", "epoll-edge", "io-uring"] {
        let scratch = Scratch::new();
        let port = free_port().to_string();
        let listen = format!("127.0.0.1:{port}");
        let words = ["--what", "serve", "--listen", &listen, "--http", "/", "--reply", "1234"];
        let more =
            ["--multiplex", multiplex, "--operations", "50", "--time", "20s", "--json", "--quiet", "."];
        let running = scratch.start(&[&words[..], &more].concat());
        let out = Command::new("python3").args(["-c", ask, &port]).output().expect("python3");
        assert!(out.status.success(), "{multiplex}: {}", String::from_utf8_lossy(&out.stderr));
        let (_, all) = result(&running.end());
        let serve = kind(job(&all), "serve");
        assert_eq!((number(serve, "count"), number(serve, "errors")), (50, 0), "{multiplex}");
    }
}

#[test]
fn a_message_is_delivered_to_all_of_its_room() {
    for multiplex in ["none", "epoll"] {
        let scratch = Scratch::new();
        let words = ["chat", "--rooms", "3", "--users", "4", "--operations", "50", "--repeat", "1"];
        let listen = format!("127.0.0.1:{}", free_port());
        let more = ["--listen", &listen, "--multiplex", multiplex, "--json", "--quiet", "."];
        let out = scratch.load(&[&words[..], &more].concat());
        let (_, all) = result(&out);
        let (served, sent) = (of(&all, 0, "serve"), of(&all, 1, "request"));
        assert_eq!((number(sent, "count"), number(sent, "errors")), (600, 0), "{multiplex}");
        assert_eq!((number(served, "count"), number(served, "errors")), (600, 0), "{multiplex}");
        let delivered = number(served, "bytes") / 200;
        match multiplex {
            // All stay to the end; before all of a room have said something it is smaller.
            "epoll" => assert!((600 * 4 - 36..=600 * 4).contains(&delivered), "{delivered}"),
            // Who is done leaves, and is told no more.
            _ => assert!((600 * 2..=600 * 4).contains(&delivered), "{delivered}"),
        }
    }
}

#[test]
fn sessions_hold_their_connections_open() {
    let scratch = Scratch::new();
    let words = ["web", "--models", "select", "--sessions", "50", "--servers", "2", "--time", "2s"];
    let listen = format!("127.0.0.1:{}", free_port());
    let more =
        ["--think", "600ms", "--ramp", "0", "--listen", &listen, "--repeat", "1", "--json", "--quiet", "."];
    let running = scratch.start(&[&words[..], &more].concat());
    // Three bursts with 0.6 s between: 1.2 s of life, 50 a second.
    let port =
        u16::from_str_radix(&format!("{:x}", listen[10..].parse::<u16>().expect("a port")), 16).expect("hex");
    let established = || {
        let all = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
        let local = format!(":{port:04X} ");
        all.lines().filter(|l| l.get(6..20).is_some_and(|a| a.contains(&local)) && l.contains(" 01 ")).count()
    };
    let mut most = 0;
    for _ in 0..30 {
        std::thread::sleep(Duration::from_millis(100));
        most = most.max(established());
    }
    let (_, all) = result(&running.end());
    assert!((48..=75).contains(&most), "{most} connections are open");
    let request = of(&all, 1, "request");
    // 50 sessions a second for 2 s: 100 have their first burst, 70 the second, 40 the third.
    assert_eq!((number(request, "count"), number(request, "errors")), (2 * (100 + 70 + 40), 0));
}

#[test]
fn a_server_alone_ends_with_its_figures_when_it_is_stopped() {
    let scratch = Scratch::new();
    let socket = scratch.path().join("s");
    let running = scratch.start(&[
        "--what",
        "serve",
        "--listen",
        "./s",
        "--multiplex",
        "poll",
        "--json",
        "--quiet",
        ".",
    ]);
    until("it listens", || socket.exists());
    let words = ["--what", "request", "--to", "./s", "--operations", "30", "."];
    assert_eq!(number(request(&scratch.json(&words)), "count"), 30);
    running.signal(libc::SIGINT);
    let (_, all) = result(&running.end());
    assert_eq!(number(kind(job(&all), "serve"), "count"), 30);
    assert!(!socket.exists(), "its name goes with it");
    scratch.refused(
        &["--what", "serve", "--listen", "192.0.2.1:80", "."],
        &["192.0.2.1:80", "an address of this machine"],
    );
}

#[test]
fn who_is_alone_in_a_room_hears_only_oneself() {
    let scratch = Scratch::new();
    let room = "room = 1\nblock = '64'";
    let job = both(
        "epoll",
        room,
        &format!("{room}\nmultiplex = 'epoll'\nconnections = 5\ndepth = 5\noperations = 50"),
    );
    std::fs::write(scratch.path().join("j.toml"), job).expect("a job file");
    let all = scratch.json(&["--job", "j.toml", "."]);
    assert_eq!(number(of(&all, 1, "request"), "bytes"), 50 * 64);
    scratch.refused(
        &[
            "--what",
            "serve",
            "--listen",
            "./s",
            "--sharing",
            "shared",
            "--room",
            "2",
            "--processes",
            "2",
            ".",
        ],
        &["--room"],
    );
}
