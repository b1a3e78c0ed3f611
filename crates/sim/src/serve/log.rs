// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A line for each request that was served: when it came, what the model made of it, and
//! when the reply went out.
//!
//! A text file: comma-separated values under a head, then, where lines were lost,
//! `# lost N lines: WHY`. Whoever replies only puts a [`Line`] into memory; a thread of its own
//! writes them. It never holds a reply up: when the disk below the log is too slow for it,
//! lines are lost and counted.

use crate::device::{Ns, Operation, Outcome, Parts};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Lines that can wait for the file; at 100 bytes each.
const MOST: usize = 1 << 18;
/// How often they are written.
const EVERY: Duration = Duration::from_millis(50);

pub const HEAD: &str =
    "arrival_ns,operation,offset,length,fua,model_ns,queued_ns,overhead_ns,seek_ns,rotation_ns,medium_ns,\
     throttled_ns,fault_ns,outcome,sent_ns";

/// A request that was served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// It came to the server, CLOCK_MONOTONIC ns: can be laid beside a trace.
    pub arrival: u64,
    pub operation: Operation,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
    pub fua: bool,
    /// The model's time for it, ns; 0 where the model did not end it (a power cut, a stop).
    pub model: Ns,
    pub parts: Parts,
    pub outcome: Outcome,
    /// The reply went out, CLOCK_MONOTONIC ns.
    pub sent: u64,
}

impl Line {
    fn print(&self, out: &mut String) {
        let operation = match self.operation {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
            Operation::Discard => "discard",
        };
        let p = &self.parts;
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "{},{operation},{},{},{}",
            self.arrival,
            self.offset,
            self.length,
            u8::from(self.fua)
        );
        for time in [self.model, p.queued, p.overhead, p.seek, p.rotation, p.medium, p.throttled, p.fault] {
            let _ = write!(out, ",{time}");
        }
        let _ = match self.outcome {
            Outcome::Done => write!(out, ",done"),
            Outcome::Lied => write!(out, ",lied"),
            Outcome::Failed(errno) => write!(out, ",failed:{errno}"),
            Outcome::Torn(bytes) => write!(out, ",torn:{bytes}"),
        };
        let _ = writeln!(out, ",{}", self.sent);
    }

    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split(',');
        let number = |fields: &mut std::str::Split<'_, char>| fields.next()?.parse::<u64>().ok();
        let arrival = number(&mut fields)?;
        let operation = match fields.next()? {
            "read" => Operation::Read,
            "write" => Operation::Write,
            "flush" => Operation::Flush,
            "discard" => Operation::Discard,
            _ => return None,
        };
        let offset = number(&mut fields)?;
        let length = u32::try_from(number(&mut fields)?).ok()?;
        let fua = match number(&mut fields)? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let model = number(&mut fields)?;
        let parts = Parts {
            queued: number(&mut fields)?,
            overhead: number(&mut fields)?,
            seek: number(&mut fields)?,
            rotation: number(&mut fields)?,
            medium: number(&mut fields)?,
            throttled: number(&mut fields)?,
            fault: number(&mut fields)?,
        };
        let outcome = match fields.next()? {
            "done" => Outcome::Done,
            "lied" => Outcome::Lied,
            word => match word.split_once(':')? {
                ("failed", errno) => Outcome::Failed(errno.parse().ok()?),
                ("torn", bytes) => Outcome::Torn(bytes.parse().ok()?),
                _ => return None,
            },
        };
        let sent = number(&mut fields)?;
        let line = Self { arrival, operation, offset, length, fua, model, parts, outcome, sent };
        fields.next().is_none().then_some(line)
    }
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Vec<Line>>,
    lost: AtomicU64,
    written: AtomicU64,
    ending: AtomicBool,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Vec<Line>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The log while it is written; ended by [`Log::end`] or when it is dropped.
