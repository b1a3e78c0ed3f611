// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every value of every dimension of a load runs here, and what it does is seen
//! from outside: its system calls by strace, its files, its log. Each test
//! matches all values of its dimension, so that a new one without a case does
//! not compile.

#[path = "../common/mod.rs"]
mod common;

mod durability;
mod ends;
mod files;
mod locks;
mod order;
mod pace;
mod run;
mod strace;
mod through;
mod what;

/// Options that are no choice of words are used here as well: a new one without a case fails.
#[test]
fn every_option_of_a_job_is_used() {
    let tests = [
        include_str!("durability.rs"),
        include_str!("ends.rs"),
        include_str!("files.rs"),
        include_str!("locks.rs"),
        include_str!("order.rs"),
        include_str!("pace.rs"),
        include_str!("through.rs"),
        include_str!("what.rs"),
        include_str!("../load_database.rs"),
        include_str!("../load_network.rs"),
    ];
    let job = serde_json::to_value(plumb_load::job::Job::default()).expect("a job is JSON");
    for key in job.as_object().expect("an object").keys() {
        let (option, in_file) = (format!("\"--{key}\""), format!("\\n{key} = "));
        let used = tests.iter().any(|t| t.contains(&option) || t.contains(&in_file));
        assert!(used, "no test uses --{key}");
    }
}
