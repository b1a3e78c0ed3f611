// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `plumb iosched`.

use clap::{Args, Subcommand};

/// Help's last part.
pub(super) const HELP: &str = "Example:\n  plumb iosched status";

/// `plumb iosched ...`
#[derive(Debug, Args)]
pub struct IoschedArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: IoschedCommand,
}

/// What to do with schedulers.
#[derive(Debug, Subcommand)]
pub enum IoschedCommand {
    /// Show
    #[command(after_help = "Example:\n  plumb iosched status")]
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
