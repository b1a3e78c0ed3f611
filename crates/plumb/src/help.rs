// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plumb help` and `plumb completions`: commands, topics, manual pages, completion scripts, all from
//! the definitions of the command line and from docs/.

mod completions;
mod man;
mod markdown;
mod topics;

use crate::cli::{Cli, HelpArgs};
use anyhow::{bail, Result};
use clap::{Command, CommandFactory};
pub use completions::main as completions;
use plumb_report::terminal::screen::{Look, Screen, COLUMNS};
use plumb_report::terminal::wrapped_to;
use plumb_trace::suggest::nearest;
use std::io::Write;
use std::process::ExitCode;
use topics::{Topic, TOPICS};

/// The commands in the order in which help lists them: the everyday ones first, then by purpose.
const GROUPS: &[(&str, &[&str])] = &[
    ("Everyday", &["run", "top", "explain", "compare", "report", "load"]),
    (
        "Record and explain",
        &["check", "record", "watch", "trigger", "collect", "events", "view", "profile", "findings"],
    ),
    ("Load and simulate", &["disk", "sim", "whatif"]),
    ("Plan", &["plan", "bisect", "size"]),
    ("Export and query", &["export", "publish", "lake", "query", "schema", "mcp"]),
    ("Control", &["guide", "govern", "iosched", "tune"]),
    ("Help", &["help", "completions"]),
];

/// The command line with its commands listed by group, for `plumb --help`.
pub fn command() -> Command {
    let root = Cli::command();
    let mut text = String::new();
    for (group, names) in GROUPS {
        text += &format!("{group}:\n");
        for name in *names {
            text += &format!("  {name:<NAME$} {}\n", wrapped_to(&about(&root, name), NAME + 3, COLUMNS));
        }
        text.push('\n');
    }
    root.before_help(text)
}

/// A command's first line of help.
fn about(root: &Command, name: &str) -> String {
    let command = root.find_subcommand(name);
    command.and_then(Command::get_about).map(ToString::to_string).unwrap_or_default()
}

/// Columns of a command's or topic's name in the list.
const NAME: usize = 17;

/// Runs `plumb help`.
///
/// # Errors
/// No command and no topic of this name; a directory that cannot be written.
pub fn main(args: &HelpArgs) -> Result<ExitCode> {
    if let Some(dir) = &args.man {
        let pages = man::write(Cli::command(), dir)?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{pages} pages in {dir} (man -M {dir} plumb)", dir = dir.display())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = std::io::stdout().lock();
    let mut screen = Screen::stdout(&mut out, false);
    if args.words.is_empty() {
        list(&mut screen)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut root = Cli::command();
    root.build();
    let command = find(&root, &args.words);
    let topic = match &args.words[..] {
        [word] => TOPICS.iter().find(|t| t.name == word),
        _ => None,
    };
    if let Some(command) = &command {
        let mut command = (*command).clone();
        writeln!(screen, "{}", command.render_long_help().to_string().trim_end())?;
    }
    if let Some(Topic { text, .. }) = topic {
        if command.is_some() {
            writeln!(screen)?;
        }
        markdown::write(text, COLUMNS, &mut screen)?;
    }
    if command.is_none() && topic.is_none() {
        bail!(unknown(&root, &args.words));
    }
    Ok(ExitCode::SUCCESS)
}

/// The command of a path of words.
fn find<'a>(root: &'a Command, words: &[String]) -> Option<&'a Command> {
    words.iter().try_fold(root, |command, word| shown(command).find(|c| c.get_name() == word))
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|c| !c.is_hide_set())
}

/// What is said of words that name nothing.
fn unknown(root: &Command, words: &[String]) -> String {
    let mut at = root;
    for (i, word) in words.iter().enumerate() {
        if let Some(below) = shown(at).find(|c| c.get_name() == word) {
            at = below;
            continue;
        }
        let mut names: Vec<&str> = shown(at).map(Command::get_name).collect();
        let place = words[..i].join(" ");
        if i == 0 {
            names.extend(TOPICS.iter().map(|t| t.name));
        }
        let near = nearest(word, &names).map(|n| format!("did you mean '{n}'? "));
        let near = near.unwrap_or_default();
        return match i {
            0 => format!("no command and no topic is called '{word}'; {near}'plumb help' lists them"),
            _ => {
                format!("{place} has no command '{word}'; {near}'plumb help {place}' lists those that it has")
            }
        };
    }
    format!("no command is called '{}'; 'plumb help' lists them", words.join(" "))
}

/// Commands and topics, a line each.
fn list(out: &mut Screen<'_>) -> Result<()> {
    let root = Cli::command();
    let purpose = root.get_about().map(ToString::to_string).unwrap_or_default();
    writeln!(out, "{}\n", wrapped_to(&purpose, 0, COLUMNS))?;
    let line = |out: &mut Screen<'_>, name: &str, about: &str| {
        let padded = out.paint(&format!("{name:<NAME$}"), Look::Bold);
        writeln!(out, "  {padded} {}", wrapped_to(about, NAME + 3, COLUMNS))
    };
    writeln!(out, "plumb COMMAND --help shows a command's options and examples.\n")?;
    for (group, names) in GROUPS {
        out.heading(group)?;
        for name in *names {
            line(out, name, &about(&root, name))?;
        }
        writeln!(out)?;
    }
    out.heading("Topics [plumb help TOPIC]")?;
    for topic in TOPICS {
        line(out, topic.name, topic.about)?;
    }
    writeln!(out, "\nplumb help --man DIR writes all of it as manual pages.")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(String::from).collect()
    }

    #[test]
    fn a_word_amiss_gets_the_nearest() {
        let root = Cli::command();
        for (asked, near) in [
            ("acount", "did you mean 'account'?"),
            ("profle", "did you mean 'profile'?"),
            ("load verfy", "load has no command 'verfy'; did you mean 'verify'?"),
            ("plan xyz", "'plumb help plan' lists those that it has"),
            ("nonsense", "'plumb help' lists them"),
        ] {
            let said = unknown(&root, &words(asked));
            assert!(said.contains(near), "{asked}: {said}");
        }
        assert!(find(&root, &words("load verify")).is_some() && find(&root, &words("disk server")).is_none());
    }

    #[test]
    fn every_topic_and_command_is_listed() {
        let mut out = Vec::new();
        list(&mut Screen::file(&mut out)).expect("memory");
        let text = String::from_utf8(out).expect("text");
        assert!(text.lines().all(|l| l.chars().count() <= COLUMNS), "{text}");
        let root = Cli::command();
        for name in TOPICS.iter().map(|t| t.name).chain(shown(&root).map(Command::get_name)) {
            assert!(text.contains(&format!("\n  {name} ")) && name.len() <= NAME, "{name}: {text}");
        }
    }

    #[test]
    fn every_command_is_in_one_group() {
        let root = Cli::command();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let mut all: Vec<&str> = shown(&root).map(Command::get_name).collect();
        listed.sort_unstable();
        all.sort_unstable();
        assert_eq!(listed, all);
        let help = command().render_help().to_string();
        assert!(help.find("  run ") < help.find("  record "), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 120), "{help}");
    }
}
