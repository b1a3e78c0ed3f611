// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The operations of a workload as events of a trace.
//!
//! The recorder sets [`TRACE_VARIABLE`] for the command that it starts. A thread
//! of a workload below that command opens a [`LoadStream`] there and tells when
//! each of its operations begins and ends; the reader merges the streams of all
//! threads with those of the CPUs.

mod kind;
mod repair;
mod stream;

pub use kind::OperationKind;
pub use repair::cut_torn;
pub use stream::LoadStream;

/// Environment variable with the absolute path of the trace directory that
/// records the present command; not set where none does.
pub const TRACE_VARIABLE: &str = "PLUMB_TRACE";
