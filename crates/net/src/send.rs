// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sender: takes packets in the place of a directory, and never waits for the network while it does. What the
//! collector has not confirmed is kept, up to a limit; beyond it records are lost, with the interval in the trace.

use crate::address::{Address, Socket};
use crate::frame::{frames, Frame};
use crate::invitation::Invitation;
use crate::tls::{self, Wire};
use anyhow::{Context, Result};
use plumb_machine::{capabilities, signals};
use plumb_trace::ctf::{Metadata, PacketHead, HEAD_BYTES};
use plumb_trace::reader::moments;
use plumb_trace::units;
use plumb_trace::writer::{Sink, Stream, CONT_ID};
use rustls::ClientConfig;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::Shutdown;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Bytes of a slot of a packet of records.
const SLOT: usize = 32;
/// A handshake takes so long at most.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// A collector that confirms nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(30);
/// Between two tries to connect, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));
/// How long is waited for something to send, or for an answer.
const TURN: Duration = Duration::from_millis(20);

/// What a sender may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Memory for what the collector has not confirmed, bytes; for what is not records as much again.
    pub memory: usize,
    /// How long the end waits for a collector that confirms nothing.
    pub end: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 64 << 20, end: Duration::from_secs(10) }
    }
}

/// What waits for the collector.
#[derive(Debug, Default)]
struct Queue {
    /// Frames that it has not confirmed, with their lengths in front.
    frames: VecDeque<Arc<Vec<u8>>>,
    /// Number of the first of them.
    first: u64,
    bytes: usize,
    /// It takes no more, and why.
    refused: Option<String>,
    /// Why there is no connection, if there is none.
    apart: Option<String>,
    /// Nobody waits for the rest.
    given_up: bool,
    /// Ends the connection that there is.
    socket: Option<Socket>,
}

impl Queue {
    fn next(&self) -> u64 {
        self.first + self.frames.len() as u64
    }

    /// The collector has all before `received`.
    fn confirm(&mut self, received: u64) -> bool {
        let before = self.first;
        while self.first < received {
            let Some(frame) = self.frames.pop_front() else { return false };
            self.bytes -= frame.len();
            self.first += 1;
        }
        self.first > before
    }
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something changed, so long at most.
    fn wait<'q>(&self, queue: MutexGuard<'q, Queue>, time: Duration) -> MutexGuard<'q, Queue> {
        self.changed.wait_timeout(queue, time).unwrap_or_else(PoisonError::into_inner).0
    }
}

/// What of a stream was not sent.
#[derive(Debug, Clone, Copy, Default)]
struct Unsent {
    packets: u64,
    events: u64,
    /// Of the last of them.
    head: PacketHead,
    /// A packet behind them has told it.
    told: bool,
}

/// A sink of packets whose files lie with a collector.
#[derive(Debug)]
pub struct RemoteSink {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    limits: Limits,
    unsent: BTreeMap<Stream, Unsent>,
    /// What must not be lost found no room: the recording is not whole.
    torn: Option<String>,
}

/// Events of a packet of records: its slots less second halves.
fn events_of(packet: &[u8]) -> u64 {
    let slots = packet.get(HEAD_BYTES..).unwrap_or_default().chunks_exact(SLOT);
    slots.filter(|slot| u16::from_le_bytes([slot[8], slot[9]]) != CONT_ID).count() as u64
}

