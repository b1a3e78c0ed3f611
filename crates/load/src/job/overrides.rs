// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a user gave, over what a preset or a job file says.

use super::{Cell, Job, JobError, Step};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The options that were given, by key; every other one keeps its value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Given(Map<String, Value>);

impl Given {
    /// The fields of `job` whose keys `given` says yes to.
    pub fn of(job: &Job, given: impl Fn(&str) -> bool) -> Self {
        match serde_json::to_value(job) {
            Ok(Value::Object(all)) => Given(all.into_iter().filter(|(key, _)| given(key)).collect()),
            _ => Given::default(),
        }
    }

    /// Whether this option was given.
    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Keys of the options that were given.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// `job` with what was given.
    pub fn over(&self, job: &Job) -> Job {
        let Ok(Value::Object(mut all)) = serde_json::to_value(job) else { return job.clone() };
        all.extend(self.0.clone());
        serde_json::from_value(Value::Object(all)).unwrap_or_else(|_| job.clone())
    }

    /// `job` with what was given, except for these keys: they are what the preset varies.
    pub fn over_except(&self, job: &Job, keys: &[&str]) -> Job {
        let rest = self.0.iter().filter(|(key, _)| !keys.contains(&key.as_str()));
        Given(rest.map(|(k, v)| (k.clone(), v.clone())).collect()).over(job)
    }
}

/// A job file: keys of a job, or several jobs that run one after the other
/// (`[[step]]`), each with the file's own keys as defaults; jobs in
/// `[[step.also]]` run at the same time as their step.
#[derive(Debug, Clone, PartialEq)]
pub struct JobFile {
    /// What it says, as one cell.
    pub cell: Cell,
    /// The keys that it says of each job of each step; every other one has its default.
    said: Vec<Vec<BTreeSet<String>>>,
}

impl JobFile {
    /// Whether the file itself says this key of a job of a step.
    pub fn says(&self, step: usize, job: usize, key: &str) -> bool {
        self.said.get(step).and_then(|jobs| jobs.get(job)).is_some_and(|keys| keys.contains(key))
    }

    /// Reads a job file's text (TOML).
    ///
    /// # Errors
    /// The key or value that is not known, with the file's line.
    pub fn parse(text: &str) -> Result<Self, JobError> {
        let mut top: toml::Table = toml::from_str(text).map_err(|e| JobError(e.to_string()))?;
        let label = match top.remove("name") {
            None => "job".to_string(),
            Some(toml::Value::String(name)) => name,
            Some(_) => return Err(JobError("name: must be text".into())),
        };
        let steps = top.remove("step");
        if top.is_empty() && steps.is_none() {
            return Err(JobError("names no job: it has no key and no [[step]]".into()));
        }
        let base = top;
        let one = |keys: toml::Table| -> Result<(Job, BTreeSet<String>), JobError> {
            let mut all = base.clone();
            all.extend(keys);
            let said = all.keys().cloned().collect();
            // The whole text of it, since the message alone does not name the key.
            let wrong = |e: toml::de::Error| JobError(e.to_string().trim().replace('\n', " "));
            Ok((Job::deserialize(toml::Value::Table(all)).map_err(wrong)?, said))
        };
        let mut steps_said = Vec::new();
        let steps = match steps {
            None => {
                let (job, said) = one(toml::Table::new())?;
                steps_said.push(vec![said]);
                vec![Step { label: label.clone(), jobs: vec![job] }]
            }
            Some(toml::Value::Array(list)) => {
                let mut steps = Vec::new();
                for (i, step) in list.into_iter().enumerate() {
                    let toml::Value::Table(mut keys) = step else {
                        return Err(JobError(format!("step {}: must be a table ([[step]])", i + 1)));
                    };
                    let label = match keys.remove("name") {
                        Some(toml::Value::String(name)) => name,
                        _ => format!("step {}", i + 1),
                    };
                    let also = keys.remove("also");
                    let named = |e: JobError| JobError(format!("{label}: {e}"));
                    let mut jobs = vec![one(keys).map_err(named)?];
                    if let Some(toml::Value::Array(more)) = also {
                        for (j, job) in more.into_iter().enumerate() {
                            let named = |e: JobError| named(JobError(format!("job {}: {e}", j + 2)));
                            let toml::Value::Table(keys) = job else {
                                return Err(named(JobError("also: must be tables ([[step.also]])".into())));
                            };
                            jobs.push(one(keys).map_err(named)?);
                        }
                    }
                    let (jobs, said) = jobs.into_iter().unzip();
                    steps.push(Step { label, jobs });
                    steps_said.push(said);
                }
                steps
            }
            Some(_) => return Err(JobError("step: must be a list of tables ([[step]])".into())),
        };
        Ok(JobFile { cell: Cell { label, steps }, said: steps_said })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bytes, SyncMethod, What};
    use super::*;

