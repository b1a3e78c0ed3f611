// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the policy of iosched/, unchanged, with the shim through which the simulator calls it.

use std::path::Path;

fn main() {
    let policy = Path::new("../../iosched");
    let shim = Path::new("src/queue/scheduler/lp_deadline/shim.c");
    let parts = ["lp_deadline", "lp_gate", "lp_knobs", "lp_loss", "lp_normal", "lp_quiet", "user/sorted"];
    let sources: Vec<_> = parts.iter().map(|part| policy.join(part).with_extension("c")).collect();
    let sources = [&sources[..], &[shim.to_path_buf()]].concat();
    let headers = ["lp_deadline", "lp_gate", "lp_loss", "lp_normal", "lp_quiet", "user/env"];
    let headers: Vec<_> = headers.iter().map(|part| policy.join(part).with_extension("h")).collect();
    for file in sources.iter().chain(&headers) {
        println!("cargo:rerun-if-changed={}", file.display());
    }
    // Optimized in a debug build too: it is part of what the tests of the queue spend their time in.
    cc::Build::new()
        .files(&sources)
        .include(policy.join("user"))
        .include(policy)
        .std("gnu11")
        .opt_level(2)
        .warnings(true)
        .extra_warnings(true)
        .compile("plumb_lp_deadline");
}
