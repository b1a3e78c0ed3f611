// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A job in the words of a job file: what `--show-job` prints, `--job` reads.

use super::{Cell, Job};
use serde_json::Value;

/// Several cells are several files: a job file holds one.
pub fn all(cells: &[Cell]) -> String {
    match cells {
        [one] => cell(one),
        many => {
            let parts = many.iter().enumerate().map(|(i, one)| {
                format!(
                    "# Job file {} of {}: each is a file of its own for --job.\n{}",
                    i + 1,
                    many.len(),
                    cell(one)
                )
            });
            parts.collect::<Vec<_>>().join("\n")
        }
    }
}

/// One cell as the text of a job file.
pub fn cell(cell: &Cell) -> String {
    let mut text = format!("name = {}\n", quoted(&cell.label));
    if let [step] = cell.steps.as_slice() {
        if step.label == cell.label && step.jobs.len() == 1 {
            return text + &keys(&step.jobs[0]);
        }
    }
    for step in &cell.steps {
        text += &format!("\n[[step]]\nname = {}\n", quoted(&step.label));
        for (i, job) in step.jobs.iter().enumerate() {
            if i > 0 {
                text += "\n[[step.also]]\n";
            }
            text += &keys(job);
        }
    }
    text
}

/// What of a job is not as it is without options, as options.
pub fn options(job: &Job) -> String {
    let (ours, plain) = (values(job), values(&Job::default()));
    let words = ours.into_iter().zip(plain).filter(|(a, b)| a != b).map(|((key, value), _)| match value {
        Value::Bool(_) => format!("--{key}"),
        Value::String(text) => format!("--{key} {text}"),
        Value::Array(texts) => {
            let each = texts.iter().filter_map(Value::as_str).map(|text| format!("--{key} {text}"));
            each.collect::<Vec<_>>().join(" ")
        }
        other => format!("--{key} {other}"),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn values(job: &Job) -> Vec<(String, Value)> {
    match serde_json::to_value(job) {
        Ok(Value::Object(all)) => all.into_iter().collect(),
        _ => Vec::new(),
    }
}

fn keys(job: &Job) -> String {
    let said = values(job).into_iter().filter(|(_, value)| !value.is_null());
    // Numbers, booleans and strings are written alike in JSON and TOML.
    said.map(|(key, value)| format!("{key} = {value}\n")).collect()
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Bytes, JobFile, Order, Rate, Step, Time, What};

    #[test]
    fn what_is_printed_is_read_back() {
        let job =
            Job { what: What::Read, order: Order::Zipf, zipf: 1.0, block: Bytes(1537), ..Job::default() };
        let paced =
            Job { rate: Some(Rate(2.5)), time: Some(Time(1_500_000_000)), direct: true, ..Job::default() };
        let step = |label: &str, jobs: &[Job]| Step { label: label.into(), jobs: jobs.to_vec() };
        let cells = [
            Cell::of("a \"quoted\" name\n", job.clone()),
            Cell {
                label: "two".into(),
                steps: vec![step("first", std::slice::from_ref(&job)), step("both", &[job, paced])],
            },
        ];
        for one in cells {
            let text = cell(&one);
            assert_eq!(JobFile::parse(&text).expect(&text).cell, one, "{text}");
        }
    }

    #[test]
    fn options_are_what_differs() {
        assert_eq!(options(&Job::default()), "");
        let job = Job { direct: true, block: Bytes(8192), vector: 7, ..Job::default() };
        let mut words: Vec<String> = options(&job).split(" --").map(str::to_string).collect();
        words.sort();
        assert_eq!(words, ["--block 8K", "direct", "vector 7"]);
        let job = Job { sql: vec!["select 1".into(), "select 2".into()], ..Job::default() };
        assert_eq!(options(&job), "--sql select 1 --sql select 2");
    }
}
