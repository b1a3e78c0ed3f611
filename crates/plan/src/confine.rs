// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much of this machine a cell's processes may have: `memory` and `cpus`.
//!
//! The memory is a cgroup's below the root of its hierarchy, made for a repetition and removed by undoing
//! [`Change::Cgroup`]. CPUs are an affinity, which processes inherit. What serves the devices, and what records, is outside.

use super::file::Settings;
use anyhow::{bail, Context, Result};
use plumb_machine::child::{own_cpus, Within};
use plumb_machine::{cgroup, Root};
use plumb_trace::units;
use plumb_undo::change::Change;
use plumb_undo::guarded_journal::GuardedJournal;
use plumb_undo::journal::Journal;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Files of a group, of version 2 and of version 1: its limit of memory, that of swap with what it takes (nothing, or memory and swap
/// together), and who counts its kills. Swap lies on another disk than the cell's.
const FILES: [Files; 2] = [
    Files { limit: "memory.max", swap: "memory.swap.max", with_memory: false, kills: "memory.events" },
    Files {
        limit: "memory.limit_in_bytes",
        swap: "memory.memsw.limit_in_bytes",
        with_memory: true,
        kills: "memory.oom_control",
    },
];

#[derive(Debug)]
struct Files {
    limit: &'static str,
    swap: &'static str,
    with_memory: bool,
    kills: &'static str,
}

/// What a repetition was confined to.
#[derive(Debug)]
pub struct Confined {
    memory: Option<(PathBuf, u64)>,
}

/// Where groups with a limit of memory are made: at the root of the hierarchy, where limits of plumb's own group do not hold. None
/// where there is no such controller, or it cannot be given to groups there.
pub fn root_of_memory(root: &Root) -> Option<PathBuf> {
    let top = cgroup::directories("memory", root).pop()?;
    let has = |file: &str| {
        let words = root.text(top.join(file)).unwrap_or_default();
        words.split_whitespace().any(|c| c == "memory")
    };
    let v1 = root.path(top.join("memory.limit_in_bytes")).exists();
    // Of version 2 a group with processes gives no controller, but for the root, which has no type.
    let gives = || {
        let processes = root.text(top.join("cgroup.procs")).is_some_and(|all| !all.trim().is_empty());
        has("cgroup.subtree_control") || !root.path(top.join("cgroup.type")).exists() || !processes
    };
    (v1 || has("cgroup.controllers") && gives()).then_some(top)
}

/// Confines what begins from now on.
///
/// # Errors
/// The group cannot be made, or takes no limit.
pub fn begin(settings: &Settings, guarded: &mut GuardedJournal) -> Result<Confined> {
    let cpus = settings.cpus.map_or_else(Vec::new, |n| own_cpus().into_iter().take(n as usize).collect());
    let memory =
        settings.memory.map(|most| Ok::<_, anyhow::Error>((group(most.0, &mut guarded.journal)?, most.0)));
    let memory = memory.transpose().context("memory")?;
    let within = Within { cpus, group: memory.as_ref().map(|(dir, _)| dir.clone()) };
    guarded.within = Some(within).filter(|within| *within != Within::default());
    Ok(Confined { memory })
}

/// A group with so much memory, bytes.
fn group(most: u64, journal: &mut Journal) -> Result<PathBuf> {
    let top = root_of_memory(&Root::real()).context("there is no cgroup controller for it")?;
    let control = top.join("cgroup.subtree_control");
    let given = std::fs::read_to_string(&control).unwrap_or_default();
    if control.exists() && !given.split_whitespace().any(|c| c == "memory") {
        journal.will(Change::Controller { path: control.clone(), name: "memory".into() })?;
        std::fs::write(&control, "+memory")
            .with_context(|| format!("{}: does not take +memory", control.display()))?;
    }
    // In containers numbers of processes are alike.
    let moment = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.subsec_nanos());
    let dir = top.join(format!("plumb-plan-{}-{moment:08x}", std::process::id()));
    if dir.symlink_metadata().is_ok() {
        bail!("{}: is there already", dir.display());
    }
    journal.will(Change::Cgroup { path: dir.clone() })?;
    std::fs::create_dir(&dir).with_context(|| format!("make cgroup {}", dir.display()))?;
    let files = FILES.iter().find(|files| dir.join(files.limit).exists());
    let files = files.with_context(|| format!("{}: has no limit of memory", dir.display()))?;
    let write = |file: &str, value: u64| {
        let path = dir.join(file);
        std::fs::write(&path, value.to_string())
            .with_context(|| format!("{}: does not take {value}", path.display()))
    };
    write(files.limit, most)?;
    // A kernel without swap has none.
    if dir.join(files.swap).exists() {
        write(files.swap, if files.with_memory { most } else { 0 })?;
    }
    Ok(dir)
}

impl Confined {
    /// What begins from now on has the machine again. Says whom the kernel killed for want of memory.
    pub fn end(&self, guarded: &mut GuardedJournal) -> Option<String> {
        guarded.within = None;
        let (dir, most) = self.memory.as_ref()?;
        let killed = killed(dir)?;
        (killed > 0).then(|| {
            format!(
                "memory of {} is too little: the kernel killed {} of the processes in it",
                units::bytes(*most),
                units::count(killed)
            )
        })
    }
}

/// How many processes of a group the kernel killed, as it does where nothing else frees memory.
fn killed(dir: &Path) -> Option<u64> {
    let text = FILES.iter().find_map(|files| std::fs::read_to_string(dir.join(files.kills)).ok())?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}
