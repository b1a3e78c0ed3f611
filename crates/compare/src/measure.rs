// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures of one run that are compared, each with a key that names it.

use crate::set::elapsed;
use plumb_model::{sum, DeviceRow, RunResult, CATEGORIES};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Which table a figure stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    Elapsed,
    /// Parts of the threads' time; they add up to the total, the line of this group with the key `threads-time`.
    Account,
    /// Parts of the critical path.
    Path,
    /// CPU, disks and accesses of the target; everybody else's CPU.
    Metric,
    Device,
    /// Requests, statements and functions, by what names them.
    Span,
    Finding,
}

/// What a figure is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "ms")]
    Milliseconds,
    #[serde(rename = "count")]
    Count,
    #[serde(rename = "mean")]
    Mean,
    /// KiB.
    #[serde(rename = "KiB")]
    Kib,
    /// Things a second.
    #[serde(rename = "1/s")]
    Rate,
    #[serde(rename = "%")]
    Percent,
}

/// One figure of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// Which table it stands in.
    pub group: Group,
    /// Its name for thresholds and in JSON.
    pub key: String,
    pub name: String,
    pub unit: Unit,
    /// Its value; none where there is nothing to take a mean of.
    pub value: Option<f64>,
    /// Whether a run without this figure has 0 of it; a mean has no value then.
    pub absent_is_zero: bool,
}

/// Before the category, in keys of parts of a command's critical path.
pub const PATH: &str = "path.";
/// The same of the mean request's.
pub const REQUEST: &str = "request.";
/// Key of the requests answered a second.
pub const REQUESTS: &str = "requests";
/// Key of their mean time.
pub const REQUEST_TIME: &str = "request-time";
/// Key of the mean time until they were read.
pub const REQUEST_UNREAD: &str = "request-unread";
/// Key of the elapsed time.
pub const ELAPSED: &str = "elapsed";
/// Key of the account's total.
pub const THREADS_TIME: &str = "threads-time";

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

struct Measures(Vec<Measure>);

impl Measures {
    fn sum(&mut self, group: Group, key: &str, name: &str, unit: Unit, value: f64) {
        let (key, name) = (key.into(), name.into());
        self.0.push(Measure { group, key, name, unit, value: Some(value), absent_is_zero: true });
    }

    fn mean(&mut self, group: Group, key: &str, name: &str, unit: Unit, of: u64, value: f64) {
        let (key, name) = (key.into(), name.into());
        let value = (of > 0).then_some(value);
        self.0.push(Measure { group, key, name, unit, value, absent_is_zero: false });
    }
}

/// Every figure of a run, in the order of its tables. `accounted`: there is an
/// account of time. `all` is the whole of what was explained, as JSON.
pub fn measures(result: &RunResult, accounted: bool, all: &Value) -> Vec<Measure> {
    let mut out = Measures(Vec::new());
    let time = seconds(elapsed(result));
    out.sum(Group::Elapsed, ELAPSED, "elapsed, first begin to last end", Unit::Seconds, time);
    let sums = sum(result.processes.iter());
    if accounted {
        let name = "time of all threads";
        out.sum(Group::Account, THREADS_TIME, name, Unit::Seconds, seconds(sums.thread_time));
        for (of, category, _) in CATEGORIES {
            out.sum(Group::Account, category, category, Unit::Seconds, seconds(sums.part(*of)));
        }
        cpu(&mut out, result);
    }
    requests(&mut out, result);
    accesses(&mut out, result);
    for d in result.devices.iter().filter(|d| d.reads + d.writes + d.flushes > 0) {
        let length = seconds(result.recorded().max(1));
        device(&mut out, d, length);
    }
    spans(&mut out, result, sums.thread_time);
    further(&mut out, all);
    out.0
}

fn cpu(out: &mut Measures, result: &RunResult) {
    let all = sum(result.processes.iter());
    let switches = |i: usize| result.processes.iter().map(|p| p.switches[i]).sum::<u64>() as f64;
    let others = |recorder: bool| {
        let rows = result.others.iter().filter(|o| o.recorder == recorder);
        seconds(rows.map(|o| o.cpu_used).sum())
    };
    let mut time = |key, name, value| out.sum(Group::Metric, key, name, Unit::Seconds, value);
    time("cpu", "CPU used", seconds(all.usage.cpu_used));
    time("cpu-wait", "CPU wait", seconds(all.usage.cpu_wait));
    time("others-cpu", "CPU used by others", others(false));
    time("recorder-cpu", "CPU used by the recorder", others(true));
    let mut count = |key, name, value| out.sum(Group::Metric, key, name, Unit::Count, value);
    count("switches", "context switches of its own will", switches(0));
    count("preemptions", "context switches against it", switches(1));
    count("threads", "threads", result.processes.iter().map(|p| p.threads.len()).sum::<usize>() as f64);
}

