// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waiting for processes, remote peers and timers.

use super::lock::activities;
use crate::case::{Case, Seen};
use crate::places::Of;
use crate::Evidence;
use plumb_model::{BlockerRow, Category, TCP_AGAIN, TCP_TIMER};
use plumb_trace::units;
use std::collections::BTreeMap;

/// Waits for processes of this host.
pub(crate) const LOCAL: &[Category] = &[
    Category::Pipe,
    Category::Socket,
    Category::Signalled,
    Category::Child,
    Category::OtherRunning,
    Category::OtherRunnable,
    Category::OtherWaiting,
];
const SIGNAL: &[Category] = &[Category::Signal];

/// Least retransmission timeout of TCP (TCP_RTO_MIN), ns.
const RTO_MIN: f64 = 200e6;
const REMOTE: &[Category] = &[Category::Network, Category::Socket];
const NETWORK: &[Category] = &[Category::Network];

/// Retransmissions. A listener without room in its accept queue drops what asks for a connection, which is sent again
/// (net/ipv4/tcp_input.c: tcp_conn_request()).
pub fn retransmit(case: &mut Case<'_>) -> Option<Seen> {
    let mut seen = sent_again(case)?;
    let overflows = case.counter("tcp.ListenOverflows");
    if overflows * 2 >= case.result.retransmits {
        seen.headline = "TCP retransmissions, while a listener's accept queue was full on this host".into();
        seen.evidence.insert(
            0,
            Evidence::new(
                "accept queue",
                format!("full {} times (TcpExtListenOverflows)", units::count(overflows)),
            ),
        );
        seen.doubt
            .push("whose accept queue was full is unknown: the kernel counts for all of the host".into());
        seen.next = "let the server accept faster (more workers), or give it a longer queue: the backlog of listen(2), net.core.somaxconn ('ss -lt' shows both)".into();
    }
    Some(seen)
}

