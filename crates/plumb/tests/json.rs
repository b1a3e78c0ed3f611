// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every format that plumb prints as JSON is as its schema in schemas/ says, by an independent validator. What needs root is in
//! json_recorded.rs.

mod common;

use common::schema::{able, complaints, Printed, RECORDED};
use common::{output, plumb, stderr};
use plumb_machine::json::formats;
use plumb_model::views::VIEWS;
use std::path::{Path, PathBuf};

/// Formats of commands that need more than a few seconds, and the tests that validate them.
const ELSEWHERE: &[(&str, &str)] = &[
    ("plumb.changes", "iosched.rs, on a machine that is made up; govern.rs"),
    ("plumb.dbt3-check", "load_database.rs, with a database"),
    ("plumb.dbt3-fill", "load_database.rs, with a database"),
    ("plumb.govern", "govern.rs, with a cgroup and a disk"),
    ("plumb.guide", "guide/, which changes the system"),
    ("plumb.size", "plan/size.rs, with runs of plans"),
    ("plumb.top", "live/, which records for a while"),
    ("plumb.watch", "live/, which records for a while"),
];

fn trace(name: &str) -> String {
    traces().join(name).display().to_string()
}

fn traces() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/traces")
}

/// Commands that only read or print what the program knows.
fn of_the_program(printed: &mut Printed) {
    for line in [
        "findings",
        "events",
        "events --set block",
        "check",
        "plan list",
        "plan show quick",
        "plan show wal",
        "guide list",
        "disk list",
        "disk list --models",
        "disk stop nobody",
        "disk show nvme",
        "disk show hdp72503",
        "disk show gp3",
        "iosched status",
        "load engines",
    ] {
        printed.line(&format!("{line} --json"));
    }
}

/// Commands about recorded traces.
fn of_traces(printed: &mut Printed) {
    let names: Vec<String> = std::fs::read_dir(traces())
        .expect("tests/traces")
        .flatten()
        .filter(|e| e.path().join("metadata").exists())
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    for name in &names {
        printed.must(&["explain", "--json", &trace(name)]);
        printed.tried(&["profile", "--json", &trace(name)]);
    }
    for name in ["pipe", "tiers"] {
        printed.must(&["report", "--json", &trace(name)]);
    }
    let (a, b) = (trace("mutex"), trace("pipe"));
    printed.must(&["report", "--json", &a, &b]);
    printed.must(&["compare", "--json", &a, &b, "--fail-above", "5%"]);
    printed.must(&["query", "--json", "select * from account", &a, &b]);
    printed.must(&["query", "--json", "select * from account where pid < 0", &a]);
    for view in ["--tree", "--account", "--coverage", "--by=thread"] {
        printed.must(&["profile", "--json", view, &a]);
    }
    printed.must(&["profile", "--json", &a, &b]);
    printed.must(&["profile", "--json", "--coverage", &a, &b]);
    printed.must(&["profile", "--export", "json", &a]);
    printed.must(&["whatif", &b, "--cpus", "2", "--memory", "2x", "--json"]);
    for view in VIEWS {
        let has = |name: &&String| printed.tried(&["view", view.name, &trace(name), "--json"]).is_some();
        if let Some(name) = names.iter().find(has) {
            printed.must(&["view", view.name, &trace(name), "--log", "--json"]);
        } else {
            println!("view {}: no trace of tests/traces has its events", view.name);
        }
    }
    let lake = printed.path("lake");
    printed.must(&["publish", "--json", &a, &b, "--to", &lake]);
    let [first, last] = ["min", "max"].map(|f| format!("run = (select {f}(run) from runs)"));
    printed.must(&["compare", "--json", "--lake", &lake, &first, &last]);
    printed.must(&[
        "compare",
        "--json",
        "--lake",
        &lake,
        &first,
        &last,
        "--report",
        &printed.path("fleet.html"),
    ]);
    printed.must(&["lake", "compact", "--json", &lake]);
    // Two recordings side by side are a set.
    for (name, from) in [("set/web", "pipe"), ("set/db", "mutex")] {
        let to = printed.dir.path().join(name);
        std::fs::create_dir_all(&to).expect("a directory");
        for file in std::fs::read_dir(traces().join(from)).expect("a trace").flatten() {
            std::fs::copy(file.path(), to.join(file.file_name())).expect("copied");
        }
    }
    let set = printed.path("set");
    printed.must(&["explain", "--json", &set]);
    printed.must(&["report", "--json", &set]);
}

