// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each scheduler promises.

use super::super::requests::Request;
use super::super::scheduler::NAMES;
use super::ledger::Ledger;
use super::*;
use crate::device::Completion;

/// Longest time in the scheduler of each task's requests, and what the classes did to each other.
#[derive(Default)]
struct Waits {
    longest: Vec<Ns>,
    /// Of each class: inserted and not completed.
    open: [u64; 3],
    /// Requests of the idle class that went although others were queued or in flight, shortest wait of those.
    early: u64,
    shortest_early: Option<Ns>,
}

impl Observer for Waits {
    fn inserted(&mut self, _: Ns, _: u32, request: &Request) {
        self.open[request.class.index()] += 1;
    }
    fn issued(&mut self, now: Ns, _: u32, request: &Request) {
        let task = request.task as usize;
        self.longest.resize(self.longest.len().max(task + 1), 0);
        let waited = now - request.inserted_at;
        self.longest[task] = self.longest[task].max(waited);
        if request.class == Class::Idle && self.open[0] + self.open[1] > 0 {
            self.early += 1;
            self.shortest_early = Some(self.shortest_early.unwrap_or(Ns::MAX).min(waited));
        }
    }
    fn completed(&mut self, _: Ns, _: u32, request: &Request, _: &Completion) {
        self.open[request.class.index()] -= 1;
    }
}

fn waits(device: Box<dyn Device>, kind: Kind, settings: Settings, jobs: &[(Job, Class)]) -> (Figures, Waits) {
    let mut waits = Waits::default();
    let (figures, _) = watched(device, kind, settings, jobs, &mut waits).expect("it comes to its end");
    (figures, waits)
}

fn rate(figures: &Figures, job: usize) -> f64 {
    figures.report().jobs[job].kinds.iter().map(|k| k.rate).sum()
}

#[test]
fn noop_keeps_the_order() {
    let settings = settings(3);
    let jobs = [
        (Job { operations: Some(500), ..deep(reads(), 16) }, Class::Idle),
        (for_time(reads(), 99 * MS), Class::RealTime),
    ];
    let mut ledger = Ledger::new(settings);
    watched(fixed(2, MS), Kind::Noop, settings, &jobs, &mut ledger).expect("an end");
    ledger.close();
    let issued: Vec<u64> = ledger.issued.iter().map(|(offset, _)| *offset).collect();
    assert!(issued.len() > 500 && issued == ledger.queued);
}

#[test]
fn a_sequential_stream_is_merged_up_to_the_longest_request() {
    for kind in NAMES {
        let settings = Settings { max_bytes: 64 << 10, ..settings(1) };
        let job = Job { what: What::Write, order: Order::Sequential, ..deep(reads(), 64) };
        let jobs = [(Job { operations: Some(6400), ..job }, Class::BestEffort)];
        let mut ledger = Ledger::new(settings);
        let (figures, _) =
            watched(fixed(1, MS), named(kind, &[]), settings, &jobs, &mut ledger).expect("an end");
        ledger.close();
        assert_eq!(ledger.bytes[1], 6400 * 4096);
        assert_eq!(ledger.issued.iter().map(|(_, length)| *length).max(), Some(64 << 10), "{kind}");
        let mean = ledger.bytes[1] / ledger.issued.len() as u64;
        assert!(mean > 60 << 10, "{kind}: {mean} bytes a request");
        assert_eq!(figures.device.merges, 6400 - ledger.issued.len() as u64);
    }
}

#[test]
fn deadline_merges_at_the_front_unless_told_not_to() {
    let job = Job { order: Order::Backwards, operations: Some(640), ..deep(reads(), 32) };
    let merges = |kind| run(fixed(1, MS), kind, settings(1), std::slice::from_ref(&job)).device.merges;
    assert!(merges(named("deadline", &[])) > 500 && merges(named("lp-deadline", &[])) > 500);
    assert_eq!(merges(named("deadline", &["front_merges=0"])), 0);
    assert_eq!(merges(Kind::Noop), 0);
}

#[test]
fn deadline_sorts_within_a_batch() {
    // All there at once: upwards from the oldest to the highest, then from the oldest that is left.
    let settings = settings(1);
    let jobs = [(Job { operations: Some(160), ..deep(reads(), 160) }, Class::BestEffort)];
    let downwards = |kind| {
        let mut ledger = Ledger::new(settings);
        watched(fixed(1, MS), named(kind, &[]), settings, &jobs, &mut ledger).expect("an end");
        ledger.issued.windows(2).filter(|w| w[1].0 < w[0].0).count()
    };
    assert!(["deadline", "mq-deadline", "lp-deadline"].map(downwards).into_iter().all(|n| n <= 8));
    assert!(downwards("noop") > 60);
}

