// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is sent: requests of OTLP in JSON.

use crate::metrics::Figure;
use crate::shown::Shown;
use plumb_machine::host::Identity;
use plumb_trace::schema::StateTrigger;
use plumb_trace::units;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Services of which is told what limits them: the busiest of those that something limits.
const SERVICES: usize = 64;
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Severities (OpenTelemetry, Logs Data Model, SeverityNumber).
const INFO: (u32, &str) = (9, "INFO");
const WARN: (u32, &str) = (13, "WARN");

/// A trigger that fired, and of which a run was written.
#[derive(Debug, Clone)]
pub struct Fired {
    pub name: String,
    pub what: StateTrigger,
    /// When it ended, seconds after 1970.
    pub at: u64,
    /// The run's directory.
    pub run: String,
}

/// Makes what is sent.
pub struct Documents {
    resource: Value,
    scope: Value,
    began: String,
    /// The finding that limited each service in the window before.
    limited: BTreeMap<String, String>,
}

/// ns after 1970, as a document has them: 64 bits are text in JSON.
fn moment(seconds: u64) -> String {
    (u128::from(seconds) * 1_000_000_000).to_string()
}

fn now() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos()).to_string()
}

pub fn attribute(key: &str, value: impl Into<String>) -> Value {
    json!({"key": key, "value": {"stringValue": value.into()}})
}

/// A unit of UCUM, by a metric's name as Prometheus has it.
fn unit(name: &str) -> &'static str {
    match name {
        _ if name.ends_with("_bytes_per_second") => "By/s",
        _ if name.ends_with("_seconds") => "s",
        _ if name.ends_with("_ratio") => "1",
        _ => "",
    }
}

impl Documents {
    /// Attributes of everything that is sent: who tells (OpenTelemetry, Semantic Conventions, Resource).
    pub fn new(machine: &Identity) -> Self {
        let Identity { host, machine_id, kernel } = machine;
        let mut attributes: Vec<Value> = [
            ("service.name", "plumb"),
            ("service.version", VERSION),
            ("host.name", host),
            ("host.id", machine_id),
            ("os.type", "linux"),
            ("os.version", kernel),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| attribute(key, value))
        .collect();
        attributes
            .push(attribute("service.instance.id", if machine_id.is_empty() { host } else { machine_id }));
        Self {
            resource: json!({ "attributes": attributes }),
            scope: json!({"name": "plumb", "version": VERSION}),
            began: now(),
            limited: BTreeMap::new(),
        }
    }

    /// ExportMetricsServiceRequest.
    pub fn metrics(&self, end: u64, figures: &[Figure]) -> Value {
        let metric = |figure: &Figure| {
            let points: Vec<Value> = figure
                .series
                .iter()
                .map(|(labels, value)| {
                    let labels: Vec<Value> =
                        labels.iter().map(|(key, value)| attribute(key, value)).collect();
                    let mut point =
                        json!({"attributes": labels, "timeUnixNano": moment(end), "asDouble": value});
                    if figure.is_counter() {
                        point["startTimeUnixNano"] = self.began.clone().into();
                    }
                    point
                })
                .collect();
            let mut metric =
                json!({"name": figure.name, "description": figure.help, "unit": unit(figure.name)});
            if figure.is_counter() {
                // Cumulative.
                metric["sum"] =
                    json!({"aggregationTemporality": 2, "isMonotonic": true, "dataPoints": points});
            } else {
                metric["gauge"] = json!({ "dataPoints": points });
            }
            metric
        };
        let metrics: Vec<Value> = figures.iter().map(metric).collect();
        json!({"resourceMetrics": [{
            "resource": self.resource,
            "scopeMetrics": [{"scope": self.scope, "metrics": metrics}],
        }]})
    }

    /// ExportLogsServiceRequest.
    pub fn logs(&self, records: &[Value]) -> Value {
        json!({"resourceLogs": [{
            "resource": self.resource,
            "scopeLogs": [{"scope": self.scope, "logRecords": records}],
        }]})
    }

    fn record(at: u64, event: &str, severity: (u32, &str), body: &str, attributes: &[Value]) -> Value {
        json!({
            "timeUnixNano": moment(at),
            "observedTimeUnixNano": now(),
            "severityNumber": severity.0,
            "severityText": severity.1,
            "eventName": event,
            "body": {"stringValue": body},
            "attributes": attributes,
        })
    }

    /// Of each service that something else limits than in the window before, or nothing any more.
    pub fn findings(&mut self, shown: &Shown, end: u64) -> Vec<Value> {
        let limited = shown.services.iter().filter(|service| !service.finding.is_empty()).take(SERVICES);
        let before = std::mem::take(&mut self.limited);
        let mut records = Vec::new();
        for service in limited {
            let (name, finding) = (service.name.as_str(), service.finding.as_str());
            self.limited.insert(name.into(), finding.into());
            if before.get(name).is_some_and(|before| before == finding) {
                continue;
            }
            let attributes = [
                attribute("plumb.service", name),
                attribute("plumb.finding", finding),
                attribute("plumb.verdict", service.verdict.join("\n")),
            ];
            records.push(Self::record(
                end,
                "plumb.finding",
                INFO,
                &format!("{name}: {}", service.limit),
                &attributes,
            ));
        }
        for name in before.keys().filter(|name| !self.limited.contains_key(*name)) {
            let body = format!("{name}: nothing limits it any more");
            records.push(Self::record(
                end,
                "plumb.finding",
                INFO,
                &body,
                &[attribute("plumb.service", name.as_str())],
            ));
        }
        records
    }

    pub fn fired(fired: &Fired) -> Value {
        let Fired { name, what, at, run } = fired;
        let took = what.end.saturating_sub(what.begin);
        let body = match what.thread {
            0 => format!("trigger {name}: {}: in {}", what.condition, units::duration(took)),
            thread => {
                format!("trigger {name}: {}: thread {thread} took {}", what.condition, units::duration(took))
            }
        };
        let mut attributes = vec![
            attribute("plumb.trigger", name.as_str()),
            attribute("plumb.condition", what.condition.as_str()),
            attribute("plumb.run", run.as_str()),
            json!({"key": "plumb.duration", "value": {"doubleValue": took as f64 / 1e9}}),
        ];
        if what.thread != 0 {
            attributes.push(json!({"key": "thread.id", "value": {"intValue": what.thread.to_string()}}));
        }
        Self::record(*at, "plumb.trigger", WARN, &body, &attributes)
    }
}
