// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Spans: named intervals of a thread, bounded by places in its program or by functions of the kernel.
//!
//! Here the words become places in files; `bpf/span.bpf.c` is what runs there.

mod kernel;
mod programs;
mod spec;
mod text;
mod usdt;

use crate::target::Target;
use crate::user::Elf;
use anyhow::{bail, Context, Result};
use object::{Object, ObjectSymbol, ReadCache};
use plumb_machine::{process, Root};
use plumb_trace::schema::{StateSpan, StateWaitEvent};
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub use kernel::{has_kprobes, has_uprobes, version as kernel_version};
pub use programs::Program;
use spec::End;
pub use spec::{Condition, Key, Spec};
pub use text::Texts;
pub use usdt::{From as SourceFrom, Source};

/// PLUMB_MAX_PLACES
pub const MOST_PLACES: usize = 64;

/// What spans a recording takes.
#[derive(Debug, Clone, Default)]
pub struct Spans {
    /// Those that were asked for.
    pub asked: Vec<Spec>,
    /// Whether programs whose profile is known get theirs.
    pub programs: bool,
    /// Whether what those say that they wait for is recorded.
    pub waits: bool,
    /// The texts that name spans go into the trace; otherwise what kind of statement, and a hash.
    pub texts: bool,
}

/// Where a probe is placed.
#[derive(Debug, Clone)]
pub enum Site {
    /// An instruction of a file: a path that serves now, and its offset there. A uprobe. The last is the offset of the
    /// semaphore that switches a USDT probe on, 0 for none.
    File(PathBuf, u64, u64),
    /// A kernel function, by its symbol. A kprobe.
    Kernel(String),
}

impl std::fmt::Display for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Site::File(file, offset, _) => write!(f, "{} at {offset:#x}", file.display()),
            Site::Kernel(function) => write!(f, "kernel function {function}"),
        }
    }
}

/// A probe of a span.
#[derive(Debug, Clone)]
pub struct Probe {
    pub site: Site,
    /// At the function's return instead.
    pub returns: bool,
    /// Number of the span that it begins or ends.
    pub span: u32,
    pub ends: bool,
    pub condition: Option<Condition>,
    pub key: Option<Key>,
    /// Where the key lies, of a USDT probe.
    pub source: Option<Source>,
    /// Of a program's profile: nobody asked for it by name.
    pub unasked: bool,
}

/// A process that keeps a word of what it waits for.
#[derive(Debug, Clone, Copy)]
pub struct Word {
    pub pid: u32,
    /// Where in its memory the word's address is.
    pub address: u64,
    /// Number of its program.
    pub program: u32,
}

/// What is attached, and what the trace says of it.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub probes: Vec<Probe>,
    pub words: Vec<Word>,
    pub spans: Vec<StateSpan>,
    pub events: Vec<StateWaitEvent>,
    /// What could not be done, a sentence each.
    pub notes: Vec<String>,
}

/// Where a function or a probe is, and of a probe where the key lies.
type Sites = Vec<(Site, Option<Source>)>;

/// A file with code, whatever its path is by now.
struct Binary {
    /// By which it is opened and attached to.
    path: PathBuf,
    /// By which it is spoken of.
    name: String,
}

