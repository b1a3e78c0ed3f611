// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Laws that hold for any disk, on a real block device.

use super::common::scratch::{job, kind};
use super::registry::{able, DiskRegistry};
use super::served::{alone, thrice, Missed, Served};
use plumb_sim::device::Operation;

/// A turn of 10,000 a minute, ns.
const TURN: f64 = 6e6;

#[test]
fn a_random_read_waits_half_a_turn() {
    if !able("a_random_read_waits_half_a_turn", &[]) {
        return;
    }
    let _alone = alone();
    let disks = DiskRegistry::new();
    let served = Served::new(&disks, "atlas10k4", &["--no-calibrate"]);
    let read = ["--what", "read", "--order", "random", "--direct", "--size", "1G", "--operations", "800"];
    served.load(&read);
    // Reads that the disk's cache had neither seek nor turn.
    let waits: Vec<f64> = served
        .end()
        .iter()
        .filter(|l| l.operation == Operation::Read && l.length == 4096 && l.parts.seek + l.parts.rotation > 0)
        .map(|l| l.parts.rotation as f64)
        .collect();
    let n = waits.len() as f64;
    let mean = waits.iter().sum::<f64>() / n;
    // Evenly spread over a turn: the deviation is the turn by the root of 12.
    let error = (4.0 * TURN / (12.0 * n).sqrt()).max(TURN / 2.0 * 0.05);
    assert!(
        n > 700.0 && (mean - TURN / 2.0).abs() <= error,
        "{n} reads waited {mean:.0} ns for the sector, half a turn is {:.0} ns (may differ by {error:.0} ns)",
        TURN / 2.0
    );
    assert!(waits.iter().all(|w| *w <= TURN), "longer than a turn");
}

#[test]
fn littles_law_holds_at_depth_8() {
    if !able("littles_law_holds_at_depth_8", &[]) {
        return;
    }
    let _alone = alone();
    thrice("Little's law", || {
        let disks = DiskRegistry::new();
        let served = Served::new(&disks, "atlas10k4", &[]);
        let read = ["--what", "read", "--order", "random", "--direct", "--size", "1G", "--time", "4s"];
        let all = served.load(&[&read[..], &["--through", "io-uring", "--depth", "8"]].concat());
        let reads = kind(job(&all), "read");
        let rate = reads["rate"].as_f64().expect("a rate");
        let mean = reads["service"]["mean_ns"].as_f64().expect("a mean") / 1e9;
        let (under_way, count) = (rate * mean, &reads["count"]);
        if (under_way - 8.0).abs() > 0.4 {
            return Err(Missed::Wrong(format!(
                "{rate:.1}/s * {mean:.6} s = {under_way:.2} of 8 under way, {count} reads"
            )));
        }
        Ok(())
    });
}
