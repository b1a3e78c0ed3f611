// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits of servers and clients: idle is only who has no request, and the others wait for somebody.
//! Events made by hand; times that can be added up on paper.

mod common;

use common::{Bench, END, NEIGHBOUR, SHELL, SLEEPS};
use plumb_model::Category;
use plumb_trace::schema::{
    ContentionBegin, ContentionEnd, Futex, IrqHandlerEntry, IrqHandlerExit, SchedRename, SchedSwitch,
    SchedWaking, SoftirqEntry, SoftirqExit, StateSocket, SysEnter, SysExit, TcpReadWaited, TcpRetransmitSkb,
    TcpRetransmitWaiter,
};

const WORKER: u32 = 200;

const READ: u32 = 0;
const WRITE: u32 = 1;
const POLL: u32 = 7;
const NANOSLEEP: u32 = 35;
const ACCEPT: u32 = 43;
const SENDTO: u32 = 44;
const RECVFROM: u32 = 45;
const SIGTIMEDWAIT: u32 = 128;
const FUTEX: u32 = 202;
const OPENAT: u32 = 257;

/// The connection to a client, and the one to an upstream.
const CLIENT: u32 = 5;
const UPSTREAM: u32 = 6;

fn socket(fd: u32, side: u32) -> StateSocket {
    StateSocket { pid: SHELL, fd, side, peer: String::new() }
}

/// One thread that serves a client.
fn server() -> Bench {
    Bench::service(vec![socket(CLIENT, StateSocket::ACCEPTED), socket(UPSTREAM, StateSocket::CONNECTED)])
}

#[test]
fn a_server_without_a_request_is_idle_whatever_wakes_it() {
    let mut b = server();
    b.calls(2000, SHELL, POLL).leaves(2000, SHELL, SLEEPS).packet(30_000, SHELL).returns(30_000, SHELL, POLL);
    b.does(31_000, SHELL, RECVFROM, CLIENT, 100).does(32_000, SHELL, SENDTO, CLIENT, 100);
    b.calls(33_000, SHELL, POLL).leaves(33_000, SHELL, SLEEPS).wakes(50_000, NEIGHBOUR, SHELL);
    b.returns(50_000, SHELL, POLL);
    b.calls(51_000, SHELL, POLL).leaves(51_000, SHELL, SLEEPS).expires(60_000, SHELL);
    b.returns(60_000, SHELL, POLL);
    b.calls(61_000, SHELL, NANOSLEEP).leaves(61_000, SHELL, SLEEPS).expires(70_000, SHELL);
    b.returns(70_000, SHELL, NANOSLEEP).calls(71_000, SHELL, ACCEPT).leaves(71_000, SHELL, SLEEPS);
    b.packet(80_000, SHELL);
    let result = b.finish();
    // From the packet that woke it to the answer.
    assert_eq!((result.service.requests, result.service.time), (1, 2000));
    let account = &result.processes[0].account;
    let idle = 28_000 + 17_000 + 9000 + 9000 + 9000;
    assert_eq!(account[&Category::Idle], idle, "{account:?}");
    assert_eq!(account[&Category::Running], END - 1000 - idle);
}

#[test]
fn a_request_waits_for_a_cpu_before_it_is_received() {
    let served = |woken: u64| {
        let mut b = server();
        b.calls(2000, SHELL, POLL).leaves(2000, SHELL, SLEEPS);
        b.at(woken, NEIGHBOUR, SchedWaking { tid: NEIGHBOUR, wakee: SHELL, ..Default::default() });
        b.runs(40_000, SHELL).returns(40_000, SHELL, POLL).does(41_000, SHELL, RECVFROM, CLIENT, 100);
        b.does(42_000, SHELL, SENDTO, CLIENT, 100);
        // It has not looked again: when the second came is not known.
        b.does(43_000, SHELL, RECVFROM, CLIENT, 100).does(45_000, SHELL, SENDTO, CLIENT, 100);
        // Nothing had come: it looks again, and does not sleep.
        b.calls(46_000, SHELL, POLL).leaves(46_000, SHELL, SLEEPS).wakes(50_000, NEIGHBOUR, SHELL);
        b.returns(50_000, SHELL, POLL)
            .does(51_000, SHELL, RECVFROM, CLIENT, -11)
            .does(52_000, SHELL, POLL, 0, 1);
        b.does(60_000, SHELL, RECVFROM, CLIENT, 100).does(61_000, SHELL, SENDTO, CLIENT, 100);
        b
    };
    let result = served(30_000).finish();
    assert_eq!((result.service.requests, result.service.time), (3, 12_000 + 2000 + 1000));
    let parts = served(30_000).path();
    assert_eq!(parts, [(Category::WokenIdle, 10_000), (Category::Running, 5000)]);
}

