// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What plans ask of the program that they run: its parser of options, and its report page.

use anyhow::Result;
use plumb_load::job::Cell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The program, as plans see it.
pub trait Program {
    /// The cells of `plumb load ...`, looked through for contradictions.
    ///
    /// # Errors
    /// An unknown option, a bad value, or options that contradict each other.
    fn load_cells(&self, words: Vec<OsString>) -> Result<Vec<Cell>>;

    /// Presets of `plumb load`.
    fn presets(&self) -> Vec<String>;

    /// Whether `plumb load`, or a preset of it, has an option of this name.
    fn has_option(&self, preset: Option<&str>, key: &str) -> bool;

    /// Looks through the words of a `plumb run`; its devices may be another machine's.
    ///
    /// # Errors
    /// An unknown option or event, or a bad value.
    fn check_run(&self, words: Vec<OsString>) -> Result<()>;

    /// Writes the page of a plan's directory.
    ///
    /// # Errors
    /// It cannot be written.
    fn write_page(&self, dir: &Path) -> Result<PathBuf>;
}

#[cfg(test)]
pub(crate) mod testing;
