// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `plumb watch` tells a real Prometheus server, with the alerts and the dashboard of `monitoring/`, and a real collector
//! of OpenTelemetry.

use super::{names, until, watching, Running};
use crate::common::{can, output};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port()
}

/// The first of these that runs.
fn program(places: &[PathBuf]) -> Option<PathBuf> {
    let runs = |program: &&PathBuf| {
        let out = Command::new(program).arg("--help").output();
        out.is_ok_and(|out| out.status.success())
    };
    places.iter().find(runs).cloned()
}

fn begun(command: &mut Command) -> Running {
    Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it was there"))
}

/// The data of an answer of Prometheus' HTTP API; none: it does not answer yet.
fn asked(port: u16, path: &str, parameters: &[(&str, &str)]) -> Option<Value> {
    let encoded = |text: &str| text.bytes().map(|b| format!("%{b:02X}")).collect::<String>();
    let parameters: Vec<String> = parameters.iter().map(|(k, v)| format!("{k}={}", encoded(v))).collect();
    let mut server = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(server, "GET /api/v1/{path}?{} HTTP/1.0\r\n\r\n", parameters.join("&")).ok()?;
    let mut answer = String::new();
    server.read_to_string(&mut answer).ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    let answer: Value = serde_json::from_str(body).ok()?;
    assert_eq!(answer["status"], "success", "{path} {parameters:?}: {answer}");
    Some(answer["data"].clone())
}

/// Expressions of the dashboard, as Grafana asks them.
fn dashboard() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("monitoring/grafana.json")).expect("a dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let filled = |text: &str| {
        text.replace("$__rate_interval", "5m").replace("$instance", ".*").replace("$service", ".*")
    };
    targets.map(|target| filled(target["expr"].as_str().expect("an expression"))).collect()
}

/// Lines of the collector's file that are of `kind`, and what is in them.
fn received(file: &Path, kind: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let documents = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    documents.filter(|document| document[kind].is_array()).collect()
}

fn text_of<'a>(record: &'a Value, key: &str) -> &'a str {
    let attributes = record["attributes"].as_array().expect("attributes").iter();
    let mut values = attributes.filter(|a| a["key"] == key).map(|a| &a["value"]["stringValue"]);
    values.next().and_then(Value::as_str).unwrap_or_default()
}

