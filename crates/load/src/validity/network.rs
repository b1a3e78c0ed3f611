// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is it the server that was measured, or the client and the way to it?

use super::facts::Facts;
use super::Finding::{self, Fine};
use super::{graded, percent};
use plumb_trace::units::count;

/// A client that has so much of its CPUs has little left for a faster server.
const BUSY_SUSPECT: f64 = 0.90;
/// It never waits: the rate is its own.
const BUSY_INVALID: f64 = 0.98;
/// Beyond it connect(2) looks long for a free port (net/ipv4/inet_hashtables.c tries them one after the other).
const PORTS_SUSPECT: f64 = 0.80;
/// Next to nothing left: connect(2) fails with EADDRNOTAVAIL.
const PORTS_INVALID: f64 = 0.98;
/// A connection request that is dropped is sent again after a second or more: one in a hundred is in the 99 % quantile.
const AGAIN_INVALID: f64 = 0.01;

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
    if !facts.asks_a_server {
        return Some(Fine);
    }
    let (used, all) = (facts.client_ports?, facts.local_ports.filter(|all| *all > 0)?);
    Some(graded(used as f64 / all as f64, PORTS_SUSPECT, PORTS_INVALID, || {
        format!(
            "connections that are open or in TIME_WAIT take {} of {} local ports",
            count(used),
            count(all)
        )
    }))
}

pub(super) fn backlog(facts: &Facts) -> Option<Finding> {
    if !facts.asks_a_server {
        return Some(Fine);
    }
    let (again, full, opened) = (facts.syn_retransmits?, facts.listen_drops?, facts.connections_opened?);
    let most = again.max(full);
    if most == 0 {
        return Some(Fine);
    }
    Some(graded(most as f64 / opened.max(1) as f64, 0.0, AGAIN_INVALID, || {
        format!(
            "{} connection requests were sent again, {} dropped by a full accept queue of this machine, of {}: each waits a second or more",
            count(again),
            count(full),
            count(opened)
        )
    }))
}
