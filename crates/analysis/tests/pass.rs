// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a pass gives for what is asked of it, on recorded traces.

use plumb_analysis::{setup, Pass, Wanted};
use plumb_diagnose::Diagnosis;
use plumb_trace::reader::Trace;
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn recorded(name: &str) -> Trace {
    Trace::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/traces").join(name))
        .expect("a trace")
}

#[test]
fn what_is_not_wanted_is_empty() {
    let trace = recorded("mutex");
    let all = Pass::over(&trace).analysis().expect("readable");
    assert!(!all.diagnosis.findings.is_empty() && !all.result.hot.is_empty());
    let account = Pass::over(&trace).wanted(Wanted::Account).analysis().expect("readable");
    assert_eq!((&account.result.processes, &account.quality), (&all.result.processes, &all.quality));
    assert_eq!((account.diagnosis, account.profile.time()), (Diagnosis::default(), 0));
    assert!(account.result.hot.is_empty());
}

#[test]
fn a_profile_of_a_part_has_no_findings() {
    let trace = recorded("mutex");
    let all = Pass::over(&trace).analysis().expect("readable");
    let (begin, end) = setup::span(&trace);
    let half = Wanted::Profile(begin, begin + (end - begin) / 2);
    let part = Pass::over(&trace).wanted(half).analysis().expect("readable");
    assert!(part.profile.time() > 0 && part.profile.time() < all.profile.time());
    assert_eq!(part.result.processes, all.result.processes);
    assert!(part.diagnosis.findings.is_empty() && part.result.hot.is_empty());
}

#[test]
fn a_pass_is_stopped_and_items_are_seen_before_the_model_has_them() {
    let trace = recorded("pipe");
    let stopped = Pass::over(&trace).until(&AtomicBool::new(true)).analysis();
    assert!(stopped.is_err_and(|e| e.to_string().contains("stopped")));
    let mut seen = 0;
    let (analysis, ()) = Pass::over(&trace)
        .read_with((), |_| {
            seen += 1;
            false
        })
        .expect("readable");
    assert!(seen > 1000, "{seen}");
    let used: u64 = analysis.result.processes.iter().map(|p| p.usage.cpu_used).sum();
    assert_eq!(used, 0, "the model got nothing");
    assert!(Pass::over(&trace)
        .analysis()
        .expect("readable")
        .result
        .processes
        .iter()
        .any(|p| p.usage.cpu_used > 0));
    assert!(analysis.quality.events > 1000);
}

#[test]
fn processes_are_chosen_by_name() {
    let trace = recorded("pipe");
    let all = Pass::over(&trace).analysis().expect("readable");
    let comm = all.result.processes[0].comm.clone();
    let comms = [comm.clone()];
    let one = Pass::over(&trace).only(&comms).analysis().expect("there");
    assert!(one.result.processes.iter().all(|p| p.comm == comm));
    assert_eq!(one.result.path.of, "threads");
    assert!(!one.diagnosis.findings.is_empty(), "judged again");
    let account: u64 = one.result.processes.iter().flat_map(|p| p.account.values()).sum();
    assert_eq!((one.result.path.time, one.profile.time()), (account, account));
    let nobody = ["nobody".to_string()];
    let none = Pass::over(&trace).only(&nobody).analysis().expect_err("no such process");
    let there = none.to_string();
    assert!(
        there.starts_with("no process is called nobody; there are: ") && there.contains(&comm),
        "{there}"
    );
}
