// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What jobs are told, as text that can be compared.

use crate::job::{Cell, Step};
use crate::result::CellResult;
use serde_json::Value;
use std::collections::BTreeMap;

/// Each key of all jobs with its values, in the order in which they come up.
pub(super) fn of(cells: &[Cell]) -> Vec<(String, String)> {
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let jobs = cells.iter().flat_map(|c| &c.steps).flat_map(|s| &s.jobs);
    for job in jobs {
        let Ok(Value::Object(keys)) = serde_json::to_value(job) else { continue };
        for (key, value) in keys {
            let text = match value {
                Value::Null => "-".to_string(),
                Value::String(text) => text,
                // A query is known by its first line.
                Value::Array(texts) => first_lines(&texts),
                other => other.to_string(),
            };
            let known = values.entry(key).or_default();
            if !known.contains(&text) {
                known.push(text);
            }
        }
    }
    let labels: Vec<&str> = cells.iter().map(|c| c.label.as_str()).collect();
    let steps: usize = cells.iter().map(|c| c.steps.len()).sum();
    let mut out = vec![("cells".to_string(), labels.join("; ")), ("steps".to_string(), steps.to_string())];
    out.extend(values.into_iter().map(|(key, all)| (key, all.join(", "))));
    out
}

fn first_lines(texts: &[Value]) -> String {
    let lines = texts.iter().filter_map(Value::as_str).filter_map(|text| text.lines().next());
    lines.collect::<Vec<_>>().join("; ")
}

/// The cells as they ran, from their results (of the first round).
pub fn ran(results: &[CellResult]) -> Vec<Cell> {
    let steps = |result: &CellResult| {
        let first = result.rounds.first().map(Vec::as_slice).unwrap_or_default();
        first
            .iter()
            .map(|s| Step { label: s.label.clone(), jobs: s.jobs.iter().map(|j| j.job.clone()).collect() })
            .collect()
    };
    results.iter().map(|r| Cell { label: r.label.clone(), steps: steps(r) }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;
    use crate::job::{Bytes, Job};

    #[test]
    fn a_run_that_kept_to_its_parameters_has_the_same() {
        let job = Job { block: Bytes(8192), ..Job::default() };
        let cells =
            [Cell::of("one", job.clone()), Cell::of("two", Job { size: Bytes(1 << 20), ..job.clone() })];
        let before = of(&cells);
        assert!(before.contains(&("block".into(), "8K".into())));
        assert!(before.contains(&("size".into(), "64M, 1M".into())));
        let mut results: Vec<_> = cells
            .iter()
            .map(|c| {
                testing::cell(&c.label, vec![vec![testing::step(&c.label, &c.steps[0].jobs[0], 1, &[])]])
            })
            .collect();
        assert_eq!(of(&ran(&results)), before);
        results[0].rounds[0][0].jobs[0].job.block = Bytes(4096);
        assert_ne!(of(&ran(&results)), before);
    }
}
