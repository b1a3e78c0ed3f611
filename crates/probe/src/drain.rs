// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Moves what the rings hold into the trace writer.

use crate::host;
use crate::load::Loaded;
use crate::ring::{Piece, Tail};
use crate::stacks::{Kallsyms, RawStack, Stacks};
use crate::trigger::Watch;
use plumb_trace::schema::{SchedExec, SchedFork, StateTask, StateWaitStack};
use plumb_trace::writer::{Sink, TraceWriter};
use plumb_trace::Record;
use std::collections::HashSet;
use std::io;

/// Reads all rings; keeps what it must remember between two rounds.
pub struct Drain {
    tails: Vec<Tail>,
    scratch: Vec<u8>,
    stacks: Stacks,
    watch: Option<Watch>,
    everyone: bool,
    targets: HashSet<u32>,
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
            watch,
            everyone,
            targets: targets.iter().copied().collect(),
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
        for (cpu, tail) in self.tails.iter_mut().enumerate() {
            let cpu = cpu as u32;
            let mut result = Ok(());
            let watch = &mut self.watch;
            let targets = &mut self.targets;
            let drained = loaded.ring(cpu).drain(tail, &mut self.scratch, |piece| {
                if result.is_err() {
                    return;
                }
                result = match piece {
                    Piece::Lost(events) => writer.lost(cpu, events),
                    Piece::Record(record) => {
                        match u16::from_le_bytes([record[8], record[9]]) {
                            SchedExec::ID => execs.push(SchedExec::read(record)),
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

    /// Writes one stack record of the BPF ring buffer.
    ///
    /// # Errors
    /// The sink's.
    pub fn stack<S: Sink>(&mut self, bytes: &[u8], writer: &mut TraceWriter<S>) -> io::Result<()> {
        let Some(raw) = RawStack::parse(bytes) else { return Ok(()) };
        let (end, waiter) = (raw.end, raw.tid);
        let (stack, new) = self.stacks.number(raw);
        if let Some(event) = new {
            writer.state(host::now(), &event)?;
        }
        writer.wait(host::now(), &StateWaitStack { end, waiter, stack })
    }

    /// The trigger, if there is one.
    pub fn watch(&self) -> Option<&Watch> {
        self.watch.as_ref()
    }
}
