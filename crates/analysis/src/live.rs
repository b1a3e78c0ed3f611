// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pass over a trace while it is recorded: the verdict is there soon after the end, however long it was.

use crate::pass::{Reading, Wanted};
use crate::{setup, Analysis};
use anyhow::{Context, Result};
use plumb_model::{has_interpreter, Observer};
use plumb_trace::reader::{Following, News, State, Trace};
use std::path::Path;

impl Analysis {
    /// Reads the trace in `dir` as it grows, as [`Analysis::read`] does when it is whole, and with the same result;
    /// `begin`: when its target began, ns.
    ///
    /// # Errors
    /// What is known only at the end, or comes too late, would change what was read before: the trace is to be read
    /// again, whole.
    pub fn live<O: Observer>(
        dir: &Path,
        begin: u64,
        news: &mut impl News,
        observer: O,
    ) -> Result<(Trace, Self, O)> {
        let mut following = Following::open(dir, begin)?;
        let env = following.metadata().env.clone();
        let setup = setup::of(&env, (begin, u64::MAX));
        let mut reading = Reading::new(setup, &env, Wanted::Findings, observer);
        let state = following.follow(news, |item| reading.model.feed(item))?;
        let end = whole(state, begin)?;
        reading.model.ends_at(end);
        let (trace, summary) = following.rest(|item| reading.model.feed(item))?;
        let (analysis, observer) = reading.finish(&trace, &summary, Wanted::Findings, &[])?;
        Ok((trace, analysis, observer))
    }
}

/// When a trace ends of which nothing was wanted earlier than it was told.
fn whole(state: &State, begin: u64) -> Result<u64> {
    let end = state.end.as_ref().filter(|end| end.begin == begin).context("the recording was cut off")?;
    anyhow::ensure!(!has_interpreter(state), "the lock of an interpreter is known by names found at the end");
    Ok(end.end)
}
