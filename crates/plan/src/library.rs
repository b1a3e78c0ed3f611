// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which plan a word stands for: a file, one that plumb brings along, or a run that was begun.

use super::file::PlanFile;
use super::state::State;
use super::store;
use super::{adapt, cells};
use crate::options;
use crate::program::Program;
use crate::progress::about;
use anyhow::{bail, Context, Result};
use plumb_machine::json::{self, formats, Format, Output};
use plumb_report::terminal::Table;
use plumb_trace::suggest::nearest;
use plumb_trace::units;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The plans of plans/ in the repository: name and text, in the order of `plumb plan list`.
pub const PLANS: &[(&str, &str)] = &[
    ("quick", include_str!("../../../plans/quick.toml")),
    ("diskio", include_str!("../../../plans/diskio.toml")),
    ("diskio-file-systems", include_str!("../../../plans/diskio-file-systems.toml")),
    ("wal", include_str!("../../../plans/wal.toml")),
    ("limit", include_str!("../../../plans/limit.toml")),
    ("bonnie1", include_str!("../../../plans/bonnie1.toml")),
    ("bonnie2", include_str!("../../../plans/bonnie2.toml")),
    ("drill", include_str!("../../../plans/drill.toml")),
    ("threads", include_str!("../../../plans/threads.toml")),
    ("create", include_str!("../../../plans/create.toml")),
    ("readers", include_str!("../../../plans/readers.toml")),
    ("ip-san", include_str!("../../../plans/ip-san.toml")),
    ("kernels", include_str!("../../../plans/kernels.toml")),
    ("web", include_str!("../../../plans/web.toml")),
    ("sched-hdd", include_str!("../../../plans/sched-hdd.toml")),
    ("sched-ssd", include_str!("../../../plans/sched-ssd.toml")),
    ("sched-interval", include_str!("../../../plans/sched-interval.toml")),
    ("sched-database", include_str!("../../../plans/sched-database.toml")),
    ("oltp", include_str!("../../../plans/oltp.toml")),
    ("dbt3", include_str!("../../../plans/dbt3.toml")),
    ("iozone", include_str!("../../../plans/iozone.toml")),
    ("sizing", include_str!("../../../plans/sizing.toml")),
    ("sizing-new", include_str!("../../../plans/sizing-new.toml")),
    ("sizing-machine", include_str!("../../../plans/sizing-machine.toml")),
];

/// What a word stands for.
#[derive(Debug)]
pub enum Opened {
    Plan(Box<PlanFile>),
    /// A run that was begun.
    Begun {
        dir: PathBuf,
        state: Box<State>,
    },
}

/// Opens what a user named: a directory with `plan.json`, the name of a plan, or the path of a .toml.
/// A word without `/` that is a plan's name is that plan.
///
/// # Errors
/// There is no such thing, or it cannot be read; names path, line, and the nearest plan.
pub fn open(word: &Path) -> Result<Opened> {
    if let Some(plan) = word.to_str().map(named).transpose()?.flatten() {
        return Ok(Opened::Plan(Box::new(plan)));
    }
    if word.is_dir() {
        return Ok(Opened::Begun { dir: word.to_path_buf(), state: Box::new(store::state(word)?) });
    }
    let bare = word.components().count() == 1 && word.extension().is_none();
    if bare && !word.exists() {
        bail!("{}", unknown(&word.to_string_lossy()));
    }
    Ok(Opened::Plan(Box::new(read(word)?)))
}

/// The plan that plumb brings along under this name.
///
/// # Errors
/// Its text is no plan.
pub fn named(name: &str) -> Result<Option<PlanFile>> {
    let found = PLANS.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| PlanFile::parse(text).with_context(|| format!("plan {name}"))).transpose()
}

/// A plan's file.
///
/// # Errors
/// It cannot be read, or is no plan; names the path and the line.
pub fn read(path: &Path) -> Result<PlanFile> {
    let text = std::fs::read_to_string(path).with_context(|| format!("plan {}", path.display()))?;
    PlanFile::parse(&text).with_context(|| format!("plan {}", path.display()))
}

fn unknown(word: &str) -> String {
    let names: Vec<&str> = PLANS.iter().map(|(name, _)| *name).collect();
    let near = nearest(word, &names).map(|n| format!("did you mean '{n}'? ")).unwrap_or_default();
    format!(
        "there is no plan '{word}'; {near}there are: {}. A file is named by its path, as in ./{word}.toml",
        names.join(", ")
    )
}

/// The plan that a user asks to run, with what the command line changes in it; of a run that was begun its own.
///
/// # Errors
/// There is no such plan, it cannot be read, or it has not what is to be changed.
pub fn asked(options: &options::Run, program: &dyn Program) -> Result<PlanFile> {
    let plan = match open(&options.plan)? {
        Opened::Plan(plan) => *plan,
        Opened::Begun { state, .. } => state.plan,
    };
    adapt::changed(&plan, &options.changes, program)
}