/// Loads on files, and simulated ones.
fn of_loads(printed: &mut Printed) {
    for line in [
        "load --size 64K --stamp --sync fsync --every 4 --log run.log --keep --json --quiet .",
        "load verify run.log --json",
        "load log run.log --json",
        "load clean . --json",
        "load --what lock-and-update --lock mutex --threads 2 --operations 1000 --json --quiet .",
        "load syncwrite --operations 20 --repeat 1 --json --quiet .",
        "sim nvme --what mix --order random --depth 16 --scheduler mq-deadline --operations 500 --json",
        "sim nvme --size 1G --what read --order random --operations 100 --json -o simulated",
        "sim atlas10k4 --from simulated --json",
        "sim nvme --scheduler lp-deadline --time 50ms --sweep low_depth=1,2 --json",
        "tune iosched nvme --depth-of-device 256 --disk-size 8G --target 20ms --json",
        "whatif simulated --disk gp3 --json",
        "bisect --among 1,2,3,4 --most 8 --figure v:([0-9]+) --json --quiet -o search -- sh -c echo${IFS}v:$((1000+$1*9)) sh {}",
    ] {
        printed.line(line);
    }
    let text = printed.line("load --size 64K --json --quiet .");
    std::fs::write(printed.dir.path().join("load.json"), text).expect("written");
    printed.line("report load.json --json");
}

#[test]
fn what_is_printed_is_as_its_schema_says() {
    if !able("what_is_printed_is_as_its_schema_says") {
        return;
    }
    let mut printed = Printed::new();
    of_the_program(&mut printed);
    of_traces(&mut printed);
    of_loads(&mut printed);
    let (wrong, seen) = complaints(&printed.texts);
    assert!(wrong.is_empty(), "of {} texts:\n{}", printed.texts.len(), wrong.join("\n"));
    let recorded = RECORDED.iter().map(|name| (*name, "json_recorded.rs, as root"));
    let elsewhere: Vec<(&str, &str)> = ELSEWHERE.iter().copied().chain(recorded).collect();
    for (name, test) in &elsewhere {
        println!("{name}: validated in {test}");
        assert!(formats::ALL.iter().any(|f| f.name == *name), "there is no format {name}");
    }
    let all = formats::ALL.iter().map(|f| f.name);
    let missing = all.filter(|n| !seen.contains(n) && !elsewhere.iter().any(|(name, _)| name == n));
    let missing: Vec<&str> = missing.collect();
    assert!(missing.is_empty(), "no command printed them: {missing:?}; add one here, or a test to ELSEWHERE");
}

#[test]
fn what_is_not_as_the_schema_says_is_refused() {
    if !able("what_is_not_as_the_schema_says_is_refused") {
        return;
    }
    let good = "{\"format\":\"plumb.findings\",\"version\":1,\"findings\":[{\"id\":\"a\",\"title\":\"b\",\"next\":\"c\"}]}";
    let said = |text: &str| complaints(&[("x".into(), text.into())]).0.join("\n");
    assert_eq!(said(good), "");
    // A later plumb may say more.
    assert_eq!(said(&good.replace("\"next\"", "\"more\":[1],\"next\"")), "");
    for (from, to, why) in [
        ("\"title\":\"b\"", "\"title\":1", "1 is not of type 'string'"),
        ("\"title\":\"b\",", "", "'title' is a required property"),
        ("\"findings\":[", "\"list\":[", "'findings' is a required property"),
        ("\"version\":1", "\"version\":2", "begins with"),
        ("plumb.findings", "plumb.nothing", "no format that is known"),
        ("\"title\":\"b\"", "\"title\":\"b\",\"title\":\"c\"", "a key twice"),
    ] {
        let said = said(&good.replace(from, to));
        assert!(said.contains(why), "{from} to {to}: {said}");
    }
    let lines = "{\"format\":\"plumb.collect\",\"version\":1}\n{\"what\":\"began\",\"dir\":\"d\"}\n";
    assert_eq!(said(lines), "");
    assert!(said(&lines.replace("\"dir\"", "\"directory\"")).contains("x: "));
}

#[test]
fn schemas_are_printed() {
    let list = common::must(plumb().arg("schema"));
    for format in formats::ALL {
        assert!(list.contains(format.short()), "{}: {list}", format.name);
    }
    let short = common::must(plumb().args(["schema", "findings"]));
    assert_eq!(short, formats::FINDINGS.schema);
    assert_eq!(short, common::must(plumb().args(["schema", "plumb.findings"])));
    let out = output(plumb().args(["schema", "finding"]));
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).contains("did you mean 'findings'?"), "{}", stderr(&out));
}
