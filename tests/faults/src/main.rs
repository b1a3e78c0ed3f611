// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fault suite: programs with one known cause of lost time, healthy programs, and what plumb
//! says of them; and `crash`, what survives a power cut. Needs root and Linux with loop devices, FUSE
//! and cgroups.

mod catalogue;
mod crash;
mod judge;
mod load;
mod neighbour;
mod run;
mod setup;
mod stop;
mod suite;
mod summary;
mod sys;

use anyhow::{bail, Context, Result};
use catalogue::{What, CLEAN, FAULTS};
use clap::{Parser, Subcommand};
use load::{Ctx, Place};
use run::Strength;
use std::process::ExitCode;

/// Injects faults whose cause is known, and holds plumb's findings against them.
#[derive(Debug, Parser)]
#[command(name = "plumb-faults", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show every fault and clean run.
    List,
    /// Set up a fault or a clean run, run it once by itself, and print its elapsed seconds.
    Load {
        /// Its name, see `list`.
        name: String,
        /// strong, weak or without.
        #[arg(default_value = "strong")]
        how: String,
        /// Without the fault, in the amount of this strength (instead of `without`, which is the strong amount).
        #[arg(long)]
        without: bool,
    },
    /// Time faults with and without their cause: what share of the time it costs.
    Measure {
        /// Only these, by name.
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
        /// Times each.
        #[arg(long, default_value_t = 3)]
        times: usize,
    },
    /// Run everything under plumb and compare its findings with the known causes.
    #[command(
        after_help = "Exit codes: 0 recall of strong faults 95 % or more, of weak ones 85 % or more, at most one false alarm; 1 not so; 2 error."
    )]
    Suite(suite::Words),
    /// Cut the power of a disk that forgets what was not flushed, and look at what survived.
    #[command(subcommand)]
    Crash(crash::Words),
    /// The load alone, on a stage that stands already (what the suite runs under plumb).
    #[command(hide = true)]
    Work {
        name: String,
        strength: Strength,
        #[arg(long)]
        without: bool,
        #[command(flatten)]
        place: Place,
    },
    /// A process beside the target (what a set-up starts).
    #[command(hide = true)]
    Neighbour {
        #[command(flatten)]
        words: neighbour::Words,
    },
}

fn main() -> ExitCode {
    match dispatch(Cli::parse()) {
        Ok(code) => code,
        Err(e) => {
            eprintln!("plumb-faults: {e:#}");
            ExitCode::from(2)
        }
    }
}

fn dispatch(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::List => list(),
        Command::Load { name, how, without } => {
            stop::watch()?;
            load(&name, &how, without)?;
        }
        Command::Measure { only, times } => {
            stop::watch()?;
            measure(&only, times)?;
        }
        Command::Suite(words) => {
            stop::watch()?;
            return Ok(if suite::main(&words)? { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Command::Crash(words) => return crash::main(&words),
        Command::Work { name, strength, without, place } => work(&name, strength, !without, place)?,
        Command::Neighbour { words } => neighbour::run(&words)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list() {
    println!("{:<22} {:<26} how the cause is made", "fault", "expected finding");
    for fault in FAULTS.iter() {
        println!("{:<22} {:<26} {}", fault.name, fault.expect.join(" or "), fault.words);
    }
    println!("\n{:<22} honest findings", "clean run");
    for clean in CLEAN {
        let honest = if clean.honest.is_empty() { "none".to_owned() } else { clean.honest.join(", ") };
        println!("{:<22} {honest}", clean.name);
    }
    for (id, why) in catalogue::NOT_MADE {
        println!("\nnot made here: {id}: {why}");
    }
}

fn unknown(name: &str) -> anyhow::Error {
    anyhow::anyhow!("{name}: no fault and no clean run of that name; see plumb-faults list")
}

fn load(name: &str, how: &str, without: bool) -> Result<()> {
    let rate = sys::calibrate();
    let target = if let Some(clean) = CLEAN.iter().find(|c| c.name == name) {
        run::clean(clean, rate)?
    } else {
        let fault = FAULTS.iter().find(|f| f.name == name).ok_or_else(|| unknown(name))?;
        let (strength, on) = match how {
            "strong" => (Strength::Strong, true),
            "weak" => (Strength::Weak, true),
            "without" => (Strength::Strong, false),
            _ => bail!("{how}: say strong, weak or without"),
        };
        run::fault(fault, strength, on && !without, rate)?
    };
    println!("{:.3} s", target.alone()?.as_secs_f64());
    Ok(())
}

fn measure(only: &[String], times: usize) -> Result<()> {
    let rate = sys::calibrate();
    let chosen = |name: &str| only.is_empty() || only.iter().any(|o| o == name);
    let times = times.max(1);
    println!(
        "{:<22} {:<8} {:>8} {:>8} {:>7} {:>8}",
        "fault", "strength", "with s", "without", "cost %", "speed-up"
    );
    for fault in FAULTS.iter().filter(|f| chosen(f.name)) {
        for strength in [Strength::Strong, Strength::Weak] {
            let time = |on| -> Result<f64> {
                let one = |_| Ok(run::fault(fault, strength, on, rate)?.alone()?.as_secs_f64());
                judge::median((0..times).map(one).collect::<Result<_>>()?).context("no time")
            };
            let measured = time(true).and_then(|with| Ok((with, time(false)?)));
            stop::check()?;
            match measured {
                Ok((with, without)) => println!(
                    "{:<22} {:<8} {with:>8.3} {without:>8.3} {:>7.1} {:>8.2}",
                    fault.name,
                    strength.word(),
                    (1.0 - without / with) * 100.0,
                    with / without
                ),
                Err(e) => println!("{:<22} {:<8} {e:#}", fault.name, strength.word()),
            }
        }
    }
    for clean in CLEAN.iter().filter(|c| chosen(c.name)) {
        let elapsed = run::clean(clean, rate)?.alone()?.as_secs_f64();
        println!("{:<22} {:<8} {elapsed:>8.3}", clean.name, "clean");
    }
    Ok(())
}

fn work(name: &str, strength: Strength, on: bool, place: Place) -> Result<()> {
    let (load, dose) = if let Some(fault) = FAULTS.iter().find(|f| f.name == name) {
        (fault.load, fault.dose(strength))
    } else {
        match CLEAN.iter().find(|c| c.name == name).map(|c| &c.what) {
            Some(&What::Load(load, dose)) => (load, dose),
            _ => return Err(unknown(name)),
        }
    };
    load::run(load, &Ctx { on, dose, place }).with_context(|| name.to_owned())
}
