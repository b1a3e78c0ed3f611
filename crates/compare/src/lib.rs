// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two runs or two sets of runs, one signed difference with its error.
//!
//! Data flows: [`side`] (what a directory is, each run of it read) -> [`measure`] (the figures of a run) -> [`lines`]
//! (figure by figure, tested together) -> [`words`], [`gate`] (`--fail-above`, `--fail-below`) -> [`comparison`] -> [`show`]. A [`set`] is
//! the directory that `plumb run --repeat` makes, [`run_directory`] that of one run. [`fleet`] compares the runs of a lake, hosts
//! as blocks.

pub mod comparison;
mod environment;
pub mod fleet;
pub mod gate;
pub mod lines;
mod measure;
pub mod run_directory;
pub mod set;
pub mod show;
pub mod side;
mod words;
