// SPDX-License-Identifier: Apache-2.0 OR MIT
//! OpenTelemetry's format: what a collector is sent (opentelemetry-proto, profiles/v1development/profiles.proto, in JSON), of pprof's
//! tables. These count from 1, and so do indices here: the first element of each table is empty.

use super::pprof::{self, proto};
use anyhow::{Context, Result};
use plumb_model::profile::Profile;
use serde_json::{json, Value};
use std::collections::{BTreeMap, HashMap};
use std::io::Write;

/// What pprof's labels are called (OpenTelemetry, Semantic Conventions: process, thread, profile).
const NAMES: [(&str, &str); 6] = [
    ("process", "process.executable.name"),
    ("pid", "process.pid"),
    ("thread", "thread.name"),
    ("tid", "thread.id"),
    ("state", "plumb.state"),
    ("cause", "plumb.cause"),
];

/// Each thing once.
struct Tables {
    strings: Vec<String>,
    places: HashMap<String, usize>,
    attributes: Vec<Value>,
    known: HashMap<String, usize>,
    stacks: Vec<Value>,
    stack_of: HashMap<Vec<u64>, usize>,
}

impl Tables {
    fn new(strings: &[String]) -> Self {
        Self {
            strings: strings.to_vec(),
            places: strings.iter().cloned().enumerate().map(|(at, text)| (text, at)).collect(),
            attributes: vec![json!({})],
            known: HashMap::new(),
            stacks: vec![json!({})],
            stack_of: HashMap::new(),
        }
    }

    fn string(&mut self, text: &str) -> usize {
        let strings = &mut self.strings;
        *self.places.entry(text.into()).or_insert_with(|| {
            strings.push(text.into());
            strings.len() - 1
        })
    }

    fn attribute(&mut self, key: &str, value: Value) -> usize {
        let attribute = json!({"keyStrindex": self.string(key), "value": value});
        let attributes = &mut self.attributes;
        *self.known.entry(attribute.to_string()).or_insert_with(|| {
            attributes.push(attribute);
            attributes.len() - 1
        })
    }

    /// Innermost first, as in pprof.
    fn stack(&mut self, locations: &[u64]) -> usize {
        let stacks = &mut self.stacks;
        *self.stack_of.entry(locations.to_vec()).or_insert_with(|| {
            stacks.push(json!({ "locationIndices": locations }));
            stacks.len() - 1
        })
    }
}

fn text(value: &str) -> Value {
    json!({ "stringValue": value })
}

/// A table with the empty element in front.
fn table(rows: impl Iterator<Item = Value>) -> Vec<Value> {
    std::iter::once(json!({})).chain(rows).collect()
}