#[test]
fn a_request_waits_until_its_server_has_served_another() {
    let second = 7;
    let receives = |told: bool| {
        let mut b = Bench::service([CLIENT, second].map(|fd| socket(fd, StateSocket::ACCEPTED)).into());
        b.does(2000, SHELL, RECVFROM, CLIENT, 100);
        b.calls(3000, SHELL, NANOSLEEP).leaves(3000, SHELL, SLEEPS).expires(33_000, SHELL);
        b.returns(33_000, SHELL, NANOSLEEP).does(34_000, SHELL, SENDTO, CLIENT, 100);
        let (tid, ts) = (SHELL, 35_000);
        b.at(ts, SHELL, SysEnter { tid, ts, nr: RECVFROM, arg0: second, ..Default::default() });
        if told {
            b.at(ts, SHELL, TcpReadWaited { tid, ts, waited: 30_000, ..Default::default() });
        }
        b.at(ts, SHELL, SysExit { tid, ts, nr: RECVFROM, ret: 100, ..Default::default() });
        b.does(36_000, SHELL, SENDTO, second, 100);
        // What came then says nothing of the next one.
        b.does(40_000, SHELL, RECVFROM, CLIENT, 100).does(41_000, SHELL, SENDTO, CLIENT, 100);
        b
    };
    let served = |told: bool| receives(told).finish().service;
    let [plain, known] = [false, true].map(served);
    assert_eq!((plain.requests, plain.time, plain.unread), (3, 32_000 + 1000 + 1000, Some(0)));
    assert_eq!((known.requests, known.time, known.unread), (3, 32_000 + 31_000 + 1000, Some(30_000)));
    // It waited for what the thread did for the other one.
    let parts = receives(true).path();
    assert_eq!(parts, [(Category::Running, 2000 + 3000 + 1000), (Category::Timer, 30_000 + 28_000)]);
}

#[test]
fn a_proxy_waits_for_its_upstream() {
    let mut b = server();
    b.does(2000, SHELL, RECVFROM, CLIENT, 100).does(3000, SHELL, SENDTO, UPSTREAM, 100);
    b.calls(4000, SHELL, POLL).leaves(4000, SHELL, SLEEPS).wakes(34_000, NEIGHBOUR, SHELL);
    b.returns(34_000, SHELL, POLL).calls(35_000, SHELL, POLL).leaves(35_000, SHELL, SLEEPS);
    b.packet(45_000, SHELL).returns(45_000, SHELL, POLL).does(46_000, SHELL, RECVFROM, UPSTREAM, 10);
    b.does(47_000, SHELL, WRITE, CLIENT, 10);
    // From the receive to the answer.
    let parts = [(Category::Network, 10_000), (Category::Running, 5000), (Category::Socket, 30_000)];
    assert_eq!(b.path(), parts);
}

/// A server whose request waits for a process beside it, which is asleep for a part of that.
fn upstream_sleeps(mut b: Bench) -> plumb_model::RunResult {
    b.does(2000, SHELL, RECVFROM, CLIENT, 100).does(3000, SHELL, SENDTO, UPSTREAM, 100);
    b.calls(4000, SHELL, POLL).leaves(4000, SHELL, SLEEPS);
    b.calls(10_000, NEIGHBOUR, NANOSLEEP).leaves(10_000, NEIGHBOUR, SLEEPS).expires(30_000, NEIGHBOUR);
    b.returns(30_000, NEIGHBOUR, NANOSLEEP).wakes(34_000, NEIGHBOUR, SHELL).returns(34_000, SHELL, POLL);
    b.does(35_000, SHELL, RECVFROM, UPSTREAM, 10).does(36_000, SHELL, WRITE, CLIENT, 10);
    b.finish()
}

