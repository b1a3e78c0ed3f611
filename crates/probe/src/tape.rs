// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The last seconds of a recording that goes on: its files lie in memory, and what is older is taken out of them. What
//! holds for the whole recording (threads, stacks, devices) stays.

use crate::beside::Asks;
use crate::user::Places;
use anyhow::{Context, Result};
use plumb_machine::{host, output, Process, Root};
use plumb_trace::ctf::{Metadata, PacketHead, HEAD_BYTES};
use plumb_trace::reader::Published;
use plumb_trace::schema::{StateEnd, StateTrigger};
use plumb_trace::writer::{DirectorySink, KeepSink, Sink, Stream, TraceWriter};
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::Arc;
use std::time::Duration;

/// Where files lie in memory (shm_overview(7)).
const MEMORY: &str = "/dev/shm";

/// What was published so lately may not have been read, ns: who reads is up to half a second behind.
const UNREAD: u64 = 1_000_000_000;
/// A recorder that does not tell the places of its stacks by then has ended.
const PATIENCE: Duration = Duration::from_secs(2);
/// Names take no longer: what is written waits behind them.
const NAMING: Duration = Duration::from_secs(20);
/// Directories of a process that may be somebody else's.
const MOST_TAKEN: u32 = 1000;

/// Before the number of the process whose directory it is, and which of its directories.
const PREFIX: &str = "plumb-";

/// Removes what processes left that were killed.
fn forget_the_dead() {
    for entry in std::fs::read_dir(MEMORY).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| {
            let (pid, number) = name.strip_prefix(PREFIX)?.split_once('-')?;
            number.parse::<u32>().ok().and(pid.parse::<u32>().ok())
        });
        let ours = entry.metadata().is_ok_and(|meta| meta.is_dir() && output::is_ours(&meta));
        // A process of another PID namespace cannot be seen, but what it holds is held.
        let dead = pid.is_some_and(|pid| Process::of(pid, &Root::real()).is_none());
        if ours && dead && hold(&entry.path()).is_ok() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Holds a directory for this process, as long as the file is open (flock(2)).
