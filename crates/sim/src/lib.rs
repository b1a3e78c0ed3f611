// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Storage whose service times are known.
//!
//! - [`spec`]: a model as a file says it; presets with the source of their figures.
//! - [`device`]: the models, pure code: a request and a time in, completions out. No
//!   clock, no threads, no I/O; everything random comes from one seed.
//! - [`queue`]: simulated time: workloads, an I/O scheduler, a device; writes ordinary traces.
//! - [`serve`]: real time: the same model as a block device (a FUSE file below a loop
//!   device) or an NBD server, data included.
//!
//! Data flows: spec -> device -> queue (simulated time) or serve (real time).

pub mod device;
pub mod queue;
pub mod serve;
pub mod spec;