#[test]
fn services_of_a_machine_are_told_as_if_each_was_the_target() {
    let sockets = || vec![socket(CLIENT, StateSocket::ACCEPTED), socket(UPSTREAM, StateSocket::CONNECTED)];
    let alone = upstream_sleeps(Bench::service(sockets()));
    let machine = upstream_sleeps(Bench::machine(sockets()));
    let of = |name: &str| {
        let service = machine.services.iter().find(|s| s.name == name);
        service.unwrap_or_else(|| panic!("{name}")).clone()
    };
    let served = of(&format!("task{SHELL}"));
    assert_eq!(served.result.path, alone.path);
    assert_eq!(served.result.path.of, "requests");
    assert_eq!(served.result.service, alone.service);
    // More is known of the other one: that it paused by its own will.
    let peers: Vec<_> = served.result.peers.iter().map(|p| (p.category, p.time)).collect();
    assert_eq!(peers, [(Category::Timer, 20_000), (Category::Running, 10_000)]);
    assert_eq!(served.result.processes[0].account, alone.processes[0].account);
    assert_eq!(served.result.longest, alone.longest);
    let upstream = of(&format!("task{NEIGHBOUR}"));
    let account = &upstream.result.processes[0].account;
    assert_eq!(account[&Category::Timer], 20_000, "its pause is its own: {account:?}");
    assert_eq!((upstream.result.service.requests, upstream.processes), (0, 1));
    assert_eq!(upstream.pids, [NEIGHBOUR].into());
    // The machine's account is that of both, and of who did nothing.
    let sum: u64 = machine.services.iter().map(|s| s.result.processes[0].thread_time).sum();
    assert_eq!(machine.processes.iter().map(|p| p.thread_time).sum::<u64>(), sum + END - 1000);
}

#[test]
fn who_is_waited_for_is_called_with_its_script() {
    let sockets = || vec![socket(CLIENT, StateSocket::ACCEPTED), socket(UPSTREAM, StateSocket::CONNECTED)];
    let script = "task900 shop.py";
    let machine = upstream_sleeps(Bench::scripts(sockets(), &[(NEIGHBOUR, script)]));
    let waits_for = |machine: &plumb_model::RunResult| -> Vec<String> {
        let served = machine.services.iter().find(|s| s.name == format!("task{SHELL}")).expect("the server");
        let parts = served.result.path.parts.iter();
        parts.filter(|p| p.category == Category::Socket).map(|p| p.who.clone()).collect()
    };
    assert_eq!(waits_for(&machine), [script]);
    let processes: Vec<&str> = machine.processes.iter().map(|p| p.comm.as_str()).collect();
    assert!(processes.contains(&"task900"), "a process has its own name: {processes:?}");
    // A thread of it that has its name, and one that takes a name of its own.
    let of_thread = |renamed: bool| {
        let mut b = Bench::scripts(sockets(), &[(NEIGHBOUR, script)]);
        let comm = *b"backend\0\0\0\0\0\0\0\0\0";
        b.clones(1500, NEIGHBOUR, WORKER);
        if renamed {
            b.at(1700, WORKER, SchedRename { tid: WORKER, ts: 1700, comm, ..Default::default() });
        }
        b.does(2000, SHELL, RECVFROM, CLIENT, 100).does(3000, SHELL, SENDTO, UPSTREAM, 100);
        b.calls(4000, SHELL, POLL).leaves(4000, SHELL, SLEEPS).wakes(34_000, WORKER, SHELL);
        b.returns(34_000, SHELL, POLL).does(35_000, SHELL, RECVFROM, UPSTREAM, 10);
        b.does(36_000, SHELL, WRITE, CLIENT, 10);
        waits_for(&b.finish())
    };
    assert_eq!([false, true].map(of_thread), [[script], ["backend"]]);
}

#[test]
fn who_slept_through_all_of_a_machines_recording_is_idle() {
    // Born before, in a call that nobody could read, and never woken.
    let result = Bench::machine(Vec::new()).finish();
    let quiet = result.processes.iter().find(|p| p.pid == common::QUIET).expect("a process");
    assert_eq!(quiet.account, [(Category::Idle, END - 1000)].into());
}

