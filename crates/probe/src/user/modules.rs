// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sources of user code, each known by a number and kept open, so that a file that is
//! deleted, replaced or left behind by its container can still be read when it is named.

use super::elf::Elf;
use super::maps::{Mapping, Source, Stuff};
use object::ReadCache;
use plumb_trace::schema::StateModule;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Files that are kept open at most; later ones are read for walking and closed.
const MOST_OPEN: usize = 4000;
/// Functions of Python that a recording tells.
const MOST_FUNCTIONS: usize = 65_536;
/// Descriptors that are left to the rest of the program.
const SPARE: u64 = 256;
/// Recordings whose files may be open at once: the next one takes over while one records, and runs of another are named.
const AT_ONCE: u64 = 3;
/// A process's perf map is looked for again after this.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// What a module is; numbers as in `state_module`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Kind {
    File = 0,
    /// Code that a process made itself.
    Jit = 1,
    Vdso = 2,
    /// Nothing was mapped there when it was looked for.
    Nothing = 3,
    /// A source file of functions that an interpreter runs; offsets count them from 1 on.
    Python = 4,
}

/// One source of user code.
#[derive(Debug, Clone)]
pub struct Module {
    /// Its number, from 1 on.
    pub number: u32,
    pub kind: Kind,
    /// Process whose code it is; 0 for files and the vdso.
    pub pid: u32,
    /// GNU build id in hex, empty where there is none.
    pub build_id: String,
    /// Path as its process saw it.
    pub path: String,
    /// The file, kept open; of [`Kind::Jit`] the process's perf map (`/tmp/perf-PID.map`) where
    /// there was one when a stack met it. `None` where it could not be opened.
    pub file: Option<Arc<File>>,
    /// Why there is no file; empty when there is.
    pub lacking: String,
    /// Of [`Kind::Python`] the names and first lines of its functions.
    pub functions: Vec<(String, u32)>,
}

/// What tells files apart once they are open: device, inode, birth, build id.
type Identity = (u64, u64, Option<SystemTime>, String);

#[derive(Debug, Default)]
pub struct Modules {
    all: Vec<Module>,
    told: usize,
    files: HashMap<Identity, u32>,
    /// Those that could not be opened, by inode and path.
    lost: HashMap<(u64, String), u32>,
    vdso: u32,
    /// Source files of Python, and their functions' places.
    sources: HashMap<String, u32>,
    places: HashMap<(u32, String, u32), u64>,
    open: usize,
    most_open: usize,
    tried: HashMap<u32, Instant>,
}

impl Modules {
    /// Every module, by number.
    pub fn all(&self) -> &[Module] {
        &self.all
    }

    pub fn get(&self, number: u32) -> Option<&Module> {
        self.all.get((number as usize).checked_sub(1)?)
    }

    /// Those that came since the last call, as the trace tells them.
    pub fn news(&mut self) -> Vec<StateModule> {
        let from = std::mem::replace(&mut self.told, self.all.len());
        self.all[from..]
            .iter()
            .map(|m| StateModule {
                module: m.number,
                kind: m.kind as u32,
                pid: m.pid,
                build_id: m.build_id.clone(),
                path: m.path.clone(),
            })
            .collect()
    }

    fn add(&mut self, kind: Kind, pid: u32, path: String) -> &mut Module {
        let number = self.all.len() as u32 + 1;
        let (build_id, lacking) = (String::new(), String::new());
        let functions = Vec::new();
        self.all.push(Module { number, kind, pid, build_id, path, file: None, lacking, functions });
        let last = self.all.len() - 1;
        &mut self.all[last]
    }

    /// Number of the module for addresses of a process where nothing is mapped.
    pub(super) fn nothing(&mut self, pid: u32) -> u32 {
        let module = self.add(Kind::Nothing, pid, String::new());
        module.lacking = "nothing was mapped at these addresses when they were looked for".into();
        module.number
    }

