// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb profile` on programs whose answer is known: what they spend where by their own clocks, what
//! they wait for on disks that plumb serves, and what another profiler says at the same time. Needs root.

#[path = "../common/mod.rs"]
mod common;
#[path = "../disk/registry.rs"]
#[allow(dead_code, reason = "the tests of the disks themselves use the rest")]
mod registry;
#[path = "../disk_truth/served.rs"]
#[allow(dead_code, reason = "the tests of the disks themselves use the rest")]
mod served;

mod deep;
mod instruction;
mod lossy;
mod peers;
mod programs;
mod seen;
mod shares;
mod short_runs;
mod waits;
