// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb compare --lake` on simulated lakes: hosts whose latency is known to have changed are named, and nobody else.

use plumb_compare::fleet::{print, Fleet};
use plumb_compare::gate::Gate;
use plumb_report::export::parquet::Parquet;
use plumb_report::table::{find, Cell, Sink, Table};
use plumb_stats::random::SplitMix64;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const HOSTS: usize = 200;
/// Runs of a host on each side.
const RUNS: usize = 10;
/// Hosts that got the disk which is twice as slow, besides the kernel that all got.
const SLOW: [usize; 7] = [3, 32, 61, 90, 119, 148, 177];

/// In memory, where that can be: ext4 takes most of a millisecond for each directory.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory")
}

fn table(name: &str) -> &'static Table {
    find(name).expect("a table")
}

fn row(out: &mut Parquet, table: &'static Table, given: &[(&str, Cell<'_>)]) {
    let mut cells = vec![Cell::None; table.columns.len()];
    for (name, cell) in given {
        cells[table.column(name).expect("a column")] = *cell;
    }
    out.row(table, &cells);
}

/// Writes a lake: a file of each host has its runs of both kernels. `slow`: hosts whose device service time doubles.
fn lake(dir: &Path, seed: u64, slow: &[usize]) {
    let tables = ["runs", "run", "account", "cpus", "spans"].map(table);
    let mut random = SplitMix64::new(seed);
    for host in 0..HOSTS {
        let name = format!("web-{host}");
        let part = |table: &Table| dir.join(format!("{}/host={name}/day=2026-01-01", table.name));
        let made = dir.join(".incoming/made");
        let mut out = Parquet::of(&made, &tables, &[], "").expect("files");
        for n in 0..2 * RUNS {
            let (run, kernel) = (format!("{name}-{n}"), if n < RUNS { "6.1.0-9" } else { "6.12.48" });
            let began = format!("2026-01-01T00:00:{n:02}Z");
            let of = ("run", Cell::from(run.as_str()));
            let at = Cell::from(1_767_225_600_000_000_000 + n as i64);
            let whole =
                [("host", name.as_str().into()), ("kernel", kernel.into()), ("began", began.as_str().into())];
            let kind = [("target_kind", "everything".into()), ("length_ns", 1_000_000_000i64.into())];
            row(&mut out, table("runs"), &[&[of, ("began_unix_ns", at)], &whole[..], &kind[..]].concat());
            let disk = if SLOW.contains(&host) && n >= RUNS { "model B" } else { "model A" };
            for (key, value) in [("disk sda", disk), ("hostname", &name), ("governor", "performance")] {
                let cells =
                    [of, ("part", "environment".into()), ("key", key.into()), ("value", value.into())];
                row(&mut out, table("run"), &cells);
            }
            let mut spread = |middle: f64| {
                let odd = if random.unit() < 0.03 { 3.0 } else { 1.0 };
                middle * odd * (0.1 * random.normal()).exp()
            };
            let slower = if n >= RUNS && slow.contains(&host) { 2.0 } else { 1.0 };
            for kind in ["select", "update", "commit"] {
                let slower = if kind == "commit" { slower } else { 1.0 };
                let p99 = spread(2e6 * (1.0 + host as f64 / 200.0)) * slower;
                let cells = [of, ("span", kind.into()), ("count", 1000i64.into()), ("total_ns", 1i64.into())];
                let of_times =
                    [("p50_ns", Cell::from((p99 / 3.0) as i64)), ("p99_ns", Cell::from(p99 as i64))];
                row(&mut out, table("spans"), &[&cells[..], &of_times[..]].concat());
            }
            for category in ["running", "preempted", "block.device", "socket"] {
                let time = spread(1e9) as i64;
                row(
                    &mut out,
                    table("account"),
                    &[of, ("category", category.into()), ("time_ns", time.into())],
                );
            }
            let busy = (spread(4e8) as i64).min(900_000_000);
            row(
                &mut out,
                table("cpus"),
                &[of, ("busy_ns", busy.into()), ("idle_ns", (1_000_000_000 - busy).into())],
            );
        }
        out.finish().expect("written");
        for table in tables {
            std::fs::create_dir_all(part(table)).expect("a directory");
            let from = made.join(format!("{}.parquet", table.name));
            std::fs::rename(from, part(table).join(format!("{name}.parquet"))).expect("renamed");
        }
    }
}

fn compared(dir: &Path, a: &str, b: &str) -> Result<Fleet, String> {
    Fleet::read(dir, a, b, &AtomicBool::new(false)).map_err(|e| format!("{e:#}"))
}

const A: &str = "kernel like '6.1.%'";
const B: &str = "kernel like '6.12.%'";
/// Half of a host's runs with the first kernel began before.
const MIDDLE: &str = "2026-01-01T00:00:05Z";