fn hold(dir: &Path) -> std::io::Result<File> {
    let file = File::open(dir)?;
    // SAFETY: a call with a descriptor and a number.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(file),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// The files, removed when dropped.
#[derive(Debug)]
pub struct Tape {
    dir: PathBuf,
    /// Tells others that somebody uses it.
    _held: File,
    /// How long, ns, and most bytes.
    keep: u64,
    most: u64,
    /// How far the files went, and when; the oldest is what is left of them.
    marks: VecDeque<Published>,
    /// Who tells the places of stacks.
    asks: Option<Asks>,
}

impl Tape {
    /// A directory of its own, with nothing in it: of the last `keep` ns, but of no more than `most` bytes.
    ///
    /// # Errors
    /// No directory can be made in memory.
    pub fn new(keep: u64, most: u64) -> Result<Self> {
        forget_the_dead();
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let name = || {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            Path::new(MEMORY).join(format!("{PREFIX}{}-{number}", std::process::id()))
        };
        // Everybody may make directories there, also of this name.
        let free = (0..MOST_TAKEN).map(|_| name()).find(|dir| dir.symlink_metadata().is_err());
        let dir = free.with_context(|| format!("{MEMORY}: others have the names of plumb's directories"))?;
        output::directory(&dir)
            .with_context(|| format!("{MEMORY} must be a file system in memory (tmpfs)"))?;
        let held = hold(&dir).with_context(|| dir.display().to_string())?;
        Ok(Self { dir, _held: held, keep, most, marks: VecDeque::new(), asks: None })
    }

    /// Where the trace is recorded.
    pub fn trace(&self) -> PathBuf {
        self.dir.join("trace")
    }

    /// Functions of user code have names in what is taken, by the recorder that is asked.
    pub fn named_by(&mut self, asks: Asks) {
        self.asks = Some(asks);
    }

    /// More was written: takes out what is too old.
    pub fn published(&mut self, published: &Published) {
        if published.last {
            // It is of no moment.
            return;
        }
        self.marks.push_back(published.clone());
        loop {
            let (Some(first), Some(second)) = (self.marks.front(), self.marks.get(1)) else { return };
            if second.until.saturating_add(UNREAD) > published.until {
                return;
            }
            let old = second.until.saturating_add(self.keep) <= published.until;
            if !old && bytes(published).saturating_sub(bytes(first)) <= self.most {
                return;
            }
            for (stream, to) in second.sizes.iter().filter(|(stream, _)| is_of_moments(*stream)) {
                self.take_out(*stream, size(first, *stream), *to);
            }
            self.marks.pop_front();
        }
    }

    /// The memory of a part of a file goes back to the system; its place stays.
    fn take_out(&self, stream: Stream, from: u64, to: u64) {
        let Ok(file) = File::options().write(true).open(self.trace().join(stream.file_name())) else {
            return;
        };
        let (from, length) = (from as libc::off_t, to.saturating_sub(from) as libc::off_t);
        if length > 0 {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            // SAFETY: a call with a descriptor and numbers. Where it fails the part stays, and no more.
            unsafe { libc::fallocate(file.as_raw_fd(), mode, from, length) };
        }
    }

    /// Takes what is there, for a trace of its own, of a flight recorder's kind; `of`: what it is taken for.
    ///
    /// # Errors
    /// Nothing was recorded yet, or it cannot be read.
    pub fn take(&self, reason: &str, of: Option<&StateTrigger>) -> Result<Taken> {
        let (first, last) = self.marks.front().zip(self.marks.back()).context("nothing was recorded yet")?;
        let trace = self.trace();
        let text = std::fs::read_to_string(trace.join("metadata")).context("the recording's metadata")?;
        let mut metadata = Metadata::decode(&text).map_err(anyhow::Error::msg)?;
        // What is taken is a run of its own.
        metadata.env.insert("run_id".into(), host::unique_id(&Root::real()));
        metadata.env.insert("keep_ns".into(), (last.until - first.until).to_string());
        let mut kept = KeepSink::new(u64::MAX, usize::MAX);
        for (stream, to) in &last.sizes {
            let file = File::open(trace.join(stream.file_name()))?;
            let mut at = if is_of_moments(*stream) { size(first, *stream) } else { 0 };
            while at < *to {
                let mut head = [0; HEAD_BYTES];
                file.read_exact_at(&mut head, at)?;
                let mut packet =
                    vec![0; PacketHead::decode(&head).map_err(anyhow::Error::msg)?.size as usize];
                file.read_exact_at(&mut packet, at)?;
                at += packet.len() as u64;
                kept.packet(*stream, &packet)?;
            }
        }
        let (begin, end) = (first.until, last.until);
        let end = StateEnd { begin, end, exit_code: -1, reason: reason.into(), ..StateEnd::default() };
        let places = self.asks.as_ref().map(Asks::places);
        Ok(Taken { metadata, kept, fired: of.cloned(), end, places })
    }
}

/// What a tape held at a moment, in memory.
pub struct Taken {
    metadata: Metadata,
    kept: KeepSink,
    fired: Option<StateTrigger>,
    end: StateEnd,
    places: Option<Receiver<Arc<Places>>>,
}

impl Taken {
    /// Writes it. Functions of user code are named first, which takes seconds, up to [`NAMING`].
    ///
    /// # Errors
    /// The directory holds a trace already, or cannot be written.
    pub fn write(self, into: &Path) -> Result<()> {
        let until = self.end.end;
        let mut writer = TraceWriter::new(self.kept, 0, self.end.begin);
        if let Some(places) = self.places.and_then(|places| places.recv_timeout(PATIENCE).ok()) {
            places.name_within(NAMING).tell(until, &mut writer)?;
        }
        // The recorder tells of every trigger that fired; the last one is it.
        if let Some(fired) = &self.fired {
            writer.state(until, fired)?;
        }
        writer.state(until, &self.end)?;
        output::directory(into)?;
        writer.finish()?.dump(&mut DirectorySink::create(into, &self.metadata)?)?;
        output::hand_over_all(into)?;
        Ok(())
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Whether its events are of single moments, not of all that comes.
fn is_of_moments(stream: Stream) -> bool {
    matches!(stream, Stream::Cpu(_) | Stream::Waits)
}

fn size(published: &Published, stream: Stream) -> u64 {
    published.sizes.iter().find(|(s, _)| *s == stream).map_or(0, |(_, size)| *size)
}

fn bytes(published: &Published) -> u64 {
    published.sizes.iter().filter(|(stream, _)| is_of_moments(*stream)).map(|(_, size)| size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_trace::reader::{Item, Trace};
    use plumb_trace::schema::{SchedSwitch, StateCounter};
    use plumb_trace::Record;
    use std::os::unix::fs::MetadataExt;

    /// A record of a switch at `ts`.
    fn record(ts: u64) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&ts.to_le_bytes());
        bytes[8..10].copy_from_slice(&SchedSwitch::ID.to_le_bytes());
        bytes
    }

    #[test]
    fn what_is_old_leaves_memory_and_the_rest_is_a_trace() {
        const SECOND: u64 = 1_000_000_000;
        let mut tape = Tape::new(3 * SECOND, u64::MAX).expect("memory");
        let metadata = Metadata { host: [1; 16], clock_offset: 0, env: Default::default() };
        let sink = DirectorySink::create(&tape.trace(), &metadata).expect("a trace");
        let mut writer = TraceWriter::new(sink, 1, 0);
        for second in 0..10 {
            for n in 0..4096 {
                writer.record(0, &record(second * SECOND + n)).expect("room");
            }
            let counter = StateCounter { at: second * SECOND, value: second, name: "n".into() };
            writer.state(second * SECOND, &counter).expect("room");
            writer.flush().expect("room");
            let sizes = writer.sink().sizes();
            tape.published(&Published { until: (second + 1) * SECOND, sizes, last: false });
        }
        let file = std::fs::metadata(tape.trace().join("cpu_0")).expect("a file");
        assert!(file.len() > 10 * 4096 * 32);
        assert!(file.blocks() * 512 < 5 * 4096 * 32 + (1 << 17), "{} of {}", file.blocks() * 512, file.len());

        let out = tempfile::tempdir().expect("directory");
        let into = out.path().join("trace");
        tape.take("asked", None).and_then(|taken| taken.write(&into)).expect("a trace");
        let trace = Trace::open(&into).expect("it reads");
        let mut times = Vec::new();
        let summary = trace
            .for_each(|item| {
                if let Item::Record(r) = item {
                    times.push(r.ts / SECOND);
                }
            })
            .expect("it reads");
        assert!(summary.damage.is_empty() && summary.gaps.is_empty(), "{summary:?}");
        times.dedup();
        assert_eq!(times, [7, 8, 9]);
        assert_eq!(trace.state.counters.len(), 10, "what holds for all of it stays");
        assert_eq!(trace.state.end.as_ref().map(|e| e.reason.as_str()), Some("asked"));
        let dir = tape.trace();
        drop(tape);
        assert!(!dir.exists());
        // Above every number of a process.
        let left = Path::new(MEMORY).join(format!("{PREFIX}4194305-1"));
        std::fs::create_dir_all(&left).expect("memory");
        let held = hold(&left).expect("free");
        forget_the_dead();
        assert!(left.exists(), "somebody has it");
        drop(held);
        forget_the_dead();
        assert!(!left.exists());
    }
}
