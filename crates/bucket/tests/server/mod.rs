// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A server that speaks as much of S3 as files that are put need, and fails as it is told. It believes every signature.

use base64::Engine;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What is done to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// It is refused, and nothing done.
    Status(u16),
    /// The connection ends before it is read.
    Lost,
    /// It is done, and the connection ends without an answer.
    Unanswered,
}

#[derive(Debug, Clone)]
pub struct Object {
    pub body: Vec<u8>,
    pub sha256: String,
    etag: String,
}

/// Decides by the number of a request, its method and key.
pub type Faults = Box<dyn FnMut(u64, &str, &str) -> Fault + Send>;

struct State {
    objects: BTreeMap<String, Object>,
    requests: u64,
    faults: Faults,
}

#[derive(Clone)]
pub struct Server {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Server {
    pub fn new(faults: Faults) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let state = State { objects: BTreeMap::new(), requests: 0, faults };
        let address = listener.local_addr().expect("an address");
        let server = Self { address, state: Arc::new(Mutex::new(state)) };
        let serving = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = serving.clone();
                std::thread::spawn(move || server.serve(&stream));
            }
        });
        server
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The objects of `/BUCKET/KEY` by `BUCKET/KEY`.
    pub fn objects(&self) -> BTreeMap<String, Object> {
        self.state.lock().expect("no panic").objects.clone()
    }

    pub fn requests(&self) -> u64 {
        self.state.lock().expect("no panic").requests
    }

    pub fn set(&self, faults: Faults) {
        self.state.lock().expect("no panic").faults = faults;
    }

    fn serve(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        while self.request(&mut reader, stream).is_some() {}
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }

    fn request(&self, reader: &mut BufReader<&TcpStream>, mut stream: &TcpStream) -> Option<()> {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        let mut words = line.split_whitespace();
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let key = decoded(path.trim_start_matches('/'));
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_lowercase(), value.trim().to_owned());
        }
        let fault = {
            let mut state = self.state.lock().expect("no panic");
            state.requests += 1;
            let number = state.requests;
            (state.faults)(number, &method, &key)
        };
        if fault == Fault::Lost {
            return None;
        }
        let length = headers.get("content-length").and_then(|l| l.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let listed;
        let (status, more, text) = match fault {
            Fault::Status(status) => {
                (status, String::new(), "<Error><Code>Made</Code><Message>to fail</Message></Error>")
            }
            _ if !query.contains("X-Amz-Signature=") => {
                (403, String::new(), "<Error><Code>NotSigned</Code></Error>")
            }
            _ if method == "GET" => {
                listed = self.listed(&key, query);
                (200, String::new(), listed.as_str())
            }
            _ => self.done(&method, &key, &headers, body),
        };
        if fault == Fault::Unanswered {
            return None;
        }
        let text = if method == "HEAD" || status == 204 { "" } else { text };
        // In one piece: the second of two would wait for the first one's acknowledgement.
        let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{more}\r\n{text}", text.len());
        stream.write_all(answer.as_bytes()).ok()
    }

    /// Two directories below a prefix, behind a name.
    fn listed(&self, bucket: &str, query: &str) -> String {
        let of =
            |name: &str| query.split('&').find_map(|p| p.strip_prefix(name)?.strip_prefix('=')).map(decoded);
        let begin = format!("{}/{}", bucket.trim_end_matches('/'), of("prefix").unwrap_or_default());
        let after = of("continuation-token").unwrap_or_default();
        let state = self.state.lock().expect("no panic");
        let mut all: Vec<&str> = state
            .objects
            .keys()
            .filter_map(|key| key.strip_prefix(&begin)?.split_once('/'))
            .map(|(name, _)| name)
            .filter(|name| *name > after.as_str())
            .collect();
        all.dedup();
        let prefix = begin.split_once('/').map_or("", |(_, prefix)| prefix);
        let mut out =
            "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><MaxKeys>2</MaxKeys>"
                .to_owned();
        for name in all.iter().take(2) {
            out += &format!("<CommonPrefixes><Prefix>{prefix}{name}/</Prefix></CommonPrefixes>");
        }
        if let Some(last) = all.get(1).filter(|_| all.len() > 2) {
            out += &format!("<NextContinuationToken>{last}</NextContinuationToken>");
        }
        out + "</ListBucketResult>"
    }

    fn done(
        &self,
        method: &str,
        key: &str,
        headers: &BTreeMap<String, String>,
        body: Vec<u8>,
    ) -> (u16, String, &'static str) {
        let mut state = self.state.lock().expect("no panic");
        let there = state.objects.get(key);
        match method {
            "HEAD" => match there {
                None => (404, String::new(), ""),
                Some(o) => (200, format!("etag: {}\r\nx-amz-meta-sha256: {}\r\n", o.etag, o.sha256), ""),
            },
            "PUT" => {
                let sum = ring::digest::digest(&ring::digest::SHA256, &body);
                let sum = base64::engine::general_purpose::STANDARD.encode(sum.as_ref());
                if headers.get("x-amz-checksum-sha256") != Some(&sum) {
                    return (400, String::new(), "<Error><Code>BadDigest</Code></Error>");
                }
                let new = headers.get("if-none-match").is_some_and(|h| h == "*");
                let still = headers.get("if-match");
                if new && there.is_some() || still.is_some() && still != there.map(|o| &o.etag) {
                    return (412, String::new(), "<Error><Code>PreconditionFailed</Code></Error>");
                }
                let sha256 = headers.get("x-amz-meta-sha256").cloned().unwrap_or_default();
                let etag = format!("\"{}\"", state.requests);
                state.objects.insert(key.to_owned(), Object { body, sha256, etag });
                (200, String::new(), "")
            }
            "DELETE" => {
                state.objects.remove(key);
                (204, String::new(), "")
            }
            _ => (405, String::new(), ""),
        }
    }
}

fn decoded(path: &str) -> String {
    let (bytes, mut out, mut at) = (path.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%').then(|| path.get(at + 1..at + 3)).flatten();
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => (out.push(byte), at += 3).0,
            None => (out.push(bytes[at]), at += 1).0,
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
