// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb completions`: a script for a shell, from the definitions of the command line and the names that the program
//! knows: models, plans, topics, events.

use super::topics::TOPICS;
use super::{about, shown};
use crate::cli::{Cli, CompletionsArgs, Shell};
use anyhow::Result;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, Command, CommandFactory};
use plumb_model::views::KEYS;
use plumb_model::CATEGORIES;
use plumb_plan::guide::TUNABLES;
use plumb_plan::library::{self, PLANS};
use plumb_sim::queue::scheduler;
use plumb_sim::spec::Spec;
use plumb_trace::{kernel_events, sets};
use std::fmt::Write as _;
use std::io::Write;
use std::process::ExitCode;

/// Names that an argument takes, each with what it is.
struct Names {
    what: &'static str,
    names: Vec<(String, String)>,
    /// A path does as well.
    or_path: bool,
}

/// The names that an argument takes whose parser lists none: it takes more than these, or has an error of its own.
fn known(arg: &Arg) -> Option<Names> {
    fn all<N: Into<String>, A: Into<String>>(names: impl Iterator<Item = (N, A)>) -> Vec<(String, String)> {
        // A shell would read more than text into a description.
        let plain = |about: String| about.replace(['"', '$', '`', '\\'], "");
        names.map(|(name, about)| (name.into(), plain(about.into()))).collect()
    }
    fn bare(name: &'static str) -> (&'static str, &'static str) {
        (name, "")
    }
    if !arg.get_possible_values().is_empty() {
        return None;
    }
    let value = arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
    let (what, or_path, names) = match (arg.get_id().as_str(), value) {
        ("model", _) | ("disk", "MODEL") => {
            ("model", true, all(Spec::presets().into_iter().map(|spec| (spec.name, spec.about))))
        }
        ("plan", "PLAN") => {
            let title =
                |name: &str| library::named(name).ok().flatten().map(|plan| plan.title).unwrap_or_default();
            ("plan", true, all(PLANS.iter().map(|(name, _)| (*name, title(name)))))
        }
        ("events", "LIST") => {
            let events = kernel_events().map(|event| event.name);
            ("event", false, all(["default", "all"].into_iter().chain(sets()).chain(events).map(bare)))
        }
        ("set", "SET") if arg.get_long().is_some() => ("set", false, all(sets().into_iter().map(bare))),
        ("by", "KEY") => ("key", false, all(KEYS.iter().map(|(_, name)| bare(name)))),
        ("category", _) => {
            ("category", false, all(CATEGORIES.iter().map(|(_, name, about)| (*name, *about))))
        }
        ("may", _) => {
            let tunables = TUNABLES.iter().map(|tunable| (tunable.key, tunable.because));
            ("tunable", false, all([bare("all")].into_iter().chain(tunables)))
        }
        ("scheduler", _) => ("scheduler", false, all(["none"].into_iter().chain(scheduler::NAMES).map(bare))),
        ("words", "COMMAND or TOPIC") => {
            let root = Cli::command();
            let topics = TOPICS.iter().map(|topic| (topic.name.to_string(), topic.about.to_string()));
            let commands = shown(&root).map(|c| (c.get_name().to_string(), about(&root, c.get_name())));
            ("topic", false, all(commands.chain(topics)))
        }
        _ => return None,
    };
    Some(Names { what, names, or_path })
}

/// Names are static for clap unless its feature `string` is on; a process makes one script.
fn leaked(name: &str) -> &'static str {
    name.to_string().leak()
}

/// The function of zsh's script that offers names.
fn function(what: &str) -> String {
    format!("_plumb_{what}")
}

/// A command without what is not for people: scripts would offer hidden commands too.
fn visible(command: &Command, shell: Shell, lists: &mut Vec<Names>) -> Command {
    let args: Vec<Arg> = command.get_arguments().map(|arg| with_names(arg, shell, lists)).collect();
    let below: Vec<Command> = shown(command).map(|below| visible(below, shell, lists)).collect();
    Command::new(leaked(command.get_name()))
        .about(command.get_about().cloned().unwrap_or_default())
        .args(args)
        .groups(command.get_groups().cloned())
        .subcommands(below)
        .disable_help_subcommand(true)
}

