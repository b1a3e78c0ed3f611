// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Iozone's tables: KB (1024 bytes) a second.

use super::super::figures::{bytes, cpu_percent, each, failures, kib_per_s, number, steps, Rounds};
use crate::result::{CellResult, JobResult, Table};

fn speed(job: &JobResult) -> f64 {
    kib_per_s(bytes(job), job.elapsed_ns)
}

fn size_and_record(cell: &CellResult) -> Option<(u64, u64)> {
    let job = &steps(cell).first()?.jobs.first()?.job;
    Some((job.size.0 / 1024, job.block.0 / 1024))
}

/// The tests' names in their order.
fn names(cells: &[CellResult]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for step in cells.iter().flat_map(steps) {
        if !names.contains(&step.label.as_str()) {
            names.push(&step.label);
        }
    }
    names
}

fn notes(rounds: &Rounds, cells: &[CellResult]) -> Vec<String> {
    std::iter::once(rounds.note("KB/s")).chain(failures(cells)).collect()
}

/// One row a file, one column a test.
pub(super) fn lines(cells: &[CellResult]) -> Vec<Table> {
    let mut rounds = Rounds::default();
    let names = names(cells);
    let mut head = vec!["KB".to_string(), "reclen".to_string()];
    head.extend(names.iter().map(|n| n.to_string()));
    let rows = cells.iter().filter_map(|cell| {
        let (size, record) = size_and_record(cell)?;
        let mut row = vec![size.to_string(), record.to_string()];
        row.extend(names.iter().map(|name| number(rounds.median(name, each(cell, name, speed)), 0)));
        Some(row)
    });
    let rows = rows.collect();
    vec![Table { title: "Tests of a file, KB/s".into(), head, rows, notes: notes(&rounds, cells) }]
}

/// One table a test: file sizes down, record sizes across.
pub(super) fn matrices(cells: &[CellResult]) -> Vec<Table> {
    let mut records: Vec<u64> = cells.iter().filter_map(size_and_record).map(|(_, r)| r).collect();
    let mut sizes: Vec<u64> = cells.iter().filter_map(size_and_record).map(|(s, _)| s).collect();
    for list in [&mut records, &mut sizes] {
        list.sort_unstable();
        list.dedup();
    }
    let table = |name: &&str| {
        let mut rounds = Rounds::default();
        let mut figure = |size: u64, record: u64| {
            let cell = cells.iter().find(|c| size_and_record(c) == Some((size, record)));
            let figure =
                cell.and_then(|c| rounds.median(&format!("{size} KB by {record}"), each(c, name, speed)));
            number(figure, 0)
        };
        let rows = sizes
            .iter()
            .map(|&size| {
                std::iter::once(size.to_string())
                    .chain(records.iter().map(|&record| figure(size, record)))
                    .collect()
            })
            .collect();
        Table {
            title: format!("{name}, KB/s: file size in KB down, record size in KB across"),
            head: std::iter::once("KB".to_string()).chain(records.iter().map(u64::to_string)).collect(),
            rows,
            notes: vec![rounds.note("KB/s")],
        }
    };
    let mut tables: Vec<Table> = names(cells).iter().map(table).collect();
    if let (Some(last), Some(said)) = (tables.last_mut(), failures(cells)) {
        last.notes.push(said);
    }
    tables
}

/// The workers' sum, and the slowest, fastest and mean of them.
pub(super) fn throughput(cells: &[CellResult]) -> Vec<Table> {
    const HEAD: [&str; 9] =
        ["<test", "<workers", "children see", "parent sees", "min", "max", "avg", "min xfer KB", "CPU %"];
    let mut rounds = Rounds::default();
    let mut rows = Vec::new();
    for name in names(cells) {
        for cell in cells {
            // One that was stopped before it began moved nothing.
            let own = |job: &JobResult| -> Vec<f64> {
                let of = |bytes, ns| if ns == 0 { 0.0 } else { kib_per_s(bytes, ns) };
                job.workers.iter().map(|w| of(w.bytes, w.elapsed_ns)).collect()
            };
            let sum =
                rounds.median(&format!("{name}, {}", cell.label), each(cell, name, |j| own(j).iter().sum()));
            let of =
                |figure: &dyn Fn(&JobResult) -> f64| Rounds::default().median("", each(cell, name, figure));
            let parent = of(&speed);
            let min = of(&|j| own(j).into_iter().fold(f64::NAN, f64::min));
            let max = of(&|j| own(j).into_iter().fold(f64::NAN, f64::max));
            let mean = of(&|j| own(j).iter().sum::<f64>() / own(j).len() as f64);
            let least = of(&|j| j.workers.iter().map(|w| w.bytes).min().unwrap_or(0) as f64 / 1024.0);
            let cpu = of(&cpu_percent);
            let mut row = vec![name.to_string(), cell.label.clone()];
            row.extend([sum, parent, min, max, mean, least].map(|f| number(f, 2)));
            row.push(number(cpu, 1));
            rows.push(row);
        }
    }
    let mut notes = notes(&rounds, cells);
    notes.push(
        "All stop when the first is done. Children see: the sum of what each moved in its own time; parent sees: all \
         that was moved in the time of all."
            .into(),
    );
    vec![Table { title: "Throughput, KB/s".into(), head: HEAD.map(String::from).to_vec(), rows, notes }]
}
