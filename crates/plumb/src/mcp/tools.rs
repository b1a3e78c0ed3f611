// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an assistant can ask, and the answers.

use crate::query::{schema_of, table_list};
use crate::repeat::run_of;
use anyhow::{bail, Context, Result};
use plumb_analysis::{Analysis, Pass};
use plumb_compare::comparison::{Comparison, Options};
use plumb_compare::show;
use plumb_diagnose::Finding;
use plumb_report::fill::fill;
use plumb_report::plain::Plain;
use plumb_report::query::{runs, Format, Query, MEMORY};
use plumb_report::table::Table;
use serde::Deserialize;
use serde_json::{json, Map, Value};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// Most bytes of an answer: what a reader of text can still use.
const MOST: usize = 32 << 10;
/// Rows of an account, and findings, unless more are asked for.
const ROWS: usize = 10;
/// Runs whose verdicts are listed; of more the names alone.
const VERDICTS: usize = 50;

/// An argument of a tool.
pub struct Argument {
    pub name: &'static str,
    pub about: &'static str,
    pub required: bool,
}

const fn needed(name: &'static str, about: &'static str) -> Argument {
    Argument { name, about, required: true }
}

const fn may(name: &'static str, about: &'static str) -> Argument {
    Argument { name, about, required: false }
}

const RUN: Argument = needed("run", "Name of a run, as list_runs tells it.");
const SERVICE: Argument =
    may("service", "Only this service of a whole machine, or only processes of this name.");
const TOP: Argument = may("top", "How many at most, the largest first. Default 10.");

/// What can be asked.
pub struct Tool {
    pub name: &'static str,
    pub about: &'static str,
    pub arguments: &'static [Argument],
    answer: fn(&Runs, &Given<'_>) -> Result<String>,
}

pub const TOOLS: &[Tool] = &[
    Tool {
        name: "list_runs",
        about: "The runs that can be asked about: name, command or target, and the first line of the verdict.",
        arguments: &[],
        answer: list,
    },
    Tool {
        name: "verdict",
        about: "What limits a run, in sentences, with how far to trust it; of a whole machine also what limits each service.",
        arguments: &[RUN, SERVICE],
        answer: verdict,
    },
    Tool {
        name: "findings",
        about: "What takes a run's time, largest first: share of the time, estimated speed-up without it, evidence, doubt, \
                next step.",
        arguments: &[RUN, SERVICE, TOP],
        answer: findings,
    },
    Tool {
        name: "account",
        about: "Where the thread time of a run's processes went, by category; categories exclude each other and add up to it.",
        arguments: &[RUN, SERVICE, TOP],
        answer: account,
    },
    Tool {
        name: "tables",
        about: "The tables that query reads, or the columns of one with their units, as SQL.",
        arguments: &[may("table", "Name of a table.")],
        answer: tables,
    },
    Tool {
        name: "query",
        about: "Runs an SQL statement (SQLite) over the tables of runs; rows as CSV.",
        arguments: &[
            needed("sql", "One SELECT statement."),
            needed("run", "Name of a run, or of several separated by commas."),
        ],
        answer: query,
    },
    Tool {
        name: "compare",
        about: "What differs between two runs or sets of runs, with its error where there are several.",
        arguments: &[
            needed("before", "Name of a run or a set."),
            needed("after", "Name of a run or a set."),
            SERVICE,
        ],
        answer: compare,
    },
];

impl Tool {
    /// Answers with at most [`MOST`] bytes.
    ///
    /// # Errors
    /// An argument that it does not have or that is missing; no such run; what the command of that name says.
    pub fn answer(&self, runs: &Runs, given: &Map<String, Value>) -> Result<String> {
        if let Some(other) = given.keys().find(|key| self.arguments.iter().all(|a| a.name != **key)) {
            bail!("{} has no argument {other}", self.name);
        }
        let lacking = self.arguments.iter().find(|a| a.required && given.get(a.name).is_none());
        if let Some(argument) = lacking {
            bail!("{} needs the argument {}: {}", self.name, argument.name, argument.about);
        }
        (self.answer)(runs, &Given(given))
    }
}

/// Arguments of a call.
struct Given<'a>(&'a Map<String, Value>);