#[derive(Serialize)]
struct Plans {
    plans: Vec<Listed>,
}

impl Output for Plans {
    const FORMAT: &'static Format = &formats::PLANS;
}

/// A shipped plan.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    title: String,
    takes_ns: u64,
    /// Combinations of its factors' levels that are measured.
    cells: usize,
    /// Repetitions of each.
    repeat: u32,
    purpose: String,
    /// Paper or tool that it repeats.
    source: Option<String>,
}

/// `plumb plan list`.
///
/// # Errors
/// The writer's.
pub fn main(as_json: bool, program: &dyn Program) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    let mut table = Table::new(&["<plan", "<what it is", "<takes", "cells", "repetitions"]);
    let mut plans = Vec::new();
    for (name, _) in PLANS {
        let Some(plan) = named(name)? else { continue };
        let cells = cells::of(&plan, program).with_context(|| format!("plan {name}"))?;
        let count = cells.iter().filter(|c| c.skipped.is_none()).count();
        plans.push(Listed {
            name,
            title: plan.title.clone(),
            takes_ns: plan.takes.0,
            cells: count,
            repeat: plan.repeat,
            purpose: plan.purpose.clone(),
            source: plan.source.clone(),
        });
        table.row(vec![
            name.to_string(),
            plan.title.clone(),
            format!("about {}", about(plan.takes.0)),
            units::count(count as u64),
            plan.repeat.to_string(),
        ]);
    }
    if as_json {
        json::write(&mut out, &Plans { plans })?;
    } else {
        table.write(&mut out)?;
        writeln!(out, "'plumb plan show NAME' says what one does to this system.")?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::testing::TestProgram;
    use plumb_sim::spec::Spec;

    fn plans() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans")
    }

    #[test]
    fn every_file_of_plans_is_here_and_resolves() {
        let mut files: Vec<String> = std::fs::read_dir(plans())
            .expect("plans/")
            .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
            .filter_map(|name| name.strip_suffix(".toml").map(String::from))
            .collect();
        files.sort();
        let mut names: Vec<&str> = PLANS.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        assert_eq!(files, names, "a file of plans/ and a line of PLANS belong together");
        for name in names {
            let plan = named(name).unwrap_or_else(|e| panic!("{name}: {e:#}")).expect(name);
            assert_eq!(plan.name, name, "its name is its file's");
            let cells = cells::of(&plan, &TestProgram).unwrap_or_else(|e| panic!("{name}: {e:#}"));
            assert!(!cells.is_empty());
            let again = PlanFile::parse(&plan.text().expect("TOML")).expect("a plan");
            assert_eq!(again, plan, "{name}: is written as it is read");
            for (device, spec) in &plan.devices {
                let Some(model) = &spec.model else { continue };
                Spec::load(model, &spec.set).unwrap_or_else(|e| panic!("{name}, device {device}: {e}"));
            }
        }
    }

    #[test]
    fn a_word_is_a_plan_a_file_or_a_directory() {
        assert!(matches!(open(Path::new("quick")), Ok(Opened::Plan(p)) if p.name == "quick"));
        let file = plans().join("quick.toml");
        assert!(matches!(open(&file), Ok(Opened::Plan(p)) if p.name == "quick"));
        let dir = tempfile::tempdir().expect("a directory");
        let said = format!("{:#}", open(dir.path()).expect_err("empty"));
        assert!(said.contains("holds no run") && said.contains("-o"), "{said}");
        let plan = named("quick").expect("a plan").expect("quick");
        let cells = cells::of(&plan, &TestProgram).expect("cells");
        let state = State {
            arguments: vec!["plumb".into()],
            schedule: super::super::order::schedule(&plan, &cells),
            cells,
            ..State::empty(plan)
        };
        std::fs::write(dir.path().join("plan.json"), serde_json::to_vec(&state).expect("JSON"))
            .expect("write");
        assert!(matches!(open(dir.path()), Ok(Opened::Begun { state: read, .. }) if *read == state));
        std::fs::write(dir.path().join("plan.json"), "{\"plumb\"").expect("write");
        let said = format!("{:#}", open(dir.path()).expect_err("damaged"));
        assert!(said.contains("plan.json") && said.contains("damaged"), "{said}");
    }

    #[test]
    fn what_is_not_there_is_told_with_the_nearest() {
        let said = format!("{:#}", open(Path::new("quikc")).expect_err("no plan"));
        assert!(said.contains("did you mean 'quick'") && said.contains("./quikc.toml"), "{said}");
        let said = format!("{:#}", open(Path::new("./none.toml")).expect_err("no file"));
        assert!(said.contains("./none.toml") && said.contains("No such file"), "{said}");
    }
}
