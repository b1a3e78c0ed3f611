// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the engines' tests have in common: files, one worker, and a suite
//! that every engine of files must pass.

use super::{Action, Done, Engine, EngineError, OpenFile, Operation, Setup, Wait};
use crate::buffers::Buffers;
use crate::job::{Bytes, Job};
use crate::names::Names;
use plumb_trace::load::OperationKind;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Bytes of a slot's buffer.
pub const BLOCK: usize = 16_384;

/// Longer than any operation takes; then the test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(30);

/// A job whose buffers have [`BLOCK`] bytes.
pub fn job() -> Job {
    Job { block: Bytes(BLOCK as u64), ..Job::default() }
}

/// An engine on files that a test made.
pub struct Bench<E: Engine> {
    // Dropped in this order: what is under way uses the buffers and the files.
    pub engine: E,
    pub buffers: Buffers,
    files: Vec<File>,
    dir: TempDir,
    _watchdog: Watchdog,
}

/// Ends the test's process when a test hangs in a call that has no time limit.
pub struct Watchdog(#[allow(dead_code, reason = "dropping it is what calls the dog off")] Sender<()>);

impl Watchdog {
    pub fn new() -> Self {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            if receiver.recv_timeout(2 * PATIENCE) == Err(RecvTimeoutError::Timeout) {
                eprintln!("a test hangs: the process ends");
                std::process::abort();
            }
        });
        Watchdog(sender)
    }
}

impl<E: Engine> Bench<E> {
    /// Files with these contents, open for reading and writing.
    pub fn new(job: &Job, contents: &[&[u8]]) -> Self {
        Self::try_new(job, contents, true).expect("the engine starts")
    }

    pub fn try_new(job: &Job, contents: &[&[u8]], write: bool) -> Result<Self, EngineError> {
        let dir = TempDir::new().expect("a directory");
        let files = contents.iter().enumerate().map(|(i, bytes)| {
            let path = dir.path().join(i.to_string());
            std::fs::write(&path, bytes).expect("a file");
            let direct = if job.direct { libc::O_DIRECT } else { 0 };
            OpenOptions::new().read(true).write(write).custom_flags(direct).open(path).expect("that file")
        });
        let files = files.collect();
        Self::on(job, files, dir)
    }

    /// A file and the one that it is copied to.
    pub fn pair(job: &Job, from: &[u8], to: &[u8], write: bool) -> Result<Self, EngineError> {
        let dir = TempDir::new().expect("a directory");
        let open = |(name, bytes, write): (&str, &[u8], bool)| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).expect("a file");
            OpenOptions::new().read(true).write(write).open(path).expect("that file")
        };
        let files = [("0", from, false), ("1", to, write)].map(open);
        let size = from.len() as u64;
        let open = OpenFile { fd: files[0].as_raw_fd(), copy_to: files[1].as_raw_fd(), size };
        Self::open(job, files.into(), &[open], dir)
    }

    /// A device in place of a file.
    pub fn on_device(job: &Job, path: &str) -> Self {
        let file = OpenOptions::new().read(true).write(true).open(path).expect(path);
        Self::on(job, vec![file], TempDir::new().expect("a directory")).expect("the engine starts")
    }

    fn on(job: &Job, files: Vec<File>, dir: TempDir) -> Result<Self, EngineError> {
        let open: Vec<_> = files
            .iter()
            .map(|file| OpenFile {
                fd: file.as_raw_fd(),
                copy_to: -1,
                size: file.metadata().expect("its attributes").len(),
            })
            .collect();
        Self::open(job, files, &open, dir)
    }

    fn open(job: &Job, files: Vec<File>, open: &[OpenFile], dir: TempDir) -> Result<Self, EngineError> {
        let buffers = Buffers::new(job.depth as usize, BLOCK).expect("memory");
        let names = Names::new(dir.path(), 0, 0);
        let setup = Setup {
            job,
            files: open,
            buffers: &buffers,
            names: &names,
            shared: std::ptr::null_mut(),
            shared_len: 0,
            listener: -1,
            worker: 0,
        };
        let engine = E::open(&setup)?;
        Ok(Bench { engine, buffers, files, dir, _watchdog: Watchdog::new() })
    }

    /// Runs one operation in slot 0 to its end.
    pub fn run(&mut self, action: Action, file: u32, offset: u64, len: usize) -> i64 {
        match self.start(action, file, offset, len, 0) {
            Some(result) => result,
            None => {
                self.engine.submit().expect("submitted");
                let mut done = Vec::new();
                self.wait(1, &mut done);
                assert_eq!(done[0].slot, 0);
                done[0].result
            }
        }
    }

    pub fn start(&mut self, action: Action, file: u32, offset: u64, len: usize, slot: u32) -> Option<i64> {
        assert!(len <= BLOCK);
        let buffer = self.buffers.at(slot);
        let kind = OperationKind::Other;
        self.engine.start(&Operation { kind, action, file, len: len as u32, offset, buffer }, slot)
    }

    /// Waits until `count` operations ended.
    pub fn wait(&mut self, count: usize, done: &mut Vec<Done>) {
        let end = Instant::now() + PATIENCE;
        while done.len() < count {
            assert!(Instant::now() < end, "{} of {count} ended in {PATIENCE:?}", done.len());
            self.engine.finish(Wait::For(100_000_000), done).expect("nothing fails but operations");
        }
        assert_eq!(done.len(), count);
    }

    /// The first `len` bytes of slot 0's buffer.
    pub fn data(&mut self, len: usize) -> &mut [u8] {
        self.buffers.slice(0, len)
    }

    pub fn contents(&self, file: u32) -> Vec<u8> {
        std::fs::read(self.path(file)).expect("a file")
    }

    pub fn path(&self, file: u32) -> PathBuf {
        self.dir.path().join(file.to_string())
    }

    /// Moves a file's descriptor without the engine's knowledge.
    pub fn shift(&self, file: u32, to: i64) {
        // SAFETY: a plain system call on an open descriptor.
        let at = unsafe { libc::lseek64(self.files[file as usize].as_raw_fd(), to, libc::SEEK_SET) };
        assert_eq!(at, to);
    }

    /// The place where a file's descriptor stands.
    pub fn position(&self, file: u32) -> i64 {
        // SAFETY: a plain system call on an open descriptor.
        unsafe { libc::lseek64(self.files[file as usize].as_raw_fd(), 0, libc::SEEK_CUR) }
    }
}