fn sent_again(case: &mut Case<'_>) -> Option<Seen> {
    let again = case.result.retransmits;
    // Calls on a socket say it where it is recorded; polls do not.
    let remote = if case.result.retransmit_waiters { NETWORK } else { REMOTE };
    let waited = case.left(remote);
    if again == 0 || waited == 0.0 {
        return None;
    }
    let known = case.result.path.parts.iter().filter(|p| p.who == TCP_AGAIN).map(|p| p.time).sum::<u64>();
    if known > 0 {
        let evidence = case.longest_behind(TCP_AGAIN);
        let time = case.take(&[Category::Network], known as f64);
        return Some(Seen {
            time,
            words: format!(
                "{} TCP segments retransmitted; {} waiting until then",
                units::count(again),
                units::brief(known)
            ),
            evidence,
            ..Seen::default()
        });
    }
    let evidence = case.longest(remote);
    // None of them prolonged a wait by more than the longest wait.
    let waits = remote.iter().filter_map(|c| case.result.longest.get(c)).flatten();
    let longest = waits.map(|w| w.time).max().unwrap_or(0);
    let time = case.take(remote, again as f64 * RTO_MIN.min(longest as f64));
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

/// Waits for what a timer of TCP on this host let go: with retransmissions taken before, delayed acknowledgements.
pub fn delayed(case: &mut Case<'_>) -> Option<Seen> {
    let parts = &case.result.path.parts;
    let rows = parts.iter().filter(|p| p.category == Category::Network && p.who == TCP_TIMER);
    let ns: u64 = rows.map(|p| p.time).sum();
    let evidence = case.longest_behind(TCP_TIMER);
    let time = case.take(NETWORK, ns as f64);
    (time > 0).then(|| Seen {
        time,
        words: format!(
            "{} waiting for data that its sender on this host held back until an acknowledgement, which TCP delays by 40 ms or more",
            units::brief(time)
        ),
        evidence,
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

/// The threads of the target that requests waited for, with their shares of `all`, and what those did meanwhile.
pub(crate) fn blockers(case: &Case<'_>, all: u64) -> Vec<Evidence> {
    let name = |b: &BlockerRow| {
        // A server tells in its title whom it serves, and how far it is.
        let process = case.result.processes.iter().find(|p| p.pid == b.pid);
        let title = process.map_or("", |p| p.cmdline.as_str()).strip_prefix(&format!("{}: ", b.comm));
        let title = title.map_or(String::new(), |title| format!(": {title}"));
        format!("{} ({}{title}) {:.0} %", b.comm, b.tid, b.time as f64 * 100.0 / all.max(1) as f64)
    };
    let rows = case.result.service.blockers.iter().filter(|b| b.time * 100 >= all).take(3);
    let names: Vec<String> = rows.map(name).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let mut out = vec![Evidence::new("waits for", names.join(", "))];
    let meanwhile = activities(&case.result.service.meanwhile);
    if !meanwhile.is_empty() {
        out.push(Evidence::new("meanwhile", format!("that thread {}", meanwhile.join(", "))));
    }
    out
}

/// Requests that wait for a thread of the target which serves another one: a lock of a database, a worker.
pub fn thread(case: &mut Case<'_>) -> Option<Seen> {
    const WAITS: &[Category] = &[Category::InRequest];
    let most = case.most(WAITS);
    let mut evidence = blockers(case, case.time(WAITS));
    evidence.extend(case.place_fact("waits at", &case.places(WAITS, Of::User), WAITS));
    evidence.extend(case.longest(WAITS));
    let time = case.take_all(WAITS);
    (time > 0).then(|| Seen {
        time,
        headline: if most.is_empty() {
            String::new()
        } else {
            format!("requests waiting for another thread of the target, {most}")
        },
        words: format!(
            "{} waiting for other threads of the target, with a request in progress",
            units::brief(time)
        ),
        evidence,
        ..Seen::default()
    })
}

/// What the processes that the target waited for did meanwhile, with shares; whether they were mostly stopped.
fn peers(case: &Case<'_>) -> (Vec<String>, bool) {
    let rows = &case.result.peers;
    let all: u64 = rows.iter().map(|p| p.time).sum();
    let stopped: u64 = rows.iter().filter(|p| p.category == Category::Stopped).map(|p| p.time).sum();
    let words = |p: &plumb_model::BlameRow| {
        let who = if p.who.is_empty() { String::new() } else { format!("{} ", p.who) };
        let who = match p.category {
            Category::Stopped if !p.who.is_empty() => format!("until {}continued it: ", who),
            _ => who,
        };
        format!("{who}{} {:.0} %", p.category.activity(), p.time as f64 * 100.0 / all.max(1) as f64)
    };
    let shown = rows.iter().filter(|p| p.time * 20 >= all).take(3);
    (shown.map(words).collect(), stopped * 2 > all)
}

/// Stopped by a signal, a tracer or the freezer.
pub fn stopped(case: &mut Case<'_>) -> Option<Seen> {
    const STOPPED: &[Category] = &[Category::Stopped];
    let most = case.most(STOPPED);
    let evidence = case.longest(STOPPED);
    let time = case.take_all(STOPPED);
    (time > 0).then(|| Seen {
        time,
        headline: match most.as_str() {
            "" => "stopped by a signal, a tracer or the freezer".into(),
            who => format!("stopped by a signal, a tracer or the freezer, until {who} continued it"),
        },
        words: format!("{} stopped", units::brief(time)),
        evidence,
        ..Seen::default()
    })
}

/// The system calls in which the target waited so, most time first.
fn call_times<'a>(case: &Case<'a>, waits: &[Category]) -> Vec<(&'a str, u64)> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for call in case.result.processes.iter().flat_map(|p| &p.syscalls) {
        let time: u64 = waits.iter().filter_map(|c| call.account.get(c)).sum();
        *sums.entry(&call.name).or_default() += time;
    }
    let mut sums: Vec<(&str, u64)> = sums.into_iter().collect();
    sums.sort_by_key(|(name, time)| (std::cmp::Reverse(*time), *name));
    sums
}

/// The same in words, with their shares and what they wait on; empty where most of it was in no call.
fn waiting_calls(case: &Case<'_>, waits: &[Category]) -> String {
    let mut sums = call_times(case, waits);
    let all = case.time(waits).max(sums.iter().map(|(_, time)| time).sum());
    sums.retain(|(_, time)| *time * 20 >= all.max(1));
    if sums.iter().map(|(_, time)| time).sum::<u64>() * 2 < all {
        return String::new();
    }
    let words = |(name, time): &(&str, u64)| {
        let on = plumb_model::waits_on(name).map_or(String::new(), |on| format!(" ({on})"));
        format!("{name}{on} {:.0} %", *time as f64 * 100.0 / all as f64)
    };
    sums.iter().take(3).map(words).collect::<Vec<_>>().join(", ")
}

pub fn local(case: &mut Case<'_>) -> Option<Seen> {
    // A signal is waited for from whoever sent it; where nobody did, there is nobody to name.
    let signalled = case.named(SIGNAL);
    let waits: Vec<Category> = LOCAL.iter().chain(SIGNAL.iter().filter(|_| signalled > 0)).copied().collect();
    let (who, most) = (case.who(&waits), case.most(&waits));
    let mut evidence = Vec::new();
    if !who.is_empty() {
        evidence.push(Evidence::new("waits for", who));
    }
    let calls = waiting_calls(case, &waits);
    if !calls.is_empty() {
        evidence.push(Evidence::new("waits in", calls));
    }
    let (meanwhile, stopped) = peers(case);
    if !meanwhile.is_empty() {
        evidence.push(Evidence::new("meanwhile", meanwhile.join(", ")));
    }
    evidence.extend(case.longest(&waits));
    let time = case.take_all(LOCAL) + case.take(SIGNAL, signalled as f64);
    (time > 0).then(|| Seen {
        time,
        headline: if most.is_empty() {
            String::new()
        } else {
            let served = if case.result.service.requests > 0 { "requests " } else { "" };
            let stopped = if stopped { ", which was stopped" } else { "" };
            format!("{served}waiting for another process, {most}{stopped}")
        },
        words: format!("{} waiting for other threads and processes", units::brief(time)),
        evidence,
        next: match (case.result.everyone, most.is_empty()) {
            (true, true) => "look at the processes that it waits for: plumb explain DIR --comm NAME".into(),
            (true, false) => format!("look at the process of {most}: plumb explain DIR --comm NAME"),
            (false, true) => String::new(),
            (false, false) => format!("record {most} too: plumb run --pid PID"),
        },
        ..Seen::default()
    })
}

/// Calls that sleep, or may: select(2) without descriptors does.
const SLEEPS: &[&str] = &["nanosleep", "clock_nanosleep", "select", "pselect6"];

/// Sleeps; and waits for something else that ended at their time limit.
pub fn sleep(case: &mut Case<'_>) -> Option<Seen> {
    const TIMER: &[Category] = &[Category::Timer];
    let (calls, own) = (call_times(case, TIMER), case.time(TIMER));
    let all: u64 = calls.iter().map(|(_, time)| time).sum();
    // Calls and functions are those of all threads: of what requests or a command wait for only where there is hardly anything else.
    let told = all < own * 2;
    let limited =
        calls.first().filter(|(name, time)| told && !SLEEPS.contains(name) && time * 2 > all.max(own));
    let most = case.most(TIMER);
    let mut evidence = Vec::new();
    if limited.is_some() {
        evidence.push(Evidence::new("waits in", waiting_calls(case, TIMER)));
    }
    if told {
        evidence.extend(case.place_fact("waits at", &case.places(TIMER, Of::User), TIMER));
    }
    evidence.extend(case.longest(TIMER));
    let time = case.take_all(TIMER);
    (time > 0).then(|| Seen {
        time,
        headline: match (limited, most.as_str()) {
            (None, "") => String::new(),
            (None, _) => format!("intentional sleep of {most}"),
            (Some((call, _)), "") => format!("waits until their time limit, in {call}"),
            (Some((call, _)), _) => format!("waits of {most} until their time limit, in {call}"),
        },
        words: match limited {
            Some(_) => format!("{} in waits that ended at their time limit", units::brief(time)),
            None => format!("{} sleeping on timers", units::brief(time)),
        },
        evidence,
        next: match limited {
            Some(_) => "shorten the limit if it is the program's own timer, else look for what did not come before it: an answer, a wakeup".into(),
            None => String::new(),
        },
        ..Seen::default()
    })
}
