// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What runs concurrently with a measurement, and is no part of it.

use super::{disks, mounts, plain, Ground, Part};
use crate::analysis::cells::NOT_VALID;
use crate::file::Settings;
use anyhow::{Context, Result};
use plumb_machine::child::{wait_all, Child, Waited};
use plumb_undo::guarded_journal::{append, last_words, GuardedJournal};
use plumb_undo::timeout;
use std::time::Instant;

/// What it says, in the repetition's directory.
const OUTPUT: &str = "neighbour.txt";

/// Makes it ready to run: none, or one process.
pub(super) fn of(
    settings: &Settings,
    ground: Ground<'_>,
    guarded: &mut GuardedJournal,
) -> Result<Vec<Child>> {
    let Some(words) = &settings.neighbour else { return Ok(Vec::new()) };
    let part = Part { words: ground.command(words, 0), json: None };
    let said = append(&ground.dir.join(OUTPUT))?;
    let command = plain(&part, ground, &said)?;
    let child = guarded.unconfined(|guarded| guarded.command(command, true));
    Ok(vec![child.context("neighbour")?])
}

/// Ends it with all its children. One that ended before the measurement did not run all the time.
pub(super) fn end(
    neighbour: &mut [Child],
    ground: Ground<'_>,
    waited: Waited,
    guarded: &mut GuardedJournal,
) -> Vec<String> {
    let mut doubts = Vec::new();
    let early = wait_all(neighbour, Some(Instant::now()), false) == Waited::Ended;
    if let (Some(child), Waited::Ended, true) = (neighbour.first(), waited, early) {
        let how = child.status().map_or_else(String::new, |status| format!(" ({status})"));
        let words = last_words(&ground.dir.join(OUTPUT), 0);
        doubts.push(format!("{NOT_VALID}the neighbour ended before the measurement did{how}{words}"));
    }
    let places = ground.places;
    if !early {
        doubts.extend(timeout::end(neighbour, &mounts(places), &disks(places), guarded.journal.devices()));
    }
    for child in neighbour.iter() {
        guarded.guardian.ended(child.pid());
    }
    doubts
}
