// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::Severity::{Invalid, Note, Suspect};
use super::*;
use plumb_machine::{Difference, Fake};

/// A run that nothing speaks against, with every fact known.
fn healthy() -> Facts {
    Facts {
        bypasses_cache: true,
        sync_promises: true,
        creates_files: true,
        open_loop: true,
        read_bytes: Some(1 << 30),
        written_bytes: Some(1 << 30),
        syncs: Some(1000),
        operations: Some(500_000),
        files_created: Some(0),
        workers: Some(2),
        elapsed_ns: Some(10_000_000_000),
        file_bytes: Some(8 << 30),
        median_latency_ns: Some(80_000),
        device_read_bytes: Some(1 << 30),
        device_written_bytes: Some((1 << 30) + (4 << 20)),
        device_flushes: Some(990),
        volatile_write_cache: Some(true),
        forced_unit_access: Some(false),
        storage_compresses: Some(false),
        compressible: Some(0.0),
        file_system: Some("ext4".into()),
        recently_deleted: Some(0),
        memory_available: Some(4 << 30),
        run_queue_share: Some(0.02),
        throttled_ns: Some(0),
        swapped_pages: Some(3),
        damon_pageout: Some(vec![]),
        steal_share: Some(0.001),
        clock_source: Some("tsc".into()),
        clock_drift_ppm: Some(-3.0),
        clock_cost_ns: Some(25),
        environment_changes: Some(vec![]),
        generator_lag_p99_ns: Some(20_000),
        generator_late_share: Some(0.001),
        never_begun: Some(0),
        rate_first_third: Some(50_000.0),
        rate_last_third: Some(51_000.0),
        steady_state_reached: Some(true),
        errors: Some(0),
        short_transfers: Some(0),
        parallelism_asked: Some(2.0),
        parallelism_achieved: Some(1.95),
        highest_quantile: Some(0.999),
        verify_failures: Some(0),
        log_wait_ns: Some(0),
        asks_a_server: true,
        client_cpu_share: Some(0.5),
        client_ports: Some(1000),
        local_ports: Some(28_232),
        syn_retransmits: Some(0),
        listen_overflows: Some(0),
        asks_by_tcp: true,
        ..Facts::default()
    }
}

type Change = fn(&mut Facts);

