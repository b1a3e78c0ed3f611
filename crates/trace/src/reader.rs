// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a trace: checks every packet, merges the streams in time order, tells
//! what was lost and what is damaged. Never panics on bad bytes; memory does
//! not grow with the trace.

mod ahead;
mod cursor;
mod follow;
mod merge;
mod stacks;
mod stated;
mod telling;

use crate::ctf::{Metadata, HEAD_BYTES};
use crate::schema::{
    LoadBegin, LoadEnd, StateClock, StateCode, StateCounter, StateCpuSample, StateDisk, StateEnd, StateFile,
    StateFunction, StateModule, StateMount, StateOpen, StatePause, StateProbe, StateService, StateSocket,
    StateSpan, StateSpanText, StateStack, StateSymbol, StateSymbols, StateTask, StateText, StateTimex,
    StateTrigger, StateWaitEvent, StateWaitStack, StateWakerStack,
};
use crate::writer::Stream;
use cursor::{Cursor, Packets};
use merge::Merge;
use stated::Stated;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use telling::Telling;

pub use follow::{Following, News, Published, Unordered};
pub use stacks::{UserStack, UserStacks};

/// How many stacks, samples and texts a packet of [`Stream::Waits`] holds.
pub fn moments(packet: &[u8]) -> u64 {
    let mut rest = packet.get(HEAD_BYTES..).unwrap_or_default();
    std::iter::from_fn(|| telling::moment(&mut rest)).count() as u64
}

/// Why a trace cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory cannot be read.
    #[error("{path}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The metadata file is not one that this program can read.
    #[error("{path}: not a trace that this program can read: {why}")]
    Metadata {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// There is no stream in the directory.
    #[error("{0}: no cpu_N file in it, so it holds no events; was the recording cut off at once?")]
    Empty(PathBuf),
}

/// A place in a trace that could not be read; what follows it in its file is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// File name.
    pub file: String,
    /// Byte offset.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at byte {}: {}", self.file, self.offset, self.what)
    }
}

/// An interval of one CPU in which events are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// CPU.
    pub cpu: u32,
    /// Time of the last event before it, ns.
    pub begin: u64,
    /// Time of the first event after it, ns.
    pub end: u64,
    /// Events lost; 0 when a damaged file does not tell.
    pub lost: u64,
}

/// One record where it lies.
#[derive(Debug, Clone, Copy)]
pub struct RawRecord<'a> {
    /// When, ns.
    pub ts: u64,
    /// Which event.
    pub id: u16,
    /// CPU.
    pub cpu: u32,
    /// Thread on the CPU, 0 is idle.
    pub tid: u32,
    /// The whole record, 32 or 64 bytes.
    pub bytes: &'a [u8],
}

/// What a trace consists of, in the order of time.
#[derive(Debug, Clone, Copy)]
pub enum Item<'a> {
    /// An event.
    Record(RawRecord<'a>),
    /// Missing events; told before the record that ends it.
    Gap(Gap),
    /// What the recorder told, up to 2 s before its time.
    Told(&'a Told),
    /// What a workload's thread told of its operations. It belongs to no CPU, and
    /// behind events of the kernel that have the same time.
    Operation(Operation),
}

/// What a workload's thread tells of its operations.
#[derive(Debug, Clone, Copy)]
pub enum Operation {
    /// One begins.
    Begin(LoadBegin),
    /// One ends.
    End(LoadEnd),
    /// Some of what it told is missing: which operations are open is not known.
    Lost {
        /// The thread.
        tid: u32,
        /// Events lost; 0 when a damaged file does not tell.
        lost: u64,
    },
}

/// What the recorder tells beside the kernel's records, as far as a reader needs it on the way: of single moments, and
/// of what holds from then on, which is in [`State`] as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// A thread at the beginning, or a process of the target as it came.
    Task(StateTask),
    /// A call stack of the kernel.
    Stack(StateStack),
    /// A file that is synced.
    File(StateFile),
    /// A file that the target had open at the beginning.
    Open(StateOpen),
    /// A socket that it had open at the beginning.
    Socket(StateSocket),
    /// The unit or container that a process is in.
    Service(StateService),
    /// A kind of span.
    Span(StateSpan),
    /// Nothing was recorded for a while; a gap of each CPU follows at its begin.
    Pause(StatePause),
    /// The stack on which a thread waited long.
    Wait(StateWaitStack),
    /// Where the thread was that ended a long wait.
    Waker(StateWakerStack),
    /// What a CPU was at.
    Sample(StateCpuSample),
    /// The text that names a span.
    SpanText(StateSpanText),
}

