// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conservation: Little's law, utilisation, nothing lost.

use super::super::scheduler::NAMES;
use super::super::simulation::SimulationError;
use super::ledger::Ledger;
use super::*;
use plumb_load::job::{Arrivals, Rate, SyncMethod};
use proptest::prelude::*;

#[test]
fn littles_law_and_the_utilisation_law_hold_in_every_part() {
    let device = || Box::new(Server::new(SIZE, 4, Service::Exponential(MS), 3));
    let open = Job { rate: Some(Rate(900.0)), arrivals: Arrivals::Poisson, ..deep(reads(), 1024) };
    let closed = Job { think: Time(2 * MS), threads: 3, ..reads() };
    for kind in NAMES {
        let jobs = [for_time(open.clone(), 20_000 * MS), for_time(closed.clone(), 20_000 * MS)];
        let figures = run(device(), named(kind, &[]), settings(6), &jobs);
        let seconds = figures.elapsed() as f64 / 1e9;
        let [system, slotless, _, in_device] = figures.lengths();
        let sums = figures.jobs.iter().fold((0, 0.0), |(n, sum), job| {
            (n + job.q2c.count(), sum + job.q2c.mean() * job.q2c.count() as f64)
        });
        let rate = sums.0 as f64 / seconds;
        let law = rate * sums.1 / sums.0 as f64 / 1e9;
        assert!((system / law - 1.0).abs() < 0.01, "{kind}: length {system}, rate x time {law}");
        assert_eq!(slotless, 0.0);
        let d2c = &figures.device.d2c;
        let law = d2c.count() as f64 / seconds * d2c.mean() / 1e9;
        assert!((in_device / law - 1.0).abs() < 0.01, "{kind}: in the device {in_device}, by the law {law}");
        // The servers' own work: rate x service time = servers at work.
        let p = figures.device.parts;
        assert_eq!(u128::from(p.queued + p.medium), d2c.sum(), "{kind}: parts");
        let work = p.medium as f64 / figures.elapsed() as f64;
        let law = rate * MS as f64 / 1e9;
        assert!((work / law - 1.0).abs() < 0.02, "{kind}: servers at work {work}, by the law {law}");
    }
}

#[test]
fn times_of_requests_are_told_for_what_they_ask() {
    let cached = Box::new(Server::new(SIZE, 1, Service::Fixed(MS), 1).with_cache());
    let synced = Job { what: What::Write, sync: SyncMethod::Fsync, operations: Some(20), ..reads() };
    let other = Job { seed: 2, operations: Some(50), ..reads() };
    let report = run(cached, Kind::Noop, settings(1), &[synced, other]).report();
    let counts = |job: usize| -> Vec<(&str, u64, u64)> {
        let requests = report.jobs[job].requests.iter();
        requests.map(|r| (r.operation, r.q2c.count, r.d2c.count)).collect()
    };
    assert_eq!(counts(0), [("write", 20, 20), ("flush", 20, 20)]);
    assert_eq!(counts(1), [("read", 50, 50)]);
    // One at a time in the device: with others there requests wait, and the device takes its own time alone.
    for r in report.jobs.iter().flat_map(|j| &j.requests) {
        assert!(r.d2c.mean_ns <= r.q2c.mean_ns && r.d2c.mean_ns > 0.0, "{r:?}");
        assert!(r.operation == "flush" || r.d2c.max == Some(MS), "{r:?}");
    }
}

#[test]
fn waiting_for_a_slot_counts_and_is_first_come_first_served() {
    let settings = Settings { nr_requests: 4, max_bytes: 1 << 20, depth: 2 };
    let jobs: Vec<_> =
        (0..8).map(|n| (Job { seed: n, operations: Some(50), ..reads() }, Class::BestEffort)).collect();
    let mut ledger = Ledger::new(settings);
    let (figures, _) = watched(fixed(2, MS), Kind::Noop, settings, &jobs, &mut ledger).expect("an end");
    ledger.close();
    let [system, slotless, ..] = figures.lengths();
    assert!((slotless - 4.0).abs() < 0.1 && (system - 8.0).abs() < 0.1, "{slotless} of {system}");
    let slowest = figures.jobs.iter().filter_map(|j| j.q2c.max()).max();
    assert_eq!(slowest, Some(4 * MS));
}

#[test]
fn a_model_that_takes_no_time_is_refused_where_only_time_would_end_it() {
    let instant = || fixed(64, 0);
    let endless = [(for_time(reads(), MS), Class::BestEffort)];
    let said = watched(instant(), Kind::Noop, settings(32), &endless, &mut ());
    assert!(matches!(said, Err(SimulationError::NoTime(0))), "{said:?}");
    let counted = Job { operations: Some(3_000), ..reads() };
    let figures = run(instant(), Kind::Noop, settings(32), &[counted]);
    assert_eq!(figures.device.requests, [3_000, 0]);
    let paced = for_time(Job { rate: Some(Rate(1e6)), ..reads() }, MS);
    assert_eq!(run(instant(), Kind::Noop, settings(32), &[paced]).device.requests, [1000, 0]);
}

