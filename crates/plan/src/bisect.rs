// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb bisect`: the version with which a metric changed, found in few runs.
//!
//! Data flows: [`options`] -> [`versions`] (commits of a [`repository`], or words) -> [`search`] (for each run:
//! [`plumb_stats::changepoint`] says which version, which is built once and [`measure`]d; its [`metric`] is added to the
//! [`state`] on disk) -> [`answer`]. The state's runs determine the next version, so a search that was killed goes on.

pub mod answer;
mod measure;
mod metric;
pub mod options;
mod pattern;
mod repository;
pub mod search;
pub mod state;
mod versions;
