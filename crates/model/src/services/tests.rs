// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;

fn task(pid: u32, ppid: u32, comm: &str) -> StateTask {
    StateTask { tid: pid, tgid: pid, ppid, comm: comm.into(), syscall: -1, ..StateTask::default() }
}

#[test]
fn launchers_are_sorted() {
    assert!(LAUNCHERS.is_sorted());
}

#[test]
fn a_service_is_a_program_with_what_it_started() {
    let state = State {
        tasks: vec![
            task(1, 0, "the-init"),
            task(10, 1, "bash"),
            StateTask { cmdline: "/bin/bash -e ./build.sh".into(), ..task(14, 10, "build.sh") },
            task(11, 14, "make"),
            task(12, 11, "sh"),
            task(13, 12, "cc1"),
            task(20, 1, "nginx"),
            task(21, 20, "nginx"),
            task(30, 10, "python3"),
            task(31, 30, "postgres"),
            task(32, 31, "postgres"),
            task(33, 30, "pgbench"),
        ],
        sockets: [20, 21, 30, 31, 32]
            .map(|pid| StateSocket { pid, side: StateSocket::LISTENS, ..StateSocket::default() })
            .into(),
        ..State::default()
    };
    let mut s = Services::of_machine(&state, 0);
    let name = |s: &Services, pid| s.names[s.process(pid) as usize].clone();
    let all = [10, 14, 13, 12, 11, 21, 30, 32, 33].map(|pid| name(&s, pid));
    assert_eq!(all, ["bash", "build.sh", "make", "make", "make", "nginx", "python3", "postgres", "python3"]);
    // The shell starts another program, and make a compiler; the first process one of its own.
    s.forked(43, 1);
    s.renamed(43, "cron-job", Some(50));
    assert_eq!((name(&s, 1), name(&s, 43)), ("the-init".into(), "cron-job".into()));
    s.forked(40, 10);
    assert_eq!(name(&s, 40), "bash");
    s.renamed(40, "redis-server", Some(50));
    s.forked(41, 11);
    s.renamed(41, "sh", Some(50));
    s.forked(42, 41);
    s.renamed(42, "cc1", Some(50));
    assert_eq!(
        (name(&s, 40), name(&s, 41), name(&s, 42)),
        ("redis-server".into(), "make".into(), "make".into())
    );
}

#[test]
fn units_and_containers_are_services() {
    let told = |at, pid, name: &str| {
        let cgroup = if name.is_empty() { String::new() } else { format!("/{name}") };
        StateService { at, pid, name: name.into(), cgroup }
    };
    let state = State {
        tasks: vec![
            task(1, 0, "systemd"),
            task(20, 1, "sshd"),
            task(21, 20, "sshd"),
            task(22, 21, "bash"),
            task(23, 22, "make"),
            task(30, 1, "nginx"),
            task(31, 30, "nginx"),
            task(40, 1, "containerd-shim"),
            task(41, 40, "nginx"),
            task(42, 30, "helper"),
        ],
        services: vec![
            told(0, 20, "ssh.service"),
            told(0, 30, "nginx.service"),
            told(0, 31, "nginx.service"),
            told(0, 40, "containerd.service"),
            told(0, 41, "container web"),
            // Told ahead, of a program that is run later.
            told(90, 51, "container web"),
            told(95, 60, ""),
        ],
        ..State::default()
    };
    let mut s = Services::of_machine(&state, 10);
    let name = |s: &Services, pid| s.names[s.process(pid) as usize].clone();
    let all = [20, 22, 23, 31, 40, 41, 42].map(|pid| name(&s, pid));
    let as_told =
        ["ssh.service", "bash", "make", "nginx.service", "containerd.service", "container web", "helper"];
    assert_eq!(all, as_told, "the rest by its program, not by what is in a unit");
    // A container begins: its runtime runs another program in its place.
    s.forked(50, 40);
    s.forked(51, 50);
    s.renamed(50, "runc", Some(80));
    assert_eq!((name(&s, 50), name(&s, 51)), ("containerd.service".into(), "containerd.service".into()));
    s.renamed(51, "nginx", Some(90));
    assert_eq!(name(&s, 51), "container web");
    // Somebody logs in: the session is no unit of sshd.
    s.forked(60, 20);
    s.renamed(60, "redis-server", Some(95));
    assert_eq!(name(&s, 60), "redis-server");
    // A unit's own program runs others.
    s.forked(61, 30);
    s.renamed(61, "sh", Some(96));
    assert_eq!(name(&s, 61), "nginx.service");
    // What a flight recorder kept of one that it forgot the begin of, and one that is told too late.
    assert!(s.told(&told(97, 61, "container db"), 98));
    assert_eq!((name(&s, 61), s.coming.len()), ("container db".into(), 0));
    assert!(!s.told(&told(97, 61, "container db"), 98), "nothing new");
}

