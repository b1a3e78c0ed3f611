// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::super::testing::{cell, given, parse, step};
use super::*;

fn labels(cell: &Cell) -> Vec<&str> {
    cell.steps.iter().map(|s| s.label.as_str()).collect()
}

#[test]
fn tests_have_names_and_iozones_numbers() {
    let all = parse(&["files"]).cells(&Given::default()).expect("cells");
    assert_eq!(all.len(), 1);
    assert_eq!(
        labels(&all[0]),
        [
            "write",
            "rewrite",
            "read",
            "reread",
            "random read",
            "random write",
            "backwards read",
            "record rewrite",
            "strided read",
            "fwrite",
            "frewrite",
            "fread",
            "freread",
            "random mix"
        ]
    );
    let some = parse(&["files", "-i", "0,9,preadv"]).cells(&Given::default()).expect("cells");
    assert_eq!(labels(&some[0]), ["write", "rewrite", "pwrite", "pwrite again", "preadv", "preadv again"]);
    let strided = &all[0].steps[8].jobs[0];
    assert_eq!((strided.what, strided.stride), (What::StridedRead, Bytes(17 * 4096)));
}

#[test]
fn the_automatic_mode_has_iozones_sizes_and_records() {
    let shapes = |max: &str| -> Vec<(u64, u64)> {
        let cells = parse(&["files", "--auto", "--max-size", max, "-i", "0"])
            .cells(&Given::default())
            .expect("cells");
        cells.iter().map(|c| (c.steps[0].jobs[0].size.0 >> 10, c.steps[0].jobs[0].block.0 >> 10)).collect()
    };
    assert_eq!(shapes("64K"), [(64, 4), (64, 8), (64, 16), (64, 32), (64, 64)]);
    let all = shapes("512M");
    assert_eq!(all.iter().map(|(s, _)| s).collect::<std::collections::HashSet<_>>().len(), 14);
    assert!(all.contains(&(16384, 4)) && !all.contains(&(32768, 32)) && all.contains(&(32768, 64)));
    assert!(all.iter().all(|(s, r)| r <= s && *r <= 16384));
    // 64K..16M: 5 + 6 + ... + 13 records; 32M..512M: 9 each.
    assert_eq!(all.len(), (5..=13).sum::<usize>() + 5 * 9);
    assert!(parse(&["files", "--auto", "--max-size", "4K"]).cells(&Given::default()).is_err());
}

#[test]
fn a_way_into_the_kernel_goes_over_all_but_a_tests_own() {
    let given = given(Job { through: Through::Mmap, ..Job::default() }, &["through"]);
    let cells = parse(&["files", "-i", "0,6", "-e"]).cells(&given).expect("cells");
    let jobs: Vec<_> = cells[0].steps.iter().map(|s| &s.jobs[0]).collect();
    assert_eq!(
        (jobs[0].through, jobs[0].layout, jobs[0].sync),
        (Through::Mmap, Layout::Sparse, SyncMethod::Msync)
    );
    assert_eq!(
        (jobs[2].through, jobs[2].layout, jobs[2].sync),
        (Through::Stdio, Layout::Append, SyncMethod::Fsync)
    );
    // One synchronisation, behind the last block.
    assert_eq!(jobs[2].every, jobs[2].size.0 / jobs[2].block.0);
}

#[test]
fn papers_have_their_sizes() {
    let limit = parse(&["files", "--paper", "limit"]).cells(&Given::default()).expect("cells");
    assert_eq!(limit.len(), 8);
    for cell in &limit {
        let job = &cell.steps[0].jobs[0];
        let total = job.size.0 * u64::from(job.workers());
        assert!((8 << 30..(8 << 30) + 4 * 4096).contains(&total), "{total}");
        assert_eq!((labels(cell), job.stonewall), (vec!["write"], true));
    }
    let comware = parse(&["files", "--paper", "comware"]);
    let job = &comware.cells(&Given::default()).expect("cells")[0].steps[0].jobs[0];
    assert_eq!((job.processes, job.size), (12, Bytes(4 << 30)));
    let small = given(Job { size: Bytes(1 << 20), ..Job::default() }, &["size"]);
    assert_eq!(comware.cells(&small).expect("cells")[0].steps[0].jobs[0].size, Bytes(1 << 20));
}

#[test]
fn lines_and_matrices_are_in_kb_a_second() {
    let preset = parse(&["files", "-i", "0"]);
    let cells = preset.cells(&Given::default()).expect("cells");
    let rounds = [1_000_000_000, 2_000_000_000, 500_000_000].map(|ns| {
        let steps = &cells[0].steps;
        vec![
            step("write", &steps[0].jobs[0], ns, &[("write", &[1; 256]), ("sync", &[1])]),
            step("rewrite", &steps[1].jobs[0], ns * 2, &[("rewrite", &[1; 256])]),
        ]
    });
    let results = [cell(&cells[0].label, rounds.into())];
    let table = &preset.figures(&results, None)[0];
    assert_eq!(table.head, ["KB", "reclen", "write", "rewrite"]);
    assert_eq!(table.rows, [["65536", "4", "1024", "512"]]);
    assert!(table.notes[0].contains("3 rounds"));
    let matrices = parse(&["files", "--auto"]).figures(&results, None);
    assert_eq!(matrices.len(), 2);
    assert_eq!(
        (matrices[1].head.clone(), matrices[1].rows[0].clone()),
        (vec!["KB".into(), "4".into()], vec!["65536".into(), "512".into()])
    );
}

#[test]
fn throughput_is_the_childrens_sum() {
    let preset = parse(&["files", "--throughput", "2", "--as", "threads", "-i", "0"]);
    let cells = preset.cells(&Given::default()).expect("cells");
    let job = &cells[0].steps[0].jobs[0];
    assert_eq!((job.processes, job.threads, job.stonewall), (1, 2, true));
    let mut made = step("write", job, 1_000_000_000, &[("write", &[1; 256])]);
    made.jobs[0].workers[1].bytes = 256 << 10;
    let table = &preset.figures(&[cell(&cells[0].label, vec![vec![made]])], None)[0];
    assert_eq!(
        table.rows[0],
        ["write", "2 threads", "768.00", "1024.00", "256.00", "512.00", "384.00", "256.00", "100.0"]
    );
    let mut idle = step("write", job, 1_000_000_000, &[("write", &[1; 256])]);
    (idle.jobs[0].workers[1].bytes, idle.jobs[0].workers[1].elapsed_ns) = (0, 0);
    let table = &preset.figures(&[cell(&cells[0].label, vec![vec![idle]])], None)[0];
    assert_eq!(table.rows[0][4..8], ["0.00", "512.00", "256.00", "0.00"]);
}
