// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb plan`: factors in, every combination measured safely, effects out.
//!
//! Data flows: [`file`] (TOML) -> [`cells`] (every combination of the factors' levels; what
//! this machine lacks is skipped with its reason) -> [`order`] -> [`run`] (for each cell
//! and repetition: [`ground`] made, settings changed, [`measure`], all put back; [`state`] on
//! disk knows what is done, [`changes`] what to put back) -> [`table`] (figures of every
//! repetition) -> [`analysis`] -> [`report`]. Each can be run again on what lies on disk.

pub mod file;
pub mod state;
pub mod table;
