// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb guide`: the method of the evaluation report of 2004 as a loop. Goal, preconditions and environment are
//! recorded; then measure (profile and trace), judge, change one thing, measure again, accept or undo it, until the goal
//! is met or no change is left.
//!
//! Data flows: [`goal`] and [`may`] (what the user asked) -> [`measure`] (a set of runs, by the program itself as a child)
//! -> [`propose`] (findings of the median run -> rows of [`tunables`], with their [`present`] value) -> [`action`] (made
//! through the journal of `plumb_undo`, or by how the [`command`] is started) -> [`measure`] -> [`effect`] -> [`state`]
//! -> [`report`]. The guardian puts everything back when this process is killed; what goes on makes the accepted changes
//! again.

mod action;
mod command;
mod effect;
pub mod goal;
mod list;
pub mod may;
mod measure;
pub mod options;
mod present;
mod propose;
mod report;
mod session;
mod state;
mod text;
pub mod trial;
mod tunables;
mod undo;

pub use list::main as list;
pub use session::main as run;
pub use tunables::TUNABLES;
pub use undo::main as undo;
