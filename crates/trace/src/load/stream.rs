// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a thread of a workload hands its operations over to a running recording.

use super::{OperationKind, TRACE_VARIABLE};
use crate::ctf::{Metadata, HEAD_BYTES, MAX_PACKET_BYTES};
use crate::event::Record;
use crate::packer::Packer;
use crate::schema::{LoadBegin, LoadEnd, SCHEMA_HASH};
use crate::writer::{named, PacketFile, Sink, Stream};
use std::fs::File;
use std::io;
use std::path::Path;

/// A packet is closed at the first operation that ends this long after the
/// packet's begin (ns), so that a slow workload that is killed leaves what it had.
const FLUSH_AFTER: u64 = 1_000_000_000;
/// Bytes of a record.
const RECORD: usize = size_of::<LoadBegin>();
const _: () = assert!(size_of::<LoadEnd>() == RECORD);

/// The stream of one thread: its operations as events of the trace.
///
/// A call copies 32 bytes into a buffer. The thread itself writes that to the
/// stream's file, one packet (64 KiB, 1023 operations) at a time and after an
/// operation has ended, so the writing lies between operations; a thread of its
/// own for that would stand in the account of the workload's process. What
/// cannot be written is lost and counted in the next packet that can.
#[derive(Debug)]
pub struct LoadStream {
    packer: Packer,
    file: LoadFile,
    tid: u32,
    worker: u16,
    /// What went wrong first; told at the end, since the workload goes on.
    error: Option<io::Error>,
}

impl LoadStream {
    /// The stream of the calling thread in the recording that the environment
    /// names; `None` without one. `worker` is the thread's number in its workload.
    ///
    /// # Errors
    /// As [`LoadStream::create`].
    pub fn from_env(worker: u32) -> io::Result<Option<Self>> {
        match std::env::var_os(TRACE_VARIABLE) {
            Some(dir) => Self::create(Path::new(&dir), worker),
            None => Ok(None),
        }
    }

    /// The stream of the calling thread in the trace directory `dir`; `None` where
    /// the trace is of a schema that has no such events. `worker` is the thread's
    /// number in its workload, and no two threads of a process share one.
    ///
    /// # Errors
    /// No trace in `dir`, no permission to write there, a stream of that number
    /// that exists already, or no /proc; the path is named.
    pub fn create(dir: &Path, worker: u32) -> io::Result<Option<Self>> {
        let path = dir.join("metadata");
        let text = std::fs::read(&path).map_err(|e| named(&path, e))?;
        let metadata = Metadata::decode(&String::from_utf8_lossy(&text));
        let ours = format!("{SCHEMA_HASH:016x}");
        if !metadata.is_ok_and(|m| m.env.get("plumb_schema") == Some(&ours)) {
            return Ok(None);
        }
        let (pid, tid) = who_am_i()?;
        let stream = Stream::Load { pid, worker };
        let path = dir.join(stream.file_name());
        let file = File::options().write(true).create_new(true).open(&path).map_err(|e| named(&path, e))?;
        Ok(Some(Self {
            packer: Packer::new(stream),
            file: LoadFile(PacketFile::new(path, file)),
            tid,
            worker: u16::try_from(worker).unwrap_or(u16::MAX),
            error: None,
        }))
    }

    /// An operation begins at `ts` (CLOCK_MONOTONIC, ns). `slot` is its place among
    /// those that the thread has open at once, 0 with one at a time; `file` is the
    /// file's number in the workload, `offset` where in it, bytes.
    pub fn begin(&mut self, ts: u64, kind: OperationKind, slot: u16, file: u32, offset: u64) {
        let event = LoadBegin {
            ts,
            id: LoadBegin::ID,
            tid: self.tid,
            kind: kind.number(),
            slot,
            file,
            offset,
            ..LoadBegin::default()
        };
        if self.packer.len() + RECORD > MAX_PACKET_BYTES {
            self.flush();
        }
        self.packer.record(event.bytes());
    }

