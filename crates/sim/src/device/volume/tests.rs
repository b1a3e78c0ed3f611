// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::super::testing::*;
use super::*;

const GIB: u64 = 1 << 30;
const S: Ns = 1_000_000_000;

fn gp3() -> Volume {
    Volume {
        iops: 3000,
        burst_iops: None,
        credits: None,
        credits_at_start: None,
        throughput: Bytes(125 << 20),
        io_size: Bytes(256 << 10),
        slack: Time(10_000_000),
        read_latency: Time(600_000),
        read_latency_p99: Time(1_500_000),
        write_latency: Time(800_000),
        write_latency_p99: Time(2_000_000),
        flush_latency: Time(300_000),
    }
}

fn gp2(credits: u64) -> Volume {
    Volume { iops: 300, burst_iops: Some(3000), credits: Some(credits), slack: Time(0), ..gp3() }
}

fn built(spec: &Volume, seed: u64) -> Box<dyn Device> {
    build(spec, GIB, seed).expect("makes sense")
}

fn near(is: f64, should: f64, part: f64) -> bool {
    (is / should - 1.0).abs() <= part
}

#[test]
fn small_requests_meet_the_limit_of_ios() {
    let mut place = places(GIB, 4096, 1);
    let all = closed(built(&gp3(), 1).as_mut(), 0, 32, 30_000, |_| read(place(), 4096));
    assert!(near(all.rate(), 3000.0, 0.01), "{} a second", all.rate());
    assert!(all.parts.throttled > all.parts.medium, "{:?}", all.parts);
}

#[test]
fn large_requests_meet_the_limit_of_bytes() {
    let mut place = places(GIB, 1 << 20, 1);
    let all = closed(built(&gp3(), 1).as_mut(), 0, 4, 2000, |_| write(place(), 1 << 20));
    assert!(near(all.rate(), 125.0, 0.01), "{} MiB/s", all.rate());
}

#[test]
fn large_requests_count_as_several_ios() {
    let spec = Volume { throughput: Bytes(100 * GIB), iops: 100, ..gp3() };
    let rate = |length| {
        let mut place = places(GIB, 4 << 20, 1);
        closed(built(&spec, 1).as_mut(), 0, 8, 2000, |_| read(place(), length)).rate()
    };
    assert!(near(rate(256 << 10), 100.0, 0.01));
    assert!(near(rate((256 << 10) + 512), 50.0, 0.01), "a second one is begun");
    assert!(near(rate(1 << 20), 25.0, 0.01));
}

#[test]
fn below_the_limits_there_is_the_latency_alone() {
    let mut place = places(GIB, 4096, 1);
    let one = closed(built(&gp3(), 3).as_mut(), 0, 1, 20_000, |_| read(place(), 4096));
    assert_eq!(one.parts.throttled, 0);
    assert!(near(one.quantile(0.5) as f64, 600e3, 0.02), "median {}", one.quantile(0.5));
    assert!(near(one.quantile(0.99) as f64, 1500e3, 0.05), "p99 {}", one.quantile(0.99));
    let one = closed(built(&gp3(), 3).as_mut(), 0, 1, 10_000, |_| write(place(), 4096));
    assert!(near(one.quantile(0.5) as f64, 800e3, 0.02), "median {}", one.quantile(0.5));
}

#[test]
fn credits_end_when_arithmetic_says() {
    // 27,000 credits at 3,000 - 300 a second: 10 s, 30,000 I/Os.
    let spec = Volume { read_latency_p99: Time(600_000), ..gp2(27_000) };
    let mut place = places(GIB, 4096, 1);
    let all = closed(built(&spec, 1).as_mut(), 0, 64, 36_000, |_| read(place(), 4096));
    let at = |nth: usize| all.ends[nth].at - 600_000;
    assert_eq!(at(29_999), 29_999 * S / 3000 + 1, "the last of the burst, rounded up");
    let steps: Vec<Ns> = (30_010..30_020).map(|i| at(i + 1) - at(i)).collect();
    assert!(steps.iter().all(|step| step.abs_diff(S / 300) <= 1), "then one in 1/300 s: {steps:?}");
    let left = all.ends.iter().filter(|end| end.at > 10 * S + 600_000).count();
    assert!(near(left as f64 / 300.0, (all.took - 10 * S) as f64 / 1e9, 0.01), "{left}");
}

#[test]
fn credits_come_back_at_the_baseline() {
    let spec = Volume { credits_at_start: Some(0), read_latency_p99: Time(600_000), ..gp2(27_000) };
    let mut device = built(&spec, 1);
    let mut rate = |from, count| closed(device.as_mut(), from, 64, count, |_| read(0, 4096)).rate();
    assert!(near(rate(0, 3000), 300.0, 0.01), "none at first");
    // 20 s of rest earn 6,000 (10 s are over): 6,000 / 2,700 s of burst, 6,667 I/Os.
    assert!(near(rate(30 * S, 6600), 3000.0, 0.01));
    // 60 are left, and 240 more by then: 3,000 I/Os take 2,700 of the baseline, 9 s.
    assert!(near(rate(33 * S, 3000), 3000.0 / 9.0, 0.01));
}

#[test]
fn neither_flush_nor_discard_nor_what_is_refused_counts() {
    let mut device = built(&gp3(), 1);
    let others = [flush(), discard(0, 1 << 20), write(GIB, 4096), read(GIB, 4096)];
    let all = closed(device.as_mut(), 0, 1, 4000, |i| others[i % 4]);
    assert!(near(all.rate(), 1e9 / 300e3, 0.001), "{}", all.rate());
    let outcomes: Vec<Outcome> = all.ends[..4].iter().map(|end| end.outcome).collect();
    let failed = Outcome::Failed;
    assert_eq!(outcomes, [Outcome::Done, Outcome::Done, failed(libc::ENOSPC), failed(libc::EIO)]);
}

#[test]
fn contradictions_are_named() {
    let cases: [(Volume, &str); 7] = [
        (Volume { iops: 0, ..gp3() }, "medium.iops"),
        (Volume { burst_iops: Some(100), ..gp2(5) }, "medium.burst-iops"),
        (Volume { credits: None, ..gp2(5) }, "medium.credits"),
        (Volume { credits: Some(5), ..gp3() }, "medium.credits"),
        (Volume { credits_at_start: Some(6), ..gp2(5) }, "medium.credits-at-start"),
        (Volume { read_latency_p99: Time(1), ..gp3() }, "medium.read-latency-p99"),
        (Volume { slack: Time(u64::MAX), ..gp3() }, "medium.slack"),
    ];
    for (spec, key) in cases {
        let why = build(&spec, GIB, 1).err().map_or(String::new(), |e| e.0);
        assert!(why.starts_with(&format!("{key}: ")), "{key}: {why}");
    }
}

proptest::proptest! {
    #[test]
    fn any_load_ends(load in any_load(1 << 20), depth in 1..40_usize, seed: u64) {
        same_twice(|| build(&gp2(20), 1 << 20, seed).expect("makes sense"), &load, depth);
    }
}
