// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a load works: may it be written, is there room; what is made, and
//! removed again. Everything is asked before anything is made.

use super::need::{written, Need};
use crate::files::{Ground, Named};
use crate::guard::{self, CheckedFile, Claim, DeviceClaim, FileClaim, Leftover};
use crate::job::{Cache, Job, Layout, Sharing, What};
use crate::workload::Workload;
use anyhow::{bail, Context, Result};
use plumb_machine::Root;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// A target that may be used as the workload needs it.
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
        access: Access,
    },
    Device {
        /// Its node, links followed.
        node: PathBuf,
        /// Its length, bytes.
        size: u64,
        /// Held while it is written: nobody can mount it meanwhile.
        claim: Option<DeviceClaim>,
    },
}

/// How a file that the user named is reached.
#[derive(Debug)]
pub enum Access {
    /// It is only read.
    Reads,
    /// It is not there, and is made by [`Place::make`].
    Makes { remount: bool },
    /// Through the descriptor of what was checked.
    Claimed(FileClaim),
    /// The same, but its file system is unmounted meanwhile: it is not held open, and checked by its name.
    Checked(CheckedFile),
}

/// Whether a job changes the data of a file that is there.
fn writes(job: &Job) -> bool {
    job.what.writes() || job.what == What::FsyncOnly
}

impl Access {
    fn of(claim: FileClaim, remount: bool) -> Access {
        if remount {
            return Access::Checked(claim.let_go());
        }
        Access::Claimed(claim)
    }
}