impl Plan {
    /// Finds the places of what is asked for, in the programs that the target runs.
    ///
    /// # Errors
    /// A span that was asked for by its own words cannot be recorded: its program or a symbol is missing.
    pub fn make(wanted: &Spans, target: &Target, command: Option<&Path>) -> Result<Self> {
        let mut plan = Self::default();
        if wanted.asked.is_empty() && !wanted.programs && !wanted.waits {
            return Ok(plan);
        }
        let pids = processes(target);
        let binaries = binaries(&pids, command);
        for spec in &wanted.asked {
            if spec.of_kernel() {
                plan.kernel(spec).with_context(|| format!("--span '{}'", spec.text))?;
                continue;
            }
            let of_target;
            let chosen: &[Binary] = match &spec.file {
                Some(path) => {
                    let name = path.display().to_string();
                    of_target = [Binary { path: path.clone(), name }];
                    &of_target
                }
                None => &binaries,
            };
            plan.ask(spec, chosen)?;
        }
        if wanted.programs || wanted.waits {
            for (number, program) in Program::all().iter().enumerate() {
                plan.program(number as u32, program, wanted, &binaries, &pids);
            }
        }
        if plan.probes.len() > MOST_PLACES {
            bail!("at most {MOST_PLACES} places can be probed, and these spans have {}", plan.probes.len());
        }
        Ok(plan)
    }

    /// Of each span, whether the text that names it is SQL.
    pub fn are_sql(&self) -> Vec<bool> {
        let sql = |span: u32| {
            let mut of = self.probes.iter().filter(|p| p.span == span);
            of.any(|p| matches!(p.key, Some(Key::Text { sql: true, .. })))
        };
        self.spans.iter().map(|s| sql(s.span)).collect()
    }

    /// A span that was asked for, in the first of the files that has its places.
    fn ask(&mut self, spec: &Spec, binaries: &[Binary]) -> Result<()> {
        let mut why = None;
        for binary in binaries {
            match self.add(spec, binary, LARGEST) {
                Ok(()) => return Ok(()),
                Err(e) => why = Some(e),
            }
        }
        Err(why.unwrap_or_else(|| {
            anyhow::anyhow!(
                "no program of the target is known; name one as in NAME=/PATH/TO/PROGRAM:FUNCTION"
            )
        }))
        .with_context(|| format!("--span '{}'", spec.text))
    }

    fn add(&mut self, spec: &Spec, binary: &Binary, largest: u64) -> Result<()> {
        let symbols = Symbols::read(&binary.path, largest).with_context(|| binary.name.clone())?;
        if symbols.is_go() {
            bail!(
                "{} is a Go program: its goroutines move between threads and stacks, so that a call may end on another \
                 thread, and a probe of its return ends the program; requests on its sockets are spans without --span",
                binary.name
            );
        }
        let argument = match spec.key {
            Some(Key::Number(n) | Key::Text { argument: n, .. }) => Some(n),
            None => None,
        };
        let begin = symbols.sites(&spec.begin.symbol, binary, argument)?;
        let place = format!("{}: {}", binary.name, spec.places());
        let (end, returns, condition) = match &spec.end {
            End::Return => (begin.clone(), true, None),
            End::At(place) => (symbols.sites(&place.symbol, binary, None)?, false, place.condition),
        };
        self.push(spec, (begin, end), returns, condition, place);
        Ok(())
    }

    /// A span between functions of the kernel.
    fn kernel(&mut self, spec: &Spec) -> Result<()> {
        let begin = &spec.begin.symbol;
        let (end, returns, condition) = match &spec.end {
            End::Return => (begin, true, None),
            End::At(place) => (&place.symbol, false, place.condition),
        };
        kernel::find(&[begin, end])?;
        let site = |function: &String| vec![(Site::Kernel(function.clone()), None)];
        let sites = (site(begin), site(end));
        let place = format!("{}{} (kprobe)", StateSpan::KERNEL, spec.places());
        self.push(spec, sites, returns, condition, place);
        Ok(())
    }

    fn push(
        &mut self,
        spec: &Spec,
        (begin, end): (Sites, Sites),
        returns: bool,
        condition: Option<Condition>,
        place: String,
    ) {
        let span = self.spans.len() as u32;
        for (site, source) in begin {
            self.probes.push(Probe {
                site,
                returns: false,
                span,
                ends: false,
                condition: spec.begin.condition,
                key: spec.key,
                source,
                unasked: false,
            });
        }
        for (site, source) in end {
            let (key, unasked) = (None, false);
            self.probes.push(Probe { site, returns, span, ends: true, condition, key, source, unasked });
        }
        self.spans.push(StateSpan {
            span,
            nests: u8::from(returns),
            numbered: u8::from(matches!(spec.key, Some(Key::Number(_)))),
            name: spec.name.clone(),
            place,
        });
    }

