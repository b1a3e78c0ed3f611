// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures and doubts from results of `plumb load --json`.
//!
//! Rounds of one result: the median. Jobs of one step, and copies: rates, counts and errors
//! are summed; a mean is that of all their operations; quantiles and longest times are the
//! largest, since of quantiles alone no common one can be made. `thread.mean` is that of all workers.

use super::Found;
use crate::analysis::cells::{NOT_STEADY, NOT_VALID};
use crate::table::Unit;
use plumb_stats::repetitions;
use serde_json::Value;
use std::collections::BTreeMap;

/// Quantiles and the longest by their names in a summary.
const TIMES: &[(&str, &str)] =
    &[("p50", "p50"), ("p90", "p90"), ("p99", "p99"), ("p99.9", "p99_9"), ("max", "max")];

/// One kind's figures, summed over jobs or copies.
#[derive(Debug, Default, Clone)]
struct Kind {
    figures: BTreeMap<&'static str, f64>,
    /// Sum of the times, and of how many operations.
    time: f64,
    timed: f64,
    /// CPU time of the workers who did them, in user mode and in the kernel, and operations of all kinds that these did.
    cpu: [f64; 2],
    done: f64,
}

impl Kind {
    fn add(&mut self, name: &'static str, value: Option<f64>, together: fn(f64, f64) -> f64) {
        if let Some(value) = value.filter(|v| v.is_finite()) {
            self.figures.entry(name).and_modify(|old| *old = together(*old, value)).or_insert(value);
        }
    }

    /// An operation kind of one job.
    fn take(&mut self, operation: &Value) {
        let sum = |a: f64, b: f64| a + b;
        for name in ["rate", "bandwidth", "count", "errors"] {
            self.add(name, operation[name].as_f64(), sum);
        }
        // What a user feels: the response where there is one.
        let response = Some(&operation["response"]).filter(|r| r.is_object());
        let times = response.unwrap_or(&operation["service"]);
        if let (Some(mean), Some(n)) = (times["mean_ns"].as_f64(), times["count"].as_f64()) {
            (self.time, self.timed) = (self.time + mean * n, self.timed + n);
        }
        for (name, key) in TIMES {
            self.add(name, times[*key].as_f64(), f64::max);
        }
    }

    /// The job that did them.
    fn worked(&mut self, job: &Value) {
        let cpu = |part: &str| job["cpu"][part].as_f64();
        let (Some(user), Some(system)) = (cpu("user_ns"), cpu("system_ns")) else { return };
        let kinds = job["operations"].as_array().into_iter().flatten();
        self.done += kinds.filter_map(|k| k["count"].as_f64()).sum::<f64>();
        self.cpu = [self.cpu[0] + user, self.cpu[1] + system];
    }

    fn finish(mut self) -> BTreeMap<&'static str, f64> {
        if self.timed > 0.0 {
            self.figures.insert("mean", self.time / self.timed);
        }
        if self.done > 0.0 {
            self.figures.insert("user", self.cpu[0] / self.done);
            self.figures.insert("system", self.cpu[1] / self.done);
            self.figures.insert("cpu", (self.cpu[0] + self.cpu[1]) / self.done);
        }
        self.figures
    }
}

fn unit(figure: &str) -> Unit {
    match figure {
        "rate" => Unit::PerSecond,
        "bandwidth" => Unit::BytesPerSecond,
        "count" | "errors" => Unit::Count,
        _ => Unit::Ns,
    }
}

/// A step's place: label of the cell and of the step.
pub(crate) type Place = (String, String);

