// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line as a whole: help, examples, JSON, manual pages, completions. All of it is made from
//! one definition, so a command that is added is looked at here without another line.

mod common;

use clap::{Command, CommandFactory};
use common::{must, output, plumb, stderr};
use plumb::cli::Cli;
use std::path::Path;
use std::process::Command as Process;

/// Commands that print nothing as JSON, and why.
const NO_JSON: &[(&str, &str)] = &[
    ("plumb watch", "it writes its lines of JSON into files"),
    ("plumb trigger", "it asks another process"),
    ("plumb load tpcc-fill", "what it makes are tables in a database"),
    ("plumb help", "a manual is text"),
    ("plumb completions", "its output is a script for a shell"),
    ("plumb mcp", "it speaks JSON-RPC"),
    ("plumb schema", "a schema is JSON of its own"),
    ("plumb export", "what it makes are files in formats of their own"),
    ("plumb lake views", "statements of SQL are for an engine"),
];

/// Every command that people can call, with the words that call it.
fn commands() -> Vec<(String, Command)> {
    fn below(place: &str, command: &Command, out: &mut Vec<(String, Command)>) {
        let place = format!("{place}{}", command.get_name());
        out.push((place.clone(), command.clone()));
        for c in command.get_subcommands().filter(|c| !c.is_hide_set()) {
            below(&format!("{place} "), c, out);
        }
    }
    let mut out = Vec::new();
    below("", &Cli::command(), &mut out);
    assert!(out.len() > 30, "{}", out.len());
    out
}

/// Whether it only holds others: `plumb plan`.
fn is_group(command: &Command) -> bool {
    command.is_subcommand_required_set()
}

#[test]
fn every_command_that_prints_can_print_json() {
    let all = commands();
    let lacking: Vec<&str> = all
        .iter()
        .filter(|(_, c)| !is_group(c) && !c.get_arguments().any(|a| a.get_long() == Some("json")))
        .map(|(name, _)| name.as_str())
        .collect();
    let excepted: Vec<&str> = NO_JSON.iter().map(|(name, _)| *name).collect();
    assert_eq!(lacking, excepted, "give it --json, or say why not in NO_JSON");
}

#[test]
fn every_command_has_an_example_and_every_option_its_words() {
    for (name, command) in commands() {
        let more = command.get_after_long_help().or_else(|| command.get_after_help());
        let more = more.map(ToString::to_string).unwrap_or_default();
        let example = more.lines().skip_while(|l| !l.contains("Example")).any(|l| l.starts_with("  plumb "));
        assert!(example, "{name}: no example in its help: {more}");
        assert!(command.get_about().is_some(), "{name}: nothing says what it does");
        for option in command.get_arguments().filter(|a| !a.is_hide_set()) {
            let help = option.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.len() > 3, "{name}: {}: no help", option.get_id());
        }
    }
}

#[test]
fn help_leads_from_a_word_to_its_manual() {
    let list = must(plumb().arg("help"));
    assert!(list.contains("\n  profile ") && list.contains("\n  account "), "{list}");
    let verify = must(plumb().args(["help", "load", "verify"]));
    assert!(verify.contains("Usage: plumb load verify") && verify.contains("--acknowledged"), "{verify}");
    let account = must(plumb().args(["help", "account"]));
    for (_, name, _) in plumb_model::CATEGORIES {
        assert!(account.contains(name), "{name}: {account}");
    }
    let findings = must(plumb().args(["help", "findings"]));
    for rule in plumb_diagnose::RULES {
        assert!(findings.contains(rule.id), "{}: {findings}", rule.id);
    }
    assert!(findings.contains("Usage: plumb findings"), "a command of that name is explained too");
    for (words, said) in [
        (&["help", "acount"][..], "did you mean 'account'?"),
        (&["help", "load", "verfy"], "did you mean 'verify'?"),
    ] {
        let out = output(plumb().args(words));
        assert_eq!(out.status.code(), Some(2));
        assert!(stderr(&out).contains(said), "{}", stderr(&out));
    }
}

/// Whether a program is there.
fn there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).exists())
}