    /// What is known of a program, in each of the target's files that are it.
    fn program(&mut self, number: u32, program: &Program, wanted: &Spans, binaries: &[Binary], pids: &[u32]) {
        let mut told = HashSet::new();
        let first = self.probes.len();
        let libraries = libraries(program, pids);
        for binary in binaries.iter().filter(|b| program.is(&b.name)).chain(&libraries) {
            let version = program.version_of(&binary.path);
            for spec in program.spans(version).filter(|_| wanted.programs) {
                if self.probes.len() + 2 > MOST_PLACES {
                    self.notes.push(format!("no spans of {}: there are too many programs", binary.name));
                    continue;
                }
                if let Err(e) = spec.and_then(|spec| self.add(&spec, binary, LARGEST_UNASKED)) {
                    self.notes.push(format!("no spans of {}: {e:#}", program.title));
                }
            }
            let Some(symbol) = program.wait_symbol().filter(|_| wanted.waits) else { continue };
            let names = program.wait_events(version);
            if names.is_empty() {
                let which = version.map_or_else(|| "of unknown version".into(), |v| format!("version {v}"));
                self.notes.push(format!(
                    "{} {which}: the names of its wait events are not known, so they are not recorded",
                    program.title
                ));
                continue;
            }
            // Two versions at once have two numberings.
            let program = number << 16 | version.unwrap_or(0);
            match word(&binary.path, symbol) {
                Ok(stated) => {
                    self.words.extend(processes_of(&binary.path).into_iter().filter_map(|pid| {
                        let address = bias(pid, &binary.path)?.wrapping_add(stated);
                        Some(Word { pid, address, program })
                    }));
                    if told.insert(program) {
                        self.events.extend(names.into_iter().map(|(number, name)| StateWaitEvent {
                            program,
                            number,
                            name,
                        }));
                    }
                }
                Err(e) => self.notes.push(format!("no wait events of {}: {e:#}", binary.name)),
            }
        }
        self.probes[first..].iter_mut().for_each(|p| p.unasked = true);
    }
}

/// The target's processes that run now.
fn processes(target: &Target) -> Vec<u32> {
    let mut pids = match target {
        Target::Everything => process::all(&Root::real()),
        _ => target.threads().unwrap_or_default(),
    };
    let listed: HashSet<u32> = process::all(&Root::real()).into_iter().collect();
    pids.retain(|pid| listed.contains(pid));
    pids
}

/// The files that processes run, each once.
fn binaries(pids: &[u32], command: Option<&Path>) -> Vec<Binary> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for pid in pids {
        let path = PathBuf::from(format!("/proc/{pid}/exe"));
        let Ok(meta) = std::fs::metadata(&path) else { continue };
        if seen.insert((meta.dev(), meta.ino())) {
            let name = std::fs::read_link(&path).unwrap_or_default().display().to_string();
            let name = name.trim_end_matches(" (deleted)").to_string();
            found.push(Binary { path, name });
        }
    }
    if let Some(path) = command {
        let name = std::fs::canonicalize(path).unwrap_or_else(|_| path.into()).display().to_string();
        found.push(Binary { path: path.into(), name });
    }
    found
}

