// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Orders to a server, over its control socket: a line of JSON each way, one order a connection.

use super::super::fuse::Counts;
use super::super::media::Toll;
use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

/// A line takes no longer, nor does what it asks for.
const LIMIT: Duration = Duration::from_secs(5);
/// A power cut of a large disk copies much.
const CUT: Duration = Duration::from_secs(120);
const LONGEST: u64 = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Let go of the device and end when nobody uses it; forced: everything fails from now on.
    Stop {
        /// Whether users are waited for.
        force: bool,
    },
    /// Cut the power: what was not flushed survives with a chance of so many percent.
    Cut {
        /// Chance of each sector.
        percent: u64,
        seed: u64,
    },
    PowerOn,
    Power,
    /// What has been asked of the disk so far.
    Stats,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It is done, or begun.
    Done,
    /// What the power cut did.
    Cut {
        /// Sectors that are as they were at the last flush.
        lost: u64,
        /// Sectors that were not flushed and survived.
        kept: u64,
        /// Sectors of writes that were under way and survived, though nobody was told so.
        torn: u64,
        flushes: u64,
    },
    Power(bool),
    /// What was asked so far.
    Stats(Counts),
    /// It could not be done.
    Failed(String),
}

impl From<Toll> for Answer {
    fn from(toll: Toll) -> Self {
        Answer::Cut { lost: toll.lost, kept: toll.kept, torn: toll.torn, flushes: toll.flushes }
    }
}

fn line<T: Serialize>(mut socket: &UnixStream, what: &T) -> Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    Ok(socket.write_all(&line)?)
}

fn heard<T: for<'a> Deserialize<'a>>(socket: &UnixStream) -> Result<T> {
    let mut line = String::new();
    BufReader::new(socket.take(LONGEST)).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// Gives an order and returns the answer.
///
/// # Errors
/// Nobody listens, or it could not be done.
pub fn ask(path: &Path, order: Order) -> Result<Answer> {
    let named = || path.display().to_string();
    let socket = UnixStream::connect(path).with_context(named)?;
    let answer = if matches!(order, Order::Cut { .. }) { CUT } else { LIMIT };
    socket.set_write_timeout(Some(LIMIT)).and_then(|()| socket.set_read_timeout(Some(answer)))?;
    line(&socket, &order).with_context(named)?;
    match heard(&socket).with_context(|| format!("{}: no answer", path.display()))? {
        Answer::Failed(why) => bail!("{why}"),
        answer => Ok(answer),
    }
}

/// Obeys orders, one after the other, for as long as the process lives.
pub fn listen(listener: &UnixListener, obey: &dyn Fn(Order) -> Answer) {
    for socket in listener.incoming() {
        let Ok(socket) = socket else {
            // No descriptor is free, maybe soon again.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        let limits =
            socket.set_read_timeout(Some(LIMIT)).and_then(|()| socket.set_write_timeout(Some(LIMIT)));
        let answer = match limits.map_err(Into::into).and_then(|()| heard(&socket)) {
            Ok(order) => obey(order),
            Err(e) => Answer::Failed(format!("not an order: {e:#}")),
        };
        // Who asked may be gone.
        let _ = line(&socket, &answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_obeyed_and_nonsense_is_not() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("sock");
        let listener = UnixListener::bind(&path).expect("bind");
        std::thread::spawn(move || {
            listen(&listener, &|order| match order {
                Order::Cut { percent, seed } => {
                    Answer::Cut { lost: percent, kept: seed, torn: 0, flushes: 0 }
                }
                Order::PowerOn => Answer::Failed("no power station".into()),
                _ => Answer::Done,
            });
        });
        assert_eq!(ask(&path, Order::Stop { force: true }).expect("done"), Answer::Done);
        let cut = ask(&path, Order::Cut { percent: 7, seed: 8 }).expect("done");
        assert_eq!(cut, Answer::Cut { lost: 7, kept: 8, torn: 0, flushes: 0 });
        let error = ask(&path, Order::PowerOn).expect_err("failed").to_string();
        assert!(error.contains("no power station"), "{error}");
        for nonsense in ["\n", "{\"stop\"\n", "{\"format\":{}}\n", ""] {
            let mut socket = UnixStream::connect(&path).expect("connect");
            socket.write_all(nonsense.as_bytes()).expect("write");
            socket.shutdown(std::net::Shutdown::Write).expect("shutdown");
            let answer: Answer = heard(&socket).expect("an answer");
            assert!(matches!(answer, Answer::Failed(_)), "{nonsense:?}: {answer:?}");
        }
        assert_eq!(ask(&path, Order::Stats).expect("still there"), Answer::Done);
    }
}
