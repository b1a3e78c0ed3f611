// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waiting for processes, remote peers and timers.

use crate::case::{Case, Seen};
use crate::Evidence;
use plumb_model::Category;
use plumb_trace::units;

const LOCAL: &[Category] = &[
    Category::Pipe,
    Category::Socket,
    Category::Signalled,
    Category::Child,
    Category::OtherRunning,
    Category::OtherRunnable,
    Category::OtherWaiting,
];

/// Least retransmission timeout of TCP (TCP_RTO_MIN), ns.
const RTO_MIN: f64 = 200e6;
const REMOTE: &[Category] = &[Category::Network, Category::Socket];

pub fn retransmit(case: &mut Case<'_>) -> Option<Seen> {
    let again = case.result.retransmits;
    let waited = case.left(REMOTE);
    if again == 0 || waited == 0.0 {
        return None;
    }
    let evidence = case.longest(REMOTE);
    let time = case.take(REMOTE, again as f64 * RTO_MIN);
    Some(Seen {
        time,
        words: format!(
            "{} TCP segments retransmitted; the retransmission timeout is 200 ms or more",
            units::count(again)
        ),
        evidence,
        doubt: vec![
            "which waits the retransmissions prolonged is unknown: the share is an upper limit".into()
        ],
        ..Seen::default()
    })
}

pub fn remote(case: &mut Case<'_>) -> Option<Seen> {
    let evidence = case.longest(&[Category::Network]);
    let time = case.take_all(&[Category::Network]);
    (time > 0).then(|| Seen {
        time,
        words: format!("{} waiting for data from the network", units::brief(time)),
        evidence,
        ..Seen::default()
    })
}

pub fn local(case: &mut Case<'_>) -> Option<Seen> {
    let (who, most) = (case.who(LOCAL), case.most(LOCAL));
    let mut evidence = Vec::new();
    if !who.is_empty() {
        evidence.push(Evidence::new("waits for", who));
    }
    evidence.extend(case.longest(LOCAL));
    let time = case.take_all(LOCAL);
    (time > 0).then(|| Seen {
        time,
        headline: if most.is_empty() {
            String::new()
        } else {
            format!("waiting for another process, {most}")
        },
        words: format!("{} waiting for other threads and processes", units::brief(time)),
        evidence,
        next: if most.is_empty() { String::new() } else { format!("record {most} too: plumb run --pid PID") },
        ..Seen::default()
    })
}

pub fn sleep(case: &mut Case<'_>) -> Option<Seen> {
    let evidence = case.longest(&[Category::Timer]);
    let time = case.take_all(&[Category::Timer]);
    (time > 0).then(|| Seen {
        time,
        words: format!("{} sleeping on timers", units::brief(time)),
        evidence,
        ..Seen::default()
    })
}
