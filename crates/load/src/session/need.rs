// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a cell takes of a file system, as far as its jobs say before they run.

use crate::job::{Cell, Job, Layout, Lock, Sharing, Through, What};

/// Bytes that a cell writes at least; in directories what is to be overwritten is made before.
pub fn written(cell: &Cell, directories: bool) -> u64 {
    let jobs = || cell.steps.iter().flat_map(|s| &s.jobs);
    let passes = jobs().map(pass).fold(0, u64::saturating_add);
    match directories && jobs().any(|j| j.layout == Layout::Overwrite) {
        true => passes.max(Need::of(cell).bytes),
        false => passes,
    }
}

/// Bytes that a job writes, as far as it says when it ends.
fn pass(job: &Job) -> u64 {
    if !job.what.writes() || job.through == Through::Null {
        return 0;
    }
    let range = job.range.map_or(job.size.0, |r| r.0.min(job.size.0));
    let whole = match (job.what, job.time) {
        (What::Create, None) => job.files.saturating_mul(job.block.0),
        (what, None) if !what.names() => job.files.saturating_mul(range),
        _ => 0,
    };
    let ends = [job.bytes.map(|b| b.0), job.operations.map(|n| n.saturating_mul(job.block.0))];
    let own = match (ends.into_iter().flatten().min(), job.time) {
        (Some(end), None) => end,
        _ => whole,
    };
    let all = own.saturating_mul(u64::from(job.workers()));
    if job.what == What::Mix {
        return all / 100 * u64::from(100 - job.mix.min(100));
    }
    all
}

/// Files and bytes that exist at once.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Need {
    pub files: u64,
    pub bytes: u64,
}

impl Need {
    /// Of a cell: its steps share files of one name, so the largest counts.
    pub fn of(cell: &Cell) -> Need {
        let mut need = Need::default();
        for names in [false, true] {
            for sharing in [Sharing::Each, Sharing::Shared] {
                let jobs = || {
                    let all = cell.steps.iter().flat_map(|s| &s.jobs);
                    all.filter(|j| j.sharing == sharing && j.what.names() == names)
                };
                let workers = |j: &Job| if sharing == Sharing::Shared { 1 } else { j.workers() };
                for worker in 0..jobs().map(workers).max().unwrap_or(0) {
                    let own = jobs().filter(|j| workers(j) > worker).map(Need::of_worker);
                    need = need.and(own.fold(Need::default(), Need::or));
                }
            }
        }
        need
    }

    fn of_worker(job: &Job) -> Need {
        if job.what.without_files() && job.lock != Lock::Fcntl {
            return Need::default();
        }
        let copies = if job.what == What::Copy { 2 } else { 1 };
        let size = match job.what {
            What::Create => job.block.0,
            _ if job.what.names() => 0,
            _ => job.size.0,
        };
        let files = job.files.saturating_mul(copies);
        Need { files: files.saturating_add(job.dirs), bytes: files.saturating_mul(size) }
    }

    pub fn and(self, other: Need) -> Need {
        Need { files: self.files.saturating_add(other.files), bytes: self.bytes.saturating_add(other.bytes) }
    }

    pub fn or(self, other: Need) -> Need {
        Need { files: self.files.max(other.files), bytes: self.bytes.max(other.bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Bytes, Step};

    fn need(jobs: &[Job]) -> (u64, u64) {
        let steps = jobs.iter().map(|j| Step { label: "s".into(), jobs: vec![j.clone()] }).collect();
        let need = Need::of(&Cell { label: "c".into(), steps });
        (need.files, need.bytes)
    }

    #[test]
    fn steps_share_files_and_workers_do_not() {
        let job = Job { size: Bytes(1000), files: 3, threads: 2, processes: 2, ..Job::default() };
        assert_eq!(need(std::slice::from_ref(&job)), (12, 12_000));
        let read = Job { what: What::Read, threads: 1, processes: 1, size: Bytes(1500), ..job.clone() };
        assert_eq!(need(&[job.clone(), read]), (12, 13_500), "one worker's files are larger");
        let shared = Job { sharing: Sharing::Shared, ..job.clone() };
        assert_eq!(need(std::slice::from_ref(&shared)), (3, 3000));
        assert_eq!(need(&[job.clone(), shared]), (15, 15_000), "other names");
        assert_eq!(need(&[Job { what: What::Copy, ..job.clone() }]), (24, 24_000));
        assert_eq!(need(&[Job { what: What::Create, block: Bytes(1), ..job.clone() }]), (12, 12));
        assert_eq!(need(&[Job { what: What::LockAndUpdate, ..job }]), (0, 0));
    }

    #[test]
    fn what_a_job_writes_is_known_where_it_ends_by_itself() {
        let job = Job { size: Bytes(1000), files: 3, threads: 4, block: Bytes(10), ..Job::default() };
        assert_eq!(pass(&job), 12_000);
        assert_eq!(pass(&Job { operations: Some(7), ..job.clone() }), 280);
        assert_eq!(pass(&Job { what: What::Mix, mix: 70, ..job.clone() }), 3_600);
        assert_eq!(pass(&Job { what: What::Read, ..job.clone() }), 0);
        let timed = Job { time: Some(crate::job::Time(1)), ..job };
        assert_eq!(pass(&timed), 0, "until its time is over");
    }

    #[test]
    fn sizes_beyond_all_measure_do_not_wrap() {
        let job = Job { size: Bytes(u64::MAX), files: 100_000_000, threads: 4, ..Job::default() };
        assert_eq!(need(&[job]).1, u64::MAX);
    }
}
