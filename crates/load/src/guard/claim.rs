// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whose test files are these? A run keeps its files in a directory of its own,
//! with a sign in it; the sign is locked while the run lives, so that what a
//! killed run left is told from what a living one uses.

use plumb_machine::process::{self, Identity};
use plumb_machine::{utc, Root};
use serde::{Deserialize, Serialize};
use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How the name of a claim's directory begins; the process id follows.
pub const CLAIM_PREFIX: &str = "plumb-load.";
pub const SIGN_FILE: &str = ".plumb-load";
const XATTR: &CStr = c"user.plumb.load";

/// What the sign says. The start time tells a process from a later one of the
/// same id, the boot from one before a crash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Sign {
    pid: u32,
    /// Field 22 of /proc/PID/stat, clock ticks after boot.
    start: u64,
    boot: String,
    made: String,
}

impl Sign {
    /// Of this process.
    fn own() -> Sign {
        let pid = std::process::id();
        let start = process::start_of(pid as i32).unwrap_or(0);
        Sign { pid, start, boot: process::boot(&Root::real()), made: utc() }
    }

    /// Whether the process that made it is there, in this boot.
    fn lives(&self) -> bool {
        let process = Identity { pid: self.pid as i32, start: self.start };
        self.boot == process::boot(&Root::real()) && process.exists()
    }
}

/// A run's own directory. Removed with everything in it by [`Claim::release`],
/// or when it is dropped by the process that made it.
#[derive(Debug)]
pub struct Claim {
    dir: PathBuf,
    owner: u32,
    released: bool,
    // Held for its lock, which ends with the process at the latest.
    sign: Option<File>,
}

impl Claim {
    /// Makes `dir/plumb-load.PID`, readable by this user only.
    ///
    /// # Errors
    /// When it cannot be made; the sentence names it.
    pub fn create(dir: &Path) -> io::Result<Claim> {
        let pid = std::process::id();
        let named = |path: &Path, e: io::Error| {
            io::Error::new(e.kind(), format!("cannot make {}: {e}", path.display()))
        };
        // A second claim of one process, or of an earlier one of its id, is told by a second number.
        let mut made = dir.join(format!("{CLAIM_PREFIX}{pid}"));
        for number in 2..=1000 {
            match std::fs::DirBuilder::new().mode_private().create(&made) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && number < 1000 => {
                    made = dir.join(format!("{CLAIM_PREFIX}{pid}.{number}"));
                }
                Err(e) => return Err(named(&made, e)),
                Ok(()) => break,
            }
        }
        let sign = Sign::own();
        let write = || -> io::Result<File> {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(made.join(SIGN_FILE))?;
            lock(&file)?;
            file.write_all(serde_json::to_string(&sign)?.as_bytes())?;
            Ok(file)
        };
        match write() {
            Ok(file) => Ok(Claim { dir: made, owner: pid, released: false, sign: Some(file) }),
            Err(e) => {
                // Without a sign nobody could tell that it is ours.
                let _ = std::fs::remove_file(made.join(SIGN_FILE));
                let _ = std::fs::remove_dir(&made);
                Err(named(&made.join(SIGN_FILE), e))
            }
        }
    }

    /// The directory for the test files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Keeps no file open: the file system can then be unmounted (`--cache
    /// remount`). Whether the run lives is told by its process alone, as where
    /// there are no locks.
    pub fn let_go(&mut self) {
        self.sign = None;
    }

    /// Removes the directory and everything in it.
    ///
    /// # Errors
    /// When something cannot be removed or another file system is mounted in it.
    pub fn release(mut self) -> io::Result<()> {
        self.released = true;
        empty_out(&self.dir)
    }

    /// What runs that were killed left in `dir`: claims with a valid sign whose
    /// process no longer lives.
    pub fn leftovers(dir: &Path) -> Vec<Leftover> {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let mut found: Vec<Leftover> = entries.filter_map(|e| Leftover::at(&e.path())).collect();
        found.sort_by(|a, b| a.dir.cmp(&b.dir));
        found
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A forked worker has a copy of the claim, and no say in it.
        if !self.released && self.owner == std::process::id() {
            let _ = empty_out(&self.dir);
        }
    }
}

