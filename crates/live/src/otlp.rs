// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures of windows, what limits services, and what triggers tell of, for OpenTelemetry: OTLP over HTTP, in JSON
//! (opentelemetry-proto, docs/specification.md). What a collector does not take now waits and is sent again.

mod documents;
#[cfg(test)]
mod tests;

use crate::metrics::{Figure, Metrics};
use crate::shown::Shown;
use anyhow::{bail, Context, Result};
use documents::Documents;
pub use documents::Fired;
use plumb_machine::capabilities;
use plumb_machine::host::Identity;
use serde_json::Value;
use std::collections::VecDeque;
use std::io::Read;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use ureq::http::{HeaderName, HeaderValue, Response, Uri};
use ureq::tls::TlsConfig;
use ureq::{Agent, Body};

/// Documents that wait for a collector, and their bytes: above either the oldest go.
const WAITING: usize = 512;
const BYTES: usize = 16 << 20;
/// Windows and triggers that wait for this thread.
const QUEUE: usize = 64;
/// Of a request, to the end of its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// What is left when plumb ends is tried for so long.
const LAST: Duration = Duration::from_secs(3);
/// Before the second try; doubled before each further one, up to the other.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);
/// At most so long a collector may ask to be left alone.
const ASKED: Duration = Duration::from_secs(3600);

/// A collector.
#[derive(Debug, Clone)]
pub struct Target {
    /// `http://HOST:PORT`, or with a path; `/v1/metrics` and `/v1/logs` come behind it.
    pub endpoint: String,
    /// Of every request.
    pub headers: Vec<(String, String)>,
    /// Whom it trusts, where the endpoint is of https.
    pub tls: TlsConfig,
}

impl Target {
    /// # Errors
    /// It is no endpoint. What may be a secret in it is not told.
    pub fn is_endpoint(endpoint: &str) -> Result<()> {
        if endpoint.contains(['@', '?', '#']) {
            bail!("otlp: the endpoint has a user's name or a query in it; what a collector asks for goes into OTEL_EXPORTER_OTLP_HEADERS");
        }
        let parsed =
            Uri::try_from(endpoint).ok().filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
        let authority = parsed.as_ref().and_then(Uri::authority);
        let fine = authority.is_some_and(|place| {
            let port = place.as_str().strip_prefix(place.host());
            !place.host().is_empty() && (port == Some("") || place.port_u16().is_some_and(|port| port > 0))
        });
        if !fine {
            bail!("otlp = \"{endpoint}\": is no endpoint; one is http://HOST:PORT, as http://127.0.0.1:4318");
        }
        Ok(())
    }

    /// Whether it is on this host: no proxy leads there.
    fn is_here(&self) -> bool {
        let uri = Uri::try_from(self.endpoint.as_str()).ok();
        let host = uri.as_ref().and_then(Uri::host).unwrap_or_default().trim_matches(['[', ']']);
        host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
    }
}

/// Headers as OTEL_EXPORTER_OTLP_HEADERS has them (OpenTelemetry, Protocol Exporter): `NAME=VALUE,NAME=VALUE`, values
/// percent-encoded.
///
/// # Errors
/// They are not written so; no value is named.
pub fn headers(text: &str) -> Result<Vec<(String, String)>> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let one = |part: &str| {
        let (name, value) = part.split_once('=').context("a part has no '='")?;
        let (name, value) =
            (name.trim(), decoded(value.trim()).context("a value is no percent-encoded text")?);
        // A refused header is a secret as well.
        if HeaderName::try_from(name).is_err() || HeaderValue::try_from(value.as_str()).is_err() {
            bail!("a name or a value cannot be one of a header");
        }
        Ok((name.to_owned(), value))
    };
    parts.map(one).collect()
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push(match byte {
            b'%' => u8::try_from(digit()? * 16 + digit()?).ok()?,
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// What a thread that sends is told.
enum Message {
    Window(Box<(Shown, u64, Vec<Figure>)>),
    Fired(Box<Fired>),
}

/// Where documents go.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Metrics,
    Logs,
}

impl Kind {
    fn path(self) -> &'static str {
        match self {
            Self::Metrics => "/v1/metrics",
            Self::Logs => "/v1/logs",
        }
    }
}

/// The thread that sends; when it is dropped, it tries what is left once more.
#[derive(Debug)]
pub struct Otlp {
    /// None at the end.
    sender: Option<Sender>,
    thread: Option<JoinHandle<()>>,
}

