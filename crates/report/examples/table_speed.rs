// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How fast tables are read, asked and written: one measurement a call, so that its peak memory is
//! its own. benches/report/tables.sh calls it.
//!
//! `table_speed rows FORMAT N DIR`: N rows of intervals, made up, to `csv`, `parquet`, `query` or `none`.
//! `table_speed trace WHAT TRACE DIR`: a trace to `csv`, `parquet`, `all` (rows of every table to
//! nobody), `model` (no table), or a SELECT. Prints a line of JSON.

use anyhow::{bail, Context, Result};
use plumb_model::{Category, Who, CATEGORIES};
use plumb_report::export::csv::Csv;
use plumb_report::export::parquet::Parquet;
use plumb_report::query::{Format, Query, MEMORY};
use plumb_report::stream::{Interval, Take};
use plumb_report::table::{read, Cell, Context as Names, Filler, Sink, Table};
use plumb_trace::reader::{State, Trace};
use serde_json::json;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Takes rows and drops them.
struct Nobody {
    all: bool,
    rows: u64,
}

impl Sink for Nobody {
    fn wants(&self, _: &'static Table) -> bool {
        self.all
    }
    fn row(&mut self, _: &'static Table, cells: &[Cell<'_>]) {
        self.rows += 1;
        std::hint::black_box(cells);
    }
}

/// Threads in turn, a few categories and causes, times as they are: unlike each other.
fn made_up(n: u64, sink: &mut dyn Sink) {
    let mut filler = Filler::new(Names::new("run", 0, &State::default()), sink);
    for number in 0..40 {
        filler.name(number, &format!("worker-{number}"));
    }
    let (mut random, mut at) = (88_172_645_463_325_252u64, 0);
    for i in 0..n {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        at += random % 9_000;
        let length = random >> 20 & 0xf_ffff;
        let category = CATEGORIES[(random >> 40) as usize % 12].0;
        let wait = if category == Category::Running { 0 } else { i / 2 + 1 };
        let who = if random & 1 == 0 { Who::Nobody } else { Who::Name((random >> 8) as u32 % 40) };
        let tid = 20_000 + (random >> 16) as u32 % 200;
        filler.interval(&Interval {
            tid,
            pid: 20_000 + tid % 4,
            name: tid % 40,
            category,
            who,
            from: at,
            to: at + length,
            time: length,
            wait,
            request: 0,
        });
    }
}

fn fill(dir: &Path, sink: &mut dyn Sink) -> Result<u64> {
    Ok(read("run", &Trace::open(dir)?, &AtomicBool::new(false), sink)?.quality.events)
}

/// CPU seconds so far, and the peak of memory in MiB.
fn usage() -> Result<(f64, f64)> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let ticks = stat.rsplit(") ").next().unwrap_or_default().split(' ').skip(11).take(2);
    let ticks: f64 = ticks.filter_map(|t| t.parse::<f64>().ok()).sum();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let peak: f64 = peak.trim().trim_end_matches(" kB").parse()?;
    // USER_HZ is 100 on every architecture that this runs on.
    Ok((ticks / 100.0, peak / 1024.0))
}

fn size(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    files.filter_map(|f| f.metadata().ok()).map(|m| m.len()).sum()
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, what, of, dir] = arguments.as_slice() else {
        bail!("table_speed KIND WHAT OF DIR; the source tells")
    };
    let dir = Path::new(dir);
    let started = Instant::now();
    let mut events = 0;
    let mut make = |sink: &mut dyn Sink| -> Result<()> {
        match kind.as_str() {
            "rows" => made_up(of.parse()?, sink),
            _ => events = fill(Path::new(of), sink)?,
        }
        Ok(())
    };
    let (mut rows, mut found) = (0, 0);
    match what.as_str() {
        "csv" => {
            let mut csv = Csv::create(dir)?;
            make(&mut csv)?;
            rows = csv.finish()?.iter().sum();
        }
        "parquet" => {
            let mut parquet = Parquet::create(dir)?;
            make(&mut parquet)?;
            rows = parquet.finish()?.iter().sum();
        }
        "all" | "none" | "model" => {
            let mut nobody = Nobody { all: what != "model", rows: 0 };
            make(&mut nobody)?;
            rows = nobody.rows;
        }
        sql => {
            let query = Query::new(
                if sql == "query" {
                    "select category, sum(time_ns), count(*) from intervals group by 1"
                } else {
                    sql
                },
                MEMORY,
            )?;
            let mut loader = query.loader()?;
            make(&mut loader)?;
            rows += query.tables().map(|t| loader.rows(t)).sum::<u64>();
            loader.finish()?;
            found = query.run(Format::Csv, &mut std::io::sink())?;
        }
    }
    let elapsed = started.elapsed().as_secs_f64();
    let (cpu, peak) = usage()?;
    println!(
        "{}",
        json!({
            "what": what, "events": events, "rows": rows, "found": found, "elapsed_s": elapsed, "cpu_s": cpu,
            "rows_per_cpu_s": (rows as f64 / cpu).round(), "peak_mib": peak.round(), "bytes": size(dir),
        })
    );
    Ok(())
}
