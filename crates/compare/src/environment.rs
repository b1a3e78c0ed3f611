// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where and how the two sides were made, and what of that is not the same.

use super::side::Side;
use plumb_trace::reader::State;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// One thing that is not the same on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Differs {
    pub what: String,
    /// A's, of a set all that its runs have; of a list what only A has; empty for nothing.
    pub a: String,
    /// B's, likewise.
    pub b: String,
    /// The two sides did not do the same.
    pub another_target: bool,
}

/// Entries of a trace's environment that differ from run to run and mean nothing.
const MEANINGLESS: &[&str] =
    &["recorder_pid", "command_pid", "domain", "tracer_name", "loadavg", "sysname", "run_id", "boot_id"];
/// Entries that are lists, separated by commas.
const LISTS: &[&str] = &["events", "events_lacking"];
const TARGET: &str = "target";
/// Word that stands for a missing thing.
const NONE: &str = "-";

/// The words for entries of a trace's environment; others stand for themselves.
const WORDS: &[(&str, &str)] = &[
    (TARGET, "target"),
    ("target_kind", "kind of target"),
    ("hostname", "host"),
    ("kernel_release", "kernel"),
    ("kernel_version", "kernel build"),
    ("machine", "architecture"),
    ("cpu_model", "CPU"),
    ("cpus_online", "CPUs online"),
    ("memory", "memory"),
    ("clocksource", "clock source"),
    ("events", "events recorded"),
    ("events_lacking", "events that the kernel lacks"),
    ("everyone", "recorded everyone"),
    ("only_target", "recorded only the target"),
    ("stack_threshold_ns", "stacks of waits above, ns"),
    ("keep_ns", "flight recorder kept, ns"),
    ("devices", "devices recorded"),
    ("plumb_schema", "schema of the trace"),
];

/// Kinds of file systems without a device that hold data all the same.
const WITHOUT_DEVICE: &[&str] = &["nfs", "cifs", "fuse", "tmpfs", "overlay", "zfs", "9p", "virtiofs", "ceph"];

/// What is compared of one run's environment, by its words.
pub fn of(
    env: &BTreeMap<String, String>,
    version: Option<String>,
    state: &State,
) -> BTreeMap<String, String> {
    let mut out: BTreeMap<String, String> = env
        .iter()
        .filter(|(k, _)| !MEANINGLESS.contains(&k.as_str()) && !k.starts_with("tracer_"))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    out.extend(running(env, state).map(|names| (TARGET.to_string(), names)));
    let tracer = ["tracer_major", "tracer_minor"].map(|k| env.get(k).map_or("?", String::as_str)).join(".");
    out.insert("version of plumb".into(), version.unwrap_or(tracer));
    for d in state.disks.iter().filter(|d| d.dev == d.disk && !is_idle_kind(&d.name, &d.backing)) {
        let kind = if d.rotational == 1 { "rotational" } else { "not rotational" };
        let backing = if d.backing.is_empty() { String::new() } else { format!(", on {}", d.backing) };
        let words = format!("scheduler {}, {} requests, {kind}{backing}", d.scheduler, d.nr_requests);
        out.insert(format!("disk {}", d.name), words);
    }
    for m in &state.mounts {
        if m.source.starts_with('/') || WITHOUT_DEVICE.iter().any(|k| m.fstype.starts_with(k)) {
            out.insert(format!("mount {}", m.path), format!("{} from {}, {}", m.fstype, m.source, m.options));
        }
    }
    out
}

/// What processes that were named by their pids run: another start has other pids.
fn running(env: &BTreeMap<String, String>, state: &State) -> Option<String> {
    let named = env
        .get(TARGET)?
        .strip_prefix("pid ")
        .filter(|_| env.get("target_kind").is_some_and(|kind| kind == "pid"))?;
    // Behind them how many children there are.
    let named = named.split(" and ").next()?;
    let name = |pid: &str| {
        let task = state.tasks.iter().find(|t| Some(t.tid) == pid.parse().ok())?;
        Some(if task.cmdline.is_empty() { task.comm.as_str() } else { task.cmdline.as_str() })
    };
    let names: Option<Vec<&str>> = named.split(", ").map(name).collect();
    names.map(|names| names.join(", "))
}

/// Devices that are always there and hold nothing until they are set up.
fn is_idle_kind(name: &str, backing: &str) -> bool {
    name.starts_with("ram") || (name.starts_with("loop") && backing.is_empty())
}

/// Everything that is not the same, another target first.
pub fn differences(a: &Side, b: &Side) -> Vec<Differs> {
    let all = |side: &Side| side.members.iter().map(|m| m.environment.clone()).collect::<Vec<_>>();
    compare(&all(a), &all(b))
}

