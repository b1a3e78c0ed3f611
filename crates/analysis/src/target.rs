// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A part of the target: the processes of some names, or a service of a machine.

use anyhow::{bail, Result};
use plumb_model::profile::Profile;
use plumb_model::RunResult;

/// Leaves only what the processes of these names did; their processes one by one.
///
/// # Errors
/// No process is called so.
pub fn only(comms: &[String], result: RunResult, profile: Profile) -> Result<(RunResult, Profile)> {
    let RunResult { mut processes, others, mut services, .. } = result;
    let mut names: Vec<String> = processes.iter().map(|p| p.comm.clone()).collect();
    processes.retain(|p| comms.contains(&p.comm));
    let Some(part) = services.pop().filter(|_| !processes.is_empty()) else {
        names.sort();
        names.dedup();
        bail!("no process is called {}; there are: {}", comms.join(" or "), names.join(", "));
    };
    let profile =
        profile.filtered(|p, e| p.threads.get(e.thread as usize).is_some_and(|t| comms.contains(&t.process)));
    Ok((RunResult { processes, others, ..part.result }, profile))
}

/// Leaves only what a service of a machine did; false where none is called so.
pub fn service(name: &str, result: &mut RunResult, profile: &mut Profile) -> bool {
    let Some(at) = result.services.iter().position(|s| s.name == name) else { return false };
    let part = result.services.swap_remove(at);
    let RunResult { mut processes, others, .. } = std::mem::take(result);
    processes.retain(|p| part.pids.contains(&p.pid));
    *result = RunResult { processes, others, ..part.result };
    *profile = std::mem::take(profile)
        .filtered(|p, e| p.threads.get(e.thread as usize).is_some_and(|t| part.pids.contains(&t.pid)));
    true
}
