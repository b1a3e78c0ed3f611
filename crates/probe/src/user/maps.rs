// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The executable mappings of one address space, and the files that they name.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::SystemTime;

/// What a mapping's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stuff {
    File,
    /// A file in memory only: a program, or code that a process made itself.
    Memory,
    /// Code that a process made itself.
    Jit,
    Vdso,
}

/// [`Source::module`] of a file in memory that is no program, but its process's own code.
pub const OWN: u32 = u32::MAX;

/// A file as the kernel named it when it was mapped.
#[derive(Debug)]
pub struct Source {
    pub stuff: Stuff,
    /// Inode number; the device is not kept: what stat(2) tells differs from it on btrfs and
    /// overlayfs.
    pub inode: u64,
    /// As its process saw it.
    pub path: String,
    /// When it was first mapped, as far as known.
    pub seen: SystemTime,
    /// Number of its module; 0 while no stack named it.
    module: AtomicU32,
}

impl Source {
    /// Number of its module; 0 while no stack named it; [`OWN`].
    pub fn module(&self) -> u32 {
        self.module.load(Ordering::Relaxed)
    }

    pub fn set_module(&self, number: u32) {
        self.module.store(number, Ordering::Relaxed);
    }
}

/// How the kernel names a mapping's file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name {
    /// Major << 32 | minor.
    pub device: u64,
    pub inode: u64,
    /// The inode's generation; 0 where /proc was asked, which does not tell it.
    pub generation: u64,
    /// Path or `[vdso]`, `//anon`, ...
    pub path: String,
}

impl Name {
    fn stuff(&self) -> Option<Stuff> {
        match self.path.as_str() {
            "[vdso]" => Some(Stuff::Vdso),
            "[vsyscall]" => None, // no code: calls to it fault, and the kernel does their work
            p if p.starts_with("/memfd:") => Some(Stuff::Memory),
            p if p.starts_with("/dev/zero") || p.starts_with("/SYSV") || p.starts_with("/anon_hugepage") => {
                Some(Stuff::Jit)
            }
            p if p.starts_with('/') && !p.starts_with("//") && self.inode != 0 => Some(Stuff::File),
            _ => Some(Stuff::Jit),
        }
    }
}

/// All files that are mapped somewhere, or that stacks named.
#[derive(Debug, Default)]
pub struct Sources {
    known: HashMap<Name, Arc<Source>>,
    swept: usize,
}

impl Sources {
    /// The file of that name; `None` for what is no code.
    pub fn get(&mut self, mut name: Name, seen: impl FnOnce() -> SystemTime) -> Option<Arc<Source>> {
        let stuff = name.stuff()?;
        if matches!(stuff, Stuff::Jit | Stuff::Vdso) {
            // One for all: what tells such code apart is its process.
            name = Name { device: 0, inode: 0, generation: 0, path: format!("{stuff:?}") };
        }
        if let Some(source) = self.known.get(&name) {
            return Some(source.clone());
        }
        self.sweep();
        let source = Arc::new(Source {
            stuff,
            inode: name.inode,
            path: name.path.clone(),
            seen: seen(),
            module: AtomicU32::new(0),
        });
        self.known.insert(name, source.clone());
        Some(source)
    }

    /// Forgets files that no stack named and nobody has mapped any more, now and then.
    fn sweep(&mut self) {
        if self.known.len() > 2 * self.swept + 1024 {
            self.known.retain(|_, s| (s.module() != 0 && s.module() != OWN) || Arc::strong_count(s) > 1);
            self.swept = self.known.len();
        }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.known.len()
    }
}

/// A range of addresses that may be executed.
#[derive(Debug, Clone)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    /// Offset of the first byte in its file.
    pub offset: u64,
    pub source: Arc<Source>,
}

/// An address space's code, by address.
#[derive(Debug, Clone, Default)]
pub struct Maps(Vec<Mapping>);

impl Maps {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = &Mapping> {
        self.0.iter()
    }

    /// The one that an address lies in.
    pub fn find(&self, address: u64) -> Option<&Mapping> {
        let at = self.0.partition_point(|m| m.end <= address);
        self.0.get(at).filter(|m| m.start <= address)
    }

    /// Takes a range out: something else was mapped over it.
    pub fn cut(&mut self, start: u64, end: u64) {
        let from = self.0.partition_point(|m| m.end <= start);
        let to = self.0.partition_point(|m| m.start < end);
        if from >= to {
            return;
        }
        let mut rest = Vec::new();
        for m in &self.0[from..to] {
            if m.start < start {
                rest.push(Mapping { end: start, ..m.clone() });
            }
            if m.end > end {
                rest.push(Mapping { start: end, offset: m.offset.wrapping_add(end - m.start), ..m.clone() });
            }
        }
        self.0.splice(from..to, rest);
    }

