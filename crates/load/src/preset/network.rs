// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the presets of servers share: a server and its clients in one step.

use crate::job::{Cell, Given, Job, Step};
use crate::result::{CellResult, JobResult};

/// Where servers of presets listen, unless told otherwise.
pub(super) const ADDRESS: &str = "127.0.0.1:18377";

/// What is given of these is the server's alone.
const SERVERS: [&str; 4] = ["listen", "sharing", "processes", "threads"];

/// A cell of a server and its clients; with --to the server is somebody else's.
pub(super) fn cell(label: String, given: &Given, server: &Job, client: &Job, clients: &[&str]) -> Cell {
    let mut jobs = Vec::new();
    let mut to = given.over(&Job::default()).to;
    if !given.has("to") {
        let of_client = ["to", "time", "operations", "rate", "arrivals", "think", "burst", "per-connection"];
        let server =
            given.over_except(server, &[&of_client[..], &["connections", "depth", "multiplex"]].concat());
        to = server.listen.clone();
        jobs.push(server);
    }
    let client = Job { to, ..given.over_except(client, &[&SERVERS[..], clients].concat()) };
    jobs.push(client);
    Cell { steps: vec![Step { label: label.clone(), jobs }], label }
}

/// A figure of each round of a cell's clients.
pub(super) fn of_clients<'a>(
    cell: &'a CellResult,
    figure: impl Fn(&JobResult) -> f64 + 'a,
) -> impl Iterator<Item = f64> + 'a {
    cell.step(&cell.label).filter_map(|s| s.jobs.last()).map(figure)
}

/// A figure of each round of a cell's server, of one of ours.
pub(super) fn of_server<'a>(
    cell: &'a CellResult,
    figure: impl Fn(&JobResult) -> f64 + 'a,
) -> impl Iterator<Item = f64> + 'a {
    cell.step(&cell.label).filter_map(|s| s.jobs.iter().find(|j| j.kind("serve").is_some())).map(figure)
}