/// The files of a library that processes have mapped, each once.
fn libraries(program: &Program, pids: &[u32]) -> Vec<Binary> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    if program.libraries().is_empty() {
        return found;
    }
    for pid in pids {
        let Ok(maps) = std::fs::read_to_string(format!("/proc/{pid}/maps")) else { continue };
        for line in maps.lines() {
            let Some(((range, _), path)) = line.split_once(' ').zip(line.rsplit(' ').next()) else {
                continue;
            };
            let name = path.rsplit('/').next().unwrap_or(path);
            if !program.libraries().iter().any(|l| name.starts_with(l.as_str())) {
                continue;
            }
            // Whatever its path means to the process: the file that it has mapped.
            let mapped = PathBuf::from(format!("/proc/{pid}/map_files/{range}"));
            let Ok(meta) = std::fs::metadata(&mapped) else { continue };
            if seen.insert((meta.dev(), meta.ino())) {
                found.push(Binary { path: mapped, name: path.into() });
            }
        }
    }
    found
}

/// Processes that run a file.
fn processes_of(path: &Path) -> Vec<u32> {
    let same = |a: &std::fs::Metadata, b: &std::fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    let Ok(wanted) = std::fs::metadata(path) else { return Vec::new() };
    let runs = |pid: &u32| std::fs::metadata(format!("/proc/{pid}/exe")).is_ok_and(|m| same(&m, &wanted));
    process::all(&Root::real()).into_iter().filter(runs).collect()
}

/// Whatever a file claims, so much of it is read into memory at most, bytes.
const LARGEST: u64 = 512 << 20;
/// Of a program that nobody named: any user can run one of that name.
const LARGEST_UNASKED: u64 = 128 << 20;
/// Functions that run scripts: CPython's, Perl's, Ruby's.
const INTERPRETERS: &[&str] = &["Py_BytesMain", "perl_run", "ruby_run_node"];

/// A program or library whose functions are looked for.
struct Symbols {
    cache: ReadCache<File>,
    elf: Elf,
}

impl Symbols {
    fn read(path: &Path, largest: u64) -> Result<Self> {
        let file = File::open(path).context("the program cannot be opened")?;
        let size = file.metadata()?.len();
        if size > largest {
            bail!("its file of {size} bytes is larger than the {largest} that are read");
        }
        let cache = ReadCache::new(file);
        let elf = Elf::head(&cache).context("not an ELF program of this machine")?;
        if elf.narrow {
            bail!("a program of 32 bits");
        }
        Ok(Self { cache, elf })
    }

    /// Whether Go's linker made it.
    fn is_go(&self) -> bool {
        let object = object::File::parse(&self.cache);
        object.is_ok_and(|o| o.section_by_name(".go.buildinfo").is_some())
    }

    /// The places of a function, or of a USDT probe with the argument that is wanted of it.
    fn sites(&self, name: &str, binary: &Binary, argument: Option<u8>) -> Result<Sites> {
        let file = &binary.name;
        if !name.starts_with(usdt::SIGN) {
            return Ok(vec![(Site::File(binary.path.clone(), self.offset(name, file)?, 0), None)]);
        }
        let notes = usdt::notes(&self.cache)?;
        let site = |note: &usdt::Note| {
            let offset = |address| {
                let offset = self.elf.offset(address);
                offset.with_context(|| {
                    format!("USDT probe '{}' of {file} lies in no part that is loaded", note.name)
                })
            };
            let semaphore = if note.semaphore == 0 { 0 } else { offset(note.semaphore)? };
            let source = argument.map(|n| note.argument(n)).transpose()?;
            Ok((Site::File(binary.path.clone(), offset(note.address)?, semaphore), source))
        };
        usdt::find(&notes, name, file)?.into_iter().map(site).collect()
    }