    #[test]
    fn what_was_given_goes_over_what_was_there() {
        let line = Job { block: Bytes(8192), what: What::Read, ..Job::default() };
        let given = Given::of(&line, |key| key == "block");
        let preset = Job { what: What::Write, sync: SyncMethod::Fsync, ..Job::default() };
        let job = given.over(&preset);
        assert_eq!((job.block, job.what, job.sync), (Bytes(8192), What::Write, SyncMethod::Fsync));
        assert_eq!(given.over_except(&preset, &["block"]), preset);
    }

    #[test]
    fn a_job_file_has_steps_with_common_keys() {
        let file = JobFile::parse(
            "name = \"two\"\nblock = \"8K\"\nsize = 65536\n[[step]]\nwhat = \"write\"\nsync = \"fdatasync\"\n\
             [[step]]\nname = \"both\"\nwhat = \"read\"\n[[step.also]]\nwhat = \"write\"\nrate = 100\n",
        )
        .expect("a good file");
        assert_eq!(file.cell.label, "two");
        assert_eq!(file.cell.steps.len(), 2);
        assert_eq!(file.cell.steps[0].jobs[0].block, Bytes(8192));
        assert_eq!(file.cell.steps[0].jobs[0].sync, SyncMethod::Fdatasync);
        assert_eq!(file.cell.steps[1].label, "both");
        assert_eq!(file.cell.steps[1].jobs.len(), 2);
        assert_eq!(file.cell.steps[1].jobs[1].rate.map(|r| r.0), Some(100.0));
    }

    #[test]
    fn a_job_file_tells_which_keys_it_says_of_which_job() {
        let of = |text: &str| {
            let file = JobFile::parse(text).expect(text);
            let jobs = |(i, step): (usize, &Step)| -> Vec<bool> {
                (0..step.jobs.len()).map(|j| file.says(i, j, "size")).collect()
            };
            file.cell.steps.iter().enumerate().map(jobs).collect::<Vec<_>>()
        };
        assert_eq!(of("what = \"read\"\n"), [[false]]);
        assert_eq!(of("size = \"1G\"\n[[step]]\n[[step.also]]\n"), [[true, true]]);
        let three = "[[step]]\n[[step]]\nblock = 4096\n[[step.also]]\nsize = 8192\n";
        assert_eq!(of(three), [vec![false], vec![false, true]]);
        assert!(!JobFile::parse(three).expect("good").says(7, 0, "size"), "there is no such step");
    }

    #[test]
    fn an_unknown_key_is_named() {
        let said = JobFile::parse("blokc = \"8K\"\n").expect_err("unknown").0;
        assert!(said.contains("blokc"), "{said}");
        let said = JobFile::parse("[[step]]\nwhat = \"wirte\"\n").expect_err("unknown").0;
        assert!(said.contains("wirte") && said.contains("step 1"), "{said}");
        let said =
            JobFile::parse("[[step]]\n[[step.also]]\n[[step.also]]\nfoo = 1\n").expect_err("unknown").0;
        assert!(said.starts_with("step 1: job 3: ") && said.contains("foo"), "{said}");
        let said = JobFile::parse("block = true\n").expect_err("no length").0;
        assert!(said.contains("block") && said.contains("4K"), "{said}");
        assert!(JobFile::parse("# nothing\n").is_err_and(|e| e.0.contains("names no job")));
        let said = JobFile::parse("threads = \"many\"\n").expect_err("no number").0;
        assert!(said.contains("many") && said.contains("threads"), "{said}");
    }
}
