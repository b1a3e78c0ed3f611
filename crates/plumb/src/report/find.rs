// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a path holds that a report can be made of.

use anyhow::{bail, Context, Result};
use plumb_plan::store::STATE;
use plumb_report::document_files::DOCUMENT;
use plumb_report::run_directory::LOAD;
use serde::de::IgnoredAny;
use serde::Deserialize;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// What a report is made of.
#[derive(Debug, PartialEq, Eq)]
pub enum Subject {
    /// A run directory, or a trace alone.
    Run(PathBuf),
    Set(PathBuf),
    /// Recordings of several hosts.
    Hosts(Vec<PathBuf>),
    Plan(PathBuf),
    /// A workload's result, and the directory that it is the only thing in.
    Load {
        file: PathBuf,
        dir: Option<PathBuf>,
    },
    Document(PathBuf),
}

/// What a path holds.
///
/// # Errors
/// Nothing that a report can be made of; named, with what to give.
pub fn subject(path: &Path) -> Result<Subject> {
    const NEXT: &str =
        "give a run directory, a trace, a set of runs or recordings, a plan's directory, or the \
                        output of plumb load --json";
    let meta = std::fs::metadata(path).with_context(|| format!("{}: {NEXT}", path.display()))?;
    if !meta.is_dir() {
        return file(path).with_context(|| format!("{}: {NEXT}", path.display()));
    }
    let has = |name: &str| path.join(name).exists();
    if has(STATE) {
        return Ok(Subject::Plan(path.into()));
    }
    if has("set.json") {
        return Ok(Subject::Set(path.into()));
    }
    match plumb_net::recordings(path)?.as_deref() {
        Some([]) => bail!("{}: nothing was collected yet", path.display()),
        Some([one]) => return Ok(Subject::Run(one.clone())),
        Some(several) => return Ok(Subject::Hosts(several.into())),
        None if is_run(path) => return Ok(Subject::Run(path.into())),
        None => {}
    }
    if has(LOAD) {
        return Ok(Subject::Load { file: path.join(LOAD), dir: Some(path.into()) });
    }
    if has(DOCUMENT) {
        return Ok(Subject::Document(path.join(DOCUMENT)));
    }
    let entries = std::fs::read_dir(path).with_context(|| path.display().to_string())?;
    let mut runs: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).filter(|d| is_run(d)).collect();
    // 2 before 10.
    runs.sort_by_key(|d| (d.as_os_str().len(), d.clone()));
    match runs.first() {
        Some(first) => {
            eprintln!("{} holds {} runs; this is {}", path.display(), runs.len(), first.display());
            Ok(Subject::Run(first.clone()))
        }
        None => bail!("{}: holds nothing that a report can be made of; {NEXT}", path.display()),
    }
}

fn is_run(dir: &Path) -> bool {
    ["run.json", "result.json", "trace", "metadata"].iter().any(|name| dir.join(name).exists())
}

/// Keys that tell the kinds of JSON apart.
#[derive(Deserialize)]
struct Keys {
    words: Option<IgnoredAny>,
    cells: Option<IgnoredAny>,
    clock: Option<IgnoredAny>,
    table: Option<IgnoredAny>,
}

fn file(path: &Path) -> Result<Subject> {
    let file = File::open(path)?;
    let keys: Keys = serde_json::from_reader(BufReader::new(file)).map_err(|e| {
        let what = if e.is_eof() { "it is cut off" } else { "it is no JSON of plumb's" };
        anyhow::anyhow!("{what} ({e})")
    })?;
    match keys {
        Keys { words: Some(_), .. } => Ok(Subject::Document(path.into())),
        Keys { cells: Some(_), clock: Some(_), .. } => Ok(Subject::Load { file: path.into(), dir: None }),
        Keys { table: Some(_), .. } => bail!("it is a plan's report: give the plan's directory"),
        _ => bail!("it is no JSON that a report can be made of"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_what_lies_there() {
        let temp = tempfile::tempdir().expect("a directory");
        let at = |name: &str| temp.path().join(name);
        let put = |name: &str, text: &str| {
            std::fs::create_dir_all(at(name).parent().expect("a directory")).expect("writable");
            std::fs::write(at(name), text).expect("writable");
        };
        put("run/run.json", "{}");
        put("trace/metadata", "");
        put("no-trace/result.json", "{}");
        put("set/set.json", "{}");
        put("set/1/run.json", "{}");
        put("plan/plan.json", "{}");
        put("plan/report.json", "{\"table\": {}, \"format\": 1}");
        put("load/load.json", "{\"cells\": [], \"clock\": {}}");
        put("only/report.json", "{\"format\": 1, \"words\": {}}");
        put("several/2/run.json", "{}");
        put("several/10/run.json", "{}");
        put("hosts/web/metadata", "");
        put("hosts/db/metadata", "");
        put("one/web/metadata", "");
        put("nothing/x", "");
        put("cut.json", "{\"words\": {");
        let is = |name: &str| subject(&at(name)).map_err(|e| format!("{e:#}"));
        for run in ["run", "trace", "no-trace"] {
            assert_eq!(is(run), Ok(Subject::Run(at(run))));
        }
        assert_eq!(is("several"), Ok(Subject::Run(at("several/2"))));
        assert_eq!(is("hosts"), Ok(Subject::Hosts(vec![at("hosts/db"), at("hosts/web")])));
        assert_eq!(is("one"), Ok(Subject::Run(at("one/web"))));
        assert_eq!(is("set"), Ok(Subject::Set(at("set"))));
        assert_eq!(is("plan"), Ok(Subject::Plan(at("plan"))));
        let file = at("load/load.json");
        assert_eq!(is("load"), Ok(Subject::Load { file: file.clone(), dir: Some(at("load")) }));
        assert_eq!(is("load/load.json"), Ok(Subject::Load { file, dir: None }));
        assert_eq!(is("only"), Ok(Subject::Document(at("only/report.json"))));
        assert_eq!(is("only/report.json"), Ok(Subject::Document(at("only/report.json"))));
        for (name, why) in [
            ("plan/report.json", "give the plan's directory"),
            ("cut.json", "cut off"),
            ("nothing", "holds nothing"),
            ("nothing/x", "cut off"),
            ("missing", "No such file"),
        ] {
            let told = is(name).expect_err(name);
            assert!(told.contains(why) && told.contains("give a run directory"), "{name}: {told}");
        }
    }
}
