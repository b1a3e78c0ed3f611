// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is known of programs: where their requests begin and end, and what they say that they wait for.
//! It lies in `programs/`, a file for each.

use super::Spec;
use anyhow::Result;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;

macro_rules! files {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../../programs/", $name, ".toml"))),)*]
    };
}
const FILES: &[(&str, &str)] = files!("mariadb" "mysql" "postgresql" "sqlite");
/// In the low half of a wait event's number: any that its class has no name for.
const ANY: u32 = 0xffff;

/// A program's version is looked for in so much of its file, bytes.
const LARGEST: u64 = 64 << 20;

/// One file of `programs/`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// What it is called in reports.
    pub title: String,
    /// File names of its executable.
    #[serde(default)]
    executables: Vec<String>,
    /// Or of the library that it is.
    #[serde(default)]
    libraries: Vec<String>,
    /// What its version follows in its file.
    version: Option<String>,
    #[serde(default)]
    span: Vec<SpanOf>,
    wait_event: Option<WaitEvent>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SpanOf {
    name: String,
    versions: Option<String>,
    begin: String,
    end: String,
    key: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitEvent {
    /// Of a pointer to the word that it keeps.
    symbol: String,
    /// Name of each class, by the word's high byte.
    classes: BTreeMap<String, String>,
    names: Vec<Names>,
}

/// The events of some versions, by the word's low 16 bits.
#[derive(Debug, Deserialize)]
struct Names {
    versions: String,
    #[serde(flatten)]
    of_class: BTreeMap<String, Events>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Events {
    FromZero(Vec<String>),
    ByNumber(BTreeMap<String, String>),
}

/// Whether a version is in `15` or `13-17`.
fn covers(versions: &str, version: Option<u32>) -> bool {
    let Some(version) = version else { return false };
    let (from, to) = versions.split_once('-').unwrap_or((versions, versions));
    let number = |word: &str| word.trim().parse::<u32>().ok();
    number(from).zip(number(to)).is_some_and(|(from, to)| (from..=to).contains(&version))
}

impl Program {
    /// All that are known.
    pub fn all() -> &'static [Program] {
        static ALL: OnceLock<Vec<Program>> = OnceLock::new();
        ALL.get_or_init(|| {
            let parse = |(name, text): &(&str, &str)| {
                toml::from_str(text).unwrap_or_else(|e| panic!("programs/{name}.toml: {e}"))
            };
            FILES.iter().map(parse).collect()
        })
    }

    /// Whether a file is one, by its name.
    pub fn is(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.executables.iter().any(|e| e == name)
    }

    /// Begins of names of files that hold its code as a library.
    pub fn libraries(&self) -> &[String] {
        &self.libraries
    }

    /// Its major version, as its file states it.
    pub fn version_of(&self, path: &Path) -> Option<u32> {
        let before = self.version.as_ref()?.as_bytes();
        let mut bytes = Vec::new();
        std::fs::File::open(path).ok()?.take(LARGEST).read_to_end(&mut bytes).ok()?;
        let found = bytes.windows(before.len()).enumerate().filter(|(_, w)| *w == before);
        found
            .filter_map(|(at, _)| {
                let digits = bytes[at + before.len()..].iter().take(4).take_while(|b| b.is_ascii_digit());
                String::from_utf8(digits.copied().collect()).ok()?.parse().ok()
            })
            .next()
    }

    /// Its requests, where they are known for a version.
    pub fn spans(&self, version: Option<u32>) -> impl Iterator<Item = Result<Spec>> + '_ {
        self.span
            .iter()
            .filter(move |s| s.versions.as_ref().is_none_or(|v| covers(v, version)))
            .map(|s| Spec::of_program(&s.name, &s.begin, &s.end, s.key.as_deref()))
    }

    /// Symbol of the pointer to the word of what it waits for.
    pub fn wait_symbol(&self) -> Option<&str> {
        self.wait_event.as_ref().map(|w| w.symbol.as_str())
    }

    /// What the word's values mean, in a version.
    pub fn wait_events(&self, version: Option<u32>) -> Vec<(u32, String)> {
        let Some(w) = &self.wait_event else { return Vec::new() };
        let Some(names) = w.names.iter().find(|n| covers(&n.versions, version)) else { return Vec::new() };
        let mut out = Vec::new();
        for (number, class) in &w.classes {
            let Ok(high) = number.parse::<u32>() else { continue };
            let mut put = |low: u32, name: &str| out.push((high << 24 | low, format!("{class}:{name}")));
            match names.of_class.get(class) {
                Some(Events::FromZero(events)) => (0..).zip(events).for_each(|(n, name)| put(n, name)),
                Some(Events::ByNumber(events)) => {
                    events
                        .iter()
                        .filter_map(|(n, name)| Some((n.parse().ok()?, name)))
                        .for_each(|(n, name)| put(n, name));
                }
                None => {}
            }
            // Such as those of extensions, which get their numbers while the server runs.
            put(ANY, "other");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_says_something_that_can_be_used() {
        for program in Program::all() {
            assert!(!program.executables.is_empty() || !program.libraries.is_empty(), "{}", program.title);
            for span in program.span.iter() {
                Spec::of_program(&span.name, &span.begin, &span.end, span.key.as_deref())
                    .expect(&program.title);
            }
        }
    }

    #[test]
    fn wait_events_of_postgresql_15() {
        let postgres =
            Program::all().iter().find(|p| p.is("/usr/lib/postgresql/15/bin/postgres")).expect("known");
        let events = postgres.wait_events(Some(15));
        let name = |event: u32| events.iter().find(|(e, _)| *e == event).map(|(_, name)| name.as_str());
        // Seen beside pg_stat_activity.
        assert_eq!(name(0x0600_0000), Some("Client:ClientRead"));
        assert_eq!(name(0x0A00_0046), Some("IO:WALSync"));
        assert_eq!(name(0x0300_0005), Some("Lock:transactionid"));
        assert_eq!(name(0x0100_0008), Some("LWLock:WALWrite"));
        assert!(postgres.wait_events(Some(9)).is_empty() && postgres.wait_events(None).is_empty());
    }
}