/// Figures of all copies of a repetition.
pub(super) fn figures(copies: &[Value], found: &mut Found) -> Result<(), String> {
    // Place -> kind -> each round's sum over jobs and copies.
    let mut places: Vec<Place> = Vec::new();
    let mut rounds: BTreeMap<(Place, String), Vec<Kind>> = BTreeMap::new();
    let mut longest = 0.0_f64;
    for copy in copies {
        let cells = copy["cells"].as_array().ok_or("load.json has no cells")?;
        longest = longest.max(cells.iter().map(elapsed).sum());
        for cell in cells {
            for (r, steps) in cell["rounds"].as_array().into_iter().flatten().enumerate() {
                for step in steps.as_array().into_iter().flatten() {
                    let place = (text(&cell["label"]), text(&step["label"]));
                    doubts(step, found);
                    for job in step["jobs"].as_array().into_iter().flatten() {
                        if let Some(mean) = job["thread_mean_ns"].as_f64() {
                            let threads = rounds.entry((place.clone(), "thread".into())).or_default();
                            threads.resize(threads.len().max(r + 1), Kind::default());
                            let workers = threads_with_operations(job) as f64;
                            threads[r].time += mean * workers;
                            threads[r].timed += workers;
                        }
                        for operation in job["operations"].as_array().into_iter().flatten() {
                            let kinds = rounds.entry((place.clone(), text(&operation["kind"]))).or_default();
                            kinds.resize(kinds.len().max(r + 1), Kind::default());
                            kinds[r].take(operation);
                            kinds[r].worked(job);
                        }
                    }
                    if !places.contains(&place) {
                        places.push(place);
                    }
                }
            }
        }
        if copy["interrupted"] == Value::Bool(true) {
            found.doubt("the load was interrupted".into());
        }
        if let Some(error) = copy["error"].as_str() {
            found.doubt(error.into());
        }
    }
    if rounds.is_empty() {
        return Err("load.json has no operations: the load measured nothing".into());
    }
    if longest > 0.0 {
        // Without the making and removing of files, which is in the command's time.
        found.add("elapsed", Unit::Ns, longest);
    }
    for (((cell, step), kind), rounds) in rounds {
        let before = prefix(&places, &cell, &step);
        for (name, value) in medians(rounds) {
            found.add(&format!("{before}{kind}.{name}"), unit(name), value);
        }
    }
    Ok(())
}

/// How long a cell of a load ran, all its steps together; the median of its rounds, ns.
fn elapsed(cell: &Value) -> f64 {
    let steps = |round: &Value| -> f64 {
        round.as_array().into_iter().flatten().filter_map(|step| step["elapsed_ns"].as_f64()).sum()
    };
    let rounds: Vec<f64> = cell["rounds"].as_array().into_iter().flatten().map(steps).collect();
    if rounds.is_empty() {
        return 0.0;
    }
    repetitions::median(&rounds)
}

/// What stands before a kind's name: as little as tells steps apart.
pub(crate) fn prefix(places: &[Place], cell: &str, step: &str) -> String {
    if places.len() == 1 {
        return String::new();
    }
    let steps = places.iter().filter(|(_, s)| s == step).count();
    match steps {
        1 => format!("{step}:"),
        _ if cell == step => format!("{cell}:"),
        _ => format!("{cell}, {step}:"),
    }
}

fn medians(rounds: Vec<Kind>) -> BTreeMap<&'static str, f64> {
    let mut all: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for (name, value) in rounds.into_iter().flat_map(Kind::finish) {
        all.entry(name).or_default().push(value);
    }
    all.into_iter().map(|(name, values)| (name, repetitions::median(&values))).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().into()
}

/// What speaks against a step: its verdict, its failures, its course.
fn doubts(step: &Value, found: &mut Found) {
    let mut unsteady = false;
    for reason in step["verdict"]["reasons"].as_array().into_iter().flatten() {
        let (check, sentence) = (text(&reason["check"]), text(&reason["sentence"]));
        match reason["severity"].as_str() {
            Some("note") | None => continue,
            Some(_) if check == "rate-drift" || check == "steady-state" => {
                unsteady = true;
                found.doubt(format!("{NOT_STEADY}: {sentence}"));
            }
            Some("invalid") => found.doubt(format!("{NOT_VALID}{sentence}")),
            Some(_) => found.doubt(sentence),
        }
    }
    for job in step["jobs"].as_array().into_iter().flatten() {
        for failure in job["failures"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            found.doubt(format!("failed: {failure}"));
        }
        for (key, words) in [
            ("damaged", "blocks that were read are not what was written"),
            ("log_lost", "operations are missing in the log"),
            ("events_lost", "operations are missing in the recording"),
        ] {
            if let Some(n) = job[key].as_u64().filter(|n| *n > 0) {
                found.doubt(format!("{n} {words}"));
            }
        }
        if !unsteady && job["steady"] == Value::Bool(false) {
            unsteady = true;
            found.doubt(format!("{NOT_STEADY}: the load did not become so within its time"));
        }
    }
}

/// Workers that `thread_mean_ns` is the mean of.
fn threads_with_operations(job: &Value) -> usize {
    let did = |worker: &&Value| worker["operations"].as_u64() != Some(0);
    job["workers"].as_array().map_or(1, |workers| workers.iter().filter(did).count())
}