/// For whoever tells of windows and triggers.
#[derive(Debug, Clone)]
pub struct Sender {
    tell: SyncSender<Message>,
    /// What the thread was not told: of metrics, of logs.
    missed: Arc<[AtomicU64; 2]>,
}

impl Sender {
    /// A window is over, and `metrics` know of it.
    pub fn window(&self, metrics: &Metrics) {
        self.send(Message::Window(Box::new(metrics.now())), Kind::Metrics);
    }

    pub fn fired(&self, fired: Fired) {
        self.send(Message::Fired(Box::new(fired)), Kind::Logs);
    }

    fn send(&self, message: Message, kind: Kind) {
        if self.tell.try_send(message).is_err() {
            self.missed[kind as usize].fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Otlp {
    /// Begins; `say` is told what is wrong with a collector, once, and when it is well again.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn start(target: &Target, machine: &Identity, say: impl Fn(&str) + Send + 'static) -> Result<Self> {
        let mut agent = Agent::config_builder()
            .tls_config(target.tls.clone())
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(PATIENCE))
            .user_agent(concat!("plumb/", env!("CARGO_PKG_VERSION")));
        if target.is_here() {
            agent = agent.proxy(None);
        }
        let endpoint = target.endpoint.trim_end_matches('/').into();
        let post = Post { agent: agent.build().into(), endpoint, headers: target.headers.clone() };
        let (tell, told) = sync_channel(QUEUE);
        let missed = Arc::<[AtomicU64; 2]>::default();
        let mut work = Work {
            post,
            documents: Documents::new(machine),
            waiting: VecDeque::new(),
            bytes: 0,
            missed: Arc::clone(&missed),
            troubles: [Trouble::default(), Trouble::default()],
            say: Box::new(say),
        };
        let work = move || {
            // Where the kernel refuses, it goes on with what it has.
            let _ = capabilities::keep(&[], &[]);
            work.all(&told);
            work.end();
        };
        let thread = thread::Builder::new().name("otlp".into()).spawn(work).context("a thread for OTLP")?;
        Ok(Self { sender: Some(Sender { tell, missed }), thread: Some(thread) })
    }

    /// # Panics
    /// Never: it is there until this is dropped.
    pub fn sender(&self) -> &Sender {
        self.sender.as_ref().expect("until it is dropped")
    }
}

/// The senders must be gone.
impl Drop for Otlp {
    fn drop(&mut self) {
        self.sender = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// How a collector takes a document.
enum Answer {
    Taken,
    /// Taken, but for a part.
    Partly(String),
    /// Try again, not before so long.
    Later(String, Option<Duration>),
    /// Never.
    Refused(String),
}

struct Post {
    agent: Agent,
    endpoint: String,
    headers: Vec<(String, String)>,
}

impl Post {
    fn send(&self, path: &str, body: &str, patience: Duration) -> Answer {
        let mut request =
            self.agent.post(format!("{}{path}", self.endpoint)).header("content-type", "application/json");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        match request.config().timeout_global(Some(patience)).build().send(body) {
            Ok(answer) => Self::told(answer),
            // Another try is the same request.
            Err(error @ (ureq::Error::BadUri(_) | ureq::Error::Http(_))) => {
                Answer::Refused(error.to_string())
            }
            Err(error) => Answer::Later(error.to_string(), None),
        }
    }

    /// OTLP/HTTP Response.
    fn told(answer: Response<Body>) -> Answer {
        let status = answer.status();
        let after = answer.headers().get("retry-after").and_then(|v| v.to_str().ok()?.parse().ok());
        let mut text = String::new();
        // What it says is another's: as much as a line has.
        let _ = answer.into_body().into_reader().take(4096).read_to_string(&mut text);
        let clean = |text: &str| text.chars().filter(|c| !c.is_control()).take(200).collect::<String>();
        match status.as_u16() {
            200..=299 => {
                let part = serde_json::from_str::<Value>(&text)
                    .map(|said| said["partialSuccess"].clone())
                    .unwrap_or_default();
                let of = |key: &str| {
                    part[key].as_str().map_or(part[key].as_u64(), |n| n.parse().ok()).unwrap_or(0)
                };
                match of("rejectedDataPoints") + of("rejectedLogRecords") {
                    0 => Answer::Taken,
                    n => Answer::Partly(format!(
                        "{n} refused: {}",
                        clean(part["errorMessage"].as_str().unwrap_or_default())
                    )),
                }
            }
            429 | 502..=504 => {
                Answer::Later(format!("{status}: {}", clean(&text)), after.map(Duration::from_secs))
            }
            _ => Answer::Refused(format!("{status}: {}", clean(&text))),
        }
    }
}

/// What is wrong with documents of a kind.
#[derive(Debug, Default)]
struct Trouble {
    /// Somebody was told.
    told: bool,
    /// Documents that are gone since.
    lost: u64,
}

struct Work {
    post: Post,
    documents: Documents,
    waiting: VecDeque<(Kind, String)>,
    /// Theirs.
    bytes: usize,
    missed: Arc<[AtomicU64; 2]>,
    troubles: [Trouble; 2],
    say: Box<dyn Fn(&str) + Send>,
}

impl Work {
    /// Until nobody tells of anything any more.
    fn all(&mut self, told: &Receiver<Message>) {
        let (mut pause, mut again) = (PAUSE, Instant::now());
        loop {
            let wait = match self.waiting.is_empty() {
                true => LONGEST,
                false => again.saturating_duration_since(Instant::now()),
            };
            match told.recv_timeout(wait) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // One at a time: whoever tells of something, or wants to end, does not wait for all of them.
            if Instant::now() < again {
                continue;
            }
            match self.first(PATIENCE) {
                Ok(()) => pause = PAUSE,
                Err(after) => {
                    again = Instant::now() + after.map_or(pause, |after| after.clamp(PAUSE, ASKED));
                    pause = (pause * 2).min(LONGEST);
                }
            }
        }
    }

    /// Tries what is left.
    fn end(&mut self) {
        let until = Instant::now() + LAST;
        let left = || until.saturating_duration_since(Instant::now());
        while !self.waiting.is_empty() && !left().is_zero() {
            if let Err(after) = self.first(left()) {
                thread::sleep(after.unwrap_or(PAUSE).max(PAUSE).min(left()));
            }
        }
        let lost = self.troubles.iter().map(|t| t.lost).sum::<u64>() + self.waiting.len() as u64;
        if lost > 0 {
            (self.say)(&format!("otlp: {}: {lost} documents are lost", self.post.endpoint));
        }
    }

    fn take(&mut self, message: Message) {
        for kind in [Kind::Metrics, Kind::Logs] {
            let missed = self.missed[kind as usize].swap(0, Ordering::Relaxed);
            if missed > 0 {
                self.trouble(kind, "what is told comes faster than it is sent");
                self.troubles[kind as usize].lost += missed;
            }
        }
        match message {
            Message::Window(window) => {
                let (shown, end, figures) = *window;
                self.wait(Kind::Metrics, &self.documents.metrics(end, &figures));
                let records = self.documents.findings(&shown, end);
                if !records.is_empty() {
                    self.wait(Kind::Logs, &self.documents.logs(&records));
                }
            }
            Message::Fired(fired) => self.wait(Kind::Logs, &self.documents.logs(&[Documents::fired(&fired)])),
        }
    }

    fn wait(&mut self, kind: Kind, document: &Value) {
        let text = document.to_string();
        self.bytes += text.len();
        self.waiting.push_back((kind, text));
        while self.waiting.len() > WAITING || self.bytes > BYTES {
            let Some(kind) = self.gone() else { break };
            self.troubles[kind as usize].lost += 1;
        }
    }

    /// Takes the oldest away.
    fn gone(&mut self) -> Option<Kind> {
        let (kind, text) = self.waiting.pop_front()?;
        self.bytes -= text.len();
        Some(kind)
    }

    /// Sends the oldest; the error is for how long the collector wants to be left alone.
    fn first(&mut self, patience: Duration) -> Result<(), Option<Duration>> {
        let Some((kind, text)) = self.waiting.front() else { return Ok(()) };
        let kind = *kind;
        match self.post.send(kind.path(), text, patience) {
            Answer::Taken => {
                let Trouble { told, lost } = std::mem::take(&mut self.troubles[kind as usize]);
                if told || lost > 0 {
                    let (endpoint, path) = (&self.post.endpoint, kind.path());
                    (self.say)(&format!("otlp: {endpoint}{path} takes it again; {lost} documents are lost"));
                }
            }
            Answer::Partly(why) => self.trouble(kind, &why),
            Answer::Refused(why) => {
                self.trouble(kind, &why);
                self.troubles[kind as usize].lost += 1;
            }
            Answer::Later(why, after) => {
                self.trouble(kind, &why);
                return Err(after);
            }
        }
        self.gone();
        Ok(())
    }

    fn trouble(&mut self, kind: Kind, why: &str) {
        if !std::mem::replace(&mut self.troubles[kind as usize].told, true) {
            (self.say)(&format!("otlp: {}{}: {why}", self.post.endpoint, kind.path()));
        }
    }
}
