// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits of servers and clients: idle is only who has no request, and the others wait for somebody.
//! Events made by hand; times that can be added up on paper.

mod common;

use common::{Bench, END, NEIGHBOUR, SHELL, SLEEPS};
use plumb_model::Category;
use plumb_trace::schema::StateSocket;

const WORKER: u32 = 200;

const READ: u32 = 0;
const WRITE: u32 = 1;
const POLL: u32 = 7;
const NANOSLEEP: u32 = 35;
const ACCEPT: u32 = 43;
const SENDTO: u32 = 44;
const RECVFROM: u32 = 45;
const FUTEX: u32 = 202;

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
    assert_eq!((result.service.requests, result.service.time), (1, 1000));
    let account = &result.processes[0].account;
    let idle = 28_000 + 17_000 + 9000 + 9000 + 9000;
    assert_eq!(account[&Category::Idle], idle, "{account:?}");
    assert_eq!(account[&Category::Running], END - 1000 - idle);
}

#[test]
fn a_proxy_waits_for_its_upstream() {
    let mut b = server();
    b.does(2000, SHELL, RECVFROM, CLIENT, 100).does(3000, SHELL, SENDTO, UPSTREAM, 100);
    b.calls(4000, SHELL, POLL).leaves(4000, SHELL, SLEEPS).wakes(34_000, NEIGHBOUR, SHELL);
    b.returns(34_000, SHELL, POLL).calls(35_000, SHELL, POLL).leaves(35_000, SHELL, SLEEPS);
    b.packet(45_000, SHELL).returns(45_000, SHELL, POLL).does(46_000, SHELL, RECVFROM, UPSTREAM, 10);
    b.does(47_000, SHELL, WRITE, CLIENT, 10);
    let parts = [(Category::Network, 10_000), (Category::Running, 59_000), (Category::Socket, 30_000)];
    assert_eq!(b.path(), parts);
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
    let time =
        |category| result.path.parts.iter().filter(|p| p.category == category).map(|p| p.time).sum::<u64>();
    assert_eq!([time(Category::InRequest), time(Category::Signalled)], [40_000, 20_000]);
    let meanwhile: Vec<_> = result.service.meanwhile.iter().map(|p| (p.category, p.time)).collect();
    assert_eq!(meanwhile, [(Category::Timer, 26_000), (Category::Running, 14_000)]);
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