/// A stream that always has a next request further on, and one who reads before its beginning.
fn stream_and_other() -> [(Job, Class); 2] {
    let stream = Job { order: Order::Sequential, offset: Bytes(SIZE / 2), ..deep(reads(), 32) };
    let other = Job { range: Some(Bytes(SIZE / 4)), ..reads() };
    [(for_time(stream, 20_000 * MS), Class::BestEffort), (for_time(other, 20_000 * MS), Class::BestEffort)]
}

#[test]
fn deadline_lets_no_read_wait_longer_than_its_time_and_a_batch() {
    let settings = Settings { max_bytes: 4096, ..settings(1) };
    for kind in ["deadline", "mq-deadline", "lp-deadline"] {
        let knobs = ["read_expire=200", "fifo_batch=16"];
        let (_, seen) = waits(fixed(1, MS), named(kind, &knobs), settings, &stream_and_other());
        // The batch that runs when it expires, and the request in flight.
        let bound = (200 + 16 + 1) * MS;
        assert!(seen.longest[1] > 190 * MS && seen.longest[1] <= bound, "{kind}: {:?}", seen.longest);
    }
}

#[test]
fn deadline_lets_writes_starve_so_many_batches_and_no_more() {
    let job = |what| for_time(Job { what, ..deep(reads(), 64) }, 10_000 * MS);
    for kind in ["deadline", "mq-deadline", "lp-deadline"] {
        let figures = run(fixed(1, MS), named(kind, &[]), settings(1), &[job(What::Read), job(What::Write)]);
        let share = figures.device.requests[0] as f64 / figures.device.requests[1] as f64;
        assert!((1.8..2.2).contains(&share), "{kind}: {share} reads a write");
    }
}

#[test]
fn mq_deadline_serves_the_idle_class_only_when_nobody_else_is_there() {
    let normal = for_time(Job { think: Time(30 * MS), threads: 2, ..reads() }, 5_000 * MS);
    let bulk = for_time(deep(reads(), 32), 5_000 * MS);
    let jobs = |class| [(normal.clone(), Class::BestEffort), (bulk.clone(), class)];
    let kind = named("mq-deadline", &[]);
    let (figures, seen) = waits(fixed(4, MS), kind, settings(8), &jobs(Class::Idle));
    assert_eq!(seen.early, 0);
    assert!(rate(&figures, 1) > 100.0, "it does get the gaps: {}", rate(&figures, 1));
    // noop knows no classes: the test can fail.
    let (_, seen) = waits(fixed(4, MS), Kind::Noop, settings(8), &jobs(Class::Idle));
    assert!(seen.early > 1000);
}

/// What mq-deadline held back goes at a tick of the kernel's, not when the last foreground request is done.
#[test]
fn mq_deadline_asks_again_by_a_timer() {
    #[derive(Default)]
    struct Held(Vec<Ns>);
    impl Observer for Held {
        fn issued(&mut self, now: Ns, _: u32, request: &Request) {
            if request.class == Class::Idle && request.inserted_at < now {
                self.0.push(now);
            }
        }
    }
    let normal = for_time(Job { think: Time(21 * MS), ..reads() }, 2_000 * MS);
    let jobs = [(normal, Class::BestEffort), (for_time(reads(), 2_000 * MS), Class::Idle)];
    let held = |kind| {
        let mut held = Held::default();
        watched(fixed(4, MS), kind, settings(8), &jobs, &mut held).expect("an end");
        held.0
    };
    let seen = held(named("mq-deadline", &[]));
    assert!(seen.len() > 50 && seen.iter().all(|at| at % (4 * MS) == 0), "{seen:?}");
    // lp-deadline is told when it is done.
    let seen = held(named("lp-deadline", &[]));
    assert!(seen.iter().any(|at| at % (4 * MS) != 0), "{seen:?}");
}

#[test]
fn mq_deadline_lets_the_idle_class_wait_no_longer_than_its_age() {
    let jobs = [
        (for_time(deep(reads(), 4), 20_000 * MS), Class::BestEffort),
        (for_time(reads(), 20_000 * MS), Class::Idle),
    ];
    let kind = named("mq-deadline", &["prio_aging_expire=1000"]);
    let (figures, seen) = waits(fixed(1, MS), kind, settings(1), &jobs);
    assert!(seen.shortest_early >= Some(1000 * MS), "{:?}", seen.shortest_early);
    assert!(seen.longest[1] <= 1001 * MS && figures.jobs[1].q2c.count() >= 19, "{:?}", seen.longest);
}

