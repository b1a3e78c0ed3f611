// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a user lets a guide change: the words of `--may`.

use super::tunables::{by_key, TUNABLES};
use anyhow::{bail, Result};
use serde::{Deserialize, Serialize};

/// A word of `--may`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum May {
    /// Every tunable of the table.
    All,
    /// One of the table; with a value, that value alone.
    Tunable { key: String, value: Option<String> },
    /// An environment variable of the command, for any finding or for one.
    Env { name: String, value: String, finding: Option<String> },
}

/// `TEXT@FINDING`, where the part behind the @ is the id of a finding.
pub fn for_finding(text: &str) -> (&str, Option<String>) {
    match text.rsplit_once('@') {
        Some((rest, id)) if plumb_diagnose::RULES.iter().any(|r| r.id == id) => (rest, Some(id.into())),
        _ => (text, None),
    }
}

impl May {
    /// `all`, `KEY`, `KEY=VALUE` or `env:NAME=VALUE[@FINDING]`.
    ///
    /// # Errors
    /// No such tunable; names those that there are.
    pub fn parse(text: &str) -> Result<May> {
        if text == "all" {
            return Ok(May::All);
        }
        if let Some(setting) = text.strip_prefix("env:") {
            let (setting, finding) = for_finding(setting);
            let Some((name, value)) = setting.split_once('=').filter(|(name, _)| !name.is_empty()) else {
                bail!("--may {text}: name the variable and its value, as in env:SYNC_EVERY=100");
            };
            return Ok(May::Env { name: name.into(), value: value.into(), finding });
        }
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (key, Some(value.to_string())),
            None => (text, None),
        };
        if by_key(key).is_none() {
            let all: Vec<&str> = TUNABLES.iter().map(|t| t.key).collect();
            bail!("--may {text}: no such tunable; there are all, {}, env:NAME=VALUE", all.join(", "));
        }
        Ok(May::Tunable { key: key.into(), value })
    }
}

impl std::fmt::Display for May {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            May::All => write!(f, "all"),
            May::Tunable { key, value: None } => write!(f, "{key}"),
            May::Tunable { key, value: Some(value) } => write!(f, "{key}={value}"),
            May::Env { name, value, finding } => {
                write!(f, "env:{name}={value}")?;
                finding.as_ref().map_or(Ok(()), |id| write!(f, "@{id}"))
            }
        }
    }
}

/// Whether a tunable may be changed: Some(None) to any of its candidates, Some(value) to that one.
pub fn allows<'a>(may: &'a [May], key: &str) -> Option<Option<&'a str>> {
    // The last one counts, as of options elsewhere.
    let named = may.iter().rev().find_map(|m| match m {
        May::Tunable { key: named, value } if named == key => Some(value.as_deref()),
        _ => None,
    });
    named.or_else(|| may.contains(&May::All).then_some(None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_understood_or_refused() {
        let may = |text: &str| May::parse(text).expect(text);
        assert_eq!(may("all"), May::All);
        assert_eq!(may("scheduler=bfq"), May::Tunable { key: "scheduler".into(), value: Some("bfq".into()) });
        let env = |value: &str, finding: Option<&str>| May::Env {
            name: "A".into(),
            value: value.into(),
            finding: finding.map(str::to_string),
        };
        assert_eq!(may("env:A=1=2"), env("1=2", None));
        assert_eq!(may("env:A=x@sync.write"), env("x", Some("sync.write")));
        assert_eq!(may("env:A=x@y"), env("x@y", None));
        for bad in ["", "readahead", "env:A", "env:=1"] {
            assert!(May::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_what_was_named_is_allowed() {
        let all = |words: &[&str]| words.iter().map(|w| May::parse(w).expect(w)).collect::<Vec<_>>();
        assert_eq!(allows(&all(&[]), "nice"), None);
        assert_eq!(allows(&all(&["thp", "env:nice=1"]), "nice"), None);
        assert_eq!(allows(&all(&["all"]), "nice"), Some(None));
        assert_eq!(allows(&all(&["all", "nice=-3"]), "nice"), Some(Some("-3")));
        assert_eq!(allows(&all(&["nice=-3", "nice=-5"]), "nice"), Some(Some("-5")));
    }
}
