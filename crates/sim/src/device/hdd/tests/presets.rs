// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The presets do what their data sheets say.

use super::*;
use plumb_stats::random::SplitMix64;

/// Sustained rates of the outermost and the innermost zone, MB/s, that the presets' sources name.
const SUSTAINED: [(&str, f64, f64); 4] = [
    ("atlas10k4", 72.0, 42.0),
    ("st336607lc", 68.0, 38.0),
    ("cheetah15k", 75.0, 49.0),
    ("hdp72503", 88.0, 42.0),
];

#[test]
fn names_capacities_and_write_caches_are_those_of_the_disks() {
    for (name, text) in PRESETS {
        let spec = spec(name);
        assert_eq!(spec.name, name);
        assert!(spec.source.contains("stimate"), "{name}: says what is an estimate");
        assert!(text.starts_with("# SPDX"), "{name}");
        let whole = hdd(name);
        let capacity: u64 = whole
            .zones
            .table(whole.cylinders)
            .iter()
            .map(|z| u64::from(z.cylinders) * u64::from(z.sectors) * u64::from(whole.heads) * 512)
            .sum();
        assert!(capacity >= spec.size.0, "{name}");
        near(capacity as f64, spec.size.0 as f64, 0.1, name);
        assert_eq!(device(name, 1).volatile_cache(), name == "hdp72503", "{name}");
        assert_eq!(device(name, 1).size(), spec.size.0);
        assert_eq!(spec.size.0 % 4096, 0);
    }
}

/// 128 MiB in pieces of 128 KiB from `start` on; a write cache is full after 8.
fn sequential(name: &str, start: u64, depth: usize, writes: bool) -> f64 {
    let mut disk = device(name, 3);
    let piece = |i: u64| start + i * 131_072;
    let done = run(
        &mut *disk,
        depth,
        1024,
        |i| if writes { write(i, piece(i), 131_072) } else { read(i, piece(i), 131_072) },
        |_| 20_000,
    );
    rate(&done) / 1e6
}

#[test]
fn sequential_rates_are_those_of_the_zones() {
    for (name, outer, inner) in SUSTAINED {
        let inside = spec(name).size.0 - (160 << 20);
        for (start, expected) in [(0, outer), (inside, inner)] {
            near(sequential(name, start, 1, false), expected, 5.0, &format!("{name} read at {start}"));
            // Without a write cache one write must be under way while the next one arrives.
            let depth = if hdd(name).write_cache { 1 } else { 4 };
            near(sequential(name, start, depth, true), expected, 5.0, &format!("{name} write at {start}"));
        }
    }
}

#[test]
fn random_reads_wait_half_a_turn_and_seek_the_average() {
    for (name, _) in PRESETS {
        let (mut disk, hdd, size) = (device(name, 5), hdd(name), spec(name).size.0);
        let mut random = SplitMix64::new(11);
        let done = in_turn(&mut *disk, 20_000, |i| read(i, random.below(size / 4096) * 4096, 4096));
        let turn = 60e9 / f64::from(hdd.rpm);
        near(
            mean(done.iter().map(|d| d.completion.parts.rotation)),
            turn / 2.0,
            3.0,
            &format!("{name} rotation"),
        );
        let transfer = mean(done.iter().map(|d| d.completion.parts.medium));
        let expected = hdd.seek.average.0 as f64 + turn / 2.0 + transfer;
        near(mean(done.iter().map(Done::latency)), expected, 10.0, &format!("{name} latency"));
    }
}

/// The 2004 measurement's synchronous appends: each write waits for the place behind the last one to come round.
#[test]
fn synchronous_writes_in_order_take_a_turn_each() {
    for (name, turn) in [("atlas10k4", 6.0e6), ("st336607lc", 6.0e6), ("cheetah15k", 4.0e6)] {
        for (least, most) in [(50_000, 50_001), (50_000, 200_000), (200_000, 200_001)] {
            let mut disk = device(name, 9);
            let mut random = SplitMix64::new(1);
            let think = |_| least + random.below(most - least);
            let done = run(&mut *disk, 1, 6144, |i| write(i, i * 8192, 8192), think);
            let between = (done[6143].completion.at - done[0].completion.at) as f64 / 6143.0;
            near(between, turn, 3.0, &format!("{name}, {least} to {most} ns later"));
            assert!(done[1..].iter().all(|d| d.completion.outcome == Outcome::Done));
        }
    }
}

#[test]
fn a_write_seeks_longer_by_its_settling() {
    for (name, _) in PRESETS {
        let mut hdd = hdd(name);
        hdd.write_cache = false;
        let size = spec(name).size.0;
        let seek = |request: fn(u64, u64, u32) -> Request| {
            let mut disk = build(&hdd, size, 5).unwrap();
            let mut random = SplitMix64::new(11);
            let done = in_turn(&mut *disk, 5000, |i| request(i, random.below(size / 4096) * 4096, 4096));
            mean(done.iter().map(|d| d.completion.parts.seek))
        };
        let extra = seek(write) - seek(read);
        near(extra, hdd.seek.write_settle.0 as f64, 2.0, name);
    }
}

#[test]
fn a_smaller_disk_is_the_outer_part() {
    let name = "atlas10k4";
    let mut disk = build(&hdd(name), 1 << 30, 5).unwrap();
    let mut random = SplitMix64::new(1);
    let done = in_turn(&mut *disk, 5000, |i| read(i, random.below(1 << 18) * 4096, 4096));
    let seek = mean(done.iter().map(|d| d.completion.parts.seek));
    // About 1,100 cylinders of 47,139.
    assert!(seek < 1.5e6, "{seek}");
    let sectors = hdd(name).zones.table(47_139)[0].sectors;
    // The median: a few find their first sectors in the buffer.
    let mut transfers: Vec<_> = done.iter().map(|d| d.completion.parts.medium).collect();
    transfers.sort_unstable();
    near(transfers[2500] as f64, 8.0 * 6e6 / f64::from(sectors), 0.1, "8 sectors of the outermost zone");
}
