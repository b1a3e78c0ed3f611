// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::stages::{self, STAGES};
use super::*;
use retries::Retry;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use times::Timed;

/// A session with little time, whose stages run shell scripts.
fn session(total: u64) -> Session<'static> {
    let second = Duration::from_secs(1);
    Session::new(Path::new("/"), second * total as u32, second / 5)
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

fn task<'a>(
    name: &str,
    limit: Duration,
    work: impl Fn(&Job) -> Result<Counts> + Send + Sync + 'a,
) -> Task<'a> {
    Task::new(name.into(), limit, None, work)
}

fn check(name: &str, limit: Duration, script: &'static str) -> Task<'static> {
    task(name, limit, move |job| job.check(shell(script)))
}

#[test]
fn a_stage_that_hangs_has_failed_and_the_next_one_runs() {
    let session = session(600);
    let hangs = "echo 'test result: ok. 3 passed; 0 failed; 0 ignored'; sleep 1000";
    let second = Duration::from_secs(1);
    session.alone(&task("hangs", second, |job| job.tests(shell(hangs), Division::Whole)));
    assert_eq!(session.report().total, Counts { passed: 3, failed: 1, ..Counts::default() });
    session.alone(&check("hangs too", second, "sleep 1000"));
    session.alone(&check("next", minutes(1), "true"));
    assert_eq!(session.report().broken, ["hangs", "hangs too"]);
    assert_eq!(session.report().total, Counts { passed: 4, failed: 2, ..Counts::default() });
}

#[test]
fn the_commands_of_a_stage_share_its_time() {
    let session = session(600);
    session.alone(&task("two", Duration::from_secs(2), |job| {
        assert_eq!(job.check(shell("sleep 0.1"))?, Counts::one(true));
        job.tests(shell("sleep 1000"), Division::Whole)
    }));
    assert_eq!(session.report().total.failed, 1);
}

#[test]
fn stages_that_no_time_is_left_for_have_failed() {
    let session = session(1);
    session.alone(&check("takes it all", minutes(10), "sleep 1000"));
    session.alone(&task("too late", minutes(10), |_| panic!("it must not run")));
    assert_eq!(session.report().broken, ["takes it all", "too late"]);
}

#[test]
fn what_a_stage_leaves_behind_does_not_hold_up_the_next() {
    let session = session(600);
    session.alone(&check("leaves", minutes(5), "sleep 1000 & true"));
    session.alone(&check("next", minutes(5), "true"));
    assert_eq!(session.report().total, Counts { passed: 2, ..Counts::default() });
}

fn names(stages: &[&stages::Stage]) -> Vec<&'static str> {
    stages.iter().map(|s| s.name).collect()
}

#[test]
fn stages_are_chosen_by_name_with_what_they_need_in_their_order() {
    assert_eq!(names(&stages::select(&["policy", "fmt"]).expect("stages")), ["fmt", "policy"]);
    assert_eq!(names(&stages::select(&["unit"]).expect("stages")), ["build", "unit"]);
    assert_eq!(names(&stages::select(&["vm", "vm"]).expect("stages")), ["guests", "build", "vm"]);
    assert_eq!(stages::select(&[]).expect("all").len(), STAGES.len());
}

#[test]
fn a_name_that_no_stage_has_lists_them_all() {
    let Err(error) = stages::select(&["fmt", "unknown"]) else { panic!("there is no such stage") };
    let text = format!("{error:#}");
    assert!(text.starts_with("there is no stage 'unknown'"), "{text}");
    for stage in STAGES {
        assert!(text.contains(&format!("\n  {:<13} {}\n", stage.name, stage.about)), "{text}");
    }
}

#[test]
fn what_measures_runs_after_the_builds_and_before_the_guests() {
    let phases: Vec<_> = STAGES.iter().map(|s| s.phase as u8).collect();
    assert!(phases.is_sorted(), "{phases:?}");
    let phase = |name: &str| STAGES.iter().find(|s| s.name == name).map(|s| s.phase);
    for (name, expected) in [
        ("build", Phase::Build),
        ("root", Phase::Alone),
        ("faults", Phase::Alone),
        ("module", Phase::Concurrent),
    ] {
        assert_eq!(phase(name), Some(expected), "{name}");
    }
}

#[test]
fn a_list_of_kernels_names_them() {
    let list = "# 6.0 is too old\n6.1   here  ^linux$\n\n7 trixie ^x$\n";
    assert_eq!(stages::kernels(list).collect::<Vec<_>>(), ["6.1", "7"]);
}

