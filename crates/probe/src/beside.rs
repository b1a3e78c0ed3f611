// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who reads a trace while it is recorded: a thread that takes what the machine leaves over.

use crate::privileges;
use crate::user::Places;
use plumb_machine::{clock, host, Root};
use plumb_trace::reader::{News, Published};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Share of all CPUs that a reader may take though the machine has use for them.
const SHARE: f64 = 0.02;
/// Share of the idle time that it may take.
const OF_IDLE: f64 = 0.5;
/// It rests so long at a time.
const REST: Duration = Duration::from_millis(20);
/// CPU time that it may have saved up, ns: of silence it must not make a long burst.
const SAVED: f64 = 1e8;
/// The nice value of who comes behind all others of its session.
const BEHIND: i32 = 19;
/// CPU time is asked for after so many runs of records.
const RUNS: u32 = 64;

/// A trace that is being recorded, for its reader.
pub struct Beside {
    /// Its directory.
    pub dir: PathBuf,
    /// When the target began, ns CLOCK_MONOTONIC.
    pub begin: u64,
    news: Receiver<Published>,
    next: Option<Published>,
    pace: Option<Pace>,
    runs: u32,
    /// The nice value that its thread has when somebody waits for it.
    nice: i32,
    /// Somebody waits for it all the time.
    eager: bool,
    progress: Arc<Progress>,
    /// How far it was told that it may read, ns.
    told: u64,
}

/// What the recorder knows of its reader, which takes the CPUs as others do.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// CPU time of its thread, ns.
    pub taken: AtomicU64,
    /// Everything up to here was read, ns.
    pub until: AtomicU64,
    asked: Mutex<Asked>,
}

/// Who asked for the places of stacks.
#[derive(Debug, Default)]
struct Asked {
    /// Somebody may.
    can: bool,
    waiting: Vec<Sender<Arc<Places>>>,
    /// The recorder has ended, and left them.
    last: Option<Arc<Places>>,
}

impl Progress {
    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers those who asked for the places of stacks.
    pub(crate) fn answer(&self, places: impl FnOnce() -> Places) {
        let waiting = std::mem::take(&mut self.asked().waiting);
        if !waiting.is_empty() {
            let places = Arc::new(places());
            // Who does not wait any more has gone.
            waiting.iter().for_each(|asked| _ = asked.send(Arc::clone(&places)));
        }
    }

    /// The same when the recorder ends, also for those who ask later.
    pub(crate) fn leave(&self, places: impl FnOnce() -> Places) {
        let mut asked = self.asked();
        if asked.can {
            let places = asked.last.insert(Arc::new(places())).clone();
            asked.waiting.drain(..).for_each(|asked| _ = asked.send(Arc::clone(&places)));
        }
    }
}

/// Asks a recorder for the places of its stacks, while it records.
#[derive(Debug, Clone)]
pub struct Asks(Arc<Progress>);

impl Asks {
    /// They come as soon as the recorder looks: some tenths of a second.
    pub(crate) fn places(&self) -> Receiver<Arc<Places>> {
        let (sender, receiver) = channel();
        let mut asked = self.0.asked();
        match &asked.last {
            Some(last) => _ = sender.send(Arc::clone(last)),
            None => asked.waiting.push(sender),
        }
        receiver
    }
}

impl Beside {
    pub(crate) fn new(dir: PathBuf, begin: u64, news: Receiver<Published>, progress: Arc<Progress>) -> Self {
        Self { dir, begin, news, next: None, pace: None, runs: 0, nice: 0, eager: false, progress, told: 0 }
    }

    /// Who asks its recorder.
    pub fn asks(&self) -> Asks {
        self.progress.asked().can = true;
        Asks(Arc::clone(&self.progress))
    }

    /// Takes the newest of the news: it says all that earlier ones did.
    fn look(&mut self) {
        loop {
            match self.news.try_recv() {
                Ok(published) => self.next = Some(published),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }
}

/// Runs a reader on the calling thread with no privilege but to read; unless somebody waits for what it reads, behind all
/// others.
pub(crate) fn run<T>(mut beside: Beside, eager: bool, reader: impl FnOnce(Beside) -> T) -> T {
    privileges::reads();
    beside.eager = eager;
    if !eager {
        beside.nice = nice(BEHIND);
    }
    reader(beside)
}

/// The calling thread's nice value; it was the other.
fn nice(value: i32) -> i32 {
    // SAFETY: plain system calls about the calling thread; where they are refused, the priority stays.
    unsafe {
        let was = libc::getpriority(libc::PRIO_PROCESS, 0);
        libc::setpriority(libc::PRIO_PROCESS, 0, value);
        was
    }
}

impl News for Beside {
    fn next(&mut self) -> Option<Published> {
        if self.eager {
            self.progress.taken.store(clock::of(libc::CLOCK_THREAD_CPUTIME_ID), Ordering::Relaxed);
            self.progress.until.store(self.told, Ordering::Relaxed);
        }
        self.look();
        let next = self.next.take().or_else(|| self.news.recv().ok());
        if !self.eager && next.as_ref().is_some_and(|n| n.last) {
            nice(self.nice);
        }
        self.told = next.as_ref().map_or(self.told, |n| n.until);
        next
    }

    fn rest(&mut self) {
        if self.eager {
            return;
        }
        self.runs += 1;
        if self.runs < RUNS {
            return;
        }
        self.runs = 0;
        let mut pace = self.pace.take().unwrap_or_else(Pace::new);
        while pace.must_rest() {
            self.look();
            if self.next.as_ref().is_some_and(|n| n.last) {
                // Now somebody waits for it.
                break;
            }
            thread::sleep(REST);
            pace.grant();
        }
        self.pace = Some(pace);
    }
}

/// Idle time of all CPUs, ns.
fn idle() -> u64 {
    host::CpuTime::now(&Root::real()).map_or(0, |time| time.idle)
}

/// CPU time that the calling thread may take, and takes.
struct Pace {
    /// What it may still take, ns.
    left: f64,
    /// CPU time of the thread, ns.
    taken: u64,
    /// Idle time of all CPUs, ns.
    idle: u64,
    at: Instant,
    cpus: f64,
}

impl Pace {
    fn new() -> Self {
        Self {
            left: 0.0,
            taken: clock::of(libc::CLOCK_THREAD_CPUTIME_ID),
            idle: idle(),
            at: Instant::now(),
            cpus: thread::available_parallelism().map_or(1.0, |n| n.get() as f64),
        }
    }

    fn must_rest(&mut self) -> bool {
        let taken = clock::of(libc::CLOCK_THREAD_CPUTIME_ID);
        self.left -= (taken - self.taken) as f64;
        self.taken = taken;
        self.left < 0.0
    }

    fn grant(&mut self) {
        let (at, idle) = (Instant::now(), idle());
        let share = (at - self.at).as_nanos() as f64 * self.cpus * SHARE;
        let spare = idle.saturating_sub(self.idle) as f64 * OF_IDLE;
        (self.at, self.idle) = (at, idle);
        self.left = (self.left + share + spare).min(SAVED);
    }
}