/// What holds for the whole trace.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Threads at the beginning, and processes of the target as they came.
    pub tasks: Vec<StateTask>,
    /// Block devices.
    pub disks: Vec<StateDisk>,
    /// Mounts.
    pub mounts: Vec<StateMount>,
    /// Clock readings.
    pub clocks: Vec<StateClock>,
    /// Call stacks.
    pub stacks: Vec<StateStack>,
    /// What each BPF program did and missed.
    pub probes: Vec<StateProbe>,
    /// Readings of the kernel's counters.
    pub counters: Vec<StateCounter>,
    /// Files that were synced.
    pub files: Vec<StateFile>,
    /// Sockets that the target had open at the beginning.
    pub sockets: Vec<StateSocket>,
    /// Files that it had open then past the cache, or durable at each write.
    pub open: Vec<StateOpen>,
    /// Functions of programs and libraries, as traces before user stacks had modules told them.
    pub symbols: Vec<StateSymbol>,
    /// Files and other sources of user code.
    pub modules: Vec<StateModule>,
    /// Call stacks of user code. Shared, as they are most of what a long recording tells.
    pub user_stacks: Arc<UserStacks>,
    /// Functions at the places that stacks name.
    pub functions: Vec<StateFunction>,
    /// What was found of each module's symbols.
    pub named: Vec<StateSymbols>,
    /// Code of functions with many samples.
    pub code: Vec<StateCode>,
    /// Kinds of spans.
    pub spans: Vec<StateSpan>,
    /// Texts that name spans.
    pub texts: Vec<StateText>,
    /// What programs' numbers of waits mean.
    pub wait_events: Vec<StateWaitEvent>,
    /// What froze a flight recorder.
    pub triggers: Vec<StateTrigger>,
    /// When nothing was recorded.
    pub pauses: Vec<StatePause>,
    /// How the clock was steered, each time when the clocks were read.
    pub timex: Vec<StateTimex>,
    /// The units and containers that processes are in.
    pub services: Vec<StateService>,
    /// The end; missing when the recorder was killed.
    pub end: Option<StateEnd>,
    /// State events read, those of single moments not among them.
    pub events: u64,
}

/// What a pass over a trace met.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Records handed out.
    pub records: u64,
    /// Wait stacks and samples handed out.
    pub waits: u64,
    /// Begins and ends of a workload's operations handed out.
    pub operations: u64,
    /// Of those, lost as far as it is known.
    pub operations_lost: u64,
    /// Gaps handed out.
    pub gaps: Vec<Gap>,
    /// What could not be read.
    pub damage: Vec<Damage>,
    /// Time of the first record, ns.
    pub begin: u64,
    /// Time of the last record, ns.
    pub end: u64,
}

impl Summary {
    /// Events of the kernel lost, as far as it is known.
    pub fn lost(&self) -> u64 {
        self.gaps.iter().fold(0, |all, g| g.lost.saturating_add(all))
    }
}

/// An opened trace.
#[derive(Debug)]
pub struct Trace {
    dir: PathBuf,
    /// What the metadata file says.
    pub metadata: Metadata,
    /// What holds for the whole trace.
    pub state: State,
    /// Damage met in the state stream.
    pub damage: Vec<Damage>,
    cpus: Vec<u32>,
    loads: Vec<Stream>,
}