/// What a formatter of manual pages complains of.
fn complaints(page: &Path) -> Option<String> {
    let mut formatter = match () {
        () if there("man") => {
            let mut man = Process::new("man");
            man.args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"]);
            man
        }
        () if there("groff") => {
            let mut groff = Process::new("groff");
            groff.args(["-man", "-ww", "-z", "-Tutf8", "-k"]);
            groff
        }
        () => return None,
    };
    let out = output(formatter.arg(page));
    Some(format!("{}{}", stderr(&out), if out.status.success() { "" } else { "it failed" }))
}

#[test]
fn manual_pages_are_there_for_all_and_without_warnings() {
    let dir = tempfile::tempdir().expect("a directory");
    let pages = dir.path().join("pages");
    must(plumb().args(["help", "--man"]).arg(&pages));
    for (name, _) in commands() {
        let page = pages.join(format!("man1/{}.1", name.replace(' ', "-")));
        let text = std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        assert!(text.contains("NOTES AND EXAMPLES") && text.contains(".SH SYNOPSIS"), "{}", page.display());
    }
    assert!(pages.join("man7/plumb-account.7").exists() && !pages.join("man1/plumb-disk-server.1").exists());
    // The presets of load are alike: one of them stands for all.
    for page in [
        "man1/plumb.1",
        "man1/plumb-run.1",
        "man1/plumb-load-syncwrite.1",
        "man1/plumb-plan-run.1",
        "man7/plumb-account.7",
        "man7/plumb-events.7",
    ] {
        match complaints(&pages.join(page)) {
            Some(said) => assert_eq!(said, "", "{page}"),
            None => {
                println!("SKIP manual_pages_are_there_for_all_and_without_warnings: no man and no groff is installed");
                return;
            }
        }
    }
}

/// What bash offers for the last of these words.
fn offered(script: &Path, words: &[&str]) -> Vec<String> {
    let last = words.len() - 1;
    let previous = words[last - 1];
    let line = format!(
        "source {}; COMP_WORDS=({}); COMP_CWORD={last}; _plumb plumb '{}' '{previous}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display(),
        words.iter().map(|w| format!("'{w}'")).collect::<Vec<_>>().join(" "),
        words[last]
    );
    must(Process::new("bash").args(["--norc", "-c", &line])).split_whitespace().map(String::from).collect()
}

/// A name of each list that the scripts offer, begun and whole.
const NAMED: &[(&str, &str, &str)] = &[
    ("plumb disk serve", "atl", "atlas10k4"),
    ("plumb whatif run --disk", "hdp", "hdp72503"),
    ("plumb whatif run --scheduler", "mq", "mq-deadline"),
    ("plumb plan run", "sched-h", "sched-hdd"),
    ("plumb help", "accou", "account"),
    ("plumb record --events", "sched_wakin", "sched_waking"),
    ("plumb events --set", "blo", "block"),
    ("plumb view", "runq", "runqueue"),
    ("plumb view runqueue run --by", "inst", "instead"),
    ("plumb profile run --category", "lock.us", "lock.user"),
    ("plumb guide --may", "schedul", "scheduler"),
];

/// What fish offers for the last word of a line.
fn fish_offers(script: &Path, line: &str) -> String {
    let command = format!("source {}; complete -C '{line}'", script.display());
    must(Process::new("fish").args(["--no-config", "-c", &command]))
}

/// Types the lines, each with a tab, to a zsh on a terminal of its own, and waits for what must appear.
const TYPED: &str = r#"
zmodload zsh/zpty || exit 9
zpty z zsh -f -i
zpty -w z "autoload -Uz compinit; compinit -D -u; source $1; PS1=; echo rea''dy"
zpty -r z said '*ready*' || exit 8
shift
for begun whole in "$@"; do
    zpty -w -n z "$begun"$'\t'
    zpty -r z said "*$whole*" || { echo "$begun: $said"; exit 1; }
    zpty -w -n z $'\x15'
done
"#;

