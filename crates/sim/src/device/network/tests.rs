// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::super::instant::Instant;
use super::super::testing::*;
use super::*;

const GIB: u64 = 1 << 30;

fn lan() -> Network {
    Network {
        latency: Time(50_000),
        jitter: Time(0),
        bandwidth: Bytes(1_000_000_000),
        header: Bytes(100),
        stall_rate: 0.0,
        stall: Time(0),
        in_order: true,
    }
}

fn before_instant(spec: &Network) -> Box<dyn Device> {
    build(spec, Box::new(Instant::new(GIB)), 1).expect("makes sense")
}

#[test]
fn latency_comes_once_each_way_and_data_one_way() {
    let ends = run(before_instant(&lan()).as_mut(), &[(7, read(0, 4096))]);
    assert_eq!((ends[0].at, ends[0].parts.overhead), (7 + 2 * 50_100 + 4096, 2 * 50_100 + 4096));
    let ends = run(before_instant(&lan()).as_mut(), &[(7, write(0, 4096))]);
    assert_eq!(ends[0].at, 7 + 2 * 50_100 + 4096);
    let ends = run(before_instant(&lan()).as_mut(), &[(0, flush())]);
    assert_eq!(ends[0].at, 2 * 50_100);
    let ends = run(before_instant(&lan()).as_mut(), &[(0, read(GIB, 4096))]);
    assert_eq!((ends[0].at, ends[0].outcome), (2 * 50_100, Outcome::Failed(libc::EIO)), "no data comes back");
}

#[test]
fn bandwidth_bounds_each_way_by_itself() {
    let rate = |writes: fn(usize) -> bool| {
        let next = |i| if writes(i) { write(0, 65_536) } else { read(0, 65_536) };
        let all = closed(before_instant(&lan()).as_mut(), 0, 64, 20_000, next);
        (all.rate() * 65_536.0 / 1e9, all.parts.queued > all.parts.overhead)
    };
    let (reads, waits) = rate(|_| false);
    assert!((0.99..=1.0).contains(&reads) && waits, "{reads} GB/s");
    assert!((0.99..=1.0).contains(&rate(|_| true).0));
    assert!((1.8..=2.0).contains(&rate(|i| i % 2 == 0).0), "both ways at once");
}

#[test]
fn jitter_is_added_each_way() {
    let spec = Network { jitter: Time(30_000), ..lan() };
    let all = closed(before_instant(&spec).as_mut(), 0, 1, 50_000, |_| flush());
    let mean = all.took as f64 / 50_000.0;
    assert!((mean / (2.0 * 80_100.0) - 1.0).abs() < 0.01, "{mean}");
}

#[test]
fn a_lost_message_comes_late_and_is_a_fault() {
    let spec = Network { stall_rate: 0.01, stall: Time(200_000_000), ..lan() };
    let all = closed(before_instant(&spec).as_mut(), 0, 1, 20_000, |_| flush());
    let stalls = all.parts.fault / 200_000_000;
    assert!((320..480).contains(&stalls), "{stalls} of 40,000 messages at 1 %");
    assert_eq!(all.parts.fault % 200_000_000, 0);
    assert_eq!(all.quantile(0.5), 2 * 50_100);
}

#[test]
fn in_order_all_wait_behind_a_late_one() {
    let order = |in_order| {
        let spec = Network { stall_rate: 0.2, stall: Time(1_000_000), in_order, ..lan() };
        let requests: Vec<(Ns, Request)> = (0..200).map(|i| (i * 1000, flush())).collect();
        let ends = run(before_instant(&spec).as_mut(), &requests);
        ends.windows(2).all(|pair| pair[0].at <= pair[1].at)
    };
    assert_eq!((order(true), order(false)), (true, false));
}

#[test]
fn contradictions_are_named() {
    let cases: [(Network, &str); 4] = [
        (Network { bandwidth: Bytes(0), ..lan() }, "network.bandwidth"),
        (Network { stall_rate: 1.5, ..lan() }, "network.stall-rate"),
        (Network { stall_rate: 0.5, ..lan() }, "network.stall"),
        (Network { stall: Time(5), ..lan() }, "network.stall"),
    ];
    for (spec, key) in cases {
        let why = build(&spec, Box::new(Instant::new(GIB)), 1).err().map_or(String::new(), |e| e.0);
        assert!(why.starts_with(&format!("{key}: ")), "{key}: {why}");
    }
}

proptest::proptest! {
    #[test]
    fn any_load_ends(load in any_load(1 << 20), depth in 1..40_usize, seed: u64, in_order: bool) {
        let spec = Network { jitter: Time(9000), stall_rate: 0.1, stall: Time(77_777), in_order, ..lan() };
        let ssd = super::super::ssd::tests::small();
        let built = || {
            let inner = super::super::ssd::build(&ssd, 1 << 20, seed).expect("makes sense");
            build(&spec, inner, seed).expect("makes sense")
        };
        same_twice(built, &load, depth);
    }
}
