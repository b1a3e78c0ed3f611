// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The collector: takes the recordings of those it invited into one set, a directory each.

use crate::address::{Address, Listener, Socket};
use crate::frame::{frames, Frame};
use crate::invitation::{invited, own_key};
use crate::session::Session;
use crate::tls::{self, Wire};
use anyhow::{bail, ensure, Context, Result};
use plumb_machine::json::{formats, Format, Output};
use plumb_machine::output;
use serde::Serialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Handshake and greeting take so long at most.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// A sender tells something every few seconds, but for when it reads symbols at its end; one that is silent for so long
/// is gone, and may come back.
const SILENCE: Duration = Duration::from_secs(600);
/// So long a sender that is refused is listened to, so that it hears why: what it has sent would end the connection
/// before the answer arrives.
const FAREWELL: Duration = Duration::from_secs(2);
/// How often it is looked whether to stop.
const TURN: Duration = Duration::from_millis(100);
/// Connections at once.
const MOST: usize = 256;

/// What happened at a collector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "what")]
pub enum News {
    /// A recording begins.
    Began {
        /// Where it is kept.
        dir: PathBuf,
    },
    /// A sender is back.
    Resumed {
        /// Where its recording is kept.
        dir: PathBuf,
    },
    /// A recording is whole.
    Ended {
        /// Where it is kept.
        dir: PathBuf,
        /// Bytes of its packets.
        bytes: u64,
    },
    /// A connection ended before its recording did, or was refused.
    Failed {
        /// Where the recording is kept, if there is one.
        dir: Option<PathBuf>,
        /// Why.
        why: String,
    },
}

impl Output for News {
    const FORMAT: &'static Format = &formats::COLLECT;
}

/// A recording: its sender, and the number that the sender gave it.
type Name = (String, [u8; 16]);

/// What a collector knows of a recording.
#[derive(Debug)]
struct Known {
    /// None: it has not begun.
    session: Option<Session>,
    /// Number of the newest connection: older ones of the same recording end.
    connection: u64,
}

/// A collector that listens.
#[derive(Debug)]
pub struct Collector {
    set: PathBuf,
    listener: Listener,
    /// Recordings that have a connection; the others are found in the set.
    sessions: Mutex<HashMap<Name, Arc<Mutex<Known>>>>,
    connections: AtomicUsize,
}

impl Collector {
    /// Listens for those who were invited to `set`.
    ///
    /// # Errors
    /// Nobody was, or the address is taken.
    pub fn new(set: &Path, listen: &Address) -> Result<Self> {
        own_key(set)?;
        output::directory(set)?;
        raise_limit_of_files();
        ensure!(
            !invited(set)?.is_empty(),
            "{}: nobody is invited; 'plumb collect {} --invite NAME' does",
            set.display(),
            set.display()
        );
        let (sessions, connections) = (Mutex::default(), AtomicUsize::new(0));
        Ok(Self { set: set.into(), listener: listen.listen()?, sessions, connections })
    }

    /// The port that it listens on, of TCP: of `HOST:0` the one that the system chose.
    pub fn port(&self) -> Option<u16> {
        self.listener.port()
    }

    /// Takes recordings until `stop` says so; what it has then is readable. `news` is called on several threads.
    pub fn run(&self, stop: &(dyn Fn() -> bool + Sync), news: &(dyn Fn(News) + Sync)) {
        std::thread::scope(|scope| {
            while !stop() {
                let socket = match self.listener.accept(TURN) {
                    Ok(Some(socket)) => socket,
                    Ok(None) => continue,
                    Err(e) => {
                        // No descriptors or memory just now, or the network's: it may pass.
                        news(News::Failed { dir: None, why: format!("accept: {e}") });
                        std::thread::sleep(TURN * 10);
                        continue;
                    }
                };
                if self.connections.fetch_add(1, Ordering::AcqRel) >= MOST {
                    self.connections.fetch_sub(1, Ordering::AcqRel);
                    continue;
                }
                let made = std::thread::Builder::new().spawn_scoped(scope, move || {
                    let mut dir = None;
                    if let Err(e) = self.serve(socket, stop, news, &mut dir) {
                        news(News::Failed { dir, why: format!("{e:#}") });
                    }
                    self.connections.fetch_sub(1, Ordering::AcqRel);
                });
                if let Err(e) = made {
                    self.connections.fetch_sub(1, Ordering::AcqRel);
                    news(News::Failed { dir: None, why: format!("no thread: {e}") });
                }
            }
        });
    }