#[test]
fn processes_of_a_name_are_told_alone() {
    let result = upstream_sleeps(Bench::only(&format!("task{NEIGHBOUR}"), Vec::new()));
    assert!(result.services.is_empty(), "nobody of the target is called so: {:?}", result.services);
    let result = upstream_sleeps(Bench::only(&format!("task{SHELL}"), Vec::new()));
    assert_eq!(result.services.len(), 1);
    assert_eq!(result.services[0].pids, [SHELL].into());
}

#[test]
fn a_request_waits_for_another_thread() {
    let mut b = server();
    b.clones(2000, SHELL, WORKER).does(3000, SHELL, READ, CLIENT, 100);
    b.calls(4000, SHELL, POLL).leaves(4000, SHELL, SLEEPS);
    b.calls(14_000, WORKER, NANOSLEEP).leaves(14_000, WORKER, SLEEPS).expires(40_000, WORKER);
    b.returns(40_000, WORKER, NANOSLEEP).wakes(44_000, WORKER, SHELL);
    b.returns(44_000, SHELL, POLL).does(45_000, SHELL, WRITE, CLIENT, 10);
    // The worker has no request: it waits for one.
    b.calls(45_000, WORKER, FUTEX).leaves(45_000, WORKER, SLEEPS).wakes(65_000, SHELL, WORKER);
    let result = b.finish();
    let account = &result.processes[0].account;
    assert_eq!([account[&Category::InRequest], account[&Category::Signalled]], [40_000, 20_000]);
    assert_eq!((result.path.of.as_str(), result.path.time), ("requests", 42_000));
    assert_eq!([result.path.part(Category::Timer), result.path.part(Category::Running)], [26_000, 16_000]);
    let meanwhile: Vec<_> = result.service.meanwhile.iter().map(|p| (p.category, p.time)).collect();
    assert_eq!(meanwhile, [(Category::Timer, 26_000), (Category::Running, 14_000)]);
}

/// Two threads of a server with a connection each; the first waits for a latch that the second opens.
fn behind(second: impl FnOnce(&mut Bench)) -> plumb_model::RunResult {
    let mut b = Bench::service(vec![socket(CLIENT, StateSocket::ACCEPTED), socket(9, StateSocket::ACCEPTED)]);
    b.clones(2000, SHELL, WORKER).does(2000, WORKER, READ, 9, 100).does(3000, SHELL, READ, CLIENT, 100);
    b.calls(4000, SHELL, FUTEX).leaves(4000, SHELL, SLEEPS);
    second(&mut b);
    b.wakes(44_000, WORKER, SHELL).returns(44_000, SHELL, FUTEX).does(45_000, SHELL, WRITE, CLIENT, 10);
    b.does(45_000, WORKER, WRITE, 9, 10);
    b.finish()
}

#[test]
fn a_request_behind_another_waits_for_its_thread_and_not_for_what_that_one_does() {
    let result = behind(|b| {
        b.calls(14_000, WORKER, NANOSLEEP).leaves(14_000, WORKER, SLEEPS).expires(40_000, WORKER);
        b.returns(40_000, WORKER, NANOSLEEP);
    });
    // 42 us of the first request, 43 us of the second.
    assert_eq!((result.path.of.as_str(), result.path.time), ("requests", 85_000));
    let part = |category| result.path.part(category);
    assert_eq!(
        [part(Category::InRequest), part(Category::Timer), part(Category::Running)],
        [40_000, 26_000, 19_000]
    );
}

#[test]
fn a_resource_that_the_other_request_waits_for_is_waited_for_by_both() {
    let result = behind(|b| {
        b.at(14_000, WORKER, ContentionBegin { tid: WORKER, lock: 0x77, ..Default::default() });
        b.leaves(14_000, WORKER, 2).wakes(40_000, NEIGHBOUR, WORKER);
        b.at(40_000, WORKER, ContentionEnd { tid: WORKER, lock: 0x77, ..Default::default() });
    });
    let part = |category| result.path.part(category);
    assert_eq!([part(Category::KernelLock), part(Category::InRequest)], [52_000, 14_000]);
}

