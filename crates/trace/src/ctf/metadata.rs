// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The metadata file: trace, environment and clock blocks, then the generated
//! streams and events.

use crate::schema::{SCHEMA_HASH, SCHEMA_HASHES};
use std::collections::BTreeMap;

const STREAMS: &str = include_str!("streams.tsdl");

/// What the metadata file says besides the schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Identity of the host, 16 bytes; Trace Compass takes it as the host's name.
    pub host: [u8; 16],
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC when the recording began, ns.
    pub clock_offset: u64,
    /// Environment: host name, kernel, command, event selection, thinning, ...
    pub env: BTreeMap<String, String>,
}

fn escape(text: &str) -> String {
    text.chars()
        .flat_map(|c| match c {
            '"' => "\\\"".chars().collect::<Vec<_>>(),
            '\\' => "\\\\".chars().collect(),
            c if c.is_control() => vec![' '],
            c => vec![c],
        })
        .collect()
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(if c == '\\' { chars.next().unwrap_or('\\') } else { c });
    }
    out
}

impl Metadata {
    /// What uname(2) of the recorded machine calls its architecture; empty where nothing tells it.
    pub fn machine(&self) -> &str {
        self.env.get("machine").map_or("", String::as_str)
    }

    /// The file's text.
    pub fn encode(&self) -> String {
        let h = self.host;
        let hex = |r: std::ops::Range<usize>| h[r].iter().map(|b| format!("{b:02x}")).collect::<String>();
        let uuid = format!("{}-{}-{}-{}-{}", hex(0..4), hex(4..6), hex(6..8), hex(8..10), hex(10..16));
        let mut env = format!(
            "\tdomain = \"kernel\";\n\ttracer_name = \"plumb\";\n\ttracer_major = {};\n\ttracer_minor = {};\n",
            env!("CARGO_PKG_VERSION_MAJOR"),
            env!("CARGO_PKG_VERSION_MINOR")
        );
        for (key, value) in &self.env {
            env.push_str(&format!("\t{key} = \"{}\";\n", escape(value)));
        }
        format!(
            "/* CTF 1.8 */\n\n\
             trace {{\n\tmajor = 1;\n\tminor = 8;\n\tbyte_order = le;\n\
             \tpacket.header := struct {{\n\
             \t\tinteger {{ size = 32; align = 8; signed = false; base = hex; }} magic;\n\
             \t\tinteger {{ size = 32; align = 8; signed = false; }} stream_id;\n\t}};\n}};\n\n\
             env {{\n\tplumb_schema = \"{SCHEMA_HASH:016x}\";\n{env}}};\n\n\
             clock {{\n\tname = monotonic;\n\tuuid = \"{uuid}\";\n\
             \tdescription = \"CLOCK_MONOTONIC\";\n\tfreq = 1000000000;\n\toffset = {};\n}};\n{STREAMS}",
            self.clock_offset
        )
    }

    /// Reads back what [`Metadata::encode`] wrote.
    ///
    /// # Errors
    /// A sentence: not CTF, not made by plumb, or of another schema (both named).
    pub fn decode(text: &str) -> Result<Self, String> {
        if !text.starts_with("/* CTF 1.8 */") {
            return Err("it does not begin with '/* CTF 1.8 */'".into());
        }
        let block = |name: &str| {
            let from = text.find(&format!("\n{name} {{\n"))? + name.len() + 4;
            let to = text[from..].find("\n};")? + from;
            Some(&text[from..to])
        };
        let value = |line: &str| -> Option<(String, String)> {
            let (key, value) = line.trim().trim_end_matches(';').split_once(" = ")?;
            let value = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value);
            Some((key.to_string(), unescape(value)))
        };
        let env: BTreeMap<_, _> =
            block("env").ok_or("it has no env block")?.lines().filter_map(value).collect();
        let ours: Vec<String> = SCHEMA_HASHES.iter().rev().map(|h| format!("{h:016x}")).collect();
        match env.get("plumb_schema") {
            None => return Err("it was not recorded by plumb (no plumb_schema in env)".into()),
            Some(theirs) if !ours.contains(theirs) => {
                return Err(format!(
                    "its schema is {theirs} (written by plumb {}.{}), this program reads {}; use the plumb that recorded it",
                    env.get("tracer_major").map_or("?", |v| v),
                    env.get("tracer_minor").map_or("?", |v| v),
                    ours.join(" and older "),
                ))
            }
            Some(_) => {}
        }
        let clock: BTreeMap<_, _> =
            block("clock").ok_or("it has no clock block")?.lines().filter_map(value).collect();
        let hex: Vec<u8> =
            clock.get("uuid").map(|u| u.bytes().filter(u8::is_ascii_hexdigit).collect()).unwrap_or_default();
        let mut host = [0; 16];
        for (byte, pair) in host.iter_mut().zip(hex.chunks_exact(2)) {
            *byte = u8::from_str_radix(&String::from_utf8_lossy(pair), 16).unwrap_or(0);
        }
        Ok(Self { host, clock_offset: clock.get("offset").and_then(|o| o.parse().ok()).unwrap_or(0), env })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_what_it_wrote() {
        let mut meta = Metadata { host: [7; 16], clock_offset: 42, ..Default::default() };
        meta.env.insert("command".into(), "sh -c \"a; \\b\"".into());
        let back = Metadata::decode(&meta.encode()).expect("own text");
        assert_eq!(back.env["command"], meta.env["command"]);
        assert_eq!((back.host, back.clock_offset), (meta.host, 42));
    }

    #[test]
    fn names_both_schemas_when_they_differ() {
        let text = Metadata::default().encode().replace(&format!("{SCHEMA_HASH:016x}"), "00000000deadbeef");
        let err = Metadata::decode(&text).expect_err("another schema");
        assert!(err.contains("00000000deadbeef") && err.contains(&format!("{SCHEMA_HASH:016x}")), "{err}");
    }

    #[test]
    fn reads_every_generation_and_writes_the_newest() {
        assert_eq!(SCHEMA_HASHES.last(), Some(&SCHEMA_HASH));
        let now = Metadata::default().encode();
        assert!(now.contains(&format!("{SCHEMA_HASH:016x}")));
        for hash in SCHEMA_HASHES {
            let text = now.replace(&format!("{SCHEMA_HASH:016x}"), &format!("{hash:016x}"));
            let back = Metadata::decode(&text).expect("a generation of ours");
            assert_eq!(back.env["plumb_schema"], format!("{hash:016x}"));
        }
    }
}
