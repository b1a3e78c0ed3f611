// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::{diagnose, Diagnosis};
use plumb_model::profile::Origin;
use plumb_model::{
    At, BlameRow, BlockerRow, HotRow, LockRow, PathResult, ProcessRow, RunResult, SampleResult, ServiceResult,
};
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;

/// A target that spent its time so.
fn result(of: &str, parts: &[(Category, &str, u64)]) -> RunResult {
    let mut account = BTreeMap::new();
    parts.iter().for_each(|(c, _, ns)| *account.entry(*c).or_default() += ns);
    let time = account.values().sum();
    let part = |(category, who, time): &(Category, &str, u64)| BlameRow {
        category: *category,
        who: (*who).into(),
        time: *time,
    };
    RunResult {
        end: time,
        path: PathResult {
            of: of.into(),
            time,
            parts: parts.iter().map(part).collect(),
            ..PathResult::default()
        },
        processes: vec![ProcessRow { account, ..ProcessRow::default() }],
        ..RunResult::default()
    }
}

fn sampled(mut result: RunResult, function: &str, time: u64) -> RunResult {
    let at = BTreeMap::from([(At::User.name().to_string(), 100)]);
    result.samples = SampleResult { samples: 100, at, ..SampleResult::default() };
    result.hot = vec![HotRow {
        category: Category::Running,
        who: String::new(),
        function: function.into(),
        module: "me".into(),
        origin: Origin::User,
        under: vec!["main".into()],
        call: String::new(),
        count: 100,
        time,
        instruction: None,
    }];
    result
}

fn said(result: &RunResult) -> Vec<String> {
    diagnose(result, &Trust::default()).verdict
}

#[test]
fn a_lock_has_the_shape_that_docs_show() {
    let parts = [
        (Category::UserLock, "worker", 381 * MS),
        (Category::Timer, "", 76 * MS),
        (Category::Running, "worker", 20 * MS),
    ];
    let row = |category, who: &str, time| BlameRow { category, who: who.into(), time: time * MS };
    let mut result = result("command", &parts);
    result.hot = sampled(RunResult::default(), "hold_the_mutex", 381 * MS).hot;
    result.hot[0].category = Category::UserLock;
    result.hot[0].under = vec!["for_each".into()];
    result.locks = vec![LockRow {
        pid: 7,
        lock: "0x10".into(),
        kind: "user lock".into(),
        waits: 98,
        time: 381 * MS,
        longest: 59_700_000,
        most_waiting: 3,
        holders: vec![row(Category::UserLock, "worker", 381)],
        doing: vec![
            row(Category::Timer, "", 152),
            row(Category::UserLock, "", 122),
            row(Category::Preempted, "qemu", 107),
        ],
        ..LockRow::default()
    }];
    assert_eq!(
        said(&result),
        [
            "Bottleneck: contention on a user-space mutex (80 % of 477 ms wall time, 3.3x to 7.5x estimated speed-up without it)",
            "  acquired in  hold_the_mutex 100 %, called from for_each",
            "  held by      worker 100 %: 98 waits, 3.9 ms mean, 59.7 ms max, up to 3 waiters",
            "  while held   holder sleeping 40 %, waiting for a user-space lock 32 %, preempted behind qemu 28 %",
            "Also: intentional sleep 16 %",
            "Next: shorten the critical section in hold_the_mutex: the holder is mostly sleeping",
            "Confidence: high (0 events lost, 0.0 % unexplained)",
        ]
    );
}

#[test]
fn a_healthy_program_is_bound_by_its_own_code() {
    let parts = [(Category::Running, "me", 1_950 * MS), (Category::Preempted, "qemu", 150 * MS)];
    let said = said(&sampled(result("command", &parts), "parse_row", 1_800 * MS));
    assert_eq!(
        said[0],
        "Bottleneck: none outside the program: CPU-bound in parse_row() (user code 93 % of 2.1 s wall time)"
    );
    assert_eq!(said[1], "  function  parse_row 92 %, called from main");
    // A function with a small part is one of many, and another one in the next run.
    let of = |ns| self::said(&sampled(result("command", &parts), "parse_row", ns)).remove(0);
    let bound = |place| {
        format!("Bottleneck: none outside the program: CPU-bound{place} (user code 93 % of 2.1 s wall time)")
    };
    assert_eq!(of(650 * MS), bound(", 33 % of it in parse_row()"));
    assert_eq!(of(150 * MS), bound(""));
}

