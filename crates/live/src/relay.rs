// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings that follow one another, so that there is no end: the next one begins while the one before still records,
//! knows by the end of a window what is under way, and tells of what comes behind it. No moment is told of twice or never.

use crate::{locked, Kept, Told, Words};
use anyhow::{bail, Context, Result};
use plumb_analysis::windows::Windows;
use plumb_machine::clock;
use plumb_machine::signals::{self, Stop};
use plumb_probe::{Beside, Options, Sampling, Selection, Spans, Tape, Target};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What was recorded comes to its reader so often.
const FLUSH: Duration = Duration::from_millis(250);
/// What the recorder tells of a moment later than this is not in its window, ns.
const AHEAD: u64 = 500_000_000;
/// So many samples a second of what each CPU is at: a window of a second has as many of a service that takes one CPU.
const SAMPLES: u64 = 99;
/// So often is looked whether a recording is over.
const LOOK: Duration = Duration::from_millis(20);
/// No moment yet.
const UNKNOWN: u64 = u64::MAX;

/// Records until somebody asks to stop or the time is over; `tell` is called on threads of its own, by one at a time.
/// The calling thread keeps its privileges; those that record and read give them up.
///
/// # Errors
/// Nothing can be recorded, or what was recorded not be read.
pub fn record(
    words: &Words,
    kept: &Arc<Kept>,
    tell: impl FnMut(Told) -> Result<()> + Send + 'static,
) -> Result<()> {
    let tell: Tell = Arc::new(Mutex::new(Box::new(tell)));
    let leading = Recording::start(words, kept, &tell, None)?;
    let done = follow(words, kept, &tell, leading);
    // What waits for a later moment waits for nothing.
    let told = locked(&tell)(Told::Until(u64::MAX));
    done.and(told)
}

/// Has recordings follow one another until they are over.
fn follow(words: &Words, kept: &Arc<Kept>, tell: &Tell, mut leading: Recording) -> Result<()> {
    let (mut since, mut first, mut next) = (clock::now(), UNKNOWN, None::<Recording>);
    let (mut trouble, mut failed) = (Ok(()), None);
    loop {
        thread::sleep(LOOK);
        if leading.thread.is_finished() {
            let handed = leading.turn.to() != UNKNOWN;
            trouble = trouble.and(leading.join());
            match next.take() {
                Some(following) => {
                    if trouble.is_err() || !handed {
                        following.stop.ask();
                    }
                    (leading, since) = (following, clock::now());
                }
                None => return trouble,
            }
        }
        if first == UNKNOWN {
            first = leading.turn.from();
        }
        let over = words.duration.is_some_and(|d| clock::now() >= first.saturating_add(d));
        if over || signals::stop().times() > 0 || trouble.is_err() {
            next.iter().chain([&leading]).for_each(|r| r.stop.ask());
            continue;
        }
        match &next {
            None if clock::now() >= since + words.restart && leading.turn.from() != UNKNOWN => {
                match Recording::start(words, kept, tell, Some(leading.turn.from())) {
                    Ok(following) => next = Some(following),
                    Err(error) => failed = Some(error),
                }
            }
            Some(following) if following.thread.is_finished() => {
                leading.turn.to.store(UNKNOWN, Ordering::Release);
                since = clock::now();
                failed = next.take().and_then(|following| following.join().err());
            }
            Some(following) => leading.turn.to.store(following.turn.from(), Ordering::Release),
            None => {}
        }
        if let Some(error) = failed.take() {
            since = clock::now();
            let says = format!("a recording could not take over; the one before goes on: {error:#}");
            trouble = locked(tell)(Told::Trouble(says));
        }
    }
}

type Tell = Arc<Mutex<Box<dyn FnMut(Told) -> Result<()> + Send>>>;

/// Of which moments a recording tells, ns CLOCK_MONOTONIC: from the begin of a window to the end of one.
#[derive(Debug)]
struct Turn {
    from: AtomicU64,
    to: AtomicU64,
}

impl Turn {
    fn from(&self) -> u64 {
        self.from.load(Ordering::Acquire)
    }

    fn to(&self) -> u64 {
        self.to.load(Ordering::Acquire)
    }
}

/// One of the recordings.
struct Recording {
    thread: JoinHandle<Result<()>>,
    stop: Arc<Stop>,
    turn: Arc<Turn>,
}

