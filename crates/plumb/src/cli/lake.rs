// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Words of `plumb lake`.

use clap::{Args, Subcommand, ValueEnum};
use plumb_report::lake;
use std::path::PathBuf;

pub const HELP: &str = "\
Exit codes: 0 done, 2 error (compact: files that cannot be joined stay as they are).

Examples:
  plumb lake compact /srv/lake
  plumb lake views /srv/lake > lake.sql
  duckdb -init lake.sql -c 'select host, kernel, count(*) from runs group by all'";

/// What is done with a lake.
#[derive(Debug, Args)]
pub struct LakeArgs {
    #[command(subcommand)]
    pub command: LakeCommand,
}

#[derive(Debug, Subcommand)]
pub enum LakeCommand {
    /// Print statements that make the lake's tables views of an engine, with every column that they have today.
    #[command(
        after_help = "Examples:\n  plumb lake views /srv/lake > lake.sql\n  duckdb -init lake.sql < sql/findings.sql\n  plumb lake views s3://fleet/lake > lake.sql\n  plumb lake views /srv/lake --engine spark > lake.sql\n  spark-sql -i lake.sql -f sql/findings.sql"
    )]
    Views {
        /// Directory or bucket (s3://BUCKET/PREFIX) that plumb publish wrote into.
        #[arg(value_name = "LAKE")]
        lake: PathBuf,
        /// Whose SQL.
        #[arg(long, value_name = "ENGINE", default_value = "duckdb")]
        engine: Engine,
    },
    /// Join the files of each table, host and day to one: engines open few large files faster than many small ones.
    #[command(
        after_help = "Exit codes: 0 done, 2 error: files that cannot be joined stay as they are.\n\nExamples:\n  plumb lake compact /srv/lake"
    )]
    Compact {
        /// Directory that plumb publish wrote into.
        #[arg(value_name = "LAKE")]
        lake: PathBuf,
        /// Print what was joined as JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Engine {
    Duckdb,
    /// clickhouse-local, which reads any directory, or a server, for a bucket
    Clickhouse,
    /// Temporary views of a session
    Spark,
}

impl From<Engine> for lake::Engine {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Duckdb => Self::Duckdb,
            Engine::Clickhouse => Self::Clickhouse,
            Engine::Spark => Self::Spark,
        }
    }
}
