// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run in the formats of other tools.

pub mod csv;
pub mod openmetrics;
pub mod parquet;
