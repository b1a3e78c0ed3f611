// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a load works: may it be written, is there room; what is made, and
//! removed again. Everything is asked before anything is made.

use super::plan::Plan;
use anyhow::{bail, Context, Result};
use plumb_load::environment::Root;
use plumb_load::files::Ground;
use plumb_load::guard::{self, Claim, DeviceClaim, Leftover};
use plumb_load::job::{Cache, Cell, Job, Layout, Lock, Sharing, Through, What};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// A target that may be used as the plan needs it.
#[derive(Debug)]
pub enum Place {
    /// Directories, as a rule one; the load's own within each are made by [`Place::make`].
    Directories {
        /// Those that the user named; one at least.
        named: Vec<PathBuf>,
        /// The load's own; none yet, or one in each.
        claims: Vec<Claim>,
        /// What the load makes stays.
        keep: bool,
        /// The file system is unmounted meanwhile: nothing on it may be held open.
        remount: bool,
    },
    File {
        path: PathBuf,
        /// It was not there before, and is to be removed.
        remove: bool,
    },
    Device {
        /// Its node, links followed.
        node: PathBuf,
        /// Its length, bytes.
        size: u64,
        /// Held while it is written: nobody can mount it meanwhile.
        _claim: Option<DeviceClaim>,
    },
}

/// Whether a job changes the data of a file that is there.
fn writes(job: &Job) -> bool {
    job.what.writes() || job.what == What::FsyncOnly
}

impl Place {
    /// Looks whether the plan may run on `target`, and the directories `also`, and makes nothing.
    ///
    /// # Errors
    /// What was found there, and the next step.
    pub fn find(
        target: &Path,
        also: &[PathBuf],
        plan: &mut Plan,
        destroy: &[PathBuf],
        keep: bool,
    ) -> Result<Place> {
        let meta = std::fs::metadata(target);
        let directory = meta.as_ref().is_ok_and(|m| m.is_dir());
        if let Some(other) = also.iter().find(|d| !directory || !d.is_dir()) {
            let no = if directory { other } else { target };
            bail!("{}: is no directory, and --also {} needs directories", no.display(), other.display());
        }
        if directory {
            let shapes: Vec<Need> = plan.cells.iter().map(Need::of).collect();
            // The files of a cell go before the next one's come, unless they are to be kept.
            let need = match keep {
                true => shapes.into_iter().fold(Need::default(), Need::and),
                false => shapes.into_iter().fold(Need::default(), Need::or),
            };
            let mut named = Vec::new();
            let shared = plan.jobs().any(|j| j.sharing == Sharing::Shared);
            // The first may have more: what is shared, and one worker more than the last.
            let parts = if shared { 1 } else { 1 + also.len() as u64 };
            for dir in std::iter::once(target).chain(also.iter().map(PathBuf::as_path)) {
                guard::files(dir, need.files.div_ceil(parts), need.bytes.div_ceil(parts))?;
                named.push(dir.canonicalize().with_context(|| dir.display().to_string())?);
            }
            let remount = plan.jobs().any(|j| j.cache == Cache::Remount);
            return Ok(Place::Directories { named, claims: Vec::new(), keep, remount });
        }
        for job in plan.jobs() {
            one_file_is_enough(job, target)?;
        }
        if meta.as_ref().is_ok_and(|m| m.file_type().is_block_device()) {
            return device(target, plan, destroy);
        }
        if meta.as_ref().is_ok_and(|m| !m.is_file()) {
            bail!("{}: is no directory, file or block device; name one", target.display());
        }
        file(target, plan, destroy, keep, meta.ok().map(|m| m.len()))
    }

    /// What runs that were killed left here.
    pub fn leftovers(&self) -> Vec<Leftover> {
        match self {
            Place::Directories { named, .. } => named.iter().flat_map(|dir| Claim::leftovers(dir)).collect(),
            _ => Vec::new(),
        }
    }

    /// Bytes that a round writes at least; what a job writes until its time is over cannot be known.
    pub fn written(&self, plan: &Plan) -> u64 {
        let of_cell = |cell: &Cell| {
            let jobs = || cell.steps.iter().flat_map(|s| &s.jobs);
            let passes = jobs().map(pass).fold(0, u64::saturating_add);
            let made_before = jobs().any(|j| j.layout == Layout::Overwrite);
            match self {
                Place::Directories { .. } if made_before => passes.max(Need::of(cell).bytes),
                _ => passes,
            }
        };
        plan.cells.iter().map(of_cell).fold(0, u64::saturating_add)
    }