impl Recording {
    /// `grid`: begin of a window of the one before, ns; None: there is none.
    fn start(words: &Words, kept: &Arc<Kept>, tell: &Tell, grid: Option<u64>) -> Result<Self> {
        let stop = Arc::new(Stop::new());
        let turn = Arc::new(Turn { from: AtomicU64::new(UNKNOWN), to: AtomicU64::new(UNKNOWN) });
        let tape = Arc::new(Mutex::new(Tape::new(words.keep, words.memory)?));
        let options = Options {
            dir: locked(&tape).trace(),
            selection: Selection::parse(&words.events)?,
            target: Target::Everything,
            everyone: true,
            stack_threshold: 1_000_000,
            sampling: Sampling::Rate(SAMPLES),
            output_apart: false,
            only_target: false,
            devices: Vec::new(),
            buffer: 0,
            keep: None,
            spans: Spans { asked: Vec::new(), programs: false, waits: true, texts: false },
            budget: words.budget,
            duration: None,
            flush: FLUSH.min(Duration::from_nanos(words.window)),
            eager: true,
            named: false,
            triggers: words.triggers.clone(),
        };
        let reader = Reader {
            window: words.window,
            keep: words.keep,
            slow: words.slow,
            grid,
            turn: Arc::clone(&turn),
            stop: Arc::clone(&stop),
            tape,
            kept: Arc::clone(kept),
            tell: Arc::clone(tell),
        };
        // The recorder works on its files behind their reader's end.
        let (stopped, held) = (Arc::clone(&stop), Arc::clone(&reader.tape));
        // On a thread of its own: a recorder gives up what it needed to begin.
        let record = move || {
            let read = move |beside| {
                let end = EndOnFailure(Arc::clone(&reader.stop));
                reader.read(beside)?;
                std::mem::forget(end);
                Ok(())
            };
            let recorded = plumb_probe::record_beside(&options, &stopped, |_| (), read);
            drop(held);
            let (outcome, read) = recorded?;
            if let Some(error) = outcome.error {
                bail!("the recording ended early: {error}");
            }
            read.context("the thread that reads the recording has failed")?
        };
        let thread = thread::Builder::new().name("recorder".into()).spawn(record);
        Ok(Self { thread: thread.context("a thread for the recorder")?, stop, turn })
    }

    fn join(self) -> Result<()> {
        let Ok(done) = self.thread.join() else { bail!("the recorder has failed") };
        done
    }
}

/// Ends the recording when it is dropped: nobody looks at what is recorded any more.
struct EndOnFailure(Arc<Stop>);

impl Drop for EndOnFailure {
    fn drop(&mut self) {
        self.0.ask();
    }
}

/// Who reads a recording and tells of it.
struct Reader {
    /// Length of a window, and how long the tape goes back, ns.
    window: u64,
    keep: u64,
    /// Requests longer than this are told of, ns.
    slow: Option<u64>,
    grid: Option<u64>,
    turn: Arc<Turn>,
    stop: Arc<Stop>,
    tape: Arc<Mutex<Tape>>,
    kept: Arc<Kept>,
    tell: Tell,
}

impl Reader {
    fn read(&self, mut beside: Beside) -> Result<()> {
        let from = turn_begins(beside.begin, self.grid, self.keep, self.window);
        self.turn.from.store(from, Ordering::Release);
        let (dir, begin) = (beside.dir.clone(), beside.begin);
        locked(&self.tape).named_by(beside.asks());
        let mut windows = Windows::open(&dir, begin, from, self.window, AHEAD)?;
        if let Some(limit) = self.slow {
            windows.watch_requests(limit);
        }
        let mut leads = self.grid.is_none();
        if leads {
            self.kept.is_on(&self.tape);
        }
        loop {
            let mut over = Vec::new();
            let published = windows.next(&mut beside, |window| over.push(window))?;
            locked(&self.tape).published(&published);
            let to = self.turn.to();
            if !leads && !published.last && published.until >= from {
                leads = true;
                self.kept.is_on(&self.tape);
            }
            for fired in windows.triggers() {
                if (from..to).contains(&fired.end) {
                    self.tell(Told::Trigger(fired))?;
                }
            }
            for request in windows.slow_requests() {
                if (from..to).contains(&request.end) {
                    self.tell(Told::Slow(request))?;
                }
            }
            for window in over.into_iter().filter(|w| w.begin < to) {
                if window.end >= to {
                    self.stop.ask();
                }
                self.tell(Told::Window(Box::new(window)))?;
            }
            if published.last {
                return Ok(());
            }
            if leads {
                self.tell(Told::Until(published.until.min(to)))?;
            }
        }
    }

    fn tell(&self, what: Told) -> Result<()> {
        locked(&self.tell)(what)
    }
}

/// From when on a recording that began at `begin` tells: behind another with windows of `window` from `grid` on it has
/// kept `keep` by then, and begins where a window does. All ns.
fn turn_begins(begin: u64, grid: Option<u64>, keep: u64, window: u64) -> u64 {
    match grid {
        None => begin,
        Some(grid) => grid + (begin + keep).saturating_sub(grid).div_ceil(window) * window,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_begins_with_a_window_and_a_whole_tape() {
        assert_eq!(turn_begins(1234, None, 30, 60), 1234);
        for begin in 1000..1200 {
            let from = turn_begins(begin, Some(7), 30, 60);
            assert_eq!((from - 7) % 60, 0, "where a window of the one before ends");
            assert!(from >= begin + 30 && from < begin + 30 + 60, "{begin}: {from}");
        }
    }
}
