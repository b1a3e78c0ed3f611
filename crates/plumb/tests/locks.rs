// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who let go of a lock, in which function, and who got it next, against
//! programs that know the order themselves.

mod common;
use common::{can, explain, must, plumb, workload, Loop};
use serde_json::Value;

/// Checks that `part` comes in this order within `all`.
fn is_in_order(part: &[u32], all: &[u32]) -> bool {
    let mut all = all.iter();
    part.iter().all(|p| all.any(|a| a == p))
}

fn number(v: &Value) -> u32 {
    v.as_u64().expect("a number") as u32
}

#[test]
fn the_chain_of_a_mutex_is_the_one_that_the_program_logged() {
    if !can("the_chain_of_a_mutex_is_the_one_that_the_program_logged", &[]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let run = dir.path().join("run");
    let out = must(
        plumb().args(["run", "-q", "-o"]).arg(&run).arg("--").arg(workload()).args(["mutex", "4", "25", "3"]),
    );
    // unlock TID BEGIN END, sorted by time.
    let log: Vec<(u32, u64, u64)> = out
        .lines()
        .filter_map(|l| {
            let words: Vec<u64> =
                l.strip_prefix("unlock ")?.split(' ').map(|w| w.parse().expect("number")).collect();
            Some((words[0] as u32, words[1], words[2]))
        })
        .collect();
    assert_eq!(log.len(), 100);
    let result = explain(&run);
    let begin = result["begin"].as_u64().expect("begin");
    let lock = &result["locks"][0];
    assert_eq!(lock["kind"], "user lock", "{lock:#}");
    let chain = lock["chain"].as_array().expect("a chain");
    assert!(chain.len() >= 60, "four threads that hold for 3 ms nearly always wait: {}", chain.len());
    let mut holders = Vec::new();
    let mut named = 0;
    for h in chain {
        let at = begin + h["at"].as_u64().expect("time");
        // The wakeup lies within an unlock of exactly that thread: those of two overlap where one is preempted on its way out.
        let holder = number(&h["holder"]);
        let unlock = log.iter().any(|(by, from, to)| *by == holder && *from <= at && at <= *to);
        assert!(unlock, "no unlock of the log by {holder} spans {at}: {h:#}");
        assert_ne!(h["holder"], h["next"]);
        assert!(h["waited"].as_u64() > Some(0));
        let function = h["function"].as_str().expect("text");
        assert!(function.is_empty() || function.ends_with("hold_the_mutex"), "{h:#}");
        named += usize::from(!function.is_empty());
        holders.push(holder);
    }
    let order: Vec<u32> = log.iter().map(|l| l.0).collect();
    assert!(is_in_order(&holders, &order), "{holders:?} within {order:?}");
    assert!(named * 10 >= chain.len() * 9, "the function is known for {named} of {}", chain.len());
    assert_eq!(result["findings"][0]["id"], "lock.user", "{:#}", result["verdict"]);
}

#[test]
fn the_chain_of_an_inodes_lock_is_the_order_of_the_lines_in_the_file() {
    let name = "the_chain_of_an_inodes_lock_is_the_order_of_the_lines_in_the_file";
    if !can(name, &["losetup", "mkfs.ext4"]) {
        return;
    }
    // How often appenders meet for long is the scheduler's choice: as many runs as it takes.
    let mut long = Vec::new();
    for _ in 0..8 {
        long.extend(chain_of_appenders());
        if long.len() >= 5 {
            let named = long.iter().filter(|h| h["function"] == "ext4_buffered_write_iter").count();
            assert!(named * 10 >= long.len() * 9, "{named} of {}: {long:#?}", long.len());
            return;
        }
    }
    panic!("too few waits were long: {}", long.len());
}

/// Four appenders to one file, checked; the changes of hands that were waited for over 15 us: stacks
/// are taken of waits above the threshold.
fn chain_of_appenders() -> Vec<Value> {
    let mut disk = Loop::new(64);
    let file = disk.ext4().join("file");
    let dir = tempfile::tempdir().expect("directory");
    let run = dir.path().join("run");
    must(
        plumb()
            .args(["run", "-q", "--stacks", "10us", "-o"])
            .arg(&run)
            .arg("--")
            .arg(workload())
            .args(["appenders", "4", "100"])
            .arg(&file),
    );
    let text = std::fs::read(&file).expect("the file");
    let order: Vec<u32> = text
        .chunks(4096)
        .map(|line| String::from_utf8_lossy(&line[..8]).parse().expect("a thread id"))
        .collect();
    assert_eq!(order.len(), 400);
    let result = explain(&run);
    let locks = result["locks"].as_array().expect("locks");
    let lock = locks
        .iter()
        .find(|l| l["site"] == "ext4_buffered_write_iter")
        .unwrap_or_else(|| panic!("{locks:#?}"));
    assert_eq!((lock["kind"].as_str(), lock["pid"].as_u64()), (Some("rwsem"), Some(0)));
    let chain = lock["chain"].as_array().expect("a chain");
    assert!(chain.len() >= 15, "{}", chain.len());
    let holders: Vec<u32> = chain.iter().map(|h| number(&h["holder"])).collect();
    assert!(is_in_order(&holders, &order), "{holders:?} within {order:?}");
    chain.iter().filter(|h| h["waited"].as_u64() > Some(15_000)).cloned().collect()
}
