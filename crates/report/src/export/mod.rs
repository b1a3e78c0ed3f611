// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run in other programs' formats. Each reads the trace once and keeps of it what is open;
//! docs/exports.md tells what of a run each of them holds.

pub mod block;
pub mod csv;
pub mod lttng;
pub mod openmetrics;
pub mod parquet;
pub mod perfetto;
pub mod tasks;
