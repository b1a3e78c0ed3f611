// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which disk has which scheduler, what of lp-deadline there is, who is low, and what hinders.

use super::knobs::KNOBS;
use super::{schedulers, MODULE, SCHEDULER};
use plumb_machine::json::{formats, Format, Output};
use plumb_machine::{Block, Root};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Between two looks at counters: whether background requests go, and how, is seen by what changes.
const BETWEEN: Duration = Duration::from_millis(100);

/// How the gate of background requests stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Background requests go freely: no foreground request has been there for batch_mode_delay.
    Batch,
    /// Foreground requests are there, or were lately: background requests are held back.
    Gated,
    /// No request showed it while we looked.
    NotShown,
}

/// The scheduler on a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Selected {
    /// Knobs that this module has, in their units.
    pub knobs: BTreeMap<String, u64>,
    /// Cgroups whose I/O is low.
    pub low_cgroups: Vec<String>,
    pub normal: BTreeMap<String, u64>,
    pub low: BTreeMap<String, u64>,
    /// Decisions about background requests, and the gate of now.
    pub decisions: BTreeMap<String, u64>,
    pub mode: Mode,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Disk {
    pub name: String,
    /// It says that it turns.
    pub rotational: bool,
    pub hardware_queues: usize,
    /// The scheduler that it has; None: it has no choice.
    pub scheduler: Option<String>,
    /// Those that it may have without loading a module.
    pub available: Vec<String>,
    /// What lp-deadline says, where it is selected.
    pub selected: Option<Selected>,
    /// What is given up or hinders on this disk.
    pub notes: Vec<String>,
}

/// A process with I/O priority class idle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Low {
    pub pid: u32,
    pub name: String,
    /// Threads that are low, and all.
    pub threads: [usize; 2],
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Module {
    /// The kernel is built without modules.
    pub barred: bool,
    pub loaded: bool,
    /// Its file for the running kernel, as modules.dep names it.
    pub file: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    pub module: Module,
    pub disks: Vec<Disk>,
    /// Who is low by I/O priority.
    pub low: Vec<Low>,
    /// What hinders loading the module.
    pub hindrances: Vec<String>,
}

impl Output for Status {
    const FORMAT: &'static Format = &formats::IOSCHED;
}

impl Status {
    /// Looks; of one disk, or of all.
    pub fn of(only: Option<&Block>, root: &Root) -> Status {
        let all = match only {
            Some(one) => vec![one.clone()],
            None => Block::disks(root),
        };
        let has_size =
            |b: &Block| only.is_some() || root.number::<u64>(b.dir.join("size")).is_some_and(|s| s > 0);
        let all: Vec<Block> = all.into_iter().filter(has_size).collect();
        let is_selected = |b: &&Block| schedulers(b, root).is_some_and(|(_, chosen)| chosen == SCHEDULER);
        let before: BTreeMap<String, Counters> =
            all.iter().filter(is_selected).map(|b| (b.name.clone(), Counters::of(b, root))).collect();
        if !before.is_empty() && root.is_real() {
            std::thread::sleep(BETWEEN);
        }
        let disks = all.iter().map(|b| disk(b, before.get(&b.name), root)).collect();
        Status { module: module(root), disks, low: low(root), hindrances: hindrances(root) }
    }
}

#[derive(Debug, Default)]
struct Counters {
    normal: BTreeMap<String, u64>,
    low: BTreeMap<String, u64>,
    decisions: BTreeMap<String, u64>,
}

impl Counters {
    fn of(block: &Block, root: &Root) -> Counters {
        let table = |name: &str| root.table(block.dir.join("queue/iosched").join(name)).unwrap_or_default();
        Counters { normal: table("normal_stat"), low: table("low_stat"), decisions: table("decisions") }
    }
}

/// What the counters show that changed between two looks.
fn mode(before: &Counters, now: &Counters) -> Mode {
    let grew = |before: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>, key: &str| {
        now.get(key).copied().unwrap_or(0) > before.get(key).copied().unwrap_or(0)
    };
    let there = |key: &str| now.normal.get(key).copied().unwrap_or(0) > 0;
    if there("queued") || there("in_flight") || grew(&before.normal, &now.normal, "inserted") {
        Mode::Gated
    } else if grew(&before.decisions, &now.decisions, "batched") {
        Mode::Batch
    } else if grew(&before.decisions, &now.decisions, "held") || grew(&before.low, &now.low, "dispatched") {
        Mode::Gated
    } else {
        Mode::NotShown
    }
}

