// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What came of undoing a change.

/// What came of it, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undone {
    /// It was undone already, or never made.
    Nothing,
    Did(String),
    /// It is undone, by force or by halves.
    Forced(String),
    /// It is not ours any more.
    LeftAlone(String),
    /// It stands; it may be tried again.
    Failed(String),
}
