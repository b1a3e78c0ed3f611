// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The time of requests with the device, as a trace tells it, is what the disk says it took.

use super::registry::{able, DiskRegistry};
use super::served::{alone, quantile, thrice, Missed, Recorded, Served};
use plumb_sim::device::Operation;
use plumb_sim::serve::log::Line;

/// From this service time on, ns, three percent are asked for; below, what this machine adds as well.
const SLOW: u64 = 1_000_000;
/// What this machine may add to p50 and p99, ns.
const MACHINE: [u64; 2] = [25_000, 300_000];

/// What is wrong with a recorded load on a healthy disk; none if nothing is.
fn wrong(recorded: &Recorded, path: u64) -> Vec<String> {
    let mut wrong = Vec::new();
    for (operation, word) in [(Operation::Read, "read"), (Operation::Write, "write")] {
        let model = recorded.model(operation);
        if model.len() < 100 {
            continue;
        }
        let Some([count, told @ ..]) = recorded.told(word) else {
            wrong.push(format!("{} {word}s of which the trace tells nothing", model.len()));
            continue;
        };
        // Some kernels do not raise every event.
        if (count as f64 - model.len() as f64).abs() > model.len() as f64 * 0.02 {
            wrong.push(format!("{count} {word}s were traced, the disk had {}", model.len()));
        }
        let slow = quantile(&model, 50) >= SLOW;
        let taken = recorded.taken(operation);
        for ((percent, told), machine) in [50, 99].into_iter().zip(told).zip(MACHINE) {
            let model = quantile(&model, percent);
            let error = (model * 3 / 100).max(if slow { 0 } else { machine });
            // What is faster than the way to the device takes as long as the way. What took longer by the
            // disk's own log did: one that slept for milliseconds is woken slowly.
            let taken = quantile(&taken, percent);
            if told + error < model.max(taken) || told > model.max(taken + path) + error {
                wrong.push(format!(
                    "p{percent} of {count} {word}s: traced {told} ns, the disk says {model} ns \
                     and, by its log, {taken} ns to the answer (may differ by {error} ns; the way takes {path} ns)"
                ));
            }
        }
    }
    for id in ["device.stall", "device.slower"] {
        if let Some(finding) = recorded.finding(id) {
            wrong.push(format!("a healthy disk: {finding}"));
        }
    }
    wrong
}

/// What no noise of the machine changes.
fn holds_on_a_busy_machine(recorded: &Recorded, path: u64) {
    // The quantiles that are told are those of the requests.
    for word in ["read", "write"] {
        let all = recorded.d2c.iter().filter(|r| r.operation == word);
        let mut all: Vec<u64> = all.map(|r| r.completed - r.issued).collect();
        all.sort_unstable();
        let Some([count, told @ ..]) = recorded.told(word) else { continue };
        assert_eq!(count, all.len() as u64, "{word}s");
        for (percent, told) in [50, 99].into_iter().zip(told) {
            let exact = quantile(&all, percent);
            assert!(
                told.abs_diff(exact) <= exact / 99,
                "p{percent} of {word}s: {told} ns, exactly {exact} ns"
            );
        }
    }
    // Each has its line of the log, and is no shorter than the model's time less the way.
    let pairs = recorded.pairs();
    assert!(
        pairs.len() * 20 > recorded.lines.len() * 19,
        "{} of {} lines of the log belong to a traced request",
        pairs.len(),
        recorded.lines.len()
    );
    for (d2c, line) in &pairs {
        assert!(d2c + path + 1_000 >= line.model, "traced {d2c} ns: {line:?}, the way takes {path} ns");
    }
    // The disk's own clock, from arrival to answer, and the trace's differ by the way alone, where
    // nobody else had the CPU: in one of twenty at least.
    let way = |(d2c, line): &(u64, Line)| *d2c as i64 - (line.sent - line.arrival) as i64;
    let mut ways: Vec<i64> = pairs.iter().map(way).collect();
    ways.sort_unstable();
    let best = ways[ways.len() / 20];
    assert!((-20_000..200_000).contains(&best), "traced {best} ns longer than from arrival to answer");
}

fn tells_the_truth_about(model: &str, time: &str) {
    let test = format!("the truth about {model}");
    if !able(&test, &[]) {
        return;
    }
    let _alone = alone();
    for what in ["read", "mix"] {
        thrice(&format!("{model}, {what}"), || {
            let disks = DiskRegistry::new();
            let served = Served::new(&disks, model, &[]);
            let path = served.path;
            let job = ["--what", what, "--order", "random", "--direct", "--size", "1G", "--time", time];
            let recorded = served.record(&job);
            holds_on_a_busy_machine(&recorded, path);
            let wrong = wrong(&recorded, path);
            if wrong.is_empty() {
                return Ok(());
            }
            let late = recorded.late(path);
            let (p50, p99) = (quantile(&late, 50), quantile(&late, 99));
            let why = format!("{}; answers went out {p50} ns late, p99 {p99} ns", wrong.join("; "));
            Err(if p50 > MACHINE[0] || p99 > MACHINE[1] { Missed::Late(why) } else { Missed::Wrong(why) })
        });
    }
}

#[test]
fn of_atlas10k4() {
    tells_the_truth_about("atlas10k4", "4s");
}

#[test]
fn of_hdp72503() {
    tells_the_truth_about("hdp72503", "5s");
}

#[test]
fn of_intel330() {
    tells_the_truth_about("intel330", "2s");
}

#[test]
fn of_nvme() {
    tells_the_truth_about("nvme", "2s");
}

#[test]
fn of_gp3() {
    tells_the_truth_about("gp3", "3s");
}

#[test]
fn of_iscsi() {
    tells_the_truth_about("iscsi", "2s");
}
