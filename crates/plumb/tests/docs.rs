// SPDX-License-Identifier: Apache-2.0 OR MIT
//! docs/load.md has every option, word, preset and check of `plumb load`.
//! `PLUMB_GOLDEN=1 cargo test -p plumb --test docs` writes those parts anew.

use clap::{Args, Command, CommandFactory};
use plumb::cli::{Cli, SessionOptions};
use plumb_load::job::Job;
use plumb_load::validity;
use std::path::Path;

/// A table of options, in the order and under the headings of the help.
fn options(command: Command) -> String {
    let mut text = String::new();
    let mut heading = "";
    for arg in command.get_arguments() {
        let Some(long) = arg.get_long() else { continue };
        let own = arg.get_help_heading().unwrap_or_default();
        if own != heading {
            text += &format!("\n{own}:\n\n| option | default | what it says |\n|---|---|---|\n");
            heading = own;
        }
        let takes = arg.get_action().takes_values();
        let value = arg.get_value_names().unwrap_or_default().iter().map(|n| n.to_string()).next();
        let value = if arg.get_possible_values().is_empty() { value } else { Some("WORD".into()) };
        let value = if takes { format!(" {}", value.unwrap_or_default()) } else { String::new() };
        let default = arg.get_default_values().iter().map(|v| v.to_string_lossy()).next().unwrap_or_default();
        let default = if takes { default.into_owned() } else { String::new() };
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default().replace('\n', " ");
        let words: Vec<String> = match takes {
            true => arg.get_possible_values().iter().map(|w| word(w.get_name(), w.get_help())).collect(),
            false => Vec::new(),
        };
        let words = if words.is_empty() { String::new() } else { format!(": {}", words.join("; ")) };
        text += &format!("| `--{long}{value}` | {default} | {help}{words} |\n");
    }
    text
}

fn word(name: &str, help: Option<&clap::builder::StyledStr>) -> String {
    let help = help.map(ToString::to_string).unwrap_or_default();
    format!("**{name}** {}", help.replace('\n', " "))
}

/// Presets and commands with what they are about.
fn commands() -> String {
    let cli = Cli::command();
    let load = cli.find_subcommand("load").expect("load is a command");
    let mut abouts = Vec::new();
    let rows = load.get_subcommands().map(|c| {
        let about = c.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(!abouts.contains(&about), "{}: another command is about the same: {about}", c.get_name());
        abouts.push(about.clone());
        format!("| `{}` | {about} |\n", c.get_name())
    });
    format!("\n| command | what it does |\n|---|---|\n{}", rows.collect::<String>())
}

#[test]
fn the_manual_of_load_has_every_option_word_and_check() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/load.md");
    let text = std::fs::read_to_string(&path).expect("docs/load.md");
    let parts = [
        ("commands", commands()),
        ("job", options(Job::augment_args(Command::new("job")))),
        ("session", options(SessionOptions::augment_args(Command::new("session")))),
        ("checks", format!("\n{}", validity::markdown())),
    ];
    let mut wanted = text.clone();
    for (name, part) in &parts {
        let (begin, end) = (format!("<!-- {name}: generated -->\n"), format!("\n<!-- {name}: end -->"));
        let from = wanted.find(&begin).unwrap_or_else(|| panic!("docs/load.md lacks {begin}")) + begin.len();
        let to = from + wanted[from..].find(&end).unwrap_or_else(|| panic!("docs/load.md lacks {end}"));
        wanted.replace_range(from..to, part);
    }
    assert!(parts.iter().all(|(_, part)| part.lines().count() > 5), "{parts:?}");
    if std::env::var_os("PLUMB_GOLDEN").is_some() {
        std::fs::write(&path, &wanted).expect("docs is writable");
        return;
    }
    let different = text.lines().zip(wanted.lines()).find(|(is, should)| is != should);
    assert!(
        text == wanted,
        "docs/load.md is not as the program is; PLUMB_GOLDEN=1 cargo test -p plumb --test docs writes it anew: {different:?}"
    );
}
