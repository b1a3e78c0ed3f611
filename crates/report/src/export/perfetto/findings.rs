// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The verdict, what was found, and where events are missing.

use super::packets::{Arg, Event, Packets};
use plumb_diagnose::{Diagnosis, Evidence};
use plumb_trace::reader::Gap;
use std::io::Write;

fn said(e: &Evidence) -> String {
    if e.label.is_empty() {
        e.words.clone()
    } else {
        format!("{}: {}", e.label, e.words)
    }
}

/// Writes each finding as a slice over the run, with what it rests on.
pub fn write<W: Write>(diagnosis: &Diagnosis, begin: u64, end: u64, out: &mut Packets<W>) {
    let top = out.top(begin, "plumb: findings");
    let track = out.below(begin, top, "verdict", 0);
    let mut args = vec![("kind", Arg::Text(diagnosis.kind.name().into()))];
    args.extend(diagnosis.verdict.iter().map(|sentence| ("sentence", Arg::Text(sentence.clone()))));
    let event = Event { track, name: "verdict", category: "finding", args, ..Event::default() };
    out.slice(begin, end, event);
    for finding in &diagnosis.findings {
        let track = out.below(begin, top, &finding.title, 0);
        let mut args = vec![
            ("rule", Arg::Text(finding.id.clone())),
            ("share", Arg::Double(finding.share)),
            ("time_ns", Arg::Uint(finding.time)),
            ("speedup", Arg::Double(finding.speedup.estimate)),
            ("speedup_low", Arg::Double(finding.speedup.low)),
            ("speedup_high", Arg::Double(finding.speedup.high)),
            ("seen", Arg::Text(finding.words.clone())),
            ("next", Arg::Text(finding.next.clone())),
        ];
        args.extend(finding.doubt.iter().map(|doubt| ("doubt", Arg::Text(doubt.clone()))));
        args.extend(finding.evidence.iter().map(|e| ("evidence", Arg::Text(said(e)))));
        let event = Event { track, name: &finding.title, category: "finding", args, ..Event::default() };
        out.slice(begin, end, event);
        // Its own moments lie beside: within the slice they would have to nest.
        let mut moments: Vec<_> = finding.evidence.iter().filter_map(|e| Some((e.at?, e))).collect();
        moments.sort_by_key(|(at, _)| *at);
        for (lane, (at, e)) in moments.into_iter().enumerate() {
            let track = out.below(begin, track, "evidence", lane as u32);
            let mut args = vec![("evidence", Arg::Text(said(e)))];
            args.extend(e.tid.map(|tid| ("tid", Arg::Uint(tid.into()))));
            let event = Event { track, name: "evidence", category: "finding", args, ..Event::default() };
            let from = begin.saturating_add(at);
            out.slice(from, from.saturating_add(e.time.unwrap_or(0)), event);
        }
    }
}

/// Writes an interval in which events of a CPU are missing.
pub fn gap<W: Write>(gap: &Gap, end: u64, out: &mut Packets<W>) {
    let top = out.top(gap.begin, "plumb: lost events");
    let track = out.below(gap.begin, top, &format!("CPU {}", gap.cpu), 0);
    let args = vec![("events", Arg::Uint(gap.lost)), ("cpu", Arg::Uint(gap.cpu.into()))];
    let event = Event { track, name: "lost events", category: "lost", args, ..Event::default() };
    out.slice(gap.begin, gap.end.min(end).max(gap.begin), event);
}
