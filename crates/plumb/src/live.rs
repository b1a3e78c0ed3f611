// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The whole machine, recorded into memory and analysed window by window: what `plumb top` shows and `plumb watch` keeps.

pub mod shown;

use anyhow::{bail, Context, Result};
use plumb_analysis::windows::{Window, Windows};
use plumb_machine::signals;
use plumb_probe::{Beside, Options, Sampling, Selection, Spans, Tape, Target, Trigger};
use plumb_trace::schema::StateTrigger;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What was recorded comes to its reader so often.
const FLUSH: Duration = Duration::from_millis(250);
/// What the recorder tells of a moment later than this is not in its window, ns.
const AHEAD: u64 = 500_000_000;
/// So many samples a second of what each CPU is at: a window of a second has as many of a service that takes one CPU.
const SAMPLES: u64 = 99;

/// What is recorded, and how it is cut.
#[derive(Debug, Clone)]
pub struct Words {
    /// Length of a window, ns.
    pub window: u64,
    /// Events and sets, as for `plumb record`.
    pub events: String,
    /// Told of when they come true.
    pub triggers: Vec<Trigger>,
    /// Most that recording may cost, as a share of the CPUs' time.
    pub budget: Option<f64>,
    /// End after this long, ns.
    pub duration: Option<u64>,
}

/// What its reader is told of, in the order of time.
pub enum Told {
    /// A window is over.
    Window(Box<Window>),
    /// A trigger's condition came true.
    Trigger(StateTrigger),
    /// All until then was read, ns CLOCK_MONOTONIC.
    Until(u64),
}

/// What several threads have, also behind one that failed.
pub fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records until somebody asks to stop or the time is over; `tell` is called on a thread of its own.
///
/// # Errors
/// Nothing can be recorded, or what was recorded not be read.
pub fn record(
    words: &Words,
    tape: &std::sync::Arc<Mutex<Tape>>,
    tell: impl FnMut(Told) -> Result<()> + Send + 'static,
) -> Result<()> {
    let options = Options {
        dir: locked(tape).trace(),
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
        duration: words.duration,
        flush: FLUSH.min(Duration::from_nanos(words.window)),
        eager: true,
        named: false,
        triggers: words.triggers.clone(),
    };
    let (length, read) = (words.window, std::sync::Arc::clone(tape));
    let reader = move |beside| {
        let end = EndOnFailure;
        read_all(beside, length, &read, tell)?;
        std::mem::forget(end);
        Ok(())
    };
    let (outcome, read) = plumb_probe::record_beside(&options, signals::stop(), |_| (), reader)?;
    if let Some(error) = outcome.error {
        bail!("the recording ended early: {error}");
    }
    read.context("the thread that reads the recording has failed")?
}

/// Ends the recording when it is dropped: nobody looks at what is recorded any more.
struct EndOnFailure;

impl Drop for EndOnFailure {
    fn drop(&mut self) {
        signals::stop().ask();
    }
}

fn read_all(
    mut beside: Beside,
    length: u64,
    tape: &Mutex<Tape>,
    mut tell: impl FnMut(Told) -> Result<()>,
) -> Result<()> {
    let dir = beside.dir.clone();
    let mut windows = Windows::open(&dir, beside.begin, length, AHEAD)?;
    loop {
        let mut over = Vec::new();
        let published = windows.next(&mut beside, |window| over.push(window))?;
        locked(tape).published(&published);
        for trigger in windows.triggers() {
            tell(Told::Trigger(trigger))?;
        }
        for window in over {
            tell(Told::Window(Box::new(window)))?;
        }
        tell(Told::Until(published.until))?;
        if published.last {
            return Ok(());
        }
    }
}
