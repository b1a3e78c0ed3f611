// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The whole machine, recorded into memory without end and analysed window by window: what `plumb top` shows and
//! `plumb watch` keeps.

pub mod metrics;
pub mod otlp;
mod relay;
pub mod shown;
pub mod triggers;

use anyhow::{Context, Result};
use plumb_analysis::windows::Window;
use plumb_model::SlowRequest;
use plumb_probe::{Tape, Trigger};
use plumb_trace::schema::StateTrigger;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use plumb_probe::Taken;
pub use relay::record;

/// What is recorded, and how it is cut.
#[derive(Debug, Clone)]
pub struct Words {
    /// Length of a window, ns.
    pub window: u64,
    /// Events and sets, as for `plumb record`.
    pub events: String,
    /// Told of when they come true.
    pub triggers: Vec<Trigger>,
    /// Told of requests that took longer than this, ns.
    pub slow: Option<u64>,
    /// Most that recording may cost, as a share of the CPUs' time.
    pub budget: Option<f64>,
    /// So much is kept of what was recorded, ns, in at most so many bytes.
    pub keep: u64,
    pub memory: u64,
    /// A new recording takes over after this long, ns: what holds for all of one (names, stacks) grows.
    pub restart: u64,
    /// End after this long, ns.
    pub duration: Option<u64>,
}

/// What its reader is told of, in the order of time.
pub enum Told {
    /// A window is over.
    Window(Box<Window>),
    /// A trigger's condition came true.
    Trigger(StateTrigger),
    /// A request took too long.
    Slow(SlowRequest),
    /// Something went wrong, and the recording goes on.
    Trouble(String),
    /// All until then was read, ns CLOCK_MONOTONIC.
    Until(u64),
}

/// What several threads have, also behind one that failed.
pub(crate) fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last seconds of what is recorded.
#[derive(Debug, Default)]
pub struct Kept(Mutex<Option<Arc<Mutex<Tape>>>>);

impl Kept {
    /// Takes what is kept; `of`: what it is taken for. Writing it may take long, and nobody waits for it meanwhile.
    ///
    /// # Errors
    /// Nothing was recorded yet, or it cannot be read.
    pub fn take(&self, reason: &str, of: Option<&StateTrigger>) -> Result<Taken> {
        let tape = locked(&self.0).clone().context("nothing was recorded yet")?;
        let tape = locked(&tape);
        tape.take(reason, of)
    }

    fn is_on(&self, tape: &Arc<Mutex<Tape>>) {
        *locked(&self.0) = Some(Arc::clone(tape));
    }
}