/// A check, a change to a healthy run on which it speaks and how, and one just
/// short of that on which it has nothing to say.
const CASES: &[(&str, Severity, Change, Change)] = &[
    (
        "read-from-cache",
        Invalid,
        |f| f.device_read_bytes = Some(12 << 20),
        |f| f.device_read_bytes = Some(1000 << 20),
    ),
    ("read-from-cache", Suspect, |f| f.device_read_bytes = Some(800 << 20), |f| f.read_bytes = Some(1000)),
    (
        "read-from-cache",
        Note,
        |f| (f.cache_is_the_target, f.device_read_bytes) = (true, Some(0)),
        |f| (f.cache_is_the_target, f.device_read_bytes) = (true, Some(1000 << 20)),
    ),
    (
        "cache-missed",
        Invalid,
        |f| (f.cache_is_the_target, f.bypasses_cache) = (true, false),
        |f| (f.cache_is_the_target, f.bypasses_cache, f.device_read_bytes) = (true, false, Some(2 << 20)),
    ),
    (
        "cache-missed",
        Invalid,
        |f| (f.cache_is_the_target, f.bypasses_cache, f.own_read_bytes) = (true, false, Some(1 << 30)),
        // Somebody else read.
        |f| (f.cache_is_the_target, f.bypasses_cache, f.own_read_bytes) = (true, false, Some(0)),
    ),
    (
        "write-not-on-device",
        Invalid,
        |f| f.device_written_bytes = Some(0),
        |f| f.device_written_bytes = Some(1000 << 20),
    ),
    (
        "write-not-on-device",
        Suspect,
        |f| f.device_written_bytes = Some(700 << 20),
        |f| f.written_bytes = Some(0),
    ),
    ("sync-without-flush", Invalid, |f| f.device_flushes = Some(0), |f| f.device_flushes = Some(1)),
    (
        "sync-without-flush",
        Invalid,
        |f| f.device_flushes = Some(0),
        |f| (f.device_flushes, f.forced_unit_access) = (Some(0), Some(true)),
    ),
    (
        "promise-without-sync",
        Invalid,
        |f| f.syncs = Some(0),
        |f| (f.syncs, f.sync_promises) = (Some(0), false),
    ),
    (
        "volatile-cache",
        Note,
        |f| (f.sync_promises, f.device_flushes) = (false, Some(0)),
        |f| (f.sync_promises, f.device_flushes, f.volatile_write_cache) = (false, Some(0), Some(false)),
    ),
    (
        "file-fits-memory",
        Suspect,
        |f| (f.bypasses_cache, f.file_bytes, f.device_read_bytes) = (false, Some(1 << 30), None),
        |f| (f.bypasses_cache, f.device_read_bytes) = (false, None),
    ),
    (
        "compressible-data",
        Suspect,
        |f| (f.compressible, f.storage_compresses) = (Some(0.5), Some(true)),
        |f| (f.compressible, f.storage_compresses) = (Some(0.05), Some(true)),
    ),
    (
        "compressible-data",
        Note,
        |f| (f.compressible, f.storage_compresses) = (Some(1.0), None),
        |f| f.compressible = Some(1.0),
    ),
    (
        "other-writers",
        Invalid,
        |f| f.device_written_bytes = Some(4 << 30),
        // So many small syncs write their journal's blocks as well.
        |f| (f.device_written_bytes, f.syncs) = (Some(3 << 30), Some(40_000)),
    ),
    (
        "other-writers",
        Invalid,
        |f| f.device_written_bytes = Some(4 << 30),
        |f| (f.device_written_bytes, f.asks_a_database) = (Some(4 << 30), true),
    ),
    (
        "other-readers",
        Suspect,
        |f| (f.device_read_bytes, f.operations) = (Some(2 << 30), Some(1000)),
        // Small reads take whole pages.
        |f| f.device_read_bytes = Some(3 << 29),
    ),
    (
        "other-readers",
        Suspect,
        |f| (f.device_read_bytes, f.operations) = (Some(2 << 30), Some(1000)),
        |f| (f.device_read_bytes, f.operations, f.asks_a_database) = (Some(2 << 30), Some(1000), true),
    ),
    (
        "recent-deletes",
        Suspect,
        |f| f.recently_deleted = Some(5000),
        |f| (f.recently_deleted, f.file_system) = (Some(5000), Some("xfs".into())),
    ),
    ("recent-deletes", Note, |f| f.recently_deleted = Some(5), |f| f.creates_files = false),
    ("cpu-contention", Invalid, |f| f.run_queue_share = Some(0.7), |f| f.run_queue_share = Some(0.09)),
    ("cpu-contention", Suspect, |f| f.run_queue_share = Some(0.11), |f| f.run_queue_share = Some(0.0)),
    (
        "cpu-contention",
        Note,
        |f| (f.run_queue_share, f.crowded) = (Some(0.7), true),
        |f| (f.run_queue_share, f.crowded) = (Some(0.09), true),
    ),
    ("throttled", Suspect, |f| f.throttled_ns = Some(500_000_000), |f| f.throttled_ns = Some(100_000_000)),
    ("throttled", Invalid, |f| f.throttled_ns = Some(5_000_000_000), |f| f.throttled_ns = Some(0)),
    ("swapped", Suspect, |f| f.swapped_pages = Some(1000), |f| f.swapped_pages = Some(255)),
    ("swapped", Invalid, |f| f.swapped_pages = Some(400_000), |f| f.swapped_pages = Some(0)),
    (
        "damon-pageout",
        Suspect,
        |f| (f.cache_is_the_target, f.damon_pageout) = (true, Some(vec!["kdamond 0".into()])),
        |f| f.cache_is_the_target = true,
    ),
    ("damon-pageout", Note, |f| f.damon_pageout = Some(vec!["kdamond 0".into()]), |_| ()),
    ("steal", Suspect, |f| f.steal_share = Some(0.05), |f| f.steal_share = Some(0.015)),
    ("steal", Invalid, |f| f.steal_share = Some(0.3), |f| f.steal_share = Some(0.0)),
    (
        "clock-source",
        Suspect,
        |f| f.clock_source = Some("hpet".into()),
        |f| f.clock_source = Some("kvm-clock".into()),
    ),
    ("clock-drift", Suspect, |f| f.clock_drift_ppm = Some(-900.0), |f| f.clock_drift_ppm = Some(-400.0)),
    ("clock-drift", Invalid, |f| f.clock_drift_ppm = Some(20_000.0), |f| f.clock_drift_ppm = Some(0.0)),
    ("clock-cost", Suspect, |f| f.median_latency_ns = Some(500), |f| f.median_latency_ns = Some(2000)),
    ("clock-cost", Invalid, |f| f.median_latency_ns = Some(60), |f| f.clock_cost_ns = Some(0)),
    (
        "environment-changed",
        Suspect,
        |f| {
            let (a, b) = ("none".into(), "bfq".into());
            f.environment_changes = Some(vec![Difference { what: "devices.0.scheduler".into(), a, b }]);
        },
        |_| (),
    ),
    (
        "generator-lag",
        Suspect,
        |f| f.generator_late_share = Some(0.02),
        |f| f.generator_late_share = Some(0.009),
    ),
    (
        "generator-lag",
        Invalid,
        |f| f.generator_late_share = Some(0.2),
        |f| (f.generator_late_share, f.open_loop) = (Some(0.2), false),
    ),
    ("never-begun", Suspect, |f| f.never_begun = Some(1), |f| f.never_begun = Some(0)),
    ("never-begun", Invalid, |f| f.never_begun = Some(50_000), |f| f.open_loop = false),
    ("rate-drift", Suspect, |f| f.rate_last_third = Some(40_000.0), |f| f.rate_last_third = Some(46_000.0)),
    ("rate-drift", Invalid, |f| f.rate_last_third = Some(150_000.0), |f| f.rate_last_third = Some(54_000.0)),
    ("steady-state", Invalid, |f| f.steady_state_reached = Some(false), |f| f.steady_state_reached = None),
    ("duration", Suspect, |f| f.elapsed_ns = Some(500_000_000), |f| f.elapsed_ns = Some(1_000_000_000)),
    ("duration", Invalid, |f| f.elapsed_ns = Some(1_000_000), |_| ()),
    (
        "duration",
        Suspect,
        |f| (f.elapsed_ns, f.counts_queries) = (Some(1_000_000), true),
        |f| (f.elapsed_ns, f.counts_queries) = (Some(1_000_000_000), true),
    ),
    (
        "duration",
        Note,
        |f| (f.elapsed_ns, f.counts_queries) = (Some(500_000_000), true),
        |f| f.counts_queries = true,
    ),
    (
        "operations",
        Note,
        |f| (f.operations, f.counts_queries, f.highest_quantile) = (Some(1), true, None),
        |f| f.counts_queries = true,
    ),
    ("operations", Suspect, |f| f.operations = Some(29), |f| f.operations = Some(30)),
    ("operations", Invalid, |f| f.operations = Some(0), |_| ()),
    ("quantile-samples", Suspect, |f| f.operations = Some(9_999), |f| f.operations = Some(10_000)),
    ("quantile-samples", Invalid, |f| f.operations = Some(500), |f| f.highest_quantile = None),
    ("errors", Suspect, |f| f.errors = Some(1), |f| f.errors = Some(0)),
    ("errors", Invalid, |f| f.errors = Some(100_000), |_| ()),
    ("short-transfers", Suspect, |f| f.short_transfers = Some(1), |f| f.short_transfers = Some(0)),
    ("verification", Invalid, |f| f.verify_failures = Some(1), |f| f.verify_failures = None),
    ("parallelism", Suspect, |f| f.parallelism_achieved = Some(1.7), |f| f.parallelism_achieved = Some(1.85)),
    ("parallelism", Invalid, |f| f.parallelism_achieved = Some(0.9), |f| f.parallelism_asked = None),
    ("log-waits", Note, |f| f.log_wait_ns = Some(1000), |f| f.log_wait_ns = None),
    ("log-waits", Suspect, |f| f.log_wait_ns = Some(100_000_000), |f| f.log_wait_ns = Some(0)),
    ("log-waits", Invalid, |f| f.log_wait_ns = Some(2_000_000_000), |_| ()),
    ("client-busy", Suspect, |f| f.client_cpu_share = Some(0.92), |f| f.client_cpu_share = Some(0.89)),
    (
        "client-busy",
        Invalid,
        |f| f.client_cpu_share = Some(0.99),
        |f| (f.client_cpu_share, f.asks_a_server) = (Some(0.99), false),
    ),
    ("client-ports", Suspect, |f| f.client_ports = Some(23_000), |f| f.client_ports = Some(22_000)),
    (
        "client-ports",
        Suspect,
        |f| f.client_ports = Some(28_200),
        |f| (f.client_ports, f.asks_by_tcp) = (Some(28_200), false),
    ),
    ("backlog", Note, |f| f.syn_retransmits = Some(1), |_| ()),
    (
        "backlog",
        Suspect,
        |f| f.listen_overflows = Some(5000),
        |f| (f.listen_overflows, f.asks_by_tcp) = (Some(5000), false),
    ),
];

