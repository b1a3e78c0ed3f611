// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was put into a disk to go wrong is found, named and measured.

use super::registry::{able, DiskRegistry};
use super::served::{alone, thrice, Missed, Recorded, Served};

fn reads(model: &str, more: &[&str], time: &str) -> Recorded {
    let disks = DiskRegistry::new();
    let job = ["--what", "read", "--order", "random", "--direct", "--size", "1G", "--time", time];
    Served::new(&disks, model, more).record(&job)
}

/// The finding's headline, or what was found instead.
fn found(recorded: &Recorded, id: &str, least: f64) -> Result<String, String> {
    let finding = recorded.finding(id).filter(|f| f["share"].as_f64().is_some_and(|s| s >= least));
    let words = finding.and_then(|f| f["headline"].as_str()).map(str::to_owned);
    words.ok_or_else(|| {
        format!("no {id} of {least}: {:#}\n{:#}", recorded.result["findings"], recorded.result["patterns"])
    })
}

#[test]
fn stalls_are_named() {
    if !able("stalls_are_named", &[]) {
        return;
    }
    let _alone = alone();
    thrice("stalls", || {
        let recorded = reads("stalling", &["--set", "fault.0.every=1s", "--set", "fault.0.for=300ms"], "6s");
        let words = found(&recorded, "device.stall", 0.15)?;
        assert!(words.contains(&recorded.device), "{words}");
        // As many as the disk had, and as long.
        let long = |ns: u64| ns >= 100_000_000;
        let traced: Vec<u64> =
            recorded.d2c.iter().map(|r| r.completed - r.issued).filter(|&ns| long(ns)).collect();
        let had = recorded.lines.iter().filter(|l| long(l.parts.fault)).count();
        let lengths = traced.iter().all(|ns| (290_000_000..350_000_000).contains(ns));
        if (traced.len(), lengths) != (had, true) || had < 4 {
            return Err(Missed::Wrong(format!(
                "the disk stalled {had} times for 300 ms, traced {traced:?} ns"
            )));
        }
        Ok(())
    });
}

#[test]
fn burst_credits_that_end_are_named() {
    if !able("burst_credits_that_end_are_named", &[]) {
        return;
    }
    let _alone = alone();
    thrice("burst credits", || {
        let recorded = reads("gp2", &["--set", "medium.iops=100", "--set", "medium.credits=1500"], "8s");
        let throttled = recorded.lines.iter().filter(|l| l.parts.throttled > 1_000_000).count();
        if throttled < 100 {
            let all = recorded.lines.len();
            return Err(Missed::Wrong(format!("the credits did not end: {throttled} of {all} held back")));
        }
        found(&recorded, "device.slower", 0.2)?;
        Ok(())
    });
}

#[test]
fn a_disk_that_fails_slow_is_named() {
    if !able("a_disk_that_fails_slow_is_named", &[]) {
        return;
    }
    let _alone = alone();
    thrice("fails slow", || {
        // Answers that go out earlier by the way that an idle machine takes come that much too early under load, and
        // a healthy read is told as too fast: this disk does not make up for the way.
        let more = ["--no-calibrate", "--set", "fault.0.from=4s", "--set", "fault.0.over=2s"];
        let recorded = reads("failing", &more, "9s");
        let words = found(&recorded, "device.slower", 0.3)?;
        // Ten times as slow, and a little is the machine's.
        let times =
            words.split_once("slowed down ").and_then(|(_, w)| w.split_once('x')?.0.parse::<f64>().ok());
        match times {
            Some(6.0..=11.0) => Ok(()),
            _ => Err(Missed::Wrong(words)),
        }
    });
}
