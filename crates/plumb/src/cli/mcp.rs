// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Words of `plumb mcp`.

use clap::Args;
use std::path::PathBuf;

pub const EXAMPLES: &str = "Answers are bounded and read-only: nothing is recorded or written, and only runs below the DIRs are read.
Exit codes: 0 the client has gone, 2 error.
Examples:
  plumb mcp                                  runs below the current directory
  plumb mcp /var/lib/plumb results
  claude mcp add plumb -- plumb mcp /var/lib/plumb";

/// Which runs are told of.
#[derive(Debug, Args)]
pub struct McpArgs {
    /// Directories with runs in or below them.
    #[arg(value_name = "DIR", default_value = ".")]
    pub dirs: Vec<PathBuf>,
}