#[test]
fn what_waits_for_processes_of_a_machine_is_in_their_accounts() {
    let parts = [
        (Category::Pipe, "cat", 600 * MS),
        (Category::OtherRunning, "db", 90 * MS),
        (Category::OtherWaiting, "db", 110 * MS),
        (Category::Crowded, "me", 150 * MS),
        (Category::OtherWaiting, "kworker", 50 * MS),
    ];
    let others = vec![plumb_model::OtherRow { comm: "kworker".into(), ..Default::default() }];
    let machine = |services: Vec<plumb_model::ServiceRun>| {
        let others = others.clone();
        said(&RunResult { everyone: true, services, others, ..result("threads", &parts) })
    };
    // A service of it waits for another one, which was recorded.
    let of_service = machine(Vec::new());
    assert!(
        of_service[0].starts_with("Bottleneck: waiting for another process, cat (85 % of 1.0 s"),
        "{of_service:?}"
    );
    let next = of_service.iter().find(|l| l.starts_with("Next: ")).expect("a next step");
    assert_eq!(next, "Next: look at the process of cat: plumb explain DIR --comm NAME");
    let of_all = machine(vec![plumb_model::ServiceRun::default()]);
    assert!(
        of_all[0].starts_with("Bottleneck: CPU contention among its own threads (75 % of 200 ms busy"),
        "{of_all:?}"
    );
    assert_eq!(
        of_all[1],
        "  busy          20 % of 1.0 s thread time; waiting for a pipe 60 %, waiting for another thread 20 %"
    );
    assert!(
        of_all.contains(&"Also: waiting for another process 25 %".to_string()),
        "a kernel thread: {of_all:?}"
    );
}

#[test]
fn without_a_dominant_cause_the_largest_is_named() {
    let parts = [
        (Category::Pipe, "cat", 15 * MS),
        (Category::UserLock, "me", 10 * MS),
        (Category::Child, "", 3 * MS),
        (Category::Signal, "", 72 * MS),
    ];
    assert_eq!(
        said(&result("command", &parts))[0],
        "Bottleneck: none dominates; the largest is waiting for another process, cat (18 % of 100 ms wall time, 1.01x to 1.48x estimated speed-up without it)"
    );
    // Whose signal it is, it waits for.
    let parts = [(Category::Signal, "mate", 72 * MS), (Category::Running, "me", 28 * MS)];
    let mut result = result("command", &parts);
    let account = [(Category::Signal, 72 * MS)].into();
    result.processes[0].syscalls =
        vec![plumb_model::SyscallRow { name: "rt_sigtimedwait".into(), account, ..Default::default() }];
    let lines = said(&result);
    assert!(lines[0].starts_with("Bottleneck: waiting for another process, mate (72 % of"), "{lines:?}");
    assert_eq!(lines[2], "  waits in   rt_sigtimedwait (signal) 100 %");
}

#[test]
fn a_signal_that_nobody_sent_is_no_cause() {
    let parts = [(Category::Signal, "", 72 * MS)];
    assert_eq!(
        said(&result("command", &parts))[0],
        format!(
            "Bottleneck: none found in 72.0 ms wall time: no cause has 5 % of it ({} rules evaluated)",
            RULES.len()
        )
    );
}

#[test]
fn crowded_threads_have_neighbours_named_that_take_their_cpus() {
    let parts = [(Category::Crowded, "me", 600 * MS), (Category::Running, "me", 400 * MS)];
    let mut result = result("command", &parts);
    result.cpus = vec![plumb_model::CpuRow::default(); 2];
    let other = |comm: &str, ms, recorder| plumb_model::OtherRow {
        comm: comm.into(),
        cpu_used: ms * MS,
        recorder,
        ..Default::default()
    };
    result.others = vec![other("plumb", 900, true), other("hog", 900, false), other("cron", 20, false)];
    let lines = said(&result);
    assert!(lines.contains(&"  other processes  hog 45 % of the time of 2 CPUs".into()), "{lines:?}");
    result.others.remove(1);
    assert!(!said(&result).join(" ").contains("other processes"));
}

#[test]
fn segments_that_others_waited_for_are_no_cause() {
    let parts = [(Category::Socket, "db", 500 * MS), (Category::Running, "me", 500 * MS)];
    let mut result = result("threads", &parts);
    result.retransmits = 1000;
    let wait = plumb_model::WaitRow { time: 400 * MS, ..Default::default() };
    result.longest.insert(Category::Socket, vec![wait]);
    assert!(said(&result)[0].contains("retransmission"), "{:?}", said(&result));
    result.retransmit_waiters = true;
    assert!(!said(&result).join(" ").contains("retransmission"), "{:?}", said(&result));
    // A poll does not say for what it waited.
    result.path.parts[0].category = Category::Network;
    let waits = result.longest.remove(&Category::Socket).expect("a wait");
    result.longest.insert(Category::Network, waits);
    assert!(said(&result)[0].contains("retransmission"), "{:?}", said(&result));
}

