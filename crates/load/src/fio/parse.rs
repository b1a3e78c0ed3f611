// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The text of a job file: sections, each with the options of the `[global]`
//! sections before it.

use super::FioError;

/// An option as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its line, from 1.
    pub line: usize,
    /// Its name as this program calls it: one of several that fio takes.
    pub key: &'static str,
    pub written: String,
    /// Behind the `=`; `1` where there is none.
    pub value: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Section {
    /// Its line, from 1.
    pub line: usize,
    pub name: String,
    /// Its options; of two with the same name the last.
    pub entries: Vec<Entry>,
    /// Options that are not known by name: (line, as written).
    pub foreign: Vec<(usize, String)>,
}

impl Section {
    fn add(&mut self, line: usize, text: &str) -> Result<(), FioError> {
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (key.trim(), value.trim()),
            None => (text, "1"),
        };
        let bad = |text: String| FioError { line, text };
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(bad(format!("'{text}' is no option; options are name=value or a name alone")));
        }
        if value.contains("${")
            || value.contains("$ncpus")
            || value.contains("$pagesize")
            || value.contains("$mb_memory")
        {
            return Err(bad(format!("'{text}': variables are not filled in; write the value itself")));
        }
        match super::option_names::canonical(key) {
            None => self.foreign.push((line, text.to_string())),
            Some(key) => {
                self.entries.retain(|e| e.key != key);
                self.entries.push(Entry { line, key, written: text.to_string(), value: value.to_string() });
            }
        }
        Ok(())
    }
}

/// The jobs of a job file.
pub(super) fn sections(text: &str) -> Result<Vec<Section>, FioError> {
    let empty =
        |line, name: &str| Section { line, name: name.into(), entries: Vec::new(), foreign: Vec::new() };
    let mut global = empty(1, "global");
    let mut jobs: Vec<Section> = Vec::new();
    // Whether options belong to [global], to the last job, or to nothing yet.
    let mut open: Option<bool> = None;
    for (i, raw) in text.lines().enumerate() {
        let line = i + 1;
        // A comment goes to the line's end, wherever it begins.
        let text = raw.split([';', '#']).next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        let bad = |text: String| FioError { line, text };
        if let Some(rest) = text.strip_prefix('[') {
            let name = rest
                .strip_suffix(']')
                .ok_or_else(|| bad(format!("'{text}': the section's ] is missing")))?
                .trim();
            if name.is_empty() {
                return Err(bad("a section without a name; write [name]".into()));
            }
            open = Some(name == "global");
            if name != "global" {
                jobs.push(Section { line, name: name.into(), ..global.clone() });
            }
            continue;
        }
        if text.starts_with("include ") {
            return Err(bad(format!("'{text}': other files are not read; write their text here")));
        }
        match (open, jobs.last_mut()) {
            (Some(true), _) => global.add(line, text)?,
            (Some(false), Some(job)) => job.add(line, text)?,
            _ => {
                return Err(bad(format!(
                    "'{text}' stands before the first section; write [global] or [name] above it"
                )))
            }
        }
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_what_global_says_above_it() {
        let text = "; comment\n[global]\nbs=4k # small\n[a]\nrw=read\n[global]\nblocksize=8k\n[b]\nthread\n";
        let jobs = sections(text).expect("sections");
        let of =
            |i: usize| jobs[i].entries.iter().map(|e| (e.line, e.key, e.value.as_str())).collect::<Vec<_>>();
        assert_eq!(of(0), [(3, "bs", "4k"), (5, "rw", "read")]);
        assert_eq!(of(1), [(7, "bs", "8k"), (9, "thread", "1")]);
    }

    #[test]
    fn what_is_no_job_file_is_named_with_its_line() {
        for (text, line, word) in [
            ("rw=read\n", 1, "before the first section"),
            ("[a]\n\n[b\n", 3, "] is missing"),
            ("[a]\nsome words\n", 2, "no option"),
            ("[a]\nsize=${SIZE}\n", 2, "variables"),
            ("[a]\ninclude other.fio\n", 2, "other files"),
            ("[]\n", 1, "without a name"),
        ] {
            let said = sections(text).expect_err(word);
            assert_eq!(said.line, line, "{said}");
            assert!(said.text.contains(word), "{said}");
        }
    }
}
