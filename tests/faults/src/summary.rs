// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The suite's result in words: lines while it runs, summary.md and summary.json at the end.

use crate::catalogue::NOT_MADE;
use crate::judge::{Finding, Speedup, ESTIMATE_ERROR, FALSE_ALARMS, INSIDE, RECALL_STRONG, RECALL_WEAK};
use crate::suite::{CleanRow, FaultRow, Figures, Outcome};
use anyhow::{Context, Result};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// The machine and the versions.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// As the CPU calls itself.
    cpu: String,
    /// How many of them may be used.
    cpus: usize,
    /// Memory, KiB.
    memory_kib: u64,
    /// The kernel's release and version.
    kernel: String,
    /// `plumb --version`.
    plumb: String,
    /// Events, where they were named.
    events: Option<String>,
    /// The words that the suite was called with.
    arguments: Vec<String>,
    /// Load average of a minute at the end: who else was there.
    load: String,
    /// When the suite ended, seconds since 1970.
    time: u64,
}

fn field(text: &str, name: &str) -> String {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .map_or_else(String::new, |rest| rest.trim_start_matches([':', ' ', '\t']).trim().to_owned())
}

impl Machine {
    /// This one.
    ///
    /// # Errors
    /// plumb cannot be started.
    pub fn here(plumb: &Path, events: Option<&str>) -> Result<Self> {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let version = Command::new(plumb).arg("--version").output();
        let version = version.with_context(|| format!("{} --version", plumb.display()))?;
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Ok(Self {
            cpu: field(&read("/proc/cpuinfo"), "model name"),
            cpus: crate::sys::cpus().len(),
            memory_kib: memory.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0),
            kernel: read("/proc/version").trim().to_owned(),
            plumb: String::from_utf8_lossy(&version.stdout).trim().to_owned(),
            events: events.map(str::to_owned),
            arguments: std::env::args().skip(1).collect(),
            load: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
            time: now.as_secs(),
        })
    }
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |v| format!("{v:.digits$}"))
}

fn range(speedup: Option<Speedup>) -> String {
    speedup.map_or_else(|| "-".to_owned(), |s| format!("{:.2} ({:.2}-{:.2})", s.estimate, s.low, s.high))
}

fn id(finding: Option<&Finding>) -> &str {
    finding.map_or("nothing", |f| &f.id)
}

/// One fault while the suite runs.
pub fn line(row: &FaultRow) -> String {
    let first = row.judged.first.as_ref();
    let mut line = format!(
        "{:<22} {:<7} {:<7} expected {:<18} found {:<18} share {:>5} speed-up {:>16} measured {:>6}",
        row.name,
        row.strength,
        if row.judged.ok { "ok" } else { "MISSED" },
        row.expect[0],
        id(first),
        number(first.map(|f| f.share), 2),
        range(first.and_then(|f| f.speedup)),
        number(row.speedup, 2),
    );
    line += &tries(row.tries);
    if let Some(error) = &row.error {
        let _ = write!(line, "  {error}");
    }
    line
}

fn tries(n: usize) -> String {
    if n > 1 {
        format!("  (try {n})")
    } else {
        String::new()
    }
}

/// One clean run while the suite runs.
pub fn clean_line(row: &CleanRow) -> String {
    let said = match (&row.error, row.alarms.is_empty()) {
        (Some(error), _) => error.clone(),
        (None, true) => "clean".to_owned(),
        (None, false) => format!("FALSE ALARM: {}", list(&row.alarms)),
    };
    format!("{:<22} clean   {said}{}", row.name, tries(row.tries))
}

fn list(findings: &[Finding]) -> String {
    let words: Vec<_> = findings.iter().map(|f| format!("{} {:.0} %", f.id, f.share * 100.0)).collect();
    words.join(", ")
}

/// The figures, each with what it must be.
pub fn figures(f: &Figures) -> String {
    let mut text = format!(
        "recall strong        {:.1} % (at least {:.0} %)\n",
        f.recall_strong * 100.0,
        RECALL_STRONG * 100.0
    );
    if let Some(weak) = f.recall_weak {
        let _ = writeln!(
            text,
            "recall weak          {:.1} % (at least {:.0} %{})",
            weak * 100.0,
            RECALL_WEAK * 100.0,
            match f.after_neighbour {
                0 => String::new(),
                n => format!("; {n} of them after a finding that names the neighbour"),
            }
        );
    }
    let _ = writeln!(
        text,
        "false alarms         {} on {} clean runs (at most {FALSE_ALARMS})",
        f.false_alarms, f.clean_runs
    );
    if let Some(error) = f.estimate_error {
        let _ = writeln!(
            text,
            "error of estimates   {:.1} % (median of |estimate / measured - 1|; at most {:.0} %)",
            error * 100.0,
            ESTIMATE_ERROR * 100.0
        );
        let (inside, all) = f.inside;
        let _ = writeln!(
            text,
            "inside their ranges  {inside} of {all} measured (at least {:.0} %)",
            INSIDE * 100.0
        );
    }
    let (median, worst, name) = &f.path_unexplained;
    let _ = writeln!(
        text,
        "path unexplained     {:.2} % median, {:.2} % largest ({name})",
        median * 100.0,
        worst * 100.0
    );
    if !f.retried.is_empty() {
        let _ = writeln!(text, "tried again          {}", f.retried.join(", "));
    }
    let _ = writeln!(text, "largest unexplained  {:.2} % ({})", f.unexplained.0 * 100.0, f.unexplained.1);
    let _ = writeln!(text, "accounts add up      to {:.4} % ({})", f.gap.0 * 100.0, f.gap.1);
    let _ = writeln!(text, "runs without result  {}", f.failed);
    let _ = write!(text, "{}", if f.passed { "passed" } else { "NOT passed" });
    text
}

