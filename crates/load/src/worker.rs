// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One worker: it opens its files and its engine, waits for the common start,
//! and then does nothing but operations until its end.

mod loops;
mod record;
mod source;

pub use record::Recorder;
pub use source::Source;

use crate::board::{self, Board, Seat};
use crate::buffers::Buffers;
use crate::clock::Clock;
use crate::data::{Pattern, Pool};
use crate::engine::{self, Engine, EngineError, Listeners, OpenFile, Setup, Visitor};
use crate::events::Events;
use crate::files::{FileSet, Ground};
use crate::job::{Job, Timed, What};
use crate::pace::Schedule;
use crate::witness;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering::*;

/// What all workers of a run have in common.
#[derive(Debug)]
pub struct Common<'a> {
    pub board: &'a Board,
    /// The clock of all times.
    pub clock: Clock,
    pub ground: &'a Ground,
    /// Tells this run's stamps from those of others.
    pub run_id: u64,
    /// Where servers take connections, a job each.
    pub listeners: &'a [Listeners],
}

#[derive(Debug, Clone, Copy)]
pub struct Who {
    /// Its seat, over all jobs.
    pub seat: usize,
    pub job: usize,
    /// Its number in its job.
    pub worker: u32,
    /// Number of its first file among the step's.
    pub first_file: u32,
}

/// Closes its descriptors when it goes.
#[derive(Debug)]
struct Opened(Vec<OpenFile>);

impl Opened {
    fn close(&mut self) -> i64 {
        let mut result = 0;
        for file in self.0.drain(..) {
            for fd in [file.fd, file.copy_to] {
                // SAFETY: the descriptor is ours and closed once.
                if fd >= 0 && unsafe { libc::close(fd) } != 0 {
                    result = -i64::from(engine::errno());
                }
            }
        }
        result
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.close();
    }
}

/// A worker's whole life. Why it could not begin stands in its seat.
pub fn live(common: &Common<'_>, who: Who, job: &Job) {
    // SAFETY: this worker is the only one on this seat.
    let seat = unsafe { common.board.seat_mut(who.seat) };
    // SAFETY: plain calls.
    unsafe {
        seat.pid.store(libc::getpid() as u32, Relaxed);
        seat.tid.store(libc::syscall(libc::SYS_gettid) as u32, Relaxed);
        // Sleeps end when they are due, not up to 50 us later.
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
    }
    struct Begin<'a, 'b>(&'a Common<'b>, Who, &'a Job, &'a mut Seat);
    impl Visitor for Begin<'_, '_> {
        type Out = Result<(), EngineError>;
        fn visit<E: Engine>(self) -> Self::Out {
            work::<E>(self.0, self.1, self.2, self.3)
        }
    }
    if let Err(e) = engine::choose(job, Begin(common, who, job, seat)) {
        // SAFETY: as above; the other borrow has ended.
        let seat = unsafe { common.board.seat_mut(who.seat) };
        seat.say(&e.0);
        // The run counts heads: one that cannot begin is there as well.
        common.board.head().ready.fetch_add(1, AcqRel);
        board::wake_word(&common.board.head().ready);
    }
}

