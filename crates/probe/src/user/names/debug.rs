// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Debug info that is kept apart from its program: by build id and by debug link where
//! distributions install it, and from a debuginfod server where one is configured.

use super::Module;
use object::{Object, ReadCache, ReadRef};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where distributions install debug info.
const DIRECTORY: &str = "/usr/lib/debug";
const ONE: Duration = Duration::from_secs(60);
/// Time for all of them.
const ALL: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(super) struct Finder {
    directory: PathBuf,
    fetcher: Option<Fetcher>,
}

impl Finder {
    /// Looks in the usual directories, then asks the fetcher.
    pub(super) fn new(fetcher: Option<Fetcher>) -> Self {
        Self { directory: DIRECTORY.into(), fetcher }
    }

    #[cfg(test)]
    pub(super) fn in_directory(directory: &Path, fetcher: Option<Fetcher>) -> Self {
        Self { directory: directory.into(), fetcher }
    }

    /// Whether it asks servers.
    pub(super) fn fetches(&self) -> bool {
        self.fetcher.is_some()
    }

    /// Whether fetching was asked for and cannot be done at all.
    pub(super) fn is_broken(&self) -> bool {
        self.fetcher.as_ref().is_some_and(|f| f.broken.is_some())
    }

    /// The file with a module's debug info, or why fetching it failed.
    pub(super) fn find<'d, R: ReadRef<'d>>(
        &mut self,
        module: &Module,
        elf: &object::File<'d, R>,
    ) -> (Option<PathBuf>, Option<String>) {
        let id: Option<String> = match elf.build_id() {
            Ok(Some(id)) => Some(id.iter().map(|b| format!("{b:02x}")).collect()),
            _ => Some(module.build_id.clone()).filter(|id| !id.is_empty()),
        };
        let installed = id.as_deref().and_then(|id| by_build_id(&self.directory, id));
        if let Some(path) = installed.or_else(|| by_link(&self.directory, Path::new(&module.path), elf)) {
            return (Some(path), None);
        }
        match (&mut self.fetcher, id) {
            (Some(fetcher), Some(id)) => match fetcher.fetch(&id, &module.path) {
                Ok(path) => (Some(path), None),
                Err(why) => (None, Some(why)),
            },
            _ => (None, None),
        }
    }
}

/// `.build-id/xx/yyyy.debug`, if it is what its name says.
fn by_build_id(directory: &Path, id: &str) -> Option<PathBuf> {
    let (head, tail) = id.split_at_checked(2)?;
    let path = directory.join(".build-id").join(head).join(format!("{tail}.debug"));
    has_build_id(&path, id).then_some(path)
}

fn has_build_id(path: &Path, id: &str) -> bool {
    build_id(path).is_some_and(|found| found == id)
}

/// A file's GNU build id in hex.
pub(super) fn build_id(path: &Path) -> Option<String> {
    let file = File::open(path).ok()?;
    let cache = ReadCache::new(&file);
    let elf = object::File::parse(&cache).ok()?;
    let id = elf.build_id().ok()??;
    Some(id.iter().map(|b| format!("{b:02x}")).collect())
}

/// The file that `.gnu_debuglink` names, where gdb looks for it, if its checksum is right.
fn by_link<'d, R: ReadRef<'d>>(
    directory: &Path,
    program: &Path,
    elf: &object::File<'d, R>,
) -> Option<PathBuf> {
    let (name, checksum) = elf.gnu_debuglink().ok()??;
    let name = Path::new(std::ffi::OsStr::from_bytes(name)).file_name()?;
    let beside = program.parent()?;
    let apart = directory.join(beside.strip_prefix("/").unwrap_or(beside));
    [beside.join(name), beside.join(".debug").join(name), apart.join(name)]
        .into_iter()
        .find(|path| path != program && crc32(path) == Some(checksum))
}

fn crc32(path: &Path) -> Option<u32> {
    let mut file = File::open(path).ok().filter(|f| f.metadata().is_ok_and(|m| m.is_file()))?;
    let mut hasher = crc32fast::Hasher::new();
    let mut chunk = vec![0; 1 << 16];
    loop {
        match file.read(&mut chunk).ok()? {
            0 => return Some(hasher.finalize()),
            n => hasher.update(&chunk[..n]),
        }
    }
}

/// Fetches debug info by the client of elfutils, which has a cache.
#[derive(Debug)]
pub(super) struct Fetcher {
    program: OsString,
    one: Duration,
    left: Duration,
    /// Why it is not tried any more.
    broken: Option<String>,
}

impl Fetcher {
    /// `None` where `DEBUGINFOD_URLS` is not set: nothing is fetched unasked.
    pub(super) fn from_environment() -> Option<Self> {
        let urls = std::env::var_os("DEBUGINFOD_URLS")?;
        (!urls.as_bytes().trim_ascii().is_empty()).then(|| Self::with("debuginfod-find".into(), ONE, ALL))
    }

    /// Another program, other limits.
    pub(super) fn with(program: OsString, one: Duration, all: Duration) -> Self {
        Self { program, one, left: all, broken: None }
    }

    fn fetch(&mut self, id: &str, of: &str) -> Result<PathBuf, String> {
        if let Some(why) = &self.broken {
            return Err(why.clone());
        }
        if self.left.is_zero() {
            return Err("debuginfod: the time for all files is over; its cache has what was fetched".into());
        }
        eprintln!("plumb: fetching debug info of {} ({id})", super::clean(of));
        let begin = Instant::now();
        let answer = self.run(id, begin + self.one.min(self.left));
        self.left = self.left.saturating_sub(begin.elapsed());
        answer
    }

    fn run(&mut self, id: &str, until: Instant) -> Result<PathBuf, String> {
        let mut command = Command::new(&self.program);
        command.args(["debuginfo", id]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|e| {
            let why = format!(
                "DEBUGINFOD_URLS is set, but {} cannot be run ({e}); install it (Debian: apt-get install \
                 debuginfod, Fedora: dnf install elfutils-debuginfod-client)",
                self.program.to_string_lossy()
            );
            self.broken = Some(why.clone());
            why
        })?;
        let done = wait(&mut child, until);
        if done.is_none() {
            // It may have ended in between; either way it is gone afterwards.
            let _ = child.kill();
            let _ = child.wait();
            return Err("debuginfod: not fetched in time; what it got so far is in its cache".into());
        }
        let mut path = Vec::new();
        // A path: it fits into the pipe, nobody waits for its reader.
        let read = child.stdout.take().map(|out| out.take(8192).read_to_end(&mut path));
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(path.trim_ascii()));
        match (done, read) {
            (Some(true), Some(Ok(_))) if has_build_id(&path, id) => Ok(path),
            _ => Err("debuginfod: no server has its debug info".into()),
        }
    }
}

/// Whether a child ended well; `None` when it still runs.
fn wait(child: &mut Child, until: Instant) -> Option<bool> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(10)),
            Ok(None) => return None,
            Err(_) => return Some(false),
        }
    }
}