#[test]
fn who_has_the_cpu_meanwhile_is_in_the_headline() {
    let headline = |takers: &[(&'static str, u64)]| {
        let waits = takers.iter().map(|(who, ms)| (Category::Woken, *who, ms * MS));
        let parts: Vec<_> = waits.chain([(Category::Running, "me", 100 * MS)]).collect();
        said(&result("command", &parts))[0].clone()
    };
    for (takers, words) in [
        (&[("dd", 300), ("cc1", 250)][..], "run-queue wait while dd runs ("),
        (&[("dd", 240), ("cc1", 200), ("a", 90), ("b", 90)], "run-queue wait while dd and cc1 run ("),
        (&[("dd", 200), ("a", 90), ("b", 90), ("c", 90)], "run-queue wait while dd and others run ("),
        (&[("a", 90), ("b", 90), ("c", 90), ("d", 90), ("e", 89), ("f", 89)], "run-queue wait ("),
    ] {
        let first = headline(takers);
        assert!(first.contains(words), "{first}");
    }
}

#[test]
fn a_quota_is_named_where_only_the_threads_tell_of_it() {
    let parts = [(Category::Running, "me", 200 * MS), (Category::Held, "", 800 * MS)];
    let mut result = result("threads", &parts);
    let first = |result: &RunResult| diagnose(result, &Trust::default()).findings[0].id.clone();
    assert_ne!(first(&result), "cpu.throttled", "ready and on no CPU: that alone is no quota");
    result.over_quota = 9;
    assert_eq!(first(&result), "cpu.throttled");
}

#[test]
fn what_froze_the_flight_recorder_leads() {
    let parts = [(Category::Running, "me", 900 * MS), (Category::BlockIssued, "sda", 100 * MS)];
    let mut result = result("threads", &parts);
    let part = |category, who: &str, time| BlameRow { category, who: who.into(), time: time * MS };
    result.trigger = Some(plumb_model::TriggerRow {
        condition: "fsync > 50ms".into(),
        at: 800 * MS,
        time: 80 * MS,
        before: 0,
        tid: 7,
        comm: "db".into(),
        parts: vec![part(Category::BlockIssued, "sda", 76), part(Category::Running, "db", 4)],
    });
    let found = diagnose(&result, &Trust::default());
    assert_eq!(
        found.verdict[0],
        "Bottleneck: fsync(2) of db (7) took 80.0 ms at 800.00 ms, asked for 'fsync > 50ms': waiting for I/O (sda) 95 %, running 5 %"
    );
    assert_eq!((found.lines[0].at, found.lines[0].tid), (Some(800 * MS), Some(7)));
    assert_eq!(found.lines[1].label, "of all");
    result.trigger.as_mut().expect("one").condition = "answer of db > 50ms".into();
    let found = diagnose(&result, &Trust::default());
    assert!(found.verdict[0].starts_with("Bottleneck: the answer to a request of db (7) took 80.0 ms at"));
    // Of no thread: what limits the whole then.
    for (condition, says) in [
        (
            "pressure io > 20%",
            "CPU time in user code, asked for 'pressure io > 20%' in the 80.0 ms from 800.00 ms",
        ),
        ("plumb trigger", "CPU time in user code, asked for by plumb trigger at 800.00 ms"),
    ] {
        let mut asked = result.clone();
        let trigger = asked.trigger.as_mut().expect("one");
        (trigger.condition, trigger.tid, trigger.parts) = (condition.into(), 0, Vec::new());
        let found = diagnose(&asked, &Trust::default());
        assert_eq!(found.verdict[0], format!("Bottleneck: {says}"));
        assert_eq!(found.lines[0].tid, None);
    }
    result.trigger.as_mut().expect("one").condition = "fsync > 50ms".into();
    // What no finding is about: the moment itself. It began before what was kept.
    let trigger = result.trigger.as_mut().expect("one");
    (trigger.parts, trigger.before, trigger.at) = (vec![part(Category::Rcu, "", 40)], 40 * MS, 0);
    let found = diagnose(&result, &Trust::default());
    assert!(
        found.verdict[0].contains("took 80.0 ms at 0 ns, of which 40.0 ms were kept"),
        "{:?}",
        found.verdict
    );
    assert!(found.verdict[0].ends_with("waiting for an RCU grace period 100 %"), "{:?}", found.verdict);
    let next = "Next: see what it did: plumb profile DIR --tid 7 --from 0us --to 40000us";
    assert!(found.verdict.contains(&next.into()), "{:?}", found.verdict);
    result.trigger.as_mut().expect("one").parts.clear();
    let found = diagnose(&result, &Trust::default());
    assert!(found.verdict[0].ends_with(": it was no thread of the target, so that it has no account"));
    result.trigger.as_mut().expect("one").condition = "request > 50ms".into();
    // Who issued it was the idle thread.
    result.trigger.as_mut().expect("one").tid = 0;
    let next = "Next: see the layers of the requests: plumb view btt DIR";
    assert!(diagnose(&result, &Trust::default()).verdict.contains(&next.into()));
}

#[test]
fn an_idle_server_is_no_bottleneck() {
    let parts = [(Category::Idle, "", 900 * MS), (Category::Running, "nginx", 100 * MS)];
    let said = said(&result("threads", &parts));
    assert_eq!(
        said[0],
        "Bottleneck: none: busy for 100 ms of 1.0 s, waiting for requests the rest; when busy: CPU time in user code (100 %)"
    );
    assert_eq!(said[1], "  busy     10 % of 1.0 s thread time; waiting for requests 90 %");
    let command = self::said(&result("command", &parts));
    assert_eq!(command[0], "Bottleneck: none: idle 90 % of 1.0 s wall time, waiting for requests");
    assert!(command.contains(&"Also: CPU time in user code 10 %".to_string()), "{command:?}");
}

#[test]
fn a_service_is_judged_by_its_busy_time() {
    let parts = [
        (Category::Idle, "", 8_000 * MS),
        (Category::Signalled, "", 1_000 * MS),
        (Category::InRequest, "postgres", 750 * MS),
        (Category::Running, "postgres", 250 * MS),
    ];
    let mut result = result("threads", &parts);
    result.end = 1_000 * MS;
    let idle = BlameRow { category: Category::Idle, who: "postgres".into(), time: 700 * MS };
    let running = BlameRow { category: Category::Running, who: "postgres".into(), time: 50 * MS };
    let blocker = BlockerRow { tid: 7, pid: 7, comm: "postgres".into(), waits: 5, time: 750 * MS };
    result.processes[0].pid = 7;
    result.processes[0].cmdline = "postgres: app db [local] idle in transaction".into();
    result.service = ServiceResult {
        requests: 10,
        time: 1_000 * MS,
        longest: 200 * MS,
        unread: Some(380 * MS),
        meanwhile: vec![idle, running],
        blockers: vec![blocker],
    };
    let said = said(&result);
    assert_eq!(
        said[..7],
        [
            "Bottleneck: requests waiting for another thread of the target, postgres (75 % of 1.0 s busy thread time, 2.8x to 5.8x estimated speed-up without it)",
            "  busy       10 % of 10.0 s thread time; waiting for requests 80 %, waiting for another thread 10 %",
            "  requests   10 answered, 100 ms mean, 200 ms max; 38.0 ms of the mean before they were read",
            "  waits for  postgres (7: app db [local] idle in transaction) 100 %",
            "  meanwhile  that thread waiting for requests 93 %, running 7 %",
            "Also: CPU time in user code 25 %",
            "Next: see what that thread did meanwhile, and the longest waits on the page's timeline",
        ]
    );
}

#[test]
fn a_target_that_only_waited_was_seen() {
    let parts = [(Category::Child, "", 750 * MS), (Category::Signalled, "", 250 * MS)];
    let said = said(&result("threads", &parts));
    assert_eq!(
        said[0],
        "Bottleneck: none: the target waited for all of 1.0 s thread time (waiting for a child process 75 %, waiting for another thread 25 %)"
    );
    assert_eq!(said.last().expect("a line"), "Confidence: high (0 events lost, 0.0 % unexplained)");
}

#[test]
fn an_invalid_measurement_says_so_in_its_first_line() {
    let result = result("command", &[(Category::Timer, "", 100 * MS)]);
    let lost = Doubt::new(DoubtKind::LostEvents, "1,234 events lost in 3 intervals".into());
    let of = |trust: &Trust| -> Diagnosis { diagnose(&result, trust) };
    let d = of(&Trust { doubts: vec![lost], ..Trust::default() });
    assert_eq!(
        d.verdict[0],
        "Bottleneck: intentional sleep (100 % of 100 ms wall time, over 100x estimated speed-up without it; unreliable: 1,234 events lost in 3 intervals)"
    );
    assert_eq!(
        d.verdict.last().expect("a line"),
        "Confidence: low (0.0 % unexplained; 1,234 events lost in 3 intervals)"
    );
    assert_eq!(d.confidence.level, Level::Low);

    let d = of(&Trust { no_account: vec!["sched_switch".into()], ..Trust::default() });
    assert_eq!(
        d.verdict[0],
        "Bottleneck: not measured: the trace has no sched_switch events, so there is no account of time"
    );
    assert_eq!(d.verdict.last().expect("a line"), "Confidence: none (sched_switch not recorded)");
    let empty = diagnose(&RunResult::default(), &Trust::default());
    assert_eq!(empty.verdict[0], "Bottleneck: not measured: the trace has no events of the target");
}

#[test]
fn what_was_called_otherwise_before_is_still_read() {
    for (old, limit) in [("CPU busy", Limit::Cpu), ("CPU idle: device", Limit::Device), ("", Limit::Unknown)]
        .iter()
        .chain(Limit::FORMER_NAMES)
    {
        assert_eq!(serde_json::from_value::<Limit>((*old).into()).expect(old), *limit);
    }
    for (limit, name, _) in LIMITS {
        assert_eq!(serde_json::to_value(limit).expect("JSON"), **name);
    }
}

#[test]
fn requests_wait_for_the_collector_of_garbage() {
    let parts = [(Category::Running, "VM Thread", 740 * MS), (Category::Running, "pool-1", 260 * MS)];
    let mut result = sampled(result("requests", &parts), "mark", 740 * MS);
    result.processes[0].comm = "java".into();
    result.processes[0].pid = 7;
    let lines = said(&result);
    assert_eq!(
        lines[0],
        "Bottleneck: garbage collection in java (7) (74 % of 1.0 s request time, 2.7x to 5.6x estimated speed-up without it)"
    );
    assert!(lines.iter().any(|l| l.contains("collectors  VM Thread 740 ms")), "{lines:?}");
    result.path.parts[0].who = "VM Threads of mine".into();
    result.path.of = "command".into();
    assert!(said(&result)[0].starts_with("Bottleneck: garbage collection"), "a name may be cut or numbered");
    // A stranger's collector that has the CPU is one that contends for it.
    let parts = [(Category::Preempted, "GC Thread#3", 740 * MS), (Category::Running, "me", 260 * MS)];
    let lines = said(&self::result("command", &parts));
    assert!(
        lines[0].starts_with("Bottleneck: CPU contention: run-queue wait while GC Thread#3 runs"),
        "{lines:?}"
    );
}

#[test]
fn an_interpreters_lock_leads_before_the_code_that_holds_it() {
    let parts = [
        (Category::Running, "python3", 540 * MS),
        (Category::UserLock, "python3", 370 * MS),
        (Category::Idle, "", 90 * MS),
    ];
    let mut result = sampled(result("requests", &parts), "_PyEval_EvalFrameDefault", 540 * MS);
    let lock =
        |kind: &str, time| LockRow { pid: 7, kind: kind.into(), waits: 10, time, ..LockRow::default() };
    result.locks = vec![lock("global interpreter lock", 370 * MS)];
    assert!(
        said(&result)[0].starts_with(
            "Bottleneck: contention on the global interpreter lock (GIL) (37 % of 1.0 s request time"
        ),
        "{:?}",
        said(&result)
    );
    result.locks = vec![lock("user lock", 370 * MS)];
    assert!(said(&result)[0].starts_with("Bottleneck: none outside the program"), "{:?}", said(&result));
    // Of two kinds each has its part.
    result.locks = vec![lock("global interpreter lock", 300 * MS), lock("user lock", 100 * MS)];
    let found = diagnose(&result, &Trust::default()).findings;
    let time = |id: &str| found.iter().find(|f| f.id == id).map_or(0, |f| f.time / MS);
    assert_eq!([time("lock.interpreter"), time("lock.user")], [277, 92], "{found:?}");
}

#[test]
fn a_peer_that_was_stopped_is_told_and_who_let_it_go_on() {
    let mut result =
        result("command", &[(Category::Pipe, "cat", 90 * MS), (Category::Stopped, "bash", 10 * MS)]);
    let row = |category, who: &str, time| BlameRow { category, who: who.into(), time: time * MS };
    result.peers = vec![row(Category::Stopped, "bash", 80), row(Category::Running, "cat", 10)];
    let lines = said(&result);
    assert!(
        lines[0].starts_with("Bottleneck: waiting for another process, cat, which was stopped (90 % of"),
        "{lines:?}"
    );
    assert!(
        lines.contains(&"  meanwhile  until bash continued it: stopped 89 %, cat running 11 %".into()),
        "{lines:?}"
    );
    let found = diagnose(&result, &Trust::default()).findings;
    assert_eq!(found[1].headline, "stopped by a signal, a tracer or the freezer, until bash continued it");
}

#[test]
fn a_time_limit_that_ends_a_wait_is_no_intentional_sleep() {
    let slept = |call: &str| {
        let mut result =
            result("threads", &[(Category::Timer, "me", 900 * MS), (Category::Running, "me", 100 * MS)]);
        let account = [(Category::Timer, 900 * MS)].into();
        result.processes[0].syscalls =
            vec![plumb_model::SyscallRow { name: call.into(), account, ..Default::default() }];
        said(&result)
    };
    assert!(slept("clock_nanosleep")[0].starts_with("Bottleneck: intentional sleep of me (90 %"));
    let lines = slept("poll");
    assert!(
        lines[0].starts_with("Bottleneck: waits of me until their time limit, in poll (90 %"),
        "{lines:?}"
    );
    assert!(
        lines.iter().any(|l| l.starts_with("Next: shorten the limit if it is the program's own timer")),
        "{lines:?}"
    );
    // A thread beside the requests that waits for its limit is not what they sleep in.
    let mut served =
        result("requests", &[(Category::Timer, "me", 90 * MS), (Category::Running, "me", 10 * MS)]);
    let call = |name: &str, ms| plumb_model::SyscallRow {
        name: name.into(),
        account: [(Category::Timer, ms * MS)].into(),
        ..Default::default()
    };
    served.processes[0].syscalls = vec![call("clock_nanosleep", 90), call("futex", 9_000)];
    assert!(said(&served)[0].starts_with("Bottleneck: intentional sleep of me (90 %"), "{:?}", said(&served));
}

#[test]
fn no_wait_within_a_request_is_longer_than_the_longest_request() {
    let parts = [(Category::Socket, "db", 900 * MS), (Category::Running, "me", 100 * MS)];
    let mut result = result("requests", &parts);
    result.service =
        ServiceResult { requests: 10, time: 1_000 * MS, longest: 110 * MS, ..ServiceResult::default() };
    let wait = |time| plumb_model::WaitRow {
        time,
        category: Category::Socket,
        comm: "me".into(),
        ..Default::default()
    };
    result.longest = [(Category::Socket, vec![wait(8_000 * MS), wait(90 * MS)])].into();
    let found = diagnose(&result, &Trust::default());
    let words: Vec<&str> = found.findings[0].evidence.iter().map(|e| e.words.as_str()).collect();
    assert!(
        words.iter().any(|w| w.starts_with("90.0 ms in me")) && !words.iter().any(|w| w.starts_with("8.0 s")),
        "{words:?}"
    );
    // One that is not answered may wait for longer than any that was.
    result.path.time = 9_000 * MS;
    let found = diagnose(&result, &Trust::default());
    assert!(found.findings[0].evidence.iter().any(|e| e.words.starts_with("8.0 s in me")), "{found:?}");
}

#[test]
fn a_full_accept_queue_is_no_bad_link() {
    let parts = [(Category::Network, "", 900 * MS), (Category::Running, "me", 100 * MS)];
    let with = |overflows| {
        let counters = [("tcp.ListenOverflows".to_string(), overflows)].into();
        let wait = plumb_model::WaitRow { time: 900 * MS, category: Category::Network, ..Default::default() };
        let longest = [(Category::Network, vec![wait])].into();
        said(&RunResult {
            retransmits: 5,
            retransmit_waiters: true,
            counters,
            longest,
            ..result("command", &parts)
        })
    };
    let lines = with(4);
    assert!(
        lines[0].starts_with(
            "Bottleneck: TCP retransmissions, while a listener's accept queue was full on this host (9"
        ),
        "{lines:?}"
    );
    assert!(lines.contains(&"  accept queue  full 4 times (TcpExtListenOverflows)".to_string()), "{lines:?}");
    assert!(with(2)[0].starts_with("Bottleneck: TCP retransmissions (9"), "{:?}", with(2));
}