impl Given<'_> {
    fn text(&self, name: &str) -> String {
        match self.0.get(name) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.trim().into(),
            Some(other) => other.to_string(),
        }
    }

    fn comms(&self) -> Vec<String> {
        Some(self.text("service")).filter(|s| !s.is_empty()).into_iter().collect()
    }

    fn top(&self) -> Result<usize> {
        let text = self.text("top");
        if text.is_empty() {
            return Ok(ROWS);
        }
        text.parse().with_context(|| format!("top: '{text}' is no number"))
    }
}

/// The runs below some directories.
pub struct Runs {
    dirs: Vec<PathBuf>,
    /// The one that was read last: who asks goes on asking about it.
    last: Mutex<Option<Read>>,
}

struct Read {
    dir: PathBuf,
    comms: Vec<String>,
    analysis: Arc<Analysis>,
}

impl Runs {
    /// # Errors
    /// A directory is not there.
    pub fn below(dirs: &[PathBuf]) -> Result<Self> {
        let real = |dir: &PathBuf| dir.canonicalize().with_context(|| dir.display().to_string());
        Ok(Self { dirs: dirs.iter().map(real).collect::<Result<_>>()?, last: Mutex::new(None) })
    }

    /// The directory of a run; none outside of ours.
    fn dir(&self, name: &str) -> Result<PathBuf> {
        let mut found = self.dirs.iter().filter_map(|dir| dir.join(name).canonicalize().ok());
        let ours = |path: &PathBuf| self.dirs.iter().any(|dir| path.starts_with(dir)) && path.is_dir();
        found
            .find(ours)
            .with_context(|| format!("there is no run {name}; list_runs names those that there are"))
    }

    fn name(&self, path: &Path) -> String {
        let within = self.dirs.iter().find_map(|dir| path.strip_prefix(dir).ok());
        let name = within.unwrap_or(path).display().to_string();
        if name.is_empty() {
            ".".into()
        } else {
            name
        }
    }

    fn read(&self, given: &Given<'_>) -> Result<Arc<Analysis>> {
        let (dir, comms) = (run_of(self.dir(&given.text("run"))?)?, given.comms());
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(read) = last.as_ref().filter(|r| r.dir == dir && r.comms == comms) {
            return Ok(read.analysis.clone());
        }
        // Before the next one comes, or memory held two.
        *last = None;
        let trace = plumb_analysis::open(&dir)?;
        let analysis = Arc::new(Pass::over(&trace).only(&comms).analysis()?);
        *last = Some(Read { dir, comms, analysis: analysis.clone() });
        Ok(analysis)
    }
}

/// JSON of at most [`MOST`] bytes: the last of a list are left out, and how many is told.
fn fit(mut answer: Value, list: &str) -> Result<String> {
    let mut left = 0;
    loop {
        let text = serde_json::to_string_pretty(&answer)?;
        let rows = answer.get_mut(list).and_then(Value::as_array_mut);
        match rows {
            Some(rows) if text.len() > MOST && !rows.is_empty() => {
                left += rows.len().div_ceil(4);
                rows.truncate(rows.len() - rows.len().div_ceil(4));
                answer["left_out"] = json!(left);
            }
            _ => return Ok(cut(text)),
        }
    }
}

fn cut(mut text: String) -> String {
    if text.len() > MOST {
        let end = (0..=MOST).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str("\n[the rest is left out: ask for less]\n");
    }
    text
}