fn judge(name: &str, change: Change) -> Option<Finding> {
    let check = CHECKS.iter().find(|c| c.name == name).unwrap_or_else(|| panic!("no check '{name}'"));
    let mut facts = healthy();
    change(&mut facts);
    (check.judge)(&facts)
}

#[test]
fn every_check_speaks_when_it_should_with_figures_and_only_then() {
    for (name, severity, fires, silent) in CASES {
        match judge(name, *fires) {
            Some(Finding::Against(found, sentence)) => {
                assert_eq!(found, *severity, "{name}: {sentence}");
                let figures = sentence.bytes().any(|b| b.is_ascii_digit()) || *name == "clock-source";
                assert!(figures, "{name}: '{sentence}' has no figure");
            }
            other => panic!("{name} must speak, and says {other:?}"),
        }
        assert_eq!(judge(name, *silent), Some(Finding::Fine), "{name} must have nothing to say");
    }
}

#[test]
fn no_check_is_without_its_cases_and_none_has_two_names() {
    for check in CHECKS {
        assert!(CASES.iter().any(|case| case.0 == check.name), "{} has no case", check.name);
        assert_eq!(CHECKS.iter().filter(|c| c.name == check.name).count(), 1, "{}", check.name);
        assert!(!check.looks_at.is_empty() && !check.next_step.is_empty(), "{}", check.name);
        assert!(markdown().contains(&format!("| `{}` | {} |", check.name, check.looks_at)));
    }
}

