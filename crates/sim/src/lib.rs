// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Storage whose service times are known.
//!
//! - [`spec`]: a model as a file says it; presets with the source of their figures.
//! - [`device`]: the models, pure code: a request and a time in, completions out. No
//!   clock, no threads, no I/O; everything random comes from one seed.
//! - [`queue`]: simulated time: workloads, an I/O scheduler, a device; writes ordinary traces.
//! - [`experiment`]: what is simulated, of a command line's options or of a recording ([`replay`]); [`sweep`] and
//!   [`tune`] simulate it for several settings of the scheduler; [`measured`]: figures to compare it with.
//! - [`whatif`]: threads of a recording on other CPUs, another disk, more memory.
//! - [`serve`]: real time: the same model as a block device (a FUSE file below a loop
//!   device) or an NBD server, data included.
//!
//! Data flows: spec -> device -> queue (simulated time) or serve (real time).

pub mod device;
pub mod experiment;
pub mod measured;
pub mod queue;
pub mod replay;
pub mod serve;
pub mod spec;
pub mod sweep;
pub mod tune;
pub mod whatif;
