// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The undo journal: whoever changes the system writes the change down first, and so anybody can undo it.
//!
//! A [`journal`] is a file of [`change`]s in a directory that its owner [`lock`]s. [`undo`] undoes one change;
//! [`journal::restore`] undoes all that are pending, the last first. A [`guardian`] does that when its owner is killed.
//! [`pending_changes`] tells what is changed and changes nothing. [`guarded_journal`] runs tools under both.

pub mod change;
pub mod delegation;
pub mod devices;
pub mod guarded_journal;
pub mod guardian;
pub mod journal;
pub mod limit;
pub mod lock;
pub mod mounted;
pub mod pending_changes;
pub mod queue;
pub mod timeout;
pub mod undo;
pub mod undone;
pub mod value;