pub struct Log {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Log {
    /// Makes the file and writes its head. The name must not be taken.
    ///
    /// # Errors
    /// The file system's, with the path.
    pub fn create(path: &Path) -> io::Result<Self> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        let made = File::options().write(true).create_new(true).open(path);
        let mut file = made.map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => {
                let why = format!("{}: is there already; remove it or name another", path.display());
                io::Error::new(e.kind(), why)
            }
            _ => named(e),
        })?;
        writeln!(file, "{HEAD}").map_err(named)?;
        Self::to(file)
    }

    fn to(file: impl Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let writer = std::thread::Builder::new().name("disk-log".into()).spawn(move || run(&theirs, file))?;
        Ok(Self { shared, writer: Mutex::new(Some(writer)) })
    }

    /// Adds a line; never waits for the file.
    pub fn add(&self, line: Line) {
        let mut waiting = self.shared.waiting();
        if waiting.len() < MOST && !self.shared.ending.load(Relaxed) {
            waiting.push(line);
        } else {
            self.shared.lost.fetch_add(1, Relaxed);
        }
    }

    /// Lines that are in the file.
    pub fn written(&self) -> u64 {
        self.shared.written.load(Relaxed)
    }

    /// Lines that are not in the file and will not be: they came faster than it could be
    /// written, or it could not be written.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Relaxed)
    }

    /// Writes what waits, and what was lost; lines after this are lost.
    pub fn end(&self) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        {
            // Under the lock: a line is either taken before the writer's last look or lost.
            let _waiting = self.shared.waiting();
            self.shared.ending.store(true, Relaxed);
        }
        if let Some(writer) = writer {
            writer.thread().unpark();
            // It catches its errors and counts them as lost lines.
            let _ = writer.join();
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.end();
    }
}

/// Writes lines until the end; after an error none.
fn run(shared: &Shared, mut file: impl Write) {
    let mut lines = Vec::new();
    let mut text = String::new();
    let mut trouble: Option<io::Error> = None;
    loop {
        let ending = {
            let mut waiting = shared.waiting();
            std::mem::swap(&mut *waiting, &mut lines);
            shared.ending.load(Relaxed)
        };
        for some in lines.chunks(1000) {
            text.clear();
            some.iter().for_each(|line| line.print(&mut text));
            if trouble.is_none() {
                trouble = file.write_all(text.as_bytes()).err();
            }
            let count = if trouble.is_none() { &shared.written } else { &shared.lost };
            count.fetch_add(some.len() as u64, Relaxed);
        }
        lines.clear();
        if ending {
            break;
        }
        std::thread::park_timeout(EVERY);
    }
    let lost = shared.lost.load(Relaxed);
    if lost > 0 {
        let why =
            trouble.map_or_else(|| "they came faster than they could be written".into(), |e| e.to_string());
        // Nobody is left to tell; `Log::lost` tells it too.
        let _ = file.write_all(format!("# lost {lost} lines: {why}\n").as_bytes());
    }
}

/// The lines of a log.
pub struct Lines {
    lines: io::Lines<BufReader<File>>,
    name: String,
    number: u64,
    lost: u64,
}