    /// What the user named; of several directories the first.
    pub fn named(&self) -> &Path {
        match self {
            Place::Directories { named, .. } => &named[0],
            Place::File { path, .. } => path,
            Place::Device { node, .. } => node,
        }
    }

    /// The ground of cell `number`; makes its directory.
    ///
    /// # Errors
    /// It cannot be made; named.
    pub fn make(&mut self, number: usize) -> Result<Ground> {
        Ok(match self {
            Place::Directories { named, claims, remount, .. } => {
                let mut dirs = Vec::with_capacity(named.len());
                for (i, named) in named.iter().enumerate() {
                    if claims.len() == i {
                        claims.push(Claim::create(named)?);
                    }
                    if *remount {
                        claims[i].let_go();
                    }
                    let dir = claims[i].dir().join(number.to_string());
                    std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
                    dirs.push(dir);
                }
                Ground::Directories(dirs)
            }
            Place::File { path, .. } => Ground::File(path.clone()),
            Place::Device { node, size, .. } => Ground::Device(node.clone(), *size),
        })
    }

    /// Removes a cell's files, so that the next one's have room.
    ///
    /// # Errors
    /// They cannot be removed; named.
    pub fn clear(&self, ground: &Ground) -> Result<()> {
        match (self, ground) {
            (Place::Directories { keep: false, .. }, Ground::Directories(dirs)) => {
                dirs.iter().try_for_each(|dir| {
                    std::fs::remove_dir_all(dir).with_context(|| format!("remove {}", dir.display()))
                })
            }
            _ => Ok(()),
        }
    }

    /// Removes what was made. What stays is returned.
    ///
    /// # Errors
    /// Something cannot be removed; named.
    pub fn leave(self) -> Result<Option<PathBuf>> {
        match self {
            Place::Directories { claims, keep: true, .. } => {
                let dir = claims.first().map(|claim| claim.dir().to_owned());
                // Dropping them would remove them.
                claims.into_iter().for_each(std::mem::forget);
                Ok(dir)
            }
            Place::Directories { claims, .. } => {
                claims.into_iter().try_for_each(Claim::release)?;
                Ok(None)
            }
            Place::File { path, remove: true } if guard::made_by_us(&path) => {
                std::fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
                Ok(None)
            }
            // A file system without attributes: whose the file is cannot be told any more.
            Place::File { path, remove: true } if path.exists() => Ok(Some(path)),
            _ => Ok(None),
        }
    }
}

/// A file or device is one; some jobs need more, or names.
fn one_file_is_enough(job: &Job, target: &Path) -> Result<()> {
    let shown = target.display();
    if job.what.names() {
        bail!("{shown}: --what {} works on names in a directory; name a directory", job.what);
    }
    if job.what == What::Copy {
        bail!("{shown}: --what copy needs a second file beside the first; name a directory");
    }
    if job.what == What::LockAndUpdate {
        bail!("{shown}: --what lock-and-update needs no data; name a directory");
    }
    if job.files > 1 || job.dirs > 0 {
        bail!("{shown}: is one file, and --files is {}; name a directory", job.files);
    }
    if job.stamp && writes(job) && job.workers() > 1 && job.sharing == Sharing::Each {
        bail!(
            "{shown}: {} workers would overwrite each other's stamps in one file; choose --sharing shared",
            job.workers()
        );
    }
    Ok(())
}

fn device(target: &Path, plan: &mut Plan, destroy: &[PathBuf]) -> Result<Place> {
    let (node, size, claim) = if plan.jobs().any(writes) {
        let claim = guard::device(target, destroy, &Root::real())?;
        // A number is not given to another device while this one is held open: the node leads to it.
        (claim.node.clone(), claim.size, Some(claim))
    } else {
        let open = || -> std::io::Result<(PathBuf, u64)> {
            Ok((target.canonicalize()?, File::open(target)?.seek(SeekFrom::End(0))?))
        };
        let (node, size) = open().with_context(|| target.display().to_string())?;
        (node, size, None)
    };
    for job in plan.jobs() {
        if job.layout != Layout::Overwrite && job.what == What::Write {
            bail!("{}: a device has no --layout {}; leave it out", target.display(), job.layout);
        }
    }
    fits(target, plan, size)?;
    Ok(Place::Device { node, size, _claim: claim })
}

