// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every process has mapped to execute: told by the kernel as it happens
//! (PERF_RECORD_MMAP2, FORK, COMM with exec, EXIT), and by /proc for those that were
//! there before.

use super::maps::{Mapping, Maps, Name, Source, Sources, Stuff, OWN};
use super::python::Pythons;
use super::records::{Record, What};
use super::rings::Rings;
use super::walk::{At, Code, Copied, Step, Walker};
use super::{elf::Elf, End, Modules, Registers, UserStack};
use crate::skel::types::plumb_python;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

#[cfg(test)]
mod tests;

/// Stacks of a process that ended, or of the program that it ran before, may come this much later, ns.
const LATE: u64 = 10_000_000_000;
/// /proc is asked again for an address that is nowhere, at most this often a process.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Address spaces of one process that are kept: a chain of exec, as a shell script's interpreter does.
const MOST_PROGRAMS: usize = 4;
/// Mappings of one space; more are what was unmapped since, which the kernel does not tell.
const MOST_MAPS: usize = 8192;
/// Frames that most stacks have at most.
const FRAMES: usize = 64;
const MOST_FRAMES: usize = 256;

/// What a process has mapped from one exec to the next.
#[derive(Debug, Clone, Default)]
struct Space {
    /// From when on, ns.
    since: u64,
    maps: Arc<Maps>,
    /// Whether every mapping was told; else /proc is to be asked.
    whole: bool,
    /// Whose memory it is a copy of, where that was not known.
    parent: u32,
    asked: Option<Instant>,
    /// Modules of its own code, and of addresses where nothing is; 0 not met.
    jit: u32,
    nothing: u32,
}

/// A process: what it ran, latest last.
#[derive(Debug, Default)]
struct Process {
    spaces: Vec<Space>,
    ended: Option<u64>,
    used: u64,
}

/// Address spaces of all processes.
#[derive(Debug, Default)]
pub struct Spaces {
    /// The modules met so far.
    pub modules: Modules,
    walker: Walker,
    pythons: Pythons,
    sources: Sources,
    processes: HashMap<u32, Process>,
    rings: Option<Rings>,
    refused: Option<String>,
    lost: u64,
    /// Records that were read but are not due yet.
    waiting: Vec<Record>,
    /// What the kernel told up to here was taken in, ns.
    due: u64,
    swept: u64,
}

impl Process {
    /// The space that it had at that time.
    fn at(&self, at: u64) -> usize {
        self.spaces.iter().rposition(|s| s.since <= at).unwrap_or(0)
    }

    fn begin(&mut self, space: Space) {
        let from = space.since;
        self.spaces.push(space);
        let old =
            |i: usize| self.spaces.get(i + 1).is_some_and(|next| next.since.saturating_add(LATE) < from);
        let drop = (0..self.spaces.len()).take_while(|&i| old(i)).count();
        let drop = drop.max(self.spaces.len().saturating_sub(MOST_PROGRAMS));
        self.spaces.drain(..drop);
    }
}

impl Spaces {
    /// Begins to listen on all CPUs. Where the kernel refuses, /proc alone is asked, and
    /// [`Spaces::lacking`] says so.
    pub fn start(cpus: u32) -> Self {
        let mut out = Self::default();
        match Rings::open(cpus) {
            Ok(rings) => out.rings = Some(rings),
            Err(e) => out.refused = Some(e.to_string()),
        }
        out
    }

    /// Up to when [`Spaces::update`] took in what the kernel told, ns.
    pub fn known_until(&self) -> u64 {
        self.due
    }