#[test]
fn a_stonewall_ends_all_and_time_ends_a_loop() {
    let job = Job { threads: 4, stonewall: true, operations: Some(100), ..reads() };
    let slow = run(fixed(1, MS), Kind::Noop, settings(1), &[job]);
    assert!((397..=400).contains(&slow.device.requests[0]), "{:?}", slow.device.requests);
    let timed = run(fixed(1, MS), Kind::Noop, settings(1), &[for_time(reads(), 100 * MS)]);
    assert_eq!((timed.device.requests[0], timed.until), (100, 100 * MS));
}

#[test]
fn flushes_are_shared_and_writes_wait_for_theirs() {
    let cached = || Box::new(Server::new(SIZE, 1, Service::Fixed(MS), 1).with_cache());
    let writes = Job { what: What::Write, sync: SyncMethod::Fdatasync, ..reads() };
    let one = Job { operations: Some(10), ..writes.clone() };
    let figures = run(cached(), Kind::Noop, settings(4), std::slice::from_ref(&one));
    let kinds: Vec<_> = figures.jobs[0].kinds.iter().map(|k| (k.kind.word(), k.service.mean())).collect();
    assert_eq!(kinds, [("write", 2e6), ("sync", 1e6)]);
    assert_eq!((figures.device.flushes, figures.until), (10, 20 * MS));
    let many = Job { threads: 8, ..one.clone() };
    let settings = settings(8);
    let mut ledger = Ledger::new(settings);
    let jobs = [(many, Class::BestEffort)];
    let (figures, _) = watched(cached(), Kind::Noop, settings, &jobs, &mut ledger).expect("an end");
    ledger.close();
    let syncs = figures.jobs[0].kinds.iter().find(|k| k.kind.word() == "sync").map(|k| k.service.count());
    assert_eq!(syncs, Some(80));
    assert!(figures.device.flushes < 50, "{} flushes for 80 that asked", figures.device.flushes);
    // A depth is run empty before the flush, which covers all of it.
    let queue = Job { every: 4, operations: Some(40), ..deep(writes, 4) };
    let figures = run(cached(), Kind::Noop, settings, &[queue]);
    // When the fourth has ended three others are under way, which the flush covers too: 5 x 7 and 5.
    assert_eq!((figures.device.flushes, figures.device.requests[1]), (6, 40));
    // Without a cache there is nothing to flush.
    let figures = run(fixed(1, MS), Kind::Noop, settings, &[one]);
    assert_eq!((figures.device.flushes, figures.until), (0, 10 * MS));
}

fn jobs() -> impl Strategy<Value = Vec<(Job, Class)>> {
    let what = prop_oneof![Just(What::Read), Just(What::Write), Just(What::Mix)];
    let order = prop_oneof![Just(Order::Sequential), Just(Order::Random), Just(Order::Backwards)];
    let class = prop_oneof![Just(Class::BestEffort), Just(Class::Idle), Just(Class::RealTime)];
    let shape = (1u32..9, 1u32..4, 1u64..65, 0u64..3, prop_oneof![Just(0), Just(1), Just(3)]);
    let one = (what, order, class, shape, any::<u32>(), prop::option::of(100.0..20_000.0f64)).prop_map(
        |(what, order, class, (depth, threads, blocks, think, every), seed, rate)| {
            let job = Job {
                what,
                order,
                seed,
                threads,
                block: Bytes(blocks * 4096),
                size: Bytes(1 << 22),
                operations: Some(40),
                think: Time(if rate.is_some() { 0 } else { think * MS }),
                rate: rate.map(Rate),
                sync: if every > 0 { SyncMethod::Fdatasync } else { SyncMethod::None },
                every: every.max(1),
                ..deep(Job::default(), depth)
            };
            (job, class)
        },
    );
    prop::collection::vec(one, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn nothing_is_lost_and_limits_hold(
        jobs in jobs(),
        kind in prop::sample::select(NAMES.to_vec()),
        (nr_requests, depth, servers, max) in (1usize..20, 1usize..12, 1usize..6, 1u32..65),
        cache in any::<bool>(),
    ) {
        let settings = Settings { nr_requests, max_bytes: max * 4096, depth };
        let device = Server::new(1 << 22, servers, Service::Linear(50_000, 1_000), 5);
        let device: Box<dyn Device> = Box::new(if cache { device.with_cache() } else { device });
        let mut ledger = Ledger::new(settings);
        let done = watched(device, named(kind, &[]), settings, &jobs, &mut ledger);
        prop_assert!(done.is_ok(), "{:?}", done.err());
        ledger.close();
        let asked: u64 = jobs.iter().map(|(job, _)| 40 * u64::from(job.threads)).sum();
        let own = ledger.ops.iter().filter(|(op, _)| op.kind != plumb_trace::load::OperationKind::Sync);
        prop_assert_eq!(own.count() as u64, asked);
    }
}
