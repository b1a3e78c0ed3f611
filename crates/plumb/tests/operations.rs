// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A workload tells its operations to the recording that it runs under: every
//! one is in the account, and the parts add up.

mod common;
use common::{babeltrace_agrees, can, explain, must, output, plumb, process, sum, workload, Loop};
use serde_json::Value;

fn row<'a>(process: &'a Value, kind: &str) -> &'a Value {
    let rows = process["operations"].as_array().expect("operations");
    rows.iter().find(|o| o["kind"] == kind).unwrap_or_else(|| panic!("no {kind} in {rows:#?}"))
}

fn number(row: &Value, field: &str) -> u64 {
    row[field].as_u64().unwrap_or_else(|| panic!("{field} of {row:#}"))
}

#[test]
fn every_operation_is_counted_and_its_parts_add_up() {
    let test = "every_operation_is_counted_and_its_parts_add_up";
    if !can(test, &["losetup", "mkfs.ext4", "babeltrace2"]) {
        return;
    }
    let mut disk = Loop::new(64);
    let file = disk.ext4().join("file");
    let dir = tempfile::tempdir().expect("directory");
    let run = dir.path().join("run");
    let out = output(
        plumb()
            .args(["run", "-q", "-o"])
            .arg(&run)
            .arg("--")
            .arg(workload())
            .args(["operations", "2", "23"])
            .arg(&file),
    );
    let text = common::stderr(&out);
    assert!(out.status.success() && text.contains("Operations of the workload"), "{text}");
    let result = explain(&run);
    assert_eq!(
        result["impossible"].as_object().map(|i| i.keys().filter(|k| k.contains("operation")).count()),
        Some(0)
    );
    // Two threads, 23 times three and one that fails, two at once, and one that does not end.
    assert_eq!(result["quality"]["operation_events"], 2 * (2 * (3 * 23 + 1) + 4 + 1));
    let p = process(&result, "plumb-workload");
    for (kind, count, errors, bytes) in [
        ("write", 46, 0, 46 * 4096),
        ("sync", 46, 0, 0),
        ("read", 46, 0, 46 * 4096),
        ("open", 2, 2, 0),
        ("copy", 2, 0, 200),
        ("other", 2, 0, 0),
        ("close", 0, 0, 0),
    ] {
        let row = row(p, kind);
        let found = ["count", "errors", "bytes"].map(|f| number(row, f));
        assert_eq!(found, [count, errors, bytes], "{row:#}");
        assert_eq!(sum(&row["account"]), number(row, "accounted"), "{row:#}");
        let one_by_one = !["copy", "other"].contains(&kind);
        assert_eq!(row["overlapping"], !one_by_one, "{row:#}");
        if one_by_one {
            assert_eq!(number(row, "accounted"), number(row, "total"), "{row:#}");
        }
        assert_eq!(number(row, "unfinished"), if kind == "close" { 2 } else { 0 }, "{row:#}");
    }
    // While the copy is open, it has the time; the other one has what is left.
    let (copy, other) = (row(p, "copy"), row(p, "other"));
    assert_eq!(number(copy, "accounted"), number(copy, "total"));
    assert!(number(other, "accounted") < number(other, "total"), "{other:#}");
    assert!(number(&copy["account"], "timer") >= 2 * 4_000_000, "{copy:#}");
    assert_eq!(number(other, "late"), 2 * 3_000_000);
    // The kernel's own events of the same calls lie inside (the dynamic loader reads too).
    let calls = p["syscalls"].as_array().expect("calls");
    for (kind, call) in [("write", "pwrite64"), ("sync", "fdatasync")] {
        let call = calls.iter().find(|c| c["name"] == call).expect("recorded by default");
        let row = row(p, kind);
        assert_eq!(call["calls"], row["count"], "{call:#}");
        assert!(number(call, "total") <= number(row, "total"), "{call:#} {row:#}");
        for (part, ns) in call["account"].as_object().expect("an account") {
            assert!(ns.as_u64() <= row["account"][part].as_u64(), "{part}: {call:#} {row:#}");
        }
    }
    assert_eq!(sum(&p["account"]), number(p, "thread_time"), "the account of the threads is what it was");
    babeltrace_agrees(&run);
}

#[test]
fn a_killed_workload_leaves_the_packets_that_were_whole() {
    let test = "a_killed_workload_leaves_the_packets_that_were_whole";
    if !can(test, &["babeltrace2"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let run = dir.path().join("run");
    let out = output(
        plumb()
            .args(["run", "-q", "-o"])
            .arg(&run)
            .arg("--")
            .arg(workload())
            .args(["killed-operations", "5000"])
            .arg(dir.path().join("file")),
    );
    let result = explain(&run);
    let row = row(process(&result, "plumb-workload"), "rewrite");
    let count = number(row, "count");
    // A packet holds 1023 operations; slow ones are written every second.
    assert!((5000 - 1023..=5000).contains(&count), "{count}: {}", common::stderr(&out));
    assert_eq!(number(row, "accounted"), number(row, "total"));
    babeltrace_agrees(&run);
}

#[test]
fn the_command_is_told_where_to_write_unless_packets_stay_in_memory() {
    if !can("the_command_is_told_where_to_write_unless_packets_stay_in_memory", &[]) {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    // From another directory than the recorder's, so that only an absolute path will do.
    let script =
        "cd / && if [ -f \"$PLUMB_TRACE/metadata\" ]; then echo there; else echo \"none$PLUMB_TRACE\"; fi";
    let says = |out: &str, options: &[&str]| {
        must(
            plumb()
                .current_dir(dir.path())
                .env("PLUMB_TRACE", "/an/outer/recording")
                .args(["record", "-q", "-o", out])
                .args(options)
                .args(["--", "sh", "-c", script]),
        )
    };
    assert_eq!(says("plain", &[]), "there\n");
    assert_eq!(says("flight", &["--keep", "5s"]), "none\n");
}
