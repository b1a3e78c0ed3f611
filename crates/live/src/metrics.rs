// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures of the window that was over last, in Prometheus' text format, for whoever fetches them over HTTP.

use crate::locked;
use crate::shown::{Device, Service, Shown, PARTS};
use crate::triggers::ASKED;
use anyhow::{Context, Result};
use plumb_machine::capabilities;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A client has this long to ask, and to take each part of its answer: while one is answered others wait.
const PATIENCE: Duration = Duration::from_secs(1);
/// A request's head is at most so long, bytes.
const HEAD: usize = 8192;
/// A service of which fewer threads are busy and that answered nothing has no series.
const LEAST: f64 = 0.001;
/// An exemplar's labels have at most so many characters, names and values together (OpenMetrics 1.0, exemplars).
const EXEMPLAR: usize = 128;

/// How the text is written, and its type (Prometheus, exposition formats).
#[derive(Debug, Clone, Copy, PartialEq)]
enum Format {
    /// Text format 0.0.4.
    Text,
    /// OpenMetrics 1.0, which has exemplars.
    Open,
}

impl Format {
    /// What a client asked for.
    fn of(head: &str) -> Self {
        let accepts = |line: &str| line.to_ascii_lowercase().starts_with("accept:");
        let open = head.lines().any(|line| accepts(line) && line.contains("application/openmetrics-text"));
        if open {
            Self::Open
        } else {
            Self::Text
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::Open => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What there is to be told.
#[derive(Debug, Default)]
struct State {
    shown: Shown,
    /// End of its window, seconds after 1970.
    end: u64,
    windows: u64,
    lost: u64,
    /// How often each trigger fired, and runs that were written of it.
    fired: BTreeMap<String, u64>,
    runs: BTreeMap<String, u64>,
    /// The last of them.
    last: BTreeMap<String, Run>,
}

/// A run that a trigger had written.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its directory's name.
    pub id: String,
    /// How long what fired took, s.
    pub took: f64,
    /// When that ended, seconds after 1970.
    pub at: u64,
}

/// Labels of a series, and its value.
pub type Series = Vec<(Vec<(&'static str, String)>, f64)>;

/// A metric that has series now.
pub struct Figure {
    pub name: &'static str,
    pub help: &'static str,
    pub series: Series,
}

impl Figure {
    /// Whether it only grows; the others tell of the last window.
    pub fn is_counter(&self) -> bool {
        self.name.ends_with("_total")
    }
}

struct Metric {
    name: &'static str,
    help: &'static str,
    of: fn(&State) -> Series,
}

fn one(value: f64) -> Series {
    vec![(Vec::new(), value)]
}

fn active(state: &State) -> impl Iterator<Item = &Service> {
    state.shown.services.iter().filter(|s| s.busy() >= LEAST || s.requests > 0.0)
}

fn services(state: &State, of: fn(&Service) -> Option<f64>) -> Series {
    active(state).filter_map(|s| Some((vec![("service", s.name.clone())], of(s)?))).collect()
}

fn devices(state: &State, of: fn(&Device) -> f64) -> Series {
    state.shown.devices.iter().map(|d| (vec![("device", d.name.clone())], of(d))).collect()
}

fn triggers(counts: &BTreeMap<String, u64>) -> Series {
    counts.iter().map(|(name, n)| (vec![("trigger", name.clone())], *n as f64)).collect()
}

fn seconds(ns: f64) -> f64 {
    ns / 1e9
}

const RUNS: &str = "plumb_trigger_runs_total";

/// Every metric; those whose names end in `_total` are counters since plumb began, the others are of the last window.
const METRICS: [Metric; 19] = [
    Metric {
        name: "plumb_windows_total",
        help: "Windows that are over.",
        of: |s| one(s.windows as f64),
    },
    Metric {
        name: "plumb_window_end_timestamp_seconds",
        help: "When the last window was over.",
        of: |s| one(s.end as f64),
    },
    Metric { name: "plumb_window_seconds", help: "Its length.", of: |s| one(s.shown.seconds) },
    Metric {
        name: "plumb_window_paused_ratio",
        help: "Share of it in which the recording paused to keep within its budget; other figures are of the rest.",
        of: |s| one(s.shown.paused),
    },
    Metric {
        name: "plumb_events_per_second",
        help: "Events that were recorded.",
        of: |s| one(s.shown.events),
    },
    Metric { name: "plumb_events_lost_total", help: "Events that were lost.", of: |s| one(s.lost as f64) },
    Metric { name: "plumb_cpus_busy", help: "CPUs that were busy, on average.", of: |s| one(s.shown.cpus[0]) },
    Metric {
        name: "plumb_service_threads",
        help: "Threads of a service that ran or waited (part: the columns of plumb top), on average.",
        of: |s| {
            let of = |(i, part): (usize, &&str)| {
                let label = ("part", (*part).to_string());
                let one = |s: &Service| (vec![("service", s.name.clone()), label.clone()], s.threads[i]);
                active(s).map(one).collect::<Series>()
            };
            PARTS.iter().enumerate().flat_map(of).collect()
        },
    },
    Metric {
        name: "plumb_service_limited",
        help: "1 for what limits a service most (by: the finding of plumb findings).",
        of: |s| {
            let limited = active(s).filter(|s| !s.finding.is_empty());
            limited.map(|s| (vec![("service", s.name.clone()), ("by", s.finding.clone())], 1.0)).collect()
        },
    },
    Metric {
        name: "plumb_service_requests_per_second",
        help: "Requests that a service answered.",
        of: |s| services(s, |s| Some(s.requests)),
    },
    Metric {
        name: "plumb_service_answer_mean_seconds",
        help: "Their mean time.",
        of: |s| services(s, |s| (s.requests > 0.0).then(|| seconds(s.mean as f64))),
    },
    Metric {
        name: "plumb_service_answer_max_seconds",
        help: "The longest.",
        of: |s| services(s, |s| (s.requests > 0.0).then(|| seconds(s.longest as f64))),
    },
    Metric {
        name: "plumb_device_requests_per_second",
        help: "Requests of a block device.",
        of: |s| devices(s, |d| d.requests),
    },
    Metric {
        name: "plumb_device_bytes_per_second",
        help: "Bytes that it read and wrote.",
        of: |s| devices(s, |d| d.bytes),
    },
    Metric {
        name: "plumb_device_busy_ratio",
        help: "Share of the time in which it had a request.",
        of: |s| devices(s, |d| d.busy),
    },
    Metric {
        name: "plumb_device_before_mean_seconds",
        help: "Mean time of a request before the device has it: waiting for a slot, plugged, in the I/O scheduler.",
        of: |s| devices(s, |d| seconds(d.before)),
    },
    Metric {
        name: "plumb_device_service_mean_seconds",
        help: "Mean device service time.",
        of: |s| devices(s, |d| seconds(d.service)),
    },
    Metric {
        name: "plumb_trigger_fired_total",
        help: "How often a trigger's condition came true.",
        of: |s| triggers(&s.fired),
    },
    Metric {
        name: RUNS,
        help: "Runs that were written of it.",
        of: |s| triggers(&s.runs),
    },
];

/// A label's value as the text format has it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn figures(state: &State) -> impl Iterator<Item = Figure> + '_ {
    let figure = |m: &Metric| Figure { name: m.name, help: m.help, series: (m.of)(state) };
    METRICS.iter().map(figure).filter(|f| !f.series.is_empty())
}

/// The last run of a trigger, as an exemplar of how many there are; empty: there is none, or its name is too long.
fn exemplar(state: &State, figure: &Figure, labels: &[(&str, String)]) -> String {
    let trigger = labels.iter().find(|(name, _)| figure.name == RUNS && *name == "trigger");
    let run = trigger.and_then(|(_, name)| state.last.get(name));
    let run = run.filter(|run| "run".len() + run.id.chars().count() <= EXEMPLAR);
    run.map_or(String::new(), |Run { id, took, at }| format!(" # {{run=\"{}\"}} {took} {at}", escaped(id)))
}

fn text(state: &State, format: Format) -> String {
    let mut text = String::new();
    for figure in figures(state) {
        let (name, help) = (figure.name, figure.help);
        let kind = if figure.is_counter() { "counter" } else { "gauge" };
        let family = match format {
            Format::Text => name,
            Format::Open => name.trim_end_matches("_total"),
        };
        let _ = writeln!(text, "# HELP {family} {help}\n# TYPE {family} {kind}");
        for (labels, value) in &figure.series {
            let exemplar = match format {
                Format::Text => String::new(),
                Format::Open => exemplar(state, &figure, labels),
            };
            let labels: Vec<String> =
                labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            let _ = match labels.is_empty() {
                true => writeln!(text, "{name} {value}"),
                false => writeln!(text, "{name}{{{}}} {value}{exemplar}", labels.join(",")),
            };
        }
    }
    if format == Format::Open {
        text.push_str("# EOF\n");
    }
    text
}

/// What is told of windows and triggers, for clients.
#[derive(Debug, Clone, Default)]
pub struct Metrics(Arc<Mutex<State>>);

impl Metrics {
    /// A window was over at `end`, seconds after 1970.
    pub fn window(&self, shown: Shown, end: u64) {
        let mut state = locked(&self.0);
        state.lost += shown.lost;
        state.windows += 1;
        (state.shown, state.end) = (shown, end);
    }

    /// How often triggers fired until now.
    pub fn fired<'a>(&self, totals: impl Iterator<Item = (&'a str, u64)>) {
        let mut state = locked(&self.0);
        for (name, n) in totals {
            // Most of the time nothing is new.
            match state.fired.get_mut(name) {
                Some(known) => *known = n,
                None => _ = state.fired.insert(name.into(), n),
            }
            // From 0 on: what comes with its first run has not increased (Prometheus, increase()).
            if !state.runs.contains_key(name) {
                state.runs.insert(name.into(), 0);
            }
        }
    }

    /// A run of a trigger was written; those that somebody asked for are one's.
    pub fn run(&self, name: &str, run: Run) {
        let mut state = locked(&self.0);
        let name = if state.fired.contains_key(name) { name } else { ASKED };
        *state.runs.entry(name.into()).or_default() += 1;
        state.last.insert(name.into(), run);
    }

    /// The window that was over last, its end in seconds after 1970, and what there is to be told.
    pub fn now(&self) -> (Shown, u64, Vec<Figure>) {
        let state = locked(&self.0);
        (state.shown.clone(), state.end, figures(&state).collect())
    }

    /// Answers whoever asks at `address`, on a thread of its own without privileges; tells where.
    ///
    /// # Errors
    /// Nobody can listen there.
    pub fn serve(&self, address: &str) -> Result<SocketAddr> {
        let listener = TcpListener::bind(address).with_context(|| format!("metrics = \"{address}\""))?;
        let at = listener.local_addr()?;
        let metrics = self.clone();
        let serve = move || {
            // Where the kernel refuses, it goes on with what it has.
            let _ = capabilities::keep(&[], &[]);
            for client in listener.incoming() {
                match client {
                    // Who went away needs no answer.
                    Ok(client) => _ = metrics.answer(client),
                    // Too many descriptors are open, say: others may be closed by then.
                    Err(_) => thread::sleep(PATIENCE),
                }
            }
        };
        thread::Builder::new().name("metrics".into()).spawn(serve).context("a thread for metrics")?;
        Ok(at)
    }

    fn answer(&self, mut client: TcpStream) -> std::io::Result<()> {
        client.set_write_timeout(Some(PATIENCE))?;
        let head = head(&mut client)?;
        let format = Format::of(&head);
        let (status, body) = match head.split_whitespace().take(2).collect::<Vec<_>>()[..] {
            ["GET" | "HEAD", "/metrics"] => ("200 OK", text(&locked(&self.0), format)),
            _ => ("404 Not Found", "plumb: /metrics\n".to_string()),
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            format.name(),
            body.len()
        );
        client.write_all(answer.as_bytes())?;
        if !head.starts_with("HEAD ") {
            client.write_all(body.as_bytes())?;
        }
        Ok(())
    }
}

/// A request up to the empty line behind its head.
fn head(client: &mut TcpStream) -> std::io::Result<String> {
    let until = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < HEAD {
        let left = until.saturating_duration_since(Instant::now());
        client.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match client.read(&mut part)? {
            0 => break,
            _ if left.is_zero() => return Err(std::io::ErrorKind::TimedOut.into()),
            n => head.extend_from_slice(&part[..n]),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn shown() -> Shown {
        let service = Service {
            name: "a \"quoted\" name.service".into(),
            threads: [0.5, 0.0, 1.25, 0.0, 0.0, 0.0],
            requests: 20.0,
            mean: 2_000_000,
            longest: 250_000_000,
            limit: "slow device sda: 4.2 ms".into(),
            finding: "disk.slow".into(),
            ..Service::default()
        };
        let sleeps = Service { name: "sleeps.service".into(), ..Service::default() };
        let device = Device { name: "sda".into(), busy: 0.5, service: 1e6, ..Device::default() };
        Shown {
            seconds: 60.0,
            lost: 3,
            services: vec![service, sleeps],
            devices: vec![device],
            ..Shown::default()
        }
    }

    fn ask(at: SocketAddr, request: &str) -> String {
        let mut client = TcpStream::connect(at).expect("listens");
        client.write_all(request.as_bytes()).expect("takes it");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("answers");
        answer
    }

    /// promtool's opinion of rules; none where it is not installed.
    fn promtool(arguments: &[&str]) -> Option<Result<(), String>> {
        let out = std::process::Command::new("promtool").args(arguments).output().ok()?;
        let said =
            || String::from_utf8_lossy(&[out.stdout.clone(), out.stderr.clone()].concat()).into_owned();
        Some(if out.status.success() { Ok(()) } else { Err(said()) })
    }

    #[test]
    fn alerts_and_dashboard_ask_for_what_there_is() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../monitoring");
        let text = |name: &str| std::fs::read_to_string(dir.join(name)).expect(name);
        let dashboard: serde_json::Value = serde_json::from_str(&text("grafana.json")).expect("JSON");
        let panels = dashboard["panels"].as_array().expect("panels");
        let asked = panels.iter().flat_map(|p| p["targets"].as_array().expect("targets"));
        let asked: Vec<&str> = asked.map(|t| t["expr"].as_str().expect("an expression")).collect();
        let mut used = 0;
        for text in [text("alerts.yml"), text("alerts-test.yml"), asked.join(" ")] {
            for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
                if word.starts_with("plumb_") {
                    assert!(METRICS.iter().any(|m| m.name == word), "there is no metric {word}");
                    used += 1;
                }
            }
        }
        assert!(used > 40, "{used}");
        let alerts = dir.join("alerts.yml").display().to_string();
        let Some(check) = promtool(&["check", "rules", &alerts]) else {
            // Not by println!, which a test that passes keeps to itself.
            let why = "it is not installed (Debian's prometheus has it)";
            let _ = writeln!(std::io::stderr(), "SKIP promtool's opinion of alerts and dashboard: {why}");
            return;
        };
        check.expect("alerts");
        promtool(&["test", "rules", &dir.join("alerts-test.yml").display().to_string()])
            .expect("promtool")
            .expect("tests");
        // It reads expressions of rules; Grafana fills in the rest.
        let rules = asked.iter().map(|e| {
            let e = e.replace("$__rate_interval", "5m").replace("$instance", ".*").replace("$service", ".*");
            format!("- {{record: 'asked:by:dashboard', expr: '{e}', labels: {{n: '{}'}}}}\n", e.len())
        });
        let rules =
            format!("groups:\n- name: dashboard\n  rules:\n  {}", rules.collect::<Vec<_>>().join("  "));
        let file = std::env::temp_dir().join(format!("plumb-dashboard-{}.yml", std::process::id()));
        std::fs::write(&file, rules).expect("written");
        let check = promtool(&["check", "rules", &file.display().to_string()]).expect("promtool");
        std::fs::remove_file(&file).expect("removed");
        check.expect("the dashboard's expressions");
    }

    #[test]
    fn a_window_is_told_in_the_text_format() {
        let metrics = Metrics::default();
        metrics.window(shown(), 1_000);
        metrics.window(shown(), 1_060);
        metrics.fired([("slow", 3), (ASKED, 1)].into_iter());
        let run = |id: &str| Run { id: id.into(), took: 0.6, at: 1_050 };
        metrics.run("slow", run("20261129-1"));
        metrics.run("oom", run(&"x".repeat(126)));
        let open = text(&locked(&metrics.0), Format::Open);
        for line in [
            "# TYPE plumb_windows counter",
            "plumb_windows_total 2",
            "plumb_trigger_runs_total{trigger=\"slow\"} 1 # {run=\"20261129-1\"} 0.6 1050",
            "plumb_trigger_runs_total{trigger=\"asked\"} 1",
        ] {
            assert!(open.lines().any(|l| l == line), "{line}: {open}");
        }
        assert!(open.ends_with("\n# EOF\n"), "{open}");
        let text = text(&locked(&metrics.0), Format::Text);
        let name = "service=\"a \\\"quoted\\\" name.service\"";
        for line in [
            "# TYPE plumb_windows_total counter".to_string(),
            "plumb_windows_total 2".into(),
            "plumb_events_lost_total 6".into(),
            "plumb_window_end_timestamp_seconds 1060".into(),
            format!("plumb_service_threads{{{name},part=\"lock\"}} 1.25"),
            format!("plumb_service_limited{{{name},by=\"disk.slow\"}} 1"),
            format!("plumb_service_answer_max_seconds{{{name}}} 0.25"),
            "plumb_device_service_mean_seconds{device=\"sda\"} 0.001".into(),
            "plumb_trigger_fired_total{trigger=\"slow\"} 3".into(),
            "plumb_trigger_runs_total{trigger=\"slow\"} 1".into(),
            "plumb_trigger_runs_total{trigger=\"asked\"} 1".into(),
        ] {
            assert!(text.lines().any(|l| l == line), "{line}: {text}");
        }
        assert!(!text.contains("sleeps"), "{text}");
        assert!(text.lines().all(|l| l.starts_with("# ") || l.starts_with("plumb_")), "{text}");
    }

    #[test]
    fn ten_clients_are_answered_beside_one_that_says_nothing() {
        let metrics = Metrics::default();
        let at = metrics.serve("127.0.0.1:0").expect("a port");
        metrics.window(shown(), 1_000);
        let _silent = TcpStream::connect(at).expect("listens");
        let client = move || ask(at, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
        let clients: Vec<_> = (0..10).map(|_| thread::spawn(client)).collect();
        for client in clients {
            let answer = client.join().expect("answered");
            let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
            assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
            assert!(body.contains("plumb_windows_total 1\n"), "{body}");
        }
        let open =
            ask(at, "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0\r\n\r\n");
        assert!(
            open.contains("\r\nContent-Type: application/openmetrics-text;") && open.ends_with("# EOF\n"),
            "{open}"
        );
        assert!(ask(at, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        let head = ask(at, "HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
        let taken = metrics.serve(&at.to_string()).expect_err("taken").to_string();
        assert!(taken.contains(&at.to_string()), "{taken}");
    }

    #[test]
    fn the_manual_has_every_metric() {
        let manual = include_str!("../../../docs/watch.md");
        for metric in &METRICS {
            let row = format!("| `{}` | {} |", metric.name, metric.help.trim_end_matches('.'));
            assert!(manual.contains(&row), "docs/watch.md lacks: {row}");
        }
    }
}