fn kind(of: proto::ValueType) -> Value {
    json!({"typeStrindex": of.r#type, "unitStrindex": of.unit})
}

fn document(profile: &Profile) -> Value {
    let message = pprof::message(profile);
    let mut tables = Tables::new(&message.string_table);
    let word = |at: i64| message.string_table.get(at as usize).map_or("", String::as_str);
    let mappings = table(message.mapping.iter().map(|mapping| {
        let build_id = Some(word(mapping.build_id)).filter(|id| !id.is_empty());
        let attributes: Vec<usize> = build_id
            .map(|id| tables.attribute("process.executable.build_id.gnu", text(id)))
            .into_iter()
            .collect();
        json!({"filenameStrindex": mapping.filename, "attributeIndices": attributes})
    }));
    let kernel = profile.modules.first().map_or("", |module| &module.path);
    let locations = table(message.location.iter().map(|location| {
        let module = message.mapping.get((location.mapping_id as usize).wrapping_sub(1));
        // Code that a process made itself has no file; whose it is the profile does not know.
        let frame = match module.map(|mapping| word(mapping.filename)) {
            Some(name) if name == kernel => Some("kernel"),
            Some(name) if name.starts_with('/') => Some("native"),
            _ => None,
        };
        let attributes: Vec<usize> =
            frame.map(|frame| tables.attribute("profile.frame.type", text(frame))).into_iter().collect();
        let lines: Vec<Value> = location
            .line
            .iter()
            .map(|line| json!({"functionIndex": line.function_id, "line": line.line.to_string()}))
            .collect();
        json!({
            "mappingIndex": location.mapping_id,
            "address": location.address.to_string(),
            "lines": lines,
            "attributeIndices": attributes,
        })
    }));
    let functions = table(message.function.iter().map(|function| {
        json!({
            "nameStrindex": function.name,
            "systemNameStrindex": function.system_name,
            "filenameStrindex": function.filename,
        })
    }));
    // A resource each process: what it is called is the service's name.
    let mut processes: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for sample in &message.sample {
        let (mut process, mut attributes) = ("", Vec::new());
        for label in &sample.label {
            let key = word(label.key);
            let name = NAMES.iter().find(|(label, _)| *label == key).map_or(key, |(_, name)| name);
            let value = match label.str {
                0 => json!({"intValue": label.num.to_string()}),
                at => text(word(at)),
            };
            if key == "process" {
                process = word(label.str);
            }
            attributes.push(tables.attribute(name, value));
        }
        // Samples and time; a profile here has one kind of value.
        let time = sample.value.get(1).copied().unwrap_or(0);
        let stack = tables.stack(&sample.location_id);
        let sample =
            json!({"stackIndex": stack, "values": [time.to_string()], "attributeIndices": attributes});
        processes.entry(process).or_default().push(sample);
    }
    let wall = json!({"typeStrindex": tables.string("wall"), "unitStrindex": tables.string("nanoseconds")});
    let resources: Vec<Value> = processes
        .into_iter()
        .map(|(process, samples)| {
            let mut of = json!({
                "sampleType": wall,
                "samples": samples,
                "timeUnixNano": profile.realtime.to_string(),
                "durationNano": message.duration_nanos.to_string(),
            });
            if let Some(period) = message.period_type {
                of["periodType"] = kind(period);
                of["period"] = message.period.to_string().into();
            }
            json!({
                "resource": {"attributes": [{"key": "service.name", "value": text(process)}]},
                "scopeProfiles": [{
                    "scope": {"name": "plumb", "version": env!("CARGO_PKG_VERSION")},
                    "profiles": [of],
                }],
            })
        })
        .collect();
    json!({
        "resourceProfiles": resources,
        "dictionary": {
            "mappingTable": mappings,
            "locationTable": locations,
            "functionTable": functions,
            // No trace, and no span of it.
            "linkTable": [{"traceId": "0".repeat(32), "spanId": "0".repeat(16)}],
            "stringTable": tables.strings,
            "attributeTable": tables.attributes,
            "stackTable": tables.stacks,
        },
    })
}

/// Writes the profile.
///
/// # Errors
/// The writer's.
pub fn write(profile: &Profile, out: &mut dyn Write) -> Result<()> {
    serde_json::to_writer(&mut *out, &document(profile)).context("cannot write the profile")?;
    writeln!(out).context("cannot write the profile")
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    fn strings(document: &Value) -> Vec<&str> {
        let strings = document["dictionary"]["stringTable"].as_array().expect("strings");
        strings.iter().map(|text| text.as_str().expect("a text")).collect()
    }

    #[test]
    fn the_tables_hang_together_and_the_time_is_the_profiles() {
        for profile in [sample::small(), sample::random(3, 500)] {
            let document = document(&profile);
            let strings = strings(&document);
            assert_eq!(strings[0], "");
            let table = |name: &str| document["dictionary"][name].as_array().expect("a table").clone();
            let at = |row: &Value, key: &str| row[key].as_u64().expect("an index") as usize;
            let indices = |row: &Value, key: &str| -> Vec<usize> {
                let list = row[key].as_array().cloned().unwrap_or_default();
                list.iter().map(|n| n.as_u64().expect("an index") as usize).collect()
            };
            let (attributes, stacks) = (table("attributeTable"), table("stackTable"));
            let (locations, functions) = (table("locationTable"), table("functionTable"));
            let mut time = 0;
            for of in document["resourceProfiles"].as_array().expect("resources") {
                let of = &of["scopeProfiles"][0]["profiles"][0];
                assert_eq!(strings[at(&of["sampleType"], "typeStrindex")], "wall");
                for sample in of["samples"].as_array().expect("samples") {
                    assert!(indices(sample, "attributeIndices")
                        .iter()
                        .all(|n| (1..attributes.len()).contains(n)));
                    for location in indices(&stacks[at(sample, "stackIndex")], "locationIndices") {
                        for line in locations[location]["lines"].as_array().expect("lines") {
                            assert!((1..functions.len()).contains(&at(line, "functionIndex")));
                        }
                    }
                    time += sample["values"][0].as_str().expect("a number").parse::<u64>().expect("a number");
                }
            }
            assert_eq!(time, profile.time());
        }
    }

    #[test]
    fn labels_and_frames_have_the_names_of_the_conventions() {
        let mut profile = sample::small();
        profile.realtime = 1_700_000_000_000_000_000;
        let document = document(&profile);
        let strings = strings(&document);
        let attributes = document["dictionary"]["attributeTable"].as_array().expect("attributes");
        let has = |key: &str, value: &Value| {
            attributes.iter().skip(1).any(|a| {
                strings[a["keyStrindex"].as_u64().expect("an index") as usize] == key && a["value"] == *value
            })
        };
        for (key, value) in [
            ("thread.name", text("worker")),
            ("thread.id", json!({"intValue": "11"})),
            ("process.executable.name", text("app")),
            ("process.executable.build_id.gnu", text("ab12")),
            ("profile.frame.type", text("kernel")),
            ("profile.frame.type", text("native")),
            ("plumb.cause", text("sda")),
        ] {
            assert!(has(key, &value), "{key}: {attributes:?}");
        }
        let of = &document["resourceProfiles"][0]["scopeProfiles"][0]["profiles"][0];
        assert_eq!(
            (&of["timeUnixNano"], &of["durationNano"]),
            (&json!("1700000000000000000"), &json!("60000"))
        );
        assert_eq!(document["resourceProfiles"][0]["resource"]["attributes"][0]["value"], text("app"));
    }

    #[test]
    fn a_collector_takes_it() {
        let program = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers/bin/otelcol");
        if !program.exists() {
            // Not by println!, which a test that passes keeps to itself.
            let why =
                "there is no target/peers/bin/otelcol (scripts/deps.sh peers builds one where there is Go)";
            let _ = writeln!(std::io::stderr(), "SKIP a_collector_takes_it: {why}");
            return;
        }
        let dir = tempfile::tempdir().expect("directory");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
        let (config, file) = (dir.path().join("config.yaml"), dir.path().join("collected.json"));
        let text = format!(
            "receivers: {{otlp: {{protocols: {{http: {{endpoint: '127.0.0.1:{port}'}}}}}}}}\n\
             exporters: {{file: {{path: '{}', flush_interval: 100ms}}}}\nservice:\n  telemetry: {{metrics: {{level: none}}}}\n  \
             pipelines: {{profiles: {{receivers: [otlp], exporters: [file]}}}}\n",
            file.display()
        );
        std::fs::write(&config, text).expect("written");
        let mut command = Command::new(program);
        command.arg("--config").arg(&config).arg("--feature-gates=service.profilesSupport");
        let mut collector = command.stderr(Stdio::null()).spawn().expect("a collector");
        let mut body = Vec::new();
        write(&sample::small(), &mut body).expect("written");
        let head = format!(
            "POST /v1development/profiles HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let until = Instant::now() + Duration::from_secs(20);
        let mut client = loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(client) => break client,
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        client.write_all(&[head.as_bytes(), &body].concat()).expect("it reads");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("it answers");
        let collected = loop {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            if text.ends_with('\n') || Instant::now() > until {
                break text;
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let _ = collector.kill();
        let _ = collector.wait();
        assert!(answer.starts_with("HTTP/1.0 200") || answer.starts_with("HTTP/1.1 200"), "{answer}");
        let collected: Value =
            serde_json::from_str(collected.trim()).unwrap_or_else(|e| panic!("{e}: {collected}"));
        let seen = strings(&collected);
        assert!(seen.contains(&"sys_read") && seen.contains(&"[block.device sda]"), "{seen:?}");
        let sum = |document: &Value| -> u64 {
            let of = document["resourceProfiles"][0]["scopeProfiles"][0]["profiles"][0]["samples"].clone();
            let values = of
                .as_array()
                .expect("samples")
                .iter()
                .map(|s| s["values"][0].as_str().expect("a number").to_owned());
            values.map(|v| v.parse::<u64>().expect("a number")).sum()
        };
        assert_eq!(sum(&collected), sample::small().time());
    }
}
