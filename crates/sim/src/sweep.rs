// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same simulation for each value of a knob of the scheduler.

use crate::experiment::{measure, notes_on_classes, Experiment, Measured};
use crate::queue::classes::ClassReport;
use anyhow::{bail, Context, Result};
use plumb_machine::json::{formats, Format, Output};
use serde::Serialize;

/// A value, and what came of it.
#[derive(Debug, Serialize)]
pub struct Row {
    /// In the knob's unit; `alone`: the foreground class without the idle one.
    pub value: String,
    pub normal: Option<ClassReport>,
    pub idle: Option<ClassReport>,
}

#[derive(Debug, Serialize)]
pub struct Sweep {
    pub model: String,
    pub scheduler: String,
    pub knob: String,
    /// Foreground requests without the idle class, at the first value.
    pub alone: Row,
    pub rows: Vec<Row>,
    /// What of the options makes no difference.
    pub notes: Vec<String>,
    /// Simulated by measured, of what --beside names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ratios: Vec<(String, String, f64)>,
}

impl Output for Sweep {
    const FORMAT: &'static Format = &formats::SIM_SWEEP;
}

/// What is compared with --beside.
pub const COMPARED: [&str; 7] = [
    "normal_per_s",
    "normal_mib_per_s",
    "normal_p50_ns",
    "normal_p99_ns",
    "normal_service_p50_ns",
    "normal_service_p99_ns",
    "idle_mib_per_s",
];

/// Values of a sweep.
///
/// # Errors
/// No knob, or no values.
pub fn parsed(text: &str) -> Result<(String, Vec<String>)> {
    let Some((knob, values)) = text.split_once('=') else {
        bail!("--sweep {text}: is not KNOB=a,b,c, as in idle_dispatch_interval=1000,10000");
    };
    let values: Vec<String> =
        values.split(',').map(|v| v.trim().to_string()).filter(|v| !v.is_empty()).collect();
    if values.is_empty() {
        bail!("--sweep {text}: names no value; example: {knob}=1000,10000");
    }
    Ok((knob.trim().into(), values))
}

impl Sweep {
    /// Simulates an experiment for each value of a knob.
    ///
    /// # Errors
    /// A knob or a value that the scheduler does not have; the simulation's.
    pub fn of(experiment: &Experiment, knob: String, values: &[String]) -> Result<Sweep> {
        let kinds = values
            .iter()
            .map(|value| {
                let mut kind = experiment.scheduler.clone();
                kind.set(&format!("{knob}={value}")).map(|()| kind)
            })
            .collect::<Result<Vec<_>, _>>()
            .context("--sweep")?;
        let row = |value: &str, m: Measured| Row {
            value: value.into(),
            normal: m.class(false).cloned(),
            idle: m.class(true).cloned(),
        };
        let alone = row("alone", measure(experiment, &kinds[0], false)?);
        let rows = values
            .iter()
            .zip(&kinds)
            .map(|(value, kind)| Ok(row(value, measure(experiment, kind, true)?)))
            .collect::<Result<Vec<_>>>()?;
        let scheduler = experiment.scheduler.name().to_string();
        let notes = notes_on_classes(experiment);
        let model = experiment.spec.name.clone();
        Ok(Sweep { model, scheduler, knob, alone, rows, notes, ratios: Vec::new() })
    }

    /// Its figures as CSV, by the knob's values.
    pub fn csv(&self) -> String {
        let mut csv = format!("{},normal_per_s,normal_mib_per_s,normal_p50_ns,normal_p99_ns,normal_max_ns,idle_per_s,idle_mib_per_s,idle_p99_ns,idle_max_ns,normal_service_p50_ns,normal_service_p99_ns\n", self.knob);
        for row in std::iter::once(&self.alone).chain(&self.rows) {
            let ns = |v: Option<u64>| v.map_or_else(String::new, |v| v.to_string());
            let cells = |c: Option<&ClassReport>, p50: bool| match c {
                None => ",".repeat(if p50 { 4 } else { 3 }),
                Some(c) => {
                    let mib = c.bandwidth / 1_048_576.0;
                    let p50 = if p50 { format!("{},", ns(c.q2c.p50)) } else { String::new() };
                    format!("{:.3},{mib:.4},{p50}{},{}", c.rate, ns(c.q2c.p99), ns(c.q2c.max))
                }
            };
            csv += &format!(
                "{},{},{},{},{}\n",
                row.value,
                cells(row.normal.as_ref(), true),
                cells(row.idle.as_ref(), false),
                ns(row.normal.as_ref().and_then(|c| c.service.p50)),
                ns(row.normal.as_ref().and_then(|c| c.service.p99)),
            );
        }
        csv
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_is_a_knob_and_values() {
        let (knob, values) = parsed("fifo_batch = 1, 16,").expect("two values");
        assert_eq!((knob.as_str(), values), ("fifo_batch", vec!["1".to_string(), "16".into()]));
        assert!(parsed("fifo_batch").is_err_and(|e| e.to_string().contains("KNOB=a,b,c")));
        assert!(parsed("fifo_batch=,").is_err_and(|e| e.to_string().contains("no value")));
    }
}
