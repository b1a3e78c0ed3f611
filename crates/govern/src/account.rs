// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What came of it: what foreground and background I/O got while background I/O was limited, and while it was unlimited.

use crate::policy::State;
use crate::watch::Look;
use plumb_probe::classes::{bucket_begins, Counts, BUCKETS};
use serde::Serialize;

/// What a class did in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Did {
    requests: u64,
    bytes: u64,
    buckets: [u64; BUCKETS],
}

impl Default for Did {
    fn default() -> Self {
        Did { requests: 0, bytes: 0, buckets: [0; BUCKETS] }
    }
}

impl Did {
    fn add(&mut self, now: &Counts, before: &Counts) {
        self.requests += now.done.saturating_sub(before.done);
        self.bytes += now.bytes.saturating_sub(before.bytes);
        for (sum, (now, before)) in self.buckets.iter_mut().zip(now.buckets.iter().zip(&before.buckets)) {
            *sum += now.saturating_sub(*before);
        }
    }

    /// The time that this part of the requests did not exceed, ns. The histogram has four buckets to a doubling: it is
    /// right to 12 %.
    fn quantile(&self, part: f64) -> Option<u64> {
        let all: u64 = self.buckets.iter().sum();
        if all == 0 {
            return None;
        }
        let rank = ((all as f64 * part).ceil() as u64).clamp(1, all);
        let mut before = 0;
        for (i, n) in self.buckets.iter().enumerate() {
            if before + n >= rank {
                let (begin, end) = (bucket_begins(i), bucket_begins(i + 1));
                return Some(begin + ((end - begin) as f64 * (rank - before) as f64 / *n as f64) as u64);
            }
            before += n;
        }
        None
    }
}

/// What a class did, to be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Done {
    /// Requests that were done; None: they were not seen.
    pub requests: Option<u64>,
    /// Their bytes.
    pub bytes: u64,
    /// Requests a second of the state's time.
    pub requests_per_s: Option<f64>,
    /// Bytes a second of the state's time.
    pub bytes_per_s: f64,
    /// Median device service time, ns; right to 12 %.
    pub p50_ns: Option<u64>,
    /// 99th percentile of it.
    pub p99_ns: Option<u64>,
}

/// What happened in a state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Part {
    /// How long it lasted, ns.
    pub ns: u64,
    /// Foreground I/O.
    pub normal: Done,
    /// Background I/O.
    pub low: Done,
    /// Write-back that nobody waits for.
    pub writeback: Done,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    ns: u64,
    did: [Did; 3],
}

/// The account of a disk.
#[derive(Debug)]
pub struct Account {
    last: Look,
    at: u64,
    limited: Sum,
    free: Sum,
    requests: bool,
    /// How often background I/O was limited or unlimited, without the first time.
    pub switches: u64,
}

impl Account {
    /// Begins; `requests`: they are seen one by one.
    pub fn new(look: Look, now: u64, requests: bool) -> Account {
        Account { last: look, at: now, limited: Sum::default(), free: Sum::default(), requests, switches: 0 }
    }

    /// Up to now it was in this state.
    pub fn close(&mut self, state: State, look: &Look, now: u64) {
        let sum = if state == State::Limited { &mut self.limited } else { &mut self.free };
        sum.ns += now.saturating_sub(self.at);
        let (new, old) = (look, &self.last);
        for (did, (now, before)) in sum.did.iter_mut().zip([
            (&new.normal, &old.normal),
            (&new.low, &old.low),
            (&new.writeback, &old.writeback),
        ]) {
            did.add(now, before);
        }
        (self.last, self.at) = (look.clone(), now);
    }

    /// What happened in a state, up to the last [`Account::close`].
    pub fn part(&self, state: State) -> Part {
        let sum = if state == State::Limited { &self.limited } else { &self.free };
        let seconds = sum.ns as f64 / 1e9;
        let per_s = |n: u64| if sum.ns > 0 { n as f64 / seconds } else { 0.0 };
        let done = |did: &Did| Done {
            requests: self.requests.then_some(did.requests),
            bytes: did.bytes,
            requests_per_s: self.requests.then(|| per_s(did.requests)),
            bytes_per_s: per_s(did.bytes),
            p50_ns: did.quantile(0.5),
            p99_ns: did.quantile(0.99),
        };
        let [normal, low, writeback] = sum.did.each_ref().map(done);
        Part { ns: sum.ns, normal, low, writeback }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_what_happened_in_it() {
        let look = |normal: u64, bucket: usize, low: u64| {
            let mut look = Look::default();
            (look.normal.done, look.normal.bytes, look.low.done, look.low.bytes) =
                (normal, normal * 4096, low, low * 512);
            look.normal.buckets[bucket] = normal;
            look
        };
        let mut account = Account::new(look(100, 40, 0), 0, true);
        account.close(State::Limited, &look(300, 40, 10), 2_000_000_000);
        account.close(State::Free, &look(300, 40, 5010), 3_000_000_000);
        account.close(State::Limited, &look(400, 40, 5010), 4_000_000_000);
        let (limited, free) = (account.part(State::Limited), account.part(State::Free));
        assert_eq!(
            (limited.ns, limited.normal.requests, limited.low.requests),
            (3_000_000_000, Some(300), Some(10))
        );
        assert_eq!((limited.normal.requests_per_s, limited.normal.bytes_per_s), (Some(100.0), 409_600.0));
        assert_eq!((free.normal.requests, free.low.bytes, free.normal.p50_ns), (Some(0), 5000 * 512, None));
        let p99 = limited.normal.p99_ns.expect("there are some");
        assert!((bucket_begins(40)..=bucket_begins(41)).contains(&p99), "{p99}");
    }

    #[test]
    fn quantiles_follow_the_buckets() {
        let mut did = Did::default();
        (did.buckets[20], did.buckets[60]) = (98, 2);
        let at = |part| did.quantile(part).expect("there are some");
        assert!(at(0.5) <= bucket_begins(21) && at(0.98) <= bucket_begins(21));
        assert!(at(0.99) > bucket_begins(60) && at(1.0) == bucket_begins(61));
    }
}
