// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The wall-clock profile: the account of the target's threads once more, with
//! the call stack under every part of it.
//!
//! Time on a CPU is spread over the samples that the sampling clock took of it; a
//! wait has the stack on which its thread slept and the time that the account gives
//! it. So the profile adds up to the account, category by category, to the
//! nanosecond; what has no stack (waits below the threshold, threads that the clock
//! never met) is a line of its own.

mod build;
mod collect;
mod compact;
mod frames;
mod hot;
mod ignored_frames;
mod pool;
mod resolve;
mod short;
mod split;

pub use collect::Collector;
pub use frames::Frames;
pub use hot::{hot, PROBES};
pub(crate) use ignored_frames::instrument;
pub use resolve::Resolver;
pub use short::short;

use crate::account::Category;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where code lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A program or library.
    User,
    /// Code that a process made itself.
    Jit,
    /// The kernel, its modules and BPF programs.
    Kernel,
}

/// A source of code.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Module {
    /// Path as its process saw it; `kernel`.
    pub path: String,
    /// GNU build id in hex, empty where there is none.
    pub build_id: String,
    /// Why not all of its places have a name; empty when they have.
    pub lacking: String,
}

impl Module {
    /// The file's name without its directories.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// A function, or a place that has no name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Function {
    /// Demangled; `libfoo.so+0x1234` where no symbol tells.
    pub name: String,
    /// Whether a symbol told its name.
    pub named: bool,
    /// Place in [`Profile::modules`]; 0 is the kernel.
    pub module: u32,
    /// Where the code lies.
    pub origin: Origin,
    /// Where it begins in its module, 0 not known (always so for inlined ones).
    pub start: u64,
    /// Its length in bytes, 0 not known.
    pub size: u64,
}

/// One frame of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Place in [`Profile::functions`].
    pub function: u32,
    /// Where in its module: file offset, or address. The innermost frame's is the
    /// instruction itself, a caller's lies inside its call.
    pub address: u64,
    /// `FILE:LINE`, a place in [`Profile::lines`]; 0 is not known.
    pub line: u32,
    /// The compiler put it into the function of the next frame.
    pub inlined: bool,
}

/// How a stack ends at its outer end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Root {
    /// It was walked to its root, or the thread has no user code.
    #[default]
    Whole,
    /// Its outer frames are missing: the copy of the stack ended, or no rule told how to go on.
    Cut,
}

/// A stack: kernel frames, then user frames.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Stack {
    /// Places in [`Profile::frames`], innermost first; empty where no stack was taken.
    pub frames: Box<[u32]>,
    /// Its outer end.
    pub root: Root,
}

/// A thread of the target. Together, as one, are the threads of one name that the clock never
/// met where they are many, and those of least time where a trace has tens of thousands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Thread {
    /// Thread; 0 for several of one name.
    pub tid: u32,
    /// Process; 0 for several.
    pub pid: u32,
    /// Name, the last that it had.
    pub comm: String,
    /// Name of its process.
    pub process: String,
}

/// A share of the target's time that had one stack, one category and one cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Place in [`Profile::threads`].
    pub thread: u32,
    /// CPU that it was sampled on; `None` for waits and for time without samples.
    pub cpu: Option<u32>,
    /// Category of the account.
    pub category: Category,
    /// Thread's name or disk that the account names for it; a place in [`Profile::whos`], 0 nobody.
    pub who: u32,
    /// Place in [`Profile::stacks`]; 0 is the empty stack: none was taken.
    pub stack: u32,
    /// ns. Entries of a category add up to the account's.
    pub time: u64,
    /// Samples, or waits; a wait that went to several causes counts at each. 0 where the time
    /// of a thread without samples was spread over those of others of its name.
    pub count: u64,
}

/// Everything, aggregated: one entry a thread, CPU, category, cause and stack.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// First moment, ns (CLOCK_MONOTONIC).
    pub begin: u64,
    /// Last moment, ns.
    pub end: u64,
    /// The first moment, ns after 1970; 0: nobody said.
    pub realtime: u64,
    /// See [`Entry::thread`].
    pub threads: Vec<Thread>,
    /// See [`Entry::who`]; 0 is empty.
    pub whos: Vec<String>,
    /// See [`Function::module`]; 0 is the kernel.
    pub modules: Vec<Module>,
    /// See [`Frame::function`].
    pub functions: Vec<Function>,
    /// See [`Frame::line`]; 0 is empty.
    pub lines: Vec<String>,
    /// See [`Stack::frames`]; of a trace each is there once.
    pub frames: Vec<Frame>,
    /// See [`Entry::stack`]; 0 is empty.
    pub stacks: Vec<Stack>,
    /// Largest time first.
    pub entries: Vec<Entry>,
    /// Code of functions with many samples, by module and start.
    pub code: BTreeMap<(u32, u64), Vec<u8>>,
    /// Samples of the target.
    pub samples: u64,
    /// The sampling clock: `cpu-clock 199 Hz`, `cycles 199 Hz`; empty when there was none.
    pub clock: String,
    /// What the reader must know, a sentence each: lost samples, modules without symbols, cut stacks.
    pub notes: Vec<String>,
}

impl Profile {
    /// Sum of the entries, ns.
    pub fn time(&self) -> u64 {
        self.entries.iter().map(|e| e.time).sum()
    }

    /// The frames of a stack; none where there is no such stack.
    pub fn frames_of(&self, stack: u32) -> Frames<'_> {
        let places = self.stacks.get(stack as usize).map_or(&[][..], |s| &s.frames);
        Frames::new(places, &self.frames)
    }

    /// Adds a stack that is of no trace, and tells its place.
    pub fn push_stack(&mut self, frames: &[Frame], root: Root) -> u32 {
        let first = self.frames.len() as u32;
        self.frames.extend_from_slice(frames);
        self.stacks.push(Stack { frames: (first..self.frames.len() as u32).collect(), root });
        self.stacks.len() as u32 - 1
    }

    /// Sums by category, ns; what the account has.
    pub fn account(&self) -> BTreeMap<&'static str, u64> {
        let mut out = BTreeMap::new();
        self.entries.iter().for_each(|e| *out.entry(e.category.name()).or_default() += e.time);
        out
    }

    /// Keeps the entries that `keep` says yes to.
    #[must_use]
    pub fn filtered(mut self, keep: impl Fn(&Self, &Entry) -> bool) -> Self {
        let entries = std::mem::take(&mut self.entries);
        let kept = entries.into_iter().filter(|e| keep(&self, e)).collect();
        self.entries = kept;
        self
    }

    /// A state's own frame, as graphs and folded stacks show it below the stack's innermost
    /// function: `[block.device sda]`. `None` on a CPU, where the function tells.
    pub fn state(&self, entry: &Entry) -> Option<String> {
        let who = self.whos.get(entry.who as usize).map_or("", String::as_str);
        match entry.category {
            Category::Running => None,
            category if who.is_empty() => Some(format!("[{}]", category.name())),
            category => Some(format!("[{} {who}]", category.name())),
        }
    }
}
