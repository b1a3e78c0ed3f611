// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a window of the recording tells, as rows.

use plumb_analysis::windows::Window;
use plumb_diagnose::{Diagnosis, ServiceDiagnosis};
use plumb_machine::json::{formats, Format, Output};
use plumb_model::{Category, LockRow, RunResult, ServiceRun};
use plumb_trace::units;
use serde::Serialize;

/// Longest waits of a service that are shown.
const WAITS: usize = 12;
/// Locks and devices.
const ROWS: usize = 4;
/// Below this share of a thread a part is not worth a line.
const LEAST: f64 = 0.005;
/// A service of which fewer threads have something to do or to wait for is limited by nothing.
const IDLE: f64 = 0.05;

/// What a thread does that is not idle, as columns have it.
pub const PARTS: [&str; 6] = ["cpu", "runq", "lock", "disk", "net", "other"];

fn part(category: Category) -> Option<usize> {
    use Category as C;
    Some(match category {
        c if c.on_cpu() => 0,
        C::Woken | C::Preempted | C::Crowded | C::WokenIdle | C::Held | C::Overhead => 1,
        C::KernelLock | C::UserLock | C::FileLock => 2,
        C::Journal | C::Throttle => 3,
        c if c.is_block() => 3,
        C::Socket | C::Network => 4,
        C::Timer => return None,
        c if c.rests() => return None,
        _ => 5,
    })
}

/// A window.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Shown {
    /// Length, s.
    pub seconds: f64,
    /// Events a second.
    pub events: f64,
    /// Share of the window in which the recording paused to keep within its budget, 0 to 1; figures are of the rest.
    pub paused: f64,
    /// Events that were lost.
    pub lost: u64,
    /// CPUs that were busy, of how many.
    pub cpus: [f64; 2],
    /// What limits the busiest service, in a sentence.
    pub bottleneck: String,
    pub services: Vec<Service>,
    pub devices: Vec<Device>,
    pub locks: Vec<Lock>,
}

impl Output for Shown {
    const FORMAT: &'static Format = &formats::TOP;
}

/// A service.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Service {
    pub name: String,
    pub processes: u64,
    /// Threads in each of [`PARTS`], on average.
    pub threads: [f64; PARTS.len()],
    /// Requests a second.
    pub requests: f64,
    /// Their mean time, ns; 0 without requests.
    pub mean: u64,
    /// The longest, ns.
    pub longest: u64,
    /// What limits it: the largest finding's headline; empty: nothing.
    pub limit: String,
    /// That finding's id.
    pub finding: String,
    /// The verdict, a line each.
    pub verdict: Vec<String>,
    /// Meaning of a category, and threads in it on average, most first.
    pub account: Vec<(String, f64)>,
    /// Findings, each with its evidence, a line each.
    pub findings: Vec<String>,
    /// The longest waits: who, for what, whose, how long.
    pub waits: Vec<String>,
}

impl Service {
    /// Threads that are not idle.
    pub fn busy(&self) -> f64 {
        self.threads.iter().sum()
    }
}

/// A block device.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Device {
    pub name: String,
    /// Requests a second.
    pub requests: f64,
    /// Bytes a second.
    pub bytes: f64,
    /// Requests in flight, on average.
    pub in_flight: f64,
    /// Share of the time in which it had a request, 0 to 1.
    pub busy: f64,
    /// Mean time of a request before the device has it, ns: waiting for a slot, plugged, in the I/O scheduler.
    pub before: f64,
    /// Mean device service time, ns.
    pub service: f64,
}

/// A lock that threads slept for.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Lock {
    /// Kind and place.
    pub name: String,
    /// Threads that wait, on average.
    pub waiting: f64,
    /// The longest wait, ns.
    pub longest: u64,
    /// Who held it meanwhile, most time first.
    pub holder: String,
}