    /// Offset of a function in the file.
    fn offset(&self, name: &str, file: &str) -> Result<u64> {
        let object = object::File::parse(&self.cache).context("its ELF headers cannot be read")?;
        let functions = || {
            let all = object.symbols().chain(object.dynamic_symbols());
            all.filter(|s| s.is_definition() && s.kind() == object::SymbolKind::Text)
        };
        let Some(found) = functions().find(|s| s.name() == Ok(name)) else {
            if functions().next().is_none() {
                bail!("{file} has no symbols: it is stripped; install its debug symbols or name a program that has '{name}'");
            }
            let like =
                functions().filter_map(|s| s.name().ok()).filter(|n| n.contains(name) && n.len() < 200);
            let mut near: Vec<&str> = like.take(100).collect();
            near.sort_by_key(|n| (n.len(), *n));
            near.dedup();
            near.truncate(3);
            let near = if near.is_empty() { String::new() } else { format!("; it has {}", near.join(", ")) };
            let interprets = functions().any(|s| s.name().is_ok_and(|n| INTERPRETERS.contains(&n)));
            let script =
                if interprets { "; functions of the scripts that it runs cannot be spans" } else { "" };
            bail!(
                "{file} has no function '{name}'{near} ('nm -D {file}' and 'nm {file}' list those that it has){script}"
            );
        };
        let offset = self.elf.offset(found.address());
        offset.with_context(|| format!("function '{name}' of {file} lies in no part that is loaded"))
    }
}

/// The address that a file states for a data symbol.
fn word(path: &Path, symbol: &str) -> Result<u64> {
    let symbols = Symbols::read(path, LARGEST_UNASKED)?;
    let object = object::File::parse(&symbols.cache)?;
    let found = object
        .dynamic_symbols()
        .chain(object.symbols())
        .find(|s| s.is_definition() && s.name() == Ok(symbol));
    found.map(|s| s.address()).with_context(|| format!("it has no symbol '{symbol}'"))
}

/// Where in the file of this program a piece of its code lies, by its address.
pub fn own_offset(address: u64) -> Option<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let number = |word: &str| u64::from_str_radix(word, 16).ok();
        let (start, end) = (number(start)?, number(end)?);
        let offset = number(words.nth(1)?)?;
        (start..end).contains(&address).then(|| address - start + offset)
    })
}

/// How far above its stated addresses a process has its program.
fn bias(pid: u32, path: &Path) -> Option<u64> {
    let meta = std::fs::metadata(path).ok()?;
    let file = File::open(path).ok()?;
    let cache = ReadCache::new(&file);
    let elf = Elf::head(&cache)?;
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    maps.lines().find_map(|line| {
        // address perms offset dev inode path (proc(5))
        let mut words = line.split_whitespace();
        let start = u64::from_str_radix(words.next()?.split_once('-')?.0, 16).ok()?;
        let offset = u64::from_str_radix(words.nth(1)?, 16).ok()?;
        let inode: u64 = words.nth(1)?.parse().ok()?;
        (inode == meta.ino()).then_some(())?;
        Some(start.wrapping_sub(elf.address(offset)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_this_program_is_found_where_it_lies() {
        let symbols = Symbols::read(Path::new("/proc/self/exe"), LARGEST).expect("own program");
        let offset = symbols.offset("main", "self").expect("main");
        let file = File::open("/proc/self/exe").expect("own program");
        let elf = Elf::head(&ReadCache::new(&file)).expect("ELF");
        let stated = elf.address(offset).expect("loaded");
        let address =
            bias(std::process::id(), Path::new("/proc/self/exe")).expect("mapped").wrapping_add(stated);
        // SAFETY: code of this program, which is mapped to be read.
        let there = unsafe { std::slice::from_raw_parts(address as *const u8, 16) };
        let bytes = std::fs::read("/proc/self/exe").expect("own program");
        assert_eq!(there, &bytes[offset as usize..offset as usize + 16]);
    }

    #[test]
    fn a_missing_function_is_told_with_those_that_are_like_it() {
        let symbols = Symbols::read(Path::new("/proc/self/exe"), LARGEST).expect("own program");
        let error = symbols.offset("mai", "self").expect_err("no such").to_string();
        assert!(error.contains("no function 'mai'") && error.contains("main"), "{error}");
        let error = Symbols::read(Path::new("/proc/self/exe"), 1000).err().expect("too large").to_string();
        assert!(error.contains("1000"), "{error}");
    }
}
