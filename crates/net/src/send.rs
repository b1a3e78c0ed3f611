// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sender: takes packets in the place of a directory, and never waits for the network while it does. What the
//! collector has not confirmed is kept, up to a limit; beyond it records are lost, with the interval in the trace.

use crate::address::Address;
use crate::frame::{frames, Frame};
use crate::invitation::Invitation;
use crate::tls::{self, Wire};
use anyhow::{Context, Result};
use plumb_machine::capabilities;
use plumb_trace::ctf::{Metadata, PacketHead, HEAD_BYTES};
use plumb_trace::units;
use plumb_trace::writer::{Sink, Stream, CONT_ID};
use rustls::ClientConfig;
use std::collections::{BTreeMap, VecDeque};
use std::io;
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
/// Frames that are sent between two looks at the answers.
const BATCH: usize = 16;

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
        let (wire, next) = sender.connect().with_context(|| {
            format!(
                "{to} does not take recordings of {}: is it the collector that invited it?",
                invitation.name
            )
        })?;
        if let Some(why) = shared.lock().refused.clone() {
            anyhow::bail!("{to} refuses: {why}");
        }
        let thread = thread::Builder::new().name("sender".into()).spawn(move || sender.run((wire, next)))?;
        Ok(Self { shared, thread: Some(thread), limits, unsent: BTreeMap::new() })
    }

    /// Packets and events of streams of records, or of the others, that were not sent.
    fn unsent(&self, records: bool) -> (u64, u64) {
        let kind = |stream: &Stream| matches!(stream, Stream::Cpu(_) | Stream::Load { .. }) == records;
        let mine = self.unsent.iter().filter(|(stream, _)| kind(stream));
        mine.fold((0, 0), |(packets, events), (_, u)| (packets + u.packets, events + u.events))
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
            return Err(io::Error::other(format!("the collector takes nothing: {why}")));
        }
        let unsent = self.unsent.entry(stream).or_default();
        let records = stream != Stream::Waits;
        unsent.packets += 1;
        unsent.events += if records { events_of(packet) } else { 0 };
        unsent.head = head;
        unsent.told = !records;
        Ok(())
    }

    fn lost(&self) -> u64 {
        self.unsent(true).1
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
        let (packets, _) = self.unsent(false);
        if packets > 0 {
            notes.push(format!("{} packets of stacks and samples were not sent", units::count(packets)));
        }
        notes
    }

    /// Tells what was lost last, and waits until the collector has everything.
    fn finish(&mut self) -> io::Result<()> {
        let untold = self.unsent.iter().filter(|(_, u)| u.packets > 0 && !u.told);
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
        loop {
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
            queue = self.shared.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for RemoteSink {
    fn drop(&mut self) {
        self.shared.lock().given_up = true;
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
        let mut wire = Wire::client(socket, self.config.clone(), HANDSHAKE)?;
        wire.send(&Frame::Hello { session: self.session }.encode())?;
        let begun = Instant::now();
        loop {
            anyhow::ensure!(begun.elapsed() < HANDSHAKE, "{}: no answer", self.to);
            let said = answers(&mut wire, TURN)?;
            let mut queue = self.shared.lock();
            if said.refused.is_some() {
                queue.refused = said.refused;
                self.shared.changed.notify_all();
                return Ok((wire, 0));
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
                    queue = self
                        .shared
                        .changed
                        .wait_timeout(queue, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0;
                }
                retry = (retry * 2).min(RETRY.1);
            }
        }
    }

    /// Sends over one connection. Returns when nobody wants more, or the collector refuses.
    fn send(&self, mut wire: Wire, mut next: u64) -> io::Result<()> {
        let mut heard = Instant::now();
        loop {
            let (batch, waits) = {
                let mut queue = self.shared.lock();
                if queue.given_up || queue.refused.is_some() {
                    return Ok(());
                }
                if next == queue.next() && queue.frames.is_empty() {
                    heard = Instant::now();
                    queue = self
                        .shared
                        .changed
                        .wait_timeout(queue, TURN)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0;
                }
                let at = (next - queue.first) as usize;
                let batch: Vec<_> = queue.frames.iter().skip(at).take(BATCH).cloned().collect();
                (batch, queue.frames.len() > at)
            };
            for frame in &batch {
                wire.send(frame)?;
            }
            next += batch.len() as u64;
            let said = answers(&mut wire, if waits { Duration::ZERO } else { TURN })?;
            let mut queue = self.shared.lock();
            if let Some(received) = said.received {
                if received > next {
                    return Err(io::Error::other("it confirms what was not sent"));
                }
                if queue.confirm(received) {
                    heard = Instant::now();
                }
            }
            queue.refused = queue.refused.take().or(said.refused);
            self.shared.changed.notify_all();
            if !queue.frames.is_empty() && heard.elapsed() >= SILENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}
