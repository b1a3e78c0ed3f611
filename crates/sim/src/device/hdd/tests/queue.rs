// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several requests at once.

use super::*;
use plumb_load::job::Time;
use plumb_stats::random::SplitMix64;

fn random_reads(hdd: &Hdd, depth: usize, count: u64) -> Vec<Done> {
    let size = 34 << 30;
    let mut disk = build(hdd, size, 1).unwrap();
    let mut random = SplitMix64::new(77);
    run(&mut *disk, depth, count, |i| read(i, random.below(size / 4096) * 4096, 4096), |_| 0)
}

fn per_second(done: &[Done]) -> f64 {
    done.len() as f64 * 1e9 / done[done.len() - 1].completion.at as f64
}

#[test]
fn a_queue_of_32_gives_more_than_half_as_much_again() {
    for name in ["hdp72503", "cheetah15k"] {
        let mut hdd = hdd(name);
        hdd.queue_depth = 32;
        let (one, many) = (random_reads(&hdd, 1, 4000), random_reads(&hdd, 32, 4000));
        let gain = per_second(&many) / per_second(&one);
        assert!(gain > 1.5, "{name}: {gain}");
        // A queue in the host does not help a disk that takes one command at a time.
        hdd.queue_depth = 1;
        let host = random_reads(&hdd, 32, 4000);
        near(per_second(&host), per_second(&one), 3.0, name);
        assert!(mean(host.iter().map(|d| d.completion.parts.queued)) > 20.0 * 5e6);
    }
}

#[test]
fn none_starves() {
    let mut hdd = hdd("hdp72503");
    hdd.queue_depth = 32;
    let bound = |aging: u64| {
        let mut hdd = hdd.clone();
        hdd.aging = Time(aging);
        random_reads(&hdd, 64, 6000).iter().map(Done::latency).max().unwrap()
    };
    // When all are old, the order is that of arrival: 64 deep at 12 ms.
    let (never, soon) = (bound(u64::MAX), bound(100_000_000));
    assert!(soon < 64 * 16_000_000, "{soon}");
    assert!(never > soon, "without a bound some wait longer: {never}, {soon}");

    // All traffic at the outer edge but for one request far inside.
    let mut disk = build(&hdd, 298 << 30, 1).unwrap();
    let mut random = SplitMix64::new(5);
    let place =
        |i: u64, random: &mut SplitMix64| if i == 20 { 290 << 30 } else { random.below(25_000) * 4096 };
    let done = run(&mut *disk, 31, 3000, |i| read(i, place(i, &mut random), 4096), |_| 0);
    let lonely = done.iter().find(|d| d.request.id == 20).unwrap();
    assert!(lonely.latency() < 550_000_000, "{}", lonely.latency());
}

#[test]
fn writes_in_order_at_depth_lose_no_turn() {
    let mut disk = device("cheetah15k", 1);
    let done = run(&mut *disk, 8, 2000, |i| write(i, i * 16_384, 16_384), |_| 30_000);
    assert!(rate(&done) > 0.95 * 75e6, "{}", rate(&done));
}