    /// Takes in what the kernel told since the last call. Must be called before stacks
    /// that are younger than it are walked.
    pub fn update(&mut self) {
        // CPUs are read one after the other: what comes while they are would be out of order.
        let due = plumb_machine::clock::now();
        self.due = due;
        let mut records = std::mem::take(&mut self.waiting);
        if let Some(rings) = &self.rings {
            rings.drain(|bytes| records.extend(Record::parse(bytes)));
        }
        records.sort_by_key(|r| r.time);
        self.waiting = records.split_off(records.partition_point(|r| r.time <= due));
        let real = SystemTime::now();
        for record in records {
            let ago = Duration::from_nanos(due.saturating_sub(record.time));
            self.apply(record, real.checked_sub(ago).unwrap_or(real));
        }
        if due.saturating_sub(self.swept) > LATE / 10 {
            self.swept = due;
            self.sweep(due);
        }
    }

    fn apply(&mut self, record: Record, real: SystemTime) {
        let Record { time, pid, what } = record;
        match what {
            What::Map { start, len, offset, device, inode, generation, executable, path } => {
                let name = Name { device, inode, generation, path };
                let source = if executable { self.sources.get(name, || real) } else { None };
                let end = start.saturating_add(len);
                let process = self.processes.entry(pid).or_default();
                if process.spaces.is_empty() {
                    process.spaces.push(Space::default());
                }
                let Some(space) = process.spaces.last_mut() else { return };
                let maps = Arc::make_mut(&mut space.maps);
                match source {
                    Some(source) => maps.insert(Mapping { start, end, offset, source }),
                    None => maps.cut(start, end),
                }
                if maps.len() > MOST_MAPS {
                    *maps = Maps::default();
                    space.whole = false;
                }
            }
            What::Fork { parent } => {
                let of = self.processes.get(&parent).and_then(|p| p.spaces.last());
                let space = Space {
                    since: time,
                    maps: of.map(|s| s.maps.clone()).unwrap_or_default(),
                    whole: of.is_some_and(|s| s.whole),
                    parent: of.map_or(parent, |s| if s.parent == 0 { parent } else { s.parent }),
                    ..Space::default()
                };
                let process = self.processes.entry(pid).or_default();
                process.ended = None;
                process.begin(space);
                self.pythons.ended(pid);
            }
            What::Exec => {
                let process = self.processes.entry(pid).or_default();
                if process.spaces.is_empty() {
                    process.spaces.push(Space::default());
                }
                process.begin(Space { since: time, whole: true, ..Space::default() });
                self.pythons.ended(pid);
            }
            What::Exit => {
                if let Some(process) = self.processes.get_mut(&pid) {
                    process.ended = Some(time);
                }
            }
            What::Lost(records) => {
                self.lost += records;
                self.processes.values_mut().filter_map(|p| p.spaces.last_mut()).for_each(|s| {
                    s.whole = false;
                    s.parent = 0;
                });
            }
        }
    }

    /// Forgets processes that ended a while ago.
    fn sweep(&mut self, due: u64) {
        // The kernel tells their end; where it does not, or was not heard, they are asked.
        let unsure = self.rings.is_none() || self.lost > 0;
        let (modules, pythons) = (&mut self.modules, &mut self.pythons);
        self.processes.retain(|pid, p| {
            let idle = due.saturating_sub(p.used) > LATE;
            if idle && unsure && p.ended.is_none() && !std::path::Path::new(&format!("/proc/{pid}")).exists()
            {
                p.ended = Some(due.saturating_sub(LATE));
            }
            // A process whose first thread ended may go on: it is kept while stacks of it come.
            let keep = !idle || p.ended.is_none_or(|at| due.saturating_sub(at) <= LATE);
            if !keep {
                p.spaces.iter().for_each(|s| modules.gone(s.jit));
                pythons.ended(*pid);
            }
            keep
        });
    }

