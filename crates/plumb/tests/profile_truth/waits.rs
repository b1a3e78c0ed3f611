// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program that waits 60 % of its time for a mutex and 40 % for a disk whose times are known.

use super::common::explain;
use super::programs::{truth, Place};
use super::registry::{able, DiskRegistry};
use super::seen::thrice;
use super::seen::{differs, flat, profile, run, words, Flat};
use super::served::{alone, Served};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Points that a share may differ.
const POINTS: f64 = 2.0;
/// A volume with one time for all writes.
const FIXED: &[&str] = &[
    "--set",
    "medium.write-latency=10ms",
    "--set",
    "medium.write-latency-p99=10ms",
    "--set",
    "medium.flush-latency=0",
];
/// Rounds of four writes and one wait for the mutex: 100 ms each.
const ROUNDS: &str = "25";

/// The account by category of all of the target's processes, ns, as `plumb explain` has it.
fn explained(dir: &Path) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for process in explain(dir)["processes"].as_array().expect("processes") {
        for (category, ns) in process["account"].as_object().expect("an account") {
            *sums.entry(category.clone()).or_default() += ns.as_u64().expect("ns");
        }
    }
    sums.retain(|_, ns| *ns > 0);
    sums
}

/// The same of the profile's entries.
fn profiled(dir: &Path, options: &[&str]) -> BTreeMap<String, u64> {
    let document = profile(dir, &[&["--by", "category"], options].concat());
    let rows = document["rows"].as_array().expect("rows").iter();
    let row = |r: &Value| Some((r["name"].as_str()?.to_owned(), r["self_ns"].as_u64()?));
    rows.map(|r| row(r).unwrap_or_else(|| panic!("{r:#}"))).filter(|(_, ns)| *ns > 0).collect()
}

fn wrong_shares(flat: &Flat, truth: &BTreeMap<String, f64>) -> Vec<String> {
    let all = truth["sync_file"] + truth["wait_for_lock"];
    let names = ["sync_file", "wait_for_lock"];
    let mut wrong: Vec<String> = names
        .iter()
        .filter_map(|name| differs(name, flat.total(|n| n == *name), truth[*name] / all, POINTS))
        .collect();
    wrong.extend(differs("main", flat.total(|n| n == "main"), 1.0, POINTS));
    // The program's clock also has the few us of each call that it ran.
    wrong.extend(differs("all waits", flat.time() / all, 1.0, POINTS));
    wrong
}

#[test]
fn for_a_mutex_and_a_disk() {
    let test = "for_a_mutex_and_a_disk";
    if !able(test, &["gcc"]) {
        return;
    }
    let Some(place) = Place::new(test, &[]) else { return };
    let program = place.c("waits", &[]);
    let (dir, told) = (place.path("run"), place.path("truth"));
    let _alone = alone();
    thrice(test, || {
        let disks = DiskRegistry::new();
        let served = Served::new(&disks, "gp3", FIXED);
        let device = served.device.clone();
        let out = run(
            &dir,
            &["--stacks", "100us"],
            &words(&program, &[ROUNDS, &device, told.to_str().expect("UTF-8")]),
        );
        served.end();
        assert!(out.status.success(), "{}: {}", out.status, super::common::stderr(&out));
        let truth = truth(&told);
        // Off the CPU as the account sees it: all that is not running.
        let thread = truth["thread"].to_string();
        let flat = flat(&dir, &["--off-cpu", "--tid", &thread]);
        let mut wrong = wrong_shares(&flat, &truth);
        println!("{}", flat.shown());
        // Whatever the machine did, both add up the same trace.
        assert_eq!(profiled(&dir, &[]), explained(&dir), "the profile's account and plumb explain's");
        let lock: f64 = {
            let by = profiled(&dir, &["--off-cpu", "--tid", &thread]);
            let locks = by.iter().filter(|(name, _)| name.starts_with("lock"));
            locks.map(|(_, ns)| *ns as f64).sum()
        };
        wrong.extend(differs("of lock waits", lock / truth["wait_for_lock"], 1.0, POINTS));
        if wrong.is_empty() {
            return Ok(());
        }
        Err(format!("{}\n{}", wrong.join("\n"), flat.shown()))
    });
}

#[test]
fn all_categories_are_the_accounts() {
    let test = "all_categories_are_the_accounts";
    let Some(place) = Place::new(test, &["sh", "gzip", "dd"]) else { return };
    let dir = place.path("run");
    let _alone = alone();
    // Processes that wait for each other, for a clock, and for nothing.
    let script = "dd if=/dev/urandom bs=64K count=200 2>/dev/null | gzip -9 | wc -c; sleep 0.2";
    let out = run(&dir, &[], &words(Path::new("sh"), &["-c", script]));
    assert!(out.status.code().is_some(), "{}", super::common::stderr(&out));
    let (seen, known) = (profiled(&dir, &[]), explained(&dir));
    assert_eq!(seen, known, "the profile's account and plumb explain's");
    assert!(known.len() >= 4, "{known:?}");
    let halves = [profiled(&dir, &["--on-cpu"]), profiled(&dir, &["--off-cpu"])];
    let sum = |all: &BTreeMap<String, u64>| all.values().sum::<u64>();
    // Where events contradict each other nobody knows which of both it was.
    let lost = known.get("lost").copied().unwrap_or(0);
    assert_eq!(sum(&halves[0]) + sum(&halves[1]) + lost, sum(&known), "on and off the CPU are all of it");
}
