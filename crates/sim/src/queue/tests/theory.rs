// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Means that queueing theory knows exactly (Kleinrock, "Queueing Systems I", 1975).

use super::*;
use plumb_load::job::{Arrivals, Rate};

const SERVICE: Ns = 1_000_000;

/// Mean time before the service, in services, at this utilisation of `servers` servers.
fn waiting(servers: usize, service: Service, utilisation: f64, operations: u64) -> f64 {
    let rate = utilisation * servers as f64 * 1e9 / SERVICE as f64;
    let job = Job { rate: Some(Rate(rate)), arrivals: Arrivals::Poisson, ..deep(reads(), 4096) };
    let job = Job { operations: Some(operations), ..job };
    let device = Box::new(Server::new(SIZE, servers, service, 7));
    let figures = run(device, Kind::Noop, settings(servers), &[job]);
    let kind = &figures.jobs[0].kinds[0];
    assert_eq!(kind.service.count(), operations);
    let told = figures.utilisation();
    if servers == 1 {
        assert!((told / utilisation - 1.0).abs() < 0.01, "utilisation {told}, not {utilisation}");
    }
    let response = kind.response.as_ref().expect("an open loop").mean();
    let mean = figures.jobs[0].d2c.mean();
    assert!((mean / SERVICE as f64 - 1.0).abs() < 0.01, "mean service {mean}");
    (response - mean) / SERVICE as f64
}

fn is_within(percent: f64, is: f64, should: f64) {
    assert!((is / should - 1.0).abs() * 100.0 < percent, "{is}, by theory {should}");
}

#[test]
fn m_m_1_waits_as_theory_says() {
    is_within(2.0, waiting(1, Service::Exponential(SERVICE), 0.5, 400_000), 0.5 / 0.5);
    is_within(2.0, waiting(1, Service::Exponential(SERVICE), 0.8, 2_000_000), 0.8 / 0.2);
}

#[test]
fn m_d_1_waits_half_as_long() {
    is_within(2.0, waiting(1, Service::Fixed(SERVICE), 0.5, 400_000), 0.5 / 0.5 / 2.0);
    is_within(2.0, waiting(1, Service::Fixed(SERVICE), 0.8, 1_500_000), 0.8 / 0.2 / 2.0);
}

/// Erlang's C formula: the share of arrivals that find all servers at work.
fn erlang_c(servers: usize, utilisation: f64) -> f64 {
    let offered = servers as f64 * utilisation;
    let mut term = 1.0;
    let mut sum = 1.0;
    for k in 1..servers {
        term *= offered / k as f64;
        sum += term;
    }
    let last = term * offered / servers as f64 / (1.0 - utilisation);
    last / (sum + last)
}

#[test]
fn m_m_k_waits_as_erlang_says() {
    for (utilisation, operations) in [(0.5, 1_000_000), (0.8, 1_500_000)] {
        let theory = erlang_c(4, utilisation) / (4.0 * (1.0 - utilisation));
        is_within(2.0, waiting(4, Service::Exponential(SERVICE), utilisation, operations), theory);
    }
}

#[test]
fn a_closed_loop_has_the_rate_of_its_depth_and_service() {
    // Depth 3 at one server: the server never rests, everybody waits for two others.
    let job = Job { operations: Some(10_000), ..deep(reads(), 3) };
    let figures = run(fixed(1, SERVICE), Kind::Noop, settings(1), &[job]);
    let report = figures.report();
    is_within(0.1, report.jobs[0].kinds[0].rate, 1000.0);
    is_within(0.1, report.jobs[0].q2c.mean_ns, 3.0 * SERVICE as f64);
    // Depth 1 with a pause: each operation takes both.
    let job = Job { operations: Some(1000), think: Time(3 * SERVICE), ..reads() };
    let figures = run(fixed(1, SERVICE), Kind::Noop, settings(1), &[job]);
    is_within(0.1, figures.report().jobs[0].kinds[0].rate, 250.0);
    is_within(0.2, figures.utilisation(), 0.25);
}
