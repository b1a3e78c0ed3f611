// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When a load ends, and from when on it counts.

use crate::run::{dir, traced, Run};
use plumb_load::log::WARM_UP;

fn nothing(args: &[&str]) -> Run {
    let run =
        Run::new("pwrite64", &[&["--through", "null", "--what", "read", "--size", "64K"], args].concat());
    run.faultless();
    run
}

#[test]
fn operations_bytes_and_one_pass_end_it() {
    if !traced("operations_bytes_and_one_pass_end_it") {
        return;
    }
    assert_eq!(nothing(&[]).count("read"), 16, "one pass");
    assert_eq!(nothing(&["--operations", "37"]).count("read"), 37);
    assert_eq!(nothing(&["--bytes", "40001"]).count("read"), 10, "the block that reaches it counts");
    assert_eq!(nothing(&["--bytes", "40K", "--operations", "3"]).count("read"), 3, "whichever comes first");
    let both = nothing(&["--operations", "5", "--threads", "2"]);
    assert_eq!(both.count("read"), 10, "of each worker");
}

#[test]
fn time_ends_it() {
    if !traced("time_ends_it") {
        return;
    }
    let run = Run::new("pwrite64", &["--rate", "40", "--time", "1s", "--size", "64K"]);
    assert_eq!(run.count("write"), 40, "all that was due, and several passes");
    let closed = Run::new("pwrite64", &["--size", "64K", "--time", "100ms"]);
    let rows = closed.rows();
    assert_eq!(rows.len(), closed.on_data(&["pwrite64"]).len());
    // The last one may meet the end between the look at the clock and its begin; not the one before.
    if let [first, .., before, _] = &rows[..] {
        assert!(before.end_ns - first.begin_ns < 100_000_000, "{}", before.end_ns - first.begin_ns);
    }
    let elapsed = closed.json["cells"][0]["rounds"][0][0]["elapsed_ns"].as_u64().expect("ns");
    assert!(elapsed > 60_000_000, "it ended far too early: {elapsed}");
}

#[test]
fn what_comes_before_the_ramps_end_does_not_count() {
    if !traced("what_comes_before_the_ramps_end_does_not_count") {
        return;
    }
    let run = Run::new("pwrite64", &["--rate", "50", "--ramp", "400ms", "--time", "600ms", "--size", "64K"]);
    let rows = run.rows();
    assert_eq!((rows.len(), run.on_data(&["pwrite64"]).len()), (50, 50), "both times are worked");
    let warm_up = rows.iter().filter(|r| r.flags & WARM_UP != 0).count();
    // What was due before the ramp's end may begin behind it on a busy machine.
    assert!((1..=20).contains(&warm_up), "{warm_up}");
    assert_eq!(run.count("write"), 50 - warm_up as u64);
}

#[test]
fn a_steady_rate_ends_it() {
    if !traced("a_steady_rate_ends_it") {
        return;
    }
    // Every second of two within 99 % of their mean: as soon as there are two.
    let run = nothing(&["--rate", "100", "--steady", "99%:2s", "--time", "40s"]);
    assert_eq!(run.job()["steady"], true);
    let elapsed = run.job()["elapsed_ns"].as_u64().expect("ns");
    assert!((1_900_000_000..40_000_000_000).contains(&elapsed), "{elapsed}");
    // Never within nothing of it: the time ends it.
    let run = nothing(&["--think", "100us", "--steady", "0.0001%:2s", "--time", "2500ms"]);
    assert_eq!(run.job()["steady"], false);
}

#[test]
fn the_first_who_is_done_ends_a_stonewalled_step() {
    if !traced("the_first_who_is_done_ends_a_stonewalled_step") {
        return;
    }
    for (stonewall, longest) in [("true", 30.0), ("false", f64::INFINITY)] {
        let dir = dir();
        let time = if stonewall == "true" { "50s" } else { "1s" };
        let text = format!(
            "size = \"64K\"\nsharing = \"shared\"\n[[step]]\noperations = 8\nstonewall = {stonewall}\n\
             [[step.also]]\nwhat = \"read\"\nrate = 100\ntime = \"{time}\"\n"
        );
        std::fs::write(dir.path().join("job.toml"), text).expect("a job file");
        let run = Run::within(dir.path(), "pwrite64", &["--job", "job.toml"]);
        assert_eq!(run.count("write"), 8);
        let other = &run.jobs()[1];
        let reads = other["operations"]
            .as_array()
            .expect("kinds")
            .first()
            .map_or(0, |k| k["count"].as_u64().expect("a count"));
        match stonewall {
            "true" => assert!(reads < 3000, "{reads} of 5000: it went on"),
            _ => assert_eq!(reads, 100, "without it each works to its own end"),
        }
        assert!((other["elapsed_ns"].as_f64().expect("ns") / 1e9) < longest);
    }
}
