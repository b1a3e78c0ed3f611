// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The whole suite: every fault and clean run under plumb, judged, with the evidence in a directory.

use crate::catalogue::{Clean, Fault, CLEAN, FAULTS};
use crate::judge::{self, Finding, Judged, Measured, Said};
use crate::run::{self, Strength, Target};
use crate::{stop, summary, sys};
use anyhow::{bail, Context, Result};
use serde::Serialize;
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

/// Times that a run is timed without plumb, with the fault and without; the median counts.
const TIMES: usize = 3;

/// What to do.
#[derive(Debug, clap::Args)]
pub struct Words {
    /// The program that is judged [default: `plumb` beside this program, else on the PATH].
    #[arg(long)]
    pub plumb: Option<PathBuf>,
    /// Only these faults and clean runs.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    pub only: Vec<String>,
    /// Leave out the weak doses.
    #[arg(long)]
    pub strong_only: bool,
    /// Do not measure how much faster the load is without the fault.
    #[arg(long)]
    pub no_speedups: bool,
    /// Try a fault that was not found, or a clean run with an alarm, so often again: on
    /// a machine that others load too. The summary tells which needed it.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub retries: usize,
    /// Run a neighbour beside each recording: one that wants a CPU, or one that writes to the disk
    /// of the temporary directory. Speed-ups are measured without it.
    #[arg(long, value_name = "WHAT")]
    pub beside: Option<Neighbour>,
    /// Directory for the summary and the raw results; it must not hold any.
    #[arg(long, default_value = "plumb-faults-results")]
    pub out: PathBuf,
    /// Events to record, as in `plumb run -e` [default: plumb's own].
    #[arg(long, value_name = "LIST")]
    pub events: Option<String>,
}

/// Who takes resources from what is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Neighbour {
    Cpu,
    Io,
}

impl Neighbour {
    /// Starts it; it ends when it is dropped.
    fn start(self, dir: &Path) -> Result<Beside> {
        let words = match self {
            Self::Cpu => "while :; do :; done".to_owned(),
            Self::Io => format!(
                "while :; do dd if=/dev/zero of='{}/neighbour' bs=1M count=200 conv=fsync status=none; done",
                dir.display()
            ),
        };
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &words]).process_group(0);
        Ok(Beside(command.spawn().context("the neighbour's shell")?))
    }

    /// Name of the process that takes most.
    fn comm(self) -> &'static str {
        match self {
            Self::Cpu => "sh",
            Self::Io => "dd",
        }
    }

    /// Findings that it honestly causes.
    fn causes(self) -> &'static [&'static str] {
        match self {
            Self::Cpu => &["cpu.wait"],
            // Its copies and the kernel's flusher want CPUs too.
            Self::Io => &["io.scheduler", "journal.shared", "device.saturated", "cpu.wait"],
        }
    }
}

/// A neighbour with the processes that it started.
struct Beside(std::process::Child);

impl Drop for Beside {
    fn drop(&mut self) {
        // SAFETY: a group of our own child, which is not waited for yet.
        unsafe { libc::kill(-(self.0.id() as i32), libc::SIGKILL) };
        let _ = self.0.wait();
    }
}

/// A fault, judged.
#[derive(Debug, Serialize)]
pub struct FaultRow {
    /// Its name.
    pub name: &'static str,
    /// strong or weak.
    pub strength: &'static str,
    /// What names its cause.
    pub expect: &'static [&'static str],
    /// How the run went, where it did.
    pub said: Option<Said>,
    /// The judgement.
    pub judged: Judged,
    /// Tries that it took.
    pub tries: usize,
    /// Seconds with the fault and without, without plumb.
    pub seconds: Option<[f64; 2]>,
    /// How many times faster it is without the fault.
    pub speedup: Option<f64>,
    /// The estimate beside that, where the cause was found.
    pub estimate: Option<Measured>,
    /// Why there is no judgement.
    pub error: Option<String>,
}

/// A clean run, judged.
#[derive(Debug, Serialize)]
pub struct CleanRow {
    /// Its name.
    pub name: &'static str,
    /// What it honestly is.
    pub honest: &'static [&'static str],
    /// How the run went, where it did.
    pub said: Option<Said>,
    /// What it was accused of.
    pub alarms: Vec<Finding>,
    /// Tries that it took.
    pub tries: usize,
    /// Why there is no judgement.
    pub error: Option<String>,
}

