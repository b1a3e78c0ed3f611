// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A set of runs as a document: its median run, and beside it how far all of them agree.

use anyhow::Result;
use plumb_compare::set::{median_of, read_set, Repetition, SetFile};
use plumb_machine::utc_of;
use plumb_report::document::{Document, Repeated, Set, Spread};
use plumb_report::document_files::PAGE;
use plumb_report::run_directory::{self, Seen};
use plumb_stats::repetitions;
use plumb_trace::units;
use std::collections::BTreeMap;
use std::path::Path;

/// Of a set's directory.
///
/// # Errors
/// The set cannot be read, none of its repetitions is whole, or nothing is left of the median one.
pub fn read(dir: &Path) -> Result<Document> {
    let set = read_set(dir)?;
    let middle = median_of(dir, &set)?;
    Ok(of(dir, &set, middle, super::run(&dir.join(&middle.dir))?))
}

/// Of a set whose median run was read.
pub fn document(dir: &Path, set: &SetFile, middle: &Repetition, seen: &Seen) -> Document {
    of(dir, set, middle, run_directory::document(&dir.join(&middle.dir), seen, utc_of))
}

fn of(dir: &Path, set: &SetFile, middle: &Repetition, mut document: Document) -> Document {
    let elapsed = spread(set);
    document.title =
        format!("{} (median of {} runs)", document.title, units::count(whole(set).count() as u64));
    document.set = Some(Set {
        median_run: middle.dir.clone(),
        asked: set.asked,
        ended_early: set.ended_early.clone().unwrap_or_default(),
        elapsed,
        repetitions: set.repetitions.iter().map(|r| repeated(&dir.join(&r.dir), r)).collect(),
    });
    document
}

fn whole(set: &SetFile) -> impl Iterator<Item = &Repetition> {
    set.repetitions.iter().filter(|r| r.complete)
}

fn spread(set: &SetFile) -> Spread {
    let all: Vec<f64> = whole(set).map(|r| r.elapsed as f64).collect();
    let interval = repetitions::median_interval(&all);
    Spread {
        median: repetitions::median(&all),
        least: all.iter().copied().fold(f64::MAX, f64::min),
        most: all.iter().copied().fold(0.0, f64::max),
        low: interval.map(|i| i.low),
        high: interval.map(|i| i.high),
    }
}

/// A repetition with what its directory keeps; what cannot be read there is empty.
fn repeated(dir: &Path, of: &Repetition) -> Repeated {
    let (mut verdict, mut account) = (String::new(), BTreeMap::new());
    if let Ok(Some(found)) = run_directory::kept(dir) {
        verdict = found.diagnosis.verdict.into_iter().next().unwrap_or_default();
        for process in &found.result.processes {
            for (category, time) in &process.account {
                *account.entry(category.to_string()).or_default() += time;
            }
        }
    }
    Repeated {
        dir: of.dir.clone(),
        complete: of.complete,
        elapsed: of.elapsed,
        exit_code: of.exit_code,
        lost: of.lost,
        verdict,
        account,
        page: dir.join(PAGE).exists(),
    }
}