/// Requests that a service answered.
fn requests(out: &mut Measures, result: &RunResult) {
    let s = &result.service;
    if s.requests == 0 {
        return;
    }
    let length = seconds(result.recorded().max(1));
    let (n, ms) = (s.requests as f64, |ns: u64| ns as f64 / 1e6);
    out.sum(Group::Metric, REQUESTS, "requests answered", Unit::Rate, n / length);
    out.mean(
        Group::Metric,
        REQUEST_TIME,
        "mean time of a request",
        Unit::Milliseconds,
        s.requests,
        ms(s.time) / n,
    );
    if let Some(unread) = s.unread {
        let name = "mean time of a request until it was read";
        out.mean(Group::Metric, REQUEST_UNREAD, name, Unit::Milliseconds, s.requests, ms(unread) / n);
    }
    out.sum(Group::Metric, "request-longest", "longest request", Unit::Milliseconds, ms(s.longest));
}

fn accesses(out: &mut Measures, result: &RunResult) {
    let u = sum(result.processes.iter()).usage;
    out.sum(Group::Metric, "disk-used", "disk used", Unit::Seconds, seconds(u.disk_used));
    out.sum(Group::Metric, "disk-wait", "disk wait", Unit::Seconds, seconds(u.disk_wait));
    let n = u.accesses;
    out.sum(Group::Metric, "accesses", "accesses", Unit::Count, n as f64);
    out.sum(Group::Metric, "writes", "accesses that write", Unit::Count, u.writes as f64);
    out.sum(Group::Metric, "flushes", "flushes", Unit::Count, u.flushes as f64);
    out.sum(Group::Metric, "bytes", "data", Unit::Kib, u.bytes as f64 / 1024.0);
    out.mean(Group::Metric, "mean-size", "mean size of an access", Unit::Kib, n, u.mean_bytes() / 1024.0);
    let mut mean = |key, name, ms| out.mean(Group::Metric, key, name, Unit::Milliseconds, n, ms);
    mean("access-time", "mean device service time of an access", u.mean_service() / 1e6);
    mean(
        "response-time",
        "mean time of an access, queue to completion",
        u.response as f64 / 1e6 / n.max(1) as f64,
    );
}

fn device(out: &mut Measures, d: &DeviceRow, length: f64) {
    let (n, bytes) = (d.reads + d.writes, (d.read_bytes + d.write_bytes) as f64);
    let named = |key: &str, name: &str| (format!("{}.{key}", d.name), format!("{} {name}", d.name));
    let mut sum = |key, name, unit, value| {
        let (key, name) = named(key, name);
        out.sum(Group::Device, &key, &name, unit, value);
    };
    sum("requests", "requests with data", Unit::Count, n as f64);
    sum("iops", "IOPS", Unit::Rate, n as f64 / length);
    sum("bytes", "data", Unit::Kib, bytes / 1024.0);
    sum("flushes", "flushes", Unit::Count, d.flushes as f64);
    sum("merges", "merges", Unit::Count, d.merges as f64);
    sum("busy", "busy", Unit::Percent, seconds(d.busy) * 100.0 / length);
    sum("in-flight", "in flight", Unit::Mean, d.mean_in_flight);
    let mut mean = |key, name, unit, value| {
        let (key, name) = named(key, name);
        out.mean(Group::Device, &key, &name, unit, n, value);
    };
    mean("size", "mean size", Unit::Kib, bytes / 1024.0 / n.max(1) as f64);
    mean("i2d", "schedule (I2D)", Unit::Milliseconds, d.i2d / 1e6);
    mean("d2c", "device (D2C)", Unit::Milliseconds, d.d2c / 1e6);
}

/// Spans by name and key, with their share of the threads' time.
fn spans(out: &mut Measures, result: &RunResult, threads: u64) {
    for s in &result.spans {
        let words = if s.key.is_empty() { s.name.clone() } else { format!("{} {}", s.name, s.key) };
        let mut line = |key: &str, title: &str, unit, value, sum: bool| {
            let (key, name) = (format!("span.{words}.{key}"), format!("{words}: {title}"));
            match sum {
                true => out.sum(Group::Span, &key, &name, unit, value),
                false => out.mean(Group::Span, &key, &name, unit, s.count, value),
            }
        };
        let ms = |ns: f64| ns / 1e6;
        line("count", "number", Unit::Count, s.count as f64, true);
        if threads > 0 {
            let share = s.total as f64 * 100.0 / threads as f64;
            line("share", "of the threads' time", Unit::Percent, share, true);
        }
        line("mean", "mean", Unit::Milliseconds, ms(s.total as f64) / s.count.max(1) as f64, false);
        line("p99", "p99", Unit::Milliseconds, ms(s.p99 as f64), false);
    }
}