#[test]
fn mq_deadline_keeps_slots_for_reads() {
    let settings = Settings { nr_requests: 16, ..settings(4) };
    let writes = for_time(Job { what: What::Write, ..deep(reads(), 64) }, 1_000 * MS);
    let jobs = [writes, for_time(reads(), 1_000 * MS)];
    let figures = |knobs: &[&str]| run(fixed(4, MS), named("mq-deadline", knobs), settings, &jobs);
    let (kept, all) = (figures(&[]), figures(&["async_depth=16"]));
    // Reads that never wait for a slot wait for the batches before them alone.
    let (kept, all) = (rate(&kept, 1), rate(&all, 1));
    assert!(kept > 1.3 * all, "{kept} reads a second, {all} where writes may take every slot");
}

#[test]
fn fair_serves_equal_loops_equally() {
    let job = |seed, depth| for_time(Job { seed, ..deep(reads(), depth) }, 60_000 * MS);
    let rates = |kind, depths: [u32; 2]| {
        let figures = run(fixed(1, MS), kind, settings(4), &[job(1, depths[0]), job(2, depths[1])]);
        rate(&figures, 0) / rate(&figures, 1)
    };
    let equal = rates(named("fair", &[]), [4, 4]);
    assert!((equal - 1.0).abs() < 0.03, "{equal}");
    // Who asks for more at once gets no more time.
    let deeper = rates(named("fair", &[]), [32, 4]);
    assert!((deeper - 1.0).abs() < 0.12, "{deeper}");
    assert!(rates(Kind::Noop, [32, 4]) > 4.0);
}

#[test]
fn fair_does_not_starve_a_reader_that_thinks() {
    let thinker = for_time(Job { think: Time(2 * MS), ..reads() }, 20_000 * MS);
    let bulk = for_time(deep(reads(), 32), 20_000 * MS);
    let alone = rate(&run(fixed(1, 5 * MS), Kind::Noop, settings(1), std::slice::from_ref(&thinker)), 0);
    let beside = |kind| rate(&run(fixed(1, 5 * MS), kind, settings(1), &[thinker.clone(), bulk.clone()]), 0);
    let (fair, noop) = (beside(named("fair", &[])), beside(Kind::Noop));
    assert!(fair > 0.4 * alone && noop < 0.1 * alone, "alone {alone}, fair {fair}, noop {noop}");
    // Without idling it loses its turn whenever it thinks.
    let hasty = beside(named("fair", &["slice_idle=0"]));
    assert!(hasty < 0.5 * fair, "{hasty}");
}

#[test]
fn fair_serves_the_idle_class_alone_and_one_by_one() {
    let normal = for_time(deep(reads(), 2), 5_000 * MS);
    let jobs = [(normal, Class::BestEffort), (for_time(deep(reads(), 8), 10_000 * MS), Class::Idle)];
    let (figures, seen) = waits(fixed(4, MS), named("fair", &[]), settings(8), &jobs);
    assert_eq!(seen.early, 0);
    // The second half is its own, less the time that it waits for others to come back.
    let count = figures.jobs[1].q2c.count();
    assert!((4_700..4_900).contains(&count), "{count}");
}

#[test]
fn kyber_narrows_the_kind_that_keeps_its_target_where_another_does_not() {
    let writes = for_time(Job { what: What::Write, ..deep(reads(), 128) }, 10_000 * MS);
    let jobs = [for_time(deep(reads(), 2), 10_000 * MS), writes].map(|job| (job, Class::BestEffort));
    let settings = Settings { nr_requests: 256, ..settings(128) };
    let of = |kind| {
        let (figures, seen) = waits(fixed(4, MS), kind, settings, &jobs);
        let report = figures.report();
        (report.jobs[0].d2c.p99.expect("many"), seen.longest[1])
    };
    // 128 writes before four servers: 32 ms with the device. So many would keep a target of a second, and
    // reads miss theirs: writes get fewer tokens, and wait in the scheduler instead.
    let (reads, writes) = of(named("kyber", &["write_lat_nsec=1000000000"]));
    assert!(reads < 12 * MS && writes > 15 * MS, "reads {reads} ns, writes waited {writes} ns");
    let (reads, writes) = of(named("kyber", &["read_lat_nsec=1000000000", "write_lat_nsec=1000000000"]));
    assert!(reads > 25 * MS && writes < 15 * MS, "reads {reads} ns, writes waited {writes} ns");
}