    /// Walks a stack that process `pid` had at `at` (ns, CLOCK_MONOTONIC); `copy` is its
    /// memory from `sp` on.
    ///
    /// A frame that a signal interrupted, and the frame below it, are no callers; their offset
    /// is told one byte further, so that all frames but the first are return addresses.
    pub fn walk(&mut self, at: u64, pid: u32, registers: Registers, copy: &[u8]) -> UserStack {
        let copy = Copied { start: registers.sp, bytes: copy };
        let process = self.processes.entry(pid).or_default();
        process.used = process.used.max(at);
        if process.spaces.is_empty() {
            process.spaces.push(Space::default());
        }
        let space = process.at(at);
        // Of a program that it ran before nobody need be told.
        let latest = space + 1 == process.spaces.len();
        self.complete(pid, space);
        let mut maps = self.maps(pid, space);
        self.walker.begin(registers);
        let mut frames: Vec<(u32, u64)> = Vec::with_capacity(FRAMES);
        let mut place = At::Instruction(registers.ip);
        loop {
            if maps.find(place.inside()).is_none() && self.ask_for(pid, space, place.inside()) {
                maps = self.maps(pid, space);
            }
            let Some(mapping) = maps.find(place.inside()) else {
                if frames.is_empty() {
                    frames.push((self.nothing(pid, space), registers.ip));
                }
                return UserStack { frames, end: End::NoRule };
            };
            let (module, shift) = self.module(pid, space, mapping);
            if latest {
                self.pythons.met(pid, module, shift);
            }
            let file = self.modules.get(module).and_then(|m| m.file.as_deref());
            let offset = place.address().wrapping_sub(shift);
            let (trampoline, further) = match place {
                At::Instruction(_) => (false, !frames.is_empty()),
                At::Return(_) => {
                    let is = file.is_some_and(|f| self.walker.ends_signal(module, f, offset));
                    (is, is)
                }
            };
            // A signal frame may name any address, the last one too.
            frames.push((module, offset.saturating_add(further.into())));
            if copy.bytes.is_empty() {
                return UserStack { frames, end: End::Registers };
            }
            if frames.len() == MOST_FRAMES {
                return UserStack { frames, end: End::NoRule };
            }
            match self.walker.step(place, Code { module, shift, trampoline }, copy) {
                Step::Frame(next) => place = next,
                Step::End(end) => return UserStack { frames, end },
            }
        }
    }

    /// Interpreters that the BPF programs must be told of since the last call, by process; none: it ended.
    pub fn pythons(&mut self) -> Vec<(u32, Option<plumb_python>)> {
        self.pythons.news()
    }

    /// Puts the functions of Python into a walked stack. `codes`: code objects as they come from the programs.
    pub fn with_python(&mut self, pid: u32, walked: UserStack, codes: &[u64]) -> UserStack {
        self.pythons.merge(pid, walked, codes, &mut self.modules)
    }

    fn space(&mut self, pid: u32, space: usize) -> Option<&mut Space> {
        self.processes.get_mut(&pid)?.spaces.get_mut(space)
    }

    /// Asks /proc for a space of which not every mapping was told.
    fn complete(&mut self, pid: u32, space: usize) {
        let Some(s) = self.space(pid, space) else { return };
        if !s.whole && s.asked.is_none_or(|at| at.elapsed() >= ASK_AGAIN) {
            self.ask(pid, space);
        }
    }

    fn ask(&mut self, pid: u32, space: usize) {
        let listening = self.rings.is_some();
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let latest = space + 1 == process.spaces.len();
        let Some(s) = process.spaces.get_mut(space) else { return };
        s.asked = Some(Instant::now());
        if !latest {
            return; // /proc tells what it runs now
        }
        let mut maps = Maps::of_process(pid, &mut self.sources);
        let parent = s.parent;
        if maps.len() == 0 && s.maps.len() == 0 && parent != 0 {
            maps = Maps::of_process(parent, &mut self.sources);
        }
        if maps.len() > 0 {
            s.maps = Arc::new(maps);
            s.whole = listening;
        }
    }

    fn maps(&mut self, pid: u32, space: usize) -> Arc<Maps> {
        self.space(pid, space).map(|s| s.maps.clone()).unwrap_or_default()
    }

