// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Synchronous writes to a disk without a write cache: each waits for its sector to come round again,
//! and a journal makes it wait two or three times. Figures of the evaluation of Linux of 2004.

use super::common::scratch::{job, kind};
use super::registry::{able, DiskRegistry};
use super::served::{alone, mkfs, thrice, Missed, Served};
use serde_json::Value;

fn mean_ns(all: &Value) -> f64 {
    kind(job(all), "write")["service"]["mean_ns"].as_f64().expect("a mean")
}

fn a_write_takes_turns_of(model: &str, turn: f64) {
    let test = format!("synchronous writes to {model}");
    if !able(&test, &["mkfs.ext3"]) {
        return;
    }
    let _alone = alone();
    thrice(&test, || {
        let disks = DiskRegistry::new();
        let served = Served::new(&disks, model, &[]);
        let write = ["--what", "write", "--block", "8K", "--operations", "300"];
        let bare = mean_ns(&served.load(&[&write[..], &["--size", "64M", "--sync", "o-dsync"]].concat()));
        mkfs("ext3", &served.device);
        let point = disks.mount(&served.device);
        let on_ext3 = |sync: &str| {
            let scratch = super::common::scratch::Scratch::new();
            let target = point.display().to_string();
            let more = ["--size", "4M", "--sync", sync, &target];
            mean_ns(&scratch.json(&[&write[..], &more].concat()))
        };
        let (fsync, nothing) = (on_ext3("fsync"), on_ext3("none"));
        disks.umount();
        served.end();
        println!("{model}: O_DSYNC {bare:.0} ns, ext3 and fsync {fsync:.0} ns, without {nothing:.0} ns");
        let good = [
            (bare - turn).abs() <= turn * 0.1,
            (turn * 1.9..=turn * 3.2).contains(&fsync),
            nothing < 200_000.0,
        ];
        if good.contains(&false) {
            return Err(Missed::Wrong(format!(
                "a turn takes {turn:.0} ns: O_DSYNC {bare:.0} ns (asked: one, within 10 %), fsync on ext3 \
                 {fsync:.0} ns (1.9 to 3.2), no sync {nothing:.0} ns (below 200,000)"
            )));
        }
        Ok(())
    });
}

#[test]
fn at_10000_turns_a_minute() {
    a_write_takes_turns_of("atlas10k4", 6e6);
}

#[test]
fn at_15000_turns_a_minute() {
    a_write_takes_turns_of("cheetah15k", 4e6);
}