/// Takes the first bytes, and no more.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() > MOST {
            return Err(io::Error::other("enough"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Bounded {
    /// What was written, whether or not there was more.
    fn of(write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<String> {
        let mut out = Bounded(Vec::new());
        let written = write(&mut Plain(&mut out));
        if out.0.len() <= MOST {
            written?;
        }
        Ok(cut(String::from_utf8_lossy(&out.0).into_owned()))
    }
}

fn list(ours: &Runs, _: &Given<'_>) -> Result<String> {
    /// Of result.json.
    #[derive(Deserialize)]
    struct Told {
        #[serde(default)]
        verdict: Vec<String>,
        #[serde(default)]
        environment: std::collections::BTreeMap<String, String>,
    }
    // A directory without runs is no error of the others.
    let found: Vec<_> =
        ours.dirs.iter().filter_map(|dir| runs(std::slice::from_ref(dir)).ok()).flatten().collect();
    let row = |run: &plumb_report::query::RunDir| {
        let mut row = json!({ "run": ours.name(&run.path) });
        if found.len() <= VERDICTS {
            let told = std::fs::read(run.path.join("result.json")).ok();
            if let Some(told) = told.and_then(|bytes| serde_json::from_slice::<Told>(&bytes).ok()) {
                row["target"] = json!(told.environment.get("target"));
                row["verdict"] = json!(told.verdict.first());
            }
        }
        row
    };
    let rows: Vec<Value> = found.iter().map(row).collect();
    let more = rows.is_empty().then_some("plumb run -o DIR -- COMMAND records one");
    fit(json!({ "runs": rows, "hint": more }), "runs")
}

fn short(finding: &Finding) -> Value {
    json!({ "id": finding.id, "headline": finding.headline, "share": finding.share, "speedup": finding.speedup })
}

fn verdict(ours: &Runs, given: &Given<'_>) -> Result<String> {
    let run = ours.read(given)?;
    let (diagnosis, result) = (&run.diagnosis, &run.result);
    let services: Vec<Value> = diagnosis
        .services
        .iter()
        .map(|s| {
            json!({ "name": s.name, "cpu_ns": s.cpu_used, "requests": s.requests, "verdict": s.diagnosis.verdict.first() })
        })
        .collect();
    let answer = json!({
        "run": given.text("run"),
        "target": run.environment.get("target"),
        "elapsed_ns": result.end.saturating_sub(result.begin),
        "valid": run.quality.valid(),
        "verdict": diagnosis.verdict,
        "limit": diagnosis.kind,
        "confidence": diagnosis.confidence,
        "findings": diagnosis.findings.iter().take(ROWS).map(short).collect::<Vec<_>>(),
        "services": services,
    });
    fit(answer, "services")
}

fn findings(ours: &Runs, given: &Given<'_>) -> Result<String> {
    let (run, top) = (ours.read(given)?, given.top()?);
    let rows: Vec<&Finding> = run.diagnosis.findings.iter().take(top).collect();
    let more = run.diagnosis.findings.len() - rows.len();
    fit(json!({ "run": given.text("run"), "findings": rows, "more": more }), "findings")
}

fn account(ours: &Runs, given: &Given<'_>) -> Result<String> {
    let (run, top) = (ours.read(given)?, given.top()?);
    if !run.quality.no_account.is_empty() {
        bail!("no account: these events were not recorded: {}", run.quality.no_account.join(", "));
    }
    let mut processes: Vec<_> = run.result.processes.iter().collect();
    processes.sort_by_key(|p| std::cmp::Reverse(p.thread_time));
    let mut whole = std::collections::BTreeMap::new();
    for (category, ns) in processes.iter().flat_map(|p| &p.account) {
        *whole.entry(*category).or_insert(0u64) += ns;
    }
    let row = |p: &&plumb_model::ProcessRow| {
        json!({ "pid": p.pid, "name": p.comm, "command": p.cmdline, "thread_time_ns": p.thread_time, "threads": p.threads.len(),
                "account_ns": p.account })
    };
    let rows: Vec<Value> = processes.iter().take(top).map(row).collect();
    let more = processes.len() - rows.len();
    let answer = json!({ "run": given.text("run"), "account_ns": whole, "processes": rows, "more": more });
    fit(answer, "processes")
}

fn tables(_: &Runs, given: &Given<'_>) -> Result<String> {
    let name = given.text("table");
    Bounded::of(|out| if name.is_empty() { table_list(out) } else { schema_of(&name, out) })
}

fn query(ours: &Runs, given: &Given<'_>) -> Result<String> {
    let query = Query::new(&given.text("sql"), MEMORY)?;
    let names = given.text("run");
    let dirs: Vec<PathBuf> = names.split(',').map(|name| ours.dir(name.trim())).collect::<Result<_>>()?;
    let used: Vec<&'static Table> = query.tables().collect();
    let mut loader = query.loader()?;
    for run in runs(&dirs)? {
        fill(&run, &used, &mut loader, &AtomicBool::new(false))?;
    }
    loader.finish()?;
    Bounded::of(|out| query.run(Format::Csv, out).map(|_| ()))
}

fn compare(ours: &Runs, given: &Given<'_>) -> Result<String> {
    let side = |name: &str| ours.dir(&given.text(name));
    let (a, b) = (side("before")?, side("after")?);
    let comparison = Comparison::read(&Options { a, b, comm: given.comms(), gates: Vec::new() })?;
    Bounded::of(|out| show::print(&comparison, out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(runs: &Runs, tool: &str, given: Value) -> Result<String> {
        let given = given.as_object().cloned().unwrap_or_default();
        TOOLS.iter().find(|t| t.name == tool).expect("a tool").answer(runs, &given)
    }

    #[test]
    fn only_runs_below_the_directories_are_read() {
        let dir = tempfile::tempdir().expect("directory");
        for name in ["ours/run", "other/run"] {
            std::fs::create_dir_all(dir.path().join(name)).expect("directory");
        }
        std::os::unix::fs::symlink(dir.path().join("other"), dir.path().join("ours/link")).expect("link");
        let runs = Runs::below(&[dir.path().join("ours")]).expect("ours");
        assert!(runs.dir("run").is_ok() && runs.dir(".").is_ok());
        for name in ["../other/run", "link/run", "/etc", "none", "run\0"] {
            let said = runs.dir(name).expect_err(name).to_string();
            assert!(said.contains("list_runs"), "{said}");
        }
        assert!(Runs::below(&[dir.path().join("none")]).is_err());
    }

    #[test]
    fn arguments_are_looked_at() {
        let dir = tempfile::tempdir().expect("directory");
        let runs = Runs::below(&[dir.path().into()]).expect("ours");
        let said = |tool, given| ask(&runs, tool, given).expect_err("refused").to_string();
        assert!(said("verdict", json!({})).starts_with("verdict needs the argument run"));
        assert_eq!(said("verdict", json!({ "run": ".", "pid": 1 })), "verdict has no argument pid");
        assert_eq!(
            said("tables", json!({ "table": "nix" })).split(';').next(),
            Some("there is no table nix")
        );
        let none = ask(&runs, "list_runs", json!({})).expect("an answer");
        assert!(none.contains("records one"), "{none}");
        assert!(ask(&runs, "tables", json!({})).expect("a list").contains("services"));
    }

    #[test]
    fn answers_are_bounded() {
        let rows: Vec<Value> = (0..2000).map(|n| json!({ "name": format!("{n:0>60}") })).collect();
        let text = fit(json!({ "rows": rows }), "rows").expect("JSON");
        let back: Value = serde_json::from_str(&text).expect("still JSON");
        assert!(text.len() <= MOST);
        let kept = back["rows"].as_array().expect("rows").len() as u64;
        assert_eq!(kept + back["left_out"].as_u64().expect("a number"), 2000);
        let long = Bounded::of(|out| Ok(write!(out, "{}", "ü".repeat(MOST))?)).expect("text");
        assert!(long.len() < MOST + 100 && long.ends_with("ask for less]\n"));
        let endless = Bounded::of(|out| loop {
            writeln!(out, "a row")?;
        });
        assert!(endless.expect("text").len() < MOST + 100);
    }
}
