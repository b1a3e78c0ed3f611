// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stacks by number become functions, modules and lines.

use super::ignored_frames::{instrument, is_call_entry};
use super::{Frame, Frames, Function, Module, Origin, Profile, Root, Stack};
use indexmap::IndexSet;
use plumb_trace::reader::State as TraceState;
use plumb_trace::schema::{StateFunction, StateModule, StateStack};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// `StateModule::kind` of code that a process made itself, of the vdso, of nothing mapped.
const JIT: u32 = 1;
const VDSO: u32 = 2;
const NOTHING: u32 = 3;

/// Things kept once each, known by their places.
type Once<T> = IndexSet<T, FxBuildHasher>;

fn place<T: Eq + Hash>(of: &mut Once<T>, thing: T) -> u32 {
    of.insert_full(thing).0 as u32
}

/// What a kernel stack is of a whole one.
#[derive(Debug, Default)]
struct Below {
    /// Places in the table of frames.
    frames: Vec<u32>,
    /// Entered by a system call.
    called: bool,
    /// Of a thread without user code.
    kernel_thread: bool,
}

/// Looks up what a trace tells of stacks, places and modules; each thing has its place among those
/// that were looked up so far, and keeps it.
#[derive(Debug)]
pub struct Resolver<'a> {
    kernel: HashMap<u32, &'a StateStack>,
    /// Places among the trace's user stacks.
    user: FxHashMap<u32, usize>,
    told: HashMap<u32, &'a StateModule>,
    places: FxHashMap<(u32, u64), &'a StateFunction>,
    /// Functions of the kernel that a row tells, by start.
    kernel_functions: BTreeMap<u64, &'a StateFunction>,
    lacking: HashMap<u32, &'a str>,
    state: &'a TraceState,
    /// Modules that frames name, by the trace's number.
    numbers: HashMap<u32, u32>,
    modules: Vec<Module>,
    functions: Once<Function>,
    lines: Once<String>,
    frames: Vec<Frame>,
    frame_places: FxHashMap<Frame, u32>,
    stacks: Once<Stack>,
    /// Stacks by kernel and user number and whether it is a sample.
    known: FxHashMap<(u32, u32, bool), u32>,
    /// Kernel stacks by number and whether it is a sample.
    below: FxHashMap<(u32, bool), Below>,
    /// By the number of a user stack's frame and whether it is an instruction, no return address: begin
    /// and end of its frames in `inner`. Some functions were inlined there, so they are several.
    above: Vec<[Option<(u32, u32)>; 2]>,
    inner: Vec<u32>,
}

impl<'a> Resolver<'a> {
    pub fn new(state: &'a TraceState) -> Self {
        let lacking: HashMap<u32, &str> =
            state.named.iter().map(|n| (n.module, n.lacking.as_str())).collect();
        let kernel = Module {
            path: "kernel".into(),
            lacking: lacking.get(&0).map(|l| (*l).to_string()).unwrap_or_default(),
            ..Module::default()
        };
        let mut out = Self {
            kernel: state.stacks.iter().filter(|s| s.user == 0).map(|s| (s.stack, s)).collect(),
            user: state.user_stacks.iter().zip(0..).map(|(s, at)| (s.stack, at)).collect(),
            told: state.modules.iter().map(|m| (m.module, m)).collect(),
            places: state.functions.iter().map(|f| ((f.module, f.offset), f)).collect(),
            kernel_functions: state
                .functions
                .iter()
                .filter(|f| f.module == 0)
                .map(|f| (f.start, f))
                .collect(),
            lacking,
            state,
            numbers: HashMap::from([(0, 0)]),
            modules: vec![kernel],
            functions: Once::default(),
            lines: Once::default(),
            frames: Vec::new(),
            frame_places: FxHashMap::default(),
            stacks: Once::default(),
            known: FxHashMap::default(),
            below: FxHashMap::default(),
            above: vec![[None; 2]; state.user_stacks.places()],
            inner: Vec::new(),
        };
        place(&mut out.stacks, Stack::default());
        place(&mut out.lines, String::new());
        out
    }

    /// The stack of a sample.
    pub fn sample(&mut self, kernel: u32, user: u32) -> u32 {
        self.stack(kernel, user, true)
    }

    /// The stack of a wait; scheduler functions at its inner end are where it was.
    pub fn wait(&mut self, kernel: u32, user: u32) -> u32 {
        self.stack(kernel, user, false)
    }