impl Place {
    /// Looks whether the workload may run on `target`, and the directories `also`, and makes nothing.
    ///
    /// # Errors
    /// What was found there, and the next step.
    pub fn find(
        target: &Path,
        also: &[PathBuf],
        workload: &mut Workload,
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
            let shapes: Vec<Need> = workload.cells.iter().map(Need::of).collect();
            // The files of a cell go before the next one's come, unless they are to be kept.
            let need = match keep {
                true => shapes.into_iter().fold(Need::default(), Need::and),
                false => shapes.into_iter().fold(Need::default(), Need::or),
            };
            let mut named = Vec::new();
            let shared = workload.jobs().any(|j| j.sharing == Sharing::Shared);
            // The first may have more: what is shared, and one worker more than the last.
            let parts = if shared { 1 } else { 1 + also.len() as u64 };
            for dir in std::iter::once(target).chain(also.iter().map(PathBuf::as_path)) {
                guard::files(dir, need.files.div_ceil(parts), need.bytes.div_ceil(parts))?;
                named.push(dir.canonicalize().with_context(|| dir.display().to_string())?);
            }
            let remount = workload.jobs().any(|j| j.cache == Cache::Remount);
            return Ok(Place::Directories { named, claims: Vec::new(), keep, remount });
        }
        for job in workload.jobs() {
            one_file_is_enough(job, target)?;
        }
        if meta.as_ref().is_ok_and(|m| m.file_type().is_block_device()) {
            return device(target, workload, destroy);
        }
        if meta.as_ref().is_ok_and(|m| !m.is_file()) {
            bail!("{}: is no directory, file or block device; name one", target.display());
        }
        file(target, workload, destroy, keep, meta.ok().map(|m| m.len()))
    }

    /// What runs that were killed left here.
    pub fn leftovers(&self) -> Vec<Leftover> {
        match self {
            Place::Directories { named, .. } => named.iter().flat_map(|dir| Claim::leftovers(dir)).collect(),
            _ => Vec::new(),
        }
    }

    /// Bytes that a round writes at least; what a job writes until its time is over cannot be known.
    pub fn written(&self, workload: &Workload) -> u64 {
        let directories = matches!(self, Place::Directories { .. });
        workload.cells.iter().map(|cell| written(cell, directories)).fold(0, u64::saturating_add)
    }

    /// What was read of a device that may be written because it is empty.
    pub fn passed_as_empty(&self) -> Option<String> {
        match self {
            Place::Device { claim: Some(claim), .. } if claim.content.is_empty() => {
                claim.samples.as_ref().map(ToString::to_string)
            }
            _ => None,
        }
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
            Place::File { path, access, .. } => {
                if let Access::Makes { remount } = access {
                    *access = Access::of(guard::new_file(path)?, *remount);
                }
                let through = match access {
                    Access::Claimed(claim) => {
                        claim.still_there()?;
                        claim.path()
                    }
                    Access::Checked(file) => file.still_there()?.to_path_buf(),
                    Access::Reads | Access::Makes { .. } => path.clone(),
                };
                Ground::File(Named { name: path.clone(), through })
            }
            Place::Device { node, size, claim } => {
                let through = match claim {
                    Some(claim) => {
                        claim.still_there(&Root::real())?;
                        claim.path()
                    }
                    None => node.clone(),
                };
                Ground::Device(Named { name: node.clone(), through }, *size)
            }
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
            Place::File { path, remove: true, .. } if guard::made_by_us(&path) => {
                std::fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
                Ok(None)
            }
            // A file system without attributes: whose the file is cannot be told any more.
            Place::File { path, remove: true, .. } if path.exists() => Ok(Some(path)),
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
        bail!("{shown}: --what copy needs a second file next to the first; name a directory");
    }
    if job.what.without_files() {
        bail!("{shown}: --what {} needs no data; name a directory", job.what);
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

fn device(target: &Path, workload: &mut Workload, destroy: &[PathBuf]) -> Result<Place> {
    let (node, size, claim) = if workload.jobs().any(writes) {
        let claim = guard::device(target, destroy, &Root::real())?;
        (claim.node.clone(), claim.size, Some(claim))
    } else {
        let open = || -> std::io::Result<(PathBuf, u64)> {
            Ok((target.canonicalize()?, File::open(target)?.seek(SeekFrom::End(0))?))
        };
        let (node, size) = open().with_context(|| target.display().to_string())?;
        (node, size, None)
    };
    for job in workload.jobs() {
        if job.layout != Layout::Overwrite && job.what == What::Write {
            bail!("{}: a device has no --layout {}; leave it out", target.display(), job.layout);
        }
    }
    fits(target, workload, size)?;
    Ok(Place::Device { node, size, claim })
}

fn file(
    path: &Path,
    workload: &mut Workload,
    destroy: &[PathBuf],
    keep: bool,
    length: Option<u64>,
) -> Result<Place> {
    let access = if workload.jobs().any(writes) {
        let remount = workload.jobs().any(|job| job.cache == Cache::Remount);
        let claim = guard::existing_file(path, destroy)?;
        if let (true, Some(length)) = (workload.whole_target, length) {
            workload.jobs_mut().filter(|j| j.block.0 <= length).for_each(|j| j.size.0 = length);
        }
        let most = workload.jobs().map(|j| j.size.0).max().unwrap_or(0);
        guard::file(path, most.saturating_sub(length.unwrap_or(0)))?;
        claim.map_or(Access::Makes { remount }, |claim| Access::of(claim, remount))
    } else {
        let open = File::open(path).map(|_| ());
        open.with_context(|| format!("{}: cannot be read; name a file that is there", path.display()))?;
        fits(path, workload, length.unwrap_or(0))?;
        Access::Reads
    };
    Ok(Place::File { path: path.to_owned(), remove: length.is_none() && !keep, access })
}

/// What is there counts whole unless a size was given, which must be there.
fn fits(path: &Path, workload: &mut Workload, there: u64) -> Result<()> {
    let whole = workload.whole_target;
    for job in workload.jobs_mut() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Bytes, Cell, Step};

    #[test]
    fn a_load_that_is_larger_than_its_device_is_refused_with_both_sizes() {
        let mib = |n: u64| Bytes(n << 20);
        let refused = |job: Job, whole: bool| {
            let mut workload = Workload {
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
            fits(Path::new("/dev/x"), &mut workload, 64 << 20).err().map(|e| format!("{e:#}"))
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
}