#[test]
fn a_request_that_is_not_answered_counts_to_the_end() {
    let mut b = server();
    b.does(2000, SHELL, RECVFROM, CLIENT, 100).calls(3000, SHELL, FUTEX).leaves(3000, SHELL, SLEEPS);
    let result = b.finish();
    assert_eq!((result.path.of.as_str(), result.path.time), ("requests", END - 2000));
    assert_eq!(result.service.requests, 0);
}

#[test]
fn a_timed_wait_for_what_threads_end_is_no_sleep() {
    let futex = |tid, uaddr| Futex { tid, op: 9, uaddr, ..Default::default() };
    let mut b = server();
    b.clones(2000, SHELL, WORKER).does(3000, SHELL, READ, CLIENT, 100);
    // A thread ends the first wait; the other futex only times out.
    for (from, uaddr, woken) in [(4000, 0x100, true), (20_000, 0x100, false), (40_000, 0x900, false)] {
        b.calls(from, SHELL, FUTEX).at(from, SHELL, futex(SHELL, uaddr)).leaves(from, SHELL, SLEEPS);
        if woken {
            b.wakes(from + 5000, WORKER, SHELL);
        } else {
            b.times_out(from + 5000, SHELL);
        }
        b.returns(from + 5000, SHELL, FUTEX);
    }
    let account = b.finish().processes[0].account.clone();
    let time = |c| account.get(&c).copied().unwrap_or_default();
    assert_eq!([time(Category::InRequest), time(Category::Timer)], [10_000, 5000], "{account:?}");
}

#[test]
fn a_wait_that_gives_up_and_goes_on_is_for_who_ends_it() {
    let futex = Futex { tid: SHELL, op: 9, uaddr: 0x100, ..Default::default() };
    let mut b = Bench::command();
    b.clones(2000, SHELL, WORKER);
    for (from, woken) in [(4000, true), (20_000, false), (30_000, false), (40_000, true)] {
        b.calls(from, SHELL, FUTEX).at(from, SHELL, futex).leaves(from, SHELL, SLEEPS);
        match woken {
            true => b.wakes(from + 8000, WORKER, SHELL),
            false => b.times_out(from + 8000, SHELL),
        };
        b.returns(from + 8000, SHELL, FUTEX);
    }
    b.does(50_000, SHELL, READ, 0, 0);
    // The worker ran all the time.
    assert_eq!(b.path(), [(Category::Running, END - 1000)]);
}

#[test]
fn a_client_that_polls_waits_for_its_server() {
    let mut b = Bench::service(vec![socket(UPSTREAM, StateSocket::CONNECTED)]);
    b.does(2000, SHELL, SENDTO, UPSTREAM, 100);
    b.calls(3000, SHELL, POLL).leaves(3000, SHELL, SLEEPS).wakes(43_000, NEIGHBOUR, SHELL);
    b.returns(43_000, SHELL, POLL).does(44_000, SHELL, RECVFROM, UPSTREAM, 100);
    b.calls(45_000, SHELL, NANOSLEEP).leaves(45_000, SHELL, SLEEPS).expires(55_000, SHELL);
    b.returns(55_000, SHELL, NANOSLEEP);
    let parts = [(Category::Running, 49_000), (Category::Socket, 40_000), (Category::Timer, 10_000)];
    assert_eq!(b.path(), parts);
}

#[test]
fn of_whom_nothing_is_known_is_not_idle() {
    let mut b = Bench::service(Vec::new());
    b.calls(2000, SHELL, POLL).leaves(2000, SHELL, SLEEPS).wakes(30_000, NEIGHBOUR, SHELL);
    b.returns(30_000, SHELL, POLL).calls(31_000, SHELL, POLL).leaves(31_000, SHELL, SLEEPS);
    b.packet(41_000, SHELL);
    let parts = [(Category::Network, 10_000), (Category::Pipe, 28_000), (Category::Running, 61_000)];
    assert_eq!(b.path(), parts);
}

