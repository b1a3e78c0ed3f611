// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run's sums in the OpenMetrics text format, for Prometheus and what reads as it does.
//!
//! <https://prometheus.io/docs/specs/om/open_metrics_spec/>: names end in their unit, times are
//! seconds. All values are of a run that has ended, so they are gauges without a timestamp.

use crate::plain;
use crate::table::{find, Cell, Sink, Table};
use anyhow::Result;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;

/// How a column's value is written.
#[derive(Debug, Clone, Copy)]
enum As {
    /// ns, as seconds.
    Time,
    Number,
}

/// Samples that a table's rows make.
#[derive(Debug)]
struct Spec {
    /// Metric; its unit is its end.
    name: &'static str,
    unit: &'static str,
    help: &'static str,
    table: &'static str,
    /// Columns that are labels, beside `run`.
    labels: &'static [&'static str],
    /// A label that all of them have.
    fixed: Option<(&'static str, &'static str)>,
    value: &'static str,
    form: As,
    /// Only rows where this column has this text.
    only: Option<(&'static str, &'static str)>,
}

/// Of one metric, all behind each other: the format asks for it.
macro_rules! specs {
    ($($name:literal $unit:literal $help:literal $table:literal $labels:tt
       { $($value:literal $form:ident $fixed:expr, $only:expr;)* })*) => {
        static SPECS: &[Spec] = &[$($(Spec {
            name: $name,
            unit: $unit,
            help: $help,
            table: $table,
            labels: &$labels,
            fixed: $fixed,
            value: $value,
            form: As::$form,
            only: $only,
        },)*)*];
    };
}

specs! {
    "plumb_run_length_seconds" "seconds" "Length of the run" "run" []
        { "value" Time None, Some(("key", "length_ns")); }
    "plumb_events" "" "Events that were read" "run" []
        { "value" Number None, Some(("key", "events")); }
    "plumb_events_lost" "" "Events that the recorder lost: with any, the other figures mislead" "run" []
        { "value" Number None, Some(("key", "lost")); }
    "plumb_process_elapsed_seconds" "seconds" "From a process's begin to its end" "processes" ["pid", "process"]
        { "elapsed_ns" Time None, None; }
    "plumb_account_seconds" "seconds" "Time of a process's threads by category" "account" ["pid", "process", "category"]
        { "time_ns" Time None, None; }
    "plumb_path_seconds" "seconds" "The target's elapsed time by category, waits for its own threads followed to what those did" "path" ["of", "category"]
        { "time_ns" Time None, Some(("part", "path")); }
    "plumb_finding_share_ratio" "ratio" "Share of the target's time that a finding has" "findings" ["finding"]
        { "share" Number None, None; }
    "plumb_device_requests" "" "Block requests that completed" "devices" ["device"] {
        "reads" Number Some(("operation", "read")), None;
        "writes" Number Some(("operation", "write")), None;
        "flushes" Number Some(("operation", "flush")), None;
    }
    "plumb_device_transferred_bytes" "bytes" "Bytes of block requests that completed" "devices" ["device"] {
        "read_bytes" Number Some(("operation", "read")), None;
        "write_bytes" Number Some(("operation", "write")), None;
    }
    "plumb_device_busy_seconds" "seconds" "Time with at least one request at the driver" "devices" ["device"]
        { "busy_ns" Time None, None; }
    "plumb_device_in_flight" "" "Mean number of requests at the driver" "devices" ["device"]
        { "mean_in_flight" Number None, None; }
    "plumb_device_layer_seconds" "seconds" "Mean time of a request in each layer" "devices" ["device"] {
        "q2g_mean_ns" Time Some(("layer", "q2g")), None;
        "g2i_mean_ns" Time Some(("layer", "g2i")), None;
        "flush_mean_ns" Time Some(("layer", "flush")), None;
        "i2d_mean_ns" Time Some(("layer", "i2d")), None;
        "d2c_mean_ns" Time Some(("layer", "d2c")), None;
    }
    "plumb_load_operations" "" "Operations of a workload that ended" "loads" ["copy", "cell", "round", "step", "job", "kind"]
        { "count" Number None, None; }
    "plumb_load_rate_hertz" "hertz" "Operations of a workload a second" "loads" ["copy", "cell", "round", "step", "job", "kind"]
        { "rate" Number None, None; }
    "plumb_load_service_seconds" "seconds" "Time of a workload's operations by quantile, from their begin to their end" "loads" ["copy", "cell", "round", "step", "job", "kind"] {
        "p50_ns" Time Some(("quantile", "0.5")), None;
        "p90_ns" Time Some(("quantile", "0.9")), None;
        "p99_ns" Time Some(("quantile", "0.99")), None;
        "p99_9_ns" Time Some(("quantile", "0.999")), None;
        "max_ns" Time Some(("quantile", "1")), None;
    }
    "plumb_load_response_seconds" "seconds" "Time of a workload's operations by quantile, from the moment that they were due to their end" "loads" ["copy", "cell", "round", "step", "job", "kind"] {
        "response_p50_ns" Time Some(("quantile", "0.5")), None;
        "response_p99_ns" Time Some(("quantile", "0.99")), None;
        "response_p99_9_ns" Time Some(("quantile", "0.999")), None;
        "response_max_ns" Time Some(("quantile", "1")), None;
    }
}

/// Whole numbers stay whole: seconds as binary fractions would not add up.
#[derive(Debug, Clone, Copy)]
enum Sum {
    Whole(i64),
    Real(f64),
}

/// Takes the tables that the exposition is made of.
#[derive(Debug)]
pub struct OpenMetrics {
    /// Of each of [`SPECS`]: by labels. Two of the same labels (a process id that came twice) are
    /// one, their sum; the format allows none twice.
    samples: Vec<BTreeMap<String, Sum>>,
}

