// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb load` in bad luck: what may not be written is not (`refuse`), what
//! fails in the middle is counted, named, and in no latency (`fail`), so is
//! what the kernel does not give it (`lack`), what is ended from outside leaves
//! a result and nothing else (`end`).

#[path = "../common/mod.rs"]
mod common;
mod end;
mod fail;
mod lack;
mod refuse;