#[test]
fn what_a_peer_did_meanwhile_is_told_and_who_let_it_go_on() {
    const STOPPED: u32 = 4;
    let mut b = Bench::command();
    b.forks(1500, NEIGHBOUR, 950).calls(2000, SHELL, READ).leaves(2000, SHELL, SLEEPS);
    b.leaves(12_000, NEIGHBOUR, STOPPED).wakes(42_000, 950, NEIGHBOUR);
    b.wakes(50_000, NEIGHBOUR, SHELL).returns(50_000, SHELL, READ);
    // Stopped itself.
    b.leaves(60_000, SHELL, STOPPED).wakes(80_000, NEIGHBOUR, SHELL);
    let result = b.finish();
    let mut peers: Vec<_> = result.peers.iter().map(|p| (p.category, p.time)).collect();
    peers.sort();
    assert_eq!(peers, [(Category::Running, 18_000), (Category::Stopped, 30_000)]);
    let part = |category| result.path.part(category);
    assert_eq!([part(Category::Pipe), part(Category::Stopped)], [48_000, 20_000]);
    let stopped = result.path.parts.iter().find(|p| p.category == Category::Stopped).expect("a part");
    assert_eq!(stopped.who, "task900", "who let it go on");
}

#[test]
fn a_signal_is_waited_for_from_who_sends_it() {
    let waits = |mut b: Bench| {
        b.calls(2000, SHELL, SIGTIMEDWAIT).leaves(2000, SHELL, SLEEPS).wakes(42_000, NEIGHBOUR, SHELL);
        b.returns(42_000, SHELL, SIGTIMEDWAIT);
        let result = b.finish();
        let part = result.path.parts.iter().find(|p| p.category == Category::Signal).cloned();
        (part.map(|p| (p.who, p.time)), result.peers.len())
    };
    assert_eq!(waits(Bench::command()), (Some(("task900".into(), 40_000)), 1));
    // A service waits for signals as for requests.
    assert_eq!(waits(Bench::service(Vec::new())).0, Some((String::new(), 40_000)));
}

#[test]
fn a_wait_in_an_unknown_call_is_for_who_ends_it_and_what_that_one_did() {
    let mut b = Bench::command();
    b.calls(2000, SHELL, OPENAT).leaves(2000, SHELL, SLEEPS).leaves(10_000, NEIGHBOUR, SLEEPS);
    b.times_out(30_000, NEIGHBOUR).wakes(42_000, NEIGHBOUR, SHELL).returns(42_000, SHELL, OPENAT);
    let result = b.finish();
    let mut peers: Vec<_> = result.peers.iter().map(|p| (p.category, p.time)).collect();
    peers.sort();
    assert_eq!(peers, [(Category::Running, 20_000), (Category::Timer, 20_000)]);
    assert!(result.peers.iter().all(|p| p.who == "task900"), "{:?}", result.peers);
}

#[test]
fn frozen_by_its_cgroup_is_stopped() {
    let mut b = Bench::command();
    b.leaves(2000, SHELL, 0x8000).wakes(42_000, NEIGHBOUR, SHELL);
    let result = b.finish();
    let stopped = result.path.parts.iter().find(|p| p.category == Category::Stopped).expect("a part");
    assert_eq!((stopped.who.as_str(), stopped.time), ("task900", 40_000));
}

#[test]
fn what_a_timer_of_tcp_let_go_is_told_from_what_a_device_received() {
    let softirq = |b: &mut Bench, ts, vec| {
        b.on(1, ts, 0, SoftirqEntry { vec, ..Default::default() }).on(
            1,
            ts + 1000,
            0,
            SoftirqExit { vec, ..Default::default() },
        );
    };
    let mut b = server();
    for (from, device) in [(2000, false), (40_000, true)] {
        b.does(from, SHELL, RECVFROM, CLIENT, 100).does(from + 1000, SHELL, SENDTO, UPSTREAM, 100);
        b.calls(from + 2000, SHELL, POLL).leaves(from + 2000, SHELL, SLEEPS);
        softirq(&mut b, from + 20_000, 1);
        if device {
            b.on(1, from + 21_500, 0, IrqHandlerEntry::default()).on(
                1,
                from + 21_600,
                0,
                IrqHandlerExit::default(),
            );
        }
        b.on(1, from + 22_000, 0, SoftirqEntry { vec: 3, ..Default::default() });
        b.on(1, from + 22_000, 0, SchedWaking { wakee: SHELL, ..Default::default() });
        b.on(1, from + 22_100, 0, SoftirqExit { vec: 3, ..Default::default() }).runs(from + 22_100, SHELL);
        b.returns(from + 23_000, SHELL, POLL).does(from + 24_000, SHELL, RECVFROM, UPSTREAM, 10);
        b.does(from + 25_000, SHELL, WRITE, CLIENT, 10);
    }
    let result = b.finish();
    let mut network: Vec<_> = result.path.parts.iter().filter(|p| p.category == Category::Network).collect();
    network.sort_by_key(|p| p.who.clone());
    let network: Vec<_> = network.iter().map(|p| (p.who.as_str(), p.time)).collect();
    assert_eq!(network, [("", 20_000), (plumb_model::TCP_TIMER, 20_000)]);
}