impl Default for OpenMetrics {
    fn default() -> Self {
        Self { samples: vec![BTreeMap::new(); SPECS.len()] }
    }
}

impl Sink for OpenMetrics {
    fn wants(&self, table: &'static Table) -> bool {
        SPECS.iter().any(|s| s.table == table.name)
    }

    fn row(&mut self, table: &'static Table, cells: &[Cell<'_>]) {
        for (spec, samples) in SPECS.iter().zip(&mut self.samples).filter(|(s, _)| s.table == table.name) {
            let cell =
                |name: &str| table.column(name).and_then(|at| cells.get(at)).copied().unwrap_or(Cell::None);
            if spec.only.is_some_and(|(column, text)| cell(column) != Cell::Text(text)) {
                continue;
            }
            let value = match cell(spec.value) {
                Cell::None => continue,
                Cell::Integer(v) => Sum::Whole(v),
                Cell::Real(v) => Sum::Real(v),
                Cell::Text(text) => match text.parse() {
                    Ok(v) => Sum::Whole(v),
                    Err(_) => continue,
                },
            };
            let mut labels = String::new();
            let columns = std::iter::once("run").chain(spec.labels.iter().copied());
            columns.for_each(|name| label(name, cell(name), &mut labels));
            if let Some((name, text)) = spec.fixed {
                label(name, Cell::Text(text), &mut labels);
            }
            let sum = match (samples.get(&labels).copied(), value) {
                (Some(Sum::Whole(a)), Sum::Whole(b)) => Sum::Whole(a.saturating_add(b)),
                (Some(Sum::Real(a)), Sum::Real(b)) => Sum::Real(a + b),
                _ => value,
            };
            samples.insert(labels, sum);
        }
    }
}

/// What is not there has no label, as the format asks for an empty one.
fn label(name: &str, cell: Cell<'_>, out: &mut String) {
    let text = match cell {
        Cell::None => return,
        Cell::Integer(v) => v.to_string(),
        Cell::Real(v) => format!("{v:?}"),
        Cell::Text(v) => plain::lines(v).replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\""),
    };
    let comma = if out.is_empty() { "" } else { "," };
    *out += &format!("{comma}{name}=\"{text}\"");
}

impl OpenMetrics {
    /// The exposition, its `# EOF` among it.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut last = "";
        for (spec, samples) in SPECS.iter().zip(&self.samples).filter(|(_, s)| !s.is_empty()) {
            // Writing to a String cannot fail.
            let _ = family(spec, samples, spec.name != last, &mut out);
            last = spec.name;
        }
        out + "# EOF\n"
    }

    /// Writes [`Self::text`].
    ///
    /// # Errors
    /// The writer's.
    pub fn write(&self, out: &mut dyn Write) -> Result<()> {
        Ok(out.write_all(self.text().as_bytes())?)
    }

    /// Tables that it takes rows of.
    pub fn tables() -> impl Iterator<Item = &'static Table> {
        let first = |at: usize| SPECS[..at].iter().all(|s| s.table != SPECS[at].table);
        (0..SPECS.len()).filter(move |at| first(*at)).filter_map(|at| find(SPECS[at].table))
    }
}

fn family(spec: &Spec, samples: &BTreeMap<String, Sum>, head: bool, out: &mut String) -> std::fmt::Result {
    if head {
        writeln!(out, "# TYPE {} gauge", spec.name)?;
        if !spec.unit.is_empty() {
            writeln!(out, "# UNIT {} {}", spec.name, spec.unit)?;
        }
        writeln!(out, "# HELP {} {}", spec.name, spec.help)?;
    }
    for (labels, value) in samples {
        write!(out, "{}{{{labels}}} ", spec.name)?;
        match (spec.form, value) {
            (As::Time, Sum::Whole(v)) => {
                writeln!(out, "{}.{:09}", v / 1_000_000_000, (v % 1_000_000_000).unsigned_abs())?;
            }
            (As::Time, Sum::Real(v)) => writeln!(out, "{:?}", v / 1e9)?,
            (As::Number, Sum::Whole(v)) => writeln!(out, "{v}")?,
            (As::Number, Sum::Real(v)) => writeln!(out, "{v:?}")?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_stands_on_columns_that_are_there() {
        for spec in SPECS {
            let table = find(spec.table).unwrap_or_else(|| panic!("{}: no table {}", spec.name, spec.table));
            let only = spec.only.map(|(column, _)| column);
            for column in spec.labels.iter().copied().chain([spec.value]).chain(only) {
                assert!(table.column(column).is_some(), "{}: no column {column}", spec.name);
            }
            assert!(spec.unit.is_empty() || spec.name.ends_with(&format!("_{}", spec.unit)), "{}", spec.name);
        }
    }

    #[test]
    fn a_process_id_that_came_twice_is_one_sample() {
        let account = find("account").expect("a table");
        let mut metrics = OpenMetrics::default();
        for ns in [1_500_000_000, 1] {
            let row = [
                Cell::Text("r"),
                Cell::Integer(7),
                Cell::Text("a\"\\b\nc\u{1b}"),
                Cell::Text("running"),
                Cell::Integer(ns),
            ];
            metrics.row(account, &row);
        }
        let text = metrics.text();
        let wanted = "plumb_account_seconds{run=\"r\",pid=\"7\",process=\"a\\\"\\\\b\\nc\\\\x1b\",category=\"running\"} 1.500000001\n# EOF\n";
        assert!(text.ends_with(wanted), "{text}");
        assert!(text.contains("# UNIT plumb_account_seconds seconds\n"));
    }
}