#[test]
fn bfq_shares_sectors_not_requests() {
    let job = |block: u64, depth| for_time(Job { block: Bytes(block), ..deep(reads(), depth) }, 60_000 * MS);
    let rates = |kind, blocks: [u64; 2]| {
        let figures = run(fixed(1, MS), kind, settings(4), &[job(blocks[0], 4), job(blocks[1], 4)]);
        rate(&figures, 0) / rate(&figures, 1)
    };
    let small = || named("bfq", &["max_budget=64"]);
    let equal = rates(small(), [4096, 4096]);
    assert!((equal - 1.0).abs() < 0.05, "{equal}");
    // Four times as long requests: a quarter of them.
    let longer = rates(small(), [4096, 16_384]);
    assert!((longer - 4.0).abs() < 0.3, "{longer}");
    assert!((rates(Kind::Noop, [4096, 16_384]) - 1.0).abs() < 0.05);
}

#[test]
fn bfq_keeps_the_disk_for_who_comes_back_soon_and_not_for_who_thinks_long() {
    let beside = |think, kind| {
        let thinker = for_time(Job { think: Time(think), ..reads() }, 20_000 * MS);
        let bulk = for_time(deep(reads(), 32), 20_000 * MS);
        let figures = run(fixed(1, MS), kind, settings(1), &[thinker, bulk]);
        (rate(&figures, 0), rate(&figures, 1))
    };
    // 3 ms for each of its requests, all its own while its budget lasts: half of the sectors at most.
    let (soon, _) = beside(2 * MS, named("bfq", &["max_budget=1024"]));
    let (hasty, _) = beside(2 * MS, named("bfq", &["max_budget=1024", "slice_idle=0"]));
    assert!(soon > 2.0 * hasty, "{soon} with idling, {hasty} without");
    // Nobody waits 20 ms for one request: the other one has nearly all of the disk.
    let (_, bulk) = beside(20 * MS, named("bfq", &[]));
    assert!(bulk > 900.0, "{bulk}");
}

#[test]
fn bfq_serves_the_idle_class_when_no_other_has_been_there() {
    let normal = for_time(Job { think: Time(20 * MS), ..reads() }, 5_000 * MS);
    let jobs = [(normal, Class::BestEffort), (for_time(deep(reads(), 8), 10_000 * MS), Class::Idle)];
    let (figures, seen) = waits(fixed(4, MS), named("bfq", &[]), settings(8), &jobs);
    assert_eq!(seen.early, 0);
    // Pauses of 20 ms are not enough; the second half is its own, less the 200 ms.
    let count = figures.jobs[1].q2c.count();
    assert!((19_000..19_300).contains(&count), "{count}");
}

/// What an operation takes of a CPU.
#[test]
fn work_of_a_cpu_comes_before_the_queue_and_is_shared() {
    let jobs: Vec<_> =
        (0..2).map(|seed| (for_time(Job { seed, ..reads() }, 1_000 * MS), Class::BestEffort)).collect();
    let of = |cost, count: usize| {
        let (device, kind) = (fixed(2, MS), Kind::Noop);
        let (figures, _) = costly(device, kind, settings(2), &jobs[..count], cost, &mut ()).expect("an end");
        let job = &figures.report().jobs[0];
        (rate(&figures, 0), job.kinds[0].service.p50, job.q2c.p50)
    };
    let cost = Cost { operation: MS - 4_000, per_kib: 1_000, cpus: 1 };
    // 1 ms of CPU, 1 ms of the disk: 500 a second, of which the queue sees half of the time.
    let (alone, service, q2c) = of(cost, 1);
    assert!((alone - 500.0).abs() < 2.0, "{alone}");
    assert!(service >= Some(2 * MS * 19 / 20) && q2c <= Some(MS), "{service:?} {q2c:?}");
    assert!((of(Cost { operation: 3 * MS, per_kib: 0, cpus: 1 }, 2).0 - 1000.0 / 6.0).abs() < 2.0);
    assert!((of(Cost { operation: 3 * MS, per_kib: 0, cpus: 0 }, 2).0 - 250.0).abs() < 2.0);
    assert!((of(Cost::default(), 2).0 - 1000.0).abs() < 2.0);
}
