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