/// Bytes that differ from place to place and from `salt` to `salt`.
pub fn bytes(len: usize, salt: u32) -> Vec<u8> {
    let mut x = salt.wrapping_mul(2_654_435_769) | 1;
    let next = |_| {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        (x >> 11) as u8
    };
    (0..len).map(next).collect()
}

/// Places (file, offset, length) in files of 100,000 bytes: in order, out of
/// order, unaligned, overlapping.
const PLACES: [(u32, usize, usize); 9] = [
    (0, 0, 4096),
    (0, 4096, 4096),
    (1, 8192, BLOCK),
    (0, 65_536, 100),
    (1, 1, 4095),
    (1, 4096, 1),
    (0, 3000, 5000),
    (0, 8000, 8192),
    (1, 100_000 - 512, 512),
];

/// What is true of every engine that reads and writes files.
pub fn suite<E: Engine>(job: &Job) {
    arrives::<E>(job);
    ends_short::<E>(job);
    fails::<E>(job, -i64::from(libc::EBADF));
}

/// What is written arrives and what is read is what is there, both mixed.
pub fn arrives<E: Engine>(job: &Job) {
    let mut held = [bytes(100_000, 1), bytes(100_000, 2)];
    let mut bench = Bench::<E>::new(job, &[&held[0], &held[1]]);
    for round in 0..3 {
        for (i, &(file, offset, len)) in PLACES.iter().enumerate() {
            let new = bytes(len, 100 + round * 100 + i as u32);
            let place = offset..offset + len;
            bench.data(BLOCK).fill(0);
            if (i + round as usize) % 2 == 0 {
                bench.data(len).copy_from_slice(&new);
                assert_eq!(bench.run(Action::Write, file, offset as u64, len), len as i64, "write {i}");
                held[file as usize][place].copy_from_slice(&new);
            } else {
                assert_eq!(bench.run(Action::Read, file, offset as u64, len), len as i64, "read {i}");
                assert!(bench.data(len) == &held[file as usize][place], "read {i} of round {round}");
            }
        }
    }
    for file in 0..2 {
        assert_eq!(bench.run(Action::Sync, file, 0, 0), 0, "sync");
    }
    assert_eq!(bench.engine.close(), 0);
    for file in 0..2 {
        assert!(bench.contents(file) == held[file as usize], "file {file}");
    }
}

/// At a file's end a read is short, and behind it there is nothing; then it goes on as before.
pub fn ends_short<E: Engine>(job: &Job) {
    let held = bytes(10_000, 3);
    let mut bench = Bench::<E>::new(job, &[&held]);
    for _ in 0..2 {
        assert_eq!(bench.run(Action::Read, 0, 8192, 4096), 1808);
        assert!(bench.data(1808) == &held[8192..]);
        assert_eq!(bench.run(Action::Read, 0, 20_000, 4096), 0);
        assert_eq!(bench.run(Action::Read, 0, 100, 4096), 4096);
        assert!(bench.data(4096) == &held[100..4196]);
    }
}

/// A write into a file that is open for reading is this error; reads go on, and the file is as it was.
pub fn fails<E: Engine>(job: &Job, error: i64) {
    let held = bytes(10_000, 4);
    let mut bench = Bench::<E>::try_new(job, &[&held], false).expect("the engine starts");
    for _ in 0..2 {
        bench.data(4096).fill(9);
        assert_eq!(bench.run(Action::Write, 0, 0, 4096), error);
        assert_eq!(bench.run(Action::Read, 0, 4096, 4096), 4096);
        assert!(bench.data(4096) == &held[4096..8192]);
    }
    bench.engine.close();
    assert!(bench.contents(0) == held);
}

