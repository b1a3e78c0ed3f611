// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waiting for others, near and far, and for time to pass.

use crate::case::{Case, Seen};
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

/// Least time that TCP waits before it sends again (TCP_RTO_MIN), ns.
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
            "{} TCP segments were sent again, at the earliest after 200 ms each",
            units::count(again)
        ),
        evidence,
        doubt: vec![
            "which wait each of them lengthened is not known: at most the time that they take together"
                .into(),
        ],
    })
}

pub fn remote(case: &mut Case<'_>) -> Option<Seen> {
    let evidence = case.longest(&[Category::Network]);
    let time = case.take_all(&[Category::Network]);
    (time > 0).then(|| Seen {
        time,
        words: format!("waited {} for the network", units::duration(time)),
        evidence,
        ..Seen::default()
    })
}

pub fn local(case: &mut Case<'_>) -> Option<Seen> {
    let who = case.who(LOCAL);
    let evidence = case.longest(LOCAL);
    let time = case.take_all(LOCAL);
    (time > 0).then(|| Seen {
        time,
        words: format!(
            "waited {} for {}",
            units::duration(time),
            if who.is_empty() { "others".into() } else { who }
        ),
        evidence,
        ..Seen::default()
    })
}

pub fn sleep(case: &mut Case<'_>) -> Option<Seen> {
    let evidence = case.longest(&[Category::Timer]);
    let time = case.take_all(&[Category::Timer]);
    (time > 0).then(|| Seen {
        time,
        words: format!("slept {} until a time that it had asked for", units::duration(time)),
        evidence,
        ..Seen::default()
    })
}
