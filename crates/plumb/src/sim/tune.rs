// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb tune iosched`: lp-deadline's interval and depth for a target, by simulation.

use crate::cli::{TuneArgs, TuneWhat};
use anyhow::{bail, Result};
use plumb_machine::json;
use plumb_report::terminal::Table;
use plumb_sim::tune::{self, best, Candidate, Tuned, DEPTHS};
use plumb_trace::units;
use std::io::Write;
use std::process::ExitCode;

/// Runs the command.
///
/// # Errors
/// As `plumb sim`; nobody of one of the classes takes part.
pub fn main(args: &TuneArgs) -> Result<ExitCode> {
    let TuneWhat::Iosched(options) = &args.what;
    let args = &options.of;
    let target = options.target.0;
    if target < 1000 {
        bail!("--target {}: 1us or more, as in --target 2ms", options.target);
    }
    // noop is what the option has when it is not given.
    if !["noop", "lp-deadline"].contains(&args.scheduler.as_str()) {
        bail!("--scheduler {}: only lp-deadline has these knobs; leave it out", args.scheduler);
    }
    tune::check(&args.scheduler_set)?;
    let mut experiment = super::experiment(args, "lp-deadline")?;
    let load = tune::fit(&mut experiment, &args.of_experiment())?;
    let tuned = tune::tune(&experiment, target, load, &args.scheduler_set, |depth, intervals| {
        eprintln!("low_depth {depth}: {intervals} intervals simulated");
    })?;
    let mut out = std::io::stdout().lock();
    if options.json {
        json::write(&mut out, &tuned)?;
    } else {
        show(&tuned, &mut out)?;
    }
    out.flush()?;
    Ok(if tuned.best.is_some() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn show(tuned: &Tuned, out: &mut dyn Write) -> Result<()> {
    let ns = |v: Option<u64>| v.map_or_else(|| "-".into(), units::duration);
    let target = units::duration(tuned.target_ns);
    writeln!(out, "{}; {}", tuned.model, tuned.load)?;
    let mib = |bytes: f64| format!("{:.2}", bytes / 1_048_576.0);
    let idle = tuned.idle_alone_bytes_per_s.map(|b| format!("; the idle class alone, {} MiB/s", mib(b)));
    writeln!(
        out,
        "target: 99 % of foreground requests within {target}; alone their p99 is {} at {:.0} requests/s{}",
        ns(tuned.alone_p99_ns),
        tuned.alone_per_s,
        idle.unwrap_or_default()
    )?;
    let mut table = Table::new(&["<settings", "foreground p99", "foreground/s", "idle MiB/s", "<target"]);
    let row = |name: &str, c: &Candidate| {
        let kept = if c.keeps { "met" } else { "missed" };
        vec![
            format!("{name}{}", c.knobs.join(" ")),
            ns(c.normal_p99_ns),
            format!("{:.1}", c.normal_per_s),
            mib(c.idle_bytes_per_s),
            kept.into(),
        ]
    };
    if let Some(c) = tuned.tried.iter().find(|c| c.knobs.is_empty()) {
        table.row(row("defaults", c));
    }
    // Of each depth the best: all are in the JSON.
    for depth in DEPTHS {
        let knob = format!("low_depth={depth}");
        let own = || tuned.tried.iter().filter(|c| c.knobs.contains(&knob));
        let least = || own().min_by_key(|c| c.normal_p99_ns).cloned();
        if let Some(c) = best(own()).or_else(least) {
            table.row(row("", &c));
        }
    }
    table.write(out)?;
    match &tuned.best {
        Some(best) => {
            writeln!(
                out,
                "predicted: foreground p99 {} ({:+.1} % requests/s), idle {} MiB/s{}",
                ns(best.normal_p99_ns),
                100.0 * (best.normal_per_s / tuned.alone_per_s.max(1e-9) - 1.0),
                mib(best.idle_bytes_per_s),
                tuned.idle_alone_bytes_per_s.filter(|b| *b > 0.0).map_or_else(String::new, |b| format!(
                    " ({:.1} % of its throughput alone)",
                    100.0 * best.idle_bytes_per_s / b
                ))
            )?;
            if best.idle_bytes_per_s == 0.0 {
                writeln!(
                    out,
                    "the idle class gets nothing with any setting: foreground requests leave no idle period, or the two classes never run concurrently"
                )?;
            }
            for command in &tuned.commands {
                writeln!(out, "  {command}")?;
            }
        }
        None if tuned.alone_p99_ns.is_some_and(|p99| p99 > tuned.target_ns) => writeln!(
            out,
            "no setting meets {target}: the p99 of foreground requests is {} even alone",
            ns(tuned.alone_p99_ns)
        )?,
        None => writeln!(out, "no setting that was tried meets {target}")?,
    }
    Ok(())
}