fn compare(a: &[BTreeMap<String, String>], b: &[BTreeMap<String, String>]) -> Vec<Differs> {
    let keys: BTreeSet<&String> = a.iter().chain(b).flat_map(BTreeMap::keys).collect();
    let values = |side: &[BTreeMap<String, String>], key: &String| -> BTreeSet<String> {
        side.iter().map(|env| env.get(key).cloned().unwrap_or_else(|| NONE.into())).collect()
    };
    let mut out = Vec::new();
    for key in keys {
        let (mut in_a, mut in_b) = (values(a, key), values(b, key));
        if in_a == in_b {
            continue;
        }
        let list = LISTS.contains(&key.as_str());
        if list {
            let items = |s: BTreeSet<String>| -> BTreeSet<String> {
                s.iter().flat_map(|v| v.split(',')).map(String::from).collect()
            };
            (in_a, in_b) = (items(in_a), items(in_b));
            let both: BTreeSet<String> = in_a.intersection(&in_b).cloned().collect();
            in_a.retain(|i| !both.contains(i));
            in_b.retain(|i| !both.contains(i));
        }
        let words = WORDS.iter().find(|(k, _)| k == key).map_or(key.as_str(), |(_, words)| words);
        let join =
            |s: BTreeSet<String>| s.into_iter().collect::<Vec<_>>().join(if list { "," } else { " | " });
        out.push(Differs {
            what: if list { format!("{words}, only there") } else { words.into() },
            a: join(in_a),
            b: join(in_b),
            another_target: key == TARGET,
        });
    }
    out.sort_by_key(|d| !d.another_target);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_trace::schema::{StateDisk, StateMount, StateTask};

    fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
    }

    #[test]
    fn another_target_comes_first_and_lists_show_what_only_one_has() {
        let a = env(&[("kernel_release", "6.1"), ("target", "dd"), ("events", "a,b,c"), ("memory", "1 kB")]);
        let b =
            env(&[("kernel_release", "6.2"), ("target", "cp"), ("events", "b,c,d,e"), ("memory", "1 kB")]);
        let got = compare(std::slice::from_ref(&a), &[b]);
        let line = |what: &str, a: &str, b: &str, another_target| Differs {
            what: what.into(),
            a: a.into(),
            b: b.into(),
            another_target,
        };
        let want = [
            line("target", "dd", "cp", true),
            line("events recorded, only there", "a", "d,e", false),
            line("kernel", "6.1", "6.2", false),
        ];
        assert_eq!(got, want);
        assert_eq!(compare(&[a.clone(), a.clone()], &[a]), []);
    }

    #[test]
    fn a_set_whose_runs_differ_shows_all_that_they_have() {
        let (x, y) = (env(&[("memory", "x")]), env(&[("memory", "y")]));
        assert_eq!(compare(&[x.clone(), y.clone()], &[y.clone(), x.clone()]), []);
        let got = compare(&[x.clone(), y], &[x]);
        assert_eq!((got[0].a.as_str(), got[0].b.as_str()), ("x | y", "x"));
    }

    #[test]
    fn a_server_that_was_started_again_is_the_same_target() {
        let task =
            |tid, cmdline: &str| StateTask { tid, tgid: tid, cmdline: cmdline.into(), ..Default::default() };
        let state =
            State { tasks: vec![task(7, "db -p 1"), task(8, "db -p 1"), task(9, "web")], ..State::default() };
        let target = |text: &str| {
            of(&env(&[("target_kind", "pid"), ("target", text)]), None, &state)["target"].clone()
        };
        assert_eq!(target("pid 7"), target("pid 8 and 2 child processes"));
        assert_eq!(target("pid 7, 9"), "db -p 1, web");
        assert_eq!(target("pid 10"), "pid 10", "it is not there");
    }

    #[test]
    fn disks_and_mounts_are_part_of_it_and_what_means_nothing_is_not() {
        let disk =
            StateDisk { name: "sda".into(), scheduler: "bfq".into(), nr_requests: 64, ..Default::default() };
        let idle = StateDisk { name: "loop0".into(), ..Default::default() };
        let mount = |path: &str, fstype: &str, source: &str| StateMount {
            path: path.into(),
            fstype: fstype.into(),
            source: source.into(),
            options: "rw".into(),
            ..Default::default()
        };
        let state = State {
            disks: vec![disk, idle],
            mounts: vec![mount("/", "ext4", "/dev/sda"), mount("/proc", "proc", "proc")],
            ..Default::default()
        };
        let got = of(
            &env(&[("recorder_pid", "1"), ("run_id", "a-b"), ("boot_id", "c-d"), ("cpu_model", "M")]),
            Some("0.1.0".into()),
            &state,
        );
        let keys: Vec<&str> = got.keys().map(String::as_str).collect();
        assert_eq!(keys, ["cpu_model", "disk sda", "mount /", "version of plumb"]);
        assert_eq!(got["disk sda"], "scheduler bfq, 64 requests, not rotational");
        assert_eq!(got["mount /"], "ext4 from /dev/sda, rw");
    }
}
