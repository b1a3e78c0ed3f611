// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What root's commands print as JSON is as its schema in schemas/ says: recordings, plans, served disks. json.rs has the others.

mod common;

use common::schema::{able, complaints, Printed, RECORDED};
use common::{can, output, stderr, workload};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;

/// Recordings, runs of plans, and served disks; whether disks can be served here.
fn of_root(printed: &mut Printed) -> bool {
    printed.line("record -q --json -o recorded -- true");
    printed.line("run -q --json --no-report -o ran -- true");
    ["run.json", "environment.json", "result.json"].iter().for_each(|f| printed.file(&format!("ran/{f}")));
    let spin = [workload(), "spin", "300"];
    let run = ["run", "-q", "--json", "--sample", "999", "--repeat", "2", "-o", "twice", "--"];
    printed.must(&[&run[..], &spin].concat());
    printed.file("twice/set.json");
    printed.line("report twice --json");
    printed.line("profile twice/1 --annotate spin --json");
    let plan = "name = \"tiny\"\ntitle = \"t\"\npurpose = \"p\"\nhypothesis = \"h\"\ntakes = \"1s\"\norder = \"given\"\n\
        repeat = 2\n[[factor]]\nname = \"how\"\n\
        level = [{ name = \"one\", command = [\"true\"] }, { name = \"two\", command = [\"ls\"] }]\n";
    std::fs::write(printed.dir.path().join("tiny.toml"), plan).expect("written");
    for line in [
        "plan run tiny.toml -o planned --json",
        "plan show planned --json",
        "plan report planned --json",
        "plan compare planned planned --json",
        "plan restore planned --json",
        "report planned --json",
    ] {
        printed.line(line);
    }
    let served = ["/dev/fuse", "/dev/loop-control"].iter().all(|node| Path::new(node).exists());
    if served {
        for line in [
            "disk serve hdp72503 --size 64M --name one --no-calibrate --detach --json",
            "disk list --json",
            "disk cut one --json",
            "disk power-on one --json",
            "disk stop one --json",
        ] {
            printed.line(line);
        }
    }
    collected(printed);
    served
}

/// A recording that another process sends.
fn collected(printed: &mut Printed) {
    let invited = output(printed.command().args(["collect", "there", "--invite", "web", "-o", "invitation"]));
    assert!(invited.status.success(), "{}", stderr(&invited));
    let address = format!("unix:{}", printed.path("socket"));
    let mut command = printed.command();
    command.args(["collect", "there", "--listen", &address, "--for", "10s", "--json"]);
    let mut collector = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
    let mut lines = BufReader::new(collector.stdout.take().expect("piped"));
    let mut text = String::new();
    lines.read_line(&mut text).expect("the first line");
    printed.must(&["record", "-q", "--json", "--to", &address, "--invitation", "invitation", "--", "true"]);
    // Interrupted before its time is over, it ends in order.
    // SAFETY: our own child, not waited for yet.
    unsafe { libc::kill(collector.id() as i32, libc::SIGINT) };
    lines.read_to_string(&mut text).expect("its output");
    assert!(collector.wait().expect("it ends").success() && text.contains("\"ended\""), "{text}");
    printed.texts.push(("collect".into(), text));
}

#[test]
fn what_root_prints_is_as_its_schema_says() {
    const TEST: &str = "what_root_prints_is_as_its_schema_says";
    if !able(TEST) || !can(TEST, &[]) {
        return;
    }
    let mut printed = Printed::new();
    let served = of_root(&mut printed);
    let (wrong, seen) = complaints(&printed.texts);
    assert!(wrong.is_empty(), "of {} texts:\n{}", printed.texts.len(), wrong.join("\n"));
    let excused = |name: &str| !served && name.starts_with("plumb.disk");
    let missing: Vec<&&str> = RECORDED.iter().filter(|n| !seen.contains(**n) && !excused(n)).collect();
    assert!(missing.is_empty(), "no command printed them: {missing:?}");
}
