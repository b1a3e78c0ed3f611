// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files that a load works on: which there are, what is in them when the
//! clock starts, and what the page cache holds of them.

use crate::data::{stamp, Pattern, Pool, Stamp};
use crate::job::{Cache, Job, Layout, Sharing, What};
use crate::names::{NameBuffer, Names};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Bytes that files are made in.
const CHUNK: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ground {
    /// Directories of the load's own: files are made and removed there. Worker N works in the Nth, and again
    /// from the first; what is shared lies in the first.
    Directories(Vec<PathBuf>),
    /// A file that the user named.
    File(Named),
    /// A block device that the user named, and its size, bytes.
    Device(Named, u64),
}

/// A file or device that the user named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub name: PathBuf,
    /// What is opened: the descriptor of what was checked, where its name may lead to something else meanwhile.
    pub through: PathBuf,
}

/// What could not be made ready, and why.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{what}: {error}")]
    System {
        /// What was tried, with the path.
        what: String,
        error: io::Error,
    },
    #[error("{0}")]
    Said(String),
    /// It was asked to stop.
    #[error("stopped while the files were made")]
    Stopped,
}

fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> FileError {
    let what = what.into();
    move |error| FileError::System { what, error }
}

/// The files of one worker.
#[derive(Debug, Clone)]
pub struct FileSet {
    /// Files with data, by the names that a reader knows.
    pub paths: Vec<PathBuf>,
    /// What is opened in place of the one path, see [`Named`].
    pub through: Option<PathBuf>,
    /// Where each is copied to; empty when the job does not copy.
    pub copies: Vec<PathBuf>,
    /// Names, for operations on names.
    pub names: Names,
}

impl FileSet {
    /// What is opened for the file of this path.
    pub fn through<'a>(&'a self, path: &'a Path) -> &'a Path {
        self.through.as_deref().unwrap_or(path)
    }
}

impl Ground {
    /// Its directories, its file or its device.
    pub fn places(&self) -> &[PathBuf] {
        match self {
            Ground::Directories(dirs) => dirs,
            Ground::File(named) | Ground::Device(named, _) => std::slice::from_ref(&named.name),
        }
    }

    /// The files of worker `worker`.
    pub fn files(&self, job: &Job, worker: u32) -> FileSet {
        let shared = job.sharing == Sharing::Shared;
        let dir = match self {
            Ground::Directories(dirs) if shared => &dirs[0],
            Ground::Directories(dirs) => &dirs[worker as usize % dirs.len()],
            Ground::File(named) | Ground::Device(named, _) => {
                let names = Names::new(Path::new("/nonexistent"), 0, 0);
                let through = Some(named.through.clone());
                return FileSet { paths: vec![named.name.clone()], through, copies: vec![], names };
            }
        };
        let names_dir =
            if shared || worker == 0 { dir.join("names") } else { dir.join(format!("names.{worker}")) };
        let names = Names::new(&names_dir, if job.what.names() { job.files } else { 0 }, job.dirs);
        if job.what.names() || job.what.without_files() && job.lock != crate::job::Lock::Fcntl {
            return FileSet { paths: vec![], through: None, copies: vec![], names };
        }
        let path = |i: u64, word: &str| {
            let name = if shared { format!("{word}.{i}") } else { format!("{word}.{worker}.{i}") };
            match job.dirs {
                0 => dir.join(name),
                dirs => dir.join(format!("{:05}", i % dirs)).join(name),
            }
        };
        let all = |word: &str| (0..job.files).map(|i| path(i, word)).collect::<Vec<_>>();
        let copy = format!("{}-copy", job.prefix);
        let copies = if job.what == What::Copy { all(&copy) } else { vec![] };
        FileSet { paths: all(&job.prefix), through: None, copies, names }
    }

    /// Bytes of the file or device that a job may use; what it asks for, of files of its own.
    pub fn size(&self, job: &Job) -> io::Result<u64> {
        match self {
            Ground::Directories(_) => Ok(job.size.0),
            Ground::File(named) => match std::fs::metadata(&named.through) {
                Ok(meta) => Ok(meta.len()),
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(0),
                Err(e) => Err(e),
            },
            Ground::Device(_, size) => Ok(*size),
        }
    }
}