impl Shown {
    /// The rows of a window.
    pub fn of(window: &Window) -> Self {
        let (result, diagnosis) = (&window.analysis.result, &window.analysis.diagnosis);
        let whole = window.end.saturating_sub(window.begin).max(1) as f64;
        let length = (whole - result.paused as f64).max(1.0);
        let pairs = result.services.iter().zip(&diagnosis.services);
        let mut services: Vec<Service> = pairs.map(|(run, told)| service(run, told, length)).collect();
        services.sort_by(|a, b| b.busy().total_cmp(&a.busy()));
        let busy: u64 = result.cpus.iter().map(|c| c.busy + c.interrupts).sum();
        Self {
            seconds: whole / 1e9,
            paused: result.paused as f64 / whole,
            events: result.events as f64 / length * 1e9,
            lost: result.lost_events,
            cpus: [busy as f64 / length, result.cpus.len() as f64],
            bottleneck: bottleneck(&services, diagnosis),
            services,
            devices: devices(result, length),
            locks: result.locks.iter().take(ROWS).map(|lock| row_of(lock, length)).collect(),
        }
    }
}

/// The sentence that a person reads first: of who is busiest, for that is whose limit is felt.
fn bottleneck(services: &[Service], diagnosis: &Diagnosis) -> String {
    // Who waits for other programs is limited by those.
    let own = |s: &&Service| s.threads[..PARTS.len() - 1].iter().sum::<f64>();
    let limited = services.iter().filter(|s| !s.limit.is_empty() && own(s) >= IDLE);
    let busiest = limited.max_by(|a, b| own(a).total_cmp(&own(b)));
    match busiest.and_then(|s| Some((s, s.verdict.first()?))) {
        Some((service, line)) => format!("{}: {line}", service.name),
        None if !services.is_empty() => "nothing limits a service".into(),
        None => diagnosis.verdict.first().cloned().unwrap_or_else(|| "nothing was recorded yet".into()),
    }
}

fn service(run: &ServiceRun, told: &ServiceDiagnosis, length: f64) -> Service {
    let mut threads = [0.0; PARTS.len()];
    let mut account = Vec::new();
    for (category, ns) in run.result.processes.iter().flat_map(|row| &row.account) {
        let mean = *ns as f64 / length;
        if let Some(part) = part(*category) {
            threads[part] += mean;
        }
        if mean >= LEAST {
            account.push((category.meaning().to_string(), mean));
        }
    }
    account.sort_by(|a, b| b.1.total_cmp(&a.1));
    let answered = &run.result.service;
    let mut waits: Vec<_> =
        run.result.longest.values().flatten().filter(|w| part(w.category).is_some()).collect();
    waits.sort_by_key(|w| std::cmp::Reverse(w.time));
    let wait = |w: &&plumb_model::WaitRow| {
        let whose = if w.who.is_empty() { String::new() } else { format!(": {}", w.who) };
        format!("{:>9}  {} [{}]  {}{whose}", units::duration(w.time), w.comm, w.tid, w.category.meaning())
    };
    let mut findings = Vec::new();
    for finding in &told.diagnosis.findings {
        findings.push(format!("{:>3.0} %  {}", finding.share * 100.0, finding.headline));
        let evidence = finding.evidence.iter().map(|e| match e.label.is_empty() {
            true => format!("       {}", e.words),
            false => format!("       {}: {}", e.label, e.words),
        });
        findings.extend(evidence);
    }
    Service {
        name: run.name.clone(),
        processes: run.processes,
        threads,
        requests: answered.requests as f64 / length * 1e9,
        mean: answered.time.checked_div(answered.requests).unwrap_or(0),
        longest: answered.longest,
        limit: told.diagnosis.findings.first().map_or_else(String::new, |f| f.headline.clone()),
        finding: told.diagnosis.findings.first().map_or_else(String::new, |f| f.id.clone()),
        verdict: told.diagnosis.verdict.clone(),
        account,
        findings,
        waits: waits.iter().take(WAITS).map(wait).collect(),
    }
}

