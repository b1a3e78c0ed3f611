// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result as lines: one for each kind of operation of a job, step and round.

use plumb_load::session::Outcome;
use plumb_load::validity::Word;
use plumb_report::csv_field::text;
use plumb_stats::histogram::Summary;
use std::io::{self, Write};

const SUMMARY: [&str; 9] =
    ["mean_ns", "min_ns", "p50_ns", "p90_ns", "p95_ns", "p99_ns", "p99_9_ns", "p99_99_ns", "max_ns"];

/// Writes them; what is not known is empty.
///
/// # Errors
/// The writer's.
pub fn write(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "cell,round,step,interrupted,job,kind,elapsed_ns,count,errors,short,bytes,rate,bytes_per_s")?;
    for latency in ["service", "response"] {
        for figure in SUMMARY {
            write!(out, ",{latency}_{figure}")?;
        }
    }
    writeln!(out, ",verdict")?;
    for cell in &outcome.cells {
        for (r, round) in cell.rounds.iter().enumerate() {
            for step in round {
                for (j, job) in step.jobs.iter().enumerate() {
                    for k in &job.operations {
                        let (cell, step_name) = (text(&cell.label), text(&step.label));
                        write!(
                            out,
                            "{cell},{},{step_name},{},{},{}",
                            r + 1,
                            step.interrupted,
                            j + 1,
                            k.kind
                        )?;
                        write!(out, ",{},{},{},{},{}", job.elapsed_ns, k.count, k.errors, k.short, k.bytes)?;
                        write!(out, ",{},{}", k.rate, k.bandwidth)?;
                        summary(Some(&k.service), out)?;
                        summary(k.response.as_ref(), out)?;
                        writeln!(out, ",{}", verdict(step.verdict.word))?;
                    }
                }
            }
        }
    }
    Ok(())
}

fn summary(summary: Option<&Summary>, out: &mut dyn Write) -> io::Result<()> {
    let Some(s) = summary else { return write!(out, "{}", ",".repeat(SUMMARY.len())) };
    write!(out, ",{}", s.mean_ns)?;
    for value in [s.min, s.p50, s.p90, s.p95, s.p99, s.p99_9, s.p99_99, s.max] {
        match value {
            Some(ns) => write!(out, ",{ns}")?,
            None => write!(out, ",")?,
        }
    }
    Ok(())
}

fn verdict(word: Word) -> &'static str {
    match word {
        Word::Valid => "valid",
        Word::Suspect => "suspect",
        Word::Invalid => "invalid",
    }
}