/// The figures that the claim is about.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// Found of the strong faults.
    pub recall_strong: f64,
    /// Found of the weak ones, unless they were left out.
    pub recall_weak: Option<f64>,
    /// Of these, found after a finding that names the neighbour.
    pub after_neighbour: usize,
    /// On clean runs.
    pub false_alarms: usize,
    /// Clean runs.
    pub clean_runs: usize,
    /// Median of |estimate / measured - 1| over the faults whose cause was found.
    pub estimate_error: Option<f64>,
    /// Measured speed-ups in their estimates' ranges, and how many were measured.
    pub inside: (usize, usize),
    /// Unexplained share of a run's critical path: the median, the largest, and which.
    pub path_unexplained: (f64, f64, String),
    /// Runs that were not right at the first try, with the number of tries.
    pub retried: Vec<String>,
    /// Largest unexplained share of a run, and which.
    pub unexplained: (f64, String),
    /// Largest share by which an account misses the time that it accounts for, and which run.
    pub gap: (f64, String),
    /// Runs without a result.
    pub failed: usize,
    /// Whether all of that is good enough.
    pub passed: bool,
}

/// Everything.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Figures.
    pub figures: Figures,
    /// Machine and versions.
    pub machine: summary::Machine,
    /// Faults.
    pub faults: Vec<FaultRow>,
    /// Clean runs.
    pub clean: Vec<CleanRow>,
}

/// Runs the suite; whether the figures are good enough.
///
/// # Errors
/// Unknown names, no plumb, an output directory with results in it, Ctrl-C.
pub fn main(words: &Words) -> Result<bool> {
    let known =
        |name: &&String| !FAULTS.iter().any(|f| f.name == **name) && !CLEAN.iter().any(|c| c.name == **name);
    if let Some(name) = words.only.iter().find(known) {
        return Err(crate::unknown(name));
    }
    let plumb = plumb(words.plumb.as_deref())?;
    if words.out.join("summary.md").exists() {
        bail!("{}: holds results already; choose another directory with --out", words.out.display());
    }
    let raw = words.out.join("raw");
    std::fs::create_dir_all(&raw).with_context(|| raw.display().to_string())?;
    let suite = Suite { words, plumb: &plumb, raw: &raw, rate: sys::calibrate() };

    let chosen = |name: &str| words.only.is_empty() || words.only.iter().any(|o| o == name);
    let strengths: &[_] =
        if words.strong_only { &[Strength::Strong] } else { &[Strength::Strong, Strength::Weak] };
    let mut faults = Vec::new();
    for fault in FAULTS.iter().filter(|f| chosen(f.name)) {
        for &strength in strengths {
            faults.push(suite.fault(fault, strength)?);
        }
    }
    let mut clean = Vec::new();
    for c in CLEAN.iter().filter(|c| chosen(c.name)) {
        clean.push(suite.clean(c)?);
    }
    let machine = summary::Machine::here(&plumb, words.events.as_deref())?;
    let outcome = Outcome { figures: figures(&faults, &clean), machine, faults, clean };
    summary::write(&words.out, &outcome)?;
    println!("{}", summary::figures(&outcome.figures));
    Ok(outcome.figures.passed)
}

/// Where the judged program is, as an absolute path: clean runs change the directory.
fn plumb(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = named {
        return path.canonicalize().with_context(|| format!("--plumb {}", path.display()));
    }
    let beside = std::env::current_exe().context("own path")?.with_file_name("plumb");
    if beside.exists() {
        return Ok(beside);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join("plumb")).find(|path| path.exists()).with_context(|| {
        format!("no {} and no plumb on the PATH: build it, or name it with --plumb", beside.display())
    })
}

struct Suite<'a> {
    words: &'a Words,
    plumb: &'a Path,
    raw: &'a Path,
    rate: u64,
}