fn row_of(lock: &LockRow, length: f64) -> Lock {
    let place = if lock.site.is_empty() { &lock.lock } else { &lock.site };
    Lock {
        name: format!("{} {place}", lock.kind),
        waiting: lock.time as f64 / length,
        longest: lock.longest,
        holder: lock.holders.first().map_or_else(String::new, |h| h.who.clone()),
    }
}

fn devices(result: &RunResult, length: f64) -> Vec<Device> {
    let row = |d: &plumb_model::DeviceRow| Device {
        name: d.name.clone(),
        requests: (d.reads + d.writes) as f64 / length * 1e9,
        bytes: (d.read_bytes + d.write_bytes) as f64 / length * 1e9,
        in_flight: d.mean_in_flight,
        busy: d.busy as f64 / length,
        before: d.q2g + d.g2i + d.flush + d.i2d,
        service: d.d2c,
    };
    let mut rows: Vec<Device> = result.devices.iter().map(row).collect();
    rows.sort_by(|a, b| b.busy.total_cmp(&a.busy));
    rows.truncate(ROWS);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_diagnose::Finding;
    use plumb_model::ProcessRow;
    use std::collections::BTreeMap;

    fn window() -> Window {
        let run = |name: &str, parts: &[(Category, u64)], requests: u64| {
            let account: BTreeMap<Category, u64> = parts.iter().copied().collect();
            let service = plumb_model::ServiceResult {
                requests,
                time: requests * 5_000_000,
                longest: requests * 9_000_000,
                ..plumb_model::ServiceResult::default()
            };
            let processes = vec![ProcessRow { comm: name.into(), account, ..ProcessRow::default() }];
            let result = RunResult { processes, service, ..RunResult::default() };
            ServiceRun { name: name.into(), processes: 2, result, ..ServiceRun::default() }
        };
        const S: u64 = 1_000_000_000;
        let mut analysis = plumb_analysis::Analysis {
            environment: BTreeMap::new(),
            quality: plumb_analysis::Quality::default(),
            diagnosis: Diagnosis::default(),
            result: RunResult::default(),
            profile: plumb_model::profile::Profile::default(),
        };
        analysis.result.services = vec![
            run("nginx.service", &[(Category::Running, S), (Category::Idle, 7 * S)], 0),
            run(
                "container db",
                &[(Category::Running, S / 2), (Category::BlockIssued, 3 * S), (Category::Timer, 9 * S)],
                40,
            ),
        ];
        let limits = |name: &str, headline: &str| {
            let mut told = ServiceDiagnosis { name: name.into(), ..ServiceDiagnosis::default() };
            if !headline.is_empty() {
                told.diagnosis.findings =
                    vec![Finding { headline: headline.into(), share: 0.8, ..Finding::default() }];
                told.diagnosis.verdict = vec![format!("Bottleneck: {headline}")];
            }
            told
        };
        analysis.diagnosis.services =
            vec![limits("nginx.service", ""), limits("container db", "slow device sda")];
        Window { begin: 10 * S, end: 12 * S, analysis }
    }

    #[test]
    fn columns_are_threads_on_average() {
        let shown = Shown::of(&window());
        let names: Vec<&str> = shown.services.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["container db", "nginx.service"], "the busiest first");
        assert_eq!(shown.services[0].threads, [0.25, 0.0, 0.0, 1.5, 0.0, 0.0]);
        assert_eq!(shown.services[1].threads, [0.5, 0.0, 0.0, 0.0, 0.0, 0.0], "idle time is in no column");
        assert_eq!(
            (shown.services[0].requests, shown.services[0].mean, shown.services[0].longest),
            (20.0, 5_000_000, 360_000_000)
        );
        let mut half = window();
        half.analysis.result.paused = 1_000_000_000;
        let half = Shown::of(&half);
        assert_eq!((half.paused, half.services[0].threads[3]), (0.5, 3.0), "of what was recorded");
        assert_eq!(shown.bottleneck, "container db: Bottleneck: slow device sda");
        assert_eq!(bottleneck(&shown.services[1..], &Diagnosis::default()), "nothing limits a service");
    }
}
