// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Served disks: what is said, that data come back, and that nothing is left whoever is killed when.
//! Needs root, /dev/fuse and loop devices.

#[path = "../common/mod.rs"]
mod common;
mod data;
mod kill;
mod registry;
mod words;
