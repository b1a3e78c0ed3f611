// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions of programs and libraries, for the user frames of stacks: which
//! file a build id means is asked while its process lives, its symbols are
//! read when the recording is over.

use crate::stacks::RawStack;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use plumb_trace::schema::StateSymbol;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Files above this size are left alone, bytes.
const LARGEST: u64 = 1 << 30;

/// Callers that are looked for in one stack.
const MOST_CALLERS: usize = 6;
/// A process's mappings are asked for again after this.
const MAPS_AGE: Duration = Duration::from_secs(1);
const MOST_MAPS: usize = 4096;

/// A part of a file that a process may execute.
#[derive(Debug, Clone)]
struct Map {
    start: u64,
    end: u64,
    offset: u64,
    path: String,
}

impl Map {
    /// A line of /proc/PID/maps: start-end mode offset device inode path.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let hex = |w: &str| u64::from_str_radix(w, 16).ok();
        words.next()?.contains('x').then_some(())?;
        let offset = hex(words.next()?)?;
        let path = &line[line.find('/')?..];
        Some(Self { start: hex(start)?, end: hex(end)?, offset, path: path.into() })
    }
}

/// Whether the bytes before a place in a file are a call instruction.
#[cfg(target_arch = "x86_64")]
fn behind_call(file: &File, offset: u64) -> bool {
    let mut b = [0u8; 7];
    if offset < 7 || file.read_exact_at(&mut b, offset - 7).is_err() {
        return false;
    }
    // E8 rel32; FF /2 with a register, a short or a long displacement (Intel SDM, CALL).
    let indirect = |at: usize| b[at] == 0xff && b[at + 1] >> 3 & 7 == 2;
    b[2] == 0xe8 || indirect(5) || indirect(4) || indirect(1) || indirect(0)
}

#[cfg(not(target_arch = "x86_64"))]
fn behind_call(_: &File, _: u64) -> bool {
    false
}

fn build_id(path: &Path) -> Option<String> {
    Some(crate::user::build_id(&File::open(path).ok()?)).filter(|id| !id.is_empty())
}

/// Files by build id, and the places in them that stacks name.
#[derive(Debug, Default)]
pub struct Files {
    paths: BTreeMap<String, PathBuf>,
    asked: HashSet<(u32, String)>,
    ids: HashMap<String, String>,
    open: HashMap<String, Option<File>>,
    mapped: HashMap<u32, (Instant, Rc<Vec<Map>>)>,
    places: BTreeMap<String, BTreeSet<u64>>,
}

impl Files {
    /// Remembers the places of a user stack, and where its files lie.
    pub fn note(&mut self, tid: u32, stack: &RawStack) {
        for (id, offset) in stack.build_ids.iter().zip(&stack.frames).filter(|(id, _)| !id.is_empty()) {
            self.places.entry(id.clone()).or_default().insert(*offset);
            if !self.paths.contains_key(id) && self.asked.insert((tid, id.clone())) {
                self.learn(tid);
            }
        }
    }

    /// Build ids of everything that a process has mapped to execute.
    fn learn(&mut self, tid: u32) {
        for m in self.maps(tid).iter() {
            self.identify(tid, &m.path);
        }
    }

    /// What a process has mapped to execute; asked again after a while.
    fn maps(&mut self, tid: u32) -> Rc<Vec<Map>> {
        if let Some((_, maps)) = self.mapped.get(&tid).filter(|(at, _)| at.elapsed() < MAPS_AGE) {
            return maps.clone();
        }
        if self.mapped.len() > MOST_MAPS {
            self.mapped.clear();
        }
        let text = std::fs::read_to_string(format!("/proc/{tid}/maps")).unwrap_or_default();
        let maps = Rc::new(text.lines().filter_map(Map::parse).collect::<Vec<_>>());
        if maps.is_empty() {
            // It ended since; what it had mapped is as good.
            return self.mapped.get(&tid).map(|(_, maps)| maps.clone()).unwrap_or_default();
        }
        self.mapped.insert(tid, (Instant::now(), maps.clone()));
        maps
    }

    /// The build id of a file that a process has mapped; empty without one.
    fn identify(&mut self, tid: u32, file: &str) -> String {
        if let Some(id) = self.ids.get(file) {
            return id.clone();
        }
        // As the process sees it, whatever its mount namespace.
        let path = PathBuf::from(format!("/proc/{tid}/root{file}"));
        let id = build_id(&path).or_else(|| build_id(Path::new(file))).unwrap_or_default();
        if !id.is_empty() {
            self.paths.entry(id.clone()).or_insert_with(|| PathBuf::from(file));
        }
        self.ids.insert(file.into(), id.clone());
        id
    }