    /// The operation in `slot` ends at `ts` (CLOCK_MONOTONIC, ns). `result` is the
    /// bytes moved, or 0, or minus the error number; `late` is how long after its
    /// intended time it began, ns, 0 without a plan.
    pub fn end(&mut self, ts: u64, slot: u16, result: i64, late: u64) {
        let event = LoadEnd {
            ts,
            id: LoadEnd::ID,
            tid: self.tid,
            slot,
            worker: self.worker,
            late: u32::try_from(late / 1000).unwrap_or(u32::MAX),
            result,
            ..LoadEnd::default()
        };
        if self.packer.len() + RECORD > MAX_PACKET_BYTES {
            self.flush();
        }
        self.packer.record(event.bytes());
        // Here and not at the next begin: the time of the writing is no operation's.
        if self.packer.len() + 2 * RECORD > MAX_PACKET_BYTES || ts > self.packer.begin() + FLUSH_AFTER {
            self.flush();
        }
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The first that happened, now or before; the file and what was lost are named.
    pub fn finish(mut self) -> io::Result<()> {
        self.close();
        match self.error.take() {
            None => Ok(()),
            Some(e) => {
                let lost = self.packer.discarded();
                Err(io::Error::new(e.kind(), format!("{e}; {lost} events of operations are lost")))
            }
        }
    }

    fn flush(&mut self) {
        let events = ((self.packer.len() - HEAD_BYTES) / RECORD) as u64;
        if let Err(e) = self.packer.flush(&mut self.file) {
            self.packer.was_lost(events);
            self.error.get_or_insert(e);
        }
    }

    fn close(&mut self) {
        self.flush();
        // A packet without events, so that a loss at the very end is told too.
        let _ = self.packer.tell_loss(&mut self.file);
    }
}

impl Drop for LoadStream {
    fn drop(&mut self) {
        self.close();
    }
}

/// The one file that the packets of a thread go to.
#[derive(Debug)]
struct LoadFile(PacketFile);

impl Sink for LoadFile {
    fn packet(&mut self, _: Stream, packet: &[u8]) -> io::Result<()> {
        self.0.append(packet)
    }
}

/// Process and thread id as /proc tells them: those of the initial pid namespace
/// where /proc is its, and the kernel's events carry the same.
fn who_am_i() -> io::Result<(u32, u32)> {
    let path = Path::new("/proc/thread-self");
    let link = std::fs::read_link(path).map_err(|e| named(path, e))?;
    let words: Vec<&str> = link.to_str().unwrap_or("").split('/').collect();
    match words[..] {
        [pid, "task", tid] => pid.parse().ok().zip(tid.parse().ok()),
        _ => None,
    }
    .ok_or_else(|| io::Error::other(format!("{}: {} is not PID/task/TID", path.display(), link.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_trace_there_is_an_error_and_with_another_schema_no_stream() {
        let dir = tempfile::tempdir().expect("directory");
        let e = LoadStream::create(dir.path(), 0).expect_err("no trace");
        assert!(e.to_string().contains("metadata"), "{e}");
        let old = Metadata::default().encode().replace(&format!("{SCHEMA_HASH:016x}"), "00000000deadbeef");
        std::fs::write(dir.path().join("metadata"), old).expect("metadata");
        assert!(LoadStream::create(dir.path(), 0).expect("readable").is_none());
        assert_eq!(std::fs::read_dir(dir.path()).expect("directory").count(), 1, "nothing was made");
    }

    #[test]
    fn a_number_is_given_once() {
        let dir = tempfile::tempdir().expect("directory");
        std::fs::write(dir.path().join("metadata"), Metadata::default().encode()).expect("metadata");
        let _first = LoadStream::create(dir.path(), 3).expect("first").expect("stream");
        let e = LoadStream::create(dir.path(), 3).expect_err("second");
        assert_eq!(e.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn what_cannot_be_written_is_counted() {
        let dir = tempfile::tempdir().expect("directory");
        std::fs::write(dir.path().join("metadata"), Metadata::default().encode()).expect("metadata");
        let mut stream = LoadStream::create(dir.path(), 0).expect("created").expect("stream");
        let full = File::options().write(true).open("/dev/full").expect("/dev/full");
        stream.file = LoadFile(PacketFile::new("/dev/full".into(), full));
        for i in 0..5000 {
            stream.begin(i * 10, OperationKind::Read, 0, 0, 0);
            stream.end(i * 10 + 5, 0, 1, 0);
        }
        let e = stream.finish().expect_err("full").to_string();
        assert!(e.contains("/dev/full") && e.contains("10000 events"), "{e}");
    }
}