/// Reads a log.
///
/// # Errors
/// It cannot be read, or its head is another's; named.
pub fn read(path: &Path) -> io::Result<Lines> {
    let name = path.display().to_string();
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{name}: {e}"));
    let mut lines = BufReader::new(File::open(path).map_err(named)?).lines();
    let head = lines.next().transpose().map_err(named)?;
    if head.as_deref() != Some(HEAD) {
        let why = format!("{name}: line 1: no log of a served disk: its head is not '{HEAD}'");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(Lines { lines, name, number: 1, lost: 0 })
}

impl Lines {
    /// Lines that the log says were lost; known when all have been read.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl Iterator for Lines {
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.number += 1;
            let invalid = |what: &str| {
                let why = format!("{}: line {}: {what}", self.name, self.number);
                io::Error::new(io::ErrorKind::InvalidData, why)
            };
            let text = match self.lines.next()? {
                Ok(text) => text,
                Err(e) => return Some(Err(invalid(&e.to_string()))),
            };
            if let Some(comment) = text.strip_prefix("# lost ") {
                self.lost += comment.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
                continue;
            }
            return Some(Line::parse(&text).ok_or_else(|| invalid("no line of a log; cut off or edited?")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(i: u64) -> Line {
        let outcomes =
            [Outcome::Done, Outcome::Failed(5), Outcome::Lied, Outcome::Torn(1024), Outcome::Failed(-1)];
        let operations = [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard];
        Line {
            arrival: u64::MAX - i,
            operation: operations[i as usize % 4],
            offset: i << 12,
            length: i as u32 * 512,
            fua: i % 2 == 1,
            model: 28 + 7 * i,
            parts: Parts {
                queued: 1 + i,
                overhead: 2 + i,
                seek: 3 + i,
                rotation: 4 + i,
                medium: 5 + i,
                throttled: 6 + i,
                fault: 7 + i,
            },
            outcome: outcomes[i as usize % 5],
            sent: i,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("log");
        let log = Log::create(&path).expect("log");
        assert!(Log::create(&path).err().expect("taken").to_string().contains("log: is there already"));
        (0..5000).for_each(|i| log.add(line(i)));
        log.end();
        assert_eq!((log.written(), log.lost()), (5000, 0));
        log.add(line(0));
        assert_eq!(log.lost(), 1, "after the end");
        let mut lines = read(&path).expect("read");
        for i in 0..5000 {
            assert_eq!(lines.next().expect("line").expect("parsed"), line(i));
        }
        assert!(lines.next().is_none());
        assert_eq!(lines.lost(), 0);
    }

    #[test]
    fn a_log_that_is_not_ended_is_written_nevertheless() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("log");
        let log = Log::create(&path).expect("log");
        log.add(line(3));
        while log.written() == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(read(&path).expect("read").count(), 1);
    }

    /// A disk that takes some bytes, then is full.
    struct Full(usize, Arc<Mutex<Vec<u8>>>);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if bytes.starts_with(b"#") || self.0 > 0 {
                self.0 = self.0.saturating_sub(1);
                self.1.lock().expect("bytes").extend(bytes);
                return Ok(bytes.len());
            }
            Err(io::Error::from_raw_os_error(libc::ENOSPC))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lost_lines_are_counted() {
        let bytes = Arc::default();
        let log = Log::to(Full(1, Arc::clone(&bytes))).expect("log");
        // Chunks of 1000: one is written, and nothing comes between the others.
        (0..3000).for_each(|i| log.add(line(i)));
        log.end();
        assert_eq!(log.written() + log.lost(), 3000);
        assert!(log.lost() >= 2000, "{}", log.lost());
        let text = String::from_utf8(bytes.lock().expect("bytes").clone()).expect("text");
        let last = text.lines().last().expect("a line");
        assert_eq!(last, format!("# lost {} lines: No space left on device (os error 28)", log.lost()));
    }

    #[test]
    fn damage_is_named() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("log");
        let whole = {
            let mut text = String::new();
            line(1).print(&mut text);
            text
        };
        assert_eq!(Line::parse(whole.trim_end()), Some(line(1)));
        for cut in 0..whole.trim_end().len() - 1 {
            assert!(Line::parse(&whole[..cut]).is_none_or(|l| l != line(1)), "{cut}");
        }
        for bad in
            ["", ",,,", "1,2", "a,read,1,1,0,1,1,1,1,1,1,1,1,done,1", "1,read,1,1,2,1,1,1,1,1,1,1,1,done,1"]
        {
            std::fs::write(&path, format!("{HEAD}\n{whole}{bad}\n# lost 7 lines: why\n")).expect("file");
            let mut lines = read(&path).expect("read");
            assert!(lines.next().expect("line").is_ok());
            let error = lines.next().expect("line").expect_err(bad).to_string();
            assert!(error.contains("log: line 3: "), "{error}");
            assert!(lines.next().is_none());
            assert_eq!(lines.lost(), 7);
        }
        std::fs::write(&path, "time,what\n").expect("file");
        assert!(read(&path).err().expect("another's").to_string().contains("line 1"));
    }
}