#[test]
fn prometheus_and_a_collector_are_told_of_an_incident() {
    let name = "prometheus_and_a_collector_are_told_of_an_incident";
    if !can(name, &["flock"]) {
        return;
    }
    let prometheus = program(&["prometheus".into()]);
    let collector = program(&[root().join("target/peers/bin/otelcol"), "otelcol".into()]);
    if prometheus.is_none() {
        println!("SKIP {name}: Prometheus: it is not installed (Debian has it)");
    }
    if collector.is_none() {
        println!("SKIP {name}: OpenTelemetry: there is no otelcol; scripts/deps.sh peers builds one where there is Go");
    }
    if prometheus.is_none() && collector.is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let [metrics, server, otlp] = [port(), port(), port()];
    let collected = dir.path().join("collected.json");
    let _collector = collector.as_ref().map(|program| {
        let config = format!(
            "receivers: {{otlp: {{protocols: {{http: {{endpoint: '127.0.0.1:{otlp}'}}}}}}}}\n\
             exporters: {{file: {{path: '{}', flush_interval: 100ms}}}}\n\
             service:\n  telemetry: {{metrics: {{level: none}}}}\n  pipelines:\n    \
             metrics: {{receivers: [otlp], exporters: [file]}}\n    logs: {{receivers: [otlp], exporters: [file]}}\n",
            collected.display()
        );
        begun(Command::new(program).arg("--config").arg(file("otelcol.yaml", &config)))
    });
    let _prometheus = prometheus.as_ref().map(|program| {
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\n\
             scrape_configs: [{{job_name: plumb, static_configs: [{{targets: ['127.0.0.1:{metrics}']}}]}}]\n",
            root().join("monitoring/alerts.yml").canonicalize().expect("alerts").display()
        );
        let mut command = Command::new(program);
        command.arg(format!("--config.file={}", file("prometheus.yml", &config).display()));
        command.arg(format!("--storage.tsdb.path={}", dir.path().join("series").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{server}"));
        begun(command.arg("--enable-feature=exemplar-storage"))
    });
    let kept = dir.path().join("kept");
    let endpoint = if collector.is_some() { format!("http://127.0.0.1:{otlp}") } else { String::new() };
    let config = format!(
        "directory = '{}'\nmetrics = '127.0.0.1:{metrics}'\notlp = '{endpoint}'\nwindow = '1s'\nkeep = '3s'\n\
         [[trigger]]\nname = 'flock'\nwhen = 'flock > 400ms'\nevery = '1h'\nafter = '1s'\n",
        kept.display()
    );
    let _watch = watching(&file("watch.toml", &config));
    let ask = |path: &str, parameters: &[(&str, &str)]| asked(server, path, parameters);
    let found = |expression: &str| {
        let data = ask("query", &[("query", expression)])?;
        Some(data["result"].clone()).filter(|series| series.as_array().is_some_and(|s| !s.is_empty()))
    };
    let is_there = prometheus.is_some();
    if is_there {
        // None yet: what grows later has grown.
        until("no run", || found("plumb_trigger_runs_total{trigger='flock'} == 0"));
    }
    let locked = dir.path().join("lock");
    let script = format!("flock {0} sleep 0.6 & sleep 0.1; flock {0} true; wait", locked.display());
    assert!(output(Command::new("sh").args(["-c", &script])).status.success());
    let run = until("a run", || names(&kept.join("runs")).into_iter().find(|n| n.ends_with("-flock")));
    if is_there {
        let alert = until("the alert", || {
            let data = ask("alerts", &[])?;
            let alerts = data["alerts"].as_array().expect("a list").clone();
            alerts.into_iter().find(|alert| alert["labels"]["alertname"] == "PlumbTriggerRun")
        });
        assert_eq!((&alert["labels"]["trigger"], &alert["state"]), (&"flock".into(), &"firing".into()));
        let summary = alert["annotations"]["summary"].as_str().expect("a summary");
        assert!(summary.ends_with(": flock"), "{summary}");
        for expression in dashboard() {
            ask("query", &[("query", &expression)]).expect(&expression);
        }
        let shown = dashboard().into_iter().find(|e| e.contains("trigger_runs")).expect("a panel of runs");
        let series = found(&shown).unwrap_or_else(|| panic!("{shown}"));
        let of_flock = |series: &&Value| series["metric"]["trigger"] == "flock" && series["value"][1] != "0";
        assert!(series.as_array().expect("series").iter().any(|s| of_flock(&s)), "{series}");
        // The exemplar names the run.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let (from, to) = ((now - 600).to_string(), (now + 60).to_string());
        let exemplars = until("an exemplar", || {
            let words =
                [("query", "plumb_trigger_runs_total"), ("start", from.as_str()), ("end", to.as_str())];
            ask("query_exemplars", &words).filter(|data| data.as_array().is_some_and(|all| !all.is_empty()))
        });
        assert_eq!(exemplars[0]["exemplars"][0]["labels"]["run"], run, "{exemplars}");
    }
    if collector.is_some() {
        let record = until("a record of the run", || {
            let documents = received(&collected, "resourceLogs");
            let records = documents.iter().flat_map(|document| {
                document["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array().expect("records").clone()
            });
            records.into_iter().find(|record| record["eventName"] == "plumb.trigger")
        });
        assert_eq!(Path::new(text_of(&record, "plumb.run")), kept.join("runs").join(&run));
        assert_eq!(text_of(&record, "plumb.condition"), "flock > 400ms");
        let runs = until("how many runs there are", || {
            let documents = received(&collected, "resourceMetrics");
            let metrics = documents.iter().flat_map(|document| {
                document["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
                    .as_array()
                    .expect("metrics")
                    .clone()
            });
            let runs = metrics.into_iter().filter(|metric| metric["name"] == "plumb_trigger_runs_total");
            let points =
                runs.flat_map(|metric| metric["sum"]["dataPoints"].as_array().expect("points").clone());
            points.into_iter().find(|point| text_of(point, "trigger") == "flock" && point["asDouble"] == 1.0)
        });
        assert!(runs["startTimeUnixNano"].is_string(), "{runs}");
    }
}