    /// One connection, from its handshake to its end; who was invited is told why it is refused.
    fn serve(
        &self,
        socket: Socket,
        stop: &(dyn Fn() -> bool + Sync),
        news: &(dyn Fn(News) + Sync),
        dir: &mut Option<PathBuf>,
    ) -> Result<()> {
        // Who was invited meanwhile may come, too.
        let invited = invited(&self.set)?;
        let keys = invited.iter().map(|(key, _)| key.clone()).collect();
        let mut wire = Wire::server(socket, tls::server(&own_key(&self.set)?, keys)?, HANDSHAKE, stop)?;
        let peer = wire.peer();
        let (_, sender) = invited.iter().find(|(key, _)| *key == peer).context("not invited")?;
        let done = self.listen(&mut wire, sender, stop, news, dir);
        if let Err(why) = &done {
            let _ = wire.send(&Frame::Refused { why: &format!("{why:#}") }.encode());
            let begun = Instant::now();
            while begun.elapsed() < FAREWELL && !stop() {
                let Ok(inbox) = wire.receive(TURN) else { break };
                inbox.clear();
            }
        }
        done
    }

    /// Takes what a sender sends.
    fn listen(
        &self,
        wire: &mut Wire,
        sender: &str,
        stop: &(dyn Fn() -> bool + Sync),
        news: &(dyn Fn(News) + Sync),
        dir: &mut Option<PathBuf>,
    ) -> Result<()> {
        let id = greeting(wire, stop)?;
        let known = self.session(sender, id)?;
        let mut heard = Instant::now();
        let (mut received, connection) = {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(session) = &known.session {
                *dir = Some(session.dir.clone());
                news(News::Resumed { dir: session.dir.clone() });
            }
            known.connection += 1;
            (known.session.as_ref().map_or(0, |s| s.received), known.connection)
        };
        wire.send(&Frame::Have { received }.encode())?;
        while !stop() {
            wire.receive(TURN)?;
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.connection != connection {
                return Ok(());
            }
            let mut failed = None;
            let taken = frames(wire.inbox(), |frame| {
                failed = self.take(&mut known.session, sender, &id, frame, news).err();
                failed.is_none()
            });
            let failed = taken.map_err(anyhow::Error::msg).err().or(failed);
            let (has, done) = known.session.as_ref().map_or((0, false), |s| (s.received, s.done));
            *dir = known.session.as_ref().map(|s| s.dir.clone());
            drop(known);
            if has > received {
                (received, heard) = (has, Instant::now());
                wire.send(&Frame::Have { received }.encode())?;
            }
            if let Some(why) = failed {
                return Err(why);
            }
            if done {
                return Ok(());
            }
            ensure!(heard.elapsed() < SILENCE, "silent for {} s", SILENCE.as_secs());
        }
        Ok(())
    }

    /// A sender's recording: the one that it began, here or with a collector before, or one to come.
    fn session(&self, sender: &str, id: [u8; 16]) -> Result<Arc<Mutex<Known>>> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        // Those without a connection have open files; when their senders come again they are found in the set.
        sessions.retain(|_, known| Arc::strong_count(known) > 1);
        let key = (sender.to_string(), id);
        if let Some(known) = sessions.get(&key) {
            return Ok(known.clone());
        }
        let session = Session::resume(&self.set, sender, &id)?;
        let known = Arc::new(Mutex::new(Known { session, connection: 0 }));
        sessions.insert(key, known.clone());
        Ok(known)
    }

    /// Takes a frame; one that it has already, a second time, is no harm.
    fn take(
        &self,
        session: &mut Option<Session>,
        sender: &str,
        id: &[u8; 16],
        frame: Frame<'_>,
        news: &(dyn Fn(News) + Sync),
    ) -> Result<()> {
        let number = match frame {
            Frame::Metadata { number, .. } | Frame::Packet { number, .. } | Frame::Done { number } => number,
            _ => bail!("what comes is not a sender's"),
        };
        let received = session.as_ref().map_or(0, |s| s.received);
        if number < received {
            return Ok(());
        }
        ensure!(number == received, "frame {number} where {received} is next");
        match (frame, session) {
            (Frame::Metadata { text, .. }, session @ None) => {
                let begun = Session::begin(&self.set, sender, id, text)?;
                news(News::Began { dir: begun.dir.clone() });
                *session = Some(begun);
            }
            (Frame::Packet { stream, bytes, .. }, Some(session)) if !session.done => {
                session.packet(stream, bytes)?
            }
            (Frame::Done { .. }, Some(session)) if !session.done => {
                session.end();
                news(News::Ended { dir: session.dir.clone(), bytes: session.bytes });
            }
            _ => bail!("a recording that does not begin with its metadata"),
        }
        Ok(())
    }
}

/// Each recording has a file open for each CPU of its host.
fn raise_limit_of_files() {
    // SAFETY: plain data that the calls fill and read; where it is refused, the limit stays.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Which recording a connection is about.
fn greeting(wire: &mut Wire, stop: &(dyn Fn() -> bool + Sync)) -> Result<[u8; 16]> {
    let begun = Instant::now();
    let mut id = None;
    while id.is_none() {
        ensure!(!stop() && begun.elapsed() < HANDSHAKE, "no greeting");
        let mut other = false;
        frames(wire.receive(TURN)?, |frame| {
            match frame {
                Frame::Hello { session } => id = Some(session),
                _ => other = true,
            }
            false
        })
        .map_err(anyhow::Error::msg)?;
        ensure!(!other, "no greeting");
    }
    id.context("no greeting")
}