#[test]
fn seven_hosts_of_two_hundred_are_named_and_nobody_else_nor_anything_without_a_change() {
    let named = AtomicUsize::new(0);
    // Each is a lake of its own: two at once.
    std::thread::scope(|scope| {
        for half in 0..2 {
            let named = &named;
            scope.spawn(move || {
                for seed in (half..20).step_by(2) {
                    named.fetch_add(named_of(seed), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(named.into_inner(), 20 * 2 * SLOW.len());
}

/// Slow hosts that are named, each in two figures.
fn named_of(seed: u64) -> usize {
    let number = |host: &str| host.trim_start_matches("web-").parse::<usize>().expect("a number");
    let dir = directory();
    lake(dir.path(), seed, &SLOW);
    let found = compared(dir.path(), A, B).expect("a comparison");
    for apart in &found.apart {
        let is_slow = SLOW.contains(&number(&apart.host)) && apart.key.starts_with("span.commit.");
        assert!(is_slow, "seed {seed}: {apart:?}");
    }
    assert!(found.lines.iter().all(|l| !l.found), "seed {seed}: {:?}", found.lines[0]);
    let common: Vec<&str> = found.common.iter().map(|c| c.value.as_str()).collect();
    assert!(common.contains(&"model A -> model B") && common.contains(&"model B"), "seed {seed}: {common:?}");
    assert!(common.iter().all(|c| c.contains("model B")), "seed {seed}: {common:?}");
    // The first half of a host's runs before the change, and the second.
    let (first, second) = (format!("{A} and began < '{MIDDLE}'"), format!("{A} and began >= '{MIDDLE}'"));
    let none = compared(dir.path(), &first, &second).expect("a comparison");
    assert!(none.headline.starts_with("No difference found on 200 hosts"), "seed {seed}: {}", none.headline);
    assert!(none.apart.is_empty() && none.common.is_empty(), "seed {seed}: {:?}", none.apart);
    found.apart.iter().filter(|a| matches!(a.key.as_str(), "span.commit.p50" | "span.commit.p99")).count()
}

#[test]
fn what_is_shown_begins_with_the_answer() {
    let dir = directory();
    lake(dir.path(), 7, &SLOW);
    let mut found = compared(dir.path(), A, B).expect("a comparison");
    let gates = |wanted: &[&str]| {
        let wanted: Vec<String> = wanted.iter().map(|w| (*w).to_owned()).collect();
        Gate::all(&wanted, &[]).expect("gates")
    };
    found.judge(&gates(&["20%", "500%", "span.select.p99=20%"])).expect("judged");
    let crossed: Vec<bool> = found.gates.iter().map(|g| g.crossed).collect();
    assert_eq!(crossed, [true, false, false], "{:?}", found.gates);
    assert!(found.judge(&gates(&["span.nothing=5%"])).is_err());
    let mut text = Vec::new();
    print(&found, &mut text).expect("printed");
    let text = String::from_utf8(text).expect("UTF-8");
    println!("{text}");
    assert!(text.starts_with("7 of 200 hosts stand apart: span.commit.p"), "{text}");
    assert!(
        text.contains("disk sda = model B: 7 of the 7 hosts that stand apart, 0 of the 193 others"),
        "{text}"
    );
    assert!(text.contains("A kernel like '6.1.%': 2000 runs of 200 hosts"), "{text}");
}

#[test]
fn what_cannot_be_compared_is_told() {
    let dir = directory();
    lake(dir.path(), 7, &[]);
    let refused = |a, b| compared(dir.path(), a, b).expect_err("refused");
    assert!(refused("kernel = '5.10'", B).contains("A holds for no run"));
    assert!(refused(B, "1 = 1").contains("2000 runs are of both"));
    assert!(refused("colour = 'red'", B).contains("A is no condition on runs: colour = 'red'"));
    assert!(refused("1); drop table runs; --", B).contains("A is no condition on runs"));
    let [first, last] =
        ["min", "max"].map(|of| format!("run = (select {of}(run) from runs where host = 'web-1')"));
    let found = compared(dir.path(), &first, &last).expect("a comparison");
    assert!(found.headline.starts_with("No difference can be shown"), "{}", found.headline);
    let spans = dir.path().join("spans/host=web-5/day=2026-01-01/web-5.parquet");
    let bytes = std::fs::read(&spans).expect("a file");
    std::fs::write(&spans, &bytes[..bytes.len() / 2]).expect("written");
    let found = compared(dir.path(), A, B).expect("a comparison");
    assert!(
        found.doubts.iter().any(|d| d.contains("left out") && d.contains("web-5.parquet")),
        "{:?}",
        found.doubts
    );
    let line = |key: &str| found.lines.iter().find(|l| l.key == key).expect("a line").hosts;
    assert_eq!((line("span.commit.p99"), line("cpu.busy")), (199, 200));
}
