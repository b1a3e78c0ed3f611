// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `plumb export`.

use clap::{ArgGroup, Args};
use std::path::PathBuf;

/// Help's last part.
pub const HELP: &str = "\
Each file appears under its name when all of it is there. docs/exports.md tells what each holds.
Exit codes: 0 done, 2 error, 3 events were lost.

Examples:
  plumb export DIR --perfetto run.pftrace      # open it in ui.perfetto.dev, or query it with trace_processor
  plumb export DIR --ctf-lttng lttng           # a trace for Trace Compass and babeltrace2
  plumb export DIR --pprof p.pb.gz --folded stacks.txt
  plumb export DIR --parquet tables            # then: duckdb -c \"from 'tables/account.parquet'\"";

/// What to write of which run, and where.
#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("format").multiple(true).required(true))]
pub struct ExportArgs {
    /// Run directory or trace directory.
    pub dir: PathBuf,
    /// Replace what is there.
    #[arg(short, long)]
    pub force: bool,

    /// Timeline for Perfetto's page and trace_processor: scheduling, the account's states, block requests, samples.
    #[arg(long, value_name = "FILE.pftrace", group = "format", help_heading = "Timelines")]
    pub perfetto: Option<PathBuf>,
    /// A trace as LTTng's kernel tracer writes it (CTF 1.8), for Trace Compass.
    #[arg(long, value_name = "DIR", group = "format", help_heading = "Timelines")]
    pub ctf_lttng: Option<PathBuf>,

    /// Profile as folded stacks, for flamegraph.pl.
    #[arg(long, value_name = "FILE", group = "format", help_heading = "Profiles")]
    pub folded: Option<PathBuf>,
    /// Profile for pprof: profile.proto, compressed.
    #[arg(long, value_name = "FILE", group = "format", help_heading = "Profiles")]
    pub pprof: Option<PathBuf>,
    /// Profile for a collector of OpenTelemetry: JSON of profiles/v1development.
    #[arg(long, value_name = "FILE", group = "format", help_heading = "Profiles")]
    pub otlp: Option<PathBuf>,
    /// Profile for the Firefox profiler: JSON.
    #[arg(long, value_name = "FILE", group = "format", help_heading = "Profiles")]
    pub firefox: Option<PathBuf>,
    /// Profile for speedscope: JSON.
    #[arg(long, value_name = "FILE", group = "format", help_heading = "Profiles")]
    pub speedscope: Option<PathBuf>,

    /// Every table as DIR/NAME.csv (RFC 4180); docs/tables.md has the columns.
    #[arg(long, value_name = "DIR", group = "format", help_heading = "Tables")]
    pub csv: Option<PathBuf>,
    /// Every table as DIR/NAME.parquet, for DuckDB, pyarrow, pandas, Polars.
    #[arg(long, value_name = "DIR", group = "format", help_heading = "Tables")]
    pub parquet: Option<PathBuf>,
    /// Sums (account, critical path, devices, loads, findings) as Prometheus reads them.
    #[arg(long, value_name = "FILE", group = "format", help_heading = "Tables")]
    pub openmetrics: Option<PathBuf>,
}
