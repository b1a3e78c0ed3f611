// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs of a spool on their way into a bucket.

use anyhow::{bail, Context, Result};
use plumb_bucket::{Bucket, OutOfReach, Parcel, Sent, SCHEME};
use plumb_machine::{output, signals};
use plumb_report::lake::{is_no_spool, segment, Spool};
use plumb_trace::units;
use serde::Serialize;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Mutex;

/// Runs that are sent at once: a request mostly waits for its answer. So many that got none end it: the bucket is out of reach.
const AT_ONCE: usize = 8;
/// Letters of a bucket's name in its spool's; a number behind them tells buckets apart.
const NAME: usize = 100;

/// Of a bucket.
#[derive(Debug, Default, Serialize)]
pub struct Forwarded {
    /// Runs that went there.
    pub sent: u64,
    /// Runs that were found there, to the end.
    pub unchanged: u64,
    /// Of the files that were sent.
    pub bytes: u64,
    /// Runs that are not there yet, and in which directory they are.
    pub waiting: u64,
    pub spool: PathBuf,
}

impl Forwarded {
    pub fn words(&self, to: &Path) -> String {
        let mut out =
            format!("{}: {} runs sent, {}", to.display(), units::count(self.sent), units::bytes(self.bytes));
        if self.unchanged > 0 {
            out += &format!("; {} were there", units::count(self.unchanged));
        }
        if self.waiting > 0 {
            out += &format!("; {} wait in {}", units::count(self.waiting), self.spool.display());
        }
        out
    }
}

/// A bucket, and the spool of what goes there.
pub struct Forwarder {
    bucket: Bucket,
    url: String,
    spool: Spool,
    /// Bytes that may wait.
    limit: u64,
    done: Forwarded,
    /// Why runs could not be sent, the first one's.
    failure: Option<anyhow::Error>,
    /// No more is tried.
    out_of_reach: bool,
    /// Runs that the bucket refused, by their key: tried once.
    refused: HashSet<String>,
}

impl Forwarder {
    /// None where runs go into a directory.
    ///
    /// # Errors
    /// The bucket cannot be named or the spool not be had.
    pub fn of(to: &Path, spool: Option<&Path>, limit: u64) -> Result<Option<Self>> {
        let Some((url, bucket)) = bucket(to)? else {
            if spool.is_some() {
                bail!("--spool is for a bucket: --to {SCHEME}BUCKET/PREFIX");
            }
            return is_no_spool(to).map(|()| None);
        };
        let dir = match spool {
            Some(dir) => dir.to_owned(),
            None => usual()?,
        };
        // What waits may be root's alone.
        output::private_unless(false);
        // What waits for one bucket goes to no other, whatever server is called the same; and a home may be of several hosts.
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let mut name = segment(&url);
        name.truncate(NAME);
        let spool = Spool::open(&dir.join(format!("{name}-{:016x}", hash(&[&bucket.place(), host.trim()]))))?;
        let done = Forwarded { spool: spool.lake().to_owned(), ..Forwarded::default() };
        Ok(Some(Self {
            bucket,
            url,
            spool,
            limit,
            done,
            failure: None,
            out_of_reach: false,
            refused: HashSet::new(),
        }))
    }

    /// Where runs are published first.
    pub fn spool(&self) -> &Path {
        self.spool.lake()
    }

    /// Why no more runs can wait; none while they can.
    ///
    /// # Errors
    /// The spool cannot be read.
    pub fn full(&self) -> Result<Option<String>> {
        let bytes: u64 = self.spool.waiting()?.iter().map(|run| run.bytes).sum();
        let words = || {
            let (dir, limit) = (self.spool.lake().display(), units::bytes(self.limit));
            format!("{dir} is full: runs that wait take {}, --spool-size is {limit}", units::bytes(bytes))
        };
        Ok((bytes >= self.limit).then(words))
    }

    /// Sends what waits, until `stop` becomes true. That the bucket cannot be reached is no error yet: runs wait.
    ///
    /// # Errors
    /// The spool cannot be read or written.
    pub fn forward(&mut self, stop: &AtomicBool) -> Result<()> {
        if self.out_of_reach {
            return Ok(());
        }
        let mut waiting = self.spool.waiting()?;
        waiting.retain(|run| !self.refused.contains(&run.last.0));
        let (next, without) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let failures = Mutex::new(Vec::new());
        let done = Mutex::new(&mut self.done);
        let bucket = &self.bucket;
        let work = || -> Result<()> {
            while let Some(run) = waiting.get(next.fetch_add(1, Ordering::Relaxed)) {
                if stop.load(Ordering::Relaxed) || without.load(Ordering::Relaxed) >= AT_ONCE {
                    break;
                }
                let parcel = Parcel { files: &run.files, last: &run.last, gone: &run.gone, begun: run.begun };
                match bucket.send(parcel, &|| run.begin()).with_context(|| run.run.clone()) {
                    Err(error) => {
                        let unanswered = error.is::<OutOfReach>();
                        without.fetch_add(usize::from(unanswered), Ordering::Relaxed);
                        failures.lock().expect("no panic").push((unanswered, run.last.0.clone(), error));
                    }
                    Ok(sent) => {
                        run.sent()?;
                        let mut done = done.lock().expect("no panic");
                        match sent {
                            Sent::Unchanged => done.unchanged += 1,
                            Sent::New | Sent::Replaced => {
                                (done.sent, done.bytes) = (done.sent + 1, done.bytes + run.bytes);
                            }
                        }
                    }
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..AT_ONCE.min(waiting.len())).map(|_| scope.spawn(work)).collect();
            all.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
        })?;
        for (unanswered, key, error) in failures.into_inner().expect("no panic") {
            self.out_of_reach |= unanswered;
            self.refused.insert(key);
            self.failure.get_or_insert(error);
        }
        Ok(())
    }

    /// What came of it; and why runs wait that were to go.
    ///
    /// # Errors
    /// The spool cannot be read.
    pub fn end(mut self) -> Result<(Forwarded, Option<anyhow::Error>)> {
        self.done.waiting = self.spool.waiting()?.len() as u64;
        let waiting = units::count(self.done.waiting);
        let next = format!("{waiting} runs wait; plumb publish --to {} sends them", self.url);
        Ok((self.done, self.failure.map(|error| error.context(next))))
    }
}

/// A bucket and its address; none where it is a directory.
///
/// # Errors
/// It cannot be named.
pub fn bucket(lake: &Path) -> Result<Option<(String, Bucket)>> {
    let Some(url) = lake.to_str().filter(|lake| lake.starts_with(SCHEME)) else { return Ok(None) };
    let url = url.trim_end_matches('/').to_owned();
    let bucket = Bucket::open(&url, &|name| std::env::var(name).ok(), signals::asked())?;
    Ok(Some((url, bucket)))
}

/// FNV-1a, of texts and where they end.
fn hash(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The spool of who did not name one.
fn usual() -> Result<PathBuf> {
    // SAFETY: it only reads the process's own identity.
    if unsafe { libc::geteuid() } == 0 {
        return Ok("/var/spool/plumb".into());
    }
    let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = given("XDG_STATE_HOME").or_else(|| given("HOME").map(|home| home.join(".local/state")));
    Ok(state
        .context("there is no HOME to have a spool in; name a directory with --spool DIR")?
        .join("plumb/spool"))
}