#[test]
fn a_wait_is_for_a_retransmission_until_it_was_sent() {
    let waits = |call: u32| {
        let mut b = server();
        b.does(2000, SHELL, RECVFROM, CLIENT, 100).does(3000, SHELL, SENDTO, UPSTREAM, 100);
        b.at(4000, SHELL, SysEnter { tid: SHELL, ts: 4000, nr: call, arg0: UPSTREAM, ..Default::default() });
        b.leaves(4000, SHELL, SLEEPS).on(1, 24_000, 0, TcpRetransmitSkb::default());
        b.on(1, 24_000, 0, TcpRetransmitWaiter { waiter: SHELL, ..Default::default() });
        b.packet(34_000, SHELL).at(
            34_000,
            SHELL,
            SysExit { tid: SHELL, ts: 34_000, nr: call, ret: 10, ..Default::default() },
        );
        b.does(36_000, SHELL, WRITE, CLIENT, 10);
        b.finish()
    };
    // It may have waited for another socket.
    let result = waits(POLL);
    assert!(result.path.parts.iter().all(|p| p.who != plumb_model::TCP_AGAIN), "{:?}", result.path.parts);
    let result = waits(RECVFROM);
    let account = &result.processes[0].account;
    assert_eq!(account[&Category::Network], 30_000, "{account:?}");
    // A request's path knows the wait by what most of it was.
    let again: Vec<_> = result.path.parts.iter().filter(|p| p.who == plumb_model::TCP_AGAIN).collect();
    assert_eq!(again.iter().map(|p| (p.category, p.time)).collect::<Vec<_>>(), [(Category::Network, 30_000)]);
    let spans: Vec<_> = result.spans[0].causes.iter().map(|c| (c.category, c.who.as_str(), c.time)).collect();
    assert_eq!(spans[0], (Category::Network, plumb_model::TCP_AGAIN, 30_000));
}

#[test]
fn what_a_request_waits_for_in_another_thread_is_that_ones_doing() {
    let mut b = server();
    b.clones(2000, SHELL, WORKER).does(3000, SHELL, READ, CLIENT, 100);
    b.calls(4000, SHELL, POLL).leaves(4000, SHELL, SLEEPS).wakes(44_000, WORKER, SHELL);
    b.returns(44_000, SHELL, POLL).does(45_000, SHELL, WRITE, CLIENT, 10);
    let result = b.finish();
    // The path of all is CPU time of the target; of the request it is another's.
    assert_eq!(result.path.part(Category::Running), 42_000);
    let account = &result.spans[0].account;
    assert_eq!(
        (account[&Category::OtherRunning], account[&Category::Running]),
        (40_000, 2000),
        "{account:?}"
    );
}

#[test]
fn who_may_not_run_is_held_whoever_has_its_cpu() {
    const OTHER: u32 = 700;
    let mut b = server();
    b.does(2000, SHELL, RECVFROM, CLIENT, 100);
    // From the second switch the quota is not the reason.
    for (from, to, preempt) in [(10_000, 40_000, 2), (50_000, 60_000, 1)] {
        b.at(from, SHELL, SchedSwitch { tid: SHELL, next_tid: OTHER, preempt, ..Default::default() });
        let back = SchedSwitch { tid: OTHER, next_tid: SHELL, preempt: 1, ..Default::default() };
        b.on(1, to, OTHER, back);
    }
    b.does(70_000, SHELL, WRITE, CLIENT, 10);
    let result = b.finish();
    let account = &result.processes[0].account;
    assert_eq!((account[&Category::Held], account[&Category::Preempted]), (30_000, 10_000), "{account:?}");
}