#[test]
fn a_healthy_run_is_valid_and_was_looked_at_by_all() {
    let verdict = Verdict::of(&healthy());
    assert_eq!(verdict, Verdict { word: Word::Valid, reasons: vec![], not_looked_at: vec![] });
}

#[test]
fn without_facts_nothing_is_said_but_that_nobody_looked() {
    let verdict = Verdict::of(&Facts::default());
    assert_eq!(verdict.reasons, []);
    for name in ["read-from-cache", "cpu-contention", "steal", "errors", "duration"] {
        assert!(verdict.not_looked_at.iter().any(|n| n == name), "{name}");
    }
}

#[test]
fn the_weightiest_reason_makes_the_word_and_comes_first() {
    let mut facts = healthy();
    facts.damon_pageout = Some(vec!["kdamond 0".into()]);
    assert_eq!(Verdict::of(&facts).word, Word::Valid, "a note is no doubt");
    facts.steal_share = Some(0.05);
    assert_eq!(Verdict::of(&facts).word, Word::Suspect);
    facts.device_read_bytes = Some(12 << 20);
    let verdict = Verdict::of(&facts);
    let order: Vec<_> = verdict.reasons.iter().map(|r| (r.check.as_str(), r.severity)).collect();
    assert_eq!(order, [("read-from-cache", Invalid), ("steal", Suspect), ("damon-pageout", Note)]);
    assert_eq!(verdict.word, Word::Invalid);
    let said = "served from the page cache: 1.00 GiB claimed, 12.0 MiB read from the device";
    assert_eq!(verdict.reasons[0].sentence, said);
    let text = serde_json::to_string(&verdict).unwrap();
    assert!(text.contains("\"word\":\"invalid\""), "{text}");
    assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), verdict);
}