/// An argument for which a script offers its names. Only the script's has them for a parser: errors stay as they are.
fn with_names(arg: &Arg, shell: Shell, lists: &mut Vec<Names>) -> Arg {
    let Some(known) = known(arg) else { return arg.clone() };
    let values: Vec<PossibleValue> = match shell {
        // The name of a function, which offers paths too; a list could not.
        Shell::Zsh => vec![PossibleValue::new(leaked(&function(known.what)))],
        Shell::Bash | Shell::Fish => {
            let value =
                |(name, about): &(String, String)| PossibleValue::new(leaked(name)).help(about.clone());
            known.names.iter().map(value).collect()
        }
    };
    if !lists.iter().any(|list| list.what == known.what) {
        lists.push(known);
    }
    // A default must be one of the values, and zsh's are none.
    arg.clone().default_value(None::<&'static str>).value_parser(PossibleValuesParser::new(values))
}

/// Runs `plumb completions`.
///
/// # Errors
/// The writer's.
pub fn main(args: &CompletionsArgs) -> Result<ExitCode> {
    let mut lists = Vec::new();
    let mut command = visible(&Cli::command(), args.shell, &mut lists);
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "plumb", &mut script);
    let mut script = String::from_utf8(script)?;
    match args.shell {
        // It offers paths where no name fits.
        Shell::Bash => {}
        Shell::Zsh => script = with_functions(script, &lists)?,
        Shell::Fish => {
            for list in lists.iter().filter(|list| list.or_path) {
                let values = format!("-a \"{}\\t", list.names[0].0);
                script = script.replace(&format!("-f {values}"), &format!("-F {values}"));
            }
            fish_positionals(&command, &[], &mut script)?;
        }
    }
    std::io::stdout().lock().write_all(script.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// zsh's script with calls of functions in place of lists that have their names, and these functions.
fn with_functions(mut script: String, lists: &[Names]) -> Result<String> {
    const HEAD: &str = "#compdef plumb\n";
    let mut functions = String::new();
    for Names { what, names, or_path } in lists {
        let function = function(what);
        script = script.replace(&format!("({function})"), &function);
        write!(functions, "\n{function}() {{\n    local -a names; names=(\n")?;
        for (name, about) in names {
            let about = if about.is_empty() { String::new() } else { format!(":{about}") };
            let line = name.replace(':', "\\:") + &about;
            writeln!(functions, "        '{}'", line.replace('\'', "'\\''"))?;
        }
        // Of a list with commas its last.
        let (first, last) =
            if *or_path { ("", "    _files \"$@\"\n") } else { ("    compset -P '*,'\n", "") };
        write!(functions, "    )\n{first}    _describe '{what}' names \"$@\"\n{last}}}\n")?;
    }
    Ok(script.replacen(HEAD, &format!("{HEAD}{functions}"), 1))
}

/// Lines for what stands without an option: the library writes fish's for options alone.
fn fish_positionals(command: &Command, path: &[&str], script: &mut String) -> Result<()> {
    let place = match path {
        [] => String::new(),
        [first, below @ ..] => {
            let below: String =
                below.iter().map(|b| format!("; and __fish_seen_subcommand_from {b}")).collect();
            format!("__fish_plumb_using_subcommand {first}{below}")
        }
    };
    for arg in command.get_positionals() {
        let values = arg.get_possible_values();
        let words = values.iter().map(|value| {
            let about = value.get_help().map(ToString::to_string).unwrap_or_default();
            format!("{}\\t'{}'", value.get_name(), about.replace('\'', "\\'"))
        });
        if !values.is_empty() {
            let words: Vec<String> = words.collect();
            writeln!(script, "complete -c plumb -n \"{place}\" -a \"{}\"", words.join("\n"))?;
        }
    }
    for below in command.get_subcommands() {
        fish_positionals(below, &[path, &[below.get_name()]].concat(), script)?;
    }
    Ok(())
}
