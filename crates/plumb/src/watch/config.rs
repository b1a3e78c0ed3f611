// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file of `plumb watch`.

use super::asked::is_name;
use crate::cli::profile::percent;
use anyhow::{bail, Context, Result};
use plumb_live::otlp::Target;
use plumb_live::triggers::Condition;
use plumb_probe::Selection;
use plumb_trace::units;
use serde::{Deserialize, Deserializer};
use std::path::{Path, PathBuf};

/// Every key with its default, and what it means.
pub const EXAMPLE: &str = include_str!("../watch.toml");

/// What is kept, and what runs are written of.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Config {
    pub directory: PathBuf,
    /// ns.
    #[serde(deserialize_with = "duration")]
    pub window: u64,
    pub events: String,
    /// Share of all CPUs' time.
    #[serde(deserialize_with = "share")]
    pub budget: f64,
    /// ns.
    #[serde(deserialize_with = "duration")]
    pub keep: u64,
    /// Bytes.
    #[serde(deserialize_with = "bytes")]
    pub memory: u64,
    /// ns.
    #[serde(deserialize_with = "duration")]
    pub restart: u64,
    /// ADDRESS:PORT; empty: nobody is answered.
    pub metrics: String,
    /// http://HOST:PORT; empty: nobody is told.
    pub otlp: String,
    pub retention: Retention,
    #[serde(default, rename = "trigger")]
    pub triggers: Vec<When>,
}

/// What goes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Bytes.
    #[serde(deserialize_with = "bytes")]
    pub size: u64,
    /// ns.
    #[serde(deserialize_with = "duration")]
    pub age: u64,
}

/// When a run is written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    pub name: String,
    pub when: String,
    /// ns.
    #[serde(deserialize_with = "duration", default = "ten_minutes")]
    pub every: u64,
    /// ns.
    #[serde(deserialize_with = "duration", default = "five_seconds")]
    pub after: u64,
}

fn ten_minutes() -> u64 {
    600_000_000_000
}

fn five_seconds() -> u64 {
    5_000_000_000
}

fn text<'de, D: Deserializer<'de>, T>(
    from: D,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    parse(&String::deserialize(from)?).map_err(serde::de::Error::custom)
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    text(from, units::parse_duration)
}

fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    text(from, units::parse_bytes)
}

fn share<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    text(from, percent)
}

impl Config {
    /// That of a file, over the defaults; the defaults without one.
    ///
    /// # Errors
    /// It cannot be read, has a key that there is not or a value that cannot be; named.
    pub fn read(file: Option<&Path>) -> Result<Self> {
        let Some(file) = file else { return Self::parse("") };
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        Self::parse(&text).with_context(|| file.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        let mut whole: toml::Table = EXAMPLE.parse().context("the defaults")?;
        over(&mut whole, text.parse()?);
        let config: Self = whole.try_into()?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<()> {
        const SECOND: u64 = 1_000_000_000;
        for (key, value, least) in [
            ("window", self.window, SECOND),
            ("keep", self.keep, SECOND),
            ("restart", self.restart, 2 * self.window),
        ] {
            if value < least {
                bail!("{key} = \"{}\": at least {}", units::duration(value), units::duration(least));
            }
        }
        Selection::parse(&self.events)?;
        if !self.otlp.is_empty() {
            Target::is_endpoint(&self.otlp)?;
        }
        for trigger in &self.triggers {
            if !is_name(&trigger.name) {
                bail!(
                    "trigger '{}': a name has letters, digits, - and _, for it is part of a directory's",
                    trigger.name
                );
            }
            trigger.parsed()?;
            if trigger.after >= self.keep {
                bail!(
                    "trigger {}: after must be shorter than keep, or its moment is not in its run",
                    trigger.name
                );
            }
        }
        Ok(())
    }
}

impl When {
    /// Its condition.
    ///
    /// # Errors
    /// It is none.
    pub fn parsed(&self) -> Result<Condition> {
        Condition::parse(&self.when).with_context(|| format!("trigger {}", self.name))
    }
}

/// Lays one table over another; tables in it key by key.
fn over(under: &mut toml::Table, above: toml::Table) {
    for (key, value) in above {
        match (under.get_mut(&key), value) {
            (Some(toml::Value::Table(under)), toml::Value::Table(above)) => over(under, above),
            (_, value) => drop(under.insert(key, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_lies_over_the_defaults() {
        let all = Config::parse("").expect("the defaults");
        assert_eq!((all.window, all.budget, all.triggers.len()), (60_000_000_000, 0.05, 0));
        let own =
            "window = '10s'\nmetrics = '127.0.0.1:9'\n[retention]\nage = '1h'\n[[trigger]]\nname = 'slow'\nwhen = 'fsync > 50ms'\n";
        let config = Config::parse(own).expect("good");
        assert_eq!((config.window, config.retention.age), (10_000_000_000, 3_600_000_000_000));
        assert_eq!((all.metrics.as_str(), config.metrics.as_str()), ("", "127.0.0.1:9"));
        assert_eq!((config.keep, config.retention.size), (all.keep, all.retention.size));
        let trigger = &config.triggers[0];
        assert_eq!((trigger.every, trigger.after), (ten_minutes(), five_seconds()));
        // What the example shows is a trigger.
        let shown = EXAMPLE.replace("\n#", "\n").replace("\n ", "\n# ");
        assert_eq!(Config::parse(&shown).expect("the example").triggers[0].name, "slow-fsync");
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (text, word) in [
            ("windw = '1s'", "windw"),
            ("window = '1'", "duration"),
            ("window = '1ms'", "window"),
            ("events = 'nix'", "nix"),
            ("otlp = '127.0.0.1:4318'", "http://HOST:PORT"),
            ("otlp = 'http://user:hidden@host'", "endpoint"),
            ("budget = '200%'", "share"),
            ("[[trigger]]\nname = '../x'\nwhen = 'fsync > 1s'", "../x"),
            ("[[trigger]]\nname = 'x'\nwhen = 'fsnyc > 1s'", "fsnyc"),
            ("[[trigger]]\nname = 'x'\nwhen = 'fsync > 1s'\nafter = '1h'", "after"),
            ("window = ", "1"),
        ] {
            let said = format!("{:#}", Config::parse(text).expect_err(text));
            assert!(said.contains(word), "{text}: {said}");
            assert!(!said.contains("hidden"), "{said}");
        }
    }
}