fn work<E: Engine>(common: &Common<'_>, who: Who, job: &Job, seat: &mut Seat) -> Result<(), EngineError> {
    let set = common.ground.files(job, who.worker);
    let mut opened = Opened(Vec::new());
    open_files(job, &set, &mut opened)?;
    let memory = |e: std::io::Error| EngineError(format!("memory for buffers of {}: {e}", job.block));
    let mut buffers = Buffers::new(job.depth as usize, job.block.0 as usize).map_err(memory)?;
    let pattern = Pattern {
        compressible: job.compressible,
        stamp: job.stamp,
        seed: u64::from(job.seed) ^ u64::from(who.worker) << 32,
    };
    let fills = job.what.writes() || job.what == What::Create && job.block.0 > 0;
    let mut pool = match fills {
        true => Some(Pool::new(&pattern, job.block.0 as usize).map_err(memory)?),
        false => None,
    };
    if let Some(pool) = &mut pool {
        for slot in 0..job.depth {
            pool.fill(buffers.slice(slot, job.block.0 as usize));
        }
    }
    let setup = Setup {
        job,
        files: &opened.0,
        buffers: &buffers,
        names: &set.names,
        shared: common.board.shared(who.job),
        shared_len: common.board.shared_len(),
        listener: common.listeners.get(who.job).map_or(-1, |l| l.of(who.worker)),
        worker: who.worker,
    };
    let mut engine = E::open(&setup)?;
    let files = if job.what.names() { set.names.count() } else { opened.0.len().max(1) as u64 };
    let sized = sized(job, &opened.0);
    let mut source = Source::new(&sized, who, files, pool, buffers, common.run_id);
    let events = Events::open(who.worker).map_err(EngineError)?;
    let ring = common.board.ring(who.seat);
    let head = common.board.head();

    head.ready.fetch_add(1, AcqRel);
    board::wake_word(&head.ready);
    while head.go.load(Acquire) == 0 {
        board::wait_word(&head.go, 0, 1_000_000_000);
    }
    if head.go.load(Acquire) != 1 {
        return Ok(());
    }
    seat.times[0] = witness::own_times();
    seat.times[1] = seat.times[0];
    let mut recorder = Recorder::new(common.clock, seat, ring, events, &sized);
    let start = head.start.load(Acquire);
    crate::pace::wait_until(&common.clock, start);
    let schedule = Schedule::of(&sized, who.worker, job.workers());
    loops::run(&mut engine, &mut source, &mut recorder, head, &sized, schedule, start);
    let closing = engine.close();
    if job.time_close == Timed::In {
        let result = opened.close().min(closing);
        recorder.closed(result);
    }
    recorder.finish();
    if let Some(answered) = engine.answered() {
        seat.rows.store(answered.rows, Relaxed);
        seat.say(answered.failure.as_deref().unwrap_or_default());
    }
    seat.times[2] = witness::own_times();
    if job.ramp.0 > 0 && seat.begin.load(Relaxed) == 0 {
        // Nothing counted.
        seat.times[1] = seat.times[2];
    }
    seat.done.store(1, Release);
    head.ended.fetch_add(u32::from(!E::SERVES), AcqRel);
    if job.stonewall {
        head.stop.store(1, Release);
    }
    Ok(())
}

/// The job with the range that the file or device really has: one that the
/// user named may be shorter or longer than --size.
fn sized(job: &Job, files: &[OpenFile]) -> Job {
    let mut job = job.clone();
    if !job.what.names() && (job.what.reads() || !matches!(job.prepared(), crate::job::Layout::Append)) {
        if let Some(least) = files.iter().map(|f| f.size).filter(|&s| s > 0).min() {
            job.size.0 = job.size.0.min(least);
        }
    }
    job
}

fn open_files(job: &Job, set: &FileSet, opened: &mut Opened) -> Result<(), EngineError> {
    let wanted = (set.paths.len() + set.copies.len()) as u64;
    engine::raise_limit(wanted + 64, "--files")?;
    let flags = engine::open_flags(job);
    for (i, path) in set.paths.iter().enumerate() {
        let fd = open(path, set.through(path), flags)?;
        opened.0.push(OpenFile { fd, copy_to: -1, size: 0 });
        if let Some(copy) = set.copies.get(i) {
            opened.0[i].copy_to = open(copy, copy, engine::copy_flags(job) | libc::O_CREAT)?;
        }
        // SAFETY: plain calls on an open descriptor; a device's length is where its end is.
        let size = unsafe { libc::lseek64(fd, 0, libc::SEEK_END) };
        // SAFETY: as above.
        unsafe { libc::lseek64(fd, 0, libc::SEEK_SET) };
        opened.0[i].size = size.max(0) as u64;
    }
    Ok(())
}

fn open(path: &Path, through: &Path, flags: i32) -> Result<i32, EngineError> {
    let name = CString::new(through.as_os_str().as_bytes())
        .map_err(|_| EngineError(format!("{}: a name with a NUL", path.display())))?;
    // SAFETY: the path ends in NUL.
    let fd = unsafe { libc::open(name.as_ptr(), flags | libc::O_CLOEXEC, 0o600) };
    if fd >= 0 {
        return Ok(fd);
    }
    let next = match engine::errno() {
        libc::EINVAL if flags & libc::O_DIRECT != 0 => {
            "this file system may not know O_DIRECT: leave out --direct"
        }
        libc::EMFILE | libc::ENFILE => "use fewer --files",
        _ => "check its permissions",
    };
    Err(EngineError::last(&path.display().to_string(), next))
}