/// Writes summary.md and summary.json.
///
/// # Errors
/// The directory cannot be written.
pub fn write(dir: &Path, outcome: &Outcome) -> Result<()> {
    let put = |name: &str, text: String| {
        let path = dir.join(name);
        std::fs::write(&path, text).with_context(|| path.display().to_string())
    };
    put("summary.json", serde_json::to_string_pretty(outcome)? + "\n")?;
    put("calibration.svg", calibration(outcome))?;
    put("summary.md", markdown(outcome))
}

/// Measured speed-ups over the estimated ones, both logarithmic, with the estimates' ranges as lines.
fn calibration(outcome: &Outcome) -> String {
    const SIZE: f64 = 480.0;
    const MARGIN: f64 = 50.0;
    const MOST: f64 = 32.0;
    let at = |factor: f64| factor.clamp(1.0, MOST).ln() / MOST.ln() * SIZE;
    let (x, y) = (|f: f64| MARGIN + at(f), |f: f64| MARGIN + SIZE - at(f));
    let whole = SIZE + 2.0 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {whole} {whole}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->\n\
         <title>Estimated and measured speed-ups</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    for tick in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0] {
        let (h, v, low, high) = (x(tick), y(tick), MARGIN, MARGIN + SIZE);
        let _ = writeln!(
            svg,
            "<path d=\"M{h:.1} {low}V{high}M{low} {v:.1}H{high}\" stroke=\"#ddd\"/>\
             <text x=\"{h:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}x</text>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{tick}x</text>",
            high + 16.0,
            low - 6.0,
            v + 4.0
        );
    }
    let _ = writeln!(
        svg,
        "<path d=\"M{} {}L{} {}\" stroke=\"#888\"/>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">estimated, with its range</text>\n\
         <text x=\"{MARGIN}\" y=\"30\">measured; blue: in the range, red: not</text>",
        x(1.0),
        y(1.0),
        x(MOST),
        y(MOST),
        MARGIN + SIZE / 2.0,
        whole - 12.0
    );
    for row in &outcome.faults {
        let (Some(estimate), Some(measured)) = (row.estimate, row.speedup) else { continue };
        let Some(s) = row.judged.first.as_ref().and_then(|f| f.speedup) else { continue };
        let color = if estimate.inside { "#2060c0" } else { "#c02020" };
        let (v, middle) = (y(measured), x(s.estimate));
        let _ = writeln!(
            svg,
            "<g stroke=\"{color}\" fill=\"{color}\"><title>{} {}: estimated {}, measured {measured:.2}</title>\
             <path d=\"M{:.1} {v:.1}H{:.1}\" stroke-opacity=\"0.4\"/><circle cx=\"{middle:.1}\" cy=\"{v:.1}\" r=\"2.5\"/></g>",
            row.name,
            row.strength,
            range(Some(s)),
            x(s.low),
            x(s.high)
        );
    }
    svg + "</svg>\n"
}

fn markdown(outcome: &Outcome) -> String {
    let mut text = String::from(
        "<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->\n# Findings on injected faults\n\n",
    );
    let m = &outcome.machine;
    let _ = writeln!(
        text,
        "{}, {} CPUs, {} KiB; {}; {}; load at the end {}; `plumb-faults {}`\n",
        m.cpu,
        m.cpus,
        m.memory_kib,
        m.kernel,
        m.plumb,
        m.load,
        m.arguments.join(" ")
    );
    for line in figures(&outcome.figures).lines() {
        let _ = writeln!(text, "    {line}");
    }
    text.push_str(
        "\nThe measured speed-up is the time with the fault by the time without it, both without plumb, medians of 3.\n\
         The estimate is what plumb said, with its range; its error is estimate / measured - 1, where the cause was found.\n\
         ![Estimated and measured speed-ups](calibration.svg)\n\n\
         With the weak dose, findings that say what the program honestly is are passed over, and those that name the neighbour.\n\n\
         | fault | strength | expected | found first | ok | share | estimate | measured | error | inside |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in &outcome.faults {
        let first = row.judged.first.as_ref();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            row.name,
            row.strength,
            row.expect.join(" or "),
            row.error.as_deref().unwrap_or_else(|| id(first)).replace(['|', '\n'], " "),
            match (row.judged.ok, row.judged.after_neighbour) {
                (true, true) => "yes, after the neighbour",
                (true, false) => "yes",
                (false, _) => "**no**",
            },
            number(first.map(|f| f.share), 2),
            range(first.and_then(|f| f.speedup)),
            number(row.speedup, 2),
            row.estimate.map_or_else(|| "-".to_owned(), |m| format!("{:+.0} %", m.error * 100.0)),
            row.estimate.map_or("-", |m| if m.inside { "yes" } else { "**no**" }),
        );
    }
    text.push_str("\n| clean run | honest | false alarms | unexplained |\n|---|---|---|---|\n");
    for row in &outcome.clean {
        let alarms = match &row.error {
            Some(error) => error.replace(['|', '\n'], " "),
            None if row.alarms.is_empty() => "none".to_owned(),
            None => format!("**{}**", list(&row.alarms)),
        };
        let honest = if row.honest.is_empty() { "nothing".to_owned() } else { row.honest.join(", ") };
        let unexplained = row.said.as_ref().map(|s| s.unexplained * 100.0);
        let _ = writeln!(text, "| {} | {honest} | {alarms} | {} % |", row.name, number(unexplained, 2));
    }
    text.push('\n');
    for (id, why) in NOT_MADE {
        let _ = writeln!(text, "Not made, and so not judged: `{id}` ({why}).");
    }
    text
}