/// All files of a step, and for each worker (over all jobs) the number of its
/// first one: workers that share files have the same numbers for them. Log and
/// stamps know files by these.
pub fn numbered(jobs: &[Job], ground: &Ground) -> (Vec<PathBuf>, Vec<u32>) {
    let mut files: Vec<PathBuf> = Vec::new();
    let mut known: HashMap<PathBuf, usize> = HashMap::new();
    let mut first = Vec::new();
    for job in jobs {
        for worker in 0..job.workers() {
            let own = ground.files(job, worker).paths;
            let at = own.first().and_then(|p| known.get(p).copied()).unwrap_or(files.len());
            first.push(at as u32);
            if at == files.len() {
                known.extend(own.first().map(|p| (p.clone(), at)));
                files.extend(own);
            }
        }
    }
    (files, first)
}

/// Makes the files what the job expects: written, allocated, sparse or empty;
/// durable, so that nothing of this is written back while the clock runs.
///
/// A device, and a file that the user named and the job only reads, are left
/// as they are.
///
/// # Errors
/// A file cannot be made, there is no room, or `stop` was set.
pub fn prepare(job: &Job, ground: &Ground, stop: &AtomicBool) -> Result<(), FileError> {
    match ground {
        Ground::Device(..) => return Ok(()),
        Ground::File(Named { name: path, through }) if !job.what.writes() && job.what != What::FsyncOnly => {
            let size = std::fs::metadata(through).map_err(system(path.display().to_string()))?.len();
            if size < job.block.0 {
                return Err(FileError::Said(format!(
                    "{}: has {size} bytes, fewer than one block of {}; name a larger file or a directory",
                    path.display(),
                    job.block
                )));
            }
            return Ok(());
        }
        _ => {}
    }
    let pattern = Pattern { compressible: job.compressible, stamp: job.stamp, seed: u64::from(job.seed) };
    let mut pool = Pool::new(&pattern, CHUNK).map_err(system("memory for the data"))?;
    let workers = if job.sharing == Sharing::Shared { 1 } else { job.workers() };
    for worker in 0..workers {
        let files = ground.files(job, worker);
        if job.what.names() {
            prepare_names(job, &files.names, stop)?;
            continue;
        }
        for path in files.paths.iter().chain(&files.copies) {
            if stop.load(Relaxed) {
                return Err(FileError::Stopped);
            }
            if let Some(parent) = path.parent().filter(|_| files.through.is_none()) {
                std::fs::create_dir_all(parent).map_err(system(parent.display().to_string()))?;
            }
            prepare_file(job, path, files.through(path), &mut pool, stop)?;
        }
    }
    Ok(())
}

fn prepare_file(
    job: &Job,
    path: &Path,
    through: &Path,
    pool: &mut Pool,
    stop: &AtomicBool,
) -> Result<(), FileError> {
    let named = || system(path.display().to_string());
    let new = !through.exists();
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).open(through).map_err(named())?;
    if new {
        crate::guard::sign(&file);
    }
    let size = job.size.0;
    let there = file.metadata().map_err(named())?.len();
    match job.prepared() {
        Layout::Append => file.set_len(0).map_err(named())?,
        Layout::Sparse => {
            file.set_len(0).map_err(named())?;
            file.set_len(size).map_err(named())?;
        }
        Layout::Preallocated => {
            file.set_len(0).map_err(named())?;
            // SAFETY: a plain call on an open file.
            let done = unsafe { libc::fallocate64(file.as_raw_fd(), 0, 0, size as libc::off64_t) };
            if done != 0 {
                let error = io::Error::last_os_error();
                return Err(FileError::System {
                    what: format!(
                        "{}: cannot allocate {size} bytes ahead (--layout preallocated)",
                        path.display()
                    ),
                    error,
                });
            }
        }
        Layout::Overwrite if there < size => {
            fill(job, &file, path, if job.stamp { 0 } else { there }, pool, stop)?
        }
        // Longer than asked for: a later reader would take the end for its own.
        Layout::Overwrite if there > size => file.set_len(size).map_err(named())?,
        Layout::Overwrite => return Ok(()),
    }
    file.sync_all().map_err(named())
}