trait Private {
    fn mode_private(&mut self) -> &mut Self;
}

impl Private for std::fs::DirBuilder {
    fn mode_private(&mut self) -> &mut Self {
        std::os::unix::fs::DirBuilderExt::mode(self, 0o700)
    }
}

/// What a killed run left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    pub dir: PathBuf,
    /// The process that made it.
    pub pid: u32,
    /// When, UTC; None where that run was killed before it wrote its sign, or behind the sign's removal.
    pub made: Option<String>,
    /// How many files lie in it, without the sign.
    pub files: u64,
    /// What they take on the disk, bytes.
    pub size: u64,
}

impl Leftover {
    fn at(dir: &Path) -> Option<Leftover> {
        if let Some(pid) = bare(dir) {
            return Some(Leftover { dir: dir.into(), pid, made: None, files: 0, size: 0 });
        }
        let sign = dead(dir)?;
        let (mut files, mut size) = (0, 0);
        survey(dir, std::fs::symlink_metadata(dir).ok()?.dev(), &mut |meta| {
            files += 1;
            size += meta.blocks() * 512;
        })
        .ok()?;
        Some(Leftover { dir: dir.into(), pid: sign.pid, made: Some(sign.made), files: files - 1, size })
    }

    /// Removes it, if its sign is still valid and its process still dead.
    ///
    /// # Errors
    /// When that has changed, or something cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        if bare(&self.dir).is_some() {
            let named =
                |e: io::Error| io::Error::new(e.kind(), format!("cannot remove {}: {e}", self.dir.display()));
            match std::fs::remove_file(self.dir.join(SIGN_FILE)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(named(e)),
                _ => return std::fs::remove_dir(&self.dir).map_err(named),
            }
        }
        if dead(&self.dir).is_none() {
            let why = "has no valid sign of a run that ended; look at it, and remove it yourself";
            return Err(io::Error::other(format!("{} {why}", self.dir.display())));
        }
        empty_out(&self.dir)
    }
}

/// The process of a claim that was killed before it wrote its sign, or behind the removal of its sign: a directory with
/// the name of one, in which nothing is, or an empty sign.
fn bare(dir: &Path) -> Option<u32> {
    let pid: u32 = owner(dir)?.parse().ok()?;
    let here = std::fs::symlink_metadata(dir).ok().filter(|m| m.is_dir())?;
    let empty = |entry: std::fs::DirEntry| {
        entry.file_name() == SIGN_FILE && entry.metadata().is_ok_and(|m| m.is_file() && m.len() == 0)
    };
    // SAFETY: a call without arguments.
    let ours = here.uid() == unsafe { libc::geteuid() };
    let nothing = std::fs::read_dir(dir).ok()?.all(|entry| entry.is_ok_and(empty));
    (ours && nothing && process::start_of(pid as i32).is_none()).then_some(pid)
}

/// The process id in a claim's name.
fn owner(dir: &Path) -> Option<&str> {
    dir.file_name()?.to_str()?.strip_prefix(CLAIM_PREFIX)?.split('.').next()
}

/// The sign of a claim whose process no longer lives; None for anything else.
fn dead(dir: &Path) -> Option<Sign> {
    let owner = owner(dir)?;
    let here = std::fs::symlink_metadata(dir).ok().filter(|m| m.is_dir())?;
    let path = dir.join(SIGN_FILE);
    let file = OpenOptions::new()
        .read(true)
        // Never wait for a fifo that somebody put there.
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(&path)
        .ok()?;
    let meta = file.metadata().ok().filter(|m| m.is_file() && m.uid() == here.uid() && m.len() < 4096)?;
    let sign: Sign = serde_json::from_reader(&file).ok()?;
    if owner.parse() != Ok(sign.pid) || meta.dev() != here.dev() || lock(&file).is_err() {
        return None;
    }
    (!sign.lives()).then_some(sign)
}

