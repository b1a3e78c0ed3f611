// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which tests were tried again: in this run, and in all runs that target/test-retries.txt has.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq)]
pub struct Retry {
    pub stage: String,
    pub test: String,
    /// Whether it passed in the end; None where that is not known.
    pub passed: Option<bool>,
}

/// What a line of output tells: `RETRY NAME: reason` of a script, `... (try 2)` of the fault suite.
pub fn told(stage: &str, line: &str) -> Option<Retry> {
    let retry = |test: &str, passed| Some(Retry { stage: stage.into(), test: test.into(), passed });
    if let Some(test) = line.strip_prefix("RETRY ") {
        return retry(test.split_once(": ").map_or(test, |(name, _)| name), None);
    }
    if line.contains("  (try ") {
        let test = line.split_whitespace().next()?;
        return retry(test, Some(!line.contains("MISSED") && !line.contains("FALSE ALARM")));
    }
    None
}

/// The list, in the directory of what is built.
pub fn file(target: &Path) -> PathBuf {
    target.join("test-retries.txt")
}

/// Appends them: a line each with date, commit, stage, test and how it ended, divided by tabs.
///
/// # Errors
/// The file cannot be written.
pub fn append(file: &Path, date: &str, commit: &str, retries: &[Retry]) -> Result<()> {
    if retries.is_empty() {
        return Ok(());
    }
    let mut list = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .with_context(|| format!("cannot write {}", file.display()))?;
    for retry in retries {
        let ended = retry.passed.map_or("-", |passed| if passed { "passed" } else { "failed" });
        writeln!(list, "{date}\t{commit}\t{}\t{}\t{ended}", retry.stage, retry.test)?;
    }
    Ok(())
}

/// How often each test of the list was tried again, the most frequent first.
pub fn summary(text: &str) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.split('\t').skip(2);
        if let (Some(stage), Some(test)) = (fields.next(), fields.next()) {
            *counts.entry(format!("{stage}: {test}")).or_default() += 1;
        }
    }
    let mut all: Vec<_> = counts.into_iter().collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_tell_of_retries() {
        let told = |line| told("vm", line).map(|r| (r.test, r.passed));
        assert_eq!(told("RETRY vm-6.1: no results"), Some(("vm-6.1".into(), None)));
        let row = "journal                strong  ok      expected x  found x  (try 2)";
        assert_eq!(told(row), Some(("journal".into(), Some(true))));
        let row = "journal                strong  MISSED  expected x  found y  (try 3)";
        assert_eq!(told(row), Some(("journal".into(), Some(false))));
        assert_eq!(told("sqlite clean   FALSE ALARM: x 3 %  (try 3)"), Some(("sqlite".into(), Some(false))));
        assert_eq!(told("we try 2 of them"), None);
    }

    #[test]
    fn the_list_is_appended_to_and_summed() {
        let dir = std::env::temp_dir().join(format!("plumb-retries-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let list = file(&dir);
        let retry = |test: &str, passed| Retry { stage: "root".into(), test: test.into(), passed };
        append(&list, "2026-01-01", "abc", &[]).expect("nothing");
        assert!(!list.exists());
        append(&list, "2026-01-01", "abc", &[retry("a", Some(true))]).expect("written");
        append(&list, "2026-01-02", "def", &[retry("b", None), retry("a", Some(false))]).expect("written");
        let text = std::fs::read_to_string(&list).expect("the list");
        std::fs::remove_dir_all(&dir).expect("removed");
        assert_eq!(
            text,
            "2026-01-01\tabc\troot\ta\tpassed\n2026-01-02\tdef\troot\tb\t-\n2026-01-02\tdef\troot\ta\tfailed\n"
        );
        assert_eq!(summary(&text), [("root: a".to_owned(), 2), ("root: b".to_owned(), 1)]);
    }
}
