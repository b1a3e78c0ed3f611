// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The words of `plumb load` and `plumb run` that a cell's settings make, read by the program's own
//! parser before anything runs.

use super::file::{Settings, Value};
use crate::cli::{Cli, Command, LoadArgs, PresetCommand};
use crate::load;
use crate::record;
use anyhow::{bail, Context, Result};
use clap::{CommandFactory, Parser, Subcommand};
use plumb_load::job::{Cell as LoadCell, Job};
use plumb_load::suggest::nearest;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Options of a load that the plan gives itself, and what says so in a plan.
const OWN: &[(&str, &str)] = &[
    ("json", "the plan keeps every repetition's JSON"),
    ("csv", "'plumb plan report --csv' prints every repetition"),
    ("quiet", "the plan shows its own progress"),
    ("log", "a chart of kind \"operations\" keeps it"),
    ("destroy", "give 'plumb plan run --destroy PATH'"),
    ("show-job", "a plan measures"),
    ("help", "see 'plumb load --help'"),
];

/// `plumb load [PRESET] --key=value ... TARGET`. Workers lie in several targets in turn;
/// each copy of a load has one.
pub fn load_arguments(settings: &Settings, targets: &[PathBuf]) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["plumb".into(), "load".into()];
    words.extend(settings.preset.iter().map(OsString::from));
    for (key, value) in &settings.load {
        match value {
            Value::Flag(true) => words.push(format!("--{key}").into()),
            Value::Flag(false) => {}
            other => words.extend(other.words().into_iter().map(|w| OsString::from(format!("--{key}={w}")))),
        }
    }
    let mut targets = targets.iter();
    let first = targets.next();
    for other in targets {
        words.extend([OsString::from("--also"), other.into()]);
    }
    words.extend(first.map(OsString::from));
    words
}

/// The jobs of a cell's load.
///
/// # Errors
/// As [`load_cells`].
pub(super) fn jobs(settings: &Settings) -> Result<Vec<Job>> {
    Ok(load_cells(settings)?.into_iter().flat_map(|c| c.steps).flat_map(|s| s.jobs).collect())
}

/// The cells of a cell's load: of a preset there are several.
///
/// # Errors
/// An unknown preset or option, a bad value, options that contradict each other, or an option
/// that a plan gives itself.
pub(super) fn load_cells(settings: &Settings) -> Result<Vec<LoadCell>> {
    if let Some(preset) = &settings.preset {
        if !PresetCommand::has_subcommand(preset) {
            let all = presets();
            let near = nearest(preset, &all).map(|n| format!("did you mean \"{n}\"? "));
            bail!(
                "preset: there is no preset \"{preset}\"; {}there are: {}",
                near.unwrap_or_default(),
                all.join(", ")
            );
        }
    }
    for key in settings.load.keys() {
        if let Some((_, instead)) = OWN.iter().find(|(own, _)| own == key) {
            bail!("load.{key}: a plan sets it itself; {instead}");
        }
        if key.is_empty() || key.starts_with('-') || key.contains('=') {
            bail!("load.{key}: write an option's long name without dashes, as in load.block = \"8K\"");
        }
    }
    let args = parse_load(settings).map_err(|said| anyhow::anyhow!("load: {said}"))?;
    load::cells(&args).context("load")?.context("load: is no load but a command beside it")
}

fn presets() -> Vec<String> {
    let all = PresetCommand::augment_subcommands(clap::Command::new("presets"));
    all.get_subcommands().map(|c| c.get_name().to_string()).collect()
}

fn parse_load(settings: &Settings) -> Result<LoadArgs, String> {
    let words = load_arguments(settings, &["/target".into()]);
    match parse(words)? {
        Command::Load(args) => Ok(*args),
        _ => Err("is no load".into()),
    }
}

/// Looks through the options of a recording.
///
/// # Errors
/// An unknown option, event or value, or an option that a plan gives itself.
pub(super) fn check_record(options: &[String]) -> Result<()> {
    let own = ["-o", "--output", "--repeat", "--json", "-q", "--quiet", "--no-report", "--"];
    let given =
        |option: &&String| own.iter().any(|o| *o == option.as_str() || option.starts_with(&format!("{o}=")));
    if let Some(option) = options.iter().find(given) {
        bail!("record: {option}: a plan sets it itself; leave it out");
    }
    let head = ["plumb", "run"].map(String::from);
    let tail = ["--output", "/out", "--", "command"].map(String::from);
    let words = head.iter().chain(options).chain(&tail).map(OsString::from);
    let mut args = match parse(words.collect()).map_err(|said| anyhow::anyhow!("record: {said}"))? {
        Command::Run(args) => args,
        _ => bail!("record: is no option of plumb run"),
    };
    // A device of another machine is no mistake of the plan's.
    args.what.device.clear();
    record::options(&args.what, Path::new("/out")).context("record")?;
    Ok(())
}