impl RemoteSink {
    /// Connects to a collector, and tells it of a trace that begins.
    ///
    /// # Errors
    /// Nobody listens there, it is not who invited, or it refuses.
    pub fn connect(
        to: &Address,
        invitation: &Invitation,
        metadata: &Metadata,
        limits: Limits,
    ) -> Result<Self> {
        let (key, collector) = invitation.keys()?;
        let config = tls::client(&key, collector)?;
        let mut session = [0; 16];
        let random = ring::rand::SystemRandom::new();
        ring::rand::SecureRandom::fill(&random, &mut session)
            .map_err(|_| anyhow::anyhow!("no random numbers"))?;
        let mut sender = Sender { to: to.clone(), config, session, shared: Arc::new(Shared::default()) };
        let shared = sender.shared.clone();
        let text = metadata.encode();
        sender.push(Frame::Metadata { number: 0, text: &text });
        let (mut wire, _) = sender.connect().with_context(|| {
            format!(
                "{to} does not take recordings of {}: is it the collector that invited it?",
                invitation.name
            )
        })?;
        // Before the target begins: there is room for it, and the collector knows its events.
        sender.begin(&mut wire).with_context(|| to.to_string())?;
        let thread = thread::Builder::new().name("sender".into()).spawn(move || sender.run((wire, 1)))?;
        Ok(Self { shared, thread: Some(thread), limits, unsent: BTreeMap::new(), torn: None })
    }

    /// Events of streams of records, or of the others, that were not sent.
    fn unsent(&self, records: bool) -> u64 {
        let kind = |stream: &Stream| matches!(stream, Stream::Cpu(_) | Stream::Load { .. }) == records;
        self.unsent.iter().filter(|(stream, _)| kind(stream)).map(|(_, unsent)| unsent.events).sum()
    }

    /// Queues a packet, with what its stream lacks before it.
    fn queue(&mut self, stream: Stream, packet: &[u8], mut head: PacketHead) {
        let unsent = self.unsent.entry(stream).or_default();
        head.seq -= unsent.packets;
        head.discarded += unsent.events;
        unsent.told = true;
        let mut bytes = packet.to_vec();
        bytes[..HEAD_BYTES].copy_from_slice(&head.encode());
        let mut queue = self.shared.lock();
        let number = queue.next();
        let frame = Frame::Packet { number, stream, bytes: &bytes }.encode();
        queue.bytes += frame.len();
        queue.frames.push_back(Arc::new(frame));
        self.shared.changed.notify_all();
    }
}

impl Sink for RemoteSink {
    fn packet(&mut self, stream: Stream, packet: &[u8]) -> io::Result<()> {
        let head = PacketHead::decode(packet).map_err(io::Error::other)?;
        let held = {
            let queue = self.shared.lock();
            if let Some(why) = &queue.refused {
                return Err(io::Error::other(format!("the collector refuses: {why}")));
            }
            queue.bytes
        };
        let limit = match stream {
            Stream::Cpu(_) | Stream::Load { .. } => self.limits.memory,
            Stream::Waits => self.limits.memory / 2 * 3,
            Stream::State => self.limits.memory * 2,
        };
        if held + packet.len() <= limit {
            self.queue(stream, packet, head);
            return Ok(());
        }
        if stream == Stream::State {
            let apart = self.shared.lock().apart.clone();
            let why = apart.unwrap_or_else(|| "it is too slow".into());
            let why = format!("the collector takes nothing: {why}");
            self.torn = Some(why.clone());
            return Err(io::Error::other(why));
        }
        let records = stream != Stream::Waits;
        let events = if records { events_of(packet) } else { moments(packet) };
        let (content, size) = (HEAD_BYTES as u64, HEAD_BYTES as u64);
        if records && head.seq == 0 {
            // The loss needs a beginning: the packet goes without its events.
            let empty = PacketHead { end: head.begin, content, size, ..head };
            self.queue(stream, &empty.encode(), empty);
        }
        let unsent = self.unsent.entry(stream).or_default();
        unsent.packets += u64::from(!(records && head.seq == 0));
        unsent.events += events;
        unsent.head = head;
        unsent.told = !records;
        Ok(())
    }

    fn lost(&self) -> u64 {
        self.unsent(true)
    }

    fn stacks_lost(&self) -> u64 {
        self.unsent(false)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let lost = self.lost();
        if lost > 0 {
            notes.push(format!(
                "{} events were not sent: the collector was away, or too slow, for longer than {} MiB of memory last",
                units::count(lost),
                self.limits.memory >> 20
            ));
        }
        if self.stacks_lost() > 0 {
            notes.push(format!("{} stacks and samples were not sent", units::count(self.stacks_lost())));
        }
        notes
    }

