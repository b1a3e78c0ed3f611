// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The metric of a run.

use super::measure::Ran;
use super::pattern::Pattern;
use anyhow::Result;
use plumb_trace::units;

pub enum Metric {
    Elapsed,
    /// User and system time of the command and of its descendants that it waited for.
    Cpu,
    /// What it prints.
    Printed(Pattern),
}

impl Metric {
    /// Of the words of `--figure`.
    ///
    /// # Errors
    /// As [`Pattern::new`].
    pub fn new(figure: &str) -> Result<Metric> {
        Ok(match figure {
            "elapsed" => Metric::Elapsed,
            "cpu" => Metric::Cpu,
            pattern => Metric::Printed(Pattern::new(pattern)?),
        })
    }

    /// Of a run that printed this: times in ns.
    ///
    /// # Errors
    /// Why there is none.
    pub fn of(&self, ran: &Ran, printed: &str) -> Result<f64, String> {
        let value = match self {
            Metric::Elapsed => ran.elapsed_ns as f64,
            Metric::Cpu => ran.cpu_ns as f64,
            Metric::Printed(pattern) => {
                let text =
                    pattern.last_match(printed).ok_or("the command printed nothing that --figure matches")?;
                text.parse().map_err(|_| format!("--figure matches '{text}', which is no number"))?
            }
        };
        // Changes are ratios: of a figure that can be 0 there are none.
        (value > 0.0 && f64::is_finite(value))
            .then_some(value)
            .ok_or_else(|| format!("the figure is {value}; only figures above 0 can be searched"))
    }
}

/// What a figure is called.
pub fn name(figure: &str) -> &str {
    match figure {
        "elapsed" => "elapsed time",
        "cpu" => "CPU time",
        _ => "figure",
    }
}

/// A value with its unit.
pub fn shown(figure: &str, value: f64) -> String {
    match figure {
        "elapsed" | "cpu" => units::duration(value as u64),
        _ => units::digits(value),
    }
}
