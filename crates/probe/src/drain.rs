// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Moves what the rings hold into the trace writer.

use crate::host;
use crate::load::Loaded;
use crate::ring::{Piece, Tail};
use crate::select::call_number;
use crate::stacks::{Kallsyms, Kind, RawStack, Stacks};
use crate::symbols::Files;
use crate::trigger::Watch;
use plumb_trace::schema::{
    SchedExec, SchedFork, StateFile, StateSample, StateTask, StateWaitStack, StateWakerStack, SysEnter,
};
use plumb_trace::writer::{Sink, TraceWriter};
use plumb_trace::Record;
use std::collections::{HashMap, HashSet};
use std::io;
use std::time::{Duration, Instant};

/// The same descriptor is not asked for again within this time.
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// Descriptors that are remembered as asked for.
const MOST_FILES: usize = 65_536;

/// Reads all rings; keeps what it must remember between two rounds.
pub struct Drain {
    tails: Vec<Tail>,
    scratch: Vec<u8>,
    stacks: Stacks,
    files: Files,
    watch: Option<Watch>,
    everyone: bool,
    targets: HashSet<u32>,
    /// Calls whose first argument is a file that is synced.
    syncs: Vec<u32>,
    /// When the file behind a thread's descriptor was asked for last.
    asked: HashMap<(u32, u32), Instant>,
    /// Events lost so far.
    pub lost: u64,
}

/// What one round met.
#[derive(Debug, Default)]
pub struct Round {
    /// Fullest ring when it was read, 0 to 1.
    pub fill: f64,
    /// The trigger's condition came true, with the time that it took, ns.
    pub fired: Option<u64>,
}

impl Drain {
    /// Reads from the rings' beginning.
    pub fn new(cpus: u32, watch: Option<Watch>, everyone: bool, targets: &[u32]) -> Self {
        Self {
            tails: vec![Tail::default(); cpus as usize],
            scratch: Vec::new(),
            // Read now: it takes a while, and later the rings would fill meanwhile.
            stacks: Stacks::new(Kallsyms::load()),
            files: Files::default(),
            watch,
            everyone,
            targets: targets.iter().copied().collect(),
            syncs: ["fsync", "fdatasync", "sync_file_range"].iter().filter_map(|n| call_number(n)).collect(),
            asked: HashMap::new(),
            lost: 0,
        }
    }

    /// One pass over all rings.
    ///
    /// # Errors
    /// The sink's; what was read in this pass is lost then.
    pub fn round<S: Sink>(&mut self, loaded: &Loaded<'_>, writer: &mut TraceWriter<S>) -> io::Result<Round> {
        let mut round = Round::default();
        let mut execs = Vec::new();
        let mut synced = Vec::new();
        for (cpu, tail) in self.tails.iter_mut().enumerate() {
            let cpu = cpu as u32;
            let mut result = Ok(());
            let watch = &mut self.watch;
            let targets = &mut self.targets;
            let syncs = &self.syncs;
            let drained = loaded.ring(cpu).drain(tail, &mut self.scratch, |piece| {
                if result.is_err() {
                    return;
                }
                result = match piece {
                    Piece::Lost(events) => writer.lost(cpu, events),
                    Piece::Record(record) => {
                        match u16::from_le_bytes([record[8], record[9]]) {
                            SchedExec::ID => execs.push(SchedExec::read(record)),
                            SysEnter::ID => {
                                let enter = SysEnter::read(record);
                                if syncs.contains(&enter.nr) {
                                    synced.push((enter.tid, enter.arg0));
                                }
                            }
                            SchedFork::ID => {
                                let fork = SchedFork::read(record);
                                if fork.target == 1 {
                                    targets.insert(fork.child_tgid);
                                }
                            }
                            _ => {}
                        }
                        if let Some(took) = watch.as_mut().and_then(|w| w.look(record)) {
                            round.fired = round.fired.max(Some(took));
                        }
                        writer.record(cpu, record)
                    }
                };
            });
            result?;
            self.lost += drained.lost;
            let fill = drained.slots as f64 / loaded.slots() as f64;
            round.fill = round.fill.max(if drained.lost > 0 { 1.0 } else { fill });
        }
        for exec in execs {
            self.note_exec(&exec, writer)?;
        }
        synced.sort_unstable();
        synced.dedup();
        for (tid, fd) in synced {
            self.note_file(tid, fd, writer)?;
        }
        Ok(round)
    }

    /// Tells a new program's command line while its process is there to ask.
    fn note_exec<S: Sink>(&mut self, exec: &SchedExec, writer: &mut TraceWriter<S>) -> io::Result<()> {
        if !self.everyone && !self.targets.contains(&exec.tid) {
            return Ok(());
        }
        if let Some(task) = host::task(exec.tid, exec.tid).filter(|t| !t.cmdline.is_empty()) {
            writer.state(host::now(), &StateTask { target: 1, syscall: -2, ..task })?;
        }
        Ok(())
    }

    /// Tells which file a descriptor is while its process is there to ask; it may serve another later.
    fn note_file<S: Sink>(&mut self, tid: u32, fd: u32, writer: &mut TraceWriter<S>) -> io::Result<()> {
        let now = Instant::now();
        if self.asked.get(&(tid, fd)).is_some_and(|at| now - *at < ASK_AGAIN) {
            return Ok(());
        }
        if self.asked.len() >= MOST_FILES {
            self.asked.clear();
        }
        self.asked.insert((tid, fd), now);
        match std::fs::read_link(format!("/proc/{tid}/fd/{fd}")) {
            Ok(path) => {
                let path = path.to_string_lossy().into_owned();
                writer.state(host::now(), &StateFile { at: host::now(), thread: tid, fd, path })
            }
            Err(_) => Ok(()),
        }
    }

    /// Writes one stack record of the BPF ring buffer.
    ///
    /// # Errors
    /// The sink's.
    pub fn stack<S: Sink>(&mut self, bytes: &[u8], writer: &mut TraceWriter<S>) -> io::Result<()> {
        let Some(mut raw) = RawStack::parse(bytes) else { return Ok(()) };
        let (at, tid, cpu, kind) = (raw.end, raw.tid, raw.other, raw.kind);
        match kind {
            Kind::WaitUser => self.files.note(tid, &raw),
            Kind::WakerUser => {
                self.files.find_callers(&mut raw);
                if raw.frames.is_empty() {
                    return Ok(());
                }
                self.files.note(raw.other, &raw);
            }
            _ => {}
        }
        let mut stack = 0;
        if !raw.frames.is_empty() {
            let (number, new) = self.stacks.number(raw);
            if let Some(event) = new {
                writer.state(host::now(), &event)?;
            }
            stack = number;
        }
        let now = host::now();
        match kind {
            Kind::Wait | Kind::WaitUser => writer.wait(now, &StateWaitStack { end: at, waiter: tid, stack }),
            Kind::Waker | Kind::WakerUser => {
                let user = u8::from(kind.user());
                writer.wait(now, &StateWakerStack { at, wakee: tid, stack, user })
            }
            Kind::Sample => writer.wait(now, &StateSample { at, thread: tid, cpu, stack }),
        }
    }

    /// Names the user frames of all stacks; reads programs and libraries, so
    /// it is left to the end.
    ///
    /// # Errors
    /// The sink's.
    pub fn symbols<S: Sink>(&mut self, writer: &mut TraceWriter<S>) -> io::Result<()> {
        let now = host::now();
        self.files.symbols().iter().try_for_each(|symbol| writer.state(now, symbol))
    }

    /// The trigger, if there is one.
    pub fn watch(&self) -> Option<&Watch> {
        self.watch.as_ref()
    }
}