fn file(path: &Path, plan: &mut Plan, destroy: &[PathBuf], keep: bool, length: Option<u64>) -> Result<Place> {
    if plan.jobs().any(writes) {
        guard::existing_file(path, destroy)?;
        if let (true, Some(length)) = (plan.whole_target, length) {
            plan.jobs_mut().filter(|j| j.block.0 <= length).for_each(|j| j.size.0 = length);
        }
        let most = plan.jobs().map(|j| j.size.0).max().unwrap_or(0);
        guard::file(path, most.saturating_sub(length.unwrap_or(0)))?;
    } else {
        let open = File::open(path).map(|_| ());
        open.with_context(|| format!("{}: cannot be read; name a file that is there", path.display()))?;
        fits(path, plan, length.unwrap_or(0))?;
    }
    Ok(Place::File { path: path.to_owned(), remove: length.is_none() && !keep })
}

/// What is there counts whole unless a size was given, which must be there.
fn fits(path: &Path, plan: &mut Plan, there: u64) -> Result<()> {
    let whole = plan.whole_target;
    for job in plan.jobs_mut() {
        if whole {
            job.size.0 = there;
        }
        let asked = [("--size", Some(job.size)), ("--range", job.range)];
        if let Some((option, size)) =
            asked.iter().find_map(|(o, s)| Some((*o, (*s).filter(|s| s.0 > there)?)))
        {
            bail!(
                "{}: has {}, less than {option} {size}; give a smaller {option}, or leave it out to use all of it",
                path.display(),
                plumb_trace::units::bytes(there)
            );
        }
        if job.offset.0 + job.block.0 > there {
            bail!(
                "{}: has {}, fewer than one block of {} from --offset {}; choose a smaller --block or --offset",
                path.display(),
                plumb_trace::units::bytes(there),
                job.block,
                job.offset
            );
        }
    }
    Ok(())
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
struct Need {
    files: u64,
    bytes: u64,
}

impl Need {
    /// Of a cell: its steps share files of one name, so the largest counts.
    fn of(cell: &Cell) -> Need {
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
        if job.what == What::LockAndUpdate && job.lock != Lock::Fcntl {
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

    fn and(self, other: Need) -> Need {
        Need { files: self.files.saturating_add(other.files), bytes: self.bytes.saturating_add(other.bytes) }
    }

    fn or(self, other: Need) -> Need {
        Need { files: self.files.max(other.files), bytes: self.bytes.max(other.bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_load::job::{Bytes, Step};

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
        let timed = Job { time: Some(plumb_load::job::Time(1)), ..job };
        assert_eq!(pass(&timed), 0, "until its time is over");
    }

    #[test]
    fn a_load_that_is_larger_than_its_device_is_refused_with_both_sizes() {
        let mib = |n: u64| Bytes(n << 20);
        let refused = |job: Job, whole: bool| {
            let mut plan = Plan {
                preset: None,
                cells: vec![Cell {
                    label: "c".into(),
                    steps: vec![Step { label: "s".into(), jobs: vec![job] }],
                }],
                rounds: 1,
                whole_target: whole,
                target: None,
                warnings: Vec::new(),
            };
            fits(Path::new("/dev/x"), &mut plan, 64 << 20).err().map(|e| format!("{e:#}"))
        };
        let read = Job { what: What::Read, size: mib(1024), ..Job::default() };
        let said = refused(read.clone(), false).expect("1 GiB on 64 MiB");
        assert!(said.contains("/dev/x: has 64.0 MiB, less than --size 1G"), "{said}");
        assert_eq!(refused(read.clone(), true), None, "no size was given");
        let range = Job { range: Some(mib(100)), ..read.clone() };
        let said = refused(range, true).expect("a range of 100 MiB");
        assert!(said.contains("less than --range 100M"), "{said}");
        assert_eq!(refused(Job { size: mib(64), range: Some(mib(64)), ..read }, false), None);
    }

    #[test]
    fn sizes_beyond_all_measure_do_not_wrap() {
        let job = Job { size: Bytes(u64::MAX), files: 100_000_000, threads: 4, ..Job::default() };
        assert_eq!(need(&[job]).1, u64::MAX);
    }
}
