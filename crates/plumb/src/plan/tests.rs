// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads and recordings of plans, as this program reads them.

use super::*;
use plumb_load::job::Job;
use plumb_plan::arguments::{check_record, load_arguments, load_cells};
use plumb_plan::file::Settings;
use plumb_plan::{cells, library};

fn jobs(settings: &Settings) -> Result<Vec<Job>> {
    let cells = load_cells(settings, &ThisProgram)?;
    Ok(cells.into_iter().flat_map(|c| c.steps).flat_map(|s| s.jobs).collect())
}

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
    let all = jobs(&settings("[load]\nwhat = \"read\"\nblock = \"8K\"\ndirect = true\n")).expect("a load");
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
    let check = |words: &[&str]| {
        check_record(&words.iter().map(ToString::to_string).collect::<Vec<_>>(), &ThisProgram)
    };
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

#[test]
fn the_plans_that_plumb_brings_along_are_loads_that_it_has() {
    for (name, _) in library::PLANS {
        let plan = library::named(name).expect(name).expect(name);
        let cells = cells::of(&plan, &ThisProgram).unwrap_or_else(|e| panic!("{name}: {e:#}"));
        assert!(!cells.is_empty());
    }
}