    /// Tells what was lost last, and waits until the collector has everything.
    fn finish(&mut self) -> io::Result<()> {
        if let Some(why) = &self.torn {
            return Err(io::Error::other(why.clone()));
        }
        let untold = self.unsent.iter().filter(|(_, u)| u.events > 0 && !u.told);
        let untold: Vec<(Stream, PacketHead)> = untold.map(|(stream, u)| (*stream, u.head)).collect();
        for (stream, last) in untold {
            let (content, size) = (HEAD_BYTES as u64, HEAD_BYTES as u64);
            let head = PacketHead { begin: last.end, seq: last.seq + 1, content, size, ..last };
            self.queue(stream, &head.encode(), head);
        }
        let mut queue = self.shared.lock();
        let number = queue.next();
        let frame = Frame::Done { number }.encode();
        queue.bytes += frame.len();
        queue.frames.push_back(Arc::new(frame));
        self.shared.changed.notify_all();
        let (mut before, mut since) = (queue.first, Instant::now());
        let asked = signals::stop().times();
        loop {
            if signals::stop().times() > asked {
                let left = queue.bytes >> 10;
                return Err(io::Error::other(format!(
                    "stopped while {left} KiB were not with the collector yet"
                )));
            }
            if let Some(why) = &queue.refused {
                return Err(io::Error::other(format!("the collector refuses: {why}")));
            }
            if queue.frames.is_empty() {
                return Ok(());
            }
            if queue.first > before {
                (before, since) = (queue.first, Instant::now());
            }
            let waited = since.elapsed();
            if waited >= self.limits.end {
                let why = queue.apart.clone().unwrap_or_else(|| "it is too slow".into());
                return Err(io::Error::other(format!(
                    "the collector has not got the last {}: {why}",
                    units::bytes(queue.bytes as u64)
                )));
            }
            let left = (self.limits.end - waited).min(TURN);
            queue = self.shared.wait(queue, left);
        }
    }
}

