// SPDX-License-Identifier: Apache-2.0 OR MIT
//! docs/load.md has every option, word, preset and check of `plumb load`;
//! `PLUMB_GOLDEN=1 cargo test -p plumb --test docs` writes those parts anew.
//! Every link of the repository's documents resolves, and every set of results is complete.

use clap::{Args, Command, CommandFactory};
use plumb::cli::{Cli, SessionOptions};
use plumb_load::job::Job;
use plumb_load::validity;
use std::path::{Path, PathBuf};

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

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All Markdown files of the repository, relative to its root.
fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(root().join(&dir)).expect("a directory") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = dir.join(&name);
            if entry.file_type().expect("a type").is_dir() {
                if !name.starts_with('.') && !["target", "node_modules"].contains(&name.as_str()) {
                    open.push(path);
                }
            } else if name.ends_with(".md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// GitHub's name for a heading.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || "-_ ".contains(*c);
    heading.trim().to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// What is wrong with a link of the document `from`, if anything.
fn broken(from: &Path, link: &str) -> Option<String> {
    let (path, part) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => root().join(from),
        _ => root().join(from).parent().expect("a directory").join(path),
    };
    if !target.exists() {
        return Some(format!("{}: no {path}", from.display()));
    }
    if part.is_empty() || target.extension().is_none_or(|e| e != "md") {
        return None;
    }
    let text = std::fs::read_to_string(&target).expect("a text");
    let there = text.lines().any(|l| l.starts_with('#') && anchor(l.trim_start_matches('#')) == part);
    (!there).then(|| format!("{}: no heading #{part} in {}", from.display(), target.display()))
}

/// Links, and names of sets of results (`results/2026-...`), in a Markdown text.
fn references(text: &str) -> (Vec<&str>, Vec<&str>) {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link);
    let links = links.filter(|l| !l.contains("://") && !l.contains(char::is_whitespace)).collect();
    let end = |rest: &str| rest.find(|c: char| !(c.is_ascii_alphanumeric() || "-/._".contains(c)));
    let sets = text.match_indices("results/2").map(|(at, _)| {
        let rest = &text[at..];
        rest[..end(rest).unwrap_or(rest.len())].trim_end_matches(['.', '/'])
    });
    (links, sets.collect())
}

/// Whether the archive of a set of results has the file that `path` (`results/SET/FILE`) names.
fn is_packed(path: &str) -> bool {
    let mut parts = path.splitn(3, '/');
    let (Some(_), Some(set), Some(file)) = (parts.next(), parts.next(), parts.next()) else { return false };
    let archive = root().join("results").join(set).join("raw.tar.xz");
    let listed = std::process::Command::new("tar").arg("--list").arg("--file").arg(archive).output();
    let listed = listed.expect("tar lists an archive").stdout;
    String::from_utf8_lossy(&listed).lines().any(|l| l.trim_start_matches("./") == file)
}

#[test]
fn every_link_of_the_documents_resolves() {
    let documents = documents();
    assert!(documents.iter().any(|d| d == Path::new("README.md")), "{documents:?}");
    let mut problems = Vec::new();
    let mut checked = 0;
    for document in &documents {
        let text = std::fs::read_to_string(root().join(document)).expect("a document");
        let (links, sets) = references(&text);
        checked += links.len() + sets.len();
        problems.extend(links.iter().filter_map(|link| broken(document, link)));
        let missing = sets.iter().filter(|set| !root().join(set).exists() && !is_packed(set));
        problems.extend(missing.map(|set| format!("{}: no {set}", document.display())));
    }
    assert!(checked > 100, "{checked} links");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_set_of_results_is_complete_and_packed() {
    let mut sets = 0;
    for entry in std::fs::read_dir(root().join("results")).expect("results") {
        let dir = entry.expect("an entry").path();
        if !dir.is_dir() {
            continue;
        }
        sets += 1;
        let name = |e: std::io::Result<std::fs::DirEntry>| e.expect("an entry").file_name().into_string();
        let files: Vec<String> =
            std::fs::read_dir(&dir).expect("a set").map(|e| name(e).expect("UTF-8")).collect();
        for wanted in ["summary.md", "plan.md", "machine.json"] {
            assert!(
                files.iter().any(|f| f == wanted),
                "{}: no {wanted}; see results/README.md",
                dir.display()
            );
        }
        let summary = std::fs::read_to_string(dir.join("summary.md")).expect("summary.md");
        let known = ["summary.md", "plan.md", "plan.toml", "machine.json", "raw.tar.xz"];
        let shown = |f: &str| f.ends_with(".svg") && summary.contains(&format!("]({f})"));
        let loose: Vec<_> = files.iter().filter(|f| !known.contains(&f.as_str()) && !shown(f)).collect();
        assert!(loose.is_empty(), "{}: {loose:?}: scripts/evidence.sh packs them", dir.display());
    }
    assert!(sets > 0, "no set of results");
}