#[test]
fn output_that_is_held_back_is_one_block() {
    let session = session(600);
    let said = |name: &'static str| {
        session.perform(&check(name, minutes(1), "echo one; sleep 0.2; echo two"), Output::held(None))
    };
    let (a, b) = std::thread::scope(|scope| {
        let a = scope.spawn(|| said("a"));
        let b = scope.spawn(|| said("b"));
        (a.join().expect("a"), b.join().expect("b"))
    });
    for (name, text) in [("a", a), ("b", b)] {
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[..2], ["", &format!("== {name}")], "{text}");
        assert_eq!(lines[3..5], ["one", "two"], "{text}");
        assert!(lines[5].starts_with(&format!("== {name}: ok, ")), "{text}");
        assert_eq!(lines.len(), 6, "{text}");
    }
}

/// The most tasks that ran at a time, of four that hold `what`.
fn at_once(lanes: usize, what: Option<&'static str>) -> usize {
    let session = session(600);
    let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let tasks = (0..4).map(|n| {
        Task::new(format!("{n}"), minutes(1), what, |_| {
            most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
            std::thread::sleep(Duration::from_millis(200));
            now.fetch_sub(1, SeqCst);
            Ok(Counts::one(true))
        })
    });
    lanes::run(&session, tasks.collect(), lanes, Duration::from_secs(30));
    assert_eq!(session.report().total.passed, 4);
    most.into_inner()
}

#[test]
fn tasks_run_concurrently_in_lanes() {
    assert_eq!(at_once(2, None), 2);
    assert_eq!(at_once(1, None), 1);
}

#[test]
fn tasks_that_hold_the_same_thing_run_in_turn() {
    assert_eq!(at_once(3, Some("a directory")), 1);
}

#[test]
fn a_lane_takes_what_another_one_does_not_hold() {
    let session = session(600);
    let order = Mutex::new(Vec::new());
    let hold = |name: &'static str, what, time| {
        let order = &order;
        Task::new(name.into(), minutes(1), what, move |_| {
            order.lock().expect("the order").push(name);
            std::thread::sleep(Duration::from_millis(time));
            Ok(Counts::one(true))
        })
    };
    let tasks = vec![hold("a", Some("x"), 400), hold("b", Some("x"), 10), hold("c", None, 10)];
    lanes::run(&session, tasks, 2, Duration::from_secs(30));
    assert_eq!(order.into_inner().expect("the order"), ["a", "c", "b"]);
}

#[test]
fn a_task_that_panics_holds_nothing_up() {
    let session = session(600);
    let tasks = vec![
        Task::new("panics".into(), minutes(1), Some("x"), |_| panic!("as meant by the test")),
        Task::new("next".into(), minutes(1), Some("x"), |_| Ok(Counts::one(true))),
    ];
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        lanes::run(&session, tasks, 2, Duration::from_secs(30));
    }));
    assert!(ended.is_err());
    assert_eq!(session.report().total.passed, 1);
}

#[test]
fn retries_of_a_command_are_noted() {
    let session = session(600);
    session.alone(&check("vm 6.1", minutes(1), "echo 'RETRY vm-6.1: no results'"));
    let expected = Retry { stage: "vm 6.1".into(), test: "vm-6.1".into(), passed: None };
    assert_eq!(session.report().notes.retries, [expected]);
}

#[test]
fn the_end_names_tests_that_failed() {
    let session = session(600);
    let tests = concat!(
        "echo 'failures:'; echo; echo 'failures:'; echo '    a::b'; echo '    c'; echo; ",
        "echo 'test result: FAILED. 1 passed; 2 failed; 0 ignored'; exit 101"
    );
    session.alone(&check("page", minutes(1), tests));
    assert_eq!(session.report().broken, ["page (a::b, c)"]);
}

#[test]
fn the_end_tells_stages_slowest_tests_retries_and_counts() {
    let second = Duration::from_secs(1);
    let timed = |n: u32| Timed { name: format!("test {n}"), took: second * n };
    let report = Report {
        total: Counts { passed: 5, failed: 1, ignored: 1, skipped: 2 },
        broken: vec!["root".into()],
        stages: vec![("root".into(), second * 90)],
        notes: Notes {
            times: (1..=12).map(timed).collect(),
            retries: vec![Retry { stage: "root".into(), test: "a".into(), passed: Some(true) }],
            failed: Vec::new(),
            reasons: vec![("a".into(), vec!["3 is not 4".into()])],
        },
    };
    let text = report.text(Path::new("/t/list"), "d\tc\troot\ta\tpassed\n");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines[..5],
        ["", "seconds of each stage:", "     90.0  root", "slowest tests, in seconds:", "     12.0  test 12"]
    );
    assert_eq!(lines[13], "      3.0  test 3");
    let end = [
        "retried tests: 1",
        "  root: a: then passed",
        "retried in all runs of /t/list:",
        "    1x root: a",
        "why a:",
        "  3 is not 4",
        "failed: root",
        "5 passed, 1 failed, 3 skipped",
    ];
    assert_eq!(lines[14..], end);
}
