// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The collector: takes the recordings of those it invited into one set, a directory each.

use crate::address::{Address, Listener, Socket};
use crate::frame::{frames, Frame};
use crate::invitation::{invited, own_key};
use crate::session::Session;
use crate::tls::{self, Wire};
use anyhow::{bail, ensure, Context, Result};
use serde::Serialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Handshake and greeting take so long at most.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// A sender tells something every second; one that is silent for so long is gone, and may come back.
const SILENCE: Duration = Duration::from_secs(60);
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

type Known = Arc<Mutex<Option<Session>>>;

/// A collector that listens.
#[derive(Debug)]
pub struct Collector {
    set: PathBuf,
    listener: Listener,
    sessions: Mutex<HashMap<(String, [u8; 16]), Known>>,
    connections: AtomicUsize,
}

impl Collector {
    /// Listens for those who were invited to `set`.
    ///
    /// # Errors
    /// Nobody was, or the address is taken.
    pub fn new(set: &Path, listen: &Address) -> Result<Self> {
        own_key(set)?;
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
    ///
    /// # Errors
    /// The address cannot be listened on any more.
    pub fn run(&self, stop: &(dyn Fn() -> bool + Sync), news: &(dyn Fn(News) + Sync)) -> Result<()> {
        std::thread::scope(|scope| {
            while !stop() {
                let Some(socket) = self.listener.accept(TURN).context("accept")? else { continue };
                if self.connections.fetch_add(1, Ordering::AcqRel) >= MOST {
                    self.connections.fetch_sub(1, Ordering::AcqRel);
                    continue;
                }
                scope.spawn(move || {
                    let mut dir = None;
                    if let Err(e) = self.serve(socket, stop, news, &mut dir) {
                        news(News::Failed { dir, why: format!("{e:#}") });
                    }
                    self.connections.fetch_sub(1, Ordering::AcqRel);
                });
            }
            Ok(())
        })
    }

    /// One connection, from its greeting to its end.
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
        let mut wire = Wire::server(socket, tls::server(&own_key(&self.set)?, keys)?, HANDSHAKE)?;
        let peer = wire.peer();
        let (_, sender) = invited.iter().find(|(key, _)| *key == peer).context("not invited")?;
        let id = greeting(&mut wire, stop)?;
        let known = self.session(sender, id)?;
        let mut heard = Instant::now();
        let mut received = {
            let session = known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(session) = &*session {
                *dir = Some(session.dir.clone());
                news(News::Resumed { dir: session.dir.clone() });
            }
            session.as_ref().map_or(0, |s| s.received)
        };
        wire.send(&Frame::Have { received }.encode())?;
        while !stop() {
            wire.receive(TURN)?;
            let mut session = known.lock().unwrap_or_else(PoisonError::into_inner);
            let mut failed = None;
            let taken = frames(wire.inbox(), |frame| {
                failed = self.take(&mut session, sender, &id, frame, news).err();
                failed.is_none()
            });
            let failed = taken.map_err(anyhow::Error::msg).err().or(failed);
            let (has, done) = session.as_ref().map_or((0, false), |s| (s.received, s.done));
            *dir = session.as_ref().map(|s| s.dir.clone());
            drop(session);
            if has > received {
                (received, heard) = (has, Instant::now());
                wire.send(&Frame::Have { received }.encode())?;
            }
            if let Some(why) = failed {
                wire.send(&Frame::Refused { why: &format!("{why:#}") }.encode())?;
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
    fn session(&self, sender: &str, id: [u8; 16]) -> Result<Known> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that are whole have been told, and their senders are gone.
        sessions.retain(|_, s| {
            Arc::strong_count(s) > 1 || s.lock().is_ok_and(|s| s.as_ref().is_none_or(|s| !s.done))
        });
        let key = (sender.to_string(), id);
        if let Some(known) = sessions.get(&key) {
            return Ok(known.clone());
        }
        let known = Arc::new(Mutex::new(Session::resume(&self.set, sender, &id)?));
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
