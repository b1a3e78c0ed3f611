// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Words of `plumb publish`.

use clap::Args;
use plumb_trace::units;
use std::path::PathBuf;

pub const HELP: &str = "\
A run has a file in each table of the lake, TABLE/host=HOST/day=DAY/RUN.parquet. It appears when it is whole; publishing a
run again changes nothing, or goes on where it was broken off. The account, requests, spans and findings are published, not every
interval and sample; --rules FILE chooses tables and holds back columns:

  tables = [\"account\", \"findings\", \"requests\"]      # runs is always there
  without = [\"processes.cmdline\", \"runs.target\"]    # null in what is published

To a bucket: what is published waits in the spool until it is there, also over a dead network and restarts; the next
plumb publish --to that bucket sends it, with runs or without. Credentials, region and endpoint are those of the tools of AWS:
AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile (AWS_PROFILE) in ~/.aws; AWS_REGION; AWS_ENDPOINT_URL of another server.

Exit codes: 0 done, 2 error (runs behind it are tried; what waits stays), 3 events of a run were lost or cannot be read.

Examples:
  plumb publish plumb-run-20260101-120000 --to /srv/lake
  plumb publish /var/lib/plumb/runs --to /mnt/lake --rules rules.toml     # all runs of plumb watch
  plumb publish /var/lib/plumb --to s3://fleet/lake                       # again and again, by a timer
  duckdb -c \"select host, count(*) from read_parquet('/srv/lake/runs/*/*/*.parquet') group by all\"";

/// What is published, and where.
#[derive(Debug, Args)]
pub struct PublishArgs {
    /// Run or trace directories; sets, plans and the runs of plumb watch stand for all runs in them.
    #[arg(value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Directory of the lake, made where it is not there; or a bucket, s3://BUCKET/PREFIX.
    #[arg(long, value_name = "LAKE")]
    pub to: PathBuf,
    /// Where runs wait until they are in the bucket [default: /var/spool/plumb, or ~/.local/state/plumb/spool].
    #[arg(long, value_name = "DIR")]
    pub spool: Option<PathBuf>,
    /// When runs that wait for a bucket take so much of the spool, no more are taken; they are named.
    #[arg(long, value_name = "SIZE", default_value = "4G", value_parser = units::parse_bytes)]
    pub spool_size: u64,
    /// TOML: which tables are published, and which columns are not.
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// Print what became of each run as JSON.
    #[arg(long)]
    pub json: bool,
}
