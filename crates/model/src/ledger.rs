// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is kept of each service: where its threads' and its requests' time went.

use crate::blockers::Blockers;
use crate::herds::Herds;
use crate::longest::Longest;
use crate::parts::Parts;

/// Sums of one service, or of the whole target.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Sum of all its threads.
    pub whole: Parts,
    /// What requests of clients did and waited for, from the first of each to the first of its answer.
    pub served: Parts,
    /// Time of requests whose path was not looked at, for which the next one stands, ns.
    pub not_walked: u64,
    /// What processes outside of it did while it waited for them.
    pub peers: Parts,
    /// What the threads did that requests in progress waited for.
    pub meanwhile: Parts,
    /// Which threads those were, and how long.
    pub blockers: Blockers,
    pub longest: Longest,
    pub herds: Herds,
    /// How often one of its threads left a CPU because the quota of its cgroup was used up.
    pub over_quota: u64,
    /// How many of its threads are ready and have no CPU now, and how many run, see [`crate::thread::Counted`].
    pub threads: [u32; 2],
}

impl Ledger {
    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        self.whole.merge(&other.whole);
        self.served.merge(&other.served);
        self.peers.merge(&other.peers);
        self.meanwhile.merge(&other.meanwhile);
        self.blockers.merge(&other.blockers);
        self.longest.merge(&other.longest);
        self.herds.merge(&other.herds);
        self.over_quota += other.over_quota;
    }
}