    /// The frames of the stack at a place; none where there is no such stack.
    pub fn frames_at(&self, place: u32) -> Frames<'_> {
        let places = self.stacks.get_index(place as usize).map_or(&[][..], |s| &s.frames);
        Frames::new(places, &self.frames)
    }

    /// The function that a frame names.
    pub fn function_at(&self, place: u32) -> Option<&Function> {
        self.functions.get_index(place as usize)
    }

    /// The module that a function names.
    pub fn module_at(&self, place: u32) -> Option<&Module> {
        self.modules.get(place as usize)
    }

    /// The source line that a frame names; empty where it is not known.
    pub fn line_at(&self, place: u32) -> &str {
        self.lines.get_index(place as usize).map_or("", String::as_str)
    }

    fn stack(&mut self, kernel: u32, user: u32, sample: bool) -> u32 {
        if let Some(place) = self.known.get(&(kernel, user, sample)) {
            return *place;
        }
        self.look_below(kernel, sample);
        let below = &self.below[&(kernel, sample)];
        let (called, kernel_thread) = (below.called, below.kernel_thread);
        let state = self.state;
        let above = self.user.get(&user).and_then(|at| state.user_stacks.get(*at));
        let user_frames = above.map_or(&[][..], |s| s.frames);
        let mut frames = Vec::with_capacity(below.frames.len() + user_frames.len());
        frames.extend_from_slice(&below.frames);
        for (i, frame) in user_frames.iter().enumerate() {
            // In a system call the innermost one is a return address as well.
            self.user_frame(*frame, i == 0 && !called, &mut frames);
        }
        let root = match above {
            _ if frames.is_empty() => Root::Whole,
            Some(above) if above.cut != 0 => Root::Cut,
            None if !kernel_thread => Root::Cut,
            _ => Root::Whole,
        };
        let place = place(&mut self.stacks, Stack { frames: frames.into(), root });
        self.known.insert((kernel, user, sample), place);
        place
    }

    fn frame(&mut self, frame: Frame) -> u32 {
        let next = self.frames.len() as u32;
        let place = *self.frame_places.entry(frame).or_insert(next);
        if place == next {
            self.frames.push(frame);
        }
        place
    }

    fn look_below(&mut self, number: u32, sample: bool) {
        if self.below.contains_key(&(number, sample)) {
            return;
        }
        let mut below = Below::default();
        if let Some(told) = self.kernel.get(&number).copied() {
            let names: Vec<&str> = told.text.split(';').collect();
            self.kernel_frames(told, &names, sample, &mut below.frames);
            below.called = names.iter().any(|name| is_call_entry(name));
            below.kernel_thread = names.last().is_some_and(|name| name.starts_with("ret_from_fork"));
        }
        self.below.insert((number, sample), below);
    }

    fn kernel_frames(&mut self, told: &StateStack, names: &[&str], sample: bool, out: &mut Vec<u32>) {
        let skip = if sample { instrument(names) } else { 0 };
        for (i, name) in names.iter().enumerate().skip(skip) {
            let address = told.frames.get(i).copied().unwrap_or(0);
            // Only a sample's innermost address is an instruction; a wait's lies behind a call, too.
            let exact = sample && i == 0;
            let inside = if exact { address } else { address.saturating_sub(1) };
            if let Some(row) = self.places.get(&(0, address)).copied().filter(|_| exact) {
                self.rows(row, 0, Origin::Kernel, inside, out);
                continue;
            }
            // The recorder looks one byte before each address: at a function's first
            // instruction it finds the padding in front of it.
            let name = name.strip_prefix("__pfx_").filter(|_| exact).unwrap_or(name);
            let (start, size) = self.kernel_range(inside, name);
            let named = !name.is_empty() && !name.starts_with("0x");
            let name = if named { name.to_string() } else { format!("kernel+{inside:#x}") };
            let function = Function { name, named, module: 0, origin: Origin::Kernel, start, size };
            let function = place(&mut self.functions, function);
            out.push(self.frame(Frame { function, address: inside, line: 0, inlined: false }));
        }
    }

    /// Start and size of the kernel's function at an address, where a row tells: a function
    /// must be one whether it was sampled or called.
    fn kernel_range(&self, address: u64, name: &str) -> (u64, u64) {
        let at = self.kernel_functions.range(..=address).next_back();
        at.filter(|(start, f)| {
            let same = f.names.rsplit('\n').next() == Some(name);
            same && (f.size == 0 || address - **start < f.size)
        })
        .map_or((0, 0), |(start, f)| (*start, f.size))
    }

    /// The frames at a place, which is looked up when it is met first.
    fn user_frame(&mut self, frame: u32, exact: bool, out: &mut Vec<u32>) {
        let known = self.above.get(frame as usize).and_then(|by| by[usize::from(exact)]);
        let (from, to) = known.unwrap_or_else(|| {
            let from = self.inner.len() as u32;
            let mut inner = std::mem::take(&mut self.inner);
            self.look_above(frame, exact, &mut inner);
            self.inner = inner;
            let range = (from, self.inner.len() as u32);
            if let Some(by) = self.above.get_mut(frame as usize) {
                by[usize::from(exact)] = Some(range);
            }
            range
        });
        out.extend_from_slice(&self.inner[from as usize..to as usize]);
    }

    fn look_above(&mut self, frame: u32, exact: bool, out: &mut Vec<u32>) {
        let Some((number, offset)) = self.state.user_stacks.place(frame) else { return };
        let Ok(number) = u32::try_from(number) else { return };
        let module = self.module(number);
        let jit = self.told.get(&number).is_some_and(|m| m.kind == JIT);
        let origin = if jit { Origin::Jit } else { Origin::User };
        let address = if exact { offset } else { offset.saturating_sub(1) };
        if let Some(row) = self.places.get(&(number, offset)).copied() {
            self.rows(row, module, origin, address, out);
            return;
        }
        let name = format!("{}+{offset:#x}", self.modules[module as usize].name());
        let function = Function { name, named: false, module, origin, start: 0, size: 0 };
        let function = place(&mut self.functions, function);
        out.push(self.frame(Frame { function, address, line: 0, inlined: false }));
    }

    /// A place's functions: what was inlined there first, the function itself last.
    fn rows(&mut self, row: &StateFunction, module: u32, origin: Origin, address: u64, out: &mut Vec<u32>) {
        let mut lines = row.lines.split('\n');
        let mut names = row.names.split('\n').peekable();
        while let Some(name) = names.next() {
            let inlined = names.peek().is_some();
            let (start, size) = if inlined { (0, 0) } else { (row.start, row.size) };
            let named = !name.is_empty();
            let name = if named {
                name.to_string()
            } else {
                format!("{}+{:#x}", self.modules[module as usize].name(), row.offset)
            };
            let function = Function { name, named, module, origin, start, size };
            let function = place(&mut self.functions, function);
            let line = place(&mut self.lines, lines.next().unwrap_or("").to_string());
            out.push(self.frame(Frame { function, address, line, inlined }));
        }
    }

    fn module(&mut self, number: u32) -> u32 {
        if let Some(place) = self.numbers.get(&number) {
            return *place;
        }
        let told = self.told.get(&number);
        let path = told.map(|m| m.path.clone()).filter(|p| !p.is_empty());
        let path = path.unwrap_or_else(|| match told.map(|m| m.kind) {
            Some(JIT) => "[jit]".into(),
            Some(VDSO) => "[vdso]".into(),
            Some(NOTHING) => "[not mapped]".into(),
            _ => "[unknown]".into(),
        });
        let place = self.modules.len() as u32;
        self.modules.push(Module {
            path,
            build_id: told.map(|m| m.build_id.clone()).unwrap_or_default(),
            lacking: self.lacking.get(&number).map(|l| (*l).to_string()).unwrap_or_default(),
        });
        self.numbers.insert(number, place);
        place
    }

    /// Puts the tables into a profile.
    pub(super) fn give(self, profile: &mut Profile) {
        for code in &self.state.code {
            let Some(module) = self.numbers.get(&code.module) else { continue };
            let mut bytes: Vec<u8> = code.words.iter().flat_map(|w| w.to_le_bytes()).collect();
            bytes.truncate(usize::try_from(code.bytes).unwrap_or(usize::MAX));
            profile.code.insert((*module, code.start), bytes);
        }
        profile.modules = self.modules;
        profile.functions = self.functions.into_iter().collect();
        profile.lines = self.lines.into_iter().collect();
        profile.frames = self.frames;
        profile.stacks = self.stacks.into_iter().collect();
    }
}