fn disk(block: &Block, before: Option<&Counters>, root: &Root) -> Disk {
    let (available, scheduler) = match schedulers(block, root) {
        Some((all, chosen)) => (all, Some(chosen)),
        None => (Vec::new(), None),
    };
    let queues = root.names(block.dir.join("mq")).len();
    let mut notes = Vec::new();
    // A bio-based device (dm, md) shows the word none, and has no queue of requests.
    let none_at_all = scheduler.is_none() || (queues == 0 && available == ["none"]);
    if none_at_all {
        let below: Vec<String> = block.slaves(root).into_iter().map(|b| b.name).collect();
        notes.push(match below.is_empty() {
            true => "has no queue of requests, so no scheduler".into(),
            false => {
                format!("has no queue of requests; set the scheduler of what it is on: {}", below.join(", "))
            }
        });
    } else if queues > 1 {
        notes.push(format!(
            "has {queues} hardware queues: a scheduler that sees all requests gives up their independence, one lock for \
             all of them; at some 100,000 requests a second and more that costs throughput"
        ));
    }
    let selected = before.map(|before| {
        let now = Counters::of(block, root);
        let mode = mode(before, &now);
        let file = |name: &str| block.dir.join("queue/iosched").join(name);
        let knob = |name: &str| Some((name.to_string(), root.number(file(name))?));
        let cgroups = root.text(file("low_cgroups")).unwrap_or_default();
        Selected {
            knobs: KNOBS.iter().filter_map(|k| knob(k.name)).collect(),
            low_cgroups: cgroups.lines().map(str::to_string).collect(),
            normal: now.normal,
            low: now.low,
            decisions: now.decisions,
            mode,
        }
    });
    Disk {
        name: block.name.clone(),
        rotational: root.number::<u8>(block.dir.join("queue/rotational")) == Some(1),
        hardware_queues: queues,
        scheduler: scheduler.filter(|_| !none_at_all),
        available,
        selected,
        notes,
    }
}

pub(super) fn module(root: &Root) -> Module {
    let release = root.text("/proc/sys/kernel/osrelease").unwrap_or_default();
    let dep = root.text(PathBuf::from("/lib/modules").join(release).join("modules.dep")).unwrap_or_default();
    let files = dep.lines().filter_map(|l| l.split_once(':').map(|(file, _)| file));
    let is_it = |file: &&str| file.rsplit('/').next().is_some_and(|n| n.starts_with("lp-deadline.ko"));
    Module {
        barred: !loads_modules(root),
        loaded: root.path("/sys/module").join(MODULE).exists(),
        file: files.into_iter().find(is_it).map(str::to_string),
    }
}

/// Said where the kernel does not.
pub(super) const NO_MODULES: &str =
    "this kernel is built without modules, so that none can be installed; use plumb govern, which needs none";

/// Whether the kernel loads modules at all (CONFIG_MODULES); a made-up tree's does.
pub(super) fn loads_modules(root: &Root) -> bool {
    !root.is_real() || root.path("/proc/modules").exists()
}

/// What keeps a module out.
fn hindrances(root: &Root) -> Vec<String> {
    const SIGN: &str = "sign it with a key that the machine knows: DKMS does with its own, which \
                        'mokutil --import /var/lib/dkms/mok.pub' makes known at the next start; or use plumb govern, \
                        which needs no module";
    let mut all = Vec::new();
    if !loads_modules(root) {
        all.push(NO_MODULES.into());
    }
    // The variable's attributes take four bytes, its value the fifth.
    let secure = root.path("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c");
    if std::fs::read(secure).is_ok_and(|bytes| bytes.get(4) == Some(&1)) {
        all.push(format!("Secure Boot is on, so the kernel may reject an unsigned module; {SIGN}"));
    }
    let lockdown = root.text("/sys/kernel/security/lockdown").unwrap_or_default();
    if lockdown.contains("[integrity]") || lockdown.contains("[confidentiality]") {
        all.push(format!("the kernel is locked down and rejects unsigned modules; {SIGN}"));
    }
    if root.text("/sys/module/module/parameters/sig_enforce").as_deref() == Some("Y") {
        all.push(format!("the kernel takes signed modules only (module.sig_enforce); {SIGN}"));
    }
    if root.text("/proc/sys/kernel/modules_disabled").as_deref() == Some("1") {
        all.push("loading modules is switched off until the next start (kernel.modules_disabled); use plumb govern, which needs none".into());
    }
    all
}