    /// The place of a function of Python: its module and its number there; none where there are too many.
    pub(super) fn python(&mut self, path: &str, name: &str, line: u32) -> Option<(u32, u64)> {
        let known = self.sources.get(path).and_then(|m| self.places.get(&(*m, name.to_string(), line)));
        if known.is_none() && self.places.len() >= MOST_FUNCTIONS {
            return None;
        }
        let module = match self.sources.get(path) {
            Some(module) => *module,
            None => {
                let number = self.add(Kind::Python, 0, path.to_string()).number;
                self.sources.insert(path.to_string(), number);
                number
            }
        };
        let functions = &mut self.all[module as usize - 1].functions;
        let place = self.places.entry((module, name.to_string(), line)).or_insert_with(|| {
            functions.push((name.to_string(), line));
            functions.len() as u64
        });
        Some((module, *place))
    }

    /// Number of the vdso's module.
    pub(super) fn vdso(&mut self) -> u32 {
        if self.vdso == 0 {
            let module = self.add(Kind::Vdso, 0, "[vdso]".into());
            module.lacking = "the kernel's own code is no file".into();
            self.vdso = module.number;
        }
        self.vdso
    }

    /// Number of the module for code that a process made itself.
    pub(super) fn jit(&mut self, pid: u32) -> u32 {
        let path = format!("/tmp/perf-{}.map", own_pid(pid));
        let module = self.add(Kind::Jit, pid, path);
        module.lacking = "the process wrote no perf map".into();
        let number = module.number;
        self.look_for_perf_map(number);
        number
    }

    /// Opens a process's perf map if there is one since.
    pub(super) fn look_for_perf_map(&mut self, number: u32) {
        let Some(module) = (number as usize).checked_sub(1).and_then(|at| self.all.get_mut(at)) else {
            return;
        };
        let early = self.tried.get(&number).is_some_and(|at| at.elapsed() < TRY_AGAIN);
        if module.file.is_some() || early {
            return;
        }
        let path = format!("/proc/{}/root{}", module.pid, module.path);
        match open_regular(&path) {
            Ok(_) if !room(&mut self.most_open, self.open) => {
                module.lacking = format!("{} files are open already", self.open);
            }
            Ok((file, _)) => {
                module.file = Some(Arc::new(file));
                module.lacking.clear();
                self.open += 1;
                self.tried.remove(&number);
                return;
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => module.lacking = format!("{}: {e}", module.path),
        }
        self.tried.insert(number, Instant::now());
    }

    /// Forgets when a module's perf map was looked for: its process is gone.
    pub(super) fn gone(&mut self, number: u32) {
        self.tried.remove(&number);
    }

    /// The module of a mapped file: opens it when it is met for the first time, and then
    /// hands over what walking needs of it. `None`: its code is a process's own.
    pub(super) fn of_file(&mut self, pid: u32, mapping: &Mapping) -> Option<(u32, Option<Elf>)> {
        let source = &*mapping.source;
        let (file, meta) = match open(pid, mapping) {
            Ok(opened) => opened,
            Err(_) if source.stuff == Stuff::Memory => return None,
            Err(why) => return Some((self.without_file(source, why), None)),
        };
        let build_id = Elf::head(&ReadCache::new(&file)).map(|elf| elf.build_id);
        if source.stuff == Stuff::Memory && build_id.is_none() {
            return None;
        }
        let build_id = build_id.unwrap_or_default();
        let identity = (meta.dev(), meta.ino(), meta.created().ok(), build_id.clone());
        if let Some(&number) = self.files.get(&identity) {
            return Some((number, None));
        }
        let elf = Elf::read(&file);
        let room = room(&mut self.most_open, self.open);
        let already = self.open;
        let path = source.path.strip_suffix(" (deleted)").unwrap_or(&source.path).to_owned();
        let module = self.add(Kind::File, 0, path);
        module.build_id = build_id;
        if room {
            module.file = Some(Arc::new(file));
        } else {
            module.lacking = format!("{already} files are open already: raise the limit (ulimit -n)");
        }
        let number = module.number;
        self.open += usize::from(room);
        self.files.insert(identity, number);
        Some((number, elf))
    }

    fn without_file(&mut self, source: &Source, why: String) -> u32 {
        let key = (source.inode, source.path.clone());
        if let Some(&number) = self.lost.get(&key) {
            return number;
        }
        let module = self.add(Kind::File, 0, source.path.clone());
        module.lacking = why;
        let number = module.number;
        self.lost.insert(key, number);
        number
    }
}

/// Whether one more file may be kept open. The limit is raised only when it is reached: a
/// program that is started later inherits it, and select(2) fails beyond 1024.
fn room(most: &mut usize, open: usize) -> bool {
    if open < *most {
        return true;
    }
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit fills the structure.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return false;
    }
    if limit.rlim_cur < AT_ONCE * open as u64 + 2 * SPARE {
        limit.rlim_cur = limit.rlim_max.min(AT_ONCE * MOST_OPEN as u64 + SPARE);
        // SAFETY: reads the structure; a refusal leaves the limit as it is, and it is asked again below.
        unsafe {
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
            libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        }
    }
    *most = MOST_OPEN.min((limit.rlim_cur.saturating_sub(SPARE) / AT_ONCE) as usize);
    open < *most
}