    /// Asks /proc again for an address that lies nowhere; `false` when it was not asked.
    fn ask_for(&mut self, pid: u32, space: usize, address: u64) -> bool {
        let asked = self.space(pid, space).and_then(|s| s.asked);
        // Neither the lowest page nor the kernel's half is ever a process's code.
        if address < 4096 || address >> 63 != 0 || asked.is_some_and(|at| at.elapsed() < ASK_AGAIN) {
            return false;
        }
        self.ask(pid, space);
        true
    }

    fn nothing(&mut self, pid: u32, space: usize) -> u32 {
        let known = self.space(pid, space).map_or(0, |s| s.nothing);
        if known != 0 {
            return known;
        }
        let number = self.modules.nothing(pid);
        if let Some(s) = self.space(pid, space) {
            s.nothing = number;
        }
        number
    }

    /// A mapping's module, and the difference between addresses and offsets in it.
    fn module(&mut self, pid: u32, space: usize, mapping: &Mapping) -> (u32, u64) {
        let source: &Source = &mapping.source;
        let shift = mapping.start.wrapping_sub(mapping.offset);
        match source.stuff {
            Stuff::Vdso => {
                let number = self.modules.vdso();
                if !self.walker.knows(number) {
                    self.walker.add(number, own_vdso().unwrap_or_default());
                }
                (number, mapping.start)
            }
            Stuff::File | Stuff::Memory => {
                let known = source.module();
                if known == OWN {
                    return (self.jit(pid, space), 0);
                }
                if known != 0 {
                    if !self.walker.knows(known) {
                        // They had to make room for others, or there are none.
                        let file = self.modules.get(known).and_then(|m| m.file.as_deref());
                        self.walker.add(known, file.and_then(Elf::read).unwrap_or_default());
                    }
                    return (known, shift);
                }
                match self.modules.of_file(pid, mapping) {
                    Some((number, elf)) => {
                        source.set_module(number);
                        if let Some(elf) = elf {
                            self.walker.add(number, elf);
                            let file = self.modules.get(number).and_then(|m| m.file.as_deref());
                            self.pythons.opened(number, &source.path, file);
                        }
                        (number, shift)
                    }
                    None => {
                        source.set_module(OWN);
                        (self.jit(pid, space), 0)
                    }
                }
            }
            Stuff::Jit => (self.jit(pid, space), 0),
        }
    }

    fn jit(&mut self, pid: u32, space: usize) -> u32 {
        let known = self.space(pid, space).map_or(0, |s| s.jit);
        if known != 0 {
            self.modules.look_for_perf_map(known);
            return known;
        }
        let number = self.modules.jit(pid);
        if let Some(s) = self.space(pid, space) {
            s.jit = number;
        }
        number
    }

    /// What makes maps less certain, a sentence each: no permission for the kernel's
    /// records, records lost, files that could not be opened.
    pub fn lacking(&self) -> Vec<String> {
        let mut out = Vec::new();
        if let Some(why) = &self.refused {
            out.push(format!(
                "The kernel does not tell of mappings ({why}): processes that end, or run another program, before \
                 /proc is read have stacks without names. Run as root, or set kernel.perf_event_paranoid to 0."
            ));
        }
        out.extend(self.pythons.lacking());
        if self.lost > 0 {
            out.push(format!(
                "{} records of mappings and processes were lost: /proc was read in their place, and code that was \
                 gone by then has no name.",
                self.lost
            ));
        }
        out
    }
}

/// The vdso that the kernel gave this process: all of the same width have the same.
fn own_vdso() -> Option<Elf> {
    // SAFETY: getauxval reads the process's own vector.
    let start = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
    let maps = Maps::of_process(std::process::id(), &mut Sources::default());
    let mapping = maps.find(start).filter(|m| m.start == start)?;
    let size = usize::try_from(mapping.end - start).ok()?;
    // SAFETY: the mapping is readable from `start` on for its size, and lives as long as this process.
    let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, size) };
    Elf::of_memory(bytes)
}
