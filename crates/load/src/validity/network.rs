// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is it the server that was measured, or the client and the way to it?

use super::facts::Facts;
use super::Finding::{self, Against, Fine};
use super::Severity::{Note, Suspect};
use super::{graded, percent};
use plumb_trace::units::count;

/// A client that has so much of its CPUs has little left for a faster server.
const BUSY_SUSPECT: f64 = 0.90;
/// It never waits: the rate is its own.
const BUSY_INVALID: f64 = 0.98;
/// Beyond it connect(2) looks long for a free port (net/ipv4/inet_hashtables.c tries them one after the other). Where none is left
/// connections fail, which the check of errors tells.
const PORTS_SUSPECT: f64 = 0.80;
/// A dropped connection request is repeated after a second or more: one in a hundred requests is in the 99 % quantile.
const AGAIN_SUSPECT: f64 = 0.01;

pub(super) fn client_busy(facts: &Facts) -> Option<Finding> {
    if !facts.asks_a_server {
        return Some(Fine);
    }
    let share = facts.client_cpu_share?;
    Some(graded(share, BUSY_SUSPECT, BUSY_INVALID, || {
        format!(
            "the client's workers had {} of a CPU each: the client, not the server, is the limit",
            percent(share)
        )
    }))
}

pub(super) fn client_ports(facts: &Facts) -> Option<Finding> {
    if !facts.asks_by_tcp {
        return Some(Fine);
    }
    let (used, all) = (facts.client_ports?, facts.local_ports.filter(|all| *all > 0)?);
    if (used as f64) < all as f64 * PORTS_SUSPECT {
        return Some(Fine);
    }
    let said = format!(
        "connections that are open or in TIME_WAIT take up to {} of {} local ports",
        count(used),
        count(all)
    );
    Some(Against(Suspect, said))
}

/// The counters are those of the network namespace: another program's connections may be among them.
pub(super) fn backlog(facts: &Facts) -> Option<Finding> {
    if !facts.asks_by_tcp {
        return Some(Fine);
    }
    let (again, full) = (facts.syn_retransmits?, facts.listen_overflows?);
    if again.max(full) == 0 {
        return Some(Fine);
    }
    let is_many = again.max(full) as f64 >= facts.operations? as f64 * AGAIN_SUSPECT;
    let said = format!(
        "{} SYN or SYN/ACK retransmissions and {} overflows of an accept queue in this network namespace: each delays a connection by a second or more",
        count(again),
        count(full)
    );
    Some(Against(if is_many { Suspect } else { Note }, said))
}