/// A process's number in its own namespace, which its perf map has in its name.
fn own_pid(pid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("NSpid:"));
    line.and_then(|l| l.split_whitespace().last()?.parse().ok()).unwrap_or(pid)
}

/// Opens a file, but waits for no FIFO's writer and starts no device.
fn open_regular(path: impl AsRef<Path>) -> io::Result<(File, Metadata)> {
    use std::os::unix::fs::OpenOptionsExt;
    let kind = std::fs::metadata(&path)?.file_type();
    if kind.is_fifo() || kind.is_char_device() || kind.is_block_device() || kind.is_socket() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok((file, meta))
}

/// Opens the file behind a mapping: the mapping's own while its process lives, else what has its path.
fn open(pid: u32, mapping: &Mapping) -> Result<(File, Metadata), String> {
    let source = &*mapping.source;
    let own = format!("/proc/{pid}/map_files");
    let whole = format!("{own}/{:x}-{:x}", mapping.start, mapping.end);
    let its_own = |path: PathBuf| open_regular(path).ok().filter(|(_, meta)| meta.ino() == source.inode);
    if let Some(opened) = its_own(whole.into()).or_else(|| pieces(&own, mapping).find_map(its_own)) {
        return Ok(opened);
    }
    let path = &source.path;
    if source.stuff == Stuff::Memory || path.ends_with(" (deleted)") {
        return Err(format!("{path}: deleted, and its process ended before it could be opened"));
    }
    let mut other = false;
    let mut error = None;
    for place in [format!("/proc/{pid}/root{path}"), path.clone()] {
        match open_regular(place) {
            Ok((file, meta)) if same(source, &meta) => return Ok((file, meta)),
            Ok(_) => other = true,
            Err(e) => error = Some(e),
        }
    }
    match error {
        Some(e) if !other => Err(format!("{path}: {e}")),
        _ => Err(format!("{path}: it is another file now, replaced since it was run")),
    }
}

/// What /proc/PID/map_files has within a mapping. One that was cut is not there under its own addresses: the kernel maps a
/// program with its first segment's rights in all of its length, and then cuts it; on arm64 that segment is executable.
fn pieces(directory: &str, mapping: &Mapping) -> impl Iterator<Item = PathBuf> {
    let within = mapping.start..mapping.end;
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|e| e.path()).filter(move |path| {
        let start = path.file_name().and_then(|name| name.to_str()?.split_once('-'));
        start
            .and_then(|(start, _)| u64::from_str_radix(start, 16).ok())
            .is_some_and(|at| within.contains(&at))
    })
}

/// Whether an opened file is the one that was mapped: its number may be that of a deleted
/// one, but then it was born later; written to later, it is not what was run.
fn same(source: &Source, meta: &Metadata) -> bool {
    // Archives bring times of the future with them: those say nothing.
    let now = SystemTime::now();
    let later = |t: io::Result<SystemTime>| t.is_ok_and(|t| t > source.seen && t <= now);
    meta.ino() == source.inode && !later(meta.created()) && !later(meta.modified())
}