#[test]
fn shells_complete_commands_options_and_names() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = |shell: &str| {
        let path = dir.path().join(shell);
        std::fs::write(&path, must(plumb().args(["completions", shell]))).expect("a file");
        path
    };
    let bash = script("bash");
    must(Process::new("bash").arg("-n").arg(&bash));
    assert_eq!(offered(&bash, &["plumb", "pro"]), ["profile"]);
    assert_eq!(offered(&bash, &["plumb", "plan", "com"]), ["compare"]);
    assert_eq!(offered(&bash, &["plumb", "profile", "--off"]), ["--off-cpu"]);
    assert!(!offered(&bash, &["plumb", "disk", "s"]).contains(&"server".to_string()), "it is not for people");
    for (line, begun, whole) in NAMED {
        let words: Vec<&str> = line.split(' ').chain([*begun]).collect();
        assert_eq!(offered(&bash, &words), [*whole], "{line}");
    }
    // What is no model is a file's name, which the script leaves to bash.
    assert!(offered(&bash, &["plumb", "disk", "serve", "./mine"]).is_empty());
    let (zsh, fish) = (script("zsh"), script("fish"));
    if there("fish") {
        for (line, begun, whole) in NAMED {
            let offers = fish_offers(&fish, &format!("{line} {begun}"));
            assert!(offers.lines().any(|offer| offer.split('\t').next() == Some(whole)), "{line}: {offers}");
        }
        std::fs::write(dir.path().join("mine.toml"), "").expect("a file");
        let begun = format!("plumb whatif run --disk {}/mi", dir.path().display());
        assert!(fish_offers(&fish, &begun).contains("mine.toml"), "a model can be a file");
    }
    if there("zsh") {
        let mut typed = Process::new("timeout");
        typed.args(["60", "zsh", "-f", "-c", TYPED, "typed"]).arg(&zsh);
        for (line, begun, whole) in NAMED {
            typed.args([format!("{line} {begun}"), format!("{line} {whole}")]);
        }
        must(&mut typed);
    }
    for (shell, path) in [("zsh", zsh), ("fish", fish)] {
        assert!(std::fs::metadata(&path).expect("a script").len() > 10_000);
        if there(shell) {
            must(Process::new(shell).arg("-n").arg(&path));
        } else {
            println!("SKIP shells_complete_commands_and_options ({shell}): it is not installed");
        }
    }
}

#[test]
fn colours_are_asked_for_or_not_there() {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/traces/write-fsync");
    let explain = |words: &[&str]| must(plumb().arg("explain").arg(&trace).args(words).env("TERM", "xterm"));
    let plain = explain(&[]);
    assert!(!plain.contains('\x1b'), "a pipe has no colours");
    assert_eq!(plain, explain(&["--wide"]), "a pipe gets everything");
    let painted = explain(&["--color", "always"]);
    assert!(painted.contains("\x1b[1m"), "{painted}");
    let mut bare = String::new();
    for (i, part) in painted.split('\x1b').enumerate() {
        bare += if i == 0 { part } else { part.split_once('m').map_or("", |(_, text)| text) };
    }
    assert_eq!(bare, plain, "colours are all that differs");
}

#[test]
fn coverage_takes_several_runs_and_draws_a_line_for_each() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/traces");
    let runs = ["mutex", "pipe", "hogs"].map(|name| traces.join(name));
    let text = must(plumb().args(["profile", "--coverage"]).args(&runs));
    assert!(text.contains("pipe: of 2 functions 1 cover 50 %, 2 cover 80 %"), "{text}");
    let json = must(plumb().args(["profile", "--coverage", "--json"]).args(&runs));
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&json["runs"][2]["name"], &json["runs"][2]["functions"]), (&"hogs".into(), &2.into()));
    let dir = tempfile::tempdir().expect("a directory");
    let svg = dir.path().join("coverage.svg");
    must(plumb().args(["profile", "--coverage", "--svg"]).arg(&svg).args(&runs));
    let svg = std::fs::read_to_string(&svg).expect("a chart");
    assert_eq!(svg.matches("stroke-width=\"2\" points").count(), 3, "{svg}");
    assert!(["mutex", "pipe", "hogs"].iter().all(|name| svg.contains(&format!("\n{name}\n"))), "{svg}");
    let three = output(plumb().arg("profile").args(&runs));
    assert!(stderr(&three).contains("3 directories: all views but --coverage"), "{}", stderr(&three));
}