/// Processes with a thread of I/O priority class idle; a written tree tells it in a file `ioprio` of the thread.
fn low(root: &Root) -> Vec<Low> {
    let class = |pid: u32, tid: u32| -> Option<u32> {
        if !root.is_real() {
            return root.number(format!("/proc/{pid}/task/{tid}/ioprio"));
        }
        // SAFETY: a call without pointers. IOPRIO_WHO_PROCESS is 1 (linux/ioprio.h).
        let value = unsafe { libc::syscall(libc::SYS_ioprio_get, 1, tid) };
        u32::try_from(value).ok().map(|v| v >> 13)
    };
    let mut all = Vec::new();
    for pid in root.names("/proc").iter().filter_map(|n| n.parse::<u32>().ok()) {
        let tids: Vec<u32> =
            root.names(format!("/proc/{pid}/task")).iter().filter_map(|n| n.parse().ok()).collect();
        // IOPRIO_CLASS_IDLE
        let low = tids.iter().filter(|tid| class(pid, **tid) == Some(3)).count();
        if low > 0 {
            let name = root.text(format!("/proc/{pid}/comm")).unwrap_or_default();
            all.push(Low { pid, name, threads: [low, tids.len()] });
        }
    }
    all.sort_by_key(|l| l.pid);
    all
}

#[cfg(test)]
mod tests {
    use super::super::change::tests::Tree;
    use super::*;

    #[test]
    fn what_is_there_is_told_and_what_is_not_is_not() {
        let tree = Tree::new();
        let root = tree.root();
        let status = Status::of(None, &root);
        assert_eq!(status.module, Module::default());
        assert_eq!((status.low.len(), status.hindrances.len()), (0, 0));
        let names: Vec<_> = status.disks.iter().map(|d| (d.name.as_str(), d.scheduler.as_deref())).collect();
        assert_eq!(names, [("dm-0", None), ("nvme0n1", Some("none")), ("sda", Some("mq-deadline"))]);
        assert!(status.disks[0].notes[0].contains("sda"), "{:?}", status.disks[0].notes);
        assert!(status.disks[1].notes[0].contains("2 hardware queues"));
        assert!(status.disks[2].notes.is_empty() && status.disks[2].rotational);
    }

    #[test]
    fn a_selected_scheduler_tells_knobs_counters_and_mode() {
        let tree = Tree::new();
        tree.lp_deadline("sda");
        tree.put("sys/module/lp_deadline/refcnt", "1");
        tree.put("proc/sys/kernel/osrelease", "6.1.0-56-amd64");
        tree.put(
            "lib/modules/6.1.0-56-amd64/modules.dep",
            "kernel/a.ko:\nupdates/dkms/lp-deadline.ko.xz: kernel/a.ko\n",
        );
        tree.put("proc/70/comm", "backup");
        tree.put("proc/70/task/70/ioprio", "3");
        tree.put("proc/70/task/71/ioprio", "2");
        tree.put("proc/80/task/80/ioprio", "2");
        tree.put("sys/kernel/security/lockdown", "none [integrity] confidentiality");
        let root = tree.root();
        let status = Status::of(Some(&super::super::disk("sda", &root).expect("there")), &root);
        assert!(
            status.module.loaded && status.module.file.as_deref() == Some("updates/dkms/lp-deadline.ko.xz")
        );
        assert_eq!(status.low, [Low { pid: 70, name: "backup".into(), threads: [1, 2] }]);
        assert!(status.hindrances[0].contains("mokutil"));
        let selected = status.disks[0].selected.as_ref().expect("it is selected");
        assert_eq!(selected.knobs["low_depth"], 1);
        assert_eq!(selected.low_cgroups, ["/backup.slice"]);
        assert_eq!((selected.low["dispatched"], selected.mode), (7, Mode::NotShown));
    }

    #[test]
    fn the_mode_is_what_changes_between_two_looks() {
        let counters = |queued: u64, batched: u64, held: u64| Counters {
            normal: [("queued".into(), queued)].into(),
            low: BTreeMap::new(),
            decisions: [("batched".into(), batched), ("held".into(), held)].into(),
        };
        assert_eq!(mode(&counters(0, 1, 1), &counters(0, 1, 1)), Mode::NotShown);
        assert_eq!(mode(&counters(0, 1, 1), &counters(0, 2, 1)), Mode::Batch);
        assert_eq!(mode(&counters(0, 1, 1), &counters(0, 1, 2)), Mode::Gated);
        assert_eq!(mode(&counters(0, 1, 1), &counters(3, 2, 1)), Mode::Gated);
    }
}
