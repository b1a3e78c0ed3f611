// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every table of every recorded trace says what the model says.

mod filled;

use filled::{fill, recorded, Keep, Kept, TRACES};
use plumb_report::table::{absent, find, TABLES};
use std::collections::{BTreeMap, HashSet};

#[test]
fn accounts_add_up_in_every_table() {
    for name in TRACES {
        let mut rows = Keep::default();
        let seen = fill(&recorded(name), name, &mut rows);
        let mut account: BTreeMap<&str, u64> = BTreeMap::new();
        for p in &seen.result.processes {
            p.account.iter().for_each(|(k, v)| *account.entry(k.name()).or_default() += v);
        }
        assert!(!account.is_empty(), "{name}");
        let mut all_blamed = 0;
        for (category, ns) in &account {
            let of = |table| rows.sum(table, "time_ns", Some(("category", category)));
            assert_eq!(of("account"), *ns as i64, "{name} {category}");
            assert_eq!(of("thread_account"), *ns as i64, "{name} {category}");
            // Of waits only.
            let blamed = of("blame");
            assert!(blamed == 0 || blamed == *ns as i64, "{name} {category}: {blamed} of {ns}");
            all_blamed += blamed;
            assert_eq!(of("profile"), *ns as i64, "{name} {category}");
            if *category != "interrupted" {
                assert_eq!(of("intervals"), *ns as i64, "{name} {category}");
            }
        }
        assert!(all_blamed > 0, "{name}");
        let whole: u64 = seen.result.processes.iter().map(|p| p.thread_time).sum();
        assert_eq!(rows.sum("processes", "thread_time_ns", None), whole as i64, "{name}");
        assert_eq!(rows.sum("threads", "elapsed_ns", None), whole as i64, "{name}");
        assert_eq!(
            rows.sum("path", "time_ns", Some(("part", "path"))),
            seen.result.path.time as i64,
            "{name}: path"
        );
        let calls: u64 = seen.result.processes.iter().flat_map(|p| &p.syscalls).map(|s| s.total).sum();
        assert_eq!(rows.sum("syscalls", "total_ns", None), calls as i64, "{name}");
        assert_eq!(rows.sum("syscall_account", "time_ns", None), calls as i64, "{name}");
    }
}

#[test]
fn requests_are_those_of_the_devices() {
    let (mut met, mut exact) = (0, 0);
    for name in TRACES {
        let mut rows = Keep::default();
        let seen = fill(&recorded(name), name, &mut rows);
        let bytes: u64 =
            seen.result.devices.iter().map(|d| d.read_bytes + d.write_bytes + d.discard_bytes).sum();
        let own = rows.sum("requests", "bytes", None);
        // Devices count what was issued before the trace too.
        let whole = !seen.result.impossible.contains_key("request completes of which nothing was seen");
        assert!(if whole { own == bytes as i64 } else { own < bytes as i64 }, "{name}: {own} of {bytes}");
        exact += usize::from(whole && own > 0);
        let layers = ["q2g_ns", "g2f_ns", "f2i_ns", "i2d_ns", "d2c_ns"];
        let sum: i64 = layers.iter().map(|l| rows.sum("requests", l, None)).sum();
        assert_eq!(sum, rows.sum("requests", "q2c_ns", None), "{name}");
        met += rows.of("requests").1.len();
    }
    assert!(met > 100 && exact > 5, "{met} requests in all traces, {exact} traces are whole");
}

#[test]
fn numbers_in_rows_lead_to_rows() {
    let keys = |rows: &Keep, table: &str, column: &str| -> HashSet<i64> {
        let (table, rows) = rows.of(table);
        let at = table.column(column).expect("a column");
        let number = |r: &Vec<Kept>| match r[at] {
            Kept::Integer(v) => Some(v),
            _ => None,
        };
        rows.iter().filter_map(number).collect()
    };
    let (mut waits, mut stacks, mut requests, mut parts) = (0, 0, 0, 0);
    for name in TRACES {
        let mut rows = Keep::default();
        fill(&recorded(name), name, &mut rows);
        let named = keys(&rows, "intervals", "wait");
        assert!(named.is_subset(&keys(&rows, "waits", "wait")), "{name}");
        waits += named.len();
        let named = keys(&rows, "waits", "stack");
        assert!(named.is_subset(&keys(&rows, "stacks", "stack")), "{name}");
        stacks += named.len();
        let (of, all) = (keys(&rows, "intervals", "request"), keys(&rows, "requests", "request"));
        requests += of.intersection(&all).count();
        parts += of.difference(&all).count();
        assert!(keys(&rows, "intervals", "tid").is_subset(&keys(&rows, "threads", "tid")), "{name}");
    }
    assert!(waits > 100 && stacks > 10, "{waits} {stacks}");
    // A part of a request has a number and no row.
    assert!(requests > 90 && parts < 10, "{requests} {parts}");
}

#[test]
fn every_table_has_rows_in_some_trace() {
    let mut met: HashSet<&str> = HashSet::new();
    for name in TRACES {
        let mut rows = Keep::default();
        fill(&recorded(name), name, &mut rows);
        met.extend(TABLES.iter().filter(|t| !rows.of(t.name).1.is_empty()).map(|t| t.name));
    }
    let without: Vec<&str> = TABLES.iter().map(|t| t.name).filter(|n| !met.contains(n)).collect();
    // What these are made of has tests of its own; the recorded traces have no workload of plumb's,
    // none is of a whole machine, and windows are a watch's.
    let elsewhere = [
        "services",
        "operations",
        "operation_kinds",
        "operation_account",
        "loads",
        "load_seconds",
        "windows",
        "window_services",
        "window_devices",
    ];
    assert_eq!(without, elsewhere);
}

#[test]
fn what_was_not_recorded_is_told() {
    let of = |table: &str, env: &[(&str, &str)]| {
        let env = env.iter().map(|(k, v)| ((*k).to_string(), (*v).to_string())).collect();
        absent(find(table).expect("a table"), &env, false)
    };
    let all = ("events", "sched_switch,sched_waking,block_rq_complete,sys_exit,contention_begin");
    assert_eq!(of("requests", &[all]), None);
    assert!(of("requests", &[("events", "sched_switch")]).is_some_and(|w| w.contains("-e block")));
    assert!(of("samples", &[all, ("sample_hz", "0")]).is_some_and(|w| w.contains("--sample")));
    assert_eq!(of("samples", &[all, ("sample_hz", "199")]), None);
    assert!(of("intervals", &[("events", "block_rq_complete")]).is_some());
    assert!(of("operations", &[all]).is_some());
    assert_eq!(of("stacks", &[]), None);
}
