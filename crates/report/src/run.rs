// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recorded run as a document, and what it has not.

use crate::collect::Collected;
use crate::document::{Absent, Document, ProfileDocument, Quality, Run};
use crate::words::words;
use plumb_diagnose::Diagnosis;
use plumb_model::RunResult;
use std::collections::BTreeMap;

/// A document without any part yet.
pub fn empty(kind: &str, title: &str, made: &str) -> Document {
    Document {
        plumb: env!("CARGO_PKG_VERSION").into(),
        kind: kind.into(),
        title: title.into(),
        made: made.into(),
        words: words(),
        ..Document::default()
    }
}

/// What was found in a run.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// Machine, target and options.
    pub environment: BTreeMap<String, String>,
    /// Words that plumb was called with, where they are known.
    pub arguments: Vec<String>,
    /// How far the trace can be trusted.
    pub quality: Quality,
    pub diagnosis: Diagnosis,
    pub result: RunResult,
    /// What only the trace tells.
    pub traced: Option<Traced>,
}

/// What only the trace tells.
#[derive(Debug, Clone, Default)]
pub struct Traced {
    /// The profile in the page's form; none where it has no time.
    pub profile: Option<ProfileDocument>,
    /// Timeline, requests, operations.
    pub rows: Collected,
}

/// Puts a run into a document, and tells what is absent. `without_trace`: why what only the trace
/// tells is not there, where it is not.
pub fn put(document: &mut Document, found: Found, without_trace: &str) {
    let Found { environment, arguments, quality, diagnosis, result, traced } = found;
    let recorded = |event: &str| {
        let events = environment.get("events").map_or("", String::as_str);
        events.split(',').any(|e| e == event)
    };
    let mut absent = Vec::new();
    let mut lacks = |part: &str, why: &str| absent.push(Absent { part: part.into(), why: why.into() });

    let account = quality.no_account.is_empty();
    let no_account = format!(
        "{} was not recorded; record with --events default, or without --events.",
        quality.no_account.join(" and ")
    );
    if !account {
        lacks("account", &no_account);
    }
    if result.locks.is_empty() {
        let why = if !account {
            &no_account
        } else if recorded("contention_begin") || recorded("sys_enter") {
            "No thread of the target slept for a lock."
        } else {
            "Neither contentions of the kernel's locks nor system calls were recorded; record with --events default."
        };
        lacks("locks", why);
    }
    let mut run = Run { environment, arguments, quality, diagnosis, result, ..Run::default() };
    match traced {
        None => {
            for part in ["timeline", "profile", "requests", "operations"] {
                lacks(part, without_trace);
            }
        }
        Some(Traced { profile, rows }) => {
            if rows.timeline.intervals.rows > 0 {
                run.timeline = Some(rows.timeline);
            } else {
                lacks("timeline", if account { "Nothing of the target was seen." } else { &no_account });
            }
            if profile.is_none() {
                lacks("profile", if account { "No time of the target was seen." } else { &no_account });
            }
            run.profile = profile;
            let events = run.environment.get("events").map_or("", String::as_str);
            let blocks = events.split(',').any(|e| e == "block_rq_complete");
            if rows.requests.table.rows > 0 {
                run.requests = Some(rows.requests);
            } else if blocks {
                lacks("requests", "No block request completed while it was recorded.");
            } else {
                lacks("requests", "Block events were not recorded; record with --events default.");
            }
            if rows.operations.table.rows > 0 {
                run.operations = Some(rows.operations);
            } else {
                lacks(
                    "operations",
                    "No workload told of its operations; plumb load does when it is recorded.",
                );
            }
        }
    }
    document.run = Some(run);
    document.absent.extend(absent);
}
