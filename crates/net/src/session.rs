// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One recording at the collector: a directory of a set, whose files grow by whole packets as a recorder's own do.

use crate::invitation::is_set;
use anyhow::{bail, ensure, Context, Error, Result};
use plumb_machine::output;
use plumb_trace::ctf::{Metadata, PacketHead, STREAM_CPU, STREAM_STATE};
use plumb_trace::writer::{PacketFile, Stream};
use std::collections::btree_map::{BTreeMap, Entry};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Which recording a directory has, so that its sender finds it again. Readers of CTF leave hidden files out.
const MARK: &str = ".session";
/// Directories of one sender.
const MOST: u32 = 100_000;
/// CPUs of a host: PLUMB_MAX_CPUS.
const MOST_CPUS: u32 = 512;

/// A recording that a sender began.
#[derive(Debug)]
pub struct Session {
    pub dir: PathBuf,
    /// Each with the number of its next packet.
    files: BTreeMap<Stream, (PacketFile, u64)>,
    /// Frames that it has.
    pub received: u64,
    pub bytes: u64,
    /// The sender said that this was all.
    pub done: bool,
}

/// Which stream a file of a trace has.
fn stream_of(name: &str) -> Option<Stream> {
    match name {
        "state" => Some(Stream::State),
        "waits" => Some(Stream::Waits),
        name => name.strip_prefix("cpu_")?.parse().ok().filter(|n| *n < MOST_CPUS).map(Stream::Cpu),
    }
}

impl Session {
    /// A directory for a recording that begins: the sender's name, with a number if it sent one before.
    ///
    /// # Errors
    /// It cannot be made, or the metadata is none.
    pub fn begin(set: &Path, sender: &str, id: &[u8; 16], metadata: &str) -> Result<Self> {
        Metadata::decode(metadata).map_err(|e| anyhow::anyhow!("no metadata of a trace: {e}"))?;
        for n in 1..MOST {
            let dir = set.join(if n == 1 { sender.to_string() } else { format!("{sender}~{n}") });
            match std::fs::create_dir(&dir) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => continue,
                made => made.with_context(|| dir.display().to_string())?,
            }
            File::open(&dir)
                .and_then(|made| output::hand_over(&made))
                .with_context(|| dir.display().to_string())?;
            // The mark is last: without it nobody is told that the metadata is there.
            let files = [("metadata", metadata.as_bytes()), (MARK, id.as_slice())];
            for (name, bytes) in files {
                let path = dir.join(name);
                let written = output::create(&path).and_then(|mut f| f.write_all(bytes));
                written.with_context(|| path.display().to_string())?;
            }
            let bytes = metadata.len() as u64;
            return Ok(Self { dir, files: BTreeMap::new(), received: 1, bytes, done: false });
        }
        bail!("{sender} has sent {MOST} recordings to {}", set.display())
    }

    /// A recording that a collector before this one had begun: torn packets are cut off, whole ones counted.
    ///
    /// # Errors
    /// Its files cannot be read or cut.
    pub fn resume(set: &Path, sender: &str, id: &[u8; 16]) -> Result<Option<Self>> {
        let mine = |name: &str| {
            let number = |rest: &str| rest.strip_prefix('~').is_some_and(|n| n.parse::<u32>().is_ok());
            name.strip_prefix(sender).is_some_and(|rest| rest.is_empty() || number(rest))
        };
        for entry in std::fs::read_dir(set).with_context(|| set.display().to_string())? {
            let entry = entry?;
            let dir = entry.path();
            let named = entry.file_name().to_str().is_some_and(mine);
            if named && std::fs::read(dir.join(MARK)).is_ok_and(|mark| mark == id) {
                return Self::open(dir).map(Some);
            }
        }
        Ok(None)
    }

    fn open(dir: PathBuf) -> Result<Self> {
        let mut session = Self { received: 1, bytes: 0, files: BTreeMap::new(), dir, done: false };
        for entry in std::fs::read_dir(&session.dir)? {
            let path = entry?.path();
            let Some(stream) = path.file_name().and_then(|n| n.to_str()).and_then(stream_of) else {
                continue;
            };
            let file = File::options().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(&path);
            let file = file.with_context(|| path.display().to_string())?;
            let (file, whole) = PacketFile::resume(path, file)?;
            session.received += whole.packets;
            session.bytes += whole.bytes;
            session.files.insert(stream, (file, whole.packets));
        }
        Ok(session)
    }

    /// Takes a packet of a stream.
    ///
    /// # Errors
    /// It is none, or not the stream's next; the disk is full.
    pub fn packet(&mut self, stream: Stream, bytes: &[u8]) -> Result<()> {
        let head = PacketHead::decode(bytes).map_err(anyhow::Error::msg)?;
        ensure!(head.size == bytes.len() as u64, "a packet of another length than it says");
        let (class, cpu) = match stream {
            Stream::Cpu(n) if n < MOST_CPUS => (STREAM_CPU, n),
            Stream::State | Stream::Waits => (STREAM_STATE, 0),
            _ => bail!("a packet of {}, which is not sent", stream.file_name()),
        };
        ensure!(head.stream_id == class && head.cpu == cpu, "a packet of another stream than it says");
        let (file, next) = match self.files.entry(stream) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(new) => {
                let path = self.dir.join(stream.file_name());
                let file = output::create(&path).with_context(|| path.display().to_string())?;
                new.insert((PacketFile::new(path, file), 0))
            }
        };
        ensure!(head.seq == *next, "packet {} of {} where {next} is next", head.seq, stream.file_name());
        file.append(bytes)?;
        *next += 1;
        self.received += 1;
        self.bytes += head.size;
        Ok(())
    }

    /// The sender sent all.
    pub fn end(&mut self) {
        self.received += 1;
        self.done = true;
    }
}

