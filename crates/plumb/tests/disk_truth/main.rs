// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What plumb tells about disks whose truth is known: those that it serves itself, whose log says what
//! each request took, and whose faults were put into them. Needs root, /dev/fuse and loop devices.

#[path = "../common/mod.rs"]
mod common;
mod faults;
mod laws;
mod models;
#[path = "../disk/registry.rs"]
#[allow(dead_code, reason = "the tests of the disks themselves use the rest")]
mod registry;
mod served;
mod sync;