/// What stands beside the account, where it is there: `path`, the critical path's
/// parts, by category in ns, or as rows with a category and a time; and `findings`,
/// each with an id and a share of the time (0 to 1).
fn further(out: &mut Measures, all: &Value) {
    let path = &all["path"];
    let mut parts: BTreeMap<&str, u64> = BTreeMap::new();
    for row in path["parts"].as_array().into_iter().flatten() {
        if let (Some(category), Some(ns)) = (row["category"].as_str(), row["time"].as_u64()) {
            *parts.entry(category).or_default() += ns;
        }
    }
    // That of the threads of a target without a command is their account under another name.
    if path["of"] == "threads" {
        parts.clear();
    }
    for (category, ns) in path.as_object().filter(|_| path["parts"].is_null()).into_iter().flatten() {
        parts.extend(ns.as_u64().map(|ns| (category.as_str(), ns)));
    }
    // Of a service that answers more there is more of everything: its parts are those of the mean request that was answered, and those
    // that were not have their shares in them.
    let [requests, time] = ["requests", "time"].map(|key| all["service"][key].as_f64().unwrap_or(0.0));
    let sum = parts.values().sum::<u64>() as f64;
    for (part, ns) in parts {
        match path["of"] == "requests" {
            true if requests == 0.0 => {}
            true => {
                let ms = ns as f64 / sum.max(1.0) * time / requests / 1e6;
                out.sum(Group::Path, &format!("{REQUEST}{part}"), part, Unit::Milliseconds, ms);
            }
            false => out.sum(Group::Path, &format!("{PATH}{part}"), part, Unit::Seconds, seconds(ns)),
        }
    }
    for finding in all["findings"].as_array().into_iter().flatten() {
        let (Some(id), Some(share)) = (finding["id"].as_str(), finding["share"].as_f64()) else { continue };
        let key = format!("finding.{id}");
        match out.0.iter_mut().find(|m| m.key == key) {
            // The same finding of several objects: its share is theirs together.
            Some(same) => same.value = same.value.map(|v| v + share * 100.0),
            None => {
                let name = finding["title"].as_str().unwrap_or(id);
                out.sum(Group::Finding, &key, name, Unit::Percent, share * 100.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_model::SpanRow;
    use serde_json::json;

    #[test]
    fn spans_are_measured_by_name_and_key() {
        let row = |name: &str, key: &str, count, total| SpanRow {
            name: name.into(),
            key: key.into(),
            count,
            total,
            p99: 7_000_000,
            ..SpanRow::default()
        };
        let spans = vec![row("lookup", "", 4, 8_000_000), row("query", "select", 0, 0)];
        let mut out = Measures(Vec::new());
        super::spans(&mut out, &RunResult { spans, ..RunResult::default() }, 80_000_000);
        let got: Vec<(&str, Option<f64>)> = out.0.iter().map(|m| (m.key.as_str(), m.value)).collect();
        let want = [
            ("span.lookup.count", Some(4.0)),
            ("span.lookup.share", Some(10.0)),
            ("span.lookup.mean", Some(2.0)),
            ("span.lookup.p99", Some(7.0)),
            ("span.query select.count", Some(0.0)),
            ("span.query select.share", Some(0.0)),
            ("span.query select.mean", None),
            ("span.query select.p99", None),
        ];
        assert_eq!(got, want);
        // A function that is not called any more has a line with 0, and none for its mean.
        let lines = crate::lines::from_measures(&[out.0], &[Vec::new()]);
        let told: Vec<(&str, f64, f64)> =
            lines.iter().filter(|l| l.shown).map(|l| (l.name.as_str(), l.a, l.b)).collect();
        assert_eq!(told, [("lookup: number", 4.0, 0.0), ("lookup: of the threads' time", 10.0, 0.0)]);
    }

    #[test]
    fn path_and_findings_are_read_where_they_are() {
        let mut out = Measures(Vec::new());
        further(&mut out, &json!({"processes": []}));
        assert!(out.0.is_empty());
        let all = json!({
            "path": {"running": 1_500_000_000u64, "block.device": 2_000_000u64},
            "findings": [
                {"id": "lock", "title": "a lock", "share": 0.25}, {"id": "lock", "share": 0.5}, {"share": 1.0}
            ],
        });
        further(&mut out, &all);
        let got: Vec<(&str, &str, Option<f64>)> =
            out.0.iter().map(|m| (m.key.as_str(), m.name.as_str(), m.value)).collect();
        let want = [
            ("path.block.device", "block.device", Some(0.002)),
            ("path.running", "running", Some(1.5)),
            ("finding.lock", "a lock", Some(75.0)),
        ];
        assert_eq!(got, want);

        let rows = json!({"path": {"of": "command", "time": 3_000_000_000u64, "parts": [
            {"category": "block.device", "who": "sda", "time": 1_000_000_000u64},
            {"category": "running", "who": "", "time": 500_000_000u64},
            {"category": "block.device", "who": "sdb", "time": 1_500_000_000u64},
        ]}});
        let mut threads = rows.clone();
        threads["path"]["of"] = json!("threads");
        let mut out = Measures(Vec::new());
        further(&mut out, &threads);
        assert!(out.0.is_empty(), "the account has these");
        let mut out = Measures(Vec::new());
        further(&mut out, &rows);
        let got: Vec<(&str, Option<f64>)> = out.0.iter().map(|m| (m.key.as_str(), m.value)).collect();
        assert_eq!(got, [("path.block.device", Some(2.5)), ("path.running", Some(0.5))]);
    }
}
