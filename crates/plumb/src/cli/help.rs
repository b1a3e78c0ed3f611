// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `plumb help` and `plumb completions`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// What to explain.
#[derive(Debug, Args)]
pub struct HelpArgs {
    /// A command, as in 'load verify', or a topic; without one both are listed.
    #[arg(value_name = "COMMAND or TOPIC")]
    pub words: Vec<String>,
    /// Write a manual page for each command (man1/) and topic (man7/) below a directory.
    #[arg(long, value_name = "DIR", conflicts_with = "words")]
    pub man: Option<PathBuf>,
}

/// For which shell.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Shells that scripts are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// GNU bash 4 or later, with or without bash-completion.
    Bash,
    /// zsh.
    Zsh,
    /// fish.
    Fish,
}