/// The recordings of a set, by name: what a collector received, or traces that somebody put into one directory; `None`
/// where it is neither.
///
/// # Errors
/// It cannot be read.
pub fn recordings(set: &Path) -> Result<Option<Vec<PathBuf>>> {
    // A trace, or a run with its own.
    let collected = is_set(set);
    if !collected && (!set.is_dir() || set.join("metadata").exists() || set.join("trace/metadata").exists()) {
        return Ok(None);
    }
    let entries = std::fs::read_dir(set).map_err(|error| {
        let whose = match error.kind() {
            ErrorKind::PermissionDenied => {
                ": only the user who recorded it can read it (record with --share), and root"
            }
            _ => "",
        };
        Error::new(error).context(format!("{}{whose}", set.display()))
    })?;
    let mut found: Vec<PathBuf> =
        entries.flatten().map(|e| e.path()).filter(|p| p.join("metadata").exists()).collect();
    if found.is_empty() && !collected {
        return Ok(None);
    }
    found.sort_by_cached_key(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (sender, number) = name.split_once('~').unwrap_or((&name, "1"));
        (sender.to_string(), number.parse::<u32>().unwrap_or(u32::MAX))
    });
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_in_one_directory_are_a_set() {
        let dir = tempfile::tempdir().expect("directory");
        let names = || {
            Some(
                recordings(dir.path())
                    .expect("readable")?
                    .into_iter()
                    .map(|p| p.file_name().unwrap_or_default().to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        let make = |path: &str| {
            std::fs::create_dir_all(dir.path().join(path)).expect("directory");
            std::fs::write(dir.path().join(path).join("metadata"), "").expect("file");
        };
        assert_eq!(names(), None, "an empty directory");
        make("web");
        make("db");
        std::fs::create_dir(dir.path().join("notes")).expect("directory");
        assert_eq!(names(), Some(vec!["db".into(), "web".into()]));
        // A run has its trace in a directory of that name, and a trace is none.
        make("trace");
        assert_eq!(names(), None);
        std::fs::remove_dir_all(dir.path().join("trace")).expect("directory");
        make(".");
        assert_eq!(names(), None);
    }
}
