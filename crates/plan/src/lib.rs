// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb plan`: factors in, every combination measured safely, effects out.
//!
//! Data flows: [`library`] (which plan) -> [`file`] (TOML, [`validate`]d, [`adapt`]ed by the command
//! line) -> [`cells`] (every combination of the factors' levels; what this machine lacks is
//! skipped with its reason: [`needs`]) -> [`order`] -> [`run`] (for each cell and repetition: [`testbed`]
//! made, settings changed, [`measure`], all put back; [`state`] on disk knows what is done,
//! [`plumb_undo`] what to put back) -> [`figures`] (read into a [`table`]) -> [`analysis`] ->
//! [`report`]. Each can be run again on what lies on disk; [`show`] says before what a run would do.
//! `plumb bisect` searches the version with which a metric changed: [`bisect`].
//! A cell that names a host is a plan of its own there: [`hosts`].
//! A cell is measured by the program itself, as a child; it also reads the options of loads and recordings, and writes
//! the page: [`program`].
//!
//! `plumb size` ([`size`]): what of the environments of such plans is enough for a database.
//! `plumb guide` ([`guide`]): one change at a time, proposed by the findings of the last measurement.

pub mod adapt;
pub mod analysis;
pub mod arguments;
pub mod bisect;
pub mod cells;
mod check;
pub mod compare;
mod confine;
pub mod figures;
pub mod file;
mod format;
pub mod guide;
mod hosts;
mod keys;
pub mod library;
mod measure;
mod merge;
pub mod needs;
pub mod options;
pub mod order;
pub mod own_devices;
pub mod program;
mod progress;
pub mod report;
pub mod restore;
pub mod run;
mod server;
mod settings;
pub mod show;
pub mod size;
pub mod state;
pub mod store;
pub mod table;
mod testbed;
pub mod validate;
mod verdict;