#[test]
fn an_interpreter_is_called_with_its_script() {
    let told = |at, pid, name: &str| StateService { at, pid, name: name.into(), ..StateService::default() };
    let listens = |pid| StateSocket { pid, side: StateSocket::LISTENS, ..StateSocket::default() };
    let state = State {
        tasks: vec![
            task(1, 0, "the-init"),
            task(10, 1, "bash"),
            task(20, 10, "python3"),
            task(21, 20, "python3"),
            task(22, 21, "sh"),
            task(30, 10, "python3"),
            task(31, 30, "python3"),
            task(32, 30, "python3"),
        ],
        sockets: [30, 31, 32].map(listens).into(),
        services: vec![
            told(0, 20, "python3 shop.py"),
            told(0, 30, "python3 cart.py"),
            told(0, 32, "python3 admin.py"),
            told(60, 40, "python3 shop.py"),
            told(70, 22, "python3 tool.py"),
        ],
        ..State::default()
    };
    let mut s = Services::of_machine(&state, 10);
    let name = |s: &Services, pid| s.name(s.process(pid)).to_string();
    let all = [20, 21, 22, 30, 31, 32].map(|pid| name(&s, pid));
    let (shop, cart) = ("python3 shop.py", "python3 cart.py");
    assert_eq!(
        all,
        [shop, shop, shop, cart, cart, "python3 admin.py"],
        "31 is a worker of 30, 32 another script"
    );
    let runs = |s: &Services, pid| s.script(pid, "python3").map(str::to_string);
    let own = [20, 21, 22, 30, 31, 32].map(|pid| runs(&s, pid).is_some());
    assert_eq!(own, [true, false, false, true, false, true], "what they run themselves was told");
    // Another one of it begins, which the shell starts, and what its tool runs is still its own.
    s.forked(40, 10);
    s.renamed(40, "python3", Some(60));
    s.renamed(22, "python3", Some(70));
    assert_eq!((name(&s, 40), name(&s, 22)), (shop.into(), shop.into()));
    assert_eq!((runs(&s, 40), runs(&s, 22)), (Some(shop.into()), None));
    assert_eq!(s.script(40, "a thread"), None);
    // A script of a shell begins, in place of which an interpreter runs.
    s.forked(45, 10);
    s.runs(&StateTask { cmdline: "bash /shims/python".into(), ..task(45, 10, "python") });
    s.renamed(45, "python", Some(75));
    assert!(!s.told(&told(78, 45, cart), 76));
    s.renamed(45, "python3", Some(78));
    assert_eq!(name(&s, 45), cart);
    // A program that runs another one in its place, as a wrapper does: its service is called as that.
    s.forked(46, 10);
    s.renamed(46, "numactl", Some(75));
    s.renamed(46, "redis-server", Some(76));
    s.forked(47, 46);
    s.renamed(47, "sh", Some(77));
    assert_eq!((name(&s, 46), name(&s, 47)), ("redis-server".into(), "redis-server".into()));
    // One that is told too late, and one that is not its own service.
    s.forked(50, 10);
    s.renamed(50, "python3", Some(80));
    s.forked(51, 40);
    assert_eq!(runs(&s, 51), Some(shop.into()), "a worker");
    s.renamed(51, "python3", Some(80));
    assert_eq!((name(&s, 50), name(&s, 51)), ("python3".into(), shop.into()));
    assert!(s.told(&told(80, 50, cart), 90) && !s.told(&told(80, 51, cart), 90));
    assert_eq!((name(&s, 50), name(&s, 51)), (cart.into(), shop.into()));
    assert_eq!((runs(&s, 50), runs(&s, 51)), (Some(cart.into()), None));
    assert_eq!(runs(&s.carried(|pid| pid != 50), 50), None);
    assert_eq!(runs(&s.carried(|_| true), 50), Some(cart.into()));
    assert!(!s.told(&told(80, 50, "python3 other.py"), 95), "it has its name");
}

#[test]
fn of_services_that_come_and_go_each_is_known_while_it_lives() {
    let state = State { tasks: vec![task(1, 0, "systemd"), task(5, 1, "sshd")], ..State::default() };
    let mut s = Services::of_machine(&state, 0);
    let name = |s: &Services, pid| s.name(s.process(pid)).to_string();
    for n in 0..5000 {
        let pid = 1000 + n;
        s.forked(pid, 1);
        s.renamed(pid, &format!("job-{n}"), Some(50));
        assert_eq!(name(&s, pid), format!("job-{n}"));
        s = s.carried(|p| p == 5 || p == pid);
        assert!(s.names().count() <= 3 && s.of.len() <= 2, "those before are forgotten");
    }
    assert_eq!((name(&s, 5), name(&s, 5999)), ("sshd".into(), "job-4999".into()));
}

#[test]
fn processes_of_a_name_are_one() {
    let state = State { tasks: vec![task(1, 0, "a"), task(2, 0, "b"), task(3, 0, "c")], ..State::default() };
    let mut s = Services::named(&["a".into(), "c".into()], &state);
    s.forked(4, 1);
    s.forked(5, 1);
    s.renamed(5, "b", None);
    assert_eq!([1, 2, 3, 4, 5].map(|pid| s.process(pid)), [1, 0, 1, 1, 0]);
}

#[test]
fn a_target_that_is_no_machine_is_one() {
    let mut s = Services::one();
    s.forked(5, 4);
    s.renamed(5, "bash", Some(50));
    assert_eq!((s.process(5), s.names().count()), (0, 0));
}