fn parse(words: Vec<OsString>) -> Result<Command, String> {
    Cli::try_parse_from(words).map(|cli| cli.command).map_err(|e| sentence(&e.to_string()))
}

/// What clap says, on one line and without its advice on how to call the program.
fn sentence(said: &str) -> String {
    let lines = said.lines().map(str::trim).take_while(|l| !l.starts_with("Usage:"));
    let lines = lines.filter(|l| !l.is_empty() && !l.contains("to pass '") && !l.starts_with("For more"));
    let lines = lines.map(|l| l.trim_start_matches("error: ").trim_start_matches("tip: "));
    lines.collect::<Vec<_>>().join("; ")
}

/// Whether `plumb load` has an option of this name, with the cell's preset.
pub(super) fn has_option(preset: Option<&str>, key: &str) -> bool {
    let cli = Cli::command();
    let Some(mut command) = cli.find_subcommand("load") else { return false };
    if let Some(preset) = preset.and_then(|p| command.find_subcommand(p)) {
        command = preset;
    }
    let mut options = command.get_arguments().filter_map(|a| a.get_long());
    options.any(|long| long == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Settings {
        toml::from_str(text).expect(text)
    }

    fn said(text: &str) -> String {
        format!("{:#}", jobs(&settings(text)).expect_err(text))
    }

    #[test]
    fn settings_become_the_words_of_a_load() {
        let all = settings(
            "preset = \"syncwrite\"\n[load]\ndirect = true\nstamp = false\nblock = \"8K\"\nseed = 7\nzipf = 0.5\n\
             destroy = [\"/dev/a\", \"/dev/b\"]\n",
        );
        let words: Vec<String> = load_arguments(&all, &["/mnt/x".into()])
            .into_iter()
            .map(|w| w.to_string_lossy().into_owned())
            .collect();
        let wanted = [
            "plumb",
            "load",
            "syncwrite",
            "--block=8K",
            "--destroy=/dev/a",
            "--destroy=/dev/b",
            "--direct",
            "--seed=7",
            "--zipf=0.5",
            "/mnt/x",
        ];
        assert_eq!(words, wanted);
    }

    #[test]
    fn good_loads_have_jobs() {
        let all =
            jobs(&settings("[load]\nwhat = \"read\"\nblock = \"8K\"\ndirect = true\n")).expect("a load");
        assert_eq!(all.len(), 1);
        assert!(all[0].direct && all[0].block.0 == 8192);
        let all = jobs(&settings("preset = \"syncwrite\"\n[load]\nmethods = \"fsync\"\n")).expect("a preset");
        assert!(!all.is_empty());
    }

    #[test]
    fn bad_loads_are_named() {
        for (text, words) in [
            ("load.blokc = \"8K\"", &["--blokc", "--block"][..]),
            ("load.block = \"many\"", &["--block", "many", "4096"]),
            ("load.sync = \"fsnyc\"", &["fsnyc", "fdatasync"]),
            ("load.depth = 8", &["depth"]),
            ("load.json = true", &["load.json", "sets it itself"]),
            ("load.log = \"x\"", &["load.log", "operations"]),
            ("load.--block = 1", &["load.--block", "without dashes"]),
            ("preset = \"syncwrit\"\n", &["syncwrit", "did you mean \"syncwrite\"", "fileio"]),
            ("preset = \"engines\"\n", &["\"engines\"", "there are: syncwrite"]),
            ("preset = \"syncwrite\"\nload.sync = \"fsync\"", &["--sync", "--methods"]),
        ] {
            let said = said(text);
            assert!(words.iter().all(|w| said.contains(w)), "{text}: {said}");
            assert!(!said.contains("Usage") && !said.contains('\n'), "{text}: {said}");
        }
    }

    #[test]
    fn options_of_a_recording_are_looked_through() {
        let check = |words: &[&str]| check_record(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
        check(&[]).expect("the defaults");
        check(&["--events", "default,fs", "--sample=500", "--device", "/dev/none"]).expect("good options");
        for (words, named) in [
            (&["--evnets", "all"][..], "--evnets"),
            (&["--events", "bolck"], "bolck"),
            (&["--repeat", "3"], "--repeat"),
            (&["-o", "x"], "-o"),
            (&["--", "rm"], "--"),
            (&["--pid", "1"], "--pid"),
        ] {
            let said = format!("{:#}", check(words).expect_err("bad"));
            assert!(said.starts_with("record") && said.contains(named), "{words:?}: {said}");
        }
    }
}