impl Suite<'_> {
    /// Runs plumb on a target, keeps its JSON, and gives it with what was read from it.
    fn said(&self, name: &str, target: &Target) -> Result<Said> {
        // The trace is large and not what is judged: it goes with this directory.
        let dir = tempfile::tempdir().context("temporary directory")?;
        let _beside = self.words.beside.map(|n| n.start(dir.path())).transpose()?;
        let result = target.under(self.plumb, &dir.path().join("run"), self.words.events.as_deref())?;
        let path = self.raw.join(format!("{name}.json"));
        let text = serde_json::to_string(&keep(result.clone()))?;
        std::fs::write(&path, text + "\n").with_context(|| path.display().to_string())?;
        Said::read(&result).map_err(|e| anyhow::anyhow!("{e}"))
    }

    fn fault(&self, fault: &Fault, strength: Strength) -> Result<FaultRow> {
        let name = format!("{}-{}", fault.name, strength.word());
        let (said, judged, mut error, tries) = self.again(|tries| {
            let said =
                run::fault(fault, strength, true, self.rate).and_then(|target| self.said(&name, &target));
            let (said, error) = split(said);
            let findings = said.as_ref().map_or(&[][..], |s| &s.findings);
            let beside = self.words.beside.map(|n| (n.comm(), n.causes()));
            let judged = judge::fault(fault, strength, findings, beside);
            let good = judged.ok;
            ((said, judged, error, tries), good)
        })?;
        let mut seconds = None;
        if fault.compare && !self.words.no_speedups {
            match self.seconds(fault, strength) {
                Ok(both) => seconds = Some(both),
                Err(e) => error = error.or(Some(format!("{e:#}"))),
            }
            stop::check()?;
        }
        let speedup = seconds.map(|[with, without]| with / without);
        let said_so = judged.first.as_ref().filter(|_| judged.ok).and_then(|f| f.speedup);
        let estimate = judge::measured(said_so, speedup);
        let row = FaultRow {
            name: fault.name,
            strength: strength.word(),
            expect: fault.expect,
            said,
            judged,
            tries,
            seconds,
            speedup,
            estimate,
            error,
        };
        eprintln!("{}", summary::line(&row));
        Ok(row)
    }

    /// Tries until it is good, or the retries are used up.
    fn again<T>(&self, mut one: impl FnMut(usize) -> (T, bool)) -> Result<T> {
        for tries in 1.. {
            let (result, good) = one(tries);
            stop::check()?;
            if good || tries > self.words.retries {
                return Ok(result);
            }
        }
        unreachable!("the loop has no end")
    }

    fn seconds(&self, fault: &Fault, strength: Strength) -> Result<[f64; 2]> {
        let mut both = [Vec::new(), Vec::new()];
        // In turn, so that a busy minute of the machine does not fall on one side only.
        for _ in 0..TIMES {
            for (times, on) in both.iter_mut().zip([true, false]) {
                times.push(run::fault(fault, strength, on, self.rate)?.alone()?.as_secs_f64());
            }
        }
        let [with, without] = both.map(judge::median);
        Ok([with.context("no time")?, without.context("no time")?])
    }

    fn clean(&self, clean: &Clean) -> Result<CleanRow> {
        let (said, alarms, error, tries) = self.again(|tries| {
            let said = run::clean(clean, self.rate).and_then(|target| self.said(clean.name, &target));
            let (said, error) = split(said);
            let besides = self.words.beside.map_or(&[][..], Neighbour::causes);
            let honest = [clean.honest, besides].concat();
            let alarms = said.as_ref().map_or_else(Vec::new, |s| judge::alarms(&honest, &s.findings));
            let good = alarms.is_empty() && error.is_none();
            ((said, alarms, error, tries), good)
        })?;
        let row = CleanRow { name: clean.name, honest: clean.honest, said, alarms, tries, error };
        eprintln!("{}", summary::clean_line(&row));
        Ok(row)
    }
}

fn split<T>(result: Result<T>) -> (Option<T>, Option<String>) {
    match result {
        Ok(value) => (Some(value), None),
        Err(e) => (None, Some(format!("{e:#}"))),
    }
}

/// What is kept of a result: everything but the threads' and calls' rows, which are many.
fn keep(mut result: Value) -> Value {
    for process in result["processes"].as_array_mut().into_iter().flatten() {
        if let Some(process) = process.as_object_mut() {
            process.remove("threads");
            process.remove("syscalls");
        }
    }
    result
}