#[test]
fn numbers_at_the_edge_of_their_types_end_no_check() {
    let most = Some(u64::MAX);
    let mut extreme = healthy();
    (extreme.read_bytes, extreme.written_bytes, extreme.device_read_bytes) = (most, most, most);
    (extreme.syncs, extreme.files_created, extreme.operations) = (most, most, most);
    (extreme.errors, extreme.never_begun, extreme.elapsed_ns) = (most, most, Some(0));
    (extreme.throttled_ns, extreme.log_wait_ns, extreme.clock_cost_ns) = (most, most, most);
    extreme.rate_first_third = Some(f64::NAN);
    extreme.highest_quantile = Some(1.0);
    assert_eq!(Verdict::of(&extreme).word, Word::Invalid);
    let zero = Facts {
        operations: Some(0),
        rate_first_third: Some(0.0),
        rate_last_third: Some(0.0),
        workers: Some(0),
        elapsed_ns: Some(0),
        ..healthy()
    };
    assert_eq!(Verdict::of(&zero).word, Word::Invalid);
}

#[test]
fn facts_come_from_environment_and_evidence() {
    use crate::witness::{attribution, Delta, Evidence, Totals, Witness};
    use plumb_machine::Environment;
    let fake = Fake::new();
    fake.put("/proc/meminfo", "MemAvailable: 1024 kB\n");
    let dir = tempfile::TempDir::new().unwrap();
    let environment = Environment::capture_in(dir.path(), &fake.root());
    let seen = Witness::begin(&[], &[]).end();
    let delta = Delta {
        elapsed_ns: 1000,
        on_cpu_ns: Some(100),
        run_queue_ns: Some(700),
        steal_ns: Some(1),
        machine_busy_ns: Some(99),
        memory: [("pswpin".to_string(), 1), ("pswpout".to_string(), 2)].into(),
        ..Delta::default()
    };
    let evidence = Evidence { delta, ..seen };
    let divided = attribution(&evidence, Totals { operations: 1, latency_ns: 1000, outside_ns: 0 });
    let facts =
        Facts::default().with_evidence(&evidence, &divided).with_environment(&environment, &environment);
    assert_eq!((facts.run_queue_share, facts.steal_share), (Some(0.7), Some(0.01)));
    assert_eq!((facts.swapped_pages, facts.elapsed_ns), (Some(3), Some(1000)));
    assert_eq!((facts.memory_available, facts.device_read_bytes), (Some(1 << 20), None));
    assert_eq!((facts.volatile_write_cache, facts.environment_changes.as_deref()), (None, Some(&[][..])));
    assert!(Verdict::of(&facts).reasons.iter().any(|r| r.check == "cpu-contention"));
}