/// Several operations at once: each ends once, with its own result and its own bytes.
pub fn queue<E: Engine>(job: &Job) {
    if job.direct && !takes_direct() {
        return;
    }
    let depth = job.depth;
    let held = bytes(depth as usize * BLOCK, 5);
    let mut bench = Bench::<E>::new(job, &[&held]);
    let place = |slot: u32| slot as usize * BLOCK..(slot as usize + 1) * BLOCK;
    let everything = |bench: &mut Bench<E>, action| {
        for slot in (0..depth).rev() {
            assert_eq!(bench.start(action, 0, place(slot).start as u64, BLOCK, slot), None);
        }
        bench.engine.submit().expect("submitted");
        let mut done = Vec::new();
        bench.wait(depth as usize, &mut done);
        done.sort_by_key(|d| d.slot);
        for (slot, done) in (0..depth).zip(&done) {
            assert_eq!((done.slot, done.result), (slot, BLOCK as i64));
        }
    };
    everything(&mut bench, Action::Read);
    for slot in 0..depth {
        assert!(bench.buffers.slice(slot, BLOCK) == &held[place(slot)], "slot {slot}");
        bench.buffers.slice(slot, BLOCK).copy_from_slice(&bytes(BLOCK, 50 + slot));
    }
    everything(&mut bench, Action::Write);
    let new = bench.contents(0);
    for slot in 0..depth {
        assert!(new[place(slot)] == bytes(BLOCK, 50 + slot), "slot {slot}");
    }
    // A bad one among good ones.
    let mut bench = Bench::<E>::try_new(job, &[&held], false).expect("the engine starts");
    for slot in 0..depth {
        let action = if slot == 1 { Action::Write } else { Action::Read };
        assert_eq!(bench.start(action, 0, place(slot).start as u64, BLOCK, slot), None);
    }
    bench.engine.submit().expect("submitted");
    let mut done = Vec::new();
    bench.wait(depth as usize, &mut done);
    for done in done {
        let right = if done.slot == 1 { -i64::from(libc::EBADF) } else { BLOCK as i64 };
        assert_eq!(done.result, right, "slot {}", done.slot);
    }
    let mut none = Vec::new();
    bench.engine.finish(Wait::No, &mut none).expect("nothing to wait for");
    assert!(none.is_empty(), "nothing ends twice");
}

/// What is still under way when it closes is waited for: its buffers are memory that is given back.
pub fn closes<E: Engine>(job: &Job) {
    let mut bench = Bench::<E>::new(job, &[&bytes(job.depth as usize * BLOCK, 6)]);
    for slot in 0..job.depth {
        assert_eq!(bench.start(Action::Read, 0, u64::from(slot) * BLOCK as u64, BLOCK, slot), None);
    }
    bench.engine.submit().expect("submitted");
    assert_eq!(bench.engine.close(), 0);
}

/// Whether the directory of temporary files takes O_DIRECT.
pub fn takes_direct() -> bool {
    let dir = TempDir::new().expect("a directory");
    let new = OpenOptions::new()
        .write(true)
        .create_new(true)
        .custom_flags(libc::O_DIRECT)
        .open(dir.path().join("direct"));
    new.map_err(|e| println!("SKIP direct: {}: {e}", dir.path().display())).is_ok()
}

/// Whether we may lock so many bytes of memory.
pub fn lockable(bytes: u64) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: room for the limit.
    let enough = unsafe {
        libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) == 0
            && (limit.rlim_cur >= bytes || libc::geteuid() == 0)
    };
    if !enough {
        println!("SKIP: {} bytes of locked memory are allowed, the test needs {bytes}", limit.rlim_cur);
    }
    enough
}

/// In the file's order nothing is sought: where the descriptor was moved behind the engine's back, it goes on from
/// there. Out of order, and after an error, it is sought.
pub fn seeks_only_when_needed<E: Engine>(job: &Job) {
    let held = bytes(50_000, 7);
    let mut bench = Bench::<E>::new(job, &[&held]);
    assert_eq!(bench.run(Action::Read, 0, 0, 4096), 4096);
    bench.shift(0, 30_000);
    assert_eq!(bench.run(Action::Read, 0, 4096, 4096), 4096);
    assert!(bench.data(4096) == &held[30_000..34_096]);
    assert_eq!(bench.run(Action::Read, 0, 4096, 4096), 4096);
    assert!(bench.data(4096) == &held[4096..8192]);
    assert_eq!(bench.position(0), 8192);
    assert_eq!(bench.run(Action::Read, 0, u64::MAX - 1, 4096), -i64::from(libc::EINVAL), "no such place");
    bench.shift(0, 1000);
    assert_eq!(bench.run(Action::Read, 0, 8192, 4096), 4096);
    assert!(bench.data(4096) == &held[8192..12_288]);
}