/// The figures of all rows.
pub fn figures(faults: &[FaultRow], clean: &[CleanRow]) -> Figures {
    let of = |strength: Strength| faults.iter().filter(move |r| r.strength == strength.word());
    let recall_strong = judge::recall(of(Strength::Strong).map(|r| r.judged.ok));
    let weak = of(Strength::Weak).count();
    let recall_weak = (weak > 0).then(|| judge::recall(of(Strength::Weak).map(|r| r.judged.ok)));
    let after = |r: &&FaultRow| r.judged.ok && r.judged.after_neighbour;
    let after_neighbour = faults.iter().filter(after).count();
    let false_alarms = clean.iter().map(|r| r.alarms.len()).sum();
    let failed = faults.iter().filter(|r| r.error.is_some()).count()
        + clean.iter().filter(|r| r.error.is_some()).count();
    let said = || {
        let faults = faults.iter().map(|r| (format!("{} {}", r.name, r.strength), r.said.as_ref()));
        faults.chain(clean.iter().map(|r| (r.name.to_owned(), r.said.as_ref())))
    };
    let worst = |part: fn(&Said) -> f64| {
        let all = said().filter_map(|(name, said)| Some((part(said?), name)));
        all.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, "no run".to_owned()))
    };
    let median = judge::median(said().filter_map(|(_, said)| Some(said?.path_unexplained)).collect());
    let path = worst(|s| s.path_unexplained);
    let estimates: Vec<Measured> = faults.iter().filter_map(|r| r.estimate).collect();
    let inside = (estimates.iter().filter(|m| m.inside).count(), estimates.len());
    let estimate_error = judge::median(estimates.iter().map(|m| m.error.abs()).collect());
    let faults_tried = faults.iter().map(|r| (format!("{} {}", r.name, r.strength), r.tries));
    let tried = faults_tried.chain(clean.iter().map(|r| (r.name.to_owned(), r.tries)));
    let retried = tried.filter(|(_, n)| *n > 1).map(|(name, n)| format!("{name} ({n} tries)"));
    let passed = recall_strong >= judge::RECALL_STRONG
        && recall_weak.is_none_or(|r| r >= judge::RECALL_WEAK)
        && false_alarms <= judge::FALSE_ALARMS
        && inside.0 as f64 >= inside.1 as f64 * judge::INSIDE
        && estimate_error.is_none_or(|e| e <= judge::ESTIMATE_ERROR)
        && failed == 0;
    Figures {
        recall_strong,
        recall_weak,
        after_neighbour,
        false_alarms,
        clean_runs: clean.len(),
        estimate_error,
        inside,
        path_unexplained: (median.unwrap_or(0.0), path.0, path.1),
        retried: retried.collect(),
        unexplained: worst(|s| s.unexplained),
        gap: worst(|s| s.gap),
        failed,
        passed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(unexplained: f64) -> Said {
        Said { findings: Vec::new(), unexplained, path_unexplained: unexplained / 2.0, gap: 0.0, lost: 0 }
    }

    fn row(strength: Strength, ok: bool, error: Option<f64>) -> FaultRow {
        FaultRow {
            name: "a",
            strength: strength.word(),
            expect: &["lock.user"],
            said: Some(said(0.01)),
            judged: Judged { first: None, ok, after_neighbour: false },
            tries: 1,
            seconds: None,
            speedup: None,
            estimate: error.map(|error| Measured { error, inside: error.abs() < 0.3 }),
            error: None,
        }
    }

    fn clean(alarms: usize) -> CleanRow {
        let alarm = Finding { id: "lock.user".into(), share: 0.5, speedup: None, headline: String::new() };
        CleanRow {
            name: "b",
            honest: &[],
            said: Some(said(0.03)),
            alarms: vec![alarm; alarms],
            tries: 1,
            error: None,
        }
    }

    #[test]
    fn the_figures_pass_and_fail_where_the_claim_says() {
        let strong = |found: usize| (0..20).map(move |i| row(Strength::Strong, i < found, Some(-0.09)));
        let good: Vec<_> = strong(19).chain([row(Strength::Weak, true, Some(0.4))]).collect();
        let figures = super::figures(&good, &[clean(1)]);
        assert!(figures.passed, "{figures:?}");
        assert_eq!(figures.recall_strong, 0.95);
        assert_eq!(figures.estimate_error, Some(0.09));
        assert_eq!(figures.inside, (20, 21));
        assert_eq!(figures.path_unexplained, (0.005, 0.015, "b".to_owned()));
        assert_eq!(figures.unexplained, (0.03, "b".to_owned()));

        let missed: Vec<_> = strong(18).collect();
        assert!(!super::figures(&missed, &[]).passed);
        let weak = [row(Strength::Strong, true, None), row(Strength::Weak, false, None)];
        assert!(!super::figures(&weak, &[]).passed);
        assert!(!super::figures(&good, &[clean(2)]).passed);
        let outside: Vec<_> =
            good.into_iter().chain((0..3).map(|_| row(Strength::Strong, true, Some(0.4)))).collect();
        assert!(!super::figures(&outside, &[]).passed, "three more estimates are wrong");
    }

    #[test]
    fn a_run_without_a_result_is_never_a_pass() {
        let failed =
            FaultRow { error: Some("no plumb".into()), said: None, ..row(Strength::Strong, true, None) };
        let figures = super::figures(&[failed], &[]);
        assert_eq!(figures.failed, 1);
        assert!(!figures.passed);
    }

    #[test]
    fn the_raw_file_keeps_the_account_and_leaves_out_the_threads() {
        let kept = keep(
            serde_json::json!({"findings": [], "processes": [{"account": {"running": 1}, "threads": [1, 2]}]}),
        );
        assert_eq!(kept, serde_json::json!({"findings": [], "processes": [{"account": {"running": 1}}]}));
    }
}
