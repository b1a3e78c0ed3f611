// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the policy of iosched/, unchanged, with the shim through which the simulator calls it.

use std::path::Path;

fn main() {
    let policy = Path::new("../../iosched");
    let shim = Path::new("src/queue/scheduler/lp_deadline/shim.c");
    let sources = [
        policy.join("lp_deadline.c"),
        policy.join("lp_knobs.c"),
        policy.join("lp_steering.c"),
        policy.join("user/sorted.c"),
        shim.to_path_buf(),
    ];
    let headers = [policy.join("lp_deadline.h"), policy.join("lp_steering.h"), policy.join("user/env.h")];
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
