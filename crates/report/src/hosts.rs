// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings of several hosts as a document, and the requests between them as a part of one.

use crate::document::{Absent, Document, RecordingRow};
use crate::run::empty;
use crate::run_directory::Calendar;
use plumb_analysis::hosts::{Hosts, Member, Set};

/// Names in a title.
const NAMES: usize = 8;

/// The document of a set.
pub fn document(set: Set, utc: Calendar) -> Document {
    let Set { members, hosts } = set;
    let made = members.iter().map(|m| m.recorded).filter(|seconds| *seconds > 0).min();
    let mut names: Vec<&str> = members.iter().take(NAMES).map(|m| m.name.as_str()).collect();
    if members.len() > NAMES {
        names.push("...");
    }
    let mut document = empty("hosts", &names.join(", "), &made.map(utc).unwrap_or_default());
    document.recordings = members.iter().map(recording).collect();
    put(&mut document, hosts);
    document
}

fn recording(member: &Member) -> RecordingRow {
    let name = member.name.clone();
    let analysis = match &member.analysis {
        Ok(analysis) => analysis,
        Err(e) => return RecordingRow { name, error: format!("{e:#}"), ..RecordingRow::default() },
    };
    RecordingRow {
        name,
        hostname: analysis.environment.get("hostname").cloned().unwrap_or_default(),
        elapsed: analysis.result.end.saturating_sub(analysis.result.begin),
        events: analysis.quality.events,
        lost: analysis.quality.lost,
        verdict: analysis.diagnosis.verdict.first().cloned().unwrap_or_default(),
        error: String::new(),
    }
}

/// Puts the requests between hosts into a document, or why there are none.
pub fn put(document: &mut Document, hosts: Hosts) {
    if hosts.is_empty() {
        let why = if hosts.segments == 0 {
            "No TCP segments over network devices were recorded; record all hosts at the same time with --events default,tcp."
        } else {
            "No request on a TCP connection was seen from its begin to its answer."
        };
        document.absent.push(Absent { part: "hosts".into(), why: why.into() });
    }
    document.hosts = Some(hosts.bounded());
}
