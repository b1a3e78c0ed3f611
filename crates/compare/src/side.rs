// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A and B: a run, a trace, or a set of runs.

use super::environment;
use super::measure::{measures, Measure};
use crate::set::{SetFile, SET};
use anyhow::{bail, Context, Result};
use plumb_analysis::Pass;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// What a directory was found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A run directory, or a trace alone.
    Run,
    Set,
}

/// Why a run of a set is left out.
const CUT_OFF: &str = "the recording was cut off";

/// One run of a side.
#[derive(Debug, Clone, Serialize)]
pub struct Member {
    pub dir: PathBuf,
    /// The command's exit code, where it is known.
    pub exit_code: Option<i32>,
    /// How long it took was chosen, or is a part of the whole: it says nothing of speed.
    pub length_given: bool,
    /// Events that were lost, and places that cannot be read.
    pub not_valid: Vec<String>,
    /// Sentences on what lowers its worth besides.
    pub doubts: Vec<String>,
    /// The recording has no end.
    #[serde(skip)]
    pub cut_off: bool,
    /// Events without which there is no account of time, and that were not recorded.
    pub no_account: Vec<String>,
    /// Where and how it was made.
    #[serde(skip)]
    pub environment: BTreeMap<String, String>,
    #[serde(skip)]
    pub measures: Vec<Measure>,
}

/// A run that is not compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    pub dir: PathBuf,
    pub why: String,
}

#[derive(Debug, Clone, Serialize)]
pub struct Side {
    pub path: PathBuf,
    pub kind: Kind,
    pub members: Vec<Member>,
    /// Runs of the set that are not compared.
    pub left_out: Vec<LeftOut>,
}

impl Side {
    /// Reads and explains every run of a side.
    ///
    /// # Errors
    /// There is no run, or none of the set is whole, or one cannot be read; named.
    pub fn load(path: &Path, comm: &[String]) -> Result<Self> {
        let (kind, dirs, mut left_out) = find(path)?;
        let mut members = Vec::new();
        for dir in dirs {
            let member = member(&dir, comm)?;
            match (kind, member.cut_off) {
                (Kind::Set, true) => left_out.push(LeftOut { dir, why: CUT_OFF.into() }),
                _ => members.push(member),
            }
        }
        if members.is_empty() {
            bail!(
                "{}: no repetition of this set is whole ({}); run it again",
                path.display(),
                left_out
                    .iter()
                    .map(|l| format!("{}: {}", l.dir.display(), l.why))
                    .collect::<Vec<_>>()
                    .join("; ")
            );
        }
        Ok(Self { path: path.to_path_buf(), kind, members, left_out })
    }

    /// How long its runs took says nothing of speed.
    pub fn length_given(&self) -> bool {
        self.members.iter().any(|m| m.length_given)
    }
}

fn is_run(dir: &Path) -> bool {
    ["run.json", "trace", "metadata"].iter().any(|name| dir.join(name).exists())
}

/// The run directories below a path.
fn find(path: &Path) -> Result<(Kind, Vec<PathBuf>, Vec<LeftOut>)> {
    const NEXT: &str =
        "give the directory of a run, a trace or a set ('plumb run -o DIR' and '--repeat' make them)";
    let meta = std::fs::metadata(path).with_context(|| format!("{}: {NEXT}", path.display()))?;
    if !meta.is_dir() {
        bail!("{} is a file; {NEXT}", path.display());
    }
    let file = path.join(SET);
    if file.exists() {
        let text = File::open(&file).with_context(|| file.display().to_string())?;
        let set: SetFile = serde_json::from_reader(BufReader::new(text))
            .with_context(|| format!("{}: not a set that this program can read", file.display()))?;
        let (whole, rest): (Vec<_>, Vec<_>) = set.repetitions.iter().partition(|r| r.complete);
        let left_out = rest.iter().map(|r| LeftOut {
            dir: path.join(&r.dir),
            why: r.error.clone().unwrap_or_else(|| "interrupted".into()),
        });
        return Ok((Kind::Set, whole.iter().map(|r| path.join(&r.dir)).collect(), left_out.collect()));
    }
    if is_run(path) {
        return Ok((Kind::Run, vec![path.to_path_buf()], Vec::new()));
    }
    let entries = std::fs::read_dir(path).with_context(|| path.display().to_string())?;
    let mut dirs: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).filter(|d| is_run(d)).collect();
    if dirs.is_empty() {
        bail!("{} holds no run, no trace and no set; {NEXT}", path.display());
    }
    // 2 before 10.
    dirs.sort_by_key(|d| {
        let name = d.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (name.len(), name)
    });
    Ok((Kind::Set, dirs, Vec::new()))
}

fn member(dir: &Path, comm: &[String]) -> Result<Member> {
    let trace = plumb_analysis::open(dir)?;
    let explained = Pass::over(&trace).only(comm).analysis().with_context(|| dir.display().to_string())?;
    let state = trace.state;
    let version = File::open(dir.join("run.json"))
        .ok()
        .and_then(|f| serde_json::from_reader::<_, Value>(BufReader::new(f)).ok())
        .and_then(|run| Some(run["plumb"].as_str()?.to_string()));
    let end = state.end.as_ref();
    let reason = end.map_or("", |e| e.reason.as_str());
    let command = explained.environment.get("target_kind").is_none_or(|k| k == "command");
    let (mut not_valid, mut doubts) = (Vec::new(), Vec::new());
    let q = &explained.quality;
    if q.lost > 0 {
        not_valid.push(format!("{} events were lost", q.lost));
    }
    not_valid.extend(q.damage.iter().map(|d| format!("damaged: {d}")));
    if q.cut_off {
        doubts.push(CUT_OFF.into());
    }
    if reason.starts_with("stopped") {
        doubts.push("the recording was stopped by the user".into());
    }
    let exit_code = end.filter(|e| command && e.exit_code >= 0).map(|e| e.exit_code);
    if let Some(code) = exit_code.filter(|c| *c != 0) {
        doubts.push(format!("the command failed: exit code {code}"));
    }
    Ok(Member {
        dir: dir.to_path_buf(),
        exit_code,
        length_given: !command || exit_code.is_none(),
        not_valid,
        doubts,
        cut_off: q.cut_off,
        no_account: q.no_account.clone(),
        environment: environment::of(&explained.environment, version, &state),
        measures: measures(&explained.result, q.no_account.is_empty(), &serde_json::to_value(&explained)?),
    })
}