impl Drop for RemoteSink {
    fn drop(&mut self) {
        let socket = {
            let mut queue = self.shared.lock();
            queue.given_up = true;
            queue.socket.take()
        };
        // Whatever the thread waits for in it ends.
        socket.map(|socket| socket.shutdown(Shutdown::Both));
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread that has the connection.
#[derive(Debug)]
struct Sender {
    to: Address,
    config: Arc<ClientConfig>,
    session: [u8; 16],
    shared: Arc<Shared>,
}

/// What the answers that came in said.
#[derive(Debug, Default)]
struct Answers {
    received: Option<u64>,
    refused: Option<String>,
}

fn answers(wire: &mut Wire, wait: Duration) -> io::Result<Answers> {
    let mut said = Answers::default();
    let inbox = wire.receive(wait)?;
    let taken = frames(inbox, |frame| {
        match frame {
            Frame::Have { received } => said.received = Some(received),
            Frame::Refused { why } => said.refused = Some(why.into()),
            _ => {}
        }
        true
    });
    taken.map_err(io::Error::other).map(|()| said)
}

impl Sender {
    fn push(&mut self, frame: Frame<'_>) {
        let frame = frame.encode();
        let mut queue = self.shared.lock();
        queue.bytes += frame.len();
        queue.frames.push_back(Arc::new(frame));
    }

    /// A connection, and the number of the first frame that it must send.
    fn connect(&self) -> Result<(Wire, u64)> {
        let socket = self.to.connect()?;
        let given_up = || self.shared.lock().given_up;
        let mut wire = Wire::client(socket, self.config.clone(), HANDSHAKE, &given_up)?;
        self.shared.lock().socket = wire.handle().ok();
        wire.send(&Frame::Hello { session: self.session }.encode())?;
        let begun = Instant::now();
        loop {
            anyhow::ensure!(begun.elapsed() < HANDSHAKE && !given_up(), "{}: no answer", self.to);
            let said = answers(&mut wire, TURN)?;
            let mut queue = self.shared.lock();
            if let Some(why) = said.refused {
                queue.refused = Some(why.clone());
                self.shared.changed.notify_all();
                anyhow::bail!("it refuses: {why}");
            }
            if let Some(received) = said.received {
                anyhow::ensure!(
                    queue.first <= received && received <= queue.next(),
                    "{}: it has another part of the recording",
                    self.to
                );
                queue.confirm(received);
                queue.apart = None;
                self.shared.changed.notify_all();
                return Ok((wire, received));
            }
        }
    }

    /// Sends the metadata, and waits until the collector has it.
    fn begin(&self, wire: &mut Wire) -> Result<()> {
        let first = self.shared.lock().frames.front().cloned().unwrap_or_default();
        wire.send(&first)?;
        let begun = Instant::now();
        while begun.elapsed() < HANDSHAKE {
            let said = answers(wire, TURN)?;
            if let Some(why) = said.refused {
                anyhow::bail!("the collector refuses: {why}");
            }
            if let Some(received @ 1..) = said.received {
                self.shared.lock().confirm(received);
                return Ok(());
            }
        }
        anyhow::bail!("no answer")
    }

    /// Sends until nobody wants more.
    fn run(&self, first: (Wire, u64)) {
        // It reads what comes from outside. Where the kernel refuses, it goes on with what it has.
        let _ = capabilities::keep(&[], &[]);
        let mut connection = Some(first);
        let mut retry = RETRY.0;
        loop {
            let ended = match connection.take() {
                Some((wire, next)) => {
                    retry = RETRY.0;
                    self.send(wire, next).map_err(anyhow::Error::from)
                }
                None => match self.connect() {
                    Ok(new) => {
                        connection = Some(new);
                        Ok(())
                    }
                    Err(e) => Err(e),
                },
            };
            let mut queue = self.shared.lock();
            if queue.given_up || queue.refused.is_some() {
                return;
            }
            if let Err(e) = ended {
                queue.apart = Some(format!("{e:#}"));
                let until = Instant::now() + retry;
                while !queue.given_up && Instant::now() < until {
                    let left = until.saturating_duration_since(Instant::now());
                    queue = self.shared.wait(queue, left);
                }
                retry = (retry * 2).min(RETRY.1);
            }
        }
    }

    /// Sends over one connection. Returns when nobody wants more, or the collector refuses.
    fn send(&self, mut wire: Wire, mut next: u64) -> io::Result<()> {
        let mut heard = Instant::now();
        loop {
            let (frame, waits) = {
                let mut queue = self.shared.lock();
                if queue.given_up || queue.refused.is_some() {
                    return Ok(());
                }
                if queue.frames.is_empty() {
                    heard = Instant::now();
                    queue = self.shared.wait(queue, TURN);
                }
                let at = (next - queue.first) as usize;
                (queue.frames.get(at).cloned(), queue.frames.len() > at + 1)
            };
            let sent = frame.as_ref().map_or(Ok(()), |frame| wire.send(frame));
            next += u64::from(frame.is_some());
            // One that refuses says why before it closes the connection.
            let said = match (answers(&mut wire, if waits { Duration::ZERO } else { TURN }), sent) {
                (Ok(said), Err(_)) if said.refused.is_some() => said,
                (_, Err(e)) | (Err(e), _) => return Err(e),
                (Ok(said), Ok(())) => said,
            };
            let mut queue = self.shared.lock();
            if let Some(received) = said.received {
                if received > queue.next() {
                    return Err(io::Error::other("it confirms what there is not"));
                }
                if queue.confirm(received) {
                    heard = Instant::now();
                }
                // An older connection may have brought what this one has not sent yet.
                next = next.max(received);
            }
            queue.refused = queue.refused.take().or(said.refused);
            self.shared.changed.notify_all();
            if !queue.frames.is_empty() && heard.elapsed() >= SILENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}