    /// Puts one in; it replaces what was there.
    pub fn insert(&mut self, mapping: Mapping) {
        if mapping.start >= mapping.end {
            return;
        }
        self.cut(mapping.start, mapping.end);
        let at = self.0.partition_point(|m| m.start < mapping.start);
        self.0.insert(at, mapping);
    }

    /// Reads /proc/PID/maps; empty when the process is gone or has no memory of its own.
    pub fn of_process(pid: u32, sources: &mut Sources) -> Self {
        let bytes = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        Self::of_text(&String::from_utf8_lossy(&bytes), sources)
    }

    fn of_text(text: &str, sources: &mut Sources) -> Self {
        let mut out = Self::default();
        for (start, end, offset, name) in text.lines().filter_map(parse) {
            if let Some(source) = sources.get(name, SystemTime::now) {
                out.insert(Mapping { start, end, offset, source });
            }
        }
        out
    }
}

/// What the text of a /proc/PID/maps says.
pub(super) fn of_text(text: &str) -> Maps {
    Maps::of_text(text, &mut Sources::default())
}

/// A line of /proc/PID/maps, if it may be executed: start-end mode offset device inode path.
fn parse(line: &str) -> Option<(u64, u64, u64, Name)> {
    let hex = |w: &str| u64::from_str_radix(w, 16).ok();
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    words.next()?.contains('x').then_some(())?;
    let offset = hex(words.next()?)?;
    let (major, minor) = words.next()?.split_once(':')?;
    let device = hex(major)? << 32 | hex(minor)?;
    let inode = words.next()?.parse().ok()?;
    let path = words.next().unwrap_or_default().trim_start().to_owned();
    Some((hex(start)?, hex(end)?, offset, Name { device, inode, generation: 0, path }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &str) -> Name {
        Name { device: 0, inode: 9, generation: 0, path: path.into() }
    }

    fn ranges(maps: &Maps) -> Vec<(u64, u64, u64)> {
        maps.0.iter().map(|m| (m.start, m.end, m.offset)).collect()
    }

    #[test]
    fn a_new_mapping_replaces_what_was_there() {
        let mut sources = Sources::default();
        let source = sources.get(named("/a"), SystemTime::now).expect("a file");
        let map = |start, end, offset| Mapping { start, end, offset, source: source.clone() };
        let mut maps = Maps::default();
        maps.insert(map(0x1000, 0x9000, 0));
        maps.insert(map(0x3000, 0x4000, 0x100));
        assert_eq!(ranges(&maps), [(0x1000, 0x3000, 0), (0x3000, 0x4000, 0x100), (0x4000, 0x9000, 0x3000)]);
        maps.insert(map(0x2000, 0x5000, 0));
        assert_eq!(ranges(&maps), [(0x1000, 0x2000, 0), (0x2000, 0x5000, 0), (0x5000, 0x9000, 0x4000)]);
        maps.cut(0, u64::MAX);
        assert_eq!(maps.len(), 0);
        maps.insert(map(5, 5, 0));
        assert!(maps.find(5).is_none());
    }

    #[test]
    fn lines_of_proc_maps() {
        let (start, end, offset, name) =
            parse("7f00-7f10 r-xp 00001000 fe:01 123                        /a b (deleted)")
                .expect("a mapping");
        assert_eq!((start, end, offset), (0x7f00, 0x7f10, 0x1000));
        assert_eq!(
            name,
            Name { device: 0xfe << 32 | 1, inode: 123, generation: 0, path: "/a b (deleted)".into() }
        );
        assert_eq!(parse("7f00-7f10 rwxp 00000000 00:00 0").expect("JIT").3.stuff(), Some(Stuff::Jit));
        assert!(parse("7f00-7f10 rw-p 00000000 00:00 0").is_none());
        assert!(parse("7f00 r-xp").is_none());
    }

    #[test]
    fn files_that_nobody_has_mapped_are_forgotten() {
        let mut sources = Sources::default();
        let kept = sources.get(named("/kept"), SystemTime::now).expect("a file");
        let told = sources.get(named("/told"), SystemTime::now).expect("a file");
        told.set_module(1);
        drop(told);
        (0..10_000).for_each(|i| drop(sources.get(named(&format!("/tmp/{i}")), SystemTime::now)));
        assert!(sources.len() < 4096, "{}", sources.len());
        assert!(sources.known.contains_key(&named("/told")));
        assert!(Arc::ptr_eq(&kept, &sources.get(named("/kept"), SystemTime::now).expect("a file")));
    }
}