/// Locks the sign without waiting. The kernel drops the lock when the last
/// process that holds the file has ended, in whatever PID namespace.
fn lock(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open; the call touches no memory of ours.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            // No locks on this file system: the process id and start time decide alone.
            e if matches!(e.raw_os_error(), Some(libc::ENOLCK | libc::EOPNOTSUPP)) => Ok(()),
            e => Err(e),
        },
    }
}

/// Sees every file below a directory, and fails where another file system is mounted.
fn survey(dir: &Path, device: u64, see: &mut dyn FnMut(&std::fs::Metadata)) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let meta = std::fs::symlink_metadata(&path)?;
        if meta.dev() != device {
            let why = format!("another file system is mounted at {}; unmount it first", path.display());
            return Err(io::Error::other(why));
        }
        if meta.is_dir() {
            survey(&path, device, see)?;
        } else {
            see(&meta);
        }
    }
    Ok(())
}

/// Removes a claim's directory; the sign last, so that a removal that is cut
/// short can be taken up again.
fn empty_out(dir: &Path) -> io::Result<()> {
    let named = |e: io::Error| io::Error::new(e.kind(), format!("cannot remove {}: {e}", dir.display()));
    survey(dir, std::fs::symlink_metadata(dir).map_err(named)?.dev(), &mut |_| ()).map_err(named)?;
    for entry in std::fs::read_dir(dir).map_err(named)? {
        let entry = entry.map_err(named)?;
        if entry.file_name() == SIGN_FILE {
            continue;
        }
        // remove_dir_all follows no link, also not one that is put in its way.
        let removed = match entry.file_type().map_err(named)?.is_dir() {
            true => std::fs::remove_dir_all(entry.path()),
            false => std::fs::remove_file(entry.path()),
        };
        removed.map_err(named)?;
    }
    std::fs::remove_file(dir.join(SIGN_FILE)).map_err(named)?;
    std::fs::remove_dir(dir).map_err(named)
}

/// Marks a file that plumb load made at a path of the user's, so that a later
/// run may overwrite it. False where the file system keeps no attributes; such
/// a file then needs `--destroy`.
pub fn sign(file: &File) -> bool {
    let Ok(meta) = file.metadata() else { return false };
    // A copy of the file takes the attribute along, but not the inode's number.
    let value = meta.ino().to_string();
    let (name, value) = (XATTR.as_ptr(), value.as_bytes());
    // SAFETY: name ends with a zero; value is valid for its length; both live through the call.
    unsafe { libc::fsetxattr(file.as_raw_fd(), name, value.as_ptr().cast(), value.len(), 0) == 0 }
}

/// Whether plumb load made this file: it carries the mark of [`sign`], or lies
/// in the claim of this process.
pub fn made_by_us(path: &Path) -> bool {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    opened.is_ok_and(|file| is_ours(&file, path))
}

/// The same of an open file and its path.
pub(super) fn is_ours(file: &File, path: &Path) -> bool {
    let Ok(meta) = file.metadata() else { return false };
    let mut value = [0u8; 32];
    // SAFETY: the name ends with a zero and value may be written for its length.
    let length =
        unsafe { libc::fgetxattr(file.as_raw_fd(), XATTR.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
    if length > 0 && value[..length as usize] == *meta.ino().to_string().as_bytes() {
        return true;
    }
    let Ok(real) = path.canonicalize() else { return false };
    real.ancestors().skip(1).any(|dir| {
        let named = dir.file_name().is_some_and(|n| n.to_string_lossy().starts_with(CLAIM_PREFIX));
        let sign = || serde_json::from_slice::<Sign>(&std::fs::read(dir.join(SIGN_FILE)).ok()?).ok();
        named && sign().is_some_and(|s| s.lives())
    })
}

#[cfg(test)]
mod tests;