fn fill(
    job: &Job,
    file: &File,
    path: &Path,
    from: u64,
    pool: &mut Pool,
    stop: &AtomicBool,
) -> Result<(), FileError> {
    // Whole blocks, so that each is stamped.
    let chunk =
        if job.stamp { CHUNK as u64 / job.block.0.min(CHUNK as u64) * job.block.0 } else { CHUNK as u64 };
    let size = job.size.0;
    let mut buffer = vec![0u8; chunk as usize];
    let mut at = from;
    while at < size {
        if stop.load(Relaxed) {
            return Err(FileError::Stopped);
        }
        let len = (buffer.len() as u64).min(size - at) as usize;
        pool.fill(&mut buffer[..len]);
        if job.stamp {
            for (i, block) in buffer[..len].chunks_exact_mut(job.block.0 as usize).enumerate() {
                let offset = at + i as u64 * job.block.0;
                // Generation 0: before every write of the run.
                stamp(
                    block,
                    Stamp { run: 0, file: 0, worker: 0, offset, generation: 0, sector: 0, length: 0 },
                );
            }
        }
        file.write_all_at(&buffer[..len], at).map_err(system(path.display().to_string()))?;
        at += len as u64;
    }
    Ok(())
}

/// Operations on names need the names to be there, or not to be there.
fn prepare_names(job: &Job, names: &Names, stop: &AtomicBool) -> Result<(), FileError> {
    names.make_dirs().map_err(|e| FileError::Said(e.to_string()))?;
    let mut buffer = NameBuffer::default();
    for i in 0..names.count() {
        if i % 1024 == 0 && stop.load(Relaxed) {
            return Err(FileError::Stopped);
        }
        let path = names.path(i, false, &mut buffer);
        // SAFETY: the path ends in NUL; the descriptor is closed at once.
        let failed = unsafe {
            if job.what == What::Create {
                libc::unlink(path.as_ptr()) != 0 && crate::engine::errno() != libc::ENOENT
            } else {
                let fd = libc::open(path.as_ptr(), libc::O_CREAT | libc::O_WRONLY | libc::O_CLOEXEC, 0o600);
                fd < 0 || libc::close(fd) != 0
            }
        };
        if failed {
            let error = io::Error::last_os_error();
            return Err(FileError::System { what: path.to_string_lossy().into_owned(), error });
        }
    }
    Ok(())
}

/// Makes the page cache hold of the job's files what the job asks for.
///
/// # Errors
/// No right to do so, or a file cannot be read.
pub fn set_cache(job: &Job, ground: &Ground) -> Result<(), FileError> {
    let all = || {
        let workers = if job.sharing == Sharing::Shared { 1 } else { job.workers() };
        let files = |w| {
            let set = ground.files(job, w);
            set.paths.iter().map(|path| set.through(path).to_path_buf()).collect::<Vec<_>>()
        };
        (0..workers).flat_map(files).filter(|p| p.exists())
    };
    match job.cache {
        Cache::AsFound => {}
        Cache::Drop => {
            // SAFETY: plain call. Dirty pages cannot be dropped.
            unsafe { libc::sync() };
            let path = "/proc/sys/vm/drop_caches";
            std::fs::write(path, "3").map_err(system(format!(
                "{path} (--cache drop needs root; --cache fadvise drops the load's own files without)"
            )))?;
        }
        Cache::Fadvise => {
            for path in all() {
                let file = File::open(&path).map_err(system(path.display().to_string()))?;
                file.sync_all().map_err(system(path.display().to_string()))?;
                // SAFETY: a plain call on an open file.
                unsafe { libc::posix_fadvise64(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
            }
        }
        Cache::Warm => {
            let mut buffer = vec![0; CHUNK];
            for path in all() {
                let mut file = File::open(&path).map_err(system(path.display().to_string()))?;
                while io::Read::read(&mut file, &mut buffer).map_err(system(path.display().to_string()))? > 0
                {
                }
            }
        }
        Cache::Remount => {
            for place in ground.places() {
                crate::remount::remount(place).map_err(FileError::Said)?;
            }
        }
    }
    Ok(())
}
