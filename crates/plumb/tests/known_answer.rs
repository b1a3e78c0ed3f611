// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads whose answer is known: so many requests, and nobody else's.

mod common;
use common::{babeltrace_agrees, can, explain, must, plumb, process, sum, workload, Loop};

#[test]
fn twenty_three_direct_writes_are_twenty_three_requests() {
    if !can("twenty_three_direct_writes_are_twenty_three_requests", &["losetup", "babeltrace2"]) {
        return;
    }
    let disk = Loop::new(16);
    let dir = tempfile::tempdir().expect("directory");
    let run = dir.path().join("run");
    must(plumb().args(["run", "-q", "-o"]).arg(&run).arg("--").arg(workload()).args([
        "direct-writes",
        "23",
        &disk.device,
    ]));
    let result = explain(&run);
    assert_eq!(result["quality"]["lost"], 0);
    let p = process(&result, "plumb-workload");
    assert_eq!(p["writes"], 23);
    // On that disk: what the program's own pages and libraries cost to read is no part of the answer.
    let patterns = result["patterns"].as_array().expect("patterns").iter();
    let used: Vec<_> = patterns.filter(|u| u["target"] == true && u["device"] == disk.name()).collect();
    let uses: Vec<_> = used.iter().map(|u| (&u["requests"], &u["bytes"])).collect();
    assert_eq!(uses, [(&23.into(), &(23 * 4096).into())]);
    let device = result["devices"].as_array().expect("devices").iter().find(|d| d["name"] == disk.name());
    assert_eq!(device.expect("the loop device")["writes"], 23);
    let calls = p["syscalls"].as_array().expect("calls");
    let pwrite = calls.iter().find(|c| c["name"] == "pwrite64").expect("pwrite64");
    assert_eq!((&pwrite["calls"], &pwrite["own_requests"]), (&23.into(), &23.into()));
    assert_eq!(sum(&p["account"]), p["thread_time"].as_u64().expect("ns"), "the account adds up");
    assert_eq!(sum(&pwrite["account"]), pwrite["total"].as_u64().expect("ns"), "a call's account adds up");
    babeltrace_agrees(&run);
}

#[test]
fn the_journals_requests_belong_to_the_fsync_that_waited() {
    if !can("the_journals_requests_belong_to_the_fsync_that_waited", &["losetup", "mkfs.ext4", "babeltrace2"])
    {
        return;
    }
    // A wait whose switch the kernel did not raise is nobody's, and so are the requests of that commit. Seldom: not five times.
    assert!((0..5).any(|_| fsyncs_and_the_journal()), "each run lacks requests, and has lost time");
}

/// Records 23 writes with fsync on an ext4 of its own. Whether all of the journal's requests are theirs; fewer may be only
/// where time is lost.
fn fsyncs_and_the_journal() -> bool {
    let mut disk = Loop::new(64);
    let file = disk.ext4().join("file");
    let dir = tempfile::tempdir().expect("directory");
    let run = dir.path().join("run");
    must(
        plumb()
            .args(["run", "-q", "-e", "default,fs", "-o"])
            .arg(&run)
            .arg("--")
            .arg(workload())
            .args(["write-fsync", "23"])
            .arg(&file),
    );
    let result = explain(&run);
    assert_eq!(result["quality"]["lost"], 0);
    let p = process(&result, "plumb-workload");
    let calls = p["syscalls"].as_array().expect("calls");
    let fsync = calls.iter().find(|c| c["name"] == "fsync").expect("fsync");
    assert_eq!(fsync["calls"], 23);
    // Data: one write an fsync by the thread itself; it also reads bitmaps when it first allocates.
    assert_eq!(p["writes"], 23, "{p:#}");
    assert!(fsync["own_requests"].as_u64() >= Some(23), "{fsync:#}");
    // Journal: what jbd2 wrote to this device meanwhile, all of it and nothing else.
    let journal = format!("jbd2/{}-8", disk.name());
    let others = result["others"].as_array().expect("others");
    let jbd2 = others.iter().find(|o| o["comm"] == journal.as_str()).expect("the journal's thread");
    let lost = fsync["account"]["lost"].as_u64().unwrap_or(0);
    let (ours, all) = (fsync["other_requests"].as_u64(), jbd2["accesses"].as_u64());
    assert!(ours == all || (lost > 0 && ours < all), "{fsync:#} {jbd2:#}");
    assert!(all >= Some(23));
    let total = fsync["total"].as_u64().expect("ns");
    let unexplained = fsync["account"]["unexplained"].as_u64().unwrap_or(0);
    assert!(unexplained * 50 < total, "unexplained {unexplained} of {total}: {fsync:#}");
    babeltrace_agrees(&run);
    ours == all
}

#[test]
fn a_shells_wait_is_its_childs_doing() {
    if !can("a_shells_wait_is_its_childs_doing", &["sh"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let run = dir.path().join("run");
    must(plumb().args(["run", "-q", "-o"]).arg(&run).args(["--", "sh", "-c", "sleep 0.3 & wait $!"]));
    let result = explain(&run);
    let parts = result["path"]["parts"].as_array().expect("parts");
    let time = |what: &str| -> u64 {
        parts.iter().filter(|p| p["category"] == what).filter_map(|p| p["time"].as_u64()).sum()
    };
    // dash sleeps in rt_sigsuspend: that alone would be a wait for a signal.
    assert!(time("timer") > 250_000_000 && time("signal") < 50_000_000, "{:#}", result["path"]);
}
