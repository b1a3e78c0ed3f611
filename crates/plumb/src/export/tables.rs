// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run's tables as files; the trace is read once for all formats.

use super::{done, BUFFER};
use anyhow::{bail, Context, Result};
use plumb_report::export::csv::Csv;
use plumb_report::export::openmetrics::OpenMetrics;
use plumb_report::export::parquet::Parquet;
use plumb_report::fill::fill;
use plumb_report::query::runs;
use plumb_report::staged_output::StagedOutput;
use plumb_report::table::{Part, Several, Sink, Table, TABLES};
use plumb_trace::units;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;

pub struct To {
    pub csv: Option<StagedOutput>,
    pub parquet: Option<StagedOutput>,
    pub openmetrics: Option<StagedOutput>,
}

fn words(rows: &[u64]) -> String {
    let tables = rows.iter().filter(|n| **n > 0).count();
    format!(
        "{} rows in {tables} tables, {} tables empty",
        units::count(rows.iter().sum()),
        rows.len() - tables
    )
}

/// Writes them; whether the measurement is valid.
pub fn write(dir: &Path, to: To, stop: &AtomicBool) -> Result<bool> {
    let found = runs(&[dir.to_path_buf()])?;
    let [run] = found.as_slice() else {
        bail!("{}: holds {} runs; name one of them", dir.display(), found.len());
    };
    let To { csv: to_csv, parquet: to_parquet, openmetrics: to_metrics } = to;
    let open = |to: &Option<StagedOutput>| -> Result<Option<Csv>> {
        to.as_ref().map(|to| Csv::create(to.path()).with_context(|| to.cannot())).transpose()
    };
    let mut csv = open(&to_csv)?;
    let parquet = to_parquet.as_ref().map(|to| Parquet::create(to.path()).with_context(|| to.cannot()));
    let mut parquet = parquet.transpose()?;
    let mut metrics = to_metrics.as_ref().map(|_| OpenMetrics::default());

    let whole = csv.is_some() || parquet.is_some();
    let used: Vec<&'static Table> = match whole {
        true => {
            TABLES.iter().copied().filter(|t| t.part != Part::Windows || !run.windows.is_empty()).collect()
        }
        false => OpenMetrics::tables().collect(),
    };
    let mut sinks: Vec<&mut dyn Sink> = Vec::new();
    sinks.extend(csv.as_mut().map(|s| s as &mut dyn Sink));
    sinks.extend(parquet.as_mut().map(|s| s as &mut dyn Sink));
    sinks.extend(metrics.as_mut().map(|s| s as &mut dyn Sink));
    let filled = fill(run, &used, &mut Several(sinks), stop)?;
    filled.words.iter().chain(&filled.absent).for_each(|w| eprintln!("plumb: {w}"));

    if let Some((csv, to)) = csv.zip(to_csv) {
        let rows = csv.finish().with_context(|| to.cannot())?;
        done(to, &words(&rows))?;
    }
    if let Some((parquet, to)) = parquet.zip(to_parquet) {
        let rows = parquet.finish().with_context(|| to.cannot())?;
        done(to, &words(&rows))?;
    }
    if let Some((metrics, to)) = metrics.zip(to_metrics) {
        let file = to.create()?;
        let mut out = BufWriter::with_capacity(BUFFER, file);
        metrics.write(&mut out).and_then(|()| Ok(out.flush()?)).with_context(|| to.cannot())?;
        done(to, "sums of the run")?;
    }
    Ok(filled.valid)
}