    fn is_behind_call(&mut self, path: &str, offset: u64) -> bool {
        let file = self.open.entry(path.into()).or_insert_with(|| File::open(path).ok());
        file.as_ref().is_some_and(|f| behind_call(f, offset))
    }

    /// Turns the words of a user stack into the return addresses among them:
    /// those that lie in code, behind a call instruction.
    pub fn find_callers(&mut self, stack: &mut RawStack) {
        let words = std::mem::take(&mut stack.frames);
        let maps = self.maps(stack.other);
        for (i, &word) in words.iter().enumerate() {
            let Some(map) = maps.iter().find(|m| (m.start..m.end).contains(&word)) else { continue };
            let offset = word - map.start + map.offset;
            let id = self.identify(stack.other, &map.path);
            // The first two are registers: where it is, and on arm64 who called.
            if id.is_empty() || (i > 1 && !self.is_behind_call(&map.path, offset)) {
                continue;
            }
            stack.frames.push(offset);
            stack.build_ids.push(id);
            if stack.frames.len() == MOST_CALLERS {
                break;
            }
        }
    }

    /// Names of the places, as far as the files have symbols.
    pub fn symbols(&self) -> Vec<StateSymbol> {
        let mut out = Vec::new();
        for (id, places) in &self.places {
            let Some(bytes) = self.paths.get(id).and_then(|path| read(path)) else { continue };
            let Ok(file) = object::File::parse(&*bytes) else { continue };
            let functions = functions(&file);
            for &offset in places {
                // A frame is a return address: one back lies inside the call.
                let at = functions.partition_point(|f| f.0 < offset);
                let Some((start, size, name)) = at.checked_sub(1).map(|i| &functions[i]) else { continue };
                if *size == 0 || offset <= start + size {
                    let name = format!("{:#}", rustc_demangle::demangle(name));
                    out.push(StateSymbol { offset, build_id: id.clone(), name });
                }
            }
        }
        out
    }
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let meta = std::fs::metadata(path).ok()?;
    (meta.is_file() && meta.len() <= LARGEST).then(|| std::fs::read(path).ok())?
}

/// Functions by their offset in the file: offset, size, name.
fn functions<'a>(file: &object::File<'a>) -> Vec<(u64, u64, &'a str)> {
    let segments: Vec<_> = file.segments().map(|s| (s.address(), s.size(), s.file_range().0)).collect();
    let offset = |address: u64| {
        segments.iter().find(|s| (s.0..s.0 + s.1).contains(&address)).map(|s| address - s.0 + s.2)
    };
    let mut out: Vec<(u64, u64, &str)> = file
        .symbols()
        .chain(file.dynamic_symbols())
        .filter(|s| s.kind() == SymbolKind::Text && s.is_definition())
        .filter_map(|s| Some((offset(s.address())?, s.size(), s.name().ok()?)))
        .collect();
    out.sort_unstable();
    out.dedup_by_key(|f| f.0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::Kind;

    #[inline(never)]
    fn somewhere_known() -> usize {
        std::hint::black_box(1)
    }

    #[test]
    fn a_place_in_this_program_has_its_functions_name() {
        let me = std::process::id();
        let address = somewhere_known as *const () as u64 + 4;
        assert_eq!(somewhere_known(), 1);
        let exe = std::env::current_exe().expect("own path");
        let text = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let maps: Vec<Map> = text.lines().filter_map(Map::parse).collect();
        let map = maps.iter().find(|m| (m.start..m.end).contains(&address)).expect("mapped");
        let Some(id) = build_id(&exe) else {
            println!("SKIP a_place_in_this_program_has_its_functions_name: linked without a build id");
            return;
        };
        let stack = RawStack {
            end: 0,
            tid: me,
            other: 0,
            kind: Kind::WaitUser,
            frames: vec![address - map.start + map.offset],
            build_ids: vec![id],
        };
        let mut files = Files::default();
        files.note(me, &stack);
        let names: Vec<String> = files.symbols().into_iter().map(|s| s.name).collect();
        assert!(names.len() == 1 && names[0].ends_with("somewhere_known"), "{names:?}");
    }
}
