// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What holds for every load.

use super::*;
use plumb_load::job::Bytes;
use plumb_stats::random::SplitMix64;
use proptest::prelude::*;

/// Any request, most of them near each other, some beyond the end.
fn any_request(random: &mut SplitMix64, size: u64) -> Request {
    let span = if random.below(4) == 0 { size + 8192 } else { 4 << 20 };
    let most = if random.below(10) == 0 { 3000 } else { 64 };
    let sectors = 1 + random.below(most);
    let operation = match random.below(20) {
        0 => Operation::Flush,
        1 => Operation::Discard,
        2..=9 => Operation::Write,
        _ => Operation::Read,
    };
    let flush = operation == Operation::Flush;
    Request {
        id: 0,
        operation,
        offset: if flush { 0 } else { random.below(span / 512) * 512 },
        length: if flush { 0 } else { sectors as u32 * 512 },
        fua: random.below(8) == 0,
    }
}

fn mixed(name: &str, seed: u64, load: u64, depth: usize, queue: u32, cached: bool) -> Vec<Done> {
    let mut hdd = hdd(name);
    hdd.queue_depth = queue;
    hdd.write_cache = cached;
    hdd.write_room = cached.then_some(Bytes(1 << 20));
    let size = 8 << 30;
    let mut disk = build(&hdd, size, seed).unwrap();
    let (mut random, mut pause) = (SplitMix64::new(load), SplitMix64::new(!load));
    let think = |_| if pause.below(3) == 0 { 0 } else { pause.below(20_000_000) };
    let done = run(&mut *disk, depth, 400, |_| any_request(&mut random, size), think);
    // What was acknowledged is on the platter at the end, and nothing is under way.
    let end = done[done.len() - 1].completion.at;
    rest(&mut *disk);
    disk.submit(end + 3_600_000_000_000, flush(1));
    let last = rest(&mut *disk);
    assert_eq!(last[0].parts.overhead, hdd.overhead.0);
    assert_eq!(last[0].parts.total(), hdd.overhead.0);
    done
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // `run` asserts for each request that its parts add up, and that none is lost or doubled.
    #[test]
    fn parts_add_up_and_nothing_is_lost(
        preset in 0..PRESETS.len(), seed: u64, load: u64, depth in 1..80_usize,
        queue in prop_oneof![Just(1_u32), 2..64_u32], cached: bool,
    ) {
        let name = PRESETS[preset].0;
        let done = mixed(name, seed, load, depth, queue, cached);
        for d in &done {
            let beyond = d.request.operation != Operation::Flush
                && d.request.offset + u64::from(d.request.length) > 8 << 30;
            let failed = matches!(d.completion.outcome, Outcome::Failed(_));
            prop_assert_eq!(failed, beyond);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_and_another_seed_does_not() {
    for (name, _) in PRESETS {
        for cached in [false, true] {
            let first = mixed(name, 42, 7, 6, 32, cached);
            assert_eq!(first, mixed(name, 42, 7, 6, 32, cached), "{name}");
            assert_ne!(first, mixed(name, 43, 7, 6, 32, cached), "{name}");
        }
    }
}

#[test]
fn littles_law_holds_in_a_closed_loop_of_8() {
    for name in ["atlas10k4", "hdp72503"] {
        let mut disk = device(name, 1);
        let size = disk.size();
        let mut random = SplitMix64::new(13);
        let done = run(&mut *disk, 8, 20_000, |i| read(i, random.below(size / 4096) * 4096, 4096), |_| 0);
        let span = done[done.len() - 1].completion.at as f64;
        let (rate, time) = (done.len() as f64 / span, mean(done.iter().map(Done::latency)));
        // 8 are always under way, but for the very end.
        near(rate * time, 8.0, 1.0, name);
        let parts = mean(done.iter().map(|d| d.completion.parts.total()));
        near(parts, time, 0.0001, name);
    }
}

/// Who takes its time to call `advance` sees the same as who calls it at each event.
#[test]
fn the_steps_of_the_clock_do_not_matter() {
    let each = |step: Option<Ns>| {
        let mut disk = device("hdp72503", 3);
        let mut ended = Vec::new();
        let mut random = SplitMix64::new(1);
        for i in 0..200 {
            let now = i * 7_000_000;
            match step {
                None => disk.advance(now, &mut ended),
                Some(step) => {
                    let mut at = now.saturating_sub(7_000_000);
                    while at < now {
                        at = now.min(at + step);
                        disk.advance(at, &mut ended);
                    }
                }
            }
            disk.submit(now, Request { id: i, ..any_request(&mut random, 8 << 30) });
        }
        drain(&mut *disk, &mut ended);
        ended
    };
    let whole = each(None);
    assert_eq!(whole.len(), 200);
    assert_eq!(whole, each(Some(10_000)));
}
