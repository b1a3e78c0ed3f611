// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Statistics, defined once for loads, comparisons and plans. Pure: no I/O, no clock.

pub mod additive;
pub mod blocks;
pub mod changepoint;
pub mod correlation;
pub mod fit;
pub mod histogram;
pub mod prediction;
pub mod random;
pub mod repetitions;
pub mod student;
