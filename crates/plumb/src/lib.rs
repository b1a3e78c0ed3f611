// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the program does: each command a module, starting the stages
//! (record, model, verdict; load) and owning the run directory.

mod bisect;
mod changes;
mod check;
pub mod cli;
mod collect;
mod compare;
mod disk;
mod events;
mod explain;
mod export;
mod findings;
mod govern;
mod guide;
mod help;
mod iosched;
mod load;
mod mcp;
mod plan;
mod profile;
mod publish;
mod quality;
mod query;
mod record;
mod repeat;
mod report;
mod run;
mod schema;
mod sim;
mod size;
mod top;
mod view;
mod watch;
mod whatif;

use anyhow::Result;
use clap::FromArgMatches;
use cli::{Cli, Command};
use std::process::ExitCode;

/// Reads the command line; help, version and errors end the process, as [`clap::Parser::parse`] does.
pub fn command_line() -> Cli {
    let matches = help::command().get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Does what the words ask for.
///
/// # Errors
/// A sentence that names the object and the next step; exit code 2.
pub fn dispatch(cli: Cli) -> Result<ExitCode> {
    plumb_report::terminal::screen::choose(cli.color.into());
    match cli.command {
        Command::Record(args) => record::main(&args),
        Command::Run(args) => run::main(&args),
        Command::Top(args) => top::main(&args),
        Command::Watch(args) => watch::main(&args),
        Command::Trigger(args) => watch::trigger(&args),
        Command::Explain(mut args) => {
            args.dir = repeat::run_of(args.dir)?;
            explain::main(&args, false)
        }
        Command::Compare(args) => compare::main(&args),
        Command::Load(args) => load::main(&args),
        Command::Sim(args) => sim::main(&args),
        Command::Whatif(args) => whatif::main(&args),
        Command::Plan(args) => plan::main(&args),
        Command::Bisect(args) => bisect::main(&args),
        Command::Size(args) => size::main(&args),
        Command::Disk(args) => disk::main(args.command),
        Command::View(args) => view::main(&args),
        Command::Profile(args) => profile::main(&args),
        Command::Findings(args) => findings::main(&args),
        Command::Schema(args) => schema::main(&args),
        Command::Collect(args) => collect::main(&args),
        Command::Check(args) => check::main(&args),
        Command::Events(args) => events::main(&args),
        Command::Report(args) => report::main(&args),
        Command::Help(args) => help::main(&args),
        Command::Completions(args) => help::completions(&args),
        Command::Query(args) => query::main(&args),
        Command::Mcp(args) => mcp::main(&args),
        Command::Export(args) => export::main(&args),
        Command::Publish(args) => publish::main(&args),
        Command::Lake(args) => publish::lake(&args),
        Command::Tune(args) => sim::tune::main(&args),
        Command::Guide(args) => guide::main(*args),
        Command::Govern(args) => govern::main(&args),
        Command::Iosched(args) => iosched::main(&args),
    }
}