/// What the metadata file of a trace says.
fn metadata(dir: &Path) -> Result<Metadata, Error> {
    let path = dir.join("metadata");
    match std::fs::read(&path) {
        Ok(bytes) => {
            Metadata::decode(&String::from_utf8_lossy(&bytes)).map_err(|why| Error::Metadata { path, why })
        }
        Err(source) => Err(Error::Io { path, source }),
    }
}

impl Trace {
    /// Opens the trace in `dir` (or in `dir/trace`, so that a run directory serves too).
    ///
    /// # Errors
    /// Not a trace, of another schema, or unreadable.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let dir = if dir.join("metadata").exists() { dir.to_path_buf() } else { dir.join("trace") };
        let metadata = metadata(&dir)?;
        let mut trace = Self::without_state(dir, metadata)?;
        trace.read_state();
        Ok(trace)
    }

    /// The trace of a directory, of whose state nothing was read.
    fn without_state(dir: PathBuf, metadata: Metadata) -> Result<Self, Error> {
        let names: Vec<String> = std::fs::read_dir(&dir)
            .map_err(|source| Error::Io { path: dir.clone(), source })?
            .filter_map(|e| e.ok()?.file_name().into_string().ok())
            .collect();
        let mut cpus: Vec<u32> = names.iter().filter_map(|n| n.strip_prefix("cpu_")?.parse().ok()).collect();
        cpus.sort_unstable();
        if cpus.is_empty() {
            return Err(Error::Empty(dir));
        }
        let mut loads: Vec<Stream> = names.iter().filter_map(|n| Stream::load_of_file(n)).collect();
        loads.sort_unstable();
        Ok(Self { dir, metadata, state: State::default(), damage: Vec::new(), cpus, loads })
    }

    /// CPUs that have a stream.
    pub fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    /// Time of the first event of each CPU's stream, ns.
    pub fn first_events(&self) -> Vec<u64> {
        let first =
            |cpu: &u32| Packets::open(&self.dir, Stream::Cpu(*cpu)).ok()?.next().map(|head| head.begin);
        self.cpus.iter().filter_map(first).collect()
    }

    fn read_state(&mut self) {
        let Ok(mut packets) = Packets::open(&self.dir, Stream::State) else { return };
        while let Some(head) = packets.next() {
            let mut input = &packets.buf[HEAD_BYTES..head.content as usize];
            while !input.is_empty() {
                match Stated::take(&mut input) {
                    Some((_, event)) => self.state.push(event),
                    None => {
                        packets.damaged("state event cut off or unknown");
                        break;
                    }
                }
            }
        }
        self.damage.append(&mut packets.damage);
    }

    /// Hands out everything in the order of time. A thread of its own reads ahead.
    ///
    /// # Errors
    /// A stream file cannot be opened; damage inside is reported in the summary.
    pub fn for_each(&self, f: impl FnMut(Item<'_>)) -> Result<Summary, Error> {
        let mut cursors = Vec::new();
        // The CPUs first: of what has the same time, the kernel's comes first.
        for stream in self.cpus.iter().map(|cpu| Stream::Cpu(*cpu)).chain(self.loads.iter().copied()) {
            let packets = Packets::open(&self.dir, stream)
                .map_err(|source| Error::Io { path: self.dir.join(stream.file_name()), source })?;
            cursors.push(Cursor::of(packets, stream, self.metadata.machine()));
        }
        let summary = Summary { damage: self.damage.clone(), begin: u64::MAX, ..Default::default() };
        let begin = self.state.end.as_ref().map_or(0, |end| end.begin);
        let mut merge = Merge::new(cursors, Telling::open(&self.dir), begin, summary);
        Ok(ahead::for_each(&mut merge, f))
    }
}
